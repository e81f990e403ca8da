"""The report of a study: one HTML page that opens offline, made from its record and from nothing else."""

import re
import shlex
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from metastable.models import conclusions
from metastable.models.layer_similarity import CAUTION
from metastable.models.study import Study
from metastable.models.study_settings import Settings
from metastable.models.weight_figures import LADDER_LABELS
from metastable.report.sections import Media, escaped
from metastable.store.folder import read_provenance

_POLICY = "default-src 'none'; img-src data: 'self'; style-src 'unsafe-inline'"
_STYLE = """
.facts { display: flex; flex-wrap: wrap; gap: .4rem 1.5rem; list-style: none; padding: 0; margin: .75rem 0; }
.facts b { font-weight: 650; }
.scroll { overflow-x: auto; }
.scroll img { max-width: none; }
.scroll table { width: auto; }
.scroll td:nth-child(n) { min-width: 0; }
td, th { padding-right: 1.1rem; }
ul.findings { max-width: 52rem; padding-left: 1.2rem; }
ul.findings li { margin: .45rem 0; }
"""


def page(study: Study) -> str:
    """The page; pictures are read from ``figures/`` in the study's folder."""
    media = Media()
    parts = [
        _head(study),
        _similarity(study, media),
        _heads(study, media),
        _sinks(study, media),
        _spectra(study, media),
        _ladder(study, media),
        _making(study),
    ]
    style = files("metastable.report").joinpath("style.css").read_text(encoding="utf-8")
    title = escaped(f"{study.settings.model}: how its tokens cluster")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}{_STYLE}</style>
</head>
<body>
<a class="skip" href="#short">To the findings</a>
<main>
{"".join(parts)}
</main>
</body>
</html>
"""


def command(settings: Settings) -> str:
    """The command that makes this study."""
    arguments = ["metastable", "model", settings.model]
    standard = Settings(settings.model)
    for name in ("layers", "texts", "limit", "head", "part", "longest"):
        if getattr(settings, name) != getattr(standard, name):
            arguments += [f"--{name}", str(getattr(settings, name))]
    return shlex.join(arguments + ([] if settings.special else ["--no-special"]))


# --- sections -----------------------------------------------------------------------------------------------------


def _head(study: Study) -> str:
    model, probe = study.model, study.about["probe"]
    facts = {
        "family": f"{model['family']}, {'causal' if model['causal'] else 'bidirectional'}",
        "layers": f"{model['depth']}{', one shared block' if model['shared'] else ''}",
        "heads": model["heads"],
        "dimension": model["dimension"],
        "weights": f"{model['parameters']:,}",
        "texts": f"{probe['texts']:,} ({probe['source']}), {probe['tokens']:,} tokens",
        "run to layer": probe["layers"],
    }
    items = "".join(f"<li>{escaped(k)} <b>{escaped(v)}</b></li>" for k, v in facts.items())
    sentences = "".join(f"<li>{_unbroken(escaped(sentence))}</li>" for sentence in conclusions.sentences(study))
    notes = "".join(f'<p class="soft">Note: {escaped(note)}</p>' for note in study.notes)
    links = {
        "similarity": "Similarity",
        "heads": "Heads",
        "sinks": "Sinks",
        "spectra": "Spectra",
        "ladder": "The ladder",
        "making": "How it was made",
    }
    contents = " · ".join(f'<a href="#{key}">{word}</a>' for key, word in links.items())
    return f"""<h1>{escaped(study.settings.model)}</h1>
