"""metastable model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from metastable.cli.flags import JSON, whole
from metastable.cli.interrupts import interruptible
from metastable.cli.output import answer, notes
from metastable.progress import Progress, progress_bar

if TYPE_CHECKING:
    from metastable.models.study import Study

Number = Annotated[int, Parameter(metavar="N", converter=whole)]
Words = Annotated[str | None, Parameter(metavar="NAME", show_default=False)]


def model(
    name: Annotated[
        str,
        Parameter(help="A zoo name, a folder, a .gguf file, a name on a model hub, or states in a .npy or .npz file."),
    ],
    /,
    *,
    layers: Annotated[int | None, Parameter(metavar="N", show_default=False, converter=whole)] = None,
    texts: Words = None,
    limit: Number = 100,
    special: bool = True,
    head: Number = 0,
    part: Annotated[str, Parameter(metavar="HALF")] = "encoder",
    longest: Number = 1024,
    control: Annotated[str, Parameter(metavar="NAMES", show_default=False)] = "",
    control_seeds: Number = 3,
    images: Annotated[str | None, Parameter(metavar="FOLDER", show_default=False)] = None,
    out: Annotated[Path | None, Parameter(metavar="DIR", group="Output", show_default=False)] = None,
    json: JSON = False,
) -> int:
    """Measure a pretrained model: similarity, heads, sinks, spectra and the ladder; leave a record and a report.

    Zoo models need no hub: reactions-albert (3 MB), minilm, smollm2, title-t5. Run the same again after an
    interruption: finished steps are not done again.

    Parameters
    ----------
    layers
        how deep to run; more than the model has only if its layers share one block (ALBERT)
    texts
        a file, a folder, - for standard input, a corpus (english, reactions), or the name of a data set
    limit
        at most this many texts
    special
        count special tokens such as [CLS] in similarities and head correlations
    head
        the head of the ladder's first rung; layers and heads are counted from 0
    part
        which half of a T5 (encoder, decoder) or of a CLIP (vision, text)
    longest
        cut texts to this many tokens
    control
        what to measure beside it: init (fresh weights), shuffle (shuffled weights), tokens (random tokens), or several
        with commas between
    control_seeds
        how many seeds of each control; each is one more pass over the texts
    images
        a folder of pictures, for a vision model (ViT, DINOv2, the vision half of a CLIP with --part vision)
    out
        folder of the record and of report.html; model-NAME without it
    json
        print one JSON object and nothing else
    """
    from metastable.models.controls import chosen
    from metastable.models.run_study import default_folder, run
    from metastable.models.study_settings import Settings

    controls = chosen(control) if control else ()
    settings = Settings(name, layers, texts, limit, special, head, part, longest, controls, control_seeds, images)
    folder = out if out is not None else default_folder(name)
    left = f"Interrupted; what is finished is in {str(folder)!r}: run the same command again to go on from there"

    def tell(sentence: str) -> None:
        progress(Progress("note", None, sentence, over=True))

    with progress_bar() as progress, notes(tell) as sentences, interruptible(lambda: left):
        made, how = run(settings, folder, progress)
    facts, lines = _summary(made, how)
    answer(json, facts | {"notes": [*made.notes, *sentences]}, lines)
    return 0


def _summary(made: "Study", how: str) -> tuple[dict[str, Any], list[str]]:
    from metastable.models.conclusions import sentences, timing
    from metastable.models.study_numbers import key_numbers

    page = made.folder / "report.html"
    facts: dict[str, Any] = {"record": str(made.folder), "report": str(page), "how": how, "model": made.model}
    facts |= {key: made.about["probe"][key] for key in ("texts", "tokens", "layers", "source", "seconds")}
    lines = [f"- {sentence}" for sentence in sentences(made)]
    lines += [f"Note: {note}" for note in made.notes]
    if how == "already complete":
        lines.insert(0, f"The record in {made.folder} is already complete: nothing was computed or changed.")
    lines.append(timing(made))
    return facts | {"found": key_numbers(made)}, [*lines, f"Record: {made.folder}", f"Report: {page}"]
