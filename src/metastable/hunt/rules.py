"""What is hunted, and where: the settings of a hunt, fixed before it starts."""

from dataclasses import asdict, dataclass
from typing import Any

from metastable.errors import InputError, unknown

CLAIMS = ("codimension", "multi-head")
SCORES = ("symmetric", "positive", "good", "any")  # what is required of Q^T K, from most to least
LEADS = ("modulus", "real part")  # in what sense the leading eigenvalue is the largest


@dataclass(frozen=True)
class Rules:
    """The settings of a hunt.

    Attributes
    ----------
    claim : {"codimension", "multi-head"}
    n, d, heads : int
        Tokens, dimension, heads (1 for the codimension conjecture).
    k : int or None
        Eigenvalues with positive real part; None draws 2 to d of them.
    scores : str or None
        What Q^T K must satisfy (`SCORES`); None takes them in turn. In V's own coordinates Q = K = I becomes a
        symmetric positive definite form, so "symmetric" is the papers' Q = K = I for a general V; "positive" is
        Q^T K > 0; "good" is <Q phi_1, K phi_1> > 0 (Definition 1); "any" is no condition, as Conjecture 4.2 has it.
        The multi-head claim takes the first three in turn: it requires "good" heads.
    leads : {"modulus", "real part"} or None
        Whether the leading eigenvalue 1 also exceeds the others in modulus, as Definition 1 requires, or in real part
        only; None takes both in turn.
    gap : float
        Least distance of the largest real part (or modulus) from all others, the largest being 1.
    floor : float
        Least modulus of the other real parts: k is well defined, and no direction is slower than e^{-floor t}.
    exceptions : bool
        Also draw weights whose largest real part is shared (the known exceptions, which break the claim).
    seed : int
    batch, elite : int
        Instances simulated together, and how many of them are climbed on from.
    """

    claim: str = "codimension"
    n: int = 12
    d: int = 4
    heads: int = 1
    k: int | None = None
    scores: str | None = None
    leads: str | None = None
    gap: float = 0.1
    floor: float = 0.2
    exceptions: bool = False
    seed: int = 0
    batch: int = 64
    elite: int = 16

    def __post_init__(self) -> None:
        if self.claim not in CLAIMS:
            raise unknown("claim", self.claim, CLAIMS)
        if self.scores is not None and self.scores not in SCORES:
            raise unknown("scores", self.scores, SCORES)
        if self.leads is not None and self.leads not in LEADS:
            raise unknown("leads", self.leads, LEADS)
        _whole("n", self.n, 4, "four clusters take four tokens")
        _whole("d", self.d, 2, "on a line Theorem 2.1 leaves no conjecture")
        _whole("heads", self.heads, 1, "")
        _whole("seed", self.seed, 0, "")
        _whole("elite", self.elite, 1, "")
        _whole("batch", self.batch, self.elite + 1, "some of a batch must be new")
        if self.k is not None and not 1 <= self.k <= self.d:
            raise InputError(f"k counts eigenvalues, so it lies between 1 and d = {self.d}, not {self.k}.")
        if not (0.0 < self.gap < 1.0 and 0.0 < self.floor <= 1.0 - self.gap):
            raise InputError(
                f"gap and floor must be positive with floor <= 1 - gap (the largest real part is 1), not {self.gap:g} "
                f"and {self.floor:g}."
            )
        if self.claim == "codimension" and self.heads != 1:
            raise InputError(f"Conjecture 4.2 is about one head, not {self.heads}; use `metastable hunt multi-head`.")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def _whole(name: str, value: object, least: int, why: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be a whole number >= {least}, not {value!r}{'; ' + why if why else ''}.")
