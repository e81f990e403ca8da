"""What a model's attention modules read and write on a short text, and whether given maps reproduce it."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from metastable.models.families import Norm

_CLOSE = 1e-4  # relative: above the rounding of float32 networks, far below any wrong map
_SMALL = 1e-3  # attention below this is left out of logarithms


@dataclass(frozen=True, eq=False)
class Seen:
    """One text through the plain model.

    ``states`` (layers + 1 of (n, d)), ``maps`` (layers of (h, n, n)), ``inputs`` and ``outputs`` (n, ...) of modules by
    path, and ``norms``: (module, input, output) by path, of every norm.
    """

    states: list[np.ndarray]
    maps: list[np.ndarray]
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    norms: dict[str, tuple[Any, np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, model: Any, ids: Sequence[int], paths: set[str], options: dict[str, Any]) -> "Seen":
        """Run a text and keep what the modules at these paths read and write."""
        inputs: dict[str, np.ndarray] = {}
        outputs: dict[str, np.ndarray] = {}
        norms: dict[str, tuple[Any, np.ndarray, np.ndarray]] = {}

        def watch(path: str, module: Any, args: Any, kwargs: Any, output: Any) -> None:
            value = args[0] if args else next(iter(kwargs.values()), None)
            if "Norm" in type(module).__name__:
                norms[path] = (module, _rows(value), _rows(output))
            elif value is not None:
                inputs[path], outputs[path] = _rows(value), _rows(output)

        with ExitStack() as undo:
            for path, module in model.stack.named_modules():
                if path in paths or "Norm" in type(module).__name__:
                    hook = module.register_forward_hook(
                        lambda module, args, kwargs, output, path=path: watch(path, module, args, kwargs, output),
                        with_kwargs=True,
                    )
                    undo.callback(hook.remove)
            states, maps = model.outputs(ids, **options)
        return cls([_rows(x) for x in states], [np.asarray(A[0].double().cpu()) for A in maps], inputs, outputs, norms)

    def norms_giving(self, values: np.ndarray, paths: Sequence[str]) -> list[Norm]:
        """Norms at these paths whose output is this, as plain numbers."""
        found = []
        for path in paths:
            module, x, y = self.norms[path]
            if y.shape == values.shape and np.array_equal(y, values):
                norm = _plain(module, x, y)
                found += [norm] if norm is not None else []
        return found


def _rows(value: Any) -> np.ndarray:
    """A tensor (1, n, d), or (n, d), as (n, d) in float64."""
    tensor = value[0] if isinstance(value, (tuple, list)) else value
    array = np.asarray(tensor.detach().double().cpu().numpy())
    return array.reshape(-1, array.shape[-1])


def _near(found: np.ndarray, wanted: np.ndarray) -> bool:
    return bool(np.linalg.norm(found - wanted) <= _CLOSE * np.linalg.norm(wanted))


def check_maps(maps: Any, y: np.ndarray, A: np.ndarray, z: np.ndarray, out: np.ndarray) -> bool:
    """Whether attention A with these maps turns what is read, y (n, d), into z (n, h v) and out (n, d)."""
    values = np.einsum("hvd,nd->hnv", maps["V"], y)
    values = values if maps["v_bias"] is None else values + maps["v_bias"][:, None]
    mixed = np.einsum("hij,hjv->ihv", A, values)  # (n, h, v)
    if mixed.size != z.size or not _near(mixed.reshape(z.shape), z):
        return False
    moved = np.einsum("ihv,hdv->id", mixed, maps["O"])
    moved = moved if maps["o_bias"] is None else moved + maps["o_bias"]
    return moved.shape == out.shape and _near(moved, out)


def score_scale(maps: Any, reads: Sequence[np.ndarray], attention: Sequence[np.ndarray]) -> float | None:
    """The factor of <query, key> in the scores, or None when the scores are something else.

    log A_ij = scale <q_i, k_j> + (position bias)_ij - log Z_i. Between two texts the position bias cancels, and within
    a row the normalisation Z_i does.
    """
    products = [_products(maps, y) for y in reads]
    some = (attention[0] > _SMALL) & (attention[1] > _SMALL)
    logs = [np.log(np.where(some, A, 1.0)) for A in attention]
    scores, logged = _centred(products[0] - products[1], some), _centred(logs[0] - logs[1], some)
    power = float((scores**2).sum())
    if power == 0.0 or some.sum() < 8:
        return None
    scale = float((scores * logged).sum() / power)
    return scale if scale > 0.0 and _near(scale * scores, logged) else None


def _products(maps: Any, y: np.ndarray) -> np.ndarray:
    q, k = (np.einsum("hkd,nd->hnk", maps[name], y) for name in ("Q", "K"))
    q = q if maps["q_bias"] is None else q + maps["q_bias"][:, None]
    k = k if maps["k_bias"] is None else k + maps["k_bias"][:, None]
    return np.asarray(np.einsum("hik,hjk->hij", q, k))


def _centred(values: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Rows without their mean over some entries, 0 elsewhere."""
    mean = np.where(some, values, 0.0).sum(-1, keepdims=True) / np.maximum(some.sum(-1, keepdims=True), 1)
    return np.where(some, values - mean, 0.0)


