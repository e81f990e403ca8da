"""A small phase diagram that grows while one watches; every cell is a link to its run."""

import asyncio
import itertools
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from nicegui import ui
from starlette.requests import Request

from metastable.config.job import build
from metastable.errors import InputError, unknown
from metastable.explorer.computing import Cancelled, Ticket, quick
from metastable.explorer.page_shell import call, shell
from metastable.explorer.steering import CONTROLS, DEFAULTS, State, from_query, settings_of, tidy, to_query
from metastable.solve.driver import drive
from metastable.solve.simulate import collect

AXES = {control.name: control for control in CONTROLS if not control.options}
MEASURES = {
    "clusters": "clusters left at the end",
    "order": "order |mean token| at the end",
    "similarity_share": "share of pairs with cosine above 0.999",
}
MOST_CELLS, MOST_RUNS = 400, 16
MOST_WORK = 4e10  # pairs of tokens x steps, over all cells
_WORKERS = ThreadPoolExecutor(1, thread_name_prefix="explorer-sweep")


def axis(name: str, low: float, high: float, count: int) -> list[float]:
    """Values of an axis: even, or even in the logarithm, whole where the setting is.

    >>> axis("n", 4, 16, 3)
    [4, 10, 16]
    """
    if name not in AXES:
        raise unknown("axis", name, AXES)
    if not (math.isfinite(low) and math.isfinite(high)) or count < 1 or (AXES[name].log and min(low, high) <= 0):
        raise InputError(
            f"The axis {name} needs two numbers that it can take and a count, not {low:g} to {high:g}, {count}."
        )
    values = np.geomspace(low, high, count) if AXES[name].log else np.linspace(low, high, count)
    if isinstance(DEFAULTS[name], int):
        return [int(v) for v in dict.fromkeys(np.rint(values).astype(int).tolist())]
    return [float(f"{v:.4g}") for v in values]


def cells(base: State, across: tuple[str, list[float]], up: tuple[str, list[float]]) -> list[tuple[int, int, State]]:
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
        full = {**DEFAULTS, **state}
        work += float(full["n"]) ** 2 * full["t"] / max(full["dt"], 1e-9)
    if work > MOST_WORK:
        raise InputError(
            f"This diagram would take {work:.1e} pairs of tokens, more than the page takes; lower n, t or cells."
        )
    return found


def measured(state: State, runs: int, measure: str, ticket: Ticket) -> float:
    """The mean of an observable at the end, over starts with their own seeds; Cancelled when nobody waits any more."""
    settings = settings_of(state).model_copy(update={"runs": runs, "save": 2})
    job = build(settings)
    segments = []
    ticket.check()
    for segment in drive(job.plan, np.array(job.x), None, reported=not quick(state)):
        segments.append(segment)
        ticket.check()
    run = collect(job.plan, segments)
    return float(np.mean(np.asarray(run.observe(measure).values)[-1]))


def _numbers(fields: dict[str, Any]) -> Iterator[tuple[str, list[float]]]:
    for side in ("x", "y"):
        low, high, count = (fields[f"{side}{part}"].value for part in ("low", "high", "count"))
        if None in (low, high, count):
            raise InputError(f"The {side} axis needs where it begins, where it ends, and how many values.")
        yield fields[side].value, axis(fields[side].value, float(low), float(high), int(count))


async def sweep_page(request: Request) -> None:
    """The page."""
    problem = ""
    try:
        base = from_query(request.url.query)
    except InputError as error:
        base, problem = {}, str(error)
    fields: dict[str, Any] = {}
    state = {"ticket": Ticket()}
    with shell("Sweep", "/sweep"), ui.element("div").classes("lab-form-page"):
        ui.html("<h1>Phase diagram</h1><p>Two settings vary, the rest is the run you came from. Cells fill as they are "
                "computed; click one to open its run.</p>", sanitize=False)  # fmt: skip
        with ui.element("div").classes("lab-form"):
            names = {name: control.label for name, control in AXES.items()}
            for side, chosen, low, high, count in (("x", "beta", 0.5, 16.0, 9), ("y", "n", 8, 48, 6)):
                fields[side] = ui.select(names, value=chosen, label="across" if side == "x" else "up")
                fields[side].props(f"dense outlined options-dense data-control=sweep-{side}")
                for part, value in (("low", low), ("high", high), ("count", count)):
                    word = {"low": "from", "high": "to", "count": "values"}[part]
                    fields[f"{side}{part}"] = ui.number(word, value=value).props(
                        f"dense outlined data-control=sweep-{side}{part}"
                    )
            fields["measure"] = ui.select(MEASURES, value="clusters", label="measure").props(
                "dense outlined data-control=sweep-measure"
            )
            fields["runs"] = ui.number("starts per cell", value=4, min=1, max=MOST_RUNS, precision=0).props(
                "dense outlined"
            )
            go = ui.element("button").classes("lab-button lab-main-button").props("type=button data-do=sweep")
            with go:
                ui.label("Draw")
            stop = ui.element("button").classes("lab-button").props("type=button data-do=stop")
            with stop:
                ui.label("Stop")
        message = ui.label(problem).classes("lab-message").props("role=status")
        ui.html('<div id="diagram" class="lab-diagram"></div>', sanitize=False)
    client = ui.context.client

    async def draw() -> None:
        state["ticket"].cancel()
        mine = state["ticket"] = Ticket()
        try:
            across, up = _numbers(fields)
            runs = int(fields["runs"].value or 1)
            if not 1 <= runs <= MOST_RUNS:
                raise InputError(f"Starts per cell lie between 1 and {MOST_RUNS}, not {runs}.")
            todo = cells(base, across, up)
        except InputError as error:
            message.set_text(str(error))
            return
        ui.run_javascript(call("labDiagram.begin", [across[0], across[1]], [up[0], up[1]]))
        for done, (i, j, one) in enumerate(todo):
            if mine.gone or client.has_socket_connection is False:
                return
            asked = one, runs, fields["measure"].value, mine
            try:
                value = await asyncio.get_running_loop().run_in_executor(_WORKERS, measured, *asked)
            except Cancelled:
                return
            except InputError as error:
                message.set_text(f"{error} (at {across[0]} = {across[1][i]}, {up[0]} = {up[1][j]})")
                return
            ui.run_javascript(call("labDiagram.cell", i, j, value, to_query(one)))
            message.set_text(
                f"{done + 1} of {len(todo)} cells: {MEASURES[fields['measure'].value]}, mean of {runs} starts"
            )

    def halt() -> None:
        state["ticket"].cancel()
        message.set_text("Stopped; what was drawn stays.")

    go.on("click", draw)
    stop.on("click", halt)
    await client.connected(timeout=30)
    await ui.run_javascript('await import("/assets/diagram.js")', timeout=30)
