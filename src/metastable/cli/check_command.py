"""metastable check."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from metastable.cli.flags import JSON, whole
from metastable.cli.interrupts import interruptible
from metastable.cli.output import answer, notes
from metastable.errors import InputError
from metastable.progress import Progress, progress_bar

_SPEC = Parameter(metavar="MATRIX", show_default=False, allow_leading_hyphen=True)
File = Annotated[Path | None, Parameter(metavar="FILE", show_default=False)]
Real = Annotated[float | None, Parameter(metavar="X", show_default=False)]
Number = Annotated[int | None, Parameter(metavar="N", show_default=False, converter=whole)]


def check(
    *,
    Q: Annotated[str | None, Parameter(name="--Q"), _SPEC] = None,
    K: Annotated[str | None, Parameter(name="--K"), _SPEC] = None,
    V: Annotated[str | None, Parameter(name="--V"), _SPEC] = None,
    tokens: File = None,
    n: Number = None,
    d: Number = None,
    beta: Real = None,
    t: Real = None,
    resolution: Real = None,
    seed: Annotated[int, Parameter(metavar="N", show_default=False, converter=whole)] = 0,
    json: JSON = False,
) -> int:
    """Put the theory to one triple (Q, K, V): which theorems apply, what they predict, what the tokens do.

    The first line is the conclusion. Exit code 1 if a verdict fails.

    Parameters
    ----------
    Q
        queries, identity unless given: a .npy or .csv file, a family (goe, 0.5*psd, ...), eigenvalues such as
        1,1,-0.5 or 0.5+2j,0.5-2j,1@orthogonal, one number, [[rows], [of numbers]], or model:NAME/head=4/top=3
    K
        keys: like Q
    V
        values: like Q
    tokens
        where tokens begin, one per row [n uniform on the cube [-5, 5]^d]
    n
        number of tokens, where none are given [40]
    d
        dimension, where neither tokens nor matrices have one [3]
    beta
        inverse temperature [1]
    t
        horizon [chosen from V, and doubled until the answer is clear]
    resolution
        distance at which a token has arrived, relative to how far out tokens are [1e-4]
    seed
        seed of the default tokens and of families [0]
    json
        print one JSON object and nothing else
    """
    if all(given is None for given in (Q, K, V, tokens)):
        raise InputError("check needs weights or tokens; give at least --V, for example --V 1,-0.5 or --V goe.")
    from metastable.config.job import triple
    from metastable.initial import tokens_from_file
    from metastable.theory import checking

    again = "Interrupted; check writes nothing: run the same command again"
    with notes() as sentences, interruptible(lambda: again), progress_bar() as report:
        report(Progress("checking", None))
        given = None if tokens is None else tokens_from_file(tokens)
        weights, start = triple({"Q": Q, "K": K, "V": V}, given, n, d, seed)
        scale, near = 1.0 if beta is None else beta, 1e-4 if resolution is None else resolution
        found = checking.check(weights, start, t=t, beta=scale, resolution=near, seed=seed)
    lines = [*str(found).splitlines(), *(f"Note: {sentence}" for sentence in sentences)]
    answer(json, found.to_dict() | {"failed": found.failed, "notes": [*found.notes, *sentences]}, lines)
    return int(any(verdict.status == "fails" for verdict in found.verdicts))
