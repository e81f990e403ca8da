"""Every statistic again, from the library's plain outputs, by other means."""

from itertools import pairwise

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import heads, load, probe
from metastable.models.agreement import adjusted_rand, silhouette, wasserstein
from metastable.models.heads import correlation, cut, grouped
from metastable.models.layer_similarity import THRESHOLDS, centred_cosines, cluster_labels, cosines
from metastable.models.probe import sinks
from tests.models.conftest import IDS, plain

rng = np.random.default_rng(0)
TEXTS = [IDS, [3, 9, 9, 4], [7], *(rng.integers(0, 50, n).tolist() for n in (12, 25, 8, 6, 17, 9, 14))]


def loops(x, ids, centred):
    """Pairs one by one: [(cosine, same token)]."""
    unit = [v / np.linalg.norm(v) for v in x]
    if centred:
        mean = sum(unit)
        mean = mean / np.linalg.norm(mean)
        unit = [v - (v @ mean) * mean for v in unit]
        unit = [v / np.linalg.norm(v) for v in unit]
    pairs = [(i, j) for i in range(len(ids)) for j in range(i)]
    return [(float(unit[i] @ unit[j]), ids[i] == ids[j]) for i, j in pairs]


def flood(linked):
    """Connected components by flood fill."""
    left, count = set(range(len(linked))), 0
    while left:
        count += 1
        edge = [left.pop()]
        while edge:
            i = edge.pop()
            near = [j for j in left if linked[i][j]]
            left -= set(near)
            edge += near
    return count


@pytest.mark.parametrize("name", ["albert", "gpt2", "llama", "t5"])
def test_similarity(models, name):
    model = models[name]
    found = probe(model, TEXTS, measure=("similarity",), bins=40).similarity
    outputs = [plain(model, ids)[0] for ids in TEXTS]
    for l in range(4):
        for kind in ("raw", "centred"):
            here = found.sel(layer=l, kind=kind)
            usable = [(s[l], i) for s, i in zip(outputs, TEXTS) if len(i) > 1]
            pairs = [p for x, ids in usable for p in loops(x, ids, kind == "centred")]
            values = np.array([c for c, _ in pairs])
            same = np.array([s for _, s in pairs])
            assert int(here["pairs"]) == len(pairs)
            np.testing.assert_allclose(here["mean"], values.mean(), atol=1e-9)
            expected = np.histogram(values, bins=40, range=(-1, 1))[0]
            # two tokens without their mean direction are exactly opposite: rounding may put them off the edge
            expected[0] += np.sum(values < -1)
            expected[-1] += np.sum(values > 1)
            assert np.abs(here["counts"].values - expected).sum() <= 2
            np.testing.assert_allclose(here["same_token_base"], same.mean())
            for threshold in THRESHOLDS:
                there = here.sel(threshold=threshold)
                high = values > threshold
                np.testing.assert_allclose(there["share_above"], high.mean())
                if high.any():
                    np.testing.assert_allclose(there["same_token_share"], same[high].mean())
                else:
                    assert np.isnan(there["same_token_share"])


def test_cluster_count(models):
    model = models["albert"]
    found = probe(model, TEXTS, measure=("similarity",), layers=30).similarity
    counts = np.zeros(2)
    for ids in TEXTS:
        x = plain(model, ids, layers=30)[0][30]
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        counts += [flood((unit @ unit.T > t).tolist()) for t in THRESHOLDS]
    np.testing.assert_allclose(found["clusters"].sel(layer=30, kind="raw"), counts / len(TEXTS))
    np.testing.assert_allclose(found["cluster_share"].sel(layer=30, kind="raw"), counts / sum(map(len, TEXTS)))


def test_a_chain_is_one_cluster():
    angles = np.arange(40) * np.arccos(0.95)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)[rng.permutation(40)]
    assert set(cluster_labels(points @ points.T, 0.9)) == {0}


def test_tokens_without_direction_make_no_pair():
    cosine, kept = cosines(np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]))
    assert kept.tolist() == [True, False, True]
    np.testing.assert_allclose(cosine[0, 1], np.sqrt(0.5))
    same = np.ones((5, 3)) + 1e-9 * rng.standard_normal((5, 3))
    assert centred_cosines(same, cosines(same)[0], 1e-7)[1].sum() == 0  # collapsed to rounding
    opposite = np.array([[1.0, 0.0], [-1.0, 0.0]])
    np.testing.assert_array_equal(centred_cosines(opposite, cosines(opposite)[0], 1e-16)[0], [[1, -1], [-1, 1]])