<p>How the tokens of this model cluster from layer to layer, where its heads look, what its weights say, and how much of
it the theory of attention as interacting particles explains.</p>
<ul class="facts">{items}</ul>
<nav aria-label="Contents"><p>{contents}</p></nav>
<h2 id="short">In short</h2>
<ul class="findings">{sentences}</ul>
{notes}
"""


def _similarity(study: Study, media: Media) -> str:
    pictures = [
        ("cosines-raw", "Cosines of all pairs i < j of different positions, by layer; each row has its own scale."),
        ("cosines-centred", "The same beside the mean direction of each text."),
        ("shares", "Share of pairs above 0.9 and 0.99: the height of the spike at 1."),
        ("clusters", "Clusters per token: 1 means that no two tokens are linked, 1/n that all are one."),
        ("same-token", "How much of the spike is one and the same token met twice."),
    ]
    counted = "Special tokens are counted." if study.settings.special else "Special tokens are left out."
    return _section(
        "similarity",
        "Do tokens cluster?",
        f"{CAUTION} {counted}",
        _figures(study, media, pictures) + _table(*conclusions.similarity_table(study)),
    )


def _heads(study: Study, media: Media) -> str:
    layers = sorted(int(p.stem.split("-")[1]) for p in (study.folder / "figures").glob("correlation-*.svg"))
    pictures = [(f"correlation-{k}", f"Correlation of the heads' maps at layer {k}, by groups.") for k in layers]
    pictures.append(("groups", "How clear the groups are, and whether other texts show the same ones."))
    maps = [(f"activation-{k}", f"Attention that each token of the first text receives, layer {k}.") for k in layers]
    return _section(
        "heads",
        "Which heads look at the same things?",
        "Layers are counted from 1 (layer 0 is the embedded text), heads from 0. Pearson's correlation of two heads' "
        "attention maps over all entries of all texts; groups by average linkage, as many as "
        "give the best silhouette. A silhouette above 0.5 means clear groups, below 0.25 hardly any; "
        "stability compares the groups found in random halves of the texts.",
        _figures(study, media, pictures) + _figures(study, media, maps, wide=True),
    )


def _sinks(study: Study, media: Media) -> str:
    kinds = {"first": "first token", "separator": "separators", "punctuation": "punctuation"}
    pictures = [("sink-map", "Attention on the first token by layer and head.")]
    pictures += [(f"sink-{k}", f"Attention on the {word} against what to expect.") for k, word in kinds.items()]
    return _section(
        "sinks",
        "Where does attention pool?",
        "The mean over all tokens of the attention they pay to a class of tokens. The dashed line is what a head "
        "without preferences would give: attention spread evenly over the tokens that the mask leaves visible.",
        _figures(study, media, pictures) + _table(*conclusions.sink_table(study)),
    )


def _spectra(study: Study, media: Media) -> str:
    layers = [int(k) for k in study.spectra.layer.values if (study.folder / "figures" / f"ov-{int(k)}.svg").exists()]
    shared = study.model["shared"]
    moving, published = [], []
    for layer in layers:
        where = "" if shared else f", layer {layer + 1}"
        moving.append((f"ov-{layer}", f"Eigenvalues of the map O V of each head{where}; the leading one is ringed."))
        published.append((f"value_block-{layer}", f"Eigenvalues of the square value block, as published{where}."))
    small = [
        ("beta", "Effective inverse temperature: the beta at which Q^T K = I would give scores as large."),
        ("qk", "Eigenvalues of the score form, one line per head."),
    ]
    block = _details("The square value block, as published", _figures(study, media, published, wide=True))
    tables = _details("Every head in numbers", _table(*conclusions.head_table(study)))
    tables += _details("The tokens that leading eigenvectors promote", _table(*conclusions.promotion_table(study)))
    return _section(
        "spectra",
        "What do the weights say?",
        "What moves tokens is O V, not the square block of V that published figures show; both are here. A head is a "
        "good triple (second paper, Definition 1) when the leading eigenvalue of O V is real, positive and simple and "
        "its eigenvector has <Q phi, K phi> > 0. A filled orange dot marks a leading eigenvalue that is real, positive "
        "and simple; the numbers below say which of these heads meet the second condition too.",
        _figures(study, media, moving, wide=True) + block + _figures(study, media, small) + tables,
    )


def _ladder(study: Study, media: Media) -> str:
    text = (
        "The model rebuilt as particles with its own weights and its own embedded tokens, one part at a time: one head "
        "on the sphere, all heads, biases and positions, residual stream and norms, and with the MLP the exact "
        "network. The distance of each rung from the real tokens says how much the theory explains, and which part "
        "breaks it."
    )
    if study.ladder is None:
        reason = escaped(study.about["ladder"]["absent"])
        return _section("ladder", "The ladder", text, f"<p><strong>No ladder here.</strong> {reason}</p>")
    pictures = [(f"ladder-{name}", word[0].upper() + word[1:] + ".") for name, word in LADDER_LABELS.items()]
    pictures.append(("ladder-mean-cosine", "Mean cosine of two tokens: every rung, and the model."))
    steps = " Dashed: is one layer a small step of the ODE?" if study.model["shared"] else ""
    pictures.append(("ladder-errors", f"Tokens of the rungs with the model's norms against the real ones.{steps}"))
    body = _figures(study, media, pictures) + _table(*conclusions.ladder_table(study))
    return _section("ladder", "The ladder: from the theory to the model", text, body)


def _making(study: Study) -> str:
    made = read_provenance(study.folder, "study")["sessions"][-1]
    used = ", ".join(f"{name} {value}" for name, value in made.items() if name not in ("machine", "time"))
    used += f"; {made['machine']}, {made['time']}"
    files_ = "similarity, heads, sinks, spectra, ladder"
    return f"""<h2 id="making">How it was made</h2>
