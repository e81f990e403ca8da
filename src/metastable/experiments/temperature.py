"""Sections 3.2 and 4.2.2 of the first paper: the number of clusters at a fixed time, over beta.

The paper writes that "low temperatures produce rapid convergence to a single cluster while higher temperatures allow
meta-stable states". beta is an inverse temperature, so what is meant is the opposite: small beta, one cluster; large
beta, several. It also writes beta >= sqrt(d), "in our case 9 >= sqrt(64)", where 64 is n; both thresholds are judged.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.second_token import angle_to_first, judge_time
from metastable.experiments.self_checks import first_steps
from metastable.initial import sphere
from metastable.observables import cluster_labels, sizes_of
from metastable.plots import series
from metastable.plots.style import SOFT, captioned, paper
from metastable.solve.simulate import simulate
from metastable.theory.intervals import mean_interval
from metastable.theory.verdicts import Verdict, judge_number, judge_share

LINK = 0.05  # radians: about a printed dot, below the spacing of metastable clusters, beta^{-1/2}
SOURCE = "first paper, sec. 3.2 and 4.2.2"


@dataclass(frozen=True)
class Params:
    """The baseline setting of sec. 3.2; the paper's own two values of beta are among ``betas``."""

    n: int = 64
    d: int = 3
    betas: tuple[float, ...] = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 12.0)
    dt: float = 0.1
    t: float = 15.0
    instances: int = 200
    seed: int = 0


def instance(params: Params, seed: int, beta: float) -> tuple[Dynamics, np.ndarray]:
    """Dynamics and tokens of one instance."""
    return Dynamics(beta=beta, mask="causal"), sphere(params.n, params.d, seed=seed)


def _starts(params: Params, first: int, last: int) -> tuple[Dynamics, np.ndarray]:
    """Some instances at every beta: one causal dynamics, and tokens (b betas, n, d)."""
    x0 = np.stack([sphere(params.n, params.d, seed=params.seed + k) for k in range(first, last)])
    tokens = np.repeat(x0, len(params.betas), axis=0)
    return Dynamics(beta=np.tile(params.betas, last - first), mask="causal"), tokens


def _settings(params: Params) -> dict[str, Any]:
    return {"t": params.t, "dt": params.dt, "save": [params.t]}


def check(params: Params) -> dict[str, Check]:
    """The first instance at every beta."""
    one = np.eye(params.d)
    fields = [plain.on_sphere(lambda x, b=b: plain.pull(x, one, one, one, b, causal=True)) for b in params.betas]  # type: ignore[misc]
    made = first_steps(*_starts(params, 0, _size(params)), fields, **_settings(params))
    return {"tokens after the first steps": made}


def _size(params: Params) -> int:
    return min(25, params.instances)


def run(params: Params, work: Work) -> Data:
    def chunk(first: int, last: int) -> Data:
        dynamics, tokens = _starts(params, first, last)
        x = simulate(dynamics, tokens, **_settings(params)).x[0]
        shape = (last - first, len(params.betas))
        size = sizes_of(cluster_labels(x, LINK)).reshape(*shape, params.n)
        second = angle_to_first(np.stack([tokens, x], axis=1)).reshape(*shape, 2)
        return {"clusters": (size > 1).sum(axis=-1), "alone": (size == 1).sum(axis=-1), "second": second}

    return work.parts("runs", params.instances, _size(params), chunk)


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """A cluster has two or more tokens, linked up to LINK; "several" is two or more; "typical" a share of 1/2.

    A threshold is judged at the first value of ``betas`` that satisfies it, and the converse (one cluster below it)
    half-way to 0, at the last value not above half the threshold: a threshold known up to a factor of two would pass.
    Token 2 is compared with its quadrature at every beta (`second_token`), which tells one beta from another exactly.
    """
    several = data["clusters"] >= 2  # (b, betas)
    first = f"beta >= sqrt(n) = {np.sqrt(params.n):.3g}, the numbers given"
    second = f"beta >= sqrt(d) = {np.sqrt(params.d):.3g}, as written"
    return [
        _grows(params, data),
        _share(params, several, _above(params, np.sqrt(params.n)), "several clusters", True, first),
        _share(params, several, _above(params, np.sqrt(params.d)), "several clusters", True, second),
        _share(params, several, _half(params, np.sqrt(params.n)), "one cluster at most", False, "beta < sqrt(n)"),
        _exact(params, data),
    ]


def _exact(params: Params, data: Data) -> Verdict:
    count = len(data["second"])
    seeds = np.repeat(params.seed + np.arange(count), len(params.betas)).tolist()
    return judge_time(data["second"].reshape(-1, 2), np.tile(params.betas, count), params.t, seeds)


