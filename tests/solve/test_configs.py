"""Roam the space of configurations: every one runs to finite numbers or is refused with a sentence."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metastable as ms
from metastable.equation import blocks, positions


@st.composite
def configurations(draw):
    d = draw(st.sampled_from([1, 2, 3]))
    n = draw(st.sampled_from([1, 4]))
    seed = draw(st.integers(0, 5))
    heads = draw(st.sampled_from([1, 1, 2]))
    family = draw(st.sampled_from(sorted(ms.weights.FAMILIES)))
    V = (
        np.stack([ms.weights.FAMILIES[family](max(d, 1), seed + h) for h in range(heads)])
        if family != "paranormal" or d > 1
        else None
    )
    Q = draw(st.sampled_from([None, "wide"]))
    Q = None if Q is None else np.random.default_rng(seed).standard_normal((heads, 2, d))
    parts = {
        "beta": draw(st.sampled_from([-3.0, 0.0, 1.0, 9.0, 1e6])),
        "normalise": draw(st.sampled_from(["softmax", "unnormalised", "hardmax", "sinkhorn"])),
        "mask": draw(st.sampled_from(["full", "causal", "window(1)"])),
        "geometry": draw(st.sampled_from(["sphere", "euclidean", "rescaled"])),
        "score": draw(st.sampled_from(["dot", "dot", "distance", "bounded"])),
        "noise": draw(st.sampled_from([0.0, 0.0, 0.3])),
        "position": draw(st.sampled_from([None, None, positions.alibi(heads)])),
        "block": draw(st.sampled_from([None, None, ms.Block(mlp=blocks.MLP(np.ones((2, d)), np.ones((d, 2))))])),
    }
    method = draw(st.sampled_from(["euler", "rk4", "tsit5", "layers"]))
    return (Q, Q, V), parts, method, ms.initial.sphere(n, d, seed=seed)


def run_or_refuse(config):
    (Q, K, V), parts, method, x0 = config
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = ms.simulate(ms.Dynamics(ms.Weights(Q, K, V), **parts), x0, t=2.0, save=3, method=method)
        except ms.InputError as refusal:
            run, said = None, str(refusal)
    if run is None:
        assert "\n" not in said
        assert len(said) > 20
        return
    assert np.isfinite(run.x).all()
    assert run.status in ("done", "stalled", "diverged")
    assert len(run.t) == len(run.x) >= (1 if run.status == "done" else 0)
    if len(run.t) and parts["normalise"] != "unnormalised":  # e^{1e6} is inf, and said so by the status
        assert np.isfinite(run.attention(0)).all()


@pytest.mark.slow
@settings(max_examples=6)
@given(configurations())
def test_every_config_runs_or_is_refused(config):
    run_or_refuse(config)


@pytest.mark.slow
@settings(max_examples=60)
@given(configurations())
def test_many_more_configs_run_or_are_refused(config):
    run_or_refuse(config)
