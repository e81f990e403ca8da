"""Experiments on learning: closed forms, splits of texts, slopes, and the way from data to verdicts and pictures."""

import numpy as np
import pytest

from metastable.experiments import (
    best_system_verdicts,
    controlled_flows,
    experiment,
    fitted_systems,
    learned_mlps,
    model_best_system,
    optimal_control,
    optimised_mlp,
    sinks_in_training,
    sinks_in_training_verdicts,
)
from metastable.experiments import small_transformers as small
from metastable.experiments.base import Work, self_check
from metastable.theory.control_forms import best_compromise, constant_effort, least_effort, least_error_of_a_pair

pytest.importorskip("optax")
NAMES = ("optimal-control", "optimised-mlp", "best-particle-system", "sinks-in-training")


def planar_effort(theta: float, draws: int, seed: int) -> float:
    """The least effort of random constant V of the plane, scaled so that the token goes by theta in time 1."""
    rng = np.random.default_rng(seed)
    best = np.inf
    phi = np.linspace(0.0, theta, 400)
    for _ in range(draws):
        a, b, c = rng.normal(size=3) * (1.0, 0.6, 0.6)
        speed = a + b * np.cos(2 * phi) + c * np.sin(2 * phi)
        if speed.min() > 0:
            needed = np.trapezoid(1.0 / speed, phi)  # time at this speed: V times it takes time 1
            best = min(best, 2.0 * (a * a + b * b + c * c) * needed**2)
    return best


@pytest.mark.parametrize("theta", [0.7, 1.6, 2.6])
def test_no_constant_matrix_of_the_plane_is_cheaper_than_the_closed_form(theta: float) -> None:
    found = planar_effort(theta, 20_000, seed=1)
    assert constant_effort(theta) <= found * (1 + 1e-5) <= 1.03 * constant_effort(theta)


def test_efforts_have_their_limits() -> None:
    assert constant_effort(1e-3) == pytest.approx(1e-6, rel=1e-4)
    assert constant_effort(np.pi - 1e-9) == pytest.approx(2 * np.pi**2)
    efforts = [least_effort(2.5, pieces) for pieces in (1, 2, 4, 16)]
    assert efforts == sorted(efforts, reverse=True)
    assert least_effort(2.5) < efforts[-1] < 1.01 * least_effort(2.5)
    error, effort = best_compromise(2.0, 0.1)
    phi = np.sqrt(effort)  # where the slope of 4 sin^2((theta - phi)/2) + 0.1 phi^2 is zero
    assert 0.2 * phi == pytest.approx(2.0 * np.sin(2.0 - phi), abs=1e-6)
    assert error == pytest.approx(4.0 * np.sin((2.0 - phi) / 2) ** 2)


@pytest.mark.parametrize("opposite", [False, True])
def test_the_least_error_of_a_pair_is_the_least(opposite: bool) -> None:
    rng = np.random.default_rng(3)
    y, u = (
        v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (rng.normal(size=(2, 3)), rng.normal(size=(20000, 3)))
    )
    errors = np.square(u - y[0]).sum(-1) + np.square((-u if opposite else u) - y[1]).sum(-1)
    assert least_error_of_a_pair(y, opposite) <= errors.min() + 1e-12 < least_error_of_a_pair(y, opposite) + 0.01


