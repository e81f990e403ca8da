"""Every statistic again, from the library's plain outputs, by other means."""

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import heads, load, probe
from metastable.models.agreement import adjusted_rand, silhouette, wasserstein
from metastable.models.heads import FOLDS, LEAST_SILHOUETTE, Heads, averaged, cut, grouped
from metastable.models.layer_similarity import THRESHOLDS, beside_mean, cluster_labels, gram, unit_tokens
from metastable.models.probe import sinks
from metastable.models.reductions import map_moments
from metastable.models.stream import Text
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
    """Connected components by flood fill, as sets of tokens."""
    left, found = set(range(len(linked))), []
    while left:
        edge = [left.pop()]
        found.append(set(edge))
        while edge:
            i = edge.pop()
            near = [j for j in left if linked[i][j]]
            left -= set(near)
            found[-1] |= set(near)
            edge += near
    return found


def described(linked, ids):
    """Of one text's clusters: their number, those of two different tokens, tokens in those, tokens of the largest."""
    groups = flood(linked)
    mixed = [g for g in groups if len({ids[i] for i in g}) > 1]
    n, inside, most = len(ids), sum(map(len, mixed)), max(map(len, groups))
    return [len(groups), len(groups) / n, len(mixed), inside / n, most / n]


CLUSTERS = ("clusters", "cluster_share", "mixed_clusters", "mixed_share", "largest")


def in_pairs(values, n):
    """Cosines of pairs as a symmetric table of lists."""
    table = [[1.0] * n for _ in range(n)]
    left = iter(values)
    for i in range(n):
        for j in range(i):
            table[i][j] = table[j][i] = next(left)
    return table


@pytest.mark.parametrize("name", ["albert", "gpt2", "llama", "t5"])
def test_similarity(models, name):
    """Every statistic is that of each text, averaged over texts: they weigh the same, however long."""
    model = models[name]
    found = probe(model, TEXTS, measure=("similarity",), bins=40).similarity
    outputs = [plain(model, ids)[0] for ids in TEXTS]
    assert "weighs the same" in found.attrs["weighting"]
    for l in range(4):
        for kind in ("raw", "centred"):
            here = found.sel(layer=l, kind=kind)
            each = [(loops(s[l], i, kind == "centred"), i) for s, i in zip(outputs, TEXTS) if len(i) > 1]
            cosines = [np.clip([c for c, _ in pairs], -1, 1) for pairs, _ in each]  # two centred tokens are opposite
            same = [np.array([s for _, s in pairs]) for pairs, _ in each]
            assert int(here["pairs"]) == sum(map(len, cosines))
            assert int(here["texts"]) == len(each)
            np.testing.assert_allclose(here["mean"], np.mean([c.mean() for c in cosines]), atol=1e-9)
            np.testing.assert_allclose(here["same_token_base"], np.mean([s.mean() for s in same]))
            bars = [np.histogram(c, bins=40, range=(-1, 1))[0] for c in cosines]
            assert np.abs(here["counts"].values - np.sum(bars, axis=0)).sum() <= 2
            shares = np.mean([b / b.sum() for b in bars], axis=0)
            np.testing.assert_allclose(here["histogram"], shares, atol=2 / min(map(len, cosines)) / len(each) + 1e-12)
            for threshold in THRESHOLDS:
                there = here.sel(threshold=threshold)
                high = np.mean([(c > threshold).mean() for c in cosines])
                np.testing.assert_allclose(there["share_above"], high)
                both = np.mean([((c > threshold) & s).mean() for c, s in zip(cosines, same)])
                np.testing.assert_allclose(there["same_token_share"], both / high if high else np.nan)
                tables = [np.array(in_pairs(c, len(ids))) > threshold for c, (_, ids) in zip(cosines, each)]
                expected = np.mean([described(t.tolist(), ids) for t, (_, ids) in zip(tables, each)], axis=0)
                np.testing.assert_allclose([there[key] for key in CLUSTERS], expected)


