"""Pretrained models in the explorer: a text's tokens through depth, with panels, and a control beside."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from metastable.errors import InputError
from metastable.explorer.live_panels import panels_of
from metastable.explorer.page_shell import call, panels_place, shell, stages, start_script
from metastable.explorer.payload import pack
from metastable.explorer.records_page import Library
from metastable.models.controls import CONTROLS
from metastable.models.load import load
from metastable.models.model import Model
from metastable.models.probe import trajectory
from metastable.models.zoo_packages import MODELS
from metastable.trajectory import Trajectory

MOST_CHARACTERS, MOST_TOKENS, MOST_LAYERS = 4000, 192, 192
REACTION = "CC(=O)Oc1ccccc1C(=O)O.CCO>>CCOC(=O)c1ccccc1O"
ENGLISH = "The river had frozen so hard that the children skated from the mill to the bridge and back before dinner."
_NOTE = (
    "Time is depth: layer 0 are the embeddings. Dots are tokens on three principal axes; panels show cosines, heads "
    "and the attention on the first token."
)
VARIANTS = {"trained": "trained", "init": "untrained", "shuffle": "weights shuffled", "tokens": "random tokens"}


def name_of(given: str, folder: Path) -> str | Path:
    """A zoo name, or a folder inside the chosen one; nothing else can be named from a page."""
    if given in MODELS:
        return given
    path = Library(folder).inside(given)
    if given and path.is_dir() and (path / "config.json").exists():
        return path
    raise InputError(f"{given[:80]!r} is no model of the zoo ({', '.join(MODELS)}) and no model folder below {folder}.")


@lru_cache(maxsize=3)
def _loaded(name: str | Path) -> Model:
    return load(name)


def probed(asked: Mapping[str, str], folder: Path) -> bytes:
    """The bytes of one text's tokens through a model, as the page asks for them."""
    text = asked.get("text", "")[: MOST_CHARACTERS + 1]
    if not text.strip():
        raise InputError("There is no text to read: paste one.")
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"The text has more than {MOST_CHARACTERS} characters; paste a shorter one.")
    model, texts = _loaded(name_of(asked.get("model", ""), folder)), [text]
    layers = _layers(asked.get("layers", ""), model)
    variant = asked.get("variant", "trained")
    given: Any = text
    if variant in CONTROLS:
        changed, other = CONTROLS[variant](model, texts, MOST_TOKENS, 0)
        model, given = changed, next(iter(other))
    elif variant != "trained":
        raise InputError(f"Unknown control {variant[:40]!r}; choose one of {', '.join(VARIANTS)}.")
    run = trajectory(model, given, layers=layers, longest=MOST_TOKENS)
    title = f"{model.name}, {VARIANTS[variant]}, {run.x.shape[-2]} tokens, {len(run.t) - 1} layers"
    if asked.get("part") == "first":
        return pack(run, title=title, brief=True)
    extra, _ = panels_of(run)
    return pack(run, title=title, names=_names(model, run), extra=extra)


def _layers(text: str, model: Model) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= MOST_LAYERS:
        raise InputError(f"Layers are a whole number from 1 to {MOST_LAYERS}, not {text[:20]!r}.")
    if int(text) > model.depth and not model.shared:
        raise InputError(f"{model.name} has {model.depth} layers of its own; only shared weights can be applied again.")
    return int(text)


def _names(model: Model, run: Trajectory) -> list[str] | None:
    """The tokens as text, where the model can say."""
    ids = run.provenance.get("ids")
    return None if ids is None or model.tokenizer is None else model.tokenizer.words(ids)


async def models_page(folder: Path) -> None:
    """The page."""
    with shell("Models", "/models"), ui.element("div").classes("lab-grid"):
        with ui.element("div").classes("lab-side lab-steer"):
            with ui.element("section").classes("lab-group"):
                ui.html("<h2>Model</h2>", sanitize=False)
                name = ui.select(list(MODELS), value="reactions-albert", label="zoo model, or a folder's name",
                                 new_value_mode="add-unique", with_input=True)  # fmt: skip
                name.props("dense outlined options-dense data-control=model").classes("lab-wide")
                text = (
                    ui.textarea("text to read", value=REACTION)
                    .props("dense outlined data-control=text rows=5")
                    .classes("lab-wide")
                )
                layers = (
                    ui.input("layers (empty: as trained)")
                    .props("dense outlined data-control=layers")
                    .classes("lab-wide")
                )
                variant = ui.select(VARIANTS, value="trained", label="model or control").props(
                    "dense outlined data-control=variant"
                )
                variant.classes("lab-wide")
                beside = ui.select({"": "nothing", **VARIANTS}, value="", label="beside it").props(
                    "dense outlined data-control=beside"
                )
                beside.classes("lab-wide")
                go = ui.element("button").classes("lab-button lab-main-button").props("type=button data-do=read")
                with go:
                    ui.label("Read")
            ui.label(_NOTE).classes("lab-note")
        with ui.element("div").classes("lab-middle"):
            stages()
        panels_place()

    def query(which: str) -> str:
        asked = {
            "model": str(name.value or ""),
            "text": str(text.value or ""),
            "layers": str(layers.value or "").strip(),
        }
        return urlencode({**asked, "variant": which})

    def read() -> None:
        ui.run_javascript(call("lab.show", "a", query(variant.value)))
        label = f"B: {VARIANTS.get(beside.value, '')}"
        ui.run_javascript(call("lab.compare", query(beside.value) if beside.value else "", label))

    def suit() -> None:
        if text.value in (REACTION, ENGLISH):
            text.set_value(REACTION if str(name.value).startswith("reactions") else ENGLISH)

    name.on_value_change(suit)
    go.on("click", read)
    await ui.context.client.connected(timeout=30)
    await ui.run_javascript(start_script(source="/probe", look={}, draggable=False), timeout=30)
    read()
