from pathlib import Path

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.hunt.instances import constrained, draw, exception, good_triple, read, shaken, write
from metastable.hunt.rules import SCORES, Rules
from tests.hunt import planted


@pytest.mark.parametrize("claim", ["codimension", "multi-head"])
@pytest.mark.parametrize("exceptions", [False, True])
def test_drawn_instances_satisfy_the_rules(claim, exceptions):
    rules = Rules(claim=claim, heads=1 if claim == "codimension" else 3, d=5, n=6, exceptions=exceptions)
    batch = draw(rules, 80, 3)
    assert len({int(k) for k in batch.grows.sum(axis=1)}) == 4  # k from 2 to 5
    for i in range(len(batch)):
        values = np.linalg.eigvals(batch.V()[i].sum(axis=0))
        order = np.sort(values.real)[::-1]
        assert order[0] == pytest.approx(1.0)
        assert (values.real > 0).sum() == batch.grows[i].sum()
        assert np.abs(order[1:]).min() >= rules.floor - 1e-9
        if batch.lead[i] == 1:
            assert order[1] <= 1.0 - rules.gap + 1e-9
            assert exception(batch, i) == ""
        else:
            assert order[1] == pytest.approx(1.0)
            assert "shared" in exception(batch, i)
        for G in batch.G[i]:
            least = np.linalg.eigvalsh((G + G.T) / 2)[0]
            kind = SCORES[batch.scores[i]]
            assert least > 0 or kind in ("good", "any")
            assert G[0, 0] > 0 or kind == "any"
            assert kind != "symmetric" or np.allclose(G, G.T)
        if batch.leads[i] == 0 and batch.lead[i] == 1:
            assert np.sort(np.abs(values))[-2] <= 1.0 - rules.gap + 1e-9
    assert (batch.lead > 1).any() == exceptions
    assert good_triple(batch).any()
    assert (~good_triple(batch)).any()


def test_drawing_is_repeatable_and_turns_differ():
    rules = Rules(seed=5)
    first, again, other = draw(rules, 4, 1), draw(rules, 4, 1), draw(rules, 4, 2)
    assert np.array_equal(first.z, again.z)
    assert not np.array_equal(first.z, other.z)


def test_the_margin_holds_whatever_is_asked_for():
    rules = Rules(d=3, n=8)
    batch = planted.plain()
    pushed = constrained(batch.__class__(**{**batch.arrays(), "a": np.array([[0.3, 5.0, 4.0]])}), rules)
    assert pushed.a.tolist() == [[1.0, 0.9, -0.2]]  # no nearer than the gap, and k is kept


def test_shaking_moves_tokens_or_weights():
    rules = Rules(d=3, n=8)
    copies, moved = shaken(planted.ring(), rules, 6, 0.01, 0)
    kept = planted.ring()
    assert moved.tolist() == [True] * 3 + [False] * 3
    assert np.array_equal(copies.G[moved], np.repeat(kept.G, 3, axis=0))
    assert np.array_equal(copies.z[~moved], np.repeat(kept.z, 3, axis=0))
    assert not np.array_equal(copies.G[3], kept.G[0])
    assert 0 < np.abs(copies.z[0] - kept.z[0]).max() < 0.1


def test_an_instance_survives_its_file(tmp_path):
    path = Path(tmp_path / "a.npz")
    write(path, planted.everything(), 1)
    back = read(path)
    assert all(np.array_equal(v, back.arrays()[k]) for k, v in planted.shared().arrays().items())
    stored = np.load(path)
    assert stored["V"].shape == (1, 3, 3)
    with pytest.raises(InputError, match="no file"):
        read(tmp_path / "b.npz")
    (tmp_path / "c.npz").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="no instance"):
        read(tmp_path / "c.npz")


@pytest.mark.parametrize(
    "wrong",
    [{"n": 3}, {"d": 1}, {"k": 9}, {"gap": 0.0}, {"floor": 0.95}, {"scores": "god"}, {"heads": 2}, {"batch": 4}],
)
def test_rules_refuse_nonsense(wrong):
    with pytest.raises(InputError):
        Rules(**wrong)