def test_long_texts_weigh_no_more_than_short_ones(models):
    texts = [TEXTS[4], TEXTS[4], TEXTS[6]]
    alone = [probe(models["llama"], [ids], measure="similarity").similarity for ids in texts]
    found = probe(models["llama"], texts, measure="similarity").similarity
    for name in ("mean", "share_above", "histogram", "largest"):
        np.testing.assert_allclose(found[name], np.mean([one[name] for one in alone], axis=0), atol=1e-12)


def test_single_precision_agrees_with_a_double_precision_recomputation(folders):
    """Cosines from float32 states: the sums to 1e-6, and a pair may change sides only at an edge itself."""
    model = load(folders["albert"])
    found = probe(model, TEXTS)
    outputs = [plain(model, ids) for ids in TEXTS if len(ids) > 1]
    for kind in ("raw", "centred"):
        pairs = [np.array(loops(s[3], range(len(s[3])), kind == "centred"))[:, 0] for s, _ in outputs]
        here = found.similarity.sel(layer=3, kind=kind)
        np.testing.assert_allclose(here["mean"], np.mean([c.mean() for c in pairs]), atol=1e-6)
        above = np.mean([(c > 0.9).mean() for c in pairs])
        near = np.mean([(abs(c - 0.9) < 1e-6).mean() for c in pairs])
        assert abs(float(here["share_above"].sel(threshold=0.9)) - above) <= near + 1e-12
    expected = np.mean([np.corrcoef(maps[2].reshape(4, -1)) for _, maps in outputs], axis=0)
    np.testing.assert_allclose(found.heads["correlation"].sel(layer=3), expected, atol=1e-6)


def test_a_chain_is_one_cluster():
    angles = np.arange(40) * np.arccos(0.95)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)[rng.permutation(40)]
    assert set(cluster_labels(points @ points.T, 0.9)) == {0}


def test_tokens_without_direction_make_no_pair():
    u, kept = unit_tokens(np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [np.inf, 1.0], [np.nan, 1.0]]))
    assert kept.tolist() == [True, False, True, False, False]
    np.testing.assert_allclose(gram(u)[0, 1], np.sqrt(0.5))
    same = np.ones((5, 3)) + 1e-9 * rng.standard_normal((5, 3))
    assert beside_mean(unit_tokens(same)[0], 1e-7)[1].sum() == 0  # collapsed to rounding
    opposite = unit_tokens(np.array([[1.0, 0.0], [-1.0, 0.0]]))[0]
    np.testing.assert_array_equal(gram(beside_mean(opposite, 1e-16)[0]), [[1, -1], [-1, 1]])


@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-5, 1e-9])
def test_centred_cosines_of_close_tokens(spread):
    """A known answer at every distance: tokens around a common direction, opposite and at right angles to it."""
    side = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    x = np.concatenate([spread * side, np.ones((4, 1))], axis=1)
    u, kept = beside_mean(unit_tokens(x)[0], 2.2e-16)
    assert kept.all()
    for dtype in (np.float32, np.float64):
        np.testing.assert_allclose(gram(u, dtype), side @ side.T, atol=1e-6)


def test_tokens_that_have_met_have_no_centred_pair(models):
    found = probe(models["t5"], [[9, 9, 9, 9], [4, 8, 15, 16]], measure="similarity").similarity.sel(layer=0)
    assert found["texts"].values.tolist() == [2, 1]
    assert float(found["largest"].sel(kind="raw", threshold=0.99)) == pytest.approx(0.5 + 0.5 / 4)
    assert float(found["mixed_clusters"].sel(kind="raw", threshold=0.99)) == 0.0, "one token met four times"


@pytest.mark.slow
def test_special_tokens_can_be_left_out(reactions):
    text = "CCO.CC(=O)O>>CCOC(C)=O"
    n = len(reactions.tokenizer.encode(text))
    kept, dropped = (probe(reactions, text, special=s) for s in (True, False))
    assert int(kept.similarity["pairs"][0, 0]) == n * (n - 1) // 2
    assert int(dropped.similarity["pairs"][0, 0]) == (n - 2) * (n - 3) // 2
    A = np.array(plain(reactions, reactions.tokenizer.encode(text))[1][4])[:, 1:-1, 1:-1].reshape(8, -1)
    np.testing.assert_allclose(dropped.heads["correlation"].sel(layer=5), np.corrcoef(A), atol=1e-9)


