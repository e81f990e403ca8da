"""Whatever is written for a setting, it builds or is refused with a sentence; nothing is run here."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastable.config import Job, build, named
from metastable.config.settings import Simulate, checked
from metastable.errors import InputError

number = st.one_of(st.integers(-3, 5), st.floats(width=16), st.sampled_from(["1", "-2.5", "1e3", "nan", "0x1", ""]))
WORDS = ["goe", "identity", "psd", "cap", "cube", "clusters", "equiangular", "orthogonal", "seed", "angle", "model:"]
MARKS = [",", "@", "*", "(", ")", "=", "[", "]", "[[", "]]", "j", "+", "-", " ", ".npy", ".csv", "/"]
piece = st.one_of(number.map(str), st.sampled_from(WORDS), st.sampled_from(MARKS))
text = st.one_of(st.lists(piece, max_size=7).map("".join), st.text(max_size=8))
matrix = st.one_of(text, number, st.lists(st.lists(number, max_size=3), max_size=3), st.lists(number, max_size=4))

SETTINGS: dict[str, st.SearchStrategy[object]] = {
    "n": st.one_of(st.integers(-1, 6), text),
    "d": st.integers(-1, 4),
    "initial": text,
    "Q": matrix,
    "V": matrix,
    "heads": st.integers(-1, 3),
    "beta": number,
    "mask": st.one_of(st.sampled_from(["full", "causal", "window(1)", "window(-1)"]), text),
    "geometry": st.sampled_from(["sphere", "euclidean", "rescaled", "globe"]),
    "normalise": st.sampled_from(["softmax", "sinkhorn", "hardmax", "max"]),
    "position": st.one_of(st.sampled_from(["alibi", "rotary", "rotary(base=2)"]), text),
    "t": number,
    "dt": number,
    "method": st.sampled_from(["euler", "rk4", "tsit5", "layers", "rk5"]),
    "save": st.one_of(number, st.lists(number, max_size=3), text),
    "until": st.one_of(number, text),
    "seed": st.integers(-1, 2**65),
}
FEW = st.lists(st.sampled_from(sorted(SETTINGS)), unique=True, max_size=4)  # of many, one would always be wrong
told = FEW.flatmap(lambda names: st.fixed_dictionaries({name: SETTINGS[name] for name in names}))


def sentence_or_job(told: dict[str, object]) -> Job | str:
    try:
        return build(checked(Simulate, told))
    except InputError as error:
        return str(error)


@pytest.mark.slow
@settings(max_examples=120)
@given(told)
def test_every_config_builds_or_is_refused(told: dict[str, object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        job = sentence_or_job(told)
    if isinstance(job, str):
        assert job
        assert "\n" not in job
        return
    assert np.isfinite(job.x).all()
    assert job.plan.times[-1] <= job.plan.t + 1e-9
    again = build(checked(Simulate, job.recipe.table))  # the resolved settings tell the same run
    assert again.x.tobytes() == job.x.tobytes()
    assert again.folder == job.folder


@given(text)
def test_names_with_options(words: str) -> None:
    try:
        found = named.parse(words)
    except InputError:
        return
    assert found is None or found.name


@pytest.mark.parametrize("words", ["cap(angle=0.5)", " 2 * goe ", "-0.5*paranormal(multiplicity=2, leading=3)"])
def test_parsing(words: str) -> None:
    found = named.parse(words)
    assert found is not None
    assert found.name in ("cap", "goe", "paranormal")