@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-5, 1e-9])
def test_centred_cosines_of_close_tokens(spread):
    """A known answer at every distance: tokens around a common direction, opposite and at right angles to it."""
    side = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    x = np.concatenate([spread * side, np.ones((4, 1))], axis=1)
    cosine, kept = centred_cosines(x, cosines(x)[0], 2.2e-16)
    assert kept.all()
    np.testing.assert_allclose(cosine, side @ side.T, atol=1e-6)


def test_special_tokens_can_be_left_out(reactions):
    text = "CCO.CC(=O)O>>CCOC(C)=O"
    n = len(reactions.tokenizer.encode(text))
    kept, dropped = (probe(reactions, text, special=s) for s in (True, False))
    assert int(kept.similarity["pairs"][0, 0]) == n * (n - 1) // 2
    assert int(dropped.similarity["pairs"][0, 0]) == (n - 2) * (n - 3) // 2
    A = np.array(plain(reactions, reactions.tokenizer.encode(text))[1][4])[:, 1:-1, 1:-1].reshape(8, -1)
    np.testing.assert_allclose(dropped.heads["correlation"].sel(layer=5), np.corrcoef(A), atol=1e-9)


@pytest.mark.parametrize("name", ["albert", "mistral"])
def test_head_correlation(models, name):
    model = models[name]
    found = heads(model, TEXTS)
    for l in (1, 3):
        rows = []
        for ids in TEXTS:
            A = plain(model, ids)[1][l - 1]
            n = len(ids)
            i, j = np.arange(n)[:, None], np.arange(n)[None, :]
            seen = (j <= i) & (i - j <= 3) if name == "mistral" else np.ones((n, n), dtype=bool)
            rows.append(A[:, seen])
        np.testing.assert_allclose(found["correlation"].sel(layer=l), np.corrcoef(np.concatenate(rows, 1)), atol=1e-10)
    A = plain(model, TEXTS[0])[1][0]
    viewers = [sum(A[0, i, j] > 0 for i in range(10)) for j in range(10)]
    np.testing.assert_allclose(found["received"].sel(layer=1), A.sum(axis=1) / viewers, atol=1e-12)


def test_groups_and_their_stability():
    """Heads that copy one of three patterns are found again, whatever half of the texts is used."""
    from metastable.models.heads import FOLDS, Heads
    from metastable.models.stream import Text

    member = np.array([0, 1, 0, 2, 2, 1, 0])
    noise = np.random.default_rng(3)
    reducer = Heads(1, 7, ["full"], True)
    for number in range(3 * FOLDS):
        pattern = noise.random((3, 6, 6))[member]
        text = Text(number, np.arange(6), np.zeros(6, dtype=bool), range(6))
        reducer.attention(text, 1, pattern + 0.1 * noise.random((7, 6, 6)))
    found = reducer.result(["w"] * 6)
    assert adjusted_rand(found["group"].values[0], member) == 1.0
    assert int(found["groups"][0]) == 3
    assert float(found["stability"][0]) == 1.0
    assert float(found["silhouette"][0]) > 0.8


