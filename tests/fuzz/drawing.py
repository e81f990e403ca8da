"""Random values, words and damage. Everything is drawn from one generator, so that a seed and a number are an input."""

import os
import random
from pathlib import Path
from typing import Any

ODD = [
    *(
        "",
        " ",
        "nan",
        "inf",
        "-inf",
        "-0",
        "0",
        "1",
        "-1",
        "2",
        "3.5",
        "1e400",
        "1e-400",
        "0x10",
        "1_0",
        "١",
        "é",
        "\x00",
    ),
    *(
        "None",
        "true",
        "[]",
        "{}",
        "[[1,2],[3]]",
        "../x",
        "/",
        "~",
        "a" * 300,
        "%s",
        "{0}",
        "--",
        "-",
        ",",
        ";",
        "1,",
        ",1",
    ),
    *("999999999999999999999", "-999999999999999999999", "1e9", "1,nan", "1+1j,1-1j", "1+1j", "@", "1@random", "x.npy"),
    *("goe", "goe(", "goe()", "goe(seed=)", "goe(seed=nan)", "goe(d=3)", "0*goe", "1e400*goe", "-goe", "window(-1)"),
    *("window(2)", "window(1e9)", "causal;full", "causal;", "capped(0)", "capped(nan)", "capped(-1)", "cap(angle=9)"),
    *(
        "clusters(count=0)",
        "clusters(count=99)",
        "equiangular(angle=nan)",
        "model:",
        "model:x/head=1",
        "steady",
        "0,0.1",
    ),
]
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        3.5,
        1e308,
        float("nan"),
        float("inf"),
        10**30,
        "",
        "a",
        b"1",
        [],
        [[]],
        {},
        [1.0],
    ),
    *(
        [[1.0, 0.0], [0.0, 1.0]],
        [[1.0], [1.0, 2.0]],
        {"a": 1},
        object(),
        len,
        1j,
        "causal",
        "sphere",
        [None],
        ["a"],
        set(),
    ),
]


def word(rng: random.Random, known: list[str]) -> str:
    """A word: a known one, an odd one, or a known one with a slip."""
    kind = rng.random()
    if kind < 0.35 and known:
        return rng.choice(known)
    if kind < 0.8 or not known:
        return rng.choice(ODD)
    letters = list(rng.choice(known))
    for _ in range(rng.randint(1, 2)):
        letters.insert(rng.randint(0, len(letters)), rng.choice("abz(),=;@-. 09é"))
    return "".join(letters)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Bytes with some flipped, cut out, doubled, or replaced by numbers that headers fear."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        at = rng.randrange(len(found) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del found[at : at + rng.choice((1, 4, 64, 10**6))]
        elif kind == 2:
            found[at:at] = found[at : at + rng.choice((1, 8, 64))]
        elif kind == 3:
            number = rng.choice((0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1))
            found[at : at + 8] = number.to_bytes(8, "little")
        else:
            found[at:at] = rng.randbytes(rng.choice((1, 3, 16)))
    return bytes(found)


def damage_folder(rng: random.Random, folder: Path) -> None:
    """Spoil one or two entries of a folder: their bytes, their kind, their name, their absence."""
    for _ in range(rng.choice((1, 1, 2))):
        entries = sorted(path for path in folder.rglob("*") if path.is_file())
        if not entries:
            return
        path = rng.choice(entries)
        kind = rng.randrange(9)
        if kind < 5:
            path.write_bytes(damaged(rng, path.read_bytes()))
            continue
        path.unlink()
        if kind == 5:
            path.mkdir()
        elif kind == 6:
            os.mkfifo(path)
        elif kind == 7:
            path.symlink_to(rng.choice(("/etc/hostname", "/dev/zero", str(path), "nowhere")))