def test_texts_that_are_judged_had_no_part_in_the_fit() -> None:
    texts = [(k // 3, [k, k]) for k in range(30)]
    train, stop, judged = model_best_system.split(texts, 12, 3, 8)
    sources = [{one[0] // 3 for one in part} for part in (train, stop, judged)]
    assert not (sources[0] & sources[1] | sources[0] & sources[2] | sources[1] & sources[2])
    assert len(judged) == 8
    few = model_best_system.split(texts[:12], 48, 12, 6)
    assert all(few)
    with pytest.raises(ValueError, match="too few to split in three"):
        model_best_system.split(texts[:2], 48, 12, 6)


def test_letters_are_the_shipped_text() -> None:
    text, alphabet = small.letters()
    assert len(text) > 5000
    assert "".join(alphabet[k] for k in text[:8]).strip()
    assert small.bigram_entropy(np.array([0, 1] * 50)) == pytest.approx(0.0, abs=1e-12)
    fair = np.random.default_rng(0).integers(0, 2, 20_000)
    assert small.bigram_entropy(fair) == pytest.approx(np.log(2.0), abs=1e-3)


def test_starts_are_as_their_task_says() -> None:
    params = experiment("optimised-mlp").params(each=200)
    fixed, anywhere = (learned_mlps.starts(params, task, range(2)) for task in ("fixed", "any"))
    means = [x.reshape(2, params.clouds, 200, params.d).mean(axis=2) for x in (fixed, anywhere)]
    assert np.abs(means[0][0] - means[0][1]).max() < 0.15 < np.abs(means[1][0] - means[1][1]).max()
    collapsed = np.ones((params.clouds * 200, params.d)) / np.sqrt(params.d)
    assert float(learned_mlps.separation(collapsed, learned_mlps.labels(params))) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_slopes_and_steps_agree_with_plain_formulas(name: str) -> None:
    made = experiment(name)
    assert len(self_check(made, made.params(**made.quick))) >= 2


TINY = {
    "optimal-control": {"instances": 3, "steps": 2, "weights": (0.1,), "pieces": (1, 2), "cloud": 4},
    "optimised-mlp": {"widths": (2, 3), "trainings": 1, "starts": 2, "steps": 2, "instances": 3, "saves": 5,
                      "t": 1.0, "longest": 2.0},
    "sinks-in-training": {"sizes": ((8, 1, 2),), "steps": 4, "checkpoints": (0, 4), "instances": 2, "batch": 2,
                          "window": 12, "measured": 2},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_a_tiny_run_is_judged_and_drawn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = experiment(name)
    params = made.params(**TINY[name])
    told: list[str] = []
    data = made.run(params, Work(None, lambda share, text: told.append(text)))
    verdicts = made.judge(params, data)
    assert verdicts
    assert all(v.status != "holds" for v in verdicts), "few instances decide nothing"
    figures = made.draw(params, data)
    finding = made.finding(params, data)
    assert finding.figure_title in figures
    assert all(getattr(figure, "caption", "") for figure in figures.values())
    assert told


def test_a_descent_that_has_not_come_to_rest_decides_nothing() -> None:
    params = optimal_control.Params(instances=24, weights=(0.1,), pieces=(1, 2))
    data: dict[str, np.ndarray] = {"groups": np.ones(3), "groups exact": np.ones(3)}
    for family in optimal_control.FAMILIES:
        given = [optimal_control.problem(params, family, seed) for seed in range(24)]
        for pieces in params.pieces:
            far = {"x0": np.stack([x for x, _ in given]), "targets": np.stack([y for _, y in given])}
            data |= {f"{family}-{pieces}/{key}": value for key, value in far.items()}
            data |= {f"{family}-{pieces}/{key}": np.full((24, 1), 5.0) for key in ("error", "effort", "unrest")}
    moving = optimal_control.judge(params, data)
    resting = optimal_control.judge(params, {k: 0.0 * v if "unrest" in k else v for k, v in data.items()})
    missed = [k for k, v in enumerate(moving) if "reaches" in v.claim or ("brought" in v.claim and v.kind != "theorem")]
    assert len(missed) == 6
    assert {moving[k].status for k in missed} == {"not measured"}
    assert {resting[k].status for k in missed} == {"fails"}
    compared = [k for k, v in enumerate(moving) if "do better" in v.claim]
    assert len(compared) == 3
    assert {moving[k].status for k in compared} == {"undecided"}
    assert {resting[k].status for k in compared} == {"fails"}


@pytest.mark.slow
def test_one_token_comes_to_the_closed_form() -> None:
    x, y = np.array([[1.0, 0.0, 0.0]]), np.array([[np.cos(2.0), np.sin(2.0), 0.0]])
    both, pieces = np.array([True, True]), np.array([1, 8])
    given = controlled_flows.Problems(np.stack([x, x]), np.stack([y, y]), np.full(2, 0.1), pieces, both, ~both)
    found = controlled_flows.solved(given, controlled_flows.first_maps(3, 8, np.array([0, 0])), 500)
    for k in range(2):
        error, effort = best_compromise(2.0, 0.1, int(pieces[k]))
        assert found["error"][k] + 0.1 * found["effort"][k] == pytest.approx(error + 0.1 * effort, rel=5e-3)
    assert (found["unrest"] < 0.02).all()


def test_mlps_that_were_still_being_learned_say_only_what_they_gain() -> None:
    params = optimised_mlp.Params(widths=(2, 8), trainings=1, instances=24, longest=40.0)
    spread = np.linspace(-0.5, 0.5, 24)  # of lives, so that intervals have a width
    for gain, unrest, wanted in ((0.0, 1.0, "undecided"), (0.0, 0.0, "fails"), (20.0, 1.0, "holds")):
        data: dict[str, np.ndarray] = {}
        for task in optimised_mlp.TASKS:
            for width in params.widths:
                life = np.stack([9.0 + spread, 9.0 - spread, 9.0 + gain + spread])[:, None]
                data |= {f"{task}-{width}/life": life, f"{task}-{width}/price": 0.1 * life}
                data |= {f"{task}-{width}/trained": 0.1 * life[2], f"{task}-{width}/unrest": np.array([unrest])}
        verdicts = optimised_mlp.judge(params, data)
        assert {v.status for v in verdicts if "keeps" in v.claim} == {wanted}
        compared = {v.status for v in verdicts if "keeps" not in v.claim}
        assert compared == ({"undecided"} if unrest else {"fails", "holds"})


def test_fits_that_still_improve_may_yet_turn_a_verdict_round() -> None:
    params = model_best_system.Params(systems=("one head", "no attention"))
    texts = 1.0 + 0.01 * np.linspace(-1.0, 1.0, 24)[:, None]  # Gram distances of one layer
    done, moving = np.full(11, 0.3), np.linspace(0.6, 0.3, 11)

    def statuses(attention: float, own: np.ndarray, other: np.ndarray) -> list[str]:
        beside = dict.fromkeys(("frozen tokens", "rung 0", "rung 1", "rung 2"), texts)
        fits = {"one head": (attention * texts, own), "no attention": (texts, other)}
        data = {f"m/{key}": value for key, value in beside.items()}
        data |= {f"m/{k}/{key}": v for k, fit in fits.items() for key, v in zip(("distance", "stop"), fit)}
        return [v.status for v in best_system_verdicts.judge_model(params, data, "m")]

    assert statuses(0.4, done, done) == ["holds"] * 4
    assert statuses(0.4, moving, done) == ["holds"] * 4  # what a fit explains already, it explains
    assert statuses(0.4, done, moving) == ["holds", "holds", "undecided", "holds"]
    assert statuses(1.1, done, done) == ["fails"] * 4
    assert statuses(1.1, moving, done) == ["undecided"] * 4
    assert statuses(1.1, done, moving) == ["fails"] * 3 + ["undecided"]


def test_onsets_of_sinks_are_the_steps_from_which_on_they_last() -> None:
    """Five models: from step 30 on, from 10 on, met and lost again, never, and one that was not trained."""
    params = sinks_in_training.Params(sizes=((16, 2, 2),), checkpoints=(0, 10, 30, 60), steps=60, instances=5)
    ratio = np.array([[1, 1, 2, 2], [1, 1.6, 1.7, 1.5], [1, 2, 2, 1], [1, 1, 1, 1], [9, 9, 9, 9]]).T
    data: dict[str, np.ndarray] = {}
    for kind in sinks_in_training_verdicts.KINDS:
        name = f"16x2x2 {kind}"
        flat = {key: np.ones((4, 5, 2, 2)) for key in ("early", "aligned", "others", "value")}
        data |= {f"{name}/{key}": value for key, value in flat.items()}
        data[f"{name}/mass"] = np.broadcast_to(ratio[..., None, None], (4, 5, 2, 2))
        data[f"{name}/clusters"] = np.ones((4, 5))
        data[f"{name}/loss"], data[f"{name}/bigram"] = np.array([[1.0] * 4 + [3.0]] * 60), np.array(2.2)
    key, least = sinks_in_training_verdicts.READINGS[0]
    found = sinks_in_training_verdicts.onsets(params, data, "with positions", key, least)
    assert found.tolist() == [30.0, 10.0, np.inf, np.inf, 0.0]
    words = "lasting in 2 of 4 trained models, from step 20 on (median; the earliest 10, the latest 30)"
    first = sinks_in_training.judge(params, data)[0]
    assert words in first.notes
    assert words in first.rows[0].notes
    assert words in sinks_in_training.finding(params, data).measured


def test_one_and_several_heads_are_fitted_full_and_causal() -> None:
    made = {(system.heads, system.mask) for system in fitted_systems.SYSTEMS.values() if not system.own_layers}
    assert {(heads, mask) for heads in (False, True) for mask in ("full", "causal")} <= made
    system = fitted_systems.SYSTEMS["causal heads"]
    numbers = fitted_systems.first_numbers(system, 4, 2, 3, 2, 0)
    assert fitted_systems.dynamics_of(system, numbers).weights.heads == 3
    params = model_best_system.Params(systems=("several heads", "causal heads"))
    texts = 1.0 + 0.01 * np.linspace(-1.0, 1.0, 24)[:, None]
    data = {f"m/{key}": texts for key in ("frozen tokens", "rung 0", "rung 1", "rung 2")}
    for name, share in (("several heads", 0.4), ("causal heads", 0.8)):
        data |= {f"m/{name}/distance": share * texts, f"m/{name}/stop": np.full(11, 0.3)}
    found = {v.claim: v.status for v in best_system_verdicts.judge_model(params, data, "m")}
    assert found["Full attention of several heads explains more than causal (m)."] == "holds"


@pytest.mark.slow
def test_units_that_a_narrow_mlp_has_not_stay_away() -> None:
    params = experiment("optimised-mlp").params(**TINY["optimised-mlp"])
    x0, start = optimised_mlp.batch(params, 0)
    numbers, _ = learned_mlps.learned(learned_mlps.training_of(params), start, x0, 3, lambda share: None)
    for name, unit in (("W_in", 1), ("W_out", 2), ("b_in", 1)):
        narrow, wide = (np.moveaxis(numbers[name][:, k], unit, 0) for k in (0, 1))
        assert narrow[:2].all(), name
        assert not narrow[2:].any(), name
        assert wide.all(), name


@pytest.mark.slow
def test_a_system_recovers_clouds_that_one_of_its_kind_made() -> None:
    """Targets from a system of the same form: the fit explains most of what frozen tokens miss, on fresh clouds too."""
    rng = np.random.default_rng(0)
    system = fitted_systems.SYSTEMS["one head"]
    truth = {k: 2.0 * v for k, v in fitted_systems.first_numbers(system, 4, 4, 1, 3, 7).items()} | {
        "V": 0.5 * rng.normal(size=(1, 4, 4)).astype(np.float32)
    }

    def cloud(count: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.normal(size=(count, 6, 4))
        x = (x / np.linalg.norm(x, axis=-1, keepdims=True)).astype(np.float32)
        after = np.asarray(fitted_systems.layers_of(system, truth, x, 3))
        return x, after @ np.swapaxes(after, -1, -2)

    train, stop, judged = cloud(40), cloud(10), cloud(20)
    start = fitted_systems.first_numbers(system, 4, 4, 1, 3, 0)
    _, found = fitted_systems.fitted(system, start, train, stop, judged, 400, rate=0.02)
    own = found["distance"].mean()
    frozen = np.sqrt(np.asarray(fitted_systems.squared_distances(np.stack([judged[0]] * 3), judged[1]))).mean()
    assert own < 0.4 * frozen
