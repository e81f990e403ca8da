"""Records in the explorer: runs are played, studies, galleries and sweeps are opened as the pages they are."""

import asyncio
import mimetypes
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from nicegui import ui
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from metastable.errors import InputError
from metastable.explorer.page_shell import call, look_of, panels_place, shell, stages, start_script
from metastable.explorer.sweep_record import sweep_record
from metastable.store import load
from metastable.store.files import read_json
from metastable.store.folder import DONE, KINDS, PROVENANCE, holds
from metastable.trajectory import Trajectory

DEPTH, MOST = 4, 500  # how deep folders are searched, and how many records are listed
PAGES = ("gallery.html", "report.html", "index.html", "page.html", "comparison.html")
SHOWN = {".html", ".png", ".svg", ".gif", ".mp4", ".webp", ".jpg", ".pdf", ".css", ".json", ".csv", ".toml", ".txt"}
MOST_BYTES = 2 * 2**30
APART = {"content-security-policy": "sandbox allow-scripts allow-popups"}  # pages of records, not the explorer's own


class Library:
    """The records below one folder; no name from a page leads outside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def inside(self, name: str) -> Path:
        """The place a name stands for; links that lead out are refused too."""
        longest = max(len(part.encode(errors="replace")) for part in name.split("/"))
        if "\0" in name or len(name) > 1000 or longest > 255:
            raise InputError("This is not the name of a record.")
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder):
            raise InputError(f"{name[:80]!r} lies outside the folder that is shown ({self.folder}).")
        return path

    def records(self) -> list[tuple[str, str, str]]:
        """Name, kind and state of every record, in order of name."""
        found: list[tuple[str, str, str]] = []
        waiting = [(self.folder, 0)]
        while waiting and len(found) < MOST:
            here, depth = waiting.pop()
            try:
                children = sorted(
                    (p for p in here.iterdir() if p.is_dir() and not p.name.startswith(".")), reverse=True
                )
            except OSError:
                continue
            if (here / PROVENANCE).is_file():
                found.append(self._described(here))
            if depth < DEPTH:
                waiting += [(p, depth + 1) for p in children if not p.is_symlink()]
        return sorted(found)

    def _described(self, path: Path) -> tuple[str, str, str]:
        given = str(path.relative_to(self.folder))
        name = given.encode(errors="surrogateescape").decode(errors="backslashreplace")
        if name != given:
            return name, "?", "its name is not UTF-8: rename it to open it"
        try:
            kind = read_json(path / PROVENANCE).get("kind", "")
        except (OSError, ValueError):
            return name, "?", "damaged: its provenance.json cannot be read"
        if not isinstance(kind, str) or kind not in KINDS:
            return name, "?", "damaged: its provenance.json names no kind of record"
        return name, kind, "finished" if (path / DONE).exists() else "unfinished"

    def run(self, name: str) -> Trajectory:
        """A stored run; of an unfinished one what there is so far."""
        path = self.inside(name)
        if not (path / PROVENANCE).is_file():
            raise InputError(f"There is no record {name[:80]!r} in {self.folder}.")
        size = sum(part.stat().st_size for part in path.rglob("*") if part.is_file())
        if size > MOST_BYTES:
            raise InputError(
                f"This record has {size / 2**30:.1f} GB; the explorer opens up to {MOST_BYTES / 2**30:.0f} GB."
            )
        return load(path, partial=True)

    def sweep(self, name: str) -> Response:
        """The page of a stored sweep, made now."""
        path = self.inside(name)
        if not holds(path, "sweep"):
            raise InputError(f"There is no sweep {name[:80]!r} in {self.folder}.")
        return Response(sweep_record(path, name), media_type="text/html; charset=utf-8", headers=APART)

    def page(self, name: str) -> str | None:
        """The page inside a record, as a name."""
        path = self.inside(name)
        found = [path / page for page in PAGES if (path / page).is_file()] or sorted(path.glob("*.html"))
        return str(found[0].relative_to(self.folder)) if found else None

    def file(self, name: str) -> Response:
        """A file of a record; its pages run in a sandbox, apart from the explorer."""
        try:
            path = self.inside(name)
        except (InputError, OSError, ValueError):
            return Response("There is no such file.", 404)
        if not path.is_file() or path.suffix.lower() not in SHOWN:
            return Response("There is no such file.", 404)
        media = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return FileResponse(path, media_type=media, headers=APART)


async def records_page(request: Request, library: Library) -> None:
    """The list, or one record."""
    chosen = request.query_params.get("open")
    records = await asyncio.to_thread(library.records)  # a slow disk must not hold up other sessions
    if chosen is None:
        _listing(library, records)
        return
    try:
        found = next((one for one in records if one[0] == str(chosen)), None)
        if found is None:
            library.inside(chosen)
            raise InputError(f"There is no record {chosen[:80]!r} in {library.folder}.")
        page = _address(found[1], chosen, library)
    except (InputError, OSError, ValueError) as error:
        with shell("Records", "/records"), ui.element("div").classes("lab-form-page"):
            ui.label(str(error)).classes("lab-note lab-bad")
            ui.link("All records", "/records")
        return
    if found[1] == "run":
        await _player(chosen, look_of(request.url.query))
        return
    with shell("Records", "/records"), ui.element("div").classes("lab-whole"):
        if page is None:
            ui.label(
                f"{chosen}: {found[1]}, {found[2]}. It has no page to show; its files are in {library.folder / chosen}."
            ).classes("lab-note")
            return
        frame = ui.element("iframe").classes("lab-frame").props(f'src="{page}" title="record"')
        frame.props('sandbox="allow-scripts allow-popups"')


def _address(kind: str, name: str, library: Library) -> str | None:
    """Where the page of a record is, or None; runs are played instead."""
    if kind == "sweep":
        return "/sweep-record?" + urlencode({"path": name})
    page = None if kind == "run" else library.page(name)
    return None if page is None else f"/files/{quote(page)}"


def _listing(library: Library, records: list[tuple[str, str, str]]) -> None:
    with shell("Records", "/records"), ui.element("div").classes("lab-form-page"):
        ui.html("<h1>Records</h1>", sanitize=False)
        ui.label(f"In {library.folder}").classes("lab-note")
        if not records:
            ui.label("There are none yet: `metastable simulate`, `reproduce`, `model` and `sweep` leave them.").classes(
                "lab-note"
            )
        with ui.element("ul").classes("lab-records"):
            for name, kind, state in records:
                with ui.element("li"):
                    ui.link(name, "/records?" + urlencode({"open": name}))
                    ui.label(kind).classes("lab-kind")
                    ui.label(state).classes("lab-note")
        if len(records) >= MOST:
            more = f"The first {MOST} are listed; `metastable explore FOLDER` shows those of a folder further down."
            ui.label(more).classes("lab-note")


async def _player(name: str, look: dict[str, Any]) -> None:
    with shell("Records", "/records"), ui.element("div").classes("lab-grid lab-two-columns"):
        with ui.element("div").classes("lab-middle"):
            ui.label(name).classes("lab-label")
            stages(two=False)
        panels_place()
    await ui.context.client.connected(timeout=30)
    await ui.run_javascript(start_script(source="/record", look=look, draggable=False), timeout=30)
    ui.run_javascript(call("lab.show", "a", urlencode({"open": name})))
