"""The report of a study: one HTML page that opens offline, made from its record and from nothing else."""

import shlex
from collections.abc import Sequence

from metastable.models import control_sentences, study_tables
from metastable.models.conclusions import Finding, findings, timing
from metastable.models.depth_axis import COUNTING
from metastable.models.html_parts import details, figures, film, model_page, paragraphs, rule, sayings, table, unbroken
from metastable.models.layer_similarity import CAUTION
from metastable.models.study_figures import every_picture
from metastable.models.study_record import Study
from metastable.models.study_settings import Settings
from metastable.models.substitution import substitution
from metastable.report.sections import Media, escaped
from metastable.store.folder import read_provenance

FILM, PLAYER = "depth.mp4", "depth.html"
_FILM_CAPTION = (
    "Depth as a film. Above: shares of pairs by cosine, all texts. Below: the tokens of the first text by their "
    "directions, in the plane of the two leading principal directions of all states shown; colours go from the "
    "beginning of the text (dark) to its end (light), the first token is red. Between two states tokens are drawn on "
    "straight lines. Until it plays its last state is shown."
)
_PLAYER = (
    f'<a href="figures/{PLAYER}">Turn, stop and step through it by hand</a>: the same tokens in three principal '
    "directions; a token's name shows under the pointer. (A page of its own, beside this one.)"
)


def page(study: Study) -> str:
    """The page; pictures are read from ``figures/`` in the study's folder."""
    media = Media()
    found = findings(study)
    parts = [_head(study, found), _measured(study), _short(study, found)]
    parts += [_finding(study, k, one, media) for k, one in enumerate(found, 1)]
    parts += [_details(study, media), _making(study)]
    return model_page(f"{study.settings.model}: how its tokens cluster", parts)


def command(settings: Settings) -> str:
    """The command that makes this study."""
    arguments = ["metastable", "model", settings.model]
    standard = Settings(settings.model)
    for name in ("layers", "texts", "limit", "head", "part", "longest", "images", "control", "control_seeds"):
        value = getattr(settings, name)
        if value != getattr(standard, name):
            arguments += [f"--{name.replace('_', '-')}", ",".join(value) if name == "control" else str(value)]
    return shlex.join(arguments + ([] if settings.special else ["--no-special"]))


# --- the paper ----------------------------------------------------------------------------------------------------


def _head(study: Study, found: Sequence[Finding]) -> str:
    model, probe = study.model, study.about["probe"]
    facts = {
        "family": f"{model['family']}, {'causal' if model['causal'] else 'bidirectional'}",
        "layers": f"{model['depth']}{', one shared block' if model['shared'] else ''}",
        "heads": model["heads"],
        "dimension": model["dimension"],
        "weights": f"{model['parameters']:,}" if model["parameters"] else "not known",
        "texts": f"{probe['texts']:,} ({probe['source']}), {probe['tokens']:,} tokens",
        "run to state": probe["layers"],
    }
    items = "".join(f"<li>{escaped(k)} <b>{escaped(v)}</b></li>" for k, v in facts.items())
    return f"""<h1>{escaped(study.settings.model)}</h1>
<p>How the tokens of this model cluster from layer to layer, where its heads look, what its weights say, and how much of
it the theory of attention as interacting particles explains.</p>
<ul class="facts">{items}</ul>
"""


def _measured(study: Study) -> str:
    """What was measured on what, and what a reader must know to read the rest."""
    model, probe = study.model, study.about["probe"]
    special = "Special tokens are counted." if study.settings.special else "Special tokens are left out."
    about = [substitution(model, probe["source"]), model["stored"], special, _weighting(study), _last_state(study)]
    return (
        '<h2 id="measured">What was measured</h2>\n'
        + paragraphs(about)
        + paragraphs([COUNTING, CAUTION])
        + paragraphs(control_sentences.what_they_are(study))
        + "".join(f'<p class="soft">Note: {escaped(note)}</p>\n' for note in study.notes)
    )


def _weighting(study: Study) -> str:
    return str(study.similarity.attrs["weighting"])


def _last_state(study: Study) -> str:
    """What the library hands out as the last state."""
    if not study.model["parameters"]:
        return "States and maps are taken as they were given; whether the last state is normed is not known."
    said = {
        True: "The state after the last trained layer is shown after the model's final norm, as transformers hands it "
        "out.",
        False: "The model has no norm after its last layer, so the last state is what that layer makes.",
        None: "States are those that transformers hands out; in many models the last of them comes after a final norm.",
    }
    return said[study.model["final_norm"]]


def _short(study: Study, found: Sequence[Finding]) -> str:
    items = "".join(f'<li><a href="#{one.name}">{unbroken(escaped(one.headline))}</a></li>' for one in found)
    more = '<p><a href="#details">Details</a> · <a href="#making">How it was made</a></p>'
    return f'<h2 id="short">In short</h2>\n<nav><ol class="findings">{items}</ol>{more}</nav>\n'


