"""How often a random value matrix is good: the real Ginibre ensemble (second paper, section 4).

With Q = K = I a triple (Q, K, V) is good exactly when V's eigenvalue of largest modulus is real, positive and simple.
The paper counts about 14% of real Ginibre matrices at d = 128, and says that the share vanishes very slowly with d.
"""

from dataclasses import dataclass

import numpy as np

from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.plots import eigenvalues, paper, series
from metastable.plots.style import captioned
from metastable.theory.intervals import exact_interval
from metastable.theory.verdicts import Verdict, judge_number

SOURCE = "second paper, section 4, after Definition 1"
TITLE = "Share of good matrices against the dimension"
EXACT = {1: 0.5, 2: 1.0 / (2.0 * np.sqrt(2.0))}  # half of 1/sqrt 2 (Edelman 1997); d = 1 is a coin


@dataclass(frozen=True)
class Params:
    """The paper's d = 128; ``others`` show the decay. Small matrices cost little, so more of them are drawn."""

    d: int = 128
    others: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 256)
    instances: int = 6000
    seed: int = 0

    def count(self, d: int) -> int:
        """How many matrices of dimension d: ``instances`` at the paper's, more below it (at most tenfold), fewer
        above."""
        ratio = self.d / d
        return max(1, round(self.instances * (min(10.0, ratio) if ratio > 1.0 else ratio**3)))


