"""Parts made of the wrong things are refused in one sentence, where they are made or before the first step."""

import numpy as np
import pytest

import metastable as ms
from metastable.equation.norms import HeadNorm, LayerNorm, RMSNorm
from metastable.equation.weights import Stack
from metastable.solve.plan import make_plan


def broken(i, n):
    return 1 / 0


WRONG = {
    "Mask.visible": (lambda v: ms.Mask(v), [3, "causal", np.eye(2)]),
    "Mask.interval": (lambda v: ms.Mask(None, v), [3, "x", [0, 1]]),
    "Mask.by_time": (lambda v: ms.Mask(None, by_time=v), [3, np.eye(2)]),
    "Mask.name": (lambda v: ms.Mask(None, name=v), [3, np.eye(2), None]),
    "window": (ms.masks.window, [10**400, -1, 2.5, "3", True]),
    "Normalisation.rows": (lambda v: ms.Normalisation(v), [3, "softmax"]),
    "Normalisation.stochastic": (lambda v: ms.Normalisation(lambda s, m: s, stochastic=v), ["yes", 1, None]),
    "Score.name": (lambda v: ms.Score(lambda q, k, beta: q, name=v), [3, np.eye(2)]),
    "Geometry.retract": (lambda v: ms.Geometry(retract=v), [3, "sphere"]),
    "Geometry.codimension": (lambda v: ms.Geometry(codimension=v), ["one", -1, np.nan]),
    "LayerNorm.eps": (lambda v: LayerNorm(eps=v), [-1e-5, np.nan, "small", 1j, b"a", object()]),
    "RMSNorm.eps": (lambda v: RMSNorm(eps=v), [-1.0, np.inf, [1.0], 10**400]),
    "HeadNorm.eps": (lambda v: HeadNorm(eps=v), [None, np.array([1.0, 2.0])]),
    "Block.residual": (lambda v: ms.Block(residual=v), [np.nan, "1", None, 1j]),
    "Block.order": (lambda v: ms.Block(order=v), [np.zeros(2), 3]),
    "Stack.dt": (lambda v: Stack(np.zeros((2, 1, 2, 2)), v), [0.0, -1.0, np.nan, "1"]),
}


@pytest.mark.parametrize("field", WRONG)
def test_one_sentence(field):
    make, values = WRONG[field]
    for value in values:
        with pytest.raises(ms.InputError) as found:
            make(value)
        assert "\n" not in str(found.value)
        assert len(str(found.value)) < 260


def test_an_interval_that_fails_is_told_before_the_run():
    with pytest.raises(ms.InputError, match="interval of the mask 'custom' could not be had for n = 4: division"):
        make_plan(ms.Dynamics(mask=ms.Mask(None, broken)), ms.initial.sphere(4, 2), t=1.0)


def test_numbers_of_numpy_and_of_arrays_are_numbers():
    assert float(RMSNorm(eps=np.float32(0.5)).eps) == 0.5
    assert ms.Block(residual=np.array(0.5)).residual == 0.5


@pytest.mark.parametrize("name", ["mask", "normalise", "score", "noise_kind", "geometry", "position"])
def test_a_part_of_another_kind_is_no_function(name):
    """A Normalisation is called like a function of two arguments; as a mask it was taken for one."""
    for other in (ms.normalise.SOFTMAX, ms.masks.CAUSAL, ms.scores.DOT, ms.noises.COMMON, ms.geometry.SPHERE):
        if type(other) is not type(getattr(ms.Dynamics(), name)):
            with pytest.raises(ms.InputError):
                ms.Dynamics(**{name: other})
