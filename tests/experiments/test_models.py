"""Figs 1, 2, 7 and 10 on models: small random ones here, the zoo's where the package registry is in reach."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.experiments import (
    head_eigenvalues,
    model_access,
    model_controls,
    model_dynamics,
    model_eigenspaces,
    model_heads,
    model_ranks,
    model_residual,
    model_similarity,
    model_simplex,
    model_spectra,
    normality,
    simplex,
)
from metastable.experiments.base import Work
from metastable.experiments.run_one import run_into
from metastable.models import zoo

ALL = (
    *(model_similarity, model_heads, model_controls, model_dynamics, model_spectra),
    *(model_residual, model_ranks, model_simplex),
)
TEXTS = [[3, 17, 5, 41, 17, 2, 8, 3, 29, 11], [4, 4, 9, 30, 2, 2, 17], [44, 1, 6, 6, 12, 13], [9, 8, 7, 6, 5, 9, 9]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    import torch
    import transformers as tf

    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = tf.AlbertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=64,
        embedding_size=8,
    )
    folder = tmp_path_factory.mktemp("albert")
    tf.AlbertModel(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def tiny(saved: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(model_access, "texts_of", lambda name, first, count: TEXTS[first : first + count])
    return saved


def small(module: Any, name: str) -> Any:
    known = {
        model_similarity: {"layers": 6, "instances": 4},
        model_heads: {"instances": 4, "others": ()},
        model_controls: {"instances": 3, "seeds": 2, "layers": 6},
        model_dynamics: {"instances": 3, "n": 12, "head": 1, "top": 2},
        model_spectra: {},
        model_residual: {"instances": 3, "layers": 4, "strengths": (0.0, 0.5, 1.0)},
        model_ranks: {"instances": 3},
        model_simplex: {"instances": 2, "texts": 2, "classes": 3},
    }
    return module.Params(model=name, **known[module])


@pytest.mark.parametrize(
    "module", [pytest.param(m, marks=pytest.mark.slow) if m in (model_similarity, model_heads) else m for m in ALL]
)
def test_run_judge_draw(module: Any, tiny: str, tmp_path: Path) -> None:
    params = small(module, tiny)
    data = module.run(params, Work(tmp_path))
    again = module.run(params, Work(tmp_path))  # from the parts on disk
    assert set(again) == set(data)
    assert all(v.dtype != object for v in data.values())
    verdicts = module.judge(params, data)
    assert verdicts
    assert all(v.kind in ("observation", "reading") or v.status == "holds" for v in verdicts)
    figures = module.EXPERIMENT.draw(params, data)
    assert figures
    assert all(figure.axes for figure in figures.values())


@pytest.mark.parametrize("module", ALL)
def test_without_a_model_it_is_skipped_with_a_sentence(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise InputError("Pretrained models need more packages; install them.")

    monkeypatch.setattr(model_access, "model_of", missing)
    record = run_into(module.EXPERIMENT, tmp_path / "out", "quick")
    assert [v.status for v in record.verdicts] == ["not measured"]
    assert "Pretrained models need more packages" in record.verdicts[0].notes
    assert not record.failed
    assert record.figures == ()


@pytest.mark.parametrize("module", [model_similarity, model_heads, model_controls, model_spectra])
def test_other_models_that_are_missing_do_not_stop_the_first(
    module: Any, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = replace(small(module, tiny), others=("no-such-model",))
    real = model_access.model_of

    def some(name: str) -> Any:
        if name != tiny:
            raise InputError("not in reach.")
        return real(name)

    monkeypatch.setattr(model_access, "model_of", some)
    assert not any("no-such-model" in key for key in module.run(params, Work())), "nothing beside a model of one's own"
    monkeypatch.setattr(model_access, "ZOO", tiny)
    data = module.run(params, Work())
    *measured, last = module.judge(params, data)
    assert last.status == "not measured"
    assert "not in reach" in last.notes
    assert all(v.eligible > 0 for v in measured)
    assert model_access.why_skipped([*measured, last]) == ""
    assert module.draw(params, data)


@pytest.mark.parametrize("module", [model_similarity, model_heads, model_controls, model_spectra])
def test_other_models_are_judged_beside_the_first(module: Any, tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_access, "ZOO", tiny)
    real = model_access.model_of
    monkeypatch.setattr(model_access, "model_of", lambda name: replace(real(tiny), name=name))
    params = replace(small(module, tiny), others=("its-twin",))
    verdicts = module.judge(params, module.run(params, Work()))
    own = {v.claim.replace(tiny, "its-twin"): v for v in verdicts if tiny in v.claim}
    twins = [v for v in verdicts if "its-twin" in v.claim]
    assert twins
    if module is not model_similarity:  # the first goes deeper than it was trained, its twin does not
        assert all(v.measured == own[v.claim].measured for v in twins)


def test_controls_are_judged_on_the_whole_zoo() -> None:
    """At the default size; the quick one measures the smallest alone."""
    assert set(model_access.names_of(model_controls.Params())) == set(zoo.MODELS)
    assert model_controls.EXPERIMENT.quick["others"] == ()


def test_one_loop_goes_over_a_model_and_its_companions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys stand behind names, progress is shared out, a companion that fails is skipped, the first is not."""

    def made(name: str) -> Any:
        if name == "absent":
            raise InputError("not in reach.")
        return name

    monkeypatch.setattr(model_access, "model_of", made)
    params = replace(model_spectra.Params(), others=("absent", "too-short", "last"))
    told = []

    def measure(model: Any, report: model_access.Report) -> Any:
        if model == "too-short":
            raise InputError("too few texts.")
        report(0.5, "half")
        return {"x": np.array(len(model))}

    data = model_access.every_model(params, Work(None, lambda share, text: told.append((share, text))), measure)
    first = model_access.ZOO
    reasons = {name: str(data[f"{name}/{model_access.SKIPPED}"]) for name in ("absent", "too-short")}
    assert reasons == {"absent": "not in reach.", "too-short": "too few texts."}
    assert model_access.own(data, "last") == {"x": 4}
    assert set(data) == {f"{first}/x", "last/x", *(f"{name}/{model_access.SKIPPED}" for name in reasons)}
    assert told == [(0.125, f"{first}: half"), (0.875, "last: half")]
    found = model_access.judged(model_access.names_of(params), data, "A claim", "nowhere", lambda name: [name])  # type: ignore[list-item]
    assert (found[0], found[3]) == (first, "last")
    assert [v.status for v in found[1:3]] == ["not measured"] * 2
    assert "too few texts" in found[2].notes
    monkeypatch.setattr(model_access, "model_of", lambda name: "too-short")
    with pytest.raises(InputError, match="too few"):
        model_access.every_model(params, Work(), measure)


