"""The interaction energy, E = (1/(2 beta n^2)) sum_ij e^{beta <x_i, x_j>}, and how fast it changes.

With weights, <x_i, x_j> becomes <Q x_i, K x_j> = <x_i, A x_j> for the bilinear form A = Q^T K, and heads are
summed. Everything is summed by blocks of rows, O(n * block) memory, around the largest exponent seen so far.
"""

import numpy as np
from numpy.typing import ArrayLike

from metastable.errors import InputError, unknown
from metastable.observables import arrays
from metastable.observables.arrays import Floats, blocks

_LARGEST = float(np.log(np.finfo(np.float64).max))


def interaction_energy(x: ArrayLike, beta: ArrayLike, form: ArrayLike | None = None) -> Floats:
    """Interaction energy of tokens, (...).

    It never decreases along full attention when V = Q^T K is symmetric (a gradient flow, sec. 3 of the first
    paper); under other masks or values it is still a number, without that promise. For negative beta it is
    negative.

    Parameters
    ----------
    x : array (..., n, d)
    beta : float or array
        Inverse temperature, not 0; an array runs along the leading axes of x.
    form : array (d, d) or (h, d, d), optional
        A = Q^T K of each head; the identity when left out. Heads are summed.

    Examples
    --------
    >>> bool(np.isclose(interaction_energy([[1.0, 0.0], [1.0, 0.0]], beta=2.0), energy_maximum(2.0)))
    True
    """
    x, b, A, lead = _prepared(x, beta, form)
    shift, total = _sum_of_exponentials(x, b, A)
    scale = total / (2.0 * b * x.shape[-2] ** 2)
    _refuse_overflow(shift + np.log(np.abs(scale)))
    return _times_exp(scale, shift).reshape(lead)


def log_energy(x: ArrayLike, beta: ArrayLike, form: ArrayLike | None = None) -> Floats:
    """log |E|, (...), which stays finite where E overflows; E has the sign of beta.

    >>> float(log_energy([[1.0, 0.0]], beta=5000.0).round(3))
    4990.79
    """
    x, b, A, lead = _prepared(x, beta, form)
    shift, total = _sum_of_exponentials(x, b, A)
    return np.asarray(shift + np.log(total / (2.0 * np.abs(b) * x.shape[-2] ** 2))).reshape(lead)


def energy_maximum(beta: ArrayLike) -> Floats:
    """The largest energy on the sphere with A = I, e^beta / (2 beta), reached when all tokens agree.

    For negative beta too: E grows with every <x_i, x_j>, whatever the sign of beta.
    """
    b = _checked_beta(beta)
    _refuse_overflow(b - np.log(2.0 * np.abs(b)))
    return np.asarray(_times_exp(1.0 / (2.0 * b), b))


def energy_rate(x: ArrayLike, velocity: ArrayLike, beta: ArrayLike, form: ArrayLike | None = None) -> Floats:
    """dE/dt along any velocities, (...): the chain rule, whatever attention, mask or values caused them.

    dE/dt = (1/(2 n^2)) sum_ij e^{beta <x_i, A x_j>} (<x_i', A x_j> + <x_i, A x_j'>)

    Parameters
    ----------
    x, velocity : arrays (..., n, d)
        Tokens and their velocities x'.
    beta, form :
        As for `interaction_energy`; A need not be symmetric.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> float(energy_rate(x, x[::-1], beta=1.0))
    0.5
    """
    v = _velocities(velocity, x)
    x, b, A, lead = _prepared(x, beta, form)
    n, d = x.shape[-2:]
    shift, total = np.full(len(x), -np.inf), np.zeros(len(x))
    for head in A:
        # the two sums over j share one matrix product: A x_j beside A x_j'
        moved = np.concatenate([x @ head.T, v @ head.T], axis=-1)  # (b, n, 2d)
        for some, rows in blocks(len(x), n, n):
            s = b[some, None, None] * (x[some, rows] @ np.swapaxes(moved[some, :, :d], -1, -2))  # (b, r, n)
            high = np.maximum(shift[some], s.max(axis=(-1, -2)))
            pulled = np.exp(s - high[:, None, None]) @ moved[some]  # (b, r, 2d)
            part = np.einsum("brd,brd->b", np.concatenate([v[some, rows], x[some, rows]], axis=-1), pulled)
            total[some] = total[some] * np.exp(shift[some] - high) + part
            shift[some] = high
    rate = total / (2.0 * n**2)
    _refuse_overflow(shift + np.log(np.maximum(np.abs(rate), np.finfo(np.float64).tiny)))
    return _times_exp(rate, shift).reshape(lead)


