"""What each part of a model does alone: taken from the exact network, and given to the bare system.

The bare system is rung 0, the papers' equation: one head, softmax, the token itself kept, on the sphere.

| part | the network without it | bare without it | bare with it |
| --- | --- | --- | --- |
| attention | adds nothing, its output bias included | frozen tokens | rung 0 |
| softmax | all scores equal, uniform over the visible tokens | the same | rung 0 |
| heads | one head is left; the output bias stays | rung 0 | rung 1: all heads |
| biases | none of the maps Q, K, V, O has one | rung 0 | rung 0 with biases |
| positions | no rotary turns, no score biases | rung 0 | rung 0 with them |
| norms | those in the layers become the identity, gains and all | rung 0 | the model's norms, no sphere |
| MLP | adds nothing, its bias included: rung 3 | rung 0 | rung 0 with the MLP |
| residual | x + f(x) becomes f(x) | the same | rung 0 |

The MLP is given to the bare system as the equation has it: attention and MLP read the same particle and are added,
y + attention(y) + MLP(y), before it is put back on the sphere. In most models the MLP reads what attention has made.

Positions that are embedded (BERT, GPT-2) are left out of the tokens at layer 0: of the network's, and of rung 0's,
which has them otherwise. Where there are both kinds (MPNet) both are taken and given together. Norms of queries and
keys and the final norm stay in all systems.

Removing gives the distance of what is left from the model (the whole network has 0); adding gives how much nearer the
bare system comes, which may be negative. Only what both say, in both distances, is concluded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from metastable.models.model import Given, Model
from metastable.models.moving_systems import Switches, System
from metastable.models.token_distances import DISTANCES, distances, over_layers, over_texts, rule, told_apart

if TYPE_CHECKING:
    import xarray

PARTS = ("attention", "softmax", "heads", "biases", "positions", "norms", "MLP", "residual")
SIDES = ("network without it", "bare without it", "bare with it")
WAYS = ("removed", "added")

# part -> the systems that are compared: the network without it, the bare system without it and with it
COMPARED: dict[str, tuple[str, str, str]] = {
    "attention": ("network - attention", "frozen", "rung 0"),
    "softmax": ("network - softmax", "bare - softmax", "rung 0"),
    "heads": ("network - heads", "rung 0", "rung 1"),
    "biases": ("network - biases", "rung 0", "bare + biases"),
    "positions": ("network - positions", "rung 0", "bare + positions"),
    "norms": ("network - norms", "rung 0", "bare + norms"),
    "MLP": ("rung 3", "rung 0", "bare + MLP"),
    "residual": ("network - residual", "bare - residual", "rung 0"),
}
_EMBEDDED = ("network - positions", "bare - positions", "rung 0")  # where positions are part of the embedded tokens
_BOTH_KINDS = ("network - positions", "bare - positions", "bare + positions")  # and of the scores as well
_SOME = [0, 0, 0]  # tokens to try whether places are embedded


def all_systems(
    model: Model, ids: Sequence[Given], start: np.ndarray, head: int, rungs: Sequence[int], parts: bool
) -> dict[str, System]:
    """The rungs, and what is needed to see each part alone, from embedded tokens (texts, n, d)."""
    every = np.ones(model.heads)
    one = np.where(np.arange(model.heads) == head, 1.0, 0.0)
    whole, bare = Switches(every), Switches(one, biases=0.0, positions=0.0)
    found = {
        "rung 0": System("sphere", bare, start),
        "rung 1": System("sphere", replace(bare, heads=every), start),
        "rung 2": System("sphere", whole, start),
        "rung 3": System("network without MLP", whole, start),
        "rung 4": System("network", whole, start),
    }
    if not parts:
        return {f"rung {k}": found[f"rung {k}"] for k in rungs}
    found |= {
        "network - attention": System("network", replace(whole, attention=0.0), start),
        "network - softmax": System("network", replace(whole, softmax=0.0), start),
        "network - heads": System("network", replace(whole, heads=one), start),
        "network - biases": System("network", replace(whole, biases=0.0), start),
        "network - positions": System("network", replace(whole, positions=0.0), start),
        "network - norms": System("network without norms", whole, start),
        "network - residual": System("network", replace(whole, residual=0.0), start),
        "bare - softmax": System("sphere", replace(bare, softmax=0.0), start),
        "bare - residual": System("sphere", replace(bare, residual=0.0), start),
        "bare + biases": System("sphere", replace(bare, biases=1.0), start),
        "bare + positions": System("sphere", replace(bare, positions=1.0), start),
        "bare + norms": System("network without MLP", bare, start),
        "bare + MLP": System("sphere with MLP", bare, start),
    }
    compared = compared_systems(model)
    texts = [x for text in ids if (x := model.require_parts().start(text, positions=False)) is not None]
    if texts:
        placeless = np.stack(texts).astype(start.dtype)
        found["network - positions"] = System("network", replace(whole, positions=0.0), placeless)
        found["bare - positions"] = System("sphere", bare, placeless)
    wanted = {name for row in compared.values() for name in row} | {f"rung {k}" for k in rungs}
    return {name: system for name, system in found.items() if name in wanted}


def compared_systems(model: Model) -> dict[str, tuple[str, str, str]]:
    """The rows of COMPARED for the parts that a model has."""
    block, found = model.block(0), dict(COMPARED)
    if block.heads < 2:
        del found["heads"]
    if all(bias is None for bias in (block.q_bias, block.k_bias, block.v_bias, block.o_bias)):
        del found["biases"]
    parts = model.require_parts()
    placeless = parts.start(_SOME, positions=False)
    if parts.position(0, 2).kind != "embedded":
        if placeless is not None and not np.array_equal(placeless, np.asarray(parts.start(_SOME))):
            found["positions"] = _BOTH_KINDS
    elif placeless is None:
        del found["positions"]
    else:
        found["positions"] = _EMBEDDED
    return found


def parts_dataset(
    rows: Mapping[str, Sequence[Mapping[str, np.ndarray]]],
    cosines: Sequence[np.ndarray],
    compared: Mapping[str, tuple[str, str, str]],
) -> "xarray.Dataset":
    """Distances over (side, part, text, layer) from the rows of every system (one for each layer).

    ``diverges`` (side, part, text) is the first layer whose tokens are not finite, -1 for none; distances are nan from
    there on, and so is their mean over layers.
    """
    import xarray

    frozen = [distances(cosines[0], H) for H in cosines]
    every = {**rows, "frozen": frozen}
    dims = ("side", "part", "text", "layer")
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for key in DISTANCES:
        table = np.array([[[row[key] for row in every[names[k]]] for names in compared.values()] for k in range(3)])
        variables[key] = (dims, np.swapaxes(table, -1, -2))
    lost = np.isnan(variables[DISTANCES[0]][1])
    variables["diverges"] = (dims[:-1], np.where(lost.any(axis=-1), lost.argmax(axis=-1), -1))
    coords = {
        "side": list(SIDES),
        "part": list(compared),
        "text": np.arange(len(cosines[0])),
        "layer": np.arange(len(cosines)),
    }
    return xarray.Dataset(variables, coords)


# --- what it says -------------------------------------------------------------------------------------------------


def effects(parts: "xarray.Dataset") -> "xarray.Dataset":
    """What each part does, (way, part, text), averaged over layers 1 to the last: two bar charts, one for each way.

    "removed" is the distance of the network without the part; "added" is how much nearer the bare system comes by it.
    Both are positive where the part brings tokens nearer to the model's.
    """
    import xarray

    found = {}
    for name in DISTANCES:
        without, bare, more = (over_layers(parts[name]).sel(side=side, drop=True) for side in SIDES)
        found[name] = xarray.concat([without, bare - more], dim="way")
    return xarray.Dataset(found, {"way": list(WAYS)})


SMALL = 0.02  # effects below this, in either distance, count as none


def verdicts(parts: "xarray.Dataset") -> dict[str, dict[str, int]]:
    """For each part and way: 1 where both distances say that it brings tokens nearer to the model, -1 away, else 0.

    An effect counts when it exceeds SMALL and two standard errors over the texts. A system whose tokens overflow
    without the part needs it, and one whose tokens overflow with it is led away; where both do, it is 0.
    """
    found, lost = effects(parts), _lost(parts)
    return {
        str(part): {
            way: lost[way].get(part, _both([found[d].sel(way=way, part=part).values for d in DISTANCES]))
            for way in WAYS
        }
        for part in map(str, parts.part.values)
    }


def _both(values: Sequence[np.ndarray]) -> int:
    signs = {_sign(v) for v in values}
    return signs.pop() if len(signs) == 1 else 0


def _sign(values: np.ndarray) -> int:
    """The sign of an effect (texts,) in one distance, 0 where it does not count."""
    return told_apart(values) if abs(float(np.mean(values))) > SMALL else 0


def _in_no_distance(found: "xarray.Dataset", part: str) -> bool:
    """Whether a part has no effect in either distance, neither way."""
    return not any(_sign(found[d].sel(way=way, part=part).values) for d in DISTANCES for way in WAYS)


def _lost(parts: "xarray.Dataset") -> dict[str, dict[str, int]]:
    """For each way the parts with which tokens overflow in some text (-1), without which (1), or both (0)."""
    without, bare, more = ((parts["diverges"].sel(side=side) >= 0).any("text").values for side in SIDES)
    names = [str(part) for part in parts.part.values]
    return {
        WAYS[0]: {name: 1 for name, a in zip(names, without) if a},
        WAYS[1]: {name: int(a) - int(b) for name, a, b in zip(names, bare, more) if a or b},
    }


def conclusion(parts: "xarray.Dataset") -> list[str]:
    """What removing and adding say alike, in sentences; where they differ, that they do."""
    signs, found = verdicts(parts), effects(parts)
    groups: dict[str, list[str]] = {
        "Needed both ways, in both distances": [],
        "The network needs these, but given to the bare system alone they lead away from it": [],
        "Nothing is concluded, for removing and adding do not both say so in both distances": [],
        "No effect either way": [],
    }
    kinds = dict(zip([(1, 1), (1, -1), None, (0, 0)], groups))
    both: tuple[int, int] | None
    for part, sign in signs.items():
        both = (sign[WAYS[0]], sign[WAYS[1]])
        if _lost(parts)[WAYS[1]].get(part) == 0 or (both == (0, 0) and not _in_no_distance(found, part)):
            both = None  # an effect in one distance alone is no agreement, and not nothing either
        groups[kinds.get(both, kinds[None])].append(f"{part}, {_numbers(found, parts, part)}")
    least = f"effects below {SMALL:g} count as none, {rule(parts.sizes['text'])}"
    said = [f"{_first(found, parts)} (Gram distances; {least})."]
    return said + [f"{what}: {'; '.join(which)}." for what, which in groups.items() if which]


def _first(found: "xarray.Dataset", parts: "xarray.Dataset") -> str:
    """The part that matters most by both ways and both distances, or that there is none."""
    most = {way: {_largest(found[d].sel(way=way), _lost(parts)[way]) for d in DISTANCES} for way in WAYS}
    agreed = most[WAYS[0]] | most[WAYS[1]]
    top = next(iter(agreed))
    if len(agreed) == 1 and top:
        return f"The part that matters most, both ways and in both distances, is {top}: {_numbers(found, parts, top)}"
    said = [
        f"{verb} most for {only}" if len(which) == 1 and (only := next(iter(which))) else f"{verb} most for no one part"
        for verb, which in zip(("removing hurts", "adding helps"), most.values())
    ]
    return f"No single part matters most both ways and in both distances: {said[0]}, {said[1]}"


def _largest(values: "xarray.DataArray", lost: Mapping[str, int]) -> str:
    """The part whose effect is larger than every other's, told apart text by text; "" where there is none such."""
    needed = [part for part, sign in lost.items() if sign > 0]
    if needed:  # tokens that overflow are farther from the model than any others
        return needed[0] if len(needed) == 1 else ""
    names = [part for part in map(str, values.part.values) if part not in lost]
    if not names:
        return ""
    top = max(names, key=lambda part: float(values.sel(part=part).mean()))
    gaps = [values.sel(part=top).values - values.sel(part=part).values for part in names if part != top]
    return top if all(told_apart(gap) == 1 for gap in gaps) else ""


def _numbers(found: "xarray.Dataset", parts: "xarray.Dataset", part: str) -> str:
    """Both effects of a part in one phrase."""
    mean = over_texts(found[DISTANCES[0]].sel(part=part))[0]
    removed, bare, more = (_overflow(parts, side, part) for side in SIDES)
    removed = f"tokens {removed}" if removed else f"off by {float(mean.sel(way='removed')):.2f} without it"
    if bare or more:
        return f"{removed}, and the bare system's tokens {' and '.join(said for said in (bare, more) if said)}"
    gain = float(mean.sel(way="added"))
    return f"{removed}, {abs(gain):.2f} {'nearer' if gain >= 0 else 'farther'} with it"


def _overflow(parts: "xarray.Dataset", side: str, part: str) -> str:
    """In which state a system's tokens overflow first, as the rest of a sentence; empty where they do not."""
    layers = parts["diverges"].sel(side=side, part=part).values
    with_it = "with it" if side == SIDES[2] else "without it"
    return f"overflow {with_it} in state {int(layers[layers >= 0].min())}" if (layers >= 0).any() else ""
