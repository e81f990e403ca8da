"""Several sessions at once, a wide screen, and files that somebody tries to send."""

import io
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from tests.e2e.browser import keep, tab

pytestmark = pytest.mark.slow  # a real browser takes seconds a page

SEEN = "window.lab && lab.slots.a.seen !== null && lab.slots.a.seen === lab.slots.a.wanted"
HEAVY = "n=3000&d=3&t=100&dt=0.02"  # minutes


def test_two_sessions_have_states_of_their_own(browser, server):
    with (
        tab(browser, 1920, 1080, reduced_motion="reduce") as one,
        tab(browser, 800, 700, reduced_motion="reduce") as two,
    ):
        for page, query in ((one, "n=9&t=2&at=0"), (two, "n=13&t=2&at=0")):
            page.set_default_timeout(120_000)
            page.goto(f"{server.url}/?{query}")
        for page in (one, two):
            page.wait_for_function(SEEN)
        one.locator("input[data-control=beta]").fill("2")
        one.keyboard.press("Enter")
        one.wait_for_function("new URLSearchParams(lab.slots.a.seen).get('beta') === '2.0'")
        assert two.evaluate("[lab.slots.a.player.run.n, new URLSearchParams(lab.slots.a.wanted).get('beta')]") == [
            13,
            None,
        ]
        assert one.evaluate("document.documentElement.scrollWidth") <= 1920
        assert one.evaluate("lab.page") != two.evaluate("lab.page")
        keep(one, "lab-1920")


def test_heavy_sessions_do_not_hold_up_a_light_one(browser, server):
    """Two sessions ask for minutes of work, three times each; a third steers, and they give up when they leave."""
    stop = threading.Event()

    def ask(k):
        try:
            urllib.request.urlopen(f"{server.url}/run?page=heavy-{k % 2}&{HEAVY}&seed={k}", timeout=12)
        except OSError:  # left before it was done
            stop.set()

    askers = [threading.Thread(target=ask, args=(k,)) for k in range(6)]
    for one in askers:
        one.start()
    try:
        with tab(browser, 1000, 700, reduced_motion="reduce") as page:
            page.set_default_timeout(120_000)
            page.goto(f"{server.url}/?n=9&t=2&at=0")
            page.wait_for_function(SEEN)
    finally:
        for one in askers:
            one.join()
    assert stop.is_set()
    began = time.monotonic()
    assert server.get("/run?page=last&n=700&t=0.5&part=first")[0] == 200  # heavy work that was left has ended
    assert time.monotonic() - began < 60


def test_files_are_not_taken(server, records):
    """There is no way to send a file in, and none of the chosen folder is read as a matrix or as objects."""
    data = io.BytesIO()
    np.save(data, np.array([{"__reduce__": 1}], dtype=object), allow_pickle=True)
    (records / "evil.npy").write_bytes(data.getvalue())
    for path in ("/run", "/record", "/probe", "/take/csv", "/files/evil.npy", "/records"):
        request = urllib.request.Request(server.url + path, data=data.getvalue(), method="POST")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        assert refused.value.code in (404, 405)
    for path in ("/run?V=evil.npy", "/run?Q=evil.npy", "/record?open=evil.npy"):
        assert server.get(path)[0] == 400
    assert server.get("/files/evil.npy")[0] == 404
    (records / "evil.npy").unlink()
