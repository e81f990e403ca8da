"""Eigenvalues in the complex plane."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from numpy.typing import ArrayLike, NDArray

from metastable.errors import InputError
from metastable.plots.style import FAINT, PALETTE, RASTER_ABOVE, SOFT, Size, panels, paper


@paper()
def eigenvalues(
    values: ArrayLike,
    *,
    titles: Sequence[str] | None = None,
    leading: bool = True,
    radius: float | None = None,
    columns: int | None = None,
    size: Size | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw eigenvalues in the complex plane, one panel per matrix.

    Figure 10 of the second paper: a real, simple, positive leading eigenvalue makes a triple good, so the largest
    in modulus is set off (filled orange if it is real and positive, open otherwise).

    Parameters
    ----------
    values
        Eigenvalues (k,), or (m, k) for m panels.
    titles
        One per panel, for example heads.
    leading
        Whether to set off the eigenvalue largest in modulus.
    radius
        A circle to compare with, for example 1 for normalised Ginibre matrices.
    columns
        Panels in a row.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes, one per panel.

    Examples
    --------
    >>> import numpy as np
    >>> fig = eigenvalues(np.linalg.eigvals(np.random.default_rng(0).normal(size=(30, 30)) / np.sqrt(30)), radius=1)
    >>> fig.axes[0].get_xlabel()
    'Re $\\\\lambda$'
    """
    spectra = np.asarray(values, dtype=complex)
    spectra = spectra[None] if spectra.ndim == 1 else spectra  # (m, k)
    if spectra.ndim != 2 or spectra.shape[1] == 0:
        raise InputError(f"Eigenvalues to draw have shape (k,) or (panels, k), but {np.shape(values)} was given.")
    if titles is not None and len(titles) != len(spectra):
        raise InputError(f"There are {len(spectra)} spectra but {len(titles)} titles; give one each.")
    figure, axes = panels(ax, len(spectra), 2.6 if len(spectra) == 1 else 2.0, 1.0, 0.12, columns=columns, size=size)
    spec = axes[0].get_subplotspec()
    in_row = spec.get_gridspec().ncols if spec is not None else len(axes)
    for k, (panel, spectrum) in enumerate(zip(axes, spectra)):
        _spectrum(panel, spectrum[np.isfinite(spectrum)], leading, radius)
        panel.set_title(titles[k] if titles is not None else "")
        panel.set_ylabel(r"Im $\lambda$" if k % in_row == 0 else "")
        panel.set_xlabel(r"Re $\lambda$" if k + in_row >= len(axes) else "")
    return figure


def _spectrum(panel: Axes, values: NDArray[np.complex128], leading: bool, radius: float | None) -> None:
    size = float(np.clip(14 * (60 / max(len(values), 1)) ** 0.5, 2, 16))
    panel.axhline(0, color=FAINT, lw=0.6, zorder=0)
    panel.axvline(0, color=FAINT, lw=0.6, zorder=0)
    panel.scatter(
        values.real,
        values.imag,
        s=size,
        color=PALETTE[0],
        alpha=0.8,
        linewidths=0,
        zorder=2,
        rasterized=len(values) > RASTER_ABOVE,
    )
    reach = float(np.abs(values).max()) if len(values) else 1.0
    if leading and len(values):
        top = values[np.argmax(np.abs(values))]
        if top.imag > 0 or np.isclose(np.abs(top), np.abs(values)).sum() > 1:  # a pair: ring both
            top_all = values[np.isclose(np.abs(values), np.abs(top), rtol=1e-9)]
        else:
            top_all = np.array([top])
        good = len(top_all) == 1 and abs(top.imag) < 1e-12 * max(reach, 1e-300) and top.real > 0
        face = PALETTE[1] if good else "none"
        style: dict[str, Any] = {"facecolors": face, "edgecolors": PALETTE[1], "linewidths": 1.0, "zorder": 3}
        panel.scatter(top_all.real, top_all.imag, s=2.2 * size + 8, **style)
    if radius is not None:
        panel.add_patch(Circle((0, 0), radius, fill=False, ec=SOFT, lw=0.8, ls=(0, (4, 2)), zorder=1))
        reach = max(reach, radius)
    reach = 1.12 * (reach or 1.0)
    panel.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    panel.locator_params(nbins=5)
    for side in ("top", "right"):
        panel.spines[side].set_visible(True)
