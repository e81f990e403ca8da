"""The player against a bare WebGL loop of points, and the way from a slider to the picture.

Both draw without multisampling, which costs a software renderer half a frame: the loop is as quick as it can be.
"""

import atexit
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import OURS, Absent, Case, Engine, Goal, Outcome, Run, Workload

SIZE = {"width": 900, "height": 700}
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--js-flags=--expose-gc",
]
COUNT = """(seconds) => new Promise((done) => {
  let frames = 0; const began = performance.now();
  go(true); // a page that is not being timed stands still: it must not take time from the other
  const next = (now) => {
    frames += 1;
    if (now - began < 1000 * seconds) requestAnimationFrame(next);
    else { go(false); done((now - began) / frames); }
  };
  requestAnimationFrame(next);
})"""
BARE = """<!doctype html><body style="margin:0"><canvas style="width:900px;height:610px"></canvas><script>
const canvas = document.querySelector("canvas"), n = %d, size = %f;
canvas.width = 900; canvas.height = 610;
const gl = canvas.getContext("webgl2", { antialias: false, alpha: true });
const make = (kind, text) => {
  const s = gl.createShader(kind); gl.shaderSource(s, text); gl.compileShader(s); return s;
};
const program = gl.createProgram();
gl.attachShader(program, make(gl.VERTEX_SHADER, `#version 300 es
layout(location = 0) in vec2 p; uniform float turn; void main() { float c = cos(turn), s = sin(turn);
gl_Position = vec4(mat2(c, s, -s, c) * p, 0.0, 1.0); gl_PointSize = ${size.toFixed(2)}; }`));
gl.attachShader(program, make(gl.FRAGMENT_SHADER, `#version 300 es
precision highp float; out vec4 c;
void main() { if (length(gl_PointCoord - 0.5) > 0.5) discard; c = vec4(0.0, 0.45, 0.7, 1.0); }`));
gl.linkProgram(program); gl.useProgram(program);
const points = Float32Array.from({ length: 2 * n }, () => 1.6 * Math.random() - 0.8);
gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer()); gl.bufferData(gl.ARRAY_BUFFER, points, gl.STATIC_DRAW);
gl.enableVertexAttribArray(0); gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
const loop = (now) => { gl.uniform1f(gl.getUniformLocation(program, "turn"), now / 5000);
  gl.clearColor(0, 0, 0, 0); gl.clear(gl.COLOR_BUFFER_BIT);
  gl.drawArrays(gl.POINTS, 0, n); if (window.on) requestAnimationFrame(loop); };
window.go = (on) => { window.on = on; if (on) requestAnimationFrame(loop); };
</script>"""
TIMED = """() => { window.took = []; window.since = 0;
  addEventListener("pointermove", () => { window.since ||= performance.now(); }, true);
  const { player } = lab.slots.a; let fresh = false;
  player.on("load", () => { fresh = true; });
  player.on("frame", () => { if (fresh && window.since) took.push(performance.now() - window.since); fresh = false; });
}"""


def cases(quick: bool) -> list[Case]:
    frames = [Case(f"n = {n}", {"n": n, "seconds": 1 if quick else 3}) for n in (64, 2000, 10_000)]
    return [*frames, Case("slider", {"n": 64, "moves": 12})]


@cache
def browser() -> Any:
    """Chromium, in software, one for this process."""
    found = os.environ.get("METASTABLE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        raise Absent("there is no Chromium here")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise Absent("playwright is not installed") from error
    return sync_playwright().start().chromium.launch(executable_path=found, args=ARGS)


def exported(n: int) -> str:
    """The address of an exported run of n tokens on the sphere."""
    import metastable as ms

    rng = np.random.default_rng(0)
    x = rng.standard_normal((21, n, 3))
    folder = Path(tempfile.mkdtemp(prefix="metastable-benchmark-"))
    unit = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return ms.Trajectory(np.arange(21.0), unit).export(folder / "run.html", theme="light", play=False).as_uri()


def bare(case: Case) -> Run:
    page = browser().new_page(viewport=SIZE)
    dot = min(15.0, max(3.0, 610 / 30 * (64 / max(case["n"], 24)) ** 0.36))  # as large as the player draws them
    page.set_content(BARE % (case["n"], dot))
    return lambda: Outcome(np.empty(0), seconds=page.evaluate(COUNT, case["seconds"]) / 1000)


def player(case: Case) -> Run:
    if case.key == "slider":
        return slider(case)
    page = browser().new_page(viewport=SIZE)
    page.goto(exported(case["n"]))
    page.wait_for_function("window.player && player.run")
    page.evaluate("player.options.loop = true; window.go = (on) => (on ? player.play() : player.pause())")
    return lambda: Outcome(np.empty(0), seconds=page.evaluate(COUNT, case["seconds"]) / 1000)


def slider(case: Case) -> Run:
    """The median time from a move of the slider of beta to the frame that shows its run."""
    address = served()
    page = browser().new_page(viewport={"width": 1280, "height": 860})
    page.set_default_timeout(120_000)
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{address}/?n={case['n']}&at=0.5")
    page.wait_for_function("window.lab && lab.slots.a.seen !== null")
    page.evaluate(TIMED)
    box = page.locator("[data-slider=beta]").bounding_box()
    x, y = box["x"] + 100, box["y"] + box["height"] / 2

    page.mouse.move(x, y)
    page.mouse.down()  # for good: where it is pressed again is no move that can be told from the next

    def run() -> Outcome:
        found = []
        for k in range(case["moves"]):
            page.wait_for_function("lab.slots.a.seen === lab.slots.a.wanted")
            page.evaluate("window.since = 0, took.length = 0")
            page.mouse.move(x + 12 * (k + 1), y)  # 3 pixels may be no new value
            page.wait_for_function("took.length > 0")
            found.append(page.evaluate("took[0]"))
        return Outcome(np.empty(0), seconds=statistics.median(found) / 1000)

    return run


@cache
def served() -> str:
    """The address of an explorer of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "metastable", "explore", tempfile.mkdtemp(), "--port", str(port), "--no-show"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(process.kill)
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/assets/lab.css", timeout=5)
            return f"http://127.0.0.1:{port}"
        except OSError:
            time.sleep(0.2)
    raise Absent("the explorer did not start; it needs the extra explore")


def rate(n: int) -> Any:
    return lambda table: table.seconds(f"n = {n}", "bare loop") / table.seconds(f"n = {n}", OURS)


WORKLOAD = Workload(
    title="explorer: seconds per frame, from slider to picture",
    cases=cases,
    tolerance=0.0,
    note="Chromium in software. There are no answers to compare.",
    engines={
        "bare loop": Engine(bare, "WebGL points, nothing else", only=("n = 64", "n = 2000", "n = 10000")),
        OURS: Engine(player, "the player"),
    },
    goals=(
        *(Goal(f"frame rate of the bare loop, n = {n}", rate(n), 0.8) for n in (64, 2000, 10_000)),
        Goal("slider to picture, n = 64", lambda t: t.seconds("slider", OURS), 0.1, False, " s"),
    ),
    has_before=False,
)
