"""Who is let in, without a server."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from metastable.explorer.guard import COOKIE, Guard


async def inside(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"in"})


def asked(guard, kind="http", query=b"", **headers):
    said = []

    async def send(message):
        said.append(message)

    scope = {"type": kind, "headers": [(k.encode(), v.encode()) for k, v in headers.items()], "query_string": query}
    with ThreadPoolExecutor(1) as pool:  # a browser of another test may keep an event loop in this thread
        pool.submit(asyncio.run, guard(scope, None, send)).result()
    return said[0]


def test_only_this_machines_names_and_pages():
    guard = Guard(inside, 8421)
    assert asked(guard, host="127.0.0.1:8421")["status"] == 200
    assert asked(guard, host="localhost:8421", origin="http://localhost:8421")["status"] == 200
    for host in ("evil.example", "127.0.0.1:9999", "127.0.0.1.evil.example:8421", ""):
        assert asked(guard, host=host)["status"] == 421
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", "http://["):
        assert asked(guard, host="127.0.0.1:8421", origin=origin)["status"] == 403


def test_web_sockets_are_closed_too():
    guard = Guard(inside, 8421)
    assert asked(guard, "websocket", host="evil.example")["type"] == "websocket.close"
    assert asked(guard, "websocket", host="127.0.0.1:8421", origin="http://evil.example")["type"] == "websocket.close"


def test_a_token_by_link_or_cookie():
    guard = Guard(inside, 8421, token="right")
    assert asked(guard, host="lab:8421")["status"] == 401
    assert asked(guard, host="lab:8421", query=b"token=wrong")["status"] == 401
    let_in = asked(guard, host="lab:8421", query=b"token=right")
    assert let_in["status"] == 200
    assert any(name == b"set-cookie" and b"HttpOnly" in value for name, value in let_in["headers"])
    assert asked(guard, host="lab:8421", cookie=f"{COOKIE}=right")["status"] == 200