def front_norm(runs: Sequence[Seen], layer: int, reads: str, block: str) -> "Norm | Literal['unknown'] | None":
    """The norm between a layer's tokens and what its attention reads; None where that is the tokens themselves."""
    read, token = runs[0].inputs[reads], runs[0].states[layer]
    if np.array_equal(read, token):
        return None
    for path, (module, x, y) in runs[0].norms.items():
        if path.startswith(block) and np.array_equal(y, read) and np.array_equal(x, token):
            return _plain(module, x, y) or "unknown"
    return "unknown"


def added(run: Seen, layer: int, writes: str, block: str) -> "Norm | Literal['unknown'] | None":
    """What is done to the output of attention before it is added to the tokens: a norm, a factor, or nothing (None).

    The sum of token and attention is the input of another of the layer's norms; where the MLP stands beside attention,
    token, attention and MLP make the next state together.
    """
    token, given = run.states[layer], run.outputs[writes]
    inside = {path: one for path, one in run.norms.items() if path.startswith(f"{block}.")}
    behind = [(module, x, y) for module, x, y in inside.values() if np.array_equal(x, given)]
    norm = _plain(*behind[0]) if behind else None
    given = behind[0][2] if behind else given
    if behind and norm is None:
        return "unknown"
    for _, x, _ in inside.values():
        factor = float(((x - token) * given).sum() / (given**2).sum()) if x.shape == token.shape else 0.0
        if factor > 0.0 and _near(factor * given, x - token):
            close = abs(factor - 1.0) < _CLOSE
            return (
                norm
                if close
                else Norm("scale", np.full(token.shape[1], factor), None, 0.0)
                if norm is None
                else "unknown"
            )
    beside = [y for path, y in run.outputs.items() if path.startswith(f"{block}.") and y.shape == token.shape]
    last = layer + 2 == len(run.states)  # which may be normed
    return norm if last or any(_near(token + given + y, run.states[layer + 1]) for y in beside) else "unknown"


def _plain(module: Any, x: np.ndarray, y: np.ndarray) -> Norm | None:
    """A norm as plain numbers: the kind and the reading of its gain that give y from x, or None."""
    gain, bias = (getattr(module, name, None) for name in ("weight", "bias"))
    eps = float(getattr(module, "variance_epsilon", getattr(module, "eps", 0.0)) or 0.0)
    weight = np.ones(x.shape[-1]) if gain is None else np.asarray(gain.detach().double().cpu().numpy())
    shift = None if bias is None else np.asarray(bias.detach().double().cpu().numpy())
    for kind in ("layer", "rms"):
        centred = x - x.mean(-1, keepdims=True) if kind == "layer" else x
        unit = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
        for read in (weight, 1.0 + weight):
            if _near(read * unit + (0.0 if shift is None else shift), y):
                return Norm(kind, read, shift, eps)
    return None
