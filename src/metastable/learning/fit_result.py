"""What a fit returns."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.html_cards import card, curve_picture
from metastable.plots import save_figure, series
from metastable.plots.style import captioned


@dataclass(frozen=True, repr=False)
class Fit:
    """A Dynamics whose numbers were learned, and how.

    Attributes
    ----------
    dynamics : Dynamics or None
        With the best numbers that were met; None for a record whose parts were functions of one's own.
    x0 : array (..., n, d)
        The first tokens: learned where ``tokens`` was, else as given.
    numbers : dict
        What was learned, by name; of maps in pieces one entry per piece.
    curve : dict of arrays (steps + 1,)
        ``value`` (what was made small), ``error`` (the loss alone), ``effort`` and ``slope NAME`` (the largest entry of
        the gradient, in absolute value), before the first step and after each.
    held_out : dict of arrays
        ``step`` and ``error`` on tokens that were not fitted, with the best numbers at every checkpoint; empty without
        any.
    status : "done" or "diverged"
        Diverged: nan or inf was met; the numbers are the best before that.
    idle : tuple of str
        Names on which the value did not depend: their slope was exactly 0 at every step. (At the first alone it may be
        0 by chance: from V = 0 no token moves, whatever Q, K and beta are.)
    settings : dict
    folder : path or None
        The record.
    """

    dynamics: Dynamics | None
    x0: np.ndarray
    numbers: dict[str, np.ndarray]
    curve: dict[str, np.ndarray]
    held_out: dict[str, np.ndarray]
    status: str
    idle: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def step(self) -> int:
        """The step after which the numbers were the best."""
        return int(np.argmin(self.curve["value"]))

    @property
    def error(self) -> float:
        """The loss of the best numbers."""
        return float(self.curve["error"][self.step])

    @property
    def effort(self) -> float:
        """The integral over time of the sum of squares of the learned maps."""
        return float(self.curve["effort"][self.step])

    def __repr__(self) -> str:
        first, steps = float(self.curve["error"][0]), len(self.curve["value"]) - 1
        idle = f", no influence: {', '.join(self.idle)}" if self.idle else ""
        named = ", ".join(self.numbers)
        return f"Fit(over {named}: error {first:.3g} -> {self.error:.3g} in {steps} steps, {self.status}{idle})"

    def _repr_html_(self) -> str:
        errors = self.curve["error"]
        facts = [("learned", ", ".join(f"{name} {np.shape(value)}" for name, value in self.numbers.items()))]
        facts += [("error", f"{float(errors[0]):.3g} at the start, {self.error:.3g} after step {self.step}")]
        facts += [("status", f"{self.status} after {len(errors) - 1} steps")]
        facts += [("held out", f"error {float(self.held_out['error'][-1]):.3g}")] if self.held_out else []
        facts += [("no influence", ", ".join(self.idle))] if self.idle else []
        facts += [("record", str(self.folder))] if self.folder is not None else []
        return card("Fit", facts, curve_picture(errors, "error over steps"))

    def plot(self, path: str | Path | None = None) -> Any:
        """The loss curve; written to ``path`` where one is given.

        Returns
        -------
        matplotlib Figure
        """
        steps = np.arange(len(self.curve["error"]))
        shown = {"error": self.curve["error"]}
        if float(self.settings.get("effort", 0.0)) > 0.0:
            shown["error and weighted effort"] = self.curve["value"]
        reference = {"held out": (self.held_out["step"], self.held_out["error"])} if self.held_out else {}
        scale = "log" if min(values.min() for values in shown.values()) > 0 else "linear"
        figure = series(steps, shown, reference=reference, xlabel="step", ylabel="error", yscale=scale)
        captioned(figure, f"Error over {len(steps) - 1} steps of a fit over {', '.join(self.numbers)}.")
        if path is not None:
            save_figure(figure, Path(path))
        return figure
