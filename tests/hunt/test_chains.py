"""A hunt of several chains finds the same wherever they run."""

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


def test_one_chain_has_nothing_to_share_out(tmp_path):
    with pytest.raises(InputError, match="nothing to share out"):
        hunt(RULES, tmp_path / "hunt", instances=8, cluster="local")
