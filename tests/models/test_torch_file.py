"""Files of torch read without torch: the same tensors, and nothing else whatever the file says."""

import io
import pickle
import struct
import tracemalloc
import zipfile
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from metastable.errors import InputError
from metastable.models import zoo
from metastable.models.torch_file import read

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
ALTERED = "truncated or altered"
REFUSED = "so it is not read"


def saved(path: Path, value: Any, newer: bool = False) -> Path:
    torch.save(value, path, _use_new_zipfile_serialization=newer)
    return path


def agrees(found: np.ndarray, tensor: torch.Tensor) -> None:
    expected = tensor.float() if tensor.dtype is torch.bfloat16 else tensor
    assert found.shape == tuple(tensor.shape)
    assert found.dtype.name == str(tensor.dtype).removeprefix("torch.")
    np.testing.assert_array_equal(found.astype(expected.numpy().dtype), expected.numpy())


def tensors() -> dict[str, torch.Tensor]:
    base = torch.arange(60, dtype=torch.float32)
    return {
        "plain": base.reshape(3, 4, 5),
        "transposed": base.reshape(3, 4, 5).permute(2, 0, 1),
        "slice": base[7:31:3],
        "inner": base.reshape(6, 10)[1:4, 2:9:2],
        "overlapping": base.as_strided((5, 4), (2, 3), 1),
        "expanded": base[3:4].expand(7),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "empty": torch.zeros(0, 3),
        "alone": torch.randn(2, 3, dtype=torch.float64),
    }


@pytest.mark.parametrize("newer", [False, True])
def test_strides_offsets_and_shared_storages(tmp_path: Path, newer: bool) -> None:
    given = tensors()
    found = read(saved(tmp_path / "t.bin", given, newer))
    assert list(found) == list(given)
    for name, tensor in given.items():
        agrees(found[name], tensor)
        assert not found[name].flags.writeable


@pytest.mark.parametrize("newer", [False, True])
def test_every_kind_of_number(tmp_path: Path, newer: bool) -> None:
    words = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128"
    given = OrderedDict((word, (3 * torch.randn(3, 4)).to(getattr(torch, word))) for word in words.split())
    given["bits"] = torch.tensor([np.nan, np.inf, -0.0, 1e-45])
    found = read(saved(tmp_path / "t.bin", given, newer))
    for name, tensor in given.items():
        agrees(found[name], tensor)


def test_module_with_versions_and_tied_weights(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4))
    module[2].weight = module[0].weight
    state = module.state_dict()
    found = read(saved(tmp_path / "t.bin", state))
    assert list(found) == list(state)
    for name, tensor in state.items():
        agrees(found[name], tensor)
    assert np.shares_memory(found["0.weight"], found["2.weight"])


@pytest.mark.parametrize("name", ["reactions-albert", "reactions-bert"])
def test_real_files(name: str) -> None:
    if not zoo.home(name).is_dir():
        pytest.skip(f"{name} is not in the cache")
    path = zoo.fetch(name) / "pytorch_model.bin"
    expected = torch.load(path, weights_only=True, map_location="cpu")
    found = read(path)
    assert list(found) == list(expected)
    for key, tensor in expected.items():
        agrees(found[key], tensor)


# --- hostile files ------------------------------------------------------------------------------------------------