<pre>{escaped(command(study.settings))}</pre>
<p class="soft">{escaped(conclusions.timing(study))} {escaped(used)}.
SHA-256 of the first queries: {escaped(study.model["digest"])}.</p>
<p class="soft">The numbers are beside this page as zarr folders ({files_}):
<code>xarray.open_zarr("similarity.zarr")</code>.</p>
"""


# --- parts --------------------------------------------------------------------------------------------------------


def _section(name: str, title: str, text: str, body: str) -> str:
    return f'<h2 id="{name}">{escaped(title)}</h2>\n<p>{escaped(text)}</p>\n{body}\n'


def _figures(study: Study, media: Media, pictures: Iterable[tuple[str, str]], wide: bool = False) -> str:
    found = []
    for name, caption in pictures:
        path = study.folder / "figures" / f"{name}.svg"
        if path.exists():
            found.append(_figure(path, caption, media, wide))
    return f'<div class="figures">{"".join(found)}</div>'


def _figure(path: Path, caption: str, media: Media, wide: bool) -> str:
    width = _points(path) * (1.6 if wide else 1.36)  # 1.36: three beside each other
    holder = ' class="scroll"' if wide else ""
    return (
        f'<figure><div{holder}><img src="{media.address(path, "image/svg+xml")}" alt="{escaped(caption)}" '
        f'width="{width:.0f}" loading="lazy"></div><figcaption>{escaped(caption)}</figcaption></figure>'
    )


def _points(path: Path) -> float:
    """The width of an SVG of matplotlib's in points."""
    with path.open("rb") as file:
        head = file.read(2000).decode(errors="replace")
    number = head.partition('width="')[2].partition("pt")[0]
    return float(number) if number.replace(".", "", 1).isdigit() else 245.0


def _table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escaped(c)}</th>' for c in columns)
    body = "".join("<tr>" + "".join(f"<td>{escaped(number(v))}</td>" for v in row) + "</tr>" for row in rows)
    return (  # the caption stays in place where a narrow screen scrolls the table
        f'<p class="soft">{escaped(caption)}</p><div class="scroll" tabindex="0" role="region" '
        f'aria-label="{escaped(caption)}"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _unbroken(text: str) -> str:
    """Powers of ten that no line break can part."""
    return re.sub(r"(\d)e-(\d)", "\\1e\N{MINUS SIGN}\\2", text)


def _details(caption: str, body: str) -> str:
    return f"<details><summary>{escaped(caption)}</summary>{body}</details>" if body else ""


def number(value: Any) -> str:
    """Numbers short, nan as a dash, text as it is."""
    if isinstance(value, (float, np.floating)):
        if not np.isfinite(value):
            return "–"
        return f"{value:.3g}".replace("-", "\N{MINUS SIGN}")
    return str(value)