def shown_to(name, n):
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    return (j <= i) & (i - j <= 3) if name == "mistral" else np.ones((n, n), dtype=bool)


@pytest.mark.parametrize("name", ["albert", "mistral"])
def test_head_correlation(models, name):
    model = models[name]
    found = heads(model, TEXTS)
    for l in (1, 3):
        each = []
        for ids in TEXTS:
            A = plain(model, ids)[1][l - 1][:, shown_to(name, len(ids))]
            if A.shape[1] > 1:
                each.append(np.corrcoef(A))
        np.testing.assert_allclose(found["correlation"].sel(layer=l), np.mean(each, axis=0), atol=1e-10)
    A = plain(model, TEXTS[0])[1][0]
    viewers = [sum(A[0, i, j] > 0 for i in range(10)) for j in range(10)]
    np.testing.assert_allclose(found["received"].sel(layer=1), A.sum(axis=1) / viewers, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["albert", "mistral"])
def test_shuffled_heads_have_the_moments_that_are_said_of_them(models, name):
    """Rows permuted at random, many times: mean and spread of the correlations are the exact ones."""
    ids, draws = TEXTS[4], np.random.default_rng(1)
    A = plain(models[name], ids)[1][1]
    seen = shown_to(name, len(ids))
    found = map_moments(A, seen)
    size = np.sqrt(np.outer(np.diag(found.moment), np.diag(found.moment)))
    shuffled = []
    for _ in range(1500):
        rows = [np.concatenate([draws.permutation(row[s]) for row, s in zip(head, seen)]) for head in A]
        shuffled.append(np.corrcoef(rows))
    apart = ~np.eye(4, dtype=bool)
    spread = np.sqrt(found.noise) / size
    assert np.abs(np.mean(shuffled, axis=0) - found.between / size)[apart].max() < 5 * spread.max() / np.sqrt(1500)
    np.testing.assert_allclose(np.std(shuffled, axis=0)[apart], spread[apart], rtol=0.1)


def text_of(number, n=6):
    return Text(number, np.arange(n), np.zeros(n, dtype=bool))


def test_groups_and_their_stability():
    """Heads that copy one of three patterns are found again, whatever half of the texts is used."""
    member = np.array([0, 1, 0, 2, 2, 1, 0])
    noise = np.random.default_rng(3)
    reducer = Heads(1, 7, ["full"], True)
    for number in range(3 * FOLDS):
        pattern = noise.random((3, 6, 6))[member]
        reducer.attention(text_of(number), 1, pattern + 0.1 * noise.random((7, 6, 6)))
    found = reducer.result(["w"] * 6)
    assert adjusted_rand(found["group"].values[0], member) == 1.0
    assert int(found["groups"][0]) == 3
    assert float(found["stability"][0]) == 1.0
    assert float(found["silhouette"][0]) > 0.8 > float(found["null_silhouette"][0])
    assert bool(found["has_groups"][0])


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_heads_with_nothing_in_common_form_no_groups(mask):
    """Linkage groups them all the same; neither threshold nor null lets that pass for groups.

    Under a causal mask rows of unequal length correlate all heads, the more the flatter they are.
    """
    noise = np.random.default_rng(4)
    reducer = Heads(1, 8, [mask], True)
    sharpness = np.array([0.1, 0.1, 0.1, 0.1, 3.0, 3.0, 3.0, 3.0])[:, None, None]
    for number in range(2 * FOLDS):
        A = np.exp(sharpness * noise.standard_normal((8, 12, 12))) * (
            np.tril(np.ones((12, 12))) if mask == "causal" else 1
        )
        reducer.attention(text_of(number, 12), 1, A / A.sum(axis=2, keepdims=True))
    found = reducer.result(["w"] * 12).isel(layer=0)
    apart = ~np.eye(8, dtype=bool)
    assert not bool(found["has_groups"])
    np.testing.assert_allclose(found["correlation"].values[apart], found["null_correlation"].values[apart], atol=0.1)
    if mask == "causal":
        assert float(found["silhouette"]) > LEAST_SILHOUETTE, "thresholds alone would have been deceived"


