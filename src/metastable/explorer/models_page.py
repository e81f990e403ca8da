"""Pretrained models in the explorer: a text's tokens through depth, with panels, and a control beside."""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

from nicegui import ui
from starlette.requests import Request

from metastable.errors import InputError
from metastable.explorer.live_panels import panels_of
from metastable.explorer.page_shell import call, look_of, panels_place, shell, stages, start_script
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


def probed(asked: Mapping[str, str], folder: Path, check: Callable[[], None] = lambda: None) -> bytes:
    """The bytes of one text's tokens through a model; ``check`` is called between the parts of the work."""
    text = asked.get("text", "")[: MOST_CHARACTERS + 1]
    if not text.strip():
        raise InputError("There is no text to read: paste one.")
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"The text has more than {MOST_CHARACTERS} characters; paste a shorter one.")
    name, variant = name_of(asked.get("model", ""), folder), asked.get("variant", "trained")
    _loaded(name)
    check()
    run, title, names = _read(name, text, asked.get("layers", ""), variant)
    check()
    if asked.get("part") == "first":
        return pack(run, title=title, names=names, brief=True)
    extra, _ = panels_of(run, check=check)
    return pack(run, title=title, names=names, extra=extra)


@lru_cache(maxsize=4)  # a page asks for the tokens first, then for all the rest
def _read(name: str | Path, text: str, depth: str, variant: str) -> tuple[Trajectory, str, list[str] | None]:
    """A text's tokens through a model or its control, what the run is called, and what its tokens are."""
    model, given = _loaded(name), cast(Any, text)
    layers = _layers(depth, model)
    if variant in CONTROLS:
        model, texts = CONTROLS[variant](model, [text], MOST_TOKENS, 0)
        given = next(iter(texts))
    elif variant != "trained":
        raise InputError(f"Unknown control {variant[:40]!r}; choose one of {', '.join(VARIANTS)}.")
    run = trajectory(model, given, layers=layers, longest=MOST_TOKENS)
    title = f"{model.name}, {VARIANTS[variant]}, {run.x.shape[-2]} tokens, {len(run.t) - 1} layers"
    return run, title, _names(model, run)


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


def asked_of(query: Mapping[str, str]) -> dict[str, str]:
    """What a link of the page asks for: model, text, layers, variant, and the variant beside it."""
    model = query.get("model") or "reactions-albert"
    return {
        "model": model,
        "text": query.get("text", usual_text(model))[:MOST_CHARACTERS],
        "layers": query.get("layers", ""),
        "variant": query["variant"] if query.get("variant") in VARIANTS else "trained",
        "compare": query["compare"] if query.get("compare") in VARIANTS else "",
    }


def usual_text(model: str) -> str:
    """What a model reads until another text is pasted."""
    return REACTION if model.startswith("reactions") else ENGLISH


async def models_page(request: Request, folder: Path) -> None:
    """The page."""
    fields: dict[str, Any] = {}
    with shell("Models", "/models"), ui.element("div").classes("lab-grid"):
        with ui.element("div").classes("lab-side lab-steer"):
            go = _form(fields, asked_of(request.query_params))
        with ui.element("div").classes("lab-middle"):
            stages()
        panels_place()

    def query(variant: str) -> str:
        asked = {name: str(fields[name].value or "").strip() for name in ("model", "text", "layers")}
        return urlencode({**asked, "variant": variant})

    def read() -> None:
        beside = fields["compare"].value
        ui.run_javascript(f"lab.comparing = {json.dumps(beside)}")
        ui.run_javascript(call("lab.show", "a", query(fields["variant"].value)))
        label, own = f"B: {VARIANTS.get(beside, '')}", f"A: {VARIANTS[fields['variant'].value]}"
        ui.run_javascript(call("lab.compare", query(beside) if beside else "", label, own))

    def suit() -> None:
        if fields["text"].value in (REACTION, ENGLISH):
            fields["text"].set_value(usual_text(str(fields["model"].value)))

    fields["model"].on_value_change(suit)
    go.on("click", read)
    await ui.context.client.connected(timeout=30)
    look = look_of(request.url.query)
    await ui.run_javascript(start_script(source="/probe", look=look, draggable=False), timeout=30)
    read()


def _form(fields: dict[str, Any], asked: Mapping[str, str]) -> ui.element:
    """The fields of the page, and its button."""
    with ui.element("section").classes("lab-group"):
        ui.html("<h2>Model</h2>", sanitize=False)
        names = list(dict.fromkeys([*MODELS, asked["model"]]))
        fields["model"] = ui.select(names, value=asked["model"], label="zoo model, or a folder's name",
                                    new_value_mode="add-unique", with_input=True)  # fmt: skip
        fields["text"] = ui.textarea("text to read", value=asked["text"]).props("rows=5")
        fields["layers"] = ui.input("layers (empty: as trained)", value=asked["layers"])
        fields["variant"] = ui.select(VARIANTS, value=asked["variant"], label="model or control")
        fields["compare"] = ui.select({"": "nothing", **VARIANTS}, value=asked["compare"], label="beside it")
        for name, field in fields.items():
            field.props(f"dense outlined options-dense data-control={name}").classes("lab-wide")
        go = ui.element("button").classes("lab-button lab-main-button").props("type=button data-do=read")
        with go:
            ui.label("Read")
    ui.label(_NOTE).classes("lab-note")
    return go