def test_a_head_that_never_varies_has_no_correlation():
    moment = np.array([[0.0, 0.0, 0.0], [0.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    C = correlation(moment)
    assert np.isnan(C[0]).all()
    np.testing.assert_allclose(C[1:, 1:], [[1.0, 0.5], [0.5, 1.0]])
    assert len(cut(C, 2)) == 3
    assert np.isnan(grouped(C[:2, :2])[1])


def test_one_pass_correlation_keeps_its_digits():
    """Maps that vary in the tenth digit only: sums of squares would lose everything."""
    from metastable.models.heads import Heads, merged

    values = 1.0 + 1e-10 * rng.standard_normal((3, 4000))
    values[1] += 0.5 * (values[0] - 1.0)
    reducer = Heads(1, 3, "full", True)
    for a, b in pairwise(range(0, 4001, 500)):
        reducer._merge(0, (a // 500) % 8, values[:, a:b])
    exact = np.corrcoef((values - 1.0) * 1e10)
    np.testing.assert_allclose(
        correlation(merged(reducer.count[0], reducer.mean[0], reducer.moment[0])), exact, atol=1e-4
    )


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_sinks_without_a_tokenizer(models, name):
    model = models[name]
    found = sinks(model, TEXTS)
    queries = sum(map(len, TEXTS))
    for l in (1, 3):
        mass = sum(plain(model, ids)[1][l - 1][:, :, 0].sum(axis=1) for ids in TEXTS) / queries
        np.testing.assert_allclose(found["mass"].sel(layer=l, kind="first"), mass, atol=1e-10)
    causal = sum(1 / (i + 1) for ids in TEXTS for i in range(len(ids))) / queries
    np.testing.assert_allclose(found["uniform"].sel(kind="first"), len(TEXTS) / queries)
    np.testing.assert_allclose(found["position"].sel(kind="first"), causal if name == "llama" else len(TEXTS) / queries)
    assert np.isnan(found["excess"].sel(kind="separator")).all()  # none is known, so none occurs


def test_sinks_by_class(reactions, reaction_strings):
    texts = reaction_strings[400:403]
    found = probe(reactions, texts, measure="sinks").sinks
    total, queries = np.zeros((8, 3)), 0
    for text in texts:
        ids = reactions.tokenizer.encode(text)
        words = reactions.tokenizer.words(ids)
        A = plain(reactions, ids)[1][6]
        classes = [[0], [len(ids) - 1], [j for j, w in enumerate(words) if w in (".", ">>")]]
        total += np.stack([A[:, :, c].sum(axis=(1, 2)) for c in classes], axis=1)
        queries += len(ids)
    np.testing.assert_allclose(found["mass"].sel(layer=7), total / queries, atol=1e-9)


def test_measures_are_checked(models):
    with pytest.raises(InputError, match="did you mean 'sinks'"):
        probe(models["bert"], [IDS], measure=("sink",))
    with pytest.raises(InputError, match="bins must be a whole number"):
        probe(models["bert"], [IDS], bins=0)
    with pytest.raises(InputError, match="cannot be run to 5"):
        probe(models["bert"], [IDS], layers=5)
    with pytest.raises(InputError, match="layers must be a whole number"):
        probe(models["bert"], [IDS], layers=0)


def test_first_text_as_a_trajectory(models):
    found = probe(models["albert"], TEXTS, layers=7)
    assert found.x.shape == (8, 10, 16)
    assert found.t.tolist() == list(range(8))
    assert found.attention(0).shape == (4, 10, 10)
    assert found.observe("clusters").sizes["time"] == 8


def test_agreement():
    assert wasserstein(np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0])) == pytest.approx(1 / 6)
    assert adjusted_rand([0, 0, 0], [1, 1, 1]) == 1.0
    assert adjusted_rand([0, 1, 2], [0, 0, 0]) == 0.0
    assert silhouette(np.ones((3, 3)) - np.eye(3), np.array([0, 1, 2])) == 0.0


@pytest.mark.slow
@pytest.mark.network
def test_reactions_numbers_of_the_design(reaction_strings):
    """Measured before this code was written, on other reactions: the same picture."""
    found = probe("reactions-albert", reaction_strings[:8], layers=96, measure="similarity").similarity
    raw = found.sel(kind="raw")
    mean = raw["mean"].sel(layer=[0, 12, 48, 96]).values
    np.testing.assert_allclose(mean, [0.076, 0.194, 0.236, 0.225], atol=0.02)
    share = raw["share_above"].sel(layer=[0, 12, 48, 96], threshold=0.99).values
    assert share[0] == 0.0
    assert share[1] < 1e-3
    assert 0.005 < share[2] < share[3] < 0.05


@pytest.mark.slow
@pytest.mark.network
def test_smollm2_has_a_first_token_sink():
    from metastable.models import texts

    found = sinks("smollm2", list(texts("english", limit=4)))
    mean = found["mass"].sel(kind="first").mean("head")
    assert float(mean.max()) > 0.4 > 4 * float(found["position"].sel(kind="first"))


def test_a_decoder_is_measured_on_the_tokens_it_reads(folders):
    """Teacher forcing: a start token, then the text but its last; at layer 0 equal tokens are equal vectors."""
    model = load(folders["t5"], part="decoder")
    ids = [7, 9, 9, 30, 9, 12]
    found = probe(model, [ids])
    assert found.heads.word.values.tolist() == ["0", "7", "9", "9", "30", "9"]
    first = found.similarity.sel(layer=0, kind="raw", threshold=0.99)
    assert float(first["same_token_share"]) == 1.0
    assert float(first["share_above"]) == pytest.approx(3 / 15)  # three 9s among six tokens
    assert found.first == tuple(ids), "the text itself is what the model is run on again"
