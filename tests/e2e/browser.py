"""A real browser for the tests: Debian's Chromium, in software, that may talk to no other host."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = os.environ.get("METASTABLE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
ARGS = ["--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
ALLOWED = ("file:", "data:", "blob:", "about:", "http://127.0.0.1:", "ws://127.0.0.1:")
SHOTS = os.environ.get("METASTABLE_SHOTS")  # a folder to keep screenshots in


def needed():
    if not CHROMIUM:
        pytest.skip("no Chromium on this machine")
    return pytest.importorskip("playwright.sync_api")


@contextmanager
def chromium():
    with needed().sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(browser, width=1280, height=860, **options):
    """A page; at the end no error was thrown, and no other host was asked for anything."""
    # a page's policy forbids eval, by which Playwright polls a condition: it is set aside here
    context = browser.new_context(viewport={"width": width, "height": height}, bypass_csp=True, **options)
    page = context.new_page()
    page.strangers, page.faults = [], []
    context.on("request", lambda r: r.url.startswith(ALLOWED) or page.strangers.append(r.url))
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    try:
        yield page
        assert not page.strangers
        assert not page.faults
    finally:
        context.close()


def keep(page, name):
    """A screenshot, where they are collected."""
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"))
