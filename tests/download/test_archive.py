"""Archives: what is unpacked and what is refused."""

from __future__ import annotations

import hashlib
import io
import lzma
import random
import re
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import download
from bench.download import archive
from bench.utils.errors import UserError
from tests.support.fake_hub import FakeHub
from tests.support.hub_contents import fetch, left_behind, member, tar

# --- word vectors


def zipped(**members: bytes) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return whole.getvalue()


def test_table_of_an_archive(online: FakeHub, cache: Path) -> None:
    online.repositories["a/vectors"] = {
        "all.zip": zipped(glove_300d_txt=b"dog 1 2\n", other_txt=b"x")
    }
    path = download.fetch_words("all.zip", "a/vectors", "glove.300d.txt")
    assert path.read_bytes() == b"dog 1 2\n"
    asked = len(online.requests)
    assert download.fetch_words("all.zip", "a/vectors", "glove.300d.txt") == path
    assert len(online.requests) == asked
    assert left_behind(cache) == sorted(["all.zip", path.name])
    with pytest.raises(UserError, match=r"all\.zip holds no glove\.50d\.txt; delete it and"):
        download.fetch_words("all.zip", "a/vectors", "glove.50d.txt")


@pytest.mark.parametrize("content", [b"no archive", zipped(glove_300d_txt=b"dog 1 2\n" * 99)[:-40]])
def test_damaged_archive_of_tables(content: bytes, online: FakeHub, cache: Path) -> None:
    online.repositories["a/vectors"] = {"all.zip": content}
    with pytest.raises(UserError, match=r"all\.zip cannot be unpacked"):
        download.fetch_words("all.zip", "a/vectors", "glove.300d.txt")
    assert left_behind(cache) == ["all.zip"]


def test_too_large_or_duplicate_table_is_refused(
    online: FakeHub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as both:
        both.writestr("glove.300d.txt", b"dog 1 2\n")
        with pytest.warns(UserWarning, match="Duplicate name"):
            both.writestr("glove.300d.txt", b"dog 3 4\n")
    large = zipped(glove_300d_txt=b"0" * 5000)
    online.repositories["a/vectors"] = {"all.zip": large, "two.zip": whole.getvalue()}
    monkeypatch.setattr(archive, "LARGEST_ARCHIVE", 4999)
    with pytest.raises(UserError, match=r"all\.zip is refused: glove\.300d\.txt unpacks to more"):
        download.fetch_words("all.zip", "a/vectors", "glove.300d.txt")
    with pytest.raises(UserError, match=r"two\.zip is refused: it holds glove\.300d\.txt twice"):
        download.fetch_words("two.zip", "a/vectors", "glove.300d.txt")
    assert left_behind(cache) == ["all.zip", "two.zip"]


def test_table_with_wrong_size_in_its_header_is_refused(online: FakeHub, cache: Path) -> None:
    """Both headers announce too few bytes, so the CRC-32 of what is read differs."""
    content = bytearray(zipped(glove_300d_txt=b"dog 1 2\n" * 1000))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        place = content.index(signature) + offset
        assert int.from_bytes(content[place : place + 4], "little") == 8000
        content[place : place + 4] = (8).to_bytes(4, "little")
    online.repositories["a/vectors"] = {"all.zip": bytes(content)}
    with pytest.raises(UserError, match=r"all\.zip cannot be unpacked \(Bad CRC-32"):
        download.fetch_words("all.zip", "a/vectors", "glove.300d.txt")
    assert left_behind(cache) == ["all.zip"]


# --- the archive


@pytest.mark.parametrize("prefix", ["", "downstream/", "./data/downstream/"])
def test_archive_becomes_a_data_folder(prefix: str, online: FakeHub, cache: Path) -> None:
    files = {"STS/STS12-en-test/a.txt": b"one\n", "SICK/b.txt": b"two\n"}
    packed = {f"{prefix}{name}": content for name, content in files.items()}
    online.repositories[download.DATASET]["senteval.tar"] = tar(packed)
    folder = download.fetch_senteval()
    assert left_behind(folder) == sorted(f"downstream/{name}" for name in files)
    assert all((folder / "downstream" / name).read_bytes() == files[name] for name in files)
    asked = len(online.requests)
    assert download.fetch_senteval() == folder
    assert len(online.requests) == asked


HOSTILE: dict[str, dict[str, bytes | tarfile.TarInfo]] = {
    "parent": {"STS/ok.txt": b"", "../../evil.txt": b"x"},
    "inner parent": {"STS/../../evil.txt": b"x"},
    "absolute": {"/tmp/sentbench-evil.txt": b"x"},
    "backslash": {"..\\evil.txt": b"x"},
    "symbolic link": {"STS/link": member("STS/link", tarfile.SYMTYPE, "/etc/passwd")},
    "link, then through it": {"STS": member("STS", tarfile.SYMTYPE, "/tmp"), "STS/evil.txt": b"x"},
    "hard link": {"STS/link": member("STS/link", tarfile.LNKTYPE, "/etc/passwd")},
    "device": {"STS/null": member("STS/null", tarfile.CHRTYPE)},
    "pipe": {"STS/pipe": member("STS/pipe", tarfile.FIFOTYPE)},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archives_are_refused(
    kind: str, online: FakeHub, cache: Path, tmp_path: Path
) -> None:
    online.repositories[download.DATASET]["senteval.tar"] = tar(HOSTILE[kind])
    with pytest.raises(UserError, match="is refused"):
        download.fetch_senteval()
    assert left_behind(cache) == ["senteval.tar"]  # kept, not unpacked
    assert not list(tmp_path.rglob("*evil*"))
    assert not Path("/tmp/sentbench-evil.txt").exists()


NOISE = {f"STS/{number}": random.Random(number).randbytes(3000) for number in range(9)}
PACKED = lzma.compress(tar(NOISE))
PIECES = ["a", "STS", "/", "..", ".", "\\", "\n", "\0", " ", "é", "\udcff"]


KINDS = [tarfile.REGTYPE, tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE]


@settings(max_examples=60)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), max_size=4), st.data())
def test_archive_stays_in_its_folder(names: list[str], draw: st.DataObject) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as whole:
        for name in names:
            info = tarfile.TarInfo(name)
            info.type = draw.draw(st.sampled_from(KINDS))
            info.linkname = ".." if info.issym() else ""
            whole.addfile(info)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "a.tar").write_bytes(stream.getvalue())
        try:
            archive.unpack(folder / "a.tar", folder / "out")
        except UserError:
            pass
        else:
            assert not any(path.is_symlink() for path in folder.rglob("*"))
        assert {path.name for path in folder.iterdir()} <= {"a.tar", "out"}


