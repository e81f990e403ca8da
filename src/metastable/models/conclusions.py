"""The findings of a study: five, each a headline, sentences and pictures; every sentence is made from its numbers."""

from dataclasses import dataclass
from typing import Any

from metastable.models import baselines, control_sentences, parts_alone
from metastable.models.phrases import after, listed, percent, two
from metastable.models.study_numbers import SINK, at_states, key_numbers, states
from metastable.models.study_record import Study
from metastable.models.token_distances import rule
from metastable.models.token_shapes import NONE, ONE_POINT, SPIKE, shape
from metastable.models.token_shapes import RULE as SHAPE_RULE

_STEP = 0.1  # Gram distance of layers and ODE below which a layer counts as a small step


@dataclass(frozen=True)
class Finding:
    """One finding: a name for links, what was found, its numbers, names of pictures, and the rule it was judged by."""

    name: str
    headline: str
    sentences: tuple[str, ...]
    pictures: tuple[str, ...] = ()
    rule: str = ""


def findings(study: Study) -> list[Finding]:
    """The five findings."""
    n = key_numbers(study)
    return [_tokens(study), _heads(study, n), _sinks(study, n), _weights(study, n), _theory(study, n)]


def sentences(study: Study) -> list[str]:
    """A summary: the headline of every finding and its first sentence."""
    return [" ".join([found.headline, *found.sentences[:1]]) for found in findings(study)]


def timing(study: Study) -> str:
    """Where the time went, in one sentence."""
    seconds = study.about["probe"]["seconds"]
    total = max(sum(seconds.values()), 1e-9)
    text = f"The pass over the texts took {total:.0f} s, {seconds['network'] / total:.0%} of it in the network itself"
    if study.ladder is None:
        return f"{text}."
    climb = study.about["ladder"]
    return f"{text}; the ladder took {climb['seconds']:.0f} s, on {climb['texts']} texts of {climb['tokens']} tokens."


# --- tokens -------------------------------------------------------------------------------------------------------

_SAID = {
    "one point": "Tokens are near one point {where}.",
    "many small clusters": "Beside the direction that all share, different tokens form many small clusters {where}.",
    "no clusters": "Beside the direction that all share, different tokens form no clusters {where}.",
    "some tokens together": "Some different tokens are together {where}, in neither one point nor many small clusters.",
    "nothing to compare": "No text has two tokens to compare.",
}


def _tokens(study: Study) -> Finding:
    found = shape(study.similarity.sel(layer=study.trained))
    headline = _SAID[found].format(where=after(study.trained))
    if found == "nothing to compare":
        return Finding("similarity", headline, ())
    said = (_means(study), _clusters(study), _spike(study), *control_sentences.on_tokens(study))
    return Finding("similarity", headline, said, ("cosines-raw", "cosines-centred", "similarity"), SHAPE_RULE)


def _means(study: Study) -> str:
    raw, centred = (at_states(study, "mean_cosine", kind) for kind in ("raw", "centred"))
    said = [f"{two(raw[str(k)])} {after(k)} (centred {two(centred[str(k)])})" for k in states(study)]
    return f"The mean cosine of two tokens is {listed(said)}."


def _clusters(study: Study) -> str:
    said = []
    for state in sorted({study.trained, study.last}):
        most = at_states(study, "largest_cluster", "raw")[str(state)]
        raw, centred = (at_states(study, "mixed_share", kind)[str(state)] for kind in ("raw", "centred"))
        said.append(
            f"{after(state)} the largest cluster holds {percent(most, ONE_POINT)} of a text's tokens, and "
            f"{percent(raw)} are in clusters of different tokens (centred {percent(centred, NONE)})"
        )
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def _spike(study: Study) -> str:
    raw, centred = (at_states(study, "spike", kind) for kind in ("raw", "centred"))
    shares = listed([f"{percent(raw[str(k)])} {after(k)} (centred {percent(centred[str(k)])})" for k in states(study)])
    text = f"Pairs with a cosine above {SPIKE:g}: {shares}"
    same = key_numbers(study)["same_token_share"]
    return text + ("." if same is None else f"; {percent(same)} of the last are one and the same token met twice.")


