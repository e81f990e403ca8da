"""Pictures of low-rank attention: Figs 2, 3, 4 and 11 of the second paper, and the rate."""

from typing import Any

import numpy as np

from metastable import plots
from metastable.experiments import boolean_attention
from metastable.experiments.base import Data, Figures
from metastable.plots.style import captioned

FIGURE_3 = "Fig. 3: attention on the line becomes Boolean"


def draw(params: Any, data: Data) -> Figures:
    """Figs 2, 3, 4, 11, and the rate."""
    t = params.t * boolean_attention.SHARES
    base = f"line{params.n}_"
    P = data[base + "attention"][0]  # (T, n, n)
    few = [0, 3, 6, len(t) - 1]
    setting = f"d = 1, n = {params.n}, Q = K = V = 1, beta = 1, tokens uniform on [-{params.side:g}, {params.side:g}], "
    setting += f"seed {params.seed}"
    figures = {
        "Fig. 2: the limit in its sorted form": captioned(
            plots.attention_maps(boolean_attention.sorted_form(P[-1]), titles=["rows and columns permuted"]),
            f"Attention at t = {params.t:g}, its two leaders as first and last column, rows by leader. {setting}.",
        ),
        FIGURE_3: captioned(
            plots.attention_maps(P[few], titles=[f"t = {v:.2g}" for v in t[few]]),
            f"Attention at four times. {setting}.",
        ),
    }
    Q, K = data["plane_maps"]
    times = params.plane_t * boolean_attention.SHARES
    x = data["plane_tokens"][0][..., :2]  # (T, n, 2), unscaled and divided by its largest norm
    early = [0, 5, 9, 14]
    figures["Fig. 4: leaders in the plane"] = captioned(
        plots.attention_clouds(
            x[early] @ K.T,
            x[early] @ Q.T,
            data["plane_attention"][0][early],
            titles=[f"$\\lambda_1 t$ = {v:.2g}" for v in times[early]],
            columns=4,
        ),
        f"Keys (green) and queries (purple), joined by lines as wide as the attention between them. d = 2, "
        f"n = {params.plane_n}, V and Q = MM^T, K = I, beta = 1, seed {params.seed}.",
    )
    final = {f"d = 1, n = {n}": data[f"line{n}_attention"][0][-1] for n in params.other_n}
    if params.high:
        final[f"d = {params.high_d}, n = {params.high_n}"] = data["high_attention"][0][-1]
    for k, (title, panel) in enumerate(final.items()):
        figures[f"Fig. 11, part {k + 1}: {title}"] = captioned(
            plots.attention_maps(boolean_attention.coarse(panel), titles=[title]),
            f"Attention at the end of the run; {title}, beta = 1, seed {params.seed}.",
        )
    depth = data[base + "depth"][0]  # (T, n)
    late = t >= 1.0
    lines = {f"row {i}": np.where(depth[late, i] < boolean_attention.DEEPEST, depth[late, i], np.nan) for i in range(4)}
    rate = plots.series(
        t[late],
        lines,
        yscale="log",
        ylabel=r"$-\log(1 - P_{i,lead})$",
        reference={"$e^t$": (t[late], np.exp(t[late]))},
    )
    what = "How far four rows are from Boolean, on a scale on which doubly exponential convergence is a line of slope 1"
    figures["Doubly exponential convergence"] = captioned(rate, f"{what}. {setting}.")
    return figures