def _finding(study: Study, number: int, found: Finding, media: Media) -> str:
    known = every_picture(study)
    shown = {name: known[name].caption for name in found.pictures if name in known}
    head = f'<h2 id="{found.name}"><span class="number">{number}</span>{unbroken(escaped(found.headline))}</h2>\n'
    play = _depth(study, media) if found.name == "similarity" else ""
    text = sayings(found.sentences) + rule(found.rule)
    beside = ""
    if found.name == "similarity" and control_sentences.names(study):
        beside = table(*control_sentences.control_table(study))
    return head + text + figures(study.folder / "figures", shown, media) + play + beside


def _depth(study: Study, media: Media) -> str:
    """The film, and beside it the way to the player."""
    home = study.folder / "figures"
    link = _PLAYER if (home / PLAYER).exists() else ""
    return film(home / FILM, home / "cloud.svg", _FILM_CAPTION, media, link)


# --- details ------------------------------------------------------------------------------------------------------

_ABOUT = {
    "similarity": "Cosines are taken over all pairs of different positions. Tokens are linked where their cosine is "
    "above a threshold; chains of links make clusters. Centred cosines are those beside the mean direction of a text.",
    "heads": "Pearson's correlation of two heads' attention maps; groups by average linkage, as many as give the best "
    "silhouette. Stability compares the groups found in random halves of the texts (adjusted Rand index, ARI).",
    "sinks": "The mean over all tokens of the attention they pay to a class of tokens. Evenly spread attention is what "
    "a head without preferences would give, over the tokens that the mask leaves visible.",
    "spectra": "What moves tokens is O V, not the square block of V that published figures show; both are here.",
    "ladder": "The model rebuilt as particles with its own weights and its own embedded tokens, one part at a time. "
    "The Gram distance is that of the matrices of cosines, relative to the model's; Wasserstein is the distance of the "
    "distributions of cosines. Baselines know nothing of attention: tokens that stay where they are, all tokens in one "
    "point, and one constant cosine for all pairs, the best there is.",
}
_TITLES = {
    "similarity": "Similarity",
    "heads": "Heads",
    "sinks": "Sinks",
    "spectra": "Weights",
    "ladder": "The ladder",
}


def _details(study: Study, media: Media) -> str:
    known = every_picture(study)
    used = {name for one in findings(study) for name in one.pictures}
    parts = ['<h2 id="details">Details</h2>\n']
    for section, title in _TITLES.items():
        shown = {n: p.caption for n, p in known.items() if _section_of(n) == section and n not in used}
        folded = {n: shown.pop(n) for n in list(shown) if n.startswith("value_block")}
        body = figures(study.folder / "figures", shown, media)
        body += details("The square value block, as published", figures(study.folder / "figures", folded, media))
        body += _tables(study, section)
        if shown or body:
            parts.append(f'<h3 id="more-{section}">{title}</h3>\n<p>{escaped(_ABOUT[section])}</p>\n{body}')
    return "".join(parts)


def _section_of(picture: str) -> str:
    """Where a picture belongs."""
    first = picture.split("-")[0]
    names = {
        "heads": ("groups", "correlation", "ranks", "rank", "activation"),
        "sinks": ("sinks", "sink"),
        "spectra": ("leading", "beta", "qk", "ov", "value_block"),
        "ladder": ("ladder", "parts"),
    }
    return next((section for section, known in names.items() if first in known), "similarity")


def _tables(study: Study, section: str) -> str:
    if section == "similarity":
        return table(*study_tables.similarity_table(study))
    if section == "heads" and study.heads is not None:
        return table(*study_tables.group_table(study))
    if section == "sinks" and study.sinks is not None:
        return table(*study_tables.sink_table(study))
    if section == "ladder" and study.ladder is not None:
        return table(*study_tables.ladder_table(study))
    if section == "spectra" and study.spectra is not None:
        found = details("Every head in numbers", table(*study_tables.head_table(study)))
        promoted = table(*study_tables.promotion_table(study))
        return found + details("The tokens that leading eigenvectors promote", promoted)
    return ""


def _making(study: Study) -> str:
    made = read_provenance(study.folder, "study")["sessions"][-1]
    used = ", ".join(f"{name} {value}" for name, value in made.items() if name not in ("machine", "time"))
    used += f"; {made['machine']}, {made['time']}"
    there = ", ".join(sorted(path.stem for path in study.folder.glob("*.zarr")))
    again = f"metastable plot {shlex.quote(study.folder.name)} --kind cosines-raw --out cosines.pdf"
    return f"""<h2 id="making">How it was made</h2>
<pre>{escaped(command(study.settings))}</pre>
<p>Every picture is in <code>figures/</code> as SVG, by the name in its caption; as PDF, SVG or PNG of its own:</p>
<pre>{escaped(again)}</pre>
<p class="soft">{escaped(timing(study))} {escaped(used)}. Weights computed in {escaped(study.model["dtype"])}; their
digest is {escaped(study.model["digest"])}.</p>
<p class="soft">The numbers are beside this page as zarr folders ({escaped(there)}):
<code>xarray.open_zarr("similarity.zarr")</code>.</p>
"""
