"""Change a module in every small way, run its tests on each change, and list the changes that no test saw.

    python -m tests.mutants --module equation/scores --most 20 --seed 0
    python -m tests.mutants                                             all of TARGETS: hours

Changes are made in a copy of the package, never in the checkout. Survivors are explained in docs/trust.md, or have got
a test. Exit code 1 if there is a survivor that EXPLAINED does not name.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutants.changes import Mutant, mutants

ROOT = Path(__file__).parents[2]
# module -> the tests that must see its mutants, the quickest first
TARGETS: dict[str, list[str]] = {
    "equation/scores": ["tests/equation/test_dynamics.py", "tests/equation/test_model_parts.py"],
    "equation/normalise": ["tests/equation/test_dynamics.py", "tests/equation/test_sinkhorn.py"],
    "equation/masks": ["tests/equation/test_dynamics.py", "tests/equation/test_model_parts.py"],
    "equation/geometry": ["tests/equation/test_dynamics.py", "tests/oracles/test_sphere.py"],
    "equation/attention": ["tests/equation/test_dynamics.py", "tests/equation/test_model_parts.py"],
    "equation/dynamics": ["tests/equation/test_dynamics.py", "tests/oracles/test_sphere.py"],
    "solve/methods": ["tests/solve/test_simulate.py", "tests/oracles/test_sphere.py"],
    "solve/stepping": ["tests/solve/test_simulate.py", "tests/oracles/test_sphere.py"],
    "solve/driver": ["tests/solve/test_simulate.py", "tests/solve/test_defects.py", "tests/store/test_cuts.py"],
    "solve/trust": ["tests/solve/test_defects.py", "tests/oracles/test_euclidean.py"],
    "observables/clusters": ["tests/observables"],
    "observables/energy": ["tests/observables"],
    "observables/leaders": ["tests/observables"],
    "theory/verdicts": ["tests/theory/test_verdicts.py"],
    "theory/intervals": ["tests/theory/test_verdicts.py"],
}
# (module, what was changed) of survivors that change nothing anyone could see
EXPLAINED: set[tuple[str, str]] = set()


def survives(module: str, mutant: Mutant, package: Path, seconds: float) -> bool:
    """Whether all tests of a module pass on a mutant; one that hangs is seen."""
    target = package / "metastable" / f"{module}.py"
    before = target.read_text()
    target.write_text(mutant.source)
    paths = os.pathsep.join((str(package), str(ROOT)))
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *TARGETS[module]]
    try:
        found = subprocess.run(
            words, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, timeout=seconds
        )
        return found.returncode == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        target.write_text(before)


def main(argv: list[str] | None = None) -> int:
    """Make mutants, and list survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--module", choices=list(TARGETS), action="append")
    parser.add_argument("--most", type=int, default=10**9, help="mutants of each module, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0, help="after which a mutant counts as seen")
    given = parser.parse_args(argv)
    tried, left = 0, []
    with tempfile.TemporaryDirectory() as place:
        package = Path(place)
        shutil.copytree(ROOT / "src" / "metastable", package / "metastable")
        for module in given.module or TARGETS:
            every = list(mutants((ROOT / "src" / "metastable" / f"{module}.py").read_text()))
            chosen = random.Random(given.seed).sample(every, min(given.most, len(every)))
            for mutant in sorted(chosen, key=lambda m: m.line):
                alive = survives(module, mutant, package, given.seconds)
                tried += 1
                known = (module, mutant.what) in EXPLAINED
                print(f"{module}:{mutant.line} {mutant.what}: {'SURVIVES' if alive else 'seen'}", flush=True)
                left += [f"{module}:{mutant.line} {mutant.what}"] if alive and not known else []
    print(f"{tried} mutants, {len(left)} survive without an explanation")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
