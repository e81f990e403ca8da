"""Fig. 10 of the second paper: eigenvalues of a model's value matrices, and which heads are good triples."""

from dataclasses import dataclass

import numpy as np

from metastable.experiments import model_access
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.model_checks import eigenvector_check
from metastable.models.depth_axis import some_layers
from metastable.models.model import Model
from metastable.models.spectra import spectra
from metastable.plots import eigenvalues
from metastable.plots.style import captioned
from metastable.theory.intervals import exact_interval
from metastable.theory.verdicts import Status, Verdict

SOURCE = "second paper, sec. 4, Definition 1 and Fig. 10"
CLAIM = "Some head is a good triple"


@dataclass(frozen=True)
class Params:
    """Every head of every layer; a model with one shared block has one layer's worth of heads."""

    model: str = model_access.ZOO
    others: tuple[str, ...] = model_access.OTHERS
    seed: int = 0


def run(params: Params, work: Work) -> Data:
    names = model_access.names_of(params)
    data: Data = {}
    for k, name in enumerate(names):
        work.progress((k + 0.1) / len(names), f"heads of {name}")

        def make(name: str = name) -> Data:
            return model_access.measured(params, name, _measured)

        found = work.part(f"heads-{model_access.slug(name)}", make)
        data |= found if k == 0 else {f"{name}/{key}": value for key, value in found.items()}
    return data


def _measured(model: Model) -> Data:
    found = spectra(model, top=0)
    names = ("ov", "value_block", "qk", "beta", "beta_model", "along", "good", "margin")
    data = {name: found.data[name].values for name in names}
    return data | {"layer": found.data.layer.values, "says": np.array([f.sentence for f in found.triples.values()])}


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    if model_access.SKIPPED in data:
        return model_access.skipped(CLAIM, SOURCE, data)
    verdicts = [_triples(params.model, data), *(_leading(params, data, name) for name in ("ov", "value_block"))]
    others = model_access.companions(params)
    return verdicts + model_access.judged(
        others, data, CLAIM, SOURCE, lambda name: [_triples(name, model_access.own(data, name))]
    )


def _triples(model: str, data: Data) -> Verdict:
    """Definition 1 on (Q, K, O V) of every head; a head that rounding could turn either way counts as undecided."""
    good = data["good"].ravel()
    nearest = int(np.argmax(data["margin"].ravel()))
    layer, head = divmod(nearest, data["good"].shape[1])
    return _exists(
        f"{CLAIM}: Definition 1 holds for (Q, K, O V), the map that moves tokens ({model}).",
        [True if g == 1 else False if g == 0 else None for g in good],
        notes=f"nearest to it is layer {int(data['layer'][layer]) + 1}, head {head}: {data['says'][nearest]}; "
        f"effective beta {data['beta_model'].min():.3g} to {data['beta_model'].max():.3g}",
    )


def _leading(params: Params, data: Data, name: str) -> Verdict:
    """The first condition alone: the eigenvalue largest in modulus is real, positive and simple.

    Decided where its modulus leads by more than 1e-9 of itself, far above the rounding of a 32 x 32 eigenproblem.
    """
    values = data[name].reshape(-1, data[name].shape[-1])  # (heads, rank), by decreasing modulus
    first = values[:, 0]
    size = np.maximum(np.abs(values), 1e-300)
    lead = 1.0 - size[:, 1] / size[:, 0] if values.shape[1] > 1 else np.ones(len(values))
    real = np.abs(first.imag) <= 1e-9 * size[:, 0]
    outcome = [
        bool(p > 0 and r) if gap > 1e-9 else (False if not r else None) for p, r, gap in zip(first.real, real, lead)
    ]
    what = {"ov": "the map O V", "value_block": "the square value block, as published,"}[name]
    return _exists(
        f"In some head the leading eigenvalue of {what} is real, positive and simple ({params.model}).",
        outcome,
        notes="the first condition of Definition 1"
        + ("; the block depends on the order of coordinates and moves nothing by itself" if name != "ov" else ""),
    )


def _exists(claim: str, outcomes: list[bool | None], notes: str) -> Verdict:
    """A claim that at least one head does it: fails only when every head was decided and none does."""
    good, open_, total = sum(o is True for o in outcomes), sum(o is None for o in outcomes), len(outcomes)
    status: Status = "holds" if good else ("undecided" if open_ or not total else "fails")
    summary = f"{good} of {total} heads{f', {open_} undecided' if open_ else ''}; {notes}"
    return Verdict(
        claim,
        SOURCE,
        status,
        "observation",
        "at least one head; the measured number is their share among this model's heads",
        total,
        total,
        good / total if total else float("nan"),
        exact_interval(good, total),
        notes=summary,
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    if model_access.SKIPPED in data:
        return {}

    figures: Figures = {}
    captions = {"ov": "the map O V that moves tokens", "value_block": "the square value block, as published"}
    for k in some_layers(0, len(data["layer"]) - 1, 0, 3):
        for name, caption in captions.items():
            values = data[name][k]
            where = f", layer {int(data['layer'][k]) + 1}" if len(data["layer"]) > 1 else ""
            figure = eigenvalues(values, titles=[f"head {h}" for h in range(len(values))])
            what = f"{params.model}{where}: eigenvalues of {caption}, every head; a ring marks the leading one."
            figures[f"Fig. 10 on {params.model}{where}: {caption}"] = captioned(figure, what)
    return figures


def finding(params: Params, data: Data) -> Finding | None:
    if model_access.SKIPPED in data:
        return None
    good = data["good"].ravel()
    where = f", layer {int(data['layer'][0]) + 1}" if len(data["layer"]) > 1 else ""
    return Finding(
        "Good triples are said to occur among the heads of pretrained models.",
        f"In {params.model} {int((good == 1).sum())} of {good.size} heads are good triples by the map O V that moves "
        "tokens.",
        f"Fig. 10 on {params.model}{where}: the map O V that moves tokens",
    )


def check(params: Params) -> dict[str, Check]:
    """O V phi = lambda phi, with O V multiplied out."""
    return eigenvector_check(params.model)


EXPERIMENT = Experiment(
    name="model-spectra",
    title="Spectra of a real model's value matrices",
    source=SOURCE,
    figures="Fig. 10",
    params=Params,
    run=model_access.or_skip(run),
    judge=judge,
    draw=draw,
    quick={"others": ()},
    check=check,
    finding=finding,
    topic="model",
    leaves_out="Other models.",
    text="Definition 1 asks that the leading eigenvalue of V be real, positive and simple, and that its eigenvector "
    "have <Q phi, K phi> > 0. In a model with several heads what moves tokens is O V, of rank k; its nonzero "
    "eigenvalues are those of the k x k core V O. The published figure shows the square block of V instead, so both "
    "are here. An orange ring marks the leading eigenvalue, a filled one that it is real, positive and simple.",
)