def dissipation(
    x: ArrayLike, velocity: ArrayLike, beta: ArrayLike, normalise: str = "softmax", form: ArrayLike | None = None
) -> Floats:
    """dE/dt of the gradient flow, from the speeds alone, (...): never negative.

    (1/n) sum |x_i'|^2 for "unnormalised", (1/n^2) sum Z_i |x_i'|^2 for "softmax", Z_i = sum_j e^{beta <x_i, A
    x_j>}. It equals `energy_rate` when V = Q^T K is symmetric, the mask is full, there is no noise and no
    MLP, and tokens live on the sphere or in R^d (not rescaled); for softmax also with one head only.
    Otherwise it does not.

    Examples
    --------
    >>> float(dissipation(np.eye(2), np.eye(2)[::-1], beta=1.0, normalise="unnormalised"))
    1.0
    """
    v = _velocities(velocity, x)
    x, b, A, lead = _prepared(x, beta, form)
    speed = (v**2).sum(axis=-1)  # (b, n)
    if normalise == "unnormalised":
        return np.asarray(speed.mean(axis=-1)).reshape(lead)
    if normalise != "softmax":
        raise unknown("normalisation with a gradient flow", normalise, ["softmax", "unnormalised"])
    if len(A) > 1:
        raise InputError(f"With softmax the energy law holds for one head, not {len(A)}; use energy_rate instead.")
    log_z = np.empty(speed.shape)
    keys = np.swapaxes(x @ A[0].T, -1, -2)  # (b, d, n)
    for some, rows in blocks(len(x), x.shape[-2], x.shape[-2]):
        s = b[some, None, None] * (x[some, rows] @ keys[some])
        high = s.max(axis=-1, keepdims=True)
        log_z[some, rows] = high[..., 0] + np.log(np.exp(s - high).sum(axis=-1))
    shift = log_z.max(axis=-1)
    rate = (np.exp(log_z - shift[:, None]) * speed).sum(axis=-1) / x.shape[-2] ** 2
    _refuse_overflow(shift + np.log(np.maximum(rate, np.finfo(np.float64).tiny)))
    return _times_exp(rate, shift).reshape(lead)


# --- sums and checks ----------------------------------------------------------------------------------------


def _sum_of_exponentials(x: Floats, beta: Floats, A: Floats) -> tuple[Floats, Floats]:
    """``shift, total`` (b,) with sum_hij e^{beta <x_i, A_h x_j>} = e^shift total."""
    shift, total = np.full(len(x), -np.inf), np.zeros(len(x))
    for head in A:
        keys = beta[:, None, None] * np.swapaxes(x @ head.T, -1, -2)  # (b, d, n)
        symmetric = np.array_equal(head, head.T)  # then pairs right of the diagonal block count twice
        for some, rows in blocks(len(x), x.shape[-2], x.shape[-2]):
            s = x[some, rows] @ keys[some, :, rows.start if symmetric else 0 :]  # (b, r, c)
            high = np.maximum(shift[some], s.max(axis=(-1, -2)))
            s -= high[:, None, None]
            np.exp(s, out=s)
            total[some] *= np.exp(shift[some] - high)
            total[some] += s.sum(axis=(-1, -2))
            if symmetric:
                total[some] += s[..., rows.stop - rows.start :].sum(axis=(-1, -2))
            shift[some] = high
    return shift, total


def _times_exp(scale: Floats, shift: Floats) -> Floats:
    """scale e^shift, in two factors: e^shift alone may overflow where the product does not."""
    half = np.exp(shift / 2.0)
    return np.asarray(scale * half * half)


def _refuse_overflow(log_size: Floats) -> None:
    if log_size.size and log_size.max() > _LARGEST:
        raise InputError(
            f"The energy is e^{float(log_size.max()):.1f}, more than a float64 holds; use log_energy instead."
        )


def _checked_beta(beta: ArrayLike) -> Floats:
    b = np.asarray(beta, dtype=np.float64)
    if not np.isfinite(b).all():
        raise InputError(f"beta must be finite, not {beta!r}.")
    if (b == 0).any():
        raise InputError(
            "The energy divides by beta, so beta = 0 has none; use the order parameter, whose half square "
            "is the limit of E - 1/(2 beta)."
        )
    return b


def _prepared(x: ArrayLike, beta: ArrayLike, form: ArrayLike | None) -> tuple[Floats, Floats, Floats, tuple[int, ...]]:
    """Tokens (b, n, d), one beta per cloud (b,), the form (h, d, d), and the leading axes."""
    x = arrays.tokens(x)
    lead, d = x.shape[:-2], x.shape[-1]
    b = _checked_beta(beta)
    try:
        b = np.broadcast_to(b, lead).reshape(-1)
    except ValueError as error:
        raise InputError(f"beta has shape {b.shape}, which does not run along the leading axes {lead}.") from error
    given = np.eye(d) if form is None else np.asarray(form, dtype=np.float64)
    A = given[None] if given.ndim == 2 else given
    if A.ndim != 3 or A.shape[1:] != (d, d) or not np.isfinite(A).all():
        raise InputError(f"The form Q^T K must be finite and (d, d) or (h, d, d) with d = {d}, not {given.shape}.")
    largest = np.abs(x).max(initial=0.0), np.abs(A).max(initial=0.0), np.abs(b).max(initial=0.0)
    with np.errstate(divide="ignore"):  # log 0: an exponent of 0 does no harm
        if 2.0 * np.log(largest[0]) + np.log(largest[1]) + np.log(largest[2]) + 2.0 * np.log(d) > _LARGEST:
            raise InputError("The exponents beta <x_i, A x_j> overflow: the tokens are too large for an energy.")
    return x.reshape(-1, *x.shape[-2:]), b, A, lead


def _velocities(velocity: ArrayLike, x: ArrayLike) -> Floats:
    v = arrays.tokens(velocity)
    if v.shape != np.shape(x):
        raise InputError(f"Velocities must have the shape of the tokens, {np.shape(x)}, not {v.shape}.")
    return v.reshape(-1, *v.shape[-2:])
