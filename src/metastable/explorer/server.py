"""The explorer's server: pages, runs by their links, files to take away; for this machine only, unless asked."""

import asyncio
import logging
import secrets
import socket
import threading
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from nicegui import ui
from starlette.staticfiles import StaticFiles

from metastable.errors import InputError
from metastable.explorer import records_page, sweep_page
from metastable.explorer.computing import Cancelled, Made, Ticket, Workshop, make, quick
from metastable.explorer.guard import Guard
from metastable.explorer.lab_page import lab_page
from metastable.explorer.live_panels import panels_of
from metastable.explorer.models_page import models_page
from metastable.explorer.offline_page import ASSETS
from metastable.explorer.payload import pack
from metastable.explorer.records_page import Library
from metastable.explorer.steering import from_query
from metastable.explorer.take_away import taken

BYTES = "application/octet-stream"
PORT = 8421
_FORGOTTEN = 60.0  # seconds without an answer after which a page's session is dropped


def application(folder: Path) -> FastAPI:
    """The web application, without its guard; ``folder`` is the only one whose records it shows."""
    app, workshop, library = FastAPI(docs_url=None, redoc_url=None, openapi_url=None), Workshop(), Library(folder)
    app.mount("/assets", StaticFiles(directory=str(ASSETS)), name="assets")

    async def answered(request: Request, light: bool, act: Callable[[Ticket], Response]) -> Response:
        ticket = Ticket()
        try:
            return await workshop.work(lambda: act(ticket), light, ticket, request.is_disconnected, _session(request))
        except InputError as error:
            return Response(str(error), 400, media_type="text/plain; charset=utf-8")
        except Cancelled:
            return Response("Cancelled.", 499, media_type="text/plain; charset=utf-8")
        except Exception as error:
            logging.getLogger("metastable").exception("A request failed: %s", request.url.path)
            first = (str(error).splitlines() or [""])[0][:200]
            text = f"Something went wrong inside metastable ({type(error).__name__}: {first}); please report it."
            return Response(text, 500, media_type="text/plain; charset=utf-8")

    @app.get("/run")
    async def run(request: Request) -> Response:
        try:
            state = from_query(request.url.query)
        except InputError as error:
            return Response(str(error), 400, media_type="text/plain; charset=utf-8")
        brief = request.query_params.get("part") == "first"
        return await answered(request, quick(state), lambda ticket: _bytes(workshop.get(state, ticket), brief, ticket))

    @app.get("/take/{kind}")
    async def take(request: Request, kind: str) -> Response:
        try:
            state = from_query(request.url.query)
            name, media, maker = taken(kind)
        except InputError as error:
            return Response(str(error), 400, media_type="text/plain; charset=utf-8")
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return await answered(
            request,
            False,
            lambda ticket: Response(maker(workshop.get(state, ticket)), media_type=media, headers=headers),
        )

    @app.get("/record")
    async def record(request: Request) -> Response:
        name, brief = request.query_params.get("open", ""), request.query_params.get("part") == "first"
        return await answered(request, False, lambda t: _bytes(Made({}, library.run(name), 0.0), brief, t))

    @app.get("/sweep-record")
    async def sweep_record(request: Request) -> Response:
        return await answered(request, False, lambda _: library.sweep(request.query_params.get("path", "")))

    @app.get("/files/{path:path}")
    async def files(path: str) -> Response:
        return library.file(path)

    _pages(app, library, workshop, answered)
    threading.Thread(target=_warm, args=(workshop,), daemon=True).start()
    return app


def _pages(app: FastAPI, library: Library, workshop: Workshop, answered: Callable[..., Awaitable[Response]]) -> None:
    ui.page("/")(lab_page)

    async def sweep(request: Request) -> None:
        await sweep_page.sweep_page(request, workshop)

    async def models(request: Request) -> None:
        await models_page(request, library.folder)

    async def records(request: Request) -> None:
        await records_page.records_page(request, library)

    ui.page("/sweep")(sweep)
    ui.page("/models")(models)
    ui.page("/records")(records)

    @app.get("/probe")
    async def probe(request: Request) -> Response:
        from metastable.explorer.models_page import probed

        asked = dict(request.query_params)
        return await answered(
            request, False, lambda t: Response(probed(asked, library.folder, t.check), media_type=BYTES)
        )

    # a busy browser, or a laptop that slept for a moment, finds its session again
    ui.run_with(app, title="metastable", tailwind=False, reconnect_timeout=_FORGOTTEN, favicon=_ICON)


_ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'>"
    "<circle cx='16' cy='16' r='14' fill='none' stroke='#0072B2' stroke-width='2'/>"
    "<circle cx='11' cy='12' r='4' fill='#0072B2'/><circle cx='21' cy='19' r='4' fill='#E69F00'/></svg>"
)


def _session(request: Request) -> str:
    """Which page asks, as it says itself; others are told apart by their connection."""
    client = request.client
    return request.query_params.get("page", "")[:64] or (f"{client.host}:{client.port}" if client else "")


def _bytes(made: Made, brief: bool, ticket: Ticket) -> Response:
    """The bytes of a run: tokens alone, or with all that the panels show."""
    ticket.check()
    if brief:
        return Response(pack(made.run, brief=True), media_type=BYTES)
    extra, limit = panels_of(made.run, check=ticket.check)
    return Response(pack(made.run, limit=limit, extra=extra), media_type=BYTES)


def _warm(workshop: Workshop) -> None:
    """Compile what the first visitor would wait for."""
    with suppress(Exception):
        for state in ({}, {"mask": "causal"}, {"geometry": "rescaled", "n": 40, "beta": 1.0, "t": 8.0}):
            _bytes(make(state), False, Ticket())


def serve(
    folder: Path, port: int | None = None, host: str = "127.0.0.1", token: str | None = None, show: bool = True
) -> None:
    """Serve until interrupted.

    Parameters
    ----------
    folder
        The folder whose records can be opened.
    port
        8421, or the next free one, unless given.
    host, token
        Another address than this machine's own needs a token, which every visitor must bring.
    show
        Open a browser.
    """
    remote = host not in ("127.0.0.1", "localhost", "::1")
    if remote and token is None:
        raise InputError("Serving to other machines needs a token; see --remote.")
    found = _free(host, port)
    address = f"http://{'127.0.0.1' if not remote else socket.gethostname()}:{found}/" + (
        f"?token={token}" if token else ""
    )
    guarded: Any = Guard(application(folder), found, token)
    print(f"Explorer: {address}  (folder {folder}; stop with Ctrl-C)", flush=True)
    if show:
        threading.Timer(1.5, webbrowser.open, [address]).start()
    config = uvicorn.Config(guarded, host=host, port=found, log_level="warning", timeout_graceful_shutdown=2)
    asyncio.run(uvicorn.Server(config).serve())


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(18)


def _free(host: str, port: int | None) -> int:
    """A port that can be bound."""
    for candidate in [port] if port is not None else range(PORT, PORT + 40):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, candidate))
                return int(candidate)
            except OverflowError as error:
                raise InputError(f"port must lie between 1 and 65535, not {candidate}.") from error
            except OSError:
                continue
    raise InputError(f"Port {port or PORT} of {host} is taken or may not be used; give another with --port.")
