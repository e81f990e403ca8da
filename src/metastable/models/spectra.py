"""The matrices of the theory, read from a model's weights: Fig. 10 of the second paper, Fig. 7 of the first.

What moves tokens is the map O_h V_h of a head (d x d, rank v). Where attention reads a normed token, Q, K and V are
those with the norm's gain (and centring) folded in, so that it is O V diag(g): see ``metastable.models.folding``. The
nonzero eigenvalues of O_h V_h are those of the small core V_h O_h (v x v), and its eigenvectors are O_h w for
eigenvectors w of the core; so the d x d matrix is never formed. With phi = O_h w, <Q phi, K phi> = <(Q O) w, (K O) w>:
whether (Q, K, O V) is a good triple (Definition 1) is decided on the small triple (Q O, K O, V O).

Rotary turns are left out: <Q phi, K phi> and the score form are those of two tokens at one position, where the turns of
query and key cancel. At a distance the score form is Q^T R K with a turn R that depends on the distance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.equation.weights import from_eigenvalues
from metastable.errors import InputError
from metastable.models.families import BlockWeights
from metastable.models.folding import Maps, front_norm, linear
from metastable.models.load import load
from metastable.models.model import Model
from metastable.models.promotions import Promotion, promoted, upper
from metastable.theory.hypotheses import Finding, good_triple

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False)
class Spectra:
    """Spectra of every head.

    ``data`` is an ``xarray.Dataset`` over (layer, head), eigenvalues by decreasing modulus:

    - ``ov``: of the map O V with the norm folded in, through its core (rank,), complex;
    - ``value_block``: of the square block of the stored V in the head's own rows and columns, which published figures
      show; nothing is folded into it;
    - ``qk``: of the symmetrised score form scale (Q^T K + K^T Q)/2 at equal positions (form,), real, largest first;
    - ``beta``: the inverse temperature at which tokens with independent standard coordinates and Q^T K = I would have
      scores as large, sqrt(d) times the Frobenius norm of that form (the published definition);
    - ``beta_model``: the same for tokens as long as those that attention reads: sqrt(d) after a norm whose gain is in
      the maps already, so that both agree; in a post-norm model what the norm before it makes them;
    - ``along``: <Q phi, K phi> for the unit leading eigenvector phi of O V, nan when that is complex;
    - ``good``: 1 for a good triple, 0 for none, -1 when rounding could decide; ``margin``: the change of the core
      (2-norm) that would alter this, negative where the triple is not good.
    """

    model: Model
    data: "xarray.Dataset"
    triples: dict[tuple[int, int], Finding] = field(repr=False)
    promotions: tuple[Promotion, ...] = field(repr=False)

    @property
    def good_heads(self) -> list[tuple[int, int]]:
        """(layer, head) of every good triple."""
        return [key for key, finding in self.triples.items() if finding.holds]


def spectra(
    name: str | Path | Model,
    layers: Sequence[int] | None = None,
    top: int = 2,
    words: int = 6,
    progress: Callable[[int, int], None] | None = None,
) -> Spectra:
    """Eigenvalues, effective temperatures and good triples of every head.

    Parameters
    ----------
    name : str, Path or Model
        What ``metastable.models.load`` takes, or what it returned.
    layers : sequence of int, optional
        Which layers, from 0; all when left out, and the one shared block of an ALBERT once.
    top : int
        For how many leading eigenvectors of each head to list the tokens they promote.
    words : int
        How many tokens to list for each.
    progress : function, optional
        Called with (heads done, heads in all) after every head; the distance from a good triple takes a while.

    Examples
    --------
    >>> from metastable.models import spectra
    >>> found = spectra("reactions-albert")  # doctest: +SKIP
    >>> found.data["ov"].shape, found.good_heads  # doctest: +SKIP
    ((1, 8, 32), [])
    """
    model = name if isinstance(name, Model) else load(name)
    chosen = list(layers) if layers is not None else model.require_parts().distinct
    rows: list[dict[str, Any]] = []
    triples: dict[tuple[int, int], Finding] = {}
    promotions: list[Promotion] = []
    for layer in chosen:
        block = model.block(layer)
        maps, length = linear(block), squared_length(model, layer, block)
        leading = []
        for head in range(block.heads):
            row, finding, vectors = _head(block, maps, head, length)
            rows.append(row)
            triples[layer, head] = finding
            leading += [(head, i, vectors[:, i].real) for i in upper(row["ov"])[:top]]
            if progress is not None:
                progress(len(rows), len(chosen) * block.heads)
        values = [row["ov"] for row in rows[-block.heads :]]
        promotions += promoted(model, layer, values, leading, words)
    return Spectra(model, _dataset(rows, chosen), triples, tuple(promotions))


def ov_eigenvalues(maps: Maps, head: int) -> tuple[np.ndarray, np.ndarray]:
    """Nonzero eigenvalues of O_h V_h by decreasing modulus (v,), and unit eigenvectors as columns (d, v)."""
    values, w = np.linalg.eig(maps.V[head] @ maps.O[head])  # core (v, v)
    order = np.lexsort((-values.imag, -values.real, -np.abs(values)))
    phi = maps.O[head] @ w[:, order]
    return values[order], phi / np.maximum(np.linalg.norm(phi, axis=0), 1e-300)


def value_block_eigenvalues(block: BlockWeights, head: int) -> np.ndarray:
    """Eigenvalues of V_h restricted to the head's own columns, (v,): the square block of published figures.

    It depends on the order of coordinates and says nothing about the motion of tokens; kept for comparison, as it is
    published: the stored V, with no norm folded in.
    """
    v, d = block.V.shape[1:]
    start = min(head * v, d - v)
    values = np.linalg.eigvals(block.V[head][:, start : start + v])
    return values[np.lexsort((-values.imag, -values.real, -np.abs(values)))]


def qk_eigenvalues(maps: Maps, head: int) -> np.ndarray:
    """Nonzero eigenvalues of scale (Q^T K + K^T Q)/2, largest first (2k,).

    With B = [Q; K] = (U R)^T the form is U [scale/2 R J R^T] U^T, J swapping the halves: a symmetric core.
    """
    Q, K = maps.Q[head], maps.K[head]
    k, d = Q.shape
    if 2 * k >= d:
        form = Q.T @ K
        return np.linalg.eigvalsh(maps.scale * (form + form.T) / 2.0)[::-1]
    R = np.linalg.qr(np.concatenate([Q, K]).T).R  # (2k, 2k)
    swapped = np.concatenate([R[:, k:], R[:, :k]], axis=1)
    return np.asarray(np.linalg.eigvalsh(maps.scale * (swapped @ R.T) / 2.0)[::-1])


def _head(block: BlockWeights, maps: Maps, head: int, length: float) -> tuple[dict[str, Any], Finding, np.ndarray]:
    values, vectors = ov_eigenvalues(maps, head)
    qk = qk_eigenvalues(maps, head)
    Q, K, V, O = maps.Q[head], maps.K[head], maps.V[head], maps.O[head]
    finding = good_triple(Q @ O, K @ O, V @ O)
    d = Q.shape[1]
    phi = vectors[:, 0].real
    beta = float(np.sqrt(d) * np.linalg.norm(qk))
    row = {
        "ov": values,
        "value_block": value_block_eigenvalues(block, head),
        "qk": qk,
        "beta": beta,
        "beta_model": beta * length / d,
        "along": float((Q @ phi) @ (K @ phi)) if values[0].imag == 0.0 else float("nan"),
        "good": {True: 1, False: 0, None: -1}[finding.holds],
        "margin": finding.margin,
    }
    return row, finding, vectors


def _dataset(rows: list[dict[str, Any]], layers: list[int]) -> "xarray.Dataset":
    import xarray

    axes = {"ov": ("rank",), "value_block": ("rank",), "qk": ("form",)}
    variables = {}
    for key in rows[0]:
        values = np.array([row[key] for row in rows])
        variables[key] = (("layer", "head", *axes.get(key, ())), values.reshape(len(layers), -1, *values.shape[1:]))
    return xarray.Dataset(variables, {"layer": layers})


def squared_length(model: Model, layer: int, block: BlockWeights) -> float:
    """Mean squared length of the tokens that the folded maps act on, for unit variance before a norm's gain and bias.

    A norm in front of attention makes it d, its gain being in the maps. A post-norm layer reads what the layer before
    it has normed, the first one what the embedding has.
    """
    if front_norm(block) is not None:
        return float(block.Q.shape[-1])
    parts = model.require_parts()
    norm = (parts.block(layer - 1).mlp_norm if layer > 0 else parts.input_norm()) or block.mlp_norm
    if norm is None:
        return float(block.Q.shape[-1])
    return float((norm.gain**2).sum() + (0.0 if norm.bias is None else (norm.bias**2).sum()))


# --- a head's V for the simulator ----------------------------------------------------------------------------------


def value_matrix(name: str | Path | Model, head: int, layer: int = 0, top: int | None = None) -> np.ndarray:
    """A head's value map as the simulator's V: O V (d, d) with its norm folded in, or a small matrix like it.

    Parameters
    ----------
    head, layer : int
        Which head, from 0.
    top : int, optional
        Size of a small real matrix with the ``top`` leading eigenvalues of O V, complex ones in conjugate pairs; when a
        pair would not fit, the next real eigenvalue takes the last place.

    Examples
    --------
    >>> from metastable.models.spectra import value_matrix
    >>> value_matrix("reactions-albert", head=4, top=3).shape  # doctest: +SKIP
    (3, 3)
    """
    model = name if isinstance(name, Model) else load(name)
    maps = linear(model.block(layer))
    if not 0 <= head < maps.heads:
        raise InputError(f"{model.name!r} has heads 0 to {maps.heads - 1}, not {head}.")
    if top is None:
        return np.asarray(maps.O[head] @ maps.V[head])
    values = ov_eigenvalues(maps, head)[0]
    if not 1 <= top <= len(values):
        raise InputError(
            f"A head of {model.name!r} has {len(values)} eigenvalues; top must lie between 1 and that, not {top}."
        )
    chosen: list[complex] = []
    for value in values[values.imag >= 0.0]:
        pair = [complex(value)] if value.imag == 0.0 else [complex(value), complex(value.conjugate())]
        if len(chosen) + len(pair) <= top:
            chosen += pair
    if len(chosen) < top:
        raise InputError(f"Head {head} has no {top} leading eigenvalues that make a real matrix; try top={top - 1}.")
    return from_eigenvalues(chosen)


def from_spec(spec: str) -> np.ndarray:
    """The matrix behind ``model:NAME/head=4/top=3`` (also ``/layer=2``), as the command line writes it.

    Examples
    --------
    >>> from_spec("model:reactions-albert/head=4/top=3").shape  # doctest: +SKIP
    (3, 3)
    """
    parts = spec.removeprefix("model:").split("/")
    options: dict[str, int] = {}
    while len(parts) > 1 and "=" in parts[-1]:
        key, _, value = parts.pop().partition("=")
        if key not in ("head", "layer", "top") or not value.isdigit():
            raise InputError(
                f"{spec!r} has the part {key}={value}; write model:NAME/head=4/layer=0/top=3 in whole numbers."
            )
        options[key] = int(value)
    if "head" not in options:
        raise InputError(f"{spec!r} names no head; write model:NAME/head=4, with /layer=0 and /top=3 as needed.")
    return value_matrix("/".join(parts), **options)


def simulator_value(spec: str) -> np.ndarray:
    """What ``--V model:NAME/head=4/top=3`` means to the simulator; ``spec`` comes without its ``model:``."""
    return from_spec(f"model:{spec}")
