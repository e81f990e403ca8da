"""The front of the gallery: one paragraph, the findings, what stands in for what, and an index with small pictures."""

import math
from collections.abc import Mapping, Sequence

from metastable.progress import duration
from metastable.report.experiment_page import claimed_and_measured
from metastable.report.experiment_record import PREVIEW, Record, command
from metastable.report.sections import Media, chip, details, escaped, sentence
from metastable.report.substitutions import substitutions
from metastable.report.verdict_table import counts, overview
from metastable.theory.verdicts import RULE

TITLE = "Clustering in transformers, measured"
TOPICS: dict[str, str] = {
    "theorem": "Theorems and conjectures",
    "observation": "Observations on particles",
    "model": "Real models",
    "beyond": "Beyond the papers",
}
MOST = 10  # findings on the front

# experiments whose findings a stranger should meet first, in that order; others follow in the order of the gallery
FIRST = (
    "single-cluster",
    "metastable-states",
    "polytope",
    "hyperplanes",
    "codimension",
    "repulsion-circle",
    "sinks",
    "rank-collapse",
    "model-similarities",
    "model-controls",
    "low-rank-attention",
    "first-token",
)


def front(
    records: Mapping[str, Record],
    failures: Mapping[str, str],
    pages: Mapping[str, str],
    media: Media,
    all_verdicts: str,
) -> str:
    """The front as HTML; ``pages`` says where each experiment is, ``all_verdicts`` where the whole table is."""
    parts = [
        f"<h1>{TITLE}</h1>",
        _lead(records, failures),
        _judged(records, all_verdicts),
        substitutions(records) if records else "",
        _left_out(records, pages),
        _findings(records, pages, media),
        _index(records, failures, pages, media),
    ]
    return "\n".join(part for part in parts if part)


def _lead(records: Mapping[str, Record], failures: Mapping[str, str]) -> str:
    """What this is and what came out of it, in one paragraph."""
    verdicts = [v for record in records.values() for v in record.verdicts]
    held, failed = (sum(v.status == word for v in verdicts) for word in ("holds", "fails"))
    lost = sum(v.status == "fails" for v in verdicts if v.kind == "theorem")
    fate = "no theorem fails"
    if lost:
        fate = f"<strong>{lost} of the failing claims {'are theorems' if lost > 1 else 'is a theorem'}</strong>"
    many = "experiment" if len(failures) == 1 else "experiments"
    crashed = f" <strong>{len(failures)} {many} ended in an error.</strong>" if failures else ""
    return f"""<p class="lead">Tokens that pass through the layers of a transformer move like particles that attract
each other, and two papers say where they end up: <i>Clustering in Transformers</i> (Peat; here &ldquo;the first
paper&rdquo;) and <i>The emergence of clusters in self-attention dynamics</i> (Geshkovski, Letrouit, Polyanskiy,
Rigollet; &ldquo;the second&rdquo;). Here {len(verdicts)} claims are put to the test, on random instances and on real
models, by criteria written down in each (some were changed after a first look, and say so):
{held} hold, {failed} fail, {len(verdicts) - held - failed} are open;
{fate}.{crashed}</p>
<p class="soft">{_preset(records)}</p>"""


def _preset(records: Mapping[str, Record]) -> str:
    """Which command made the page, in what time, and what that means for its numbers."""
    if not records:
        return ""
    first = next(iter(records.values()))
    few = " This is a first look at few instances: intervals are wide." if first.preset == "quick" else ""
    took = duration(sum(record.seconds for record in records.values()))
    again = escaped(command((), first.preset, first.overrides))
    return f"{len(records)} experiments, {took} of work, made by <code>{again}</code>.{few}"


def _judged(records: Mapping[str, Record], all_verdicts: str) -> str:
    verdicts = [v for record in records.values() for v in record.verdicts]
    if not verdicts:
        return ""
    body = f'{overview(verdicts)}<p class="rule">{sentence(RULE)}</p>'
    more = f'<p><a href="{all_verdicts}">Every claim with its criterion and its numbers</a></p>'
    return details(f"How claims are judged {counts(verdicts)}", body + more, "rule")


def _left_out(records: Mapping[str, Record], pages: Mapping[str, str]) -> str:
    """What a first look leaves out, all in one place."""
    items = [
        f'<li><a href="{pages[r.name]}">{escaped(r.about["title"])}</a>: {sentence(r.about["leaves_out"])}</li>'
        for r in records.values()
        if r.preset == "quick" and r.about.get("leaves_out")
    ]
    title = f"What <code>--quick</code> leaves out in {len(items)} of the experiments"
    return details(title, f"<ul>{''.join(items)}</ul>" if items else "", "quick")


