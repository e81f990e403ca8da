"""The laboratory in a real browser: steer, presets, tour, links, compare, take away."""

import pytest

from metastable.explorer.presets import PRESETS, TOUR
from metastable.explorer.steering import to_query
from tests.e2e.browser import keep, tab

pytestmark = pytest.mark.slow  # a real browser takes seconds a page

SEEN = "window.lab && lab.slots.a.seen !== null && lab.slots.a.seen === lab.slots.a.wanted"
PATIENCE = 120_000


def opened(page, server, query=""):
    page.set_default_timeout(PATIENCE)
    page.goto(f"{server.url}/?{query}")
    page.wait_for_function(SEEN)


def wanted(page):
    return page.evaluate("Object.fromEntries(new URLSearchParams(lab.slots.a.wanted))")


def settled(page, **values):
    """Wait until the run of these settings is shown."""
    page.wait_for_function(
        "(values) => { const now = new URLSearchParams(lab.slots.a.seen || '');"
        " return Object.entries(values).every(([k, v]) => now.get(k) === v); }",
        arg={name: str(value) for name, value in values.items()},
    )


@pytest.fixture(scope="module")
def lab(browser, server):
    """One page for tests that steer."""
    with tab(browser, 1280, 900, reduced_motion="reduce") as page:
        opened(page, server, "n=16&t=4&at=0")
        yield page


def test_the_page_opens_plays_and_fills_its_panels(browser, server):
    with tab(browser, 1280, 860) as page:
        opened(page, server, "n=16&t=4")
        page.wait_for_function("lab.slots.a.player.clock.share > 0")  # it plays by itself
        for name in ("clusters", "attention", "similarity", "energy", "order", "sink", "spectrum"):
            assert "lab-empty" not in page.locator(f"[data-panel={name}]").get_attribute("class")
        assert page.locator(".lab-theory").inner_text().strip()
        keep(page, "lab-1280-light")


def test_every_choice_and_number_changes_the_run(lab):
    for name, value in (("n", 20), ("beta", 2.5), ("seed", 3), ("t", 5), ("noise", 0.1), ("noise", 0), ("heads", 2)):
        lab.locator(f"input[data-control={name}]").fill(str(value))
        lab.keyboard.press("Enter")
        lab.wait_for_function(f"Number(new URLSearchParams(lab.slots.a.wanted).get('{name}') || 0) === {value}")
    lab.locator("input[data-control=heads]").fill("1")
    settled(lab, n=20, beta=2.5, seed=3)
    for name, value in (
        ("mask", "causal"),
        ("normalise", "unnormalised"),
        ("method", "euler"),
        ("geometry", "euclidean"),
    ):
        lab.locator(f"[data-control={name}]").first.click()
        lab.get_by_role("option", name=value, exact=True).click()
        settled(lab, **{name: value})
    assert lab.evaluate("lab.slots.a.player.run.kind") == "box"


def test_sliders_move_the_picture_and_fifty_moves_end_at_the_last(lab):
    slider = lab.locator("[data-slider=beta]")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    lab.mouse.move(box["x"] + 20, box["y"] + box["height"] / 2)
    lab.mouse.down()
    for k in range(50):
        lab.mouse.move(box["x"] + 20 + 3 * k, box["y"] + box["height"] / 2)
    lab.mouse.up()
    lab.wait_for_timeout(500)
    lab.wait_for_function(SEEN)
    shown = float(lab.locator("input[data-control=beta]").input_value())
    assert abs(float(wanted(lab)["beta"]) - shown) < 1e-9
    assert shown > 0.1


def test_what_is_impossible_is_said_and_the_picture_stays(lab):
    field = lab.locator("input[data-control=V]")
    field.fill("nonsense")
    lab.wait_for_function("document.getElementById('lab-message').textContent.includes('nonsense')")
    assert lab.evaluate("lab.slots.a.player.run.n") > 0
    field.fill("/etc/passwd.csv")
    lab.wait_for_function("document.getElementById('lab-message').textContent.includes('reads no files')")
    field.fill("identity")
    lab.wait_for_function(SEEN)
    lab.locator("input[data-control=n]").fill("100000")
    lab.wait_for_function("document.getElementById('lab-message').textContent.includes('more than the explorer takes')")
    lab.locator("input[data-control=n]").fill("12")
    settled(lab, n=12)


def test_eigenvalues_and_complex_pairs(browser, server):
    with tab(browser, 1280, 900, reduced_motion="reduce") as page:
        opened(page, server, "n=8&t=2&at=0&d=2&geometry=euclidean&V=1,0.5")
        page.locator(".lab-eigen .lab-chip").click()
        settled(page, V="1+1j,1-1j")
        spectrum = page.evaluate("lab.slots.a.player.run.spectrum")
        assert sorted(round(b, 6) for _, b in spectrum) == [-1, 1]