@pytest.mark.parametrize(
    "content",
    [
        b"no archive at all",
        b"",
        tar({"STS/a": b"x" * 5000})[:2000],
        PACKED[:9000],
        PACKED[:9000] + b"?" * 3000 + PACKED[12000:],
    ],
)
def test_damaged_archive(content: bytes, online: FakeHub, cache: Path) -> None:
    online.repositories[download.DATASET]["senteval.tar"] = content
    with pytest.raises(UserError, match="cannot be unpacked"):
        download.fetch_senteval()
    assert not list(cache.glob("senteval-*"))


def test_archive_without_senteval(online: FakeHub, cache: Path) -> None:
    online.repositories[download.DATASET]["senteval.tar"] = tar({"readme.txt": b""})
    with pytest.raises(UserError, match="no folder STS/"):
        download.fetch_senteval()
    assert not list(cache.glob("senteval-*"))


# --- limits, disks and leftovers ---


def test_archive_is_refused_at_the_first_excess_member(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(archive, "MOST_MEMBERS", 3)
    many = tar({f"STS/{number}": b"x" for number in range(5)})
    hub.repositories[download.DATASET]["senteval.tar"] = many
    with pytest.raises(UserError, match="more than 3 members"):
        download.fetch_senteval()
    huge = member("STS/a", tarfile.REGTYPE)
    huge.size = archive.LARGEST_ARCHIVE + 1  # by its header alone
    stream = huge.tobuf() + b"\0" * 1024
    (tmp_path / "huge.tar").write_bytes(stream)
    with pytest.raises(UserError, match="unpacks to more than 4 GiB"):
        archive.unpack(tmp_path / "huge.tar", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_full_disk_while_unpacking(
    hub: FakeHub, disk: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.repositories[download.DATASET]["senteval.tar"] = tar({"STS/a.txt": b"x" * (80 << 10)})
    assert fetch(tmp_path, "data", "senteval") == 2
    words = r"no space left on the device for .*/senteval-\w+; free some and start again"
    assert re.search(words, capsys.readouterr().err)
    assert left_behind(tmp_path / "cache") == ["senteval.tar"]
    disk("remount,size=1m")
    assert fetch(tmp_path, "data", "senteval") == 0


def test_leftovers_of_a_killed_unpacking_are_removed(hub: FakeHub, tmp_path: Path) -> None:
    content = hub.repositories[download.DATASET]["senteval.tar"]
    left = tmp_path / "cache" / f".senteval-{hashlib.sha256(content).hexdigest()[:12]}.abc.part"
    (left / "unpacked").mkdir(parents=True)
    (left / "unpacked" / "half.txt").write_text("")
    other = tmp_path / "cache" / ".mine.part"
    other.write_text("")
    folder = download.fetch_senteval()
    assert not left.exists()
    assert other.exists()
    assert (folder / "downstream" / "SICK" / "b.txt").is_file()
