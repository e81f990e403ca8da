"""Small experiments without JAX; what each of them really did is appended to the file named by FAKE_LOG."""

import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.experiments.base import Data, Experiment, Finding, Work
from metastable.theory.verdicts import Verdict, judge_share
from metastable.trajectory import Trajectory


@dataclass(frozen=True)
class Params:
    instances: int = 6
    seed: int = 0
    chunk: int = 2
    pause: float = 0.0
    crash: bool = False
    holds: bool = True
    kill_at: int = -1
    mistake: float = 0.0


def log(text: str) -> None:
    with open(os.environ["FAKE_LOG"], "a") as file:
        file.write(text + "\n")


def make(name: str, **defaults: Any) -> Experiment:
    def run(params: Params, work: Work) -> Data:
        def chunk(first: int, last: int) -> Data:
            log(f"{name} {first}")
            time.sleep(params.pause)
            if params.crash:
                raise RuntimeError("the lamp went out\nand more")
            if first == params.kill_at:
                os.kill(os.getpid(), 9)
            return {"seed": params.seed + np.arange(first, last)}

        return work.parts("part", params.instances, params.chunk, chunk)

    def judge(params: Params, data: Data) -> list[Verdict]:
        good = [params.holds or seed != params.seed + 1 for seed in data["seed"].tolist()]
        seeds = data["seed"].tolist()
        return [judge_share(f'{name} <holds> & is "quoted"', "Theorem 0", good, seeds=seeds, exact=True)]

    def draw(params: Params, data: Data) -> dict[str, Any]:
        from metastable.plots import series
        from metastable.plots.style import captioned

        drawn = series(np.arange(len(data["seed"])), data["seed"].astype(float))
        return {"Seeds in order": captioned(drawn, f"Seeds from {params.seed} on.")}

    def films(params: Params, data: Data) -> dict[str, Any]:
        angle = np.linspace(0, 1, 5)[:, None] + np.arange(4)
        circle = np.stack([np.cos(angle), np.sin(angle)], -1)  # (T, n, 2)
        return {"Turning": {"tokens": Trajectory(np.arange(5.0), circle), "frames": 5, "size": (64, 64)}}

    def check(params: Params) -> dict[str, Any]:
        return {"two and two": (2 + 2 + params.mistake, 4, 1e-9)}

    def finding(params: Params, data: Data) -> Finding:
        return Finding("Seeds are claimed to grow.", f"The last is {data['seed'][-1]}.", "Seeds in order")

    quick = {"instances": 4, **defaults}
    text = "First.\n\nSecond."
    about = (f"Fake {name}", "nowhere", "Fig. 0")
    return Experiment(name, *about, Params, run, judge, draw, quick, {"instances": 8}, films, text, check, finding)