# --- attention ----------------------------------------------------------------------------------------------------


def _heads(study: Study, n: dict[str, Any]) -> Finding:
    if study.heads is None:
        return Finding(
            "heads", "This model does not show attention maps of every layer, so there are no heads to compare.", ()
        )
    layers = study.trained
    found = n["layers_with_groups"]
    least = [float(study.heads.attrs[f"least_{name}"]) for name in ("silhouette", "stability")]
    silhouette, stability = (two(n[name], limit) for name, limit in zip(("silhouette", "stability"), least))
    numbers = f"silhouette {silhouette}, found again in other texts with ARI {stability}"
    if n["silhouette"] is None:
        return Finding("heads", "There are too few heads, or too little variation in their maps, to form groups.", ())
    if found:
        headline = f"Heads form groups in {found} of {layers} layers."
        sizes = listed([str(size) for size in n["group_sizes"]])
        where = f"Most clearly in layer {n['grouped_layer']}: {n['groups']} groups, of {sizes} heads ({numbers})."
    else:
        headline = f"Heads form groups in none of the {layers} layers."
        where = f"Layer {n['grouped_layer']} comes nearest ({numbers})."
    said = (where, *_lone(n), *control_sentences.on_heads(study), *_ranks(n), *control_sentences.on_ranks(study))
    return Finding(
        "heads", headline, said, ("groups", f"correlation-{n['grouped_layer']}"), str(study.heads.attrs["rule"])
    )


def _lone(n: dict[str, Any]) -> list[str]:
    """In how many layers "groups" are a single head that is apart from all others."""
    alone, found = n["layers_with_a_lone_head"], n["layers_with_groups"]
    where = "that layer" if found == 1 else "all of these layers" if alone == found else f"{alone} of these layers"
    return [f"In {where} the groups are one head and all the others."] if alone else []


def _ranks(n: dict[str, Any]) -> list[str]:
    """How low the rank of the attention maps is, beside what evenly spread attention has."""
    if n["effective_rank"] is None:
        return []
    low, middle, high = n["effective_rank"]
    return [
        f"On {n['rank_texts']} input{'s' if n['rank_texts'] != 1 else ''} of {n['rank_tokens']} tokens the effective "
        f"rank of the attention maps is {middle:.1f} in the median head and {low:.1f} to {high:.1f} over all, where "
        f"evenly spread attention has {n['even_rank']:.1f}."
    ]


def _sinks(study: Study, n: dict[str, Any]) -> Finding:
    if study.sinks is None:
        return Finding(
            "sinks", "This model does not show attention maps of every layer, so there are no sinks to see.", ()
        )
    total = study.trained * study.sinks.sizes["head"]
    if (n["sink_baseline"] or 0.0) >= SINK:
        even = percent(n["sink_baseline"])
        headline = f"These texts are too short to tell a sink: spread evenly, attention pays the first token {even}."
    elif n["sink_heads"]:
        headline = f"The first token is a sink of {n['sink_heads']} of {total} heads."
    else:
        headline = f"The first token is no sink: none of {total} heads pays it {percent(SINK)} of its attention."
    times = n["sink"] / n["sink_baseline"] if n["sink_baseline"] else float("nan")
    strongest = (
        f"The strongest head (layer {n['sink_layer']}, head {n['sink_head']}) pays it {percent(n['sink'], SINK)} of "
        f"its attention, {times:.1f} times what evenly spread attention would."
    )
    rule = (
        f"A sink of a head gets at least {percent(SINK)} of its attention, in the mean over tokens and texts. A head "
        f"counts once in each of the {study.trained} trained layers; layers beyond do not count."
    )
    said = (strongest, *control_sentences.on_sinks(study), *_classes(study))
    return Finding("sinks", headline, said, ("sinks", "sink-map"), rule)


def _classes(study: Study) -> list[str]:
    """What separators and punctuation get."""
    assert study.sinks is not None
    said = []
    for kind, words in (("separator", "separators"), ("punctuation", "punctuation")):
        data = study.sinks.sel(kind=kind).isel(layer=slice(0, study.trained))
        if float(data["uniform"]) > 0:
            most = percent(float(data["mass"].max()))
            said.append(f"{most} to {words} ({percent(float(data['position'].mean()))} if evenly spread)")
    return [f"The strongest heads pay {listed(said)}."] if said else []


