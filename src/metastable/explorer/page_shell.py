"""What every page of the explorer shares: head, header with navigation and theme, and how scripts are reached."""

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

from nicegui import ui

from metastable import __version__

PAGES = (("/", "Explore"), ("/sweep", "Sweep"), ("/models", "Models"), ("/records", "Records"))
MODULE = f"/assets/lab.js?v={__version__}"
LOOKS = ("log", "trails", "links", "first", "fit", "labels", "limit")
_THEME = """<script>(() => {
  const kept = localStorage.getItem("metastable-theme");
  const dark = kept ? kept === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  window.labTheme = (flip) => {
    const now = document.documentElement.dataset.theme, next = flip ? (now === "dark" ? "light" : "dark") : now;
    document.documentElement.dataset.theme = next;
    if (flip) localStorage.setItem("metastable-theme", next);
    if (window.Quasar && window.Quasar.Dark) window.Quasar.Dark.set(next === "dark");
    document.body.classList.toggle("body--dark", next === "dark");
    document.body.classList.toggle("body--light", next !== "dark");
    if (window.lab) import("%s").then((m) => m.setTheme(next));
    return next;
  };
  document.addEventListener("DOMContentLoaded", () => setTimeout(() => window.labTheme(false), 0));
})();</script>"""

_HALF_MOON = (
    '<svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true"><path fill="currentColor" '
    'd="M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 2v14a7 7 0 0 1 0-14z"/></svg>'
)


def look_of(query: str) -> dict[str, Any]:
    """How a link shows its run."""
    found = {name: values[-1] for name, values in parse_qs(query).items()}
    look: dict[str, Any] = {}
    if "look" in found:
        on = found["look"].split(".")
        look = {name: name in on for name in LOOKS}
    if found.get("colour") in ("cluster", "position", "attention"):
        look["colour"] = found["colour"]
    if re.fullmatch(r"\d{1,3}", found.get("head", "")):
        look["head"] = int(found["head"])
    try:
        view = [float(v) for v in found.get("view", "").split(",") if v]
        if len(view) == 3 and all(map(math.isfinite, view)):
            look["view"] = view
        if "at" in found and math.isfinite(float(found["at"])):
            look["share"] = min(1.0, max(0.0, float(found["at"])))
    except ValueError:
        pass
    return look


def call(function: str, *arguments: Any) -> str:
    """Text of a call from data: nothing a user wrote is ever read as code."""
    return f"{function}({', '.join(json.dumps(one) for one in arguments)})".replace("</", "<\\/")


@contextmanager
def shell(title: str, here: str) -> Iterator[None]:
    """A page with the header; its content goes inside the block."""
    ui.page_title(f"{title} · metastable")
    ui.add_head_html(_THEME % MODULE)
    ui.add_head_html(f'<link rel="stylesheet" href="/assets/player.css?v={__version__}">')
    ui.add_head_html(f'<link rel="stylesheet" href="/assets/lab.css?v={__version__}">')
    ui.add_head_html(f'<link rel="modulepreload" href="{MODULE}">')
    with ui.element("header").classes("lab-header"):
        ui.link("metastable", "/").classes("lab-brand")
        with ui.element("nav").props('aria-label="Pages"'):
            for address, name in PAGES:
                link = ui.link(name, address).classes("lab-nav")
                if address == here:
                    link.classes("lab-here").props("aria-current=page")
        ui.element("span").classes("lab-gap")
        button = ui.element("button").classes("lab-plain").props('type=button aria-label="Light or dark"')
        button.props('title="Light or dark"').on("click", js_handler="() => window.labTheme(true)")
        with button:
            ui.html(_HALF_MOON, sanitize=False)
    with ui.element("main").classes("lab-main"):
        yield


def stages(two: bool = True) -> None:
    """The players' places, the line for messages, and the sign that something takes longer."""
    with ui.element("div").classes("lab-center"):
        ui.html('<div id="lab-busy" class="lab-busy"><i></i><span>computing…</span><button type="button" '
                'onclick="lab.cancel()">Cancel</button></div>', sanitize=False)  # fmt: skip
        second = (
            '<div class="lab-stage lab-hidden"><p id="lab-b-label" class="lab-label"></p><div id="stage-b"></div></div>'
        )
        ui.html(f'<div id="lab-stages" class="lab-stages"><div class="lab-stage"><p id="lab-a-label" class="lab-label">'
                f'</p><div id="stage-a"></div></div>'
                f'{second if two else ""}</div>', sanitize=False).classes("lab-fill")  # fmt: skip
        ui.html('<p id="lab-message" class="lab-message" role="status"></p>', sanitize=False)


def panels_place() -> None:
    """Where the panels go."""
    ui.html('<div id="panels"></div>', sanitize=False).classes("lab-side")


def start_script(**options: Any) -> str:
    """The script that makes players and panels, once."""
    given = json.dumps(options).replace("</", "<\\/")
    theme = "document.documentElement.dataset.theme"
    return f'await import("{MODULE}").then((m) => m.start({{...{given}, theme: {theme}}}))'
