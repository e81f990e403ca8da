"""A small phase diagram that grows while one watches; every cell is a link to its run."""

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlencode

import numpy as np
from nicegui import ui
from starlette.requests import Request

from metastable.config.job import build
from metastable.errors import InputError, unknown
from metastable.explorer.computing import Cancelled, Ticket, Workshop, quick
from metastable.explorer.page_shell import call, shell
from metastable.explorer.steering import CONTROLS, DEFAULTS, State, from_query, settings_of, tidy, to_query, work_of
from metastable.solve.driver import drive
from metastable.solve.simulate import collect

AXES = {control.name: control for control in CONTROLS if not control.options}
MEASURES = {
    "clusters": "clusters left at the end",
    "order": "order |mean token| at the end",
    "similarity_share": "share of pairs with cosine above 0.999",
}
MOST_CELLS, MOST_RUNS = 400, 16
MOST_WORK = 1e11  # over all cells and starts, see `work_of`


def axis(name: str, low: float, high: float, count: int) -> list[float]:
    """Values of an axis: even, or even in the logarithm, whole where the setting is.

    >>> axis("n", 4, 16, 3)
    [4, 10, 16]
    """
    if name not in AXES:
        raise unknown("axis", name, AXES)
    finite = math.isfinite(low) and math.isfinite(high)
    if not finite or not 1 <= count <= MOST_CELLS or (AXES[name].log and min(low, high) <= 0):
        raise InputError(
            f"The axis {name} needs two numbers that it can take and a count from 1 to {MOST_CELLS}, "
            f"not {low:g} to {high:g}, {count}."
        )
    values = np.geomspace(low, high, count) if AXES[name].log else np.linspace(low, high, count)
    if isinstance(DEFAULTS[name], int):
        return [int(v) for v in dict.fromkeys(np.rint(values).astype(int).tolist())]
    return [float(f"{v:.4g}") for v in values]


def cells(
    base: State, across: tuple[str, list[float]], up: tuple[str, list[float]], runs: int = 1
) -> list[tuple[int, int, State]]:
    """Column, row and state of every cell, the rough picture first: every other cell, then those between."""
    (name, values), (other, levels) = across, up
    if name == other:
        raise InputError(f"The two axes must differ; both are {name}.")
    if len(values) * len(levels) > MOST_CELLS:
        raise InputError(f"{len(values)} x {len(levels)} cells are more than this page takes ({MOST_CELLS}).")
    pairs = sorted(
        itertools.product(range(len(values)), range(len(levels))), key=lambda p: (p[0] % 2 + p[1] % 2, p[1], p[0])
    )
    found = [(i, j, tidy({**base, name: values[i], other: levels[j]})) for i, j in pairs]
    work = 0.0
    for _, _, state in found:
        settings_of(state)
        work += work_of(state, runs)
    if work > MOST_WORK:
        raise InputError(
            f"This diagram would take {work:.1e} pairs of tokens x steps x heads x dimension, more than the page takes "
            f"({MOST_WORK:.0e}); lower n, d, t, cells or starts per cell."
        )
    return found


def measured(state: State, runs: int, measure: str, ticket: Ticket) -> float:
    """The mean of an observable at the end, over starts with their own seeds; Cancelled when nobody waits any more."""
    settings = settings_of(state).model_copy(update={"runs": runs, "save": 2})
    job = build(settings)
    segments = []
    ticket.check()
    for segment in drive(job.plan, np.array(job.x), None, reported=not quick(state, runs)):
        segments.append(segment)
        ticket.check()
    run = collect(job.plan, segments)
    return float(np.mean(np.asarray(run.observe(measure).values)[-1]))


FORM: dict[str, Any] = {
    "x": "beta", "xlow": 0.5, "xhigh": 16.0, "xcount": 9, "y": "n", "ylow": 8, "yhigh": 48, "ycount": 6,
    "measure": "clusters", "runs": 4,
}  # fmt: skip


def form_of(query: Mapping[str, str]) -> dict[str, Any]:
    """The fields of the page as a link has them; what it has not, or wrong, is as usual.

    >>> form_of({"x": "d", "xlow": "2", "xhigh": "nan", "measure": "nonsense"})["x"]
    'd'
    """
    form = dict(FORM)
    for name, usual in FORM.items():
        given = query.get(name, "")
        if isinstance(usual, str):
            form[name] = given if given in (MEASURES if name == "measure" else AXES) else usual
            continue
        with suppress(ValueError):
            number = float(given)
            form[name] = (int(number) if isinstance(usual, int) else number) if math.isfinite(number) else usual
    return form


def rest_of(base: State, *axes: str) -> str:
    """What all cells share.

    >>> rest_of({"t": 4.0, "mask": "causal", "noise": 0.1}, "beta", "n")
    'The rest, as in the run you came from: d = 3, mask = causal, V = identity, t = 4, noise = 0.1.'
    """
    names = dict.fromkeys(["n", "d", "beta", "mask", "V", "t", *base])
    shared = {name: {**DEFAULTS, **base}[name] for name in names if name not in (*axes, "seed", "moved")}
    said = (
        f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}" for name, value in shared.items()
    )
    return f"The rest, as in the run you came from: {', '.join(said)}."