def test_tour_has_eight_steps(browser, server):
    with tab(browser, 1280, 900, reduced_motion="reduce") as page:
        opened(page, server, "n=8&t=2&at=0")
        page.locator("[data-do=tour]").click()
        for k, step in enumerate(TOUR):
            page.wait_for_function(f"document.querySelector('.lab-card').textContent.includes('{k + 1} of 8')")
            assert step.title in page.locator(".lab-card").inner_text()
            page.wait_for_function("(query) => lab.slots.a.seen === query", arg=to_query(step.state))
            keep(page, f"tour-{k + 1}")
            page.locator(".lab-card [data-do=next]").click()
        page.wait_for_selector(".lab-card.lab-hidden", state="attached")
    assert len(TOUR) == 8


def test_a_link_restores_settings_look_and_time(browser, server):
    with tab(browser, 1280, 900, reduced_motion="reduce") as page:
        opened(page, server, "n=9&d=2&beta=3&mask=causal&t=4&at=0.5&look=trails.log&colour=position")
        assert wanted(page) == {"n": "9", "d": "2", "beta": "3.0", "mask": "causal", "t": "4.0"}
        page.wait_for_function("Math.abs(lab.slots.a.player.clock.share - 0.5) < 1e-6")
        assert page.evaluate("[lab.slots.a.player.state.trails, lab.slots.a.player.state.log]") == [True, True]
        assert page.evaluate("lab.slots.a.player.scene.look.colour") == "position"
        page.keyboard.press("ArrowRight")
        page.wait_for_function("!location.search.includes('at=0.500')")
        address = page.url
    with tab(browser, 1280, 900, reduced_motion="reduce") as page:
        opened(page, server, address.split("?")[1])
        assert page.evaluate("lab.slots.a.player.state.trails") is True


def test_compare_shows_two_runs_with_linked_heads(browser, server):
    with tab(browser, 1280, 900, reduced_motion="reduce") as page:
        opened(page, server, "n=9&t=4&at=0&compare=beta:1")
        page.wait_for_function("lab.slots.b && lab.slots.b.seen !== null")
        page.evaluate("lab.slots.a.player.seek(0.5)")
        page.wait_for_function("Math.abs(lab.slots.b.player.clock.share - 0.5) < 1e-6")
        assert page.evaluate("new URLSearchParams(lab.slots.b.seen).get('beta')") == "1.0"
        keep(page, "lab-compare")


def test_tokens_can_be_moved_by_hand(browser, server):
    with tab(browser, 1280, 900, reduced_motion="reduce") as page:
        opened(page, server, "n=5&d=2&t=2&at=0")
        x, y, _ = page.evaluate(
            "lab.slots.a.player.scene.project(lab.slots.a.player.scene.position(2, {k: 0, u: 0}), {k: 0, u: 0})"
        )
        box = page.locator("#stage-a .ms-canvas").bounding_box()
        page.mouse.move(box["x"] + x, box["y"] + y)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2 + 90, box["y"] + box["height"] / 2 - 90, steps=5)
        page.mouse.up()
        page.wait_for_function("(new URLSearchParams(lab.slots.a.seen).get('moved') || '').startsWith('2:')")
        got = page.evaluate("[...lab.slots.a.player.run.tokens.subarray(6, 8)]")
        assert abs(got[0] - got[1]) < 0.05
        assert got[0] > 0.6


def test_a_killed_server_comes_back_and_the_page_with_it(browser, server):
    with tab(browser, 1280, 900, reduced_motion="reduce") as page:
        opened(page, server, "n=7&beta=2&t=3&at=0")
        page.evaluate("lab.marked = true")
        server.kill()
        server.start()
        page.wait_for_function(
            f"{SEEN} && !lab.marked && lab.slots.a.player.run.n === 7"
        )  # the page loaded itself anew
        page.locator("input[data-control=n]").fill("11")
        page.keyboard.press("Enter")
        settled(page, n=11)


def test_a_page_that_was_frozen_goes_on_where_it_was(browser, server):
    with tab(browser, 640, 480, reduced_motion="reduce") as page:
        opened(page, server, "n=9&t=3&at=0")
        page.evaluate("lab.marked = true")
        page.evaluate("() => { const end = performance.now() + 26000; while (performance.now() < end); }")
        page.wait_for_timeout(4000)
        page.locator("input[data-control=n]").fill("11")
        page.keyboard.press("Enter")
        settled(page, n=11)
        assert page.evaluate("lab.marked === true")  # it was not loaded anew


def test_phone(browser, server):
    with tab(browser, 390, 844, has_touch=True, color_scheme="dark", reduced_motion="reduce") as page:
        opened(page, server, "n=12&t=3&at=0")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.locator("#stage-a .ms-play").is_visible()
        keep(page, "lab-phone-dark")


def test_every_experiment_of_the_gallery_has_a_preset():
    from metastable.experiments import EXPERIMENTS

    covered = {name for one in PRESETS for name in one.experiments}
    assert set(EXPERIMENTS) <= covered