def test_a_model_without_a_tokenizer_reads_random_tokens(saved: str) -> None:
    model = model_access.model_of(saved)
    texts = model_access.texts_of(model, 3, 2)
    assert [len(t) for t in texts] == [48, 48]
    assert texts[0] == model_access.texts_of(model, 0, 4)[3]


def _shares(end: float, between: float, texts: int = 24) -> dict[str, np.ndarray]:
    """Made-up data: share above 0.9 is ``end + between``, above 0.99 ``end``, at the last of three layers."""
    rng = np.random.default_rng(0)
    share = np.zeros((texts, 3, 2, 2))
    noise = 1.0 + 0.05 * rng.standard_normal(texts)[:, None]
    share[:, 2, :, 1] = end * noise
    share[:, 2, :, 0] = (end + between) * noise
    normal = np.broadcast_to([0.01, 0.2, 0.2, 0.2, 0.02], (texts, 5))
    return {
        "normality": normal,
        "share_above": share,
        "same_token_share": np.full((texts, 3, 2, 2), 0.5),
        "trained": np.array(1),
    }


def test_a_spike_is_told_from_none() -> None:
    params = model_similarity.Params(layers=2, others=())
    grown = [v.status for v in model_similarity.judge(params, _shares(0.03, 0.01))]
    assert grown == ["holds", "fails", "holds", "holds", "holds"]  # nothing yet at the trained depth
    flat = [v.status for v in model_similarity.judge(params, _shares(0.0, 0.3))][1:]
    assert flat == ["fails", "fails", "fails", "fails"]
    broad = _shares(0.0, 0.3) | {"normality": np.full((24, 5), 0.06)}
    assert model_similarity._normal(params, broad).status == "fails"
    uniform = normality.distance_from_normal(np.random.default_rng(0).uniform(size=4000))
    assert (
        uniform > model_similarity.NORMAL > normality.distance_from_normal(np.random.default_rng(0).normal(size=4000))
    )


