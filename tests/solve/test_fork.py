"""A fork of a process that has computed would hang: it says so instead."""

import os
import signal

import pytest

import metastable as ms
from metastable.errors import InputError

X = ms.initial.sphere(4, 3)


def in_a_fork(work):
    """What the work answers in a forked child: the sentence of an InputError, or "done"; it must not hang."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            work()
            said = "done"
        except InputError as error:
            said = str(error)
        except BaseException as error:
            said = repr(error)
        os.write(into, said.encode())
        os._exit(0)
    os.close(into)
    with open(out) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_fork_after_a_run_says_so():
    dyn = ms.Dynamics()
    run = ms.simulate(dyn, X, t=0.2, save=2, engine="dense")
    rescaled = ms.simulate(ms.Dynamics(geometry="rescaled"), X, t=0.2, save=2)
    for work in (
        lambda: ms.simulate(dyn, X, t=0.2, save=2),
        lambda: ms.flow(dyn, X, [0.2]),
        lambda: dyn.attention(0.0, X),
        lambda: run.extend(0.4),  # which has its plan already
        lambda: run.at(0.13),
        lambda: rescaled.attention(-1),
        lambda: rescaled.coordinates(),
        lambda: ms.fit(dyn, X, X, over="beta", steps=2),
        lambda: ms.check(ms.Weights(V=[[1.0, 0.0], [0.0, -0.5]])),
    ):
        said = in_a_fork(work)
        assert f"forked from {os.getpid()} after JAX had started" in said
        assert "spawn" in said
    assert in_a_fork(lambda: ms.initial.sphere(5, 3)) == "done"
    ms.simulate(dyn, X, t=0.2, save=2, engine="dense")  # the parent goes on
