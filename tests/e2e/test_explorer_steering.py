"""Every control of the steering column, presets and comparisons, by mouse and keyboard."""

import pytest

from metastable.explorer.presets import preset
from metastable.explorer.steering import CONTROLS, to_query
from tests.e2e.browser import keep, tab

pytestmark = pytest.mark.slow  # a real browser takes seconds a page

SEEN = "window.lab && lab.slots.a.seen !== null && lab.slots.a.seen === lab.slots.a.wanted"
# tried in this order on one page, so that each makes a run together with those before it
TRIED = {
    "d": "2", "dt": "0.2", "initial": "sphere", "normalise": "unnormalised", "mask": "window(8)",
    "position": "alibi", "geometry": "euclidean", "score": "distance", "method": "euler", "noise": "0.05",
    "noise_kind": "common", "heads": "2", "seed": "5", "t": "3", "beta": "1.5", "n": "10",
}  # fmt: skip


@pytest.fixture
def lab(browser, server):
    with tab(browser, 1280, 900, reduced_motion="reduce") as page:
        page.set_default_timeout(120_000)
        page.goto(f"{server.url}/?n=12&t=2&at=0")
        page.wait_for_function(SEEN)
        yield page


def shown(page, **values):
    page.wait_for_function(
        "(values) => { const now = new URLSearchParams(lab.slots.a.seen || '');"
        " return Object.entries(values).every(([k, v]) => now.get(k) === v || Number(now.get(k)) === Number(v)); }",
        arg=values,
    )


def chosen(page, name, value):
    page.locator(f"[data-control={name}]").first.click()
    page.get_by_role("option", name=value, exact=True).click()


def test_every_control_changes_the_run(lab):
    assert set(TRIED) == {one.name for one in CONTROLS}
    kinds = {one.name: bool(one.options) for one in CONTROLS}
    for name, value in TRIED.items():
        if kinds[name]:
            chosen(lab, name, value)
        else:
            lab.locator(f"input[data-control={name}]").fill(value)
            lab.keyboard.press("Enter")
        shown(lab, **{name: value})
        assert not lab.evaluate("document.getElementById('lab-message').classList.contains('lab-bad')"), name
    assert lab.evaluate("[lab.slots.a.player.run.n, lab.slots.a.player.run.d]") == [10, 2]
    keep(lab, "lab-every-control")


def test_matrices_chips_and_a_real_head(lab):
    for name, value in (("Q", "goe"), ("K", "[[1, 0, 0], [0, 1, 0], [0, 0, 2]]"), ("V", "1,0.5,-0.5")):
        lab.locator(f"input[data-control={name}]").fill(value)
        shown(lab, **{name: value})
    for label in ("minus", "goe", "ginibre", "orthogonal", "psd", "perron"):
        before = lab.evaluate("lab.slots.a.seen")
        lab.locator(".lab-chips .lab-chip", has_text=label).click()
        lab.wait_for_function("(before) => lab.slots.a.seen !== before", arg=before)
        assert lab.locator("input[data-control=V]").input_value() == {"minus": "-1"}.get(label, label)
    from metastable.models.zoo import home

    if home("reactions-albert").exists():
        lab.locator(".lab-chips .lab-chip", has_text="real head").click()
        shown(lab, V="model:reactions-albert/head=4/top=3")
        assert len(lab.evaluate("lab.slots.a.player.run.spectrum")) == 3


def test_a_preset_is_chosen_and_shown(lab):
    found = preset("polytope-subspace")
    lab.locator("[data-control=preset]").first.click()
    option = lab.get_by_role("option", name=found.title)
    assert found.source in option.inner_text()
    option.click()
    lab.wait_for_function("(query) => lab.slots.a.seen === query", arg=to_query(found.state))
    assert found.watch in lab.locator(".lab-watch").inner_text()
    assert lab.locator("input[data-control=n]").input_value() == "40"
    assert lab.evaluate("lab.slots.a.player.run.limit.length > 0")
    assert lab.locator("#stage-a [data-toggle=limit]").get_attribute("aria-pressed") == "true"
    keep(lab, "preset")


def test_a_second_run_is_chosen_and_left(lab):
    chosen(lab, "compare", "mask")
    lab.locator("input[data-control=compare-value]").fill("causal")
    lab.wait_for_function("lab.slots.b && lab.slots.b.seen && lab.slots.b.player.run.causal")
    assert lab.locator("#lab-b-label").inner_text() == "B: mask = causal"
    assert lab.locator("#lab-a-label").inner_text() == "A: mask = full"
    assert lab.locator("#panels").get_attribute("data-of") == "A"
    lab.wait_for_function("location.search.includes('compare=mask')")
    chosen(lab, "compare", "one run")
    lab.wait_for_function("!lab.slots.b && !location.search.includes('compare')")


def test_colour_and_head_stay_while_one_steers(lab):
    chosen(lab, "mask", "causal")
    lab.locator("input[data-control=heads]").fill("3")
    lab.keyboard.press("Enter")
    shown(lab, heads="3")
    lab.locator("[data-look=colour]").select_option("attention")
    lab.locator("[data-look=head]").select_option("2")
    lab.locator("input[data-control=beta]").fill("2.5")
    lab.keyboard.press("Enter")
    shown(lab, beta="2.5")
    assert lab.evaluate("[lab.slots.a.player.scene.look.colour, lab.slots.a.player.head]") == ["attention", 2]
    lab.wait_for_function("location.search.includes('head=2')")
    lab.reload()
    lab.wait_for_function(SEEN)
    assert lab.evaluate("[lab.slots.a.player.scene.look.colour, lab.slots.a.player.head]") == ["attention", 2]
