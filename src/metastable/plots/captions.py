"""Captions: what a picture shows, and of which run, in a sentence."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from metastable.equation.short_forms import matrix_words
from metastable.plots.motion import Motion, read_motion


def caption(what: str, tokens: object, motion: Motion, *more: str) -> str:
    """A caption: what is drawn, n, d, beta, V and the run's first tokens as far as they are known, and remarks.

    >>> import numpy as np
    >>> from metastable.plots.motion import read_motion
    >>> x = np.zeros((2, 5, 3))
    >>> caption("Tokens at t = 1", x, read_motion(x), "colours tell clusters")
    'Tokens at t = 1: n = 5, d = 3. Colours tell clusters.'
    """
    return _sentences(what, facts(tokens, motion), (*more, motion.note))


def common_caption(what: str, runs: Sequence[object], *more: str) -> str:
    """A caption of several runs: what all of them have in common."""
    every = [facts(run, read_motion(run)) for run in runs]  # type: ignore[arg-type]
    return _sentences(what, [fact for fact in every[0] if all(fact in others for others in every)], more)


def facts(tokens: object, motion: Motion) -> list[str]:
    """What is known of a run, each in a few letters."""
    return [f"n = {motion.n}", f"d = {motion.d}", *_equation(tokens, motion), *_start(tokens, motion)]


def _sentences(what: str, known: Sequence[str], remarks: Sequence[str]) -> str:
    said = [remark[:1].upper() + remark[1:] for remark in remarks if remark]
    return ". ".join([f"{what}: {', '.join(known)}" if known else what, *said]) + "."


def times_in_words(motion: Motion, chosen: np.ndarray) -> str:
    """The times of some panels.

    >>> from metastable.plots.motion import read_motion
    >>> motion = read_motion(np.zeros((4, 2, 2)), [0.0, 1.0, 2.5, 4.0])
    >>> times_in_words(motion, np.array([0, 2, 3]))
    't = 0, 2.5 and 4'
    """
    said = [f"{motion.t[k]:.6g}" for k in chosen]  # as they were met, not as a title rounds them
    listed = said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"
    return f"{motion.clock_label if motion.clock == 't' or len(said) == 1 else 'layers'} {listed}"


def _equation(tokens: object, motion: Motion) -> list[str]:
    """Parts, beta and matrices of a run; nothing of bare arrays."""
    dynamics: Any = getattr(tokens, "dynamics", None)
    if dynamics is None or not hasattr(dynamics, "weights"):
        return []
    parts = [
        f"beta = {_ends(dynamics.beta)}",
        f"{_said(dynamics.mask.name) or 'own'} mask",
        _said(dynamics.normalise.name) or "own normalisation",
    ]
    parts += [{"sphere": "on the sphere", "rescaled": "rescaled, z = e^{-tV} x"}.get(dynamics.geometry.name, "in R^d")]
    if dynamics.noisy:
        parts.append(
            f"noise = {_ends(dynamics.noise)} (seed {(getattr(tokens, 'provenance', None) or {}).get('seed')})"
        )
    w = dynamics.weights
    parts += [f"{w.heads} heads"] * (w.heads > 1) + ["weights that change with t"] * w.time_dependent
    if w.heads == 1 and not w.time_dependent:
        parts.append(matrix_words("V", np.asarray(w.value_map(0.0, motion.d))[0]))
        if w.bilinear:
            parts.append(matrix_words("Q^T K", np.asarray(w.score_map(0.0, motion.d))[0]))
    return parts


def _said(word: str) -> str:
    """The name of a part as a caption says it: a lambda has none."""
    return word.replace("<lambda>", "")


def _ends(values: object) -> str:
    """A number, or the smallest and the largest of an ensemble's.

    >>> _ends(2.0), _ends([1.0, 4.0, 9.0])
    ('2', '1 to 9')
    """
    found = np.unique(np.asarray(values, dtype=float))
    return f"{found[0]:g}" if len(found) == 1 else f"{found[0]:g} to {found[-1]:g}"


def _start(tokens: object, motion: Motion) -> list[str]:
    """How the run was made: the method, and its first tokens as far as its provenance tells.

    A run of the command line or of a TOML file knows from which cloud, by which seed, its tokens were drawn; to Python
    they came as an array, which is named by a digest of its numbers.
    """
    made = getattr(tokens, "provenance", None) or {}
    if not made.get("method"):
        return []
    x = np.asarray(getattr(tokens, "x", motion.x))
    said = [str(made["method"])] + [f"{int(np.prod(x.shape[1:-2]))} runs"] * (x.ndim > 3)
    if made.get("initial"):
        return [*said, f"first tokens {made['initial']}, seed {made.get('seed')}"]
    if motion.t[0] != 0.0:
        return said
    digest = hashlib.sha256(np.ascontiguousarray(x[0]).tobytes()).hexdigest()
    return [*said, f"first tokens given as an array (SHA-256 {digest[:8]})"]
