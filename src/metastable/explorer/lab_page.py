"""The explorer's first page: steer a run, see it, compare, take it away."""

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from nicegui import ui
from starlette.requests import Request

from metastable.errors import InputError
from metastable.explorer import presets
from metastable.explorer.lab_session import Session
from metastable.explorer.page_shell import call, look_of, panels_place, shell, stages, start_script
from metastable.explorer.steering import DEFAULTS, from_query, settings_of, to_query
from metastable.explorer.steering_column import Column


async def lab_page(request: Request) -> None:
    """The page."""
    query, problem = request.url.query, ""
    try:
        state = from_query(query)
        settings_of(state)
    except InputError as error:
        state, problem = {}, f"{error} The defaults are shown instead."
    session = Session(state)
    name, _, value = parse_qs(query).get("compare", [""])[-1].partition(":")
    if name in DEFAULTS and value:
        session.comparing = (name, value)
    with shell("Explore", "/"), ui.element("div").classes("lab-grid"):
        Column(session).build()
        with ui.element("div").classes("lab-middle"):
            _toolbar(session)
            stages()
        panels_place()
    ui.on("lab-moved", session.moved)
    await ui.context.client.connected(timeout=30)
    await ui.run_javascript(start_script(source="/run", look=look_of(query)), timeout=30)
    session.ready = True
    session.show()
    if "at" not in parse_qs(query):
        session.run(call("lab.opening"))
    if problem:
        session.say(problem)


def _toolbar(session: Session) -> None:
    with ui.element("div").classes("lab-toolbar"):
        _button("Guided tour", lambda: _tour(session, 0), "tour")
        _button("Undo moves", lambda: session.change("moved", ""), "unmove")
        _button("New seed", session.reseed, "seed")
        _button("Copy link", lambda: session.run("lab.copyLink()"), "link")
        _button("Sweep from here", lambda: ui.navigate.to(f"/sweep?{to_query(session.state)}"), "sweep")
        ui.element("span").classes("lab-gap")
        with ui.element("details").classes("lab-take"):
            with ui.element("summary"):
                ui.label("Take away")
            with ui.element("div").classes("lab-menu"):
                scripts = {"PNG": "lab.png()", "SVG": "lab.svg()"}
                scripts |= {
                    kind: call("lab.take", kind.lower()) for kind in ("MP4", "GIF", "HTML", "CSV", "TOML", "Python")
                }
                for kind, script in scripts.items():
                    _button(kind, partial(session.run, script), kind.lower())
    session.card = ui.element("div").classes("lab-card lab-hidden").props("role=region aria-label=Tour")


def _button(text: str, act: Callable[[], Any], key: str) -> None:
    button = ui.element("button").classes("lab-button").props(f"type=button data-do={key}").on("click", act)
    with button:
        ui.label(text)


def _tour(session: Session, k: int) -> None:
    card = session.card
    assert card is not None
    card.clear()
    if not 0 <= k < len(presets.TOUR):
        card.classes(add="lab-hidden")
        return
    card.classes(remove="lab-hidden")
    step = presets.TOUR[k]
    with card:
        ui.label(f"{k + 1} of {len(presets.TOUR)}: {step.title}").classes("lab-card-title")
        ui.label(step.text)
        with ui.element("div").classes("lab-card-row"):
            if k:
                _button("Back", lambda: _tour(session, k - 1), "back")
            _button("Next" if k + 1 < len(presets.TOUR) else "Done", lambda: _tour(session, k + 1), "next")
            _button("Leave", lambda: _tour(session, -1), "leave")
    session.apply(step.state, step.look)