# --- findings -----------------------------------------------------------------------------------------------------


def chosen(records: Mapping[str, Record]) -> list[Record]:
    """Experiments whose findings are on the front: `FIRST`, then the rest, at most `MOST`.

    Those with a sentence of their own come before those for which a verdict has to speak.
    """
    order = [name for name in FIRST if name in records] + [name for name in records if name not in FIRST]
    able = [name for name in order if records[name].leading is not None and records[name].verdicts]
    found = sorted(able, key=lambda name: records[name].finding is None)[:MOST]
    return [records[name] for name in sorted(found, key=order.index)]


def _findings(records: Mapping[str, Record], pages: Mapping[str, str], media: Media) -> str:
    found = chosen(records)
    if not found:
        return ""
    words = ("One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")
    title = f"{words[len(found) - 1]} finding{'s' if len(found) > 1 else ''}"
    items = "\n".join(_finding(record, pages[record.name], media) for record in found)
    return f'<h2 id="findings">{title}</h2>\n<ol class="results">\n{items}\n</ol>'


def _finding(record: Record, page: str, media: Media) -> str:
    claimed, measured = _sentences(record)
    image = _small(record, media, large=True)
    return (
        f'<li><a class="shot" href="{page}">{image}</a><h3><a href="{page}">{escaped(record.about["title"])}</a></h3>'
        f"{claimed_and_measured(claimed, measured)}"
        f'<p class="soft">{escaped(record.about["source"])} · {counts(record.verdicts)}</p></li>'
    )


def _sentences(record: Record) -> tuple[str, str]:
    """What was claimed and measured: the experiment's own sentences, or those of its first verdict."""
    if record.finding is not None:
        return record.finding.claimed, record.finding.measured
    v = record.verdicts[0]
    low, high = v.interval
    said = f"{v.measured:.3g}, interval {low:.3g} to {high:.3g}"
    said = "nothing could be measured" if math.isnan(v.measured) else said
    return v.claim, f"{said}, over {v.eligible} instances: {v.status}"


def _small(record: Record, media: Media, large: bool = False) -> str:
    """The picture that stands for an experiment: its preview, or its leading figure where that must do."""
    shown = record.leading
    if shown is None:
        return ""
    preview, figure = record.folder / PREVIEW, record.folder / shown.file
    sharp = large and bool(media.whole(figure))  # beside the page: the figure itself, as it weighs nothing here
    path = figure if sharp or not preview.exists() else preview
    if not path.exists():
        return ""
    kind = "image/png" if path.suffix == ".png" else "image/svg+xml"
    alt = escaped(f"{record.about['title']}: {shown.words}") if large else ""
    return f'<img src="{media.address(path, kind)}" alt="{alt}" loading="lazy">'


# --- index --------------------------------------------------------------------------------------------------------


def topic(record: Record) -> str:
    """Under which heading an experiment stands."""
    said = record.about.get("topic", "")
    if said in TOPICS:
        return said
    if record.name.startswith("model-"):
        return "model"
    return "theorem" if any(v.kind in ("theorem", "conjecture") for v in record.verdicts) else "observation"


def _index(records: Mapping[str, Record], failures: Mapping[str, str], pages: Mapping[str, str], media: Media) -> str:
    parts = ['<h2 id="experiments">All experiments</h2>']
    for name, heading in TOPICS.items():
        cards = [_card(record, pages[record.name], media) for record in records.values() if topic(record) == name]
        if cards:
            parts.append(f'<h3 class="topic">{heading}</h3><ul class="cards">{"".join(cards)}</ul>')
    broken = [
        f'<li><a href="{pages[name]}">{escaped(name)}</a> {chip("error")} {escaped(why)}</li>'
        for name, why in failures.items()
        if name not in records
    ]
    parts.append(f'<h3 class="topic">Ended in an error</h3><ul>{"".join(broken)}</ul>' if broken else "")
    return "\n".join(part for part in parts if part)


def _card(record: Record, page: str, media: Media) -> str:
    image = _small(record, media)
    return (
        f'<li><a href="{page}"><span class="thumbnail">{image}</span><b>{escaped(record.about["title"])}</b></a>'
        f'<span class="soft">{escaped(record.about["source"])}</span><span>{counts(record.verdicts)}</span>'
        f'<span class="soft">{duration(record.seconds)}</span></li>'
    )


def absent(names: Sequence[str]) -> str:
    """Experiments that were not run."""
    if not names:
        return ""
    listed = ", ".join(f"<code>{escaped(name)}</code>" for name in names)
    how = "Run <code>metastable reproduce</code> with the same --out to add them."
    return f'<p class="soft">Not run yet: {listed}. {how}</p>'
