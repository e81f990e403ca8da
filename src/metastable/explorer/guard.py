"""Who may talk to the explorer: requests for its own address, from its own pages, with its token where there is one.

A page of another site can make a browser send requests to 127.0.0.1, and a name of another site can be made to point
there (DNS rebinding). Both give themselves away by the Origin or Host header.
"""

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]

LOCAL = ("127.0.0.1", "localhost", "[::1]")
COOKIE = "metastable-token"
MOST_QUERY = 16_384  # bytes
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"referrer-policy", b"no-referrer"),
]


def _site(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # no address at all
        return None


class Guard:
    """ASGI middleware in front of everything, web sockets included."""

    def __init__(self, app: App, port: int, token: str | None = None) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}" for name in LOCAL}
        self.token = token

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it in a sentence."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        refusal = self.refusal(headers, scope.get("query_string", b""))
        if refusal:
            await _refuse(scope, send, *refusal)
            return
        await self.app(scope, receive, self._with_headers(scope, send))

    def refusal(self, headers: dict[str, str], query: bytes) -> tuple[int, str] | None:
        """Status and sentence for a request that is not let through."""
        host = headers.get("host", "")
        if self.token is None and host not in self.hosts:
            return 421, f"This explorer answers to {sorted(self.hosts)[0]} only, not to {host[:80]!r}."
        if "origin" in headers and _site(headers["origin"]) != host:
            return 403, "Requests from pages of other sites are refused."
        if len(query) > MOST_QUERY:
            return 414, f"A link of the explorer has at most {MOST_QUERY} characters."
        if self.token is not None and not self._known(headers, query):
            return 401, "Open the address with the token that `metastable explore` printed."
        return None

    def _known(self, headers: dict[str, str], query: bytes) -> bool:
        assert self.token is not None
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        given = [cookie.value] if cookie else []
        given += parse_qs(query.decode("latin-1")).get("token", [])
        return any(secrets.compare_digest(one.encode(), self.token.encode()) for one in given)

    def _with_headers(self, scope: Scope, send: Any) -> Any:
        extra = list(_HEADERS)
        if self.token is not None and b"token=" in scope.get("query_string", b""):
            extra.append((b"set-cookie", f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/".encode()))

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *extra]}
            await send(message)

        return sending


async def _refuse(scope: Scope, send: Any, status: int, text: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
