"""A hunt of several chains finds the same wherever they run."""

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.hunt import Rules, hunt

RULES = Rules(n=4, d=2, batch=8, elite=2)


@pytest.mark.slow
def test_chains_share_the_budget_and_are_resumed(tmp_path):
    report = hunt(RULES, tmp_path / "two", instances=16, chains=2)
    assert report.instances == 16
    assert sorted(p.name for p in (tmp_path / "two").glob("chain-*")) == ["chain-000", "chain-001"]
    alone = hunt(RULES, tmp_path / "one", instances=8)
    first = (tmp_path / "two" / "chain-000" / "rounds" / "round-00000.npz").read_bytes()
    assert alone.instances == 8
    again = hunt(RULES, tmp_path / "two", instances=16, chains=2)
    assert again.instances == 16
    assert (tmp_path / "two" / "chain-000" / "rounds" / "round-00000.npz").read_bytes() == first
    with pytest.raises(InputError, match="another hunt"):
        hunt(RULES, tmp_path / "two", instances=16)


@pytest.mark.slow
def test_chains_on_a_cluster_find_the_same(tmp_path):
    pytest.importorskip("distributed")
    here = hunt(RULES, tmp_path / "here", instances=16, chains=2)
    there = hunt(RULES, tmp_path / "there", instances=16, chains=2, jobs=2, cluster="local")
    assert there.instances == here.instances == 16
    rounds = sorted(p.relative_to(tmp_path / "here") for p in (tmp_path / "here").rglob("round-*.npz"))
    assert len(rounds) == 2
    for one in rounds:
        with np.load(tmp_path / "here" / one) as mine, np.load(tmp_path / "there" / one) as theirs:
            assert sorted(mine) == sorted(theirs)
            assert all(np.array_equal(mine[name], theirs[name]) for name in mine if name != "seconds")


def test_one_chain_has_nothing_to_share_out(tmp_path):
    with pytest.raises(InputError, match="nothing to share out"):
        hunt(RULES, tmp_path / "hunt", instances=8, cluster="local")