def finding(params: Params, data: Data) -> Finding:
    """The number of clusters at both ends of the range of beta, and at sqrt(n)."""
    mean = data["clusters"].mean(axis=0)
    at = _half(params, np.sqrt(params.n))
    return Finding(
        "Several clusters are said to need beta >= sqrt(d), with 9 >= sqrt(64), which is sqrt(n).",
        f"The mean number of clusters at t = {params.t:g} grows from {mean[0]:.1f} at beta = {params.betas[0]:g} to "
        f"{mean[-1]:.1f} at {params.betas[-1]:g}, and is {mean[at]:.1f} already at {params.betas[at]:g}.",
        f"Clusters at t = {params.t:g} over beta",
    )


def _above(params: Params, threshold: float) -> int:
    return int(np.argmax(np.array(params.betas) >= threshold))


def _half(params: Params, threshold: float) -> int:
    return int(np.flatnonzero(np.array(params.betas) <= threshold / 2.0)[-1])


def _grows(params: Params, data: Data) -> Verdict:
    """The count at beta = 9 minus that at 1, from the same tokens: its mean must exceed 0."""
    low, high = (params.betas.index(b) for b in (1.0, 9.0))
    counts = data["clusters"]
    steps = [mean_interval(counts[:, k + 1] - counts[:, k]) for k in range(len(params.betas) - 1)]
    falls = [f"{params.betas[k]:g} to {params.betas[k + 1]:g}" for k, (_, top) in enumerate(steps) if top < 0]
    return judge_number(
        f"At t = {params.t:g} there are more clusters at beta = 9 than at beta = 1.",
        SOURCE,
        counts[:, high] - counts[:, low],
        (0.0, np.inf),
        kind="observation",
        notes=f"mean count {counts[:, low].mean():.2f} at beta = 1 and {counts[:, high].mean():.2f} at 9; "
        f"steps of beta at which the mean count falls: {', '.join(falls) or 'none'}; the paper's words say the "
        "opposite, because they call beta a temperature",
    )


def _share(params: Params, several: np.ndarray, at: int, what: str, want: bool, rule: str) -> Verdict:
    return judge_share(
        f"Typical starts have {what} at t = {params.t:g} when {rule}; judged at beta = {params.betas[at]:g}.",
        SOURCE,
        [bool(v) is want for v in several[:, at]],
        kind="observation",
        required=0.5,
        seeds=[params.seed + k for k in range(len(several))],
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    lines, bands = {}, {}
    for key, name in (("clusters", "clusters of two or more"), ("alone", "lone tokens")):
        ends = np.array([mean_interval(column) for column in data[key].T])  # (betas, 2)
        lines[name], bands[name] = data[key].mean(axis=0).astype(float), (ends[:, 0], ends[:, 1])
    figure = series(
        params.betas,
        lines,
        band=bands,
        xlabel=r"inverse temperature $\beta$",
        ylabel=f"mean number at t = {params.t:g}",
        marks=True,
    )
    panel = figure.axes[0]
    with paper():
        panel.legend(frameon=True, framealpha=0.9, edgecolor="none")  # a marked beta may lie behind it
    for number, name in ((params.n, r"$\sqrt{n}$"), (params.d, r"$\sqrt{d}$")):
        panel.axvline(np.sqrt(number), color=SOFT, lw=0.8, ls="--", zorder=0)
        top = panel.get_xaxis_transform()
        panel.text(np.sqrt(number), 1.0, name, color=SOFT, transform=top, ha="center", va="bottom")
    caption = (
        f"Means with 95% bands of {params.instances} starts from seed {params.seed} on, tokens linked up to {LINK:g} "
    )
    caption += f"rad. n = {params.n}, d = {params.d}, Q = K = V = I, causal."
    return {f"Clusters at t = {params.t:g} over beta": captioned(figure, caption)}


EXPERIMENT = Experiment(
    name="temperature",
    title="Clusters over beta",
    source=SOURCE,
    figures="none; the plot behind Figs 3 and 4",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 48, "n": 32, "betas": (0.5, 1.0, 2.0, 4.0, 6.0, 9.0)},
    full={"instances": 2000},
    text="Causal attention, V = I, the same tokens at every beta: the number of clusters at t = 15 with 95% bands. "
    "beta is an inverse temperature: the paper's wording has it the other way round. sqrt(d) and sqrt(n), where "
    "something is said to happen, are marked.",
    check=check,
    finding=finding,
    topic="observation",
    leaves_out="32 tokens instead of 64, six values of beta instead of eleven, 48 starts instead of 200.",
)
