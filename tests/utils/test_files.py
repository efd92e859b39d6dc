"""Atomic writes, JSON and checksums."""

import os

import pytest

from bench.utils.errors import UserError
from bench.utils.files import (
    atomic_file,
    atomic_folder,
    read_json,
    slug,
    write_json,
    write_text,
)


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


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    def make():
        with atomic_folder(tmp_path / "made", keep_others=True) as folder:
            write_text(folder / "deep" / "b", "b")

    make()
    make()
    thesis = tmp_path / "made" / "deep" / "thesis.txt"
    thesis.write_text("years")
    with pytest.raises(UserError, match=f"{thesis} was not written by this command and would be"):
        make()
    assert thesis.read_text() == "years"
    assert os.listdir(tmp_path) == ["made"]


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
    with pytest.raises(UserError, match=reason):
        write_text(tmp_path / name, "x")
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
    with pytest.raises(UserError, match=r"x\.json is not a readable JSON file"):
        read_json(path)
