"""Archives are opened with suspicion: what is not named is not written, what is odd is refused."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from metastable.errors import InputError
from metastable.models.archives import extract


def make_tar(path: Path, members: dict[str, bytes], link: str | None = None) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        if link:
            info = tarfile.TarInfo(link)
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(info)
    return path


def make_zip(path: Path, members: dict[str, bytes], link: str | None = None) -> Path:
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in members.items():
            wheel.writestr(name, data)
        if link:
            info = zipfile.ZipInfo(link)
            info.external_attr = 0xA1FF << 16
            wheel.writestr(info, "/etc/passwd")
    return path


@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_only_named_members_are_written(tmp_path, make):
    archive = make(tmp_path / "a", {"pkg/one.txt": b"1", "pkg/two.txt": b"2"})
    out = tmp_path / "out"
    out.mkdir()
    extract(archive, {"pkg/one.txt": "one"}, {"one": 10}, out)
    assert [p.name for p in out.iterdir()] == ["one"]
    assert (out / "one").read_bytes() == b"1"


@pytest.mark.parametrize("make", [make_tar, make_zip])
@pytest.mark.parametrize(
    ("member", "sentence"),
    [
        ("../up.txt", "upward path"),
        ("/abs.txt", "absolute"),
        ("a\\b.txt", "upward path"),
        ("gone.txt", "holds no file"),
        ("link.txt", "a link or a folder"),
        ("big.txt", "more than the 5 allowed"),
    ],
)
def test_odd_members_are_refused(tmp_path, make, member, sentence):
    archive = make(tmp_path / "a", {"../up.txt": b"x", "/abs.txt": b"x", "big.txt": b"x" * 9}, link="link.txt")
    with pytest.raises(InputError, match=sentence):
        extract(archive, {member: "x"}, {"x": 5}, tmp_path)
    assert not (tmp_path / "x").exists()


def test_target_names_are_plain(tmp_path):
    archive = make_zip(tmp_path / "a", {"x": b"1"})
    with pytest.raises(InputError, match="plain file name"):
        extract(archive, {"x": "../x"}, {"../x": 5}, tmp_path)


def test_member_of_a_nested_archive(tmp_path):
    inner = make_tar(tmp_path / "inner", {"data/a.txt": b"deep"})
    outer = make_tar(tmp_path / "outer", {"pkg/inner.tar.gz": inner.read_bytes()})
    extract(outer, {"pkg/inner.tar.gz!data/a.txt": "a"}, {"a": 4}, tmp_path)
    assert (tmp_path / "a").read_bytes() == b"deep"
    with pytest.raises(InputError, match="upward path"):
        extract(outer, {"pkg/inner.tar.gz!../a.txt": "a"}, {"a": 4}, tmp_path)


def test_not_an_archive(tmp_path):
    (tmp_path / "a").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="neither a wheel nor a source archive"):
        extract(tmp_path / "a", {"x": "x"}, {"x": 1}, tmp_path)