def good(V: np.ndarray) -> np.ndarray:
    """Whether the eigenvalue of largest modulus is real and positive, (m,), for real matrices (m, d, d).

    LAPACK gives real eigenvalues of a real matrix an imaginary part of exactly 0, and complex ones in pairs of one
    modulus, so that no tolerance is needed; a tie of two moduli has probability 0.
    """
    values = np.linalg.eigvals(V).astype(complex)  # (m, d)
    top = np.take_along_axis(values, np.abs(values).argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.asarray((top.imag == 0.0) & (top.real > 0.0))


def matrix(seed: int, d: int) -> np.ndarray:
    """One instance: independent standard normal entries."""
    return np.random.default_rng([seed, d]).standard_normal((d, d))


def run(params: Params, work: Work) -> Data:
    data: Data = {}
    for d in (*params.others, params.d):

        def chunk(first: int, last: int, d: int = d) -> Data:
            return {"good": good(np.stack([matrix(params.seed + k, d) for k in range(first, last)]))}

        data[f"good-{d}"] = work.parts(f"d{d}", params.count(d), max(20, 50_000 // d), chunk)["good"]
    chosen = data[f"good-{params.d}"]
    for name, flag in (("shown-good", True), ("shown-other", False)):
        index = int(np.argmax(chosen == flag))
        data[name] = np.linalg.eigvals(matrix(params.seed + index, params.d)) / np.sqrt(params.d)
    return data


def check(params: Params) -> dict[str, Check]:
    """Two by two matrices by the quadratic formula: real eigenvalues where (tr/2)^2 >= det, the larger one positive."""
    V = np.stack([matrix(params.seed + k, 2) for k in range(100)])
    trace, det = V[:, 0, 0] + V[:, 1, 1], V[:, 0, 0] * V[:, 1, 1] - V[:, 0, 1] * V[:, 1, 0]
    by_hand = (trace**2 / 4.0 >= det) & (trace > 0.0)
    return {"good matrices of dimension 2": (good(V), by_hand, 0.0)}


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    return [_paper(params, data), *(_exact(d, data) for d in EXACT if f"good-{d}" in data), _decay(params, data)]


def _paper(params: Params, data: Data) -> Verdict:
    """ "About 14%" is read as 12% to 16%.

    A whole number of percent with "about" before it is taken to be right within two of its units. The paper does not
    say how many matrices were drawn; the interval tells whether enough were drawn here.
    """
    found = data[f"good-{params.d}"]
    return judge_number(
        f"About 14% of real Ginibre matrices in dimension {params.d} have a real, positive, simple leading eigenvalue.",
        SOURCE,
        found.astype(float),
        (0.12, 0.16),
        kind="observation",
        interval=exact_interval(int(found.sum()), len(found)),
        notes=f"with Q = K = I these are the good triples; {int(found.sum())} of {len(found)} matrices",
    )


def _exact(d: int, data: Data) -> Verdict:
    """The exact share must lie within three half-widths of the interval: six standard errors.

    Sampling alone crosses that once in 1e9 experiments, so that "fails" would mean a wrong count.
    """
    found, exact = data[f"good-{d}"], EXACT[d]
    half = 1.96 * np.sqrt(exact * (1.0 - exact) / len(found))
    share = float(found.mean())
    value = "1/2" if d == 1 else "1/(2 sqrt 2)"
    return judge_number(
        f"In dimension {d} the share of good matrices is exactly {value} = {exact:.4f}.",
        "by symmetry" if d == 1 else "Edelman (1997): real eigenvalues with probability 1/sqrt 2",
        found.astype(float),
        (exact - 3.0 * half, exact + 3.0 * half),
        interval=(share - half, share + half),
    )


def _decay(params: Params, data: Data) -> Verdict:
    """The share falls like a power of d, slower than 1/sqrt(d): the exponent lies between -1/2 and 0.

    Where to expect it: the largest modulus sits where the sqrt(d) complex eigenvalues near the edge, with Gaussian
    tails e^{-2 s^2}, are down to one, s^2 = log(d)/4; a real eigenvalue has tails e^{-s^2} and reaches it with
    probability of order d^{-1/4}, up to logarithms. The exponent is fitted to d >= 8 with each share's sampling error.
    """
    d, share, low, high = _curve(data)
    kept = (d >= 8) & (share > 0)
    x, y = np.log(d[kept]), np.log(share[kept])
    error = np.log(np.maximum(high[kept], 1e-12) / np.maximum(low[kept], 1e-12)) / (2 * 1.96)
    weight = 1.0 / error**2
    centre = (weight * x).sum() / weight.sum()
    spread = (weight * (x - centre) ** 2).sum()
    slope = float((weight * (x - centre) * y).sum() / spread)
    half = 1.96 / float(np.sqrt(spread))
    count = int(sum(len(data[f"good-{k}"]) for k in d[kept].astype(int)))
    return judge_number(
        "The share of good matrices vanishes with d, very slowly: like a power of d between -1/2 and 0.",
        SOURCE + ", after Rider and Sinclair",
        [slope],
        (-0.5, -1e-3),
        kind="observation",
        interval=(slope - half, slope + half),
        deciding=count,
        notes="exponent fitted to d >= 8; a heuristic count of edge eigenvalues gives -1/4 up to logarithms",
    )


def finding(params: Params, data: Data) -> Finding:
    """The share at the paper's dimension."""
    found = data[f"good-{params.d}"]
    low, high = exact_interval(int(found.sum()), len(found))
    return Finding(
        f"About 14% of random value matrices are good at d = {params.d} (after Definition 1).",
        f"{found.mean():.1%} of {len(found)} were, 95% interval {low:.1%} to {high:.1%}; the share falls slowly as d "
        "grows.",
        TITLE,
    )


def _curve(data: Data) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """d, share and the ends of its interval, in order of d."""
    dims = sorted(int(key.removeprefix("good-")) for key in data if key.startswith("good-"))
    found = [data[f"good-{d}"] for d in dims]
    ends = np.array([exact_interval(int(f.sum()), len(f)) for f in found])
    return np.array(dims, dtype=float), np.array([f.mean() for f in found]), ends[:, 0], ends[:, 1]


def draw(params: Params, data: Data) -> Figures:
    d, share, low, high = _curve(data)
    curve = series(
        d,
        {"measured, with 95% band": share},
        band={"measured, with 95% band": (low, high)},
        reference={r"slope $d^{-1/4}$": (d[d >= 8], share[d >= 8][0] * (d[d >= 8] / d[d >= 8][0]) ** -0.25)},
        xlabel="dimension $d$",
        ylabel="share of good matrices",
        xscale="log",
        yscale="log",
        marks=True,
    )
    axes = curve.axes[0]
    with paper():
        axes.plot(
            [params.d], [0.14], marker="*", ms=9, color="#D7261E", ls="none", label="the paper: about 14%", zorder=5
        )
        axes.set_xticks(d, [f"{k:g}" for k in d])
        axes.set_xticks([], minor=True)
        ticks = [v for v in (0.1, 0.15, 0.2, 0.3, 0.4, 0.5) if v >= 0.9 * low.min()]
        axes.set_yticks(ticks, [f"{v:g}" for v in ticks])
        axes.set_yticks([], minor=True)
        axes.legend(loc="lower left")
    titles = ["good", "not good"]
    shown = np.stack([data["shown-good"], data["shown-other"]])
    return {
        TITLE: captioned(
            curve,
            "Real matrices with independent normal entries whose eigenvalue of largest modulus is real and positive, "
            f"with 95% bands; {params.count(params.d)} matrices at d = {params.d}, from seed {params.seed} on.",
        ),
        "Eigenvalues of two Ginibre matrices": captioned(
            eigenvalues(shown, titles=titles, radius=1.0),
            f"A good matrix and another, d = {params.d}, scaled to the unit disc; from seed {params.seed} on.",
        ),
    }


EXPERIMENT = Experiment(
    name="ginibre",
    title="How many random value matrices are good",
    source=SOURCE,
    figures="",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 250, "others": (1, 2, 4, 8, 16, 32, 64)},
    full={"instances": 20000},
    text="Theorem 4.1 asks that the eigenvalue of V largest in modulus be real, positive and simple. Real Ginibre "
    "matrices (independent normal entries) are drawn in many dimensions and counted. At d = 1 and d = 2 the share is "
    "known exactly; the red star is the paper's number.",
    check=check,
    finding=finding,
    topic="observation",
    leaves_out="d = 256, and 250 matrices instead of 6,000 at d = 128.",
)
