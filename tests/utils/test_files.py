"""Atomic writes, JSON and checksums."""

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from bench.utils import files
from bench.utils.errors import TransientError
from bench.utils.files import (
    atomic_file,
    atomic_folder,
    disk_errors,
    inside,
    is_complete,
    read_json,
    sha256_file,
    slug,
    write_json,
    write_text,
)
from bench.utils.validation import FileName
from tests.support.refusals import refused


@pytest.mark.parametrize("name", ["..", "../x", "a/../../x", "/x", "//x"])
def test_names_that_lead_out_of_a_folder_are_refused(name):
    refused(lambda: inside(Path("folder"), name), f"'{name}' leads out of folder")
    for text in (name, name.replace("/", "\\"), ".a", "a\n", ""):
        with pytest.raises(ValidationError):
            TypeAdapter(FileName).validate_python(text)


def test_parts_of_file_names_are_short_and_stay_apart():
    assert slug("is-cse[alpha=0.1]/x") == "is-cse-alpha-0.1-x"
    first, second = (slug(f"cot-bert[template={'said ' * 80}{word}]") for word in ("a", "b"))
    assert first != second
    assert len(first) <= 120


def fail_halfway(path):
    path.write_text("half")
    raise RuntimeError


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError), atomic_file(path) as temporary:
        fail_halfway(temporary)
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == ["file.txt"]


def test_a_failure_leaves_the_old_folder_and_success_replaces_it_whole(tmp_path):
    path = tmp_path / "folder"
    with atomic_folder(path) as temporary:
        (temporary / "a").write_text("old")
    with pytest.raises(RuntimeError), atomic_folder(path) as temporary:
        fail_halfway(temporary / "a")
    assert (path / "a").read_text() == "old"
    with atomic_folder(path) as temporary:
        (temporary / "b").write_text("new")
    assert os.listdir(path) == ["b"]
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("file/x.txt", "File exists; choose a writable folder"),
        (f"{'a' * 300}/x.txt", "File name too long; choose a writable folder"),
        ("folder", "folder is a folder; pass the name of a file"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(tmp_path, name, reason):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    refused(lambda: write_text(tmp_path / name, "x"), reason)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_others_may_read_what_is_written(tmp_path):
    umask = os.umask(0o022)
    try:
        write_text(tmp_path / "file", "")
        with atomic_folder(tmp_path / "folder") as temporary:
            (temporary / "a").touch(mode=0o600)
    finally:
        os.umask(umask)
    modes = {"file": 0o644, "folder": 0o755, "folder/a": 0o644}
    assert {name: (tmp_path / name).stat().st_mode & 0o777 for name in modes} == modes


KILLED = """
import os, signal, sys
from pathlib import Path
from bench.utils import files
writer, path, before, after = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
replace, count = os.replace, 0
def killed(*paths):
    global count
    count += 1
    if count == before:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*paths)
    if count == after:
        os.kill(os.getpid(), signal.SIGKILL)
os.replace = killed
with getattr(files, writer)(path) as temporary:
    (temporary if writer == "atomic_file" else temporary / "a").write_text("new")
"""


@pytest.mark.parametrize(
    ("writer", "before", "after", "is_there"),
    [
        ("atomic_file", 1, 0, True),
        ("atomic_file", 0, 1, True),
        ("atomic_folder", 1, 0, True),
        ("atomic_folder", 0, 1, False),  # the old one is away
        ("atomic_folder", 2, 0, False),
        ("atomic_folder", 0, 2, True),
        ("files_together", 1, 0, True),
        ("files_together", 0, 1, True),
    ],
)
@pytest.mark.parametrize("again", ["write", "look"])
def test_what_a_kill_leaves_is_removed(tmp_path, writer, before, after, is_there, again):
    """The kill comes right before or after a rename; the next process writes, or finds, `path`."""

    def write(text):
        with getattr(files, writer)(path) as temporary:
            (temporary if writer == "atomic_file" else temporary / "a").write_text(text)

    path = tmp_path / "x[1]"
    write("old")
    numbers = [str(before), str(after)]
    process = subprocess.run([sys.executable, "-c", KILLED, writer, str(path), *numbers])
    assert process.returncode == -signal.SIGKILL
    place = path / "files" if writer == "files_together" else path
    assert len([*place.parent.glob(".*")]) == 2
    if again == "write":
        write("newer")
        is_there = writer != "files_together"
    assert is_complete(place) == (is_there and writer != "files_together")
    assert list(tmp_path.rglob(".*")) == []


def test_what_a_living_process_writes_is_left_alone(tmp_path):
    path = tmp_path / "x"
    with atomic_file(path) as first:
        first.write_text("first")
        write_text(path, "second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_refusal_that_loses_content_is_an_error(tmp_path, monkeypatch, number):
    def refuse(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises((OSError, TransientError), match=f"{tmp_path}/x"):
        write_text(tmp_path / "x", "")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ESTALE, "Stale"), RuntimeError("mapping failed: Stale (os error 116)")],
)
def test_an_error_without_a_path_gets_one(error):
    with pytest.raises(OSError, match="file handle: 'log'") as caught, disk_errors(Path("log")):
        raise error
    assert caught.value.filename == "log"


def test_an_array_that_the_disk_cannot_hold_is_one_sentence(tmp_path):
    full = pytest.raises(TransientError, match="no space left on the device for x")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with full, disk_errors(Path("x")):
            np.save(tmp_path / "x.npy", np.zeros(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_error_names_its_own_path(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"), disk_errors(Path("other")):
        sha256_file(tmp_path / "gone")


def test_json_round_trip_and_no_nan(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"é": [1.5, None, True]})
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, float("nan"))
    assert read_json(path) == {"é": [1.5, None, True]}


@pytest.mark.parametrize("content", [b"{", b"\xff", b""])
def test_what_is_no_json_is_one_sentence(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    refused(lambda: read_json(path), "x.json is not a readable JSON file")
