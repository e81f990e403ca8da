"""The pictures of README and gallery page, drawn from records: ``python docs/make_pictures.py``.

Records are made where they are missing, by the commands that the gallery prints under each picture.
"""

import shlex
import sys
from pathlib import Path

import metastable as ms
from metastable.cli import main

HERE = Path(__file__).parent
RECORDS, PICTURES = HERE / "_build" / "records", HERE / "pictures"

# picture -> (settings of `metastable simulate`, options of `Trajectory.plot`)
GALLERY = {
    "hero": (
        "--mask causal --beta 9 --seed 3",
        {"times": [0.0, 1.0, 4.0, 15.0], "color": "final"},
    ),
    "one-cluster": ("", {"times": [0.0, 3.0, 6.0, 12.0]}),
    "clusters-left": ("--mask causal --beta 9 --seed 3", {"kind": "series", "observable": "clusters"}),
    "spiral": ("--V 1,0.5+2j,0.5-2j --beta 4 --t 3", {"kind": "trajectories"}),
    "repulsion": ("--d 2 --V=-1 --n 24", {"times": [0.0, 1.0, 5.0, 15.0]}),
    "hyperplanes": (
        "--geometry rescaled --V 1,-0.5 --d 2 --n 40 --t 8",
        {"kind": "hyperplanes"},
    ),
    "polytope": ("--geometry rescaled --d 2 --n 40 --t 8 --seed 2", {"kind": "polytope", "times": [0.0, 1.0, 8.0]}),
    "attention": ("--mask causal --beta 9 --seed 3 --n 32", {"kind": "attention", "times": [0.0, 2.0, 15.0]}),
}


def command(flags: str, record: Path) -> list[str]:
    """The words of the command that makes a record."""
    return ["simulate", *shlex.split(flags), "--out", str(record), "--no-pictures", "--quiet"]


def draw(name: str) -> Path:
    """One picture from its record."""
    flags, looks = GALLERY[name]
    record = RECORDS / name
    code = main(command(flags, record))
    if code:
        sys.exit(code)
    target = PICTURES / f"{name}.png"
    ms.load(record).plot(target, **looks)
    return target


def draw_density() -> Path:
    """The picture of `laws.md`: a density on the circle, and a hundred tokens drawn from its first law."""
    dyn = ms.Dynamics(beta=4.0)
    law = ms.density(dyn, lambda x: 1.0 + 0.3 * x[:, 0] + 0.3 * x[:, 0] * x[:, 1], t=6.0, most=256)
    run = ms.simulate(dyn, law.sample(100, seed=1), t=float(law.t[-1]))
    law.plot(PICTURES / "density.png", tokens=run)
    return PICTURES / "density.png"


if __name__ == "__main__":
    for chosen in sys.argv[1:] or [*GALLERY, "density"]:
        print(draw_density() if chosen == "density" else draw(chosen))