def test_a_head_that_never_varies_has_no_correlation():
    reducer = Heads(1, 3, ["full"], True)
    A = np.random.default_rng(0).random((3, 6, 6))
    A[0] = 1 / 6
    reducer.attention(text_of(0), 1, A)
    C = averaged(reducer.total[0], reducer.count[0])
    assert np.isnan(C[0]).all()
    np.testing.assert_allclose(C[1:, 1:], np.corrcoef(A.reshape(3, -1)[1:]))
    assert len(cut(C, 2)) == 3
    assert np.isnan(grouped(C[:2, :2])[1])


def test_correlations_keep_their_digits():
    """Maps that vary in the tenth digit only: sums of squares would lose everything."""
    values = 1.0 + 1e-10 * rng.standard_normal((3, 60, 60))
    values[1] += 0.5 * (values[0] - 1.0)
    found = map_moments(values, np.ones((60, 60), dtype=bool)).moment
    size = np.sqrt(np.outer(np.diag(found), np.diag(found)))
    np.testing.assert_allclose(found / size, np.corrcoef((values.reshape(3, -1) - 1.0) * 1e10), atol=1e-4)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_sinks_without_a_tokenizer(models, name):
    model = models[name]
    found = sinks(model, TEXTS)
    for l in (1, 3):
        mass = np.mean([plain(model, ids)[1][l - 1][:, :, 0].mean(axis=1) for ids in TEXTS], axis=0)
        np.testing.assert_allclose(found["mass"].sel(layer=l, kind="first"), mass, atol=1e-10)
    causal = np.mean([np.mean([1 / (i + 1) for i in range(len(ids))]) for ids in TEXTS])
    even = np.mean([1 / len(ids) for ids in TEXTS])
    np.testing.assert_allclose(found["uniform"].sel(kind="first"), even)
    np.testing.assert_allclose(found["position"].sel(kind="first"), causal if name == "llama" else even)
    assert np.isnan(found["excess"].sel(kind="separator")).all()  # none is known, so none occurs


@pytest.mark.slow  # fetches reactions
def test_sinks_by_class(reactions, reaction_strings):
    texts = reaction_strings[400:403]
    found = probe(reactions, texts, measure="sinks").sinks
    total = np.zeros((8, 3))
    for text in texts:
        ids = reactions.tokenizer.encode(text)
        words = reactions.tokenizer.words(ids)
        A = plain(reactions, ids)[1][6]
        classes = [[0], [len(ids) - 1], [j for j, w in enumerate(words) if w in (".", ">>")]]
        total += np.stack([A[:, :, c].sum(axis=(1, 2)) for c in classes], axis=1) / len(ids)
    np.testing.assert_allclose(found["mass"].sel(layer=7), total / len(texts), atol=1e-9)


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
    """Measured before this code was written, on other reactions and over all pairs alike: the same picture."""
    model, at = load("reactions-albert"), [0, 12, 48, 96]
    found = [
        probe(model, [text], layers=96, measure="similarity").similarity.sel(kind="raw")
        for text in reaction_strings[:8]
    ]
    lengths = np.array([len(model.tokenizer.encode(text)) for text in reaction_strings[:8]])
    pairs = lengths * (lengths - 1) / 2
    mean = np.average([one["mean"].sel(layer=at).values for one in found], axis=0, weights=pairs)
    np.testing.assert_allclose(mean, [0.076, 0.194, 0.236, 0.225], atol=0.02)
    raw = probe(model, reaction_strings[:8], layers=96, measure="similarity").similarity.sel(kind="raw")
    texts_alike = np.mean([one["mean"].sel(layer=at).values for one in found], axis=0)
    np.testing.assert_allclose(raw["mean"].sel(layer=at).values, texts_alike, atol=1e-6)
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
    assert float(mean.max()) > 0.4 > 4 * float(found["position"].sel(kind="first").max())


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
