"""Every way of summing gives the same run."""

import numpy as np
import pytest

import metastable as ms


@pytest.mark.parametrize("mask", [pytest.param("full", marks=pytest.mark.slow), "causal"])
def test_sums_agree(mask):
    x0 = ms.initial.sphere(700, 3, seed=1)
    dyn = ms.Dynamics(ms.Weights(V=np.diag([1.0, 0.5, -0.2])), beta=3.0, mask=mask)
    dense = ms.simulate(dyn, x0, t=0.4, dt=0.2, save=2, engine="dense")
    for engine in ("exact", "spectral"):
        run = ms.simulate(dyn, x0, t=0.4, dt=0.2, save=2, engine=engine)
        assert run.provenance["engine"] == engine
        assert np.abs(run.x - dense.x).max() < 1e-11
    assert dense.provenance["engine"] == "dense"


def test_what_only_dense_sums_can_do_stays_dense_and_impossible_wishes_are_refused():
    x0 = ms.initial.sphere(12, 3, seed=1)
    assert ms.simulate(ms.Dynamics(score="distance"), x0, t=0.1, save=1).provenance["engine"] == "dense"
    with pytest.raises(ms.InputError, match="did you mean 'spectral'"):
        ms.simulate(ms.Dynamics(), x0, engine="spectrall")
    with pytest.raises(ms.InputError, match="because"):
        ms.simulate(ms.Dynamics(score="distance"), x0, engine="exact")
    with pytest.raises(ms.InputError, match="chart"):
        ms.simulate(ms.Dynamics(geometry="rescaled"), x0, engine="spectral")


def test_a_run_says_how_its_sums_were_made_and_how_well():
    x = ms.initial.sphere(700, 3, seed=0)
    run = ms.simulate(ms.Dynamics(beta=2.0), x, t=0.2, save=2, engine="spectral")
    assert run.provenance["sums"]["calls"] == {"spectral": 8}
    assert 0 < run.provenance["sums"]["error"] < 1e-11
    assert "sums" not in ms.simulate(ms.Dynamics(), x[:5], t=0.2, save=2).provenance