# --- weights ------------------------------------------------------------------------------------------------------


def _weights(study: Study, n: dict[str, Any]) -> Finding:
    if study.spectra is None:
        return Finding("spectra", "Spectra are left out.", (study.absent("spectra"),))
    low, middle, high = n["beta"]
    unsure = f" {n['undecided_triples']} cannot be decided by rounding." if n["undecided_triples"] else ""
    headline = f"{n['good_triples']} of {n['heads']} heads are good triples.{unsure}"
    folded = study.model["order"] in ("pre", "parallel")
    said = [
        "The map judged is O V, which moves tokens"
        + (", with the gain of the norm before attention folded into Q, K and V." if folded else ".")
    ]
    if study.model["rotary"]:
        said.append("Rotary turns are left out of the score form: it is that of two tokens at one position.")
    said.append(f"Effective beta is {low:.3g} to {high:.3g}, with median {middle:.3g}.")
    rule = (
        "A head is a good triple (second paper, Definition 1) when the leading eigenvalue of O V is real, positive and "
        "simple and its eigenvector has <Q phi, K phi> > 0."
    )
    return Finding("spectra", headline, tuple(said), ("leading", "beta"), rule)


# --- theory -------------------------------------------------------------------------------------------------------


def _theory(study: Study, n: dict[str, Any]) -> Finding:
    if study.ladder is None or study.baselines is None:
        why = study.absent("ladder")
        return Finding(
            "ladder", "There is no ladder.", ("For the same reason.",) if why == study.absent("spectra") else (why,)
        )
    said = [_exactness(n), *baselines.verdict(study.ladder, study.baselines)]
    pictures = ["ladder-bars", "ladder-mean_cosine"]
    if study.parts is not None:
        said += parts_alone.conclusion(study.parts)
        pictures.insert(1, "parts")
    if n["step_error"] is not None:
        small = "less" if n["step_error"] < _STEP else "more"
        said.append(
            f"On the sphere, layers and their ODE differ by up to {two(n['step_error'], _STEP)} (Gram distance), "
            f"{small} than the {_STEP:g} up to which a layer counts as a small step."
        )
    given, count = study.about["ladder"], study.ladder.sizes["text"]
    what = f"{'picture' if study.settings.images else 'text'}{'s' if count != 1 else ''}"
    rules = (
        "The rungs of the ladder are the model rebuilt as particles, one part at a time; the last is the network "
        f"itself. They are climbed on {count} {what} of {given['tokens']} tokens. Distances are averaged over states 1 "
        f"to the last, then over texts; {rule(count)}."
    )
    return Finding("ladder", _winner(study), tuple(said), tuple(pictures), rules)


def _exactness(n: dict[str, Any]) -> str:
    return (
        "Rebuilt as particles with all its parts, the network is reached to a relative error of "
        f"{n['top_rung_error']:.1e} in float64."
    )


_BASELINES = {
    "frozen tokens": "tokens that do not move",
    "one point": "all tokens in one point",
    "best constant": "the best constant cosine",
}


def _winner(study: Study) -> str:
    """Whether any rung below the exact network beats all baselines, or none of them any."""
    assert study.ladder is not None
    assert study.baselines is not None
    rungs = [int(k) for k in study.ladder.rung.values[:-1]]
    names = [str(b) for b in study.baselines.baseline.values]
    signs = {
        k: {b: baselines.compared(study.ladder.sel(rung=k), study.baselines.sel(baseline=b)) for b in names}
        for k in rungs
    }
    better = [str(k) for k in rungs if all(sign == -1 for sign in signs[k].values())]
    if better:
        many = len(better) > 1
        which, verb = ("Rungs", "beat") if many else ("Rung", "beats")
        return f"{which} {listed(better)} of the ladder {verb} every baseline."
    beaten = [b for b in names if all(signs[k][b] == 1 for k in rungs)]
    if beaten:
        words = listed([_BASELINES.get(name, name) for name in beaten])
        return f"Every rung below the exact network is farther from the model than {words}."
    return "No rung below the exact network beats every baseline."