def test_groups_of_heads_are_told_from_none() -> None:
    """Six heads in two groups of three, then six heads that have nothing to do with one another."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal((2, 8, 500))
    clear = np.concatenate(
        [base[0] + 0.1 * rng.standard_normal((3, 8, 500)), base[1] + 0.1 * rng.standard_normal((3, 8, 500))]
    )
    none = rng.standard_normal((6, 8, 500))
    params = model_heads.Params(instances=24, others=())
    for maps, status in ((clear, "holds"), (none, "fails")):
        each = np.stack([np.corrcoef(maps[:, fold]) for fold in range(8)])  # (folds, heads, heads)
        data = {
            "total": np.stack([each] * 2),
            "count": np.ones((2, 8, 6, 6)),
            "null": np.zeros((2, 6, 6)),
            "noise": np.full((2, 6, 6), 8 / 500),
            "layer": np.array([1, 2]),
        }
        assert model_heads._groups(params, data)[0].status == status


def test_a_sink_is_judged_against_its_baseline() -> None:
    rng = np.random.default_rng(0)
    mass = 0.3 + 0.01 * rng.standard_normal((24, 2, 4))
    for baseline, status in ((0.05, "holds"), (0.25, "fails")):
        found = model_heads._sink("m", {"m/mass": mass, "m/position": np.full((24, 2), baseline)})
        assert found[0].status == status


def _collapsing(largest: float, mixed: float, clusters: float) -> dict[str, np.ndarray]:
    """Made-up data of one model with two seeds of every control: at the last of three layers, raw and centred."""
    noise = 1.0 + 0.01 * np.random.default_rng(0).standard_normal((2, 24))
    data = {"m/depth": np.array(2)}
    for variant in ("trained", "init", "shuffle", "tokens"):
        known = variant in ("trained", "tokens")
        shape = (1 if variant == "trained" else 2, 24, 3, 2)
        for key in ("largest", "mixed_share", "mixed_clusters", "share_above"):
            data[f"m/{variant}/{key}"] = np.zeros(shape)
        data[f"m/{variant}/largest"][:, :, 2, 0] = (0.3 if known else largest) * noise[: shape[0]]
        data[f"m/{variant}/largest"][:, :, 2, 1] = 0.1 * noise[: shape[0]]
        data[f"m/{variant}/mixed_share"][:, :, 2, 1] = (0.4 if known else mixed) * noise[: shape[0]]
        data[f"m/{variant}/mixed_clusters"][:, :, 2, 1] = (clusters if known else 0.0) * noise[: shape[0]]
    return data


def _split(verdicts: list[Any]) -> tuple[list[str], list[str]]:
    return [v.status for v in verdicts[:4]], [v.status for v in verdicts[4:]]


def test_what_training_does_is_told_from_what_any_network_does() -> None:
    params = model_controls.Params(model="m")
    inherent, found = _split(model_controls.judge(params, _collapsing(0.96, 0.01, 5.0)))
    assert found == ["holds"] * 6
    assert inherent == ["holds", "fails", "holds", "holds"]  # raw, centred; then random tokens
    assert _split(model_controls.judge(params, _collapsing(0.1, 0.5, 5.0)))[0][:2] == ["fails", "holds"]
    nothing = _collapsing(0.96, 0.0, 5.0)
    for variant in ("trained", "tokens"):
        nothing[f"m/{variant}/mixed_share"][:] = 0.0
    inherent, _ = _split(model_controls.judge(params, nothing))
    assert inherent == ["holds", "trivial only", "holds", "trivial only"]
    other = model_controls.judge(params, _collapsing(0.5, 0.2, 1.0))[4:]
    assert [v.status for v in other] == ["fails", "fails", "fails", "fails", "fails", "holds"]
    assert other[0].instances == 24
    assert "trained 0.3" in other[0].notes
    missing = _collapsing(0.96, 0.01, 5.0)
    for variant in ("init", "shuffle"):  # all tokens have met, and nothing is left beside the mean direction
        missing[f"m/{variant}/mixed_share"][:, :, 2, 1] = np.nan
    assert _split(model_controls.judge(params, missing))[1] == ["holds"] * 6


def test_sets_that_keep_the_same_company_are_coherent() -> None:
    cosine = np.kron(np.eye(2), np.ones((4, 4)))
    assert model_eigenspaces.coherence(cosine, np.arange(4)) == 1.0
    assert model_eigenspaces.coherence(cosine, np.array([0, 4])) == 0.0
    rng = np.random.default_rng(0)
    data = {"eigenvectors": 0.5 + 0.1 * rng.normal(size=32), "mixed": 0.1 * rng.normal(size=400), "any": np.zeros(1)}
    params = model_eigenspaces.Params()
    assert model_eigenspaces._against(params, data, "mixed").status == "holds"
    assert (
        model_eigenspaces._against(params, data | {"eigenvectors": data["mixed"][:32] - 0.1}, "mixed").status == "fails"
    )


def test_a_simplex_is_told_from_other_points() -> None:
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    assert simplex.simplex_distance(3.0 * turned + 7.0) == pytest.approx(0.0, abs=1e-12)
    square = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    assert simplex.simplex_distance(square) > 0.3
    assert simplex.random_distance(4, 500, np.random.default_rng(0)) < 0.1


def test_existence_of_a_good_head() -> None:
    assert model_spectra._exists("c", [False, True, None], "").status == "holds"
    assert model_spectra._exists("c", [False, None], "").status == "undecided"
    assert model_spectra._exists("c", [False, False], "").status == "fails"


def test_leading_eigenvalues_make_a_real_matrix() -> None:
    values = np.array([-3.0, 1 + 2j, 1 - 2j, 0.5])
    assert head_eigenvalues.leading(values, 3).tolist() == [-3.0, 1 + 2j, 1 - 2j]
    assert head_eigenvalues.leading(values, 2).tolist() == [-3.0, 0.5]
    with pytest.raises(InputError, match="top=2"):
        head_eigenvalues.leading(values[1:3], 1 + 2)


@pytest.mark.slow
@pytest.mark.network
def test_the_zoo_verdicts(tmp_path: Path) -> None:
    """On the reactions ALBERT: a spike only beyond the trained depth, weak groups, a sink, no good triple."""
    try:
        model_access.model_of(model_access.ZOO)
    except InputError as error:
        pytest.skip(str(error))
    found = {}
    for module in (model_similarity, model_heads, model_spectra):
        record = run_into(module.EXPERIMENT, tmp_path / module.EXPERIMENT.name, "quick")
        found[module.EXPERIMENT.name] = [v.status for v in record.verdicts]
    assert found["model-similarities"][1:3] == ["fails", "holds"]
    assert found["model-heads"][:3] == ["fails", "holds", "holds"]
    assert found["model-heads"][-1] == "holds"
    assert found["model-spectra"][:2] == ["fails", "fails"]
