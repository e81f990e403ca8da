"""metastable check."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from metastable.cli.flags import JSON, whole
from metastable.cli.interrupts import interruptible
from metastable.cli.output import answer, notes
from metastable.errors import InputError
from metastable.progress import Progress, progress_bar

Matrix = Annotated[Path | None, Parameter(metavar="FILE", show_default=False)]
Real = Annotated[float | None, Parameter(metavar="X", show_default=False)]


def check(
    *,
    Q: Annotated[Path | None, Parameter(name="--Q", metavar="FILE", show_default=False)] = None,
    K: Annotated[Path | None, Parameter(name="--K", metavar="FILE", show_default=False)] = None,
    V: Annotated[Path | None, Parameter(name="--V", metavar="FILE", show_default=False)] = None,
    tokens: Matrix = None,
    beta: Real = None,
    t: Real = None,
    resolution: Real = None,
    seed: Annotated[int, Parameter(metavar="N", show_default=False, converter=whole)] = 0,
    json: JSON = False,
) -> int:
    """Put the theory to one triple (Q, K, V): which theorems apply, what they predict, what the tokens do.

    Exit code 1 if a verdict fails.

    Parameters
    ----------
    Q
        queries, a .npy or .csv file [identity]
    K
        keys, a .npy or .csv file [identity]
    V
        values, a .npy or .csv file [identity]
    tokens
        where tokens begin, one per row [40 uniform on the cube [-5, 5]^d]
    beta
        inverse temperature [1]
    t
        horizon [chosen from V, and doubled until the answer is clear]
    resolution
        distance at which a token has arrived, relative to how far out tokens are [1e-4]
    seed
        seed of the default tokens [0]
    json
        print one JSON object and nothing else
    """
    if all(given is None for given in (Q, K, V, tokens)):
        raise InputError("check needs weights or tokens; give at least --V FILE (a .npy or .csv matrix).")
    from metastable.equation.weights import Weights, from_file
    from metastable.initial import tokens_from_file
    from metastable.theory import checking

    again = "Interrupted; check writes nothing: run the same command again"
    with notes() as sentences, interruptible(lambda: again), progress_bar() as report:
        matrices = {name: None if path is None else from_file(path) for name, path in (("Q", Q), ("K", K), ("V", V))}
        start = None if tokens is None else tokens_from_file(tokens)
        scale, near = 1.0 if beta is None else beta, 1e-4 if resolution is None else resolution
        report(Progress("checking", None))
        found = checking.check(Weights(**matrices), start, t=t, beta=scale, resolution=near, seed=seed)
    lines = [*str(found).splitlines(), *(f"Note: {sentence}" for sentence in sentences)]
    answer(json, found.to_dict() | {"failed": found.failed, "notes": [*found.notes, *sentences]}, lines)
    return int(any(verdict.status == "fails" for verdict in found.verdicts))