def _numbers(form: Mapping[str, Any]) -> Iterator[tuple[str, list[float]]]:
    for side in ("x", "y"):
        low, high, count = (form[f"{side}{part}"] for part in ("low", "high", "count"))
        if None in (low, high, count):
            raise InputError(f"The {side} axis needs where it begins, where it ends, and how many values.")
        yield form[side], axis(form[side], float(low), float(high), int(count))


def planned(base: State, form: Mapping[str, Any]) -> tuple[Any, Any, list[tuple[int, int, State]]]:
    """Both axes and the cells of what the page's fields ask for."""
    across, up = _numbers(form)
    runs = int(form["runs"] or 1)
    if not 1 <= runs <= MOST_RUNS:
        raise InputError(f"Starts per cell lie between 1 and {MOST_RUNS}, not {runs}.")
    return across, up, cells(base, across, up, runs)


class Diagram:
    """One open page: its fields, and the diagram that is being drawn."""

    def __init__(self, base: State, workshop: Workshop) -> None:
        self.base, self.workshop = base, workshop
        self.fields: dict[str, Any] = {}
        self.ticket = Ticket()
        self.drawn = False
        self.client = ui.context.client

    def form(self) -> dict[str, Any]:
        """What the fields hold."""
        return {name: field.value for name, field in self.fields.items()}

    def link(self) -> None:
        """The address that restores the page, and draws again what was drawn."""
        form = {name: "" if value is None else value for name, value in self.form().items()}
        query = urlencode({**tidy(self.base), **form, **({"drawn": 1} if self.drawn else {})})
        ui.run_javascript(call("history.replaceState", None, "", f"/sweep?{query}"))
        self.rest.set_text(rest_of(self.base, form["x"], form["y"]))

    async def draw(self) -> None:
        """Compute the cells, one after the other, and colour each when it is there."""
        self.ticket.cancel()
        mine, form = Ticket(), self.form()
        self.ticket = mine
        try:
            across, up, todo = planned(self.base, form)
        except InputError as error:
            self.message.set_text(str(error))
            return
        self.drawn, runs, measure = True, int(form["runs"] or 1), form["measure"]
        self.link()
        ui.run_javascript(call("labDiagram.begin", *([AXES[name].label, values] for name, values in (across, up))))

        async def gone() -> bool:
            return mine.gone or not self.client.has_socket_connection

        for done, (i, j, one) in enumerate(todo):
            job = partial(measured, one, runs, measure, mine)
            try:
                value = await self.workshop.work(job, quick(one, runs), mine, gone, self.client.id)
            except Cancelled:
                if not self.client.has_socket_connection:
                    self.message.set_text("The connection was lost; draw again.")
                return
            except InputError as error:
                self.message.set_text(f"{error} (at {across[0]} = {across[1][i]}, {up[0]} = {up[1][j]})")
                return
            ui.run_javascript(call("labDiagram.cell", i, j, value, to_query(one)))
            self.message.set_text(f"{done + 1} of {len(todo)} cells: {MEASURES[measure]}, mean of {runs} starts")

    def halt(self) -> None:
        """Compute no further."""
        self.ticket.cancel()
        self.drawn = False
        self.link()
        self.message.set_text("Stopped; what was drawn stays.")

    def build(self, form: Mapping[str, Any], problem: str) -> None:
        """The fields, the buttons, and the diagram's place."""
        ui.html("<h1>Phase diagram</h1><p>Two settings vary. Cells fill as they are computed; click one to open its "
                "run.</p>", sanitize=False)  # fmt: skip
        self.rest = ui.label(rest_of(self.base, form["x"], form["y"])).classes("lab-note")
        names = {name: control.label for name, control in AXES.items()}
        with ui.element("div").classes("lab-form"):
            for side, word in (("x", "across"), ("y", "up")):
                self.fields[side] = ui.select(names, value=form[side], label=word)
                for part, text in (("low", "from"), ("high", "to"), ("count", "values")):
                    self.fields[f"{side}{part}"] = ui.number(text, value=form[f"{side}{part}"])
            self.fields["measure"] = ui.select(MEASURES, value=form["measure"], label="measure")
            self.fields["runs"] = ui.number("starts per cell", value=form["runs"], min=1, max=MOST_RUNS, precision=0)
            for name, field in self.fields.items():
                field.props(f"dense outlined options-dense data-control=sweep-{name}").on_value_change(self.link)
            _button("Draw", "sweep", "lab-button lab-main-button").on("click", self.draw)
            _button("Stop", "stop", "lab-button").on("click", self.halt)
        self.message = ui.label(problem).classes("lab-message").props("role=status")
        ui.html('<div id="diagram" class="lab-diagram"></div>', sanitize=False)


def _button(text: str, key: str, kind: str) -> ui.element:
    button = ui.element("button").classes(kind).props(f"type=button data-do={key}")
    with button:
        ui.label(text)
    return button


async def sweep_page(request: Request, workshop: Workshop) -> None:
    """The page."""
    problem, base = "", State()
    try:
        base = from_query(request.url.query)
        base.pop("moved", None)  # cells differ in n, d and start: tokens moved by hand are of one run
    except InputError as error:
        problem = str(error)
    diagram = Diagram(base, workshop)
    with shell("Sweep", "/sweep"), ui.element("div").classes("lab-form-page"):
        diagram.build(form_of(request.query_params), problem)
    await diagram.client.connected(timeout=30)
    await ui.run_javascript('await import("/assets/diagram.js")', timeout=30)
    if "drawn" in request.query_params and not problem:
        await diagram.draw()
