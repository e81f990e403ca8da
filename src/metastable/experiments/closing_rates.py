"""Rates at which causal tokens of the experiment spectra gather in one cluster, and at which that turns."""

import numpy as np


def rates_of(x: np.ndarray, times: np.ndarray, axis: np.ndarray) -> dict[str, np.ndarray]:
    """Rates at which a single cluster closes, and at which its centre turns to the leading eigenvector."""
    centre = x.mean(axis=2)
    norm = np.linalg.norm(centre, axis=-1, keepdims=True)  # 0 for opposite tokens: no direction, so nan, never near
    centre = np.divide(centre, norm, out=np.full_like(centre, np.nan), where=norm > 0.0)  # (runs, T, 2)
    width = np.linalg.norm(x - centre[:, :, None], axis=-1).max(axis=2)
    turned = np.abs(np.take_along_axis(centre, 1 - axis[:, None, None], axis=2)[..., 0])  # sine of the angle
    near = (turned < 0.05) & (width < 0.05)
    return {"closing": _fitted(width, near, times), "turning": _fitted(turned, near, times)}


def _fitted(values: np.ndarray, near: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Rates of decay of rows (runs, T) over the chosen times above rounding; nan with fewer than four."""
    out = np.full(len(values), np.nan)
    for k, (row, chosen) in enumerate(zip(values, near & (values > 1e-10))):
        if chosen.sum() >= 4:
            out[k] = -np.polyfit(times[chosen], np.log(row[chosen]), 1)[0]
    return out