class Call:
    """Pickled as a call of ``function``."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.how = (function, arguments)

    def __reduce__(self) -> Any:
        return self.how


class Storage:
    """Pickled as the persistent identity of a storage."""

    def __init__(self, key: Any = "0", length: Any = 4, kind: Any = torch.FloatStorage, view: Any = None) -> None:
        self.identity = ("storage", kind, key, "cpu", length, view)


class Writer(pickle._Pickler):
    def persistent_id(self, value: Any) -> Any:
        return value.identity if isinstance(value, Storage) else None


def pickled(value: Any) -> bytes:
    out = io.BytesIO()
    Writer(out, 2).dump(value)
    return out.getvalue()


def older(
    path: Path, value: Any, keys: Any = ("0",), length: int = 4, numbers: bytes = bytes(16), **system: Any
) -> Path:
    """A file of the older format with whatever inside; ``value`` may be a finished pickle."""
    facts = {"protocol_version": PROTOCOL, "little_endian": True} | system
    inner = value if isinstance(value, bytes) else pickled(value)
    parts = [pickled(MAGIC), pickled(PROTOCOL), pickled(facts), inner, pickled(list(keys))]
    path.write_bytes(b"".join(parts) + struct.pack("<q", length) + numbers)
    return path


def tensor(offset: Any = 0, size: Any = (4,), stride: Any = (1,), storage: Storage | None = None) -> Call:
    rebuild = torch._utils._rebuild_tensor_v2
    return Call(rebuild, storage or Storage(), offset, size, stride, False, OrderedDict())


def refused(path: Path, sentence: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=sentence) as error:
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 250
    assert peak < 10 * path.stat().st_size + 200_000


def test_the_test_writes_what_torch_writes(tmp_path: Path) -> None:
    path = older(tmp_path / "t.bin", {"w": tensor(1, (2,), (2,))}, numbers=struct.pack("<4f", 1, 2, 3, 4))
    np.testing.assert_array_equal(read(path)["w"], [2.0, 4.0])
    assert torch.load(path, weights_only=True)["w"].tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    "value",
    [
        Call(print, "code was run"),
        {"w": Call(print, "code was run")},
        {"w": Call(eval, "print('code was run')")},
        {"w": Call(getattr, torch.Tensor, "numpy")},
        {"w": Call(torch.load, "/etc/passwd")},
        {"w": Call(torch._utils._rebuild_tensor, Storage(), 0, (4,), (1,))},
        {"w": Call(OrderedDict, [("a", 1)])},
        {"w": torch.nn.Linear},
        {"w": np.zeros(3)},
        {"w": np.float64},
        {"w": 3},
        {"w": {"deeper": tensor()}},
        {(1, 2): tensor()},
        [tensor()],
        3,
    ],
    ids=lambda value: "",
)
def test_other_things_are_refused(tmp_path: Path, value: Any, capsys: pytest.CaptureFixture[str]) -> None:
    refused(older(tmp_path / "t.bin", value), f"{REFUSED}|{ALTERED}")
    assert "code was run" not in capsys.readouterr().out


@pytest.mark.parametrize("newer", [True, False])
def test_numbers_marked_as_negative_are_refused(tmp_path: Path, newer: bool) -> None:
    """Torch stores a lazy negative as its numbers with a mark, which was passed over: signs were wrong."""
    path = tmp_path / "t.bin"
    for tensor in (torch.ones(3)._neg_view(), torch.ones(3, dtype=torch.complex64).conj()):
        torch.save({"w": tensor}, path, _use_new_zipfile_serialization=newer)
        refused(path, "marks a tensor as the negative or the conjugate")


def test_a_name_may_not_be_called_as_another(tmp_path: Path) -> None:
    """An allowed name on the stack is a word here: calling, building or looking into it gives nothing."""
    name = b"ctorch._utils\n_rebuild_tensor_v2\n"
    odd = {
        "storage called": b"ctorch\nFloatStorage\n(K\x03tR",
        "built": name + b"}(X\x08\x00\x00\x00__code__K\x01ub",
        "called on nothing": name + b"(tR",
        "called on words": name + b"(X\x01\x00\x00\x00aK\x00K\x00K\x00tR",
        "new object": b"ccollections\nOrderedDict\n)\x81",
        "extension": b"\x82\x01",
        "instance": b"(iposix\nsystem\n",
        "stack global": b"X\x05\x00\x00\x00posixX\x06\x00\x00\x00system\x93",
        "huge memo": b"Nr\xff\xff\xff\xff",
        "huge word": b"X\xff\xff\xff\xff",
        "huge bytes": b"\x96\xff\xff\xff\xff\xff\xff\xff\x7f",
        "huge whole number": b"\x8b\xff\xff\xff\x7f",
        "get before put": b"h\x05",
        "tuple without a mark": b"t",
        "nothing at all": b"",
        "pop": b"0",
    }
    for what, code in odd.items():
        path = older(tmp_path / "t.bin", b"\x80\x02" + code + b".")
        with pytest.raises(InputError, match=f"{REFUSED}|{ALTERED}"):
            read(path)
        assert path.exists(), what


def test_nested_references_cost_nothing(tmp_path: Path) -> None:
    """Sixty pairs of pairs: their text, their hash and their comparison would take for ever."""
    pairs = b"".join(b"h%ch%c\x86q%c" % (k, k, k + 1) for k in range(60))
    begin = b"\x80\x02(K\x01K\x02tq\x00"
    for code in (b".", b"}h\x3cK\x01s.", b"Q.", b"(h\x3cNh\x3ch\x3ch\x3ctQ."):
        refused(older(tmp_path / "t.bin", begin + pairs + code), f"{REFUSED}|{ALTERED}")


BIG = 2**62


@pytest.mark.parametrize(
    "wrong",
    [
        {"offset": -1},
        {"offset": 1},
        {"offset": BIG},
        {"offset": True},
        {"offset": "0"},
        {"offset": 0.0},
        {"size": (5,)},
        {"size": (-1,)},
        {"size": (BIG,)},
        {"size": (4, 1)},
        {"size": (2, 2), "stride": (1, 3)},
        {"size": (2,), "stride": (-1,), "offset": 3},
        {"size": (2,), "stride": (BIG,)},
        {"size": (1,) * 65, "stride": (1,) * 65},
        {"size": "4"},
        {"size": None},
        {"size": (4.0,)},
        {"size": {4: 1}, "stride": {1: 1}},
    ],
    ids=str,
)
def test_tensors_that_reach_too_far(tmp_path: Path, wrong: dict[str, Any]) -> None:
    refused(older(tmp_path / "t.bin", {"w": tensor(**wrong)}), ALTERED)


@pytest.mark.parametrize("size", [(BIG,), (2**20, 2**20), (100_000,)])
def test_one_number_blown_up(tmp_path: Path, size: tuple[int, ...]) -> None:
    refused(older(tmp_path / "t.bin", {"w": tensor(0, size, (0,) * len(size))}), "larger than the file")


@pytest.mark.parametrize(
    ("storage", "rest"),
    [
        (Storage(length=BIG), {"length": BIG}),
        (Storage(length=5), {"length": 5}),
        (Storage(length=3), {}),
        (Storage(length=-4), {"length": -4}),
        (Storage(length="4"), {}),
        (Storage(key="1"), {}),
        (Storage(key=0), {"keys": [0]}),
        (Storage(key=(1, 2)), {"keys": [(1, 2)]}),
        (Storage(), {"keys": ["0", "0"]}),
        (Storage(), {"keys": ["0", "1"]}),
        (Storage(), {"keys": []}),
        (Storage(view=("1", 0, 4)), {}),
        (Storage(kind="FloatStorage"), {}),
        (Storage(kind=OrderedDict), {}),
        (Storage(), {"length": -1}),
        (Storage(), {"numbers": bytes(15)}),
    ],
)
def test_storages_that_do_not_fit(tmp_path: Path, storage: Storage, rest: dict[str, Any]) -> None:
    refused(older(tmp_path / "t.bin", {"w": tensor(storage=storage)}, **rest), ALTERED)


def test_one_storage_of_two_kinds(tmp_path: Path) -> None:
    both = {"a": tensor(), "b": tensor(storage=Storage(kind=torch.DoubleStorage))}
    refused(older(tmp_path / "t.bin", both), ALTERED)


def test_other_machines_and_other_files(tmp_path: Path) -> None:
    refused(older(tmp_path / "t.bin", {"w": tensor()}, little_endian=False), "big-endian")
    for data in (b"", b"\x80", b"not a torch file", pickled(MAGIC), pickled(3), pickled(MAGIC) + pickled(7), bytes(99)):
        (tmp_path / "t.bin").write_bytes(data)
        refused(tmp_path / "t.bin", f"{ALTERED}|{REFUSED}")


def zipped(path: Path, value: Any, numbers: bytes = bytes(16), kind: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr("a/data.pkl", pickled(value))
        archive.writestr("a/data/0", numbers)
    return path


def test_hostile_archives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.bin"
    assert read(zipped(path, {"w": tensor()}))["w"].tolist() == [0.0] * 4
    refused(zipped(path, {"w": tensor()}, bytes(15)), ALTERED)
    refused(zipped(path, {"w": tensor(storage=Storage(key="../data.pkl"))}), ALTERED)
    refused(zipped(path, {"w": tensor(storage=Storage(length=BIG))}), ALTERED)
    refused(zipped(path, {"w": tensor()}, bytes(16), zipfile.ZIP_DEFLATED), "compressed")
    refused(zipped(path, {"w": Call(print, "code was run")}), REFUSED)
    assert "code was run" not in capsys.readouterr().out


@pytest.mark.parametrize("newer", [False, True])
def test_truncated_anywhere(tmp_path: Path, newer: bool) -> None:
    path = saved(tmp_path / "t.bin", {"a": torch.arange(3.0), "b": torch.ones(2, 2)}, newer)
    data = path.read_bytes()
    for size in range(0, len(data), 1 if not newer else 7):
        path.write_bytes(data[:size])
        with pytest.raises(InputError, match=f"{ALTERED}|{REFUSED}"):
            read(path)


@pytest.mark.parametrize("newer", [False, True])
def test_flipped_bits(tmp_path: Path, newer: bool) -> None:
    """A flipped bit gives tensors or one sentence, never anything else."""
    path = saved(tmp_path / "t.bin", {"a": torch.arange(3.0), "b": torch.ones(2, 2)}, newer)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, 8 * len(data), 400):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << (place % 8)
        path.write_bytes(flipped)
        with suppress(InputError):
            assert all(array.size < 1000 for array in read(path).values())
