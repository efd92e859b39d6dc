"""Registered reproductions: the file of the project, and entries that are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from bench.reported.reproductions import reproductions
from bench.utils.errors import UserError

POLICY = (Path(__file__).parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"^```yaml\n(.*?)^```$", POLICY, re.DOTALL | re.MULTILINE)
(NUMBER,) = yaml.safe_load(EXAMPLE)[0]["numbers"]


def written(folder: Path, text: str) -> Path:
    (folder / "reproductions.yaml").write_text(text, encoding="utf-8")
    return folder / "reproductions.yaml"


def test_the_projects_file_is_valid() -> None:
    """Entries without a source would be invented ones."""
    assert all(entry.url.startswith("https://") for entry in reproductions())


def test_the_example_of_the_policy_is_an_entry(tmp_path: Path) -> None:
    (entry,) = reproductions(written(tmp_path, EXAMPLE))
    assert entry.numbers == {NUMBER: [76.1, 75.8, 76.4]}
    assert (entry.date, entry.url) == ("2026-11-23", "https://example.org/our-runs")
    without = "".join(line for line in EXAMPLE.splitlines(True) if "note:" not in line)
    assert reproductions(written(tmp_path, without))[0].note == ""


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"url": "http://example.org"}, r"entry 1 'url': 'http://example.org' does not match"),
        ({"url": "javascript:alert(1)"}, "entry 1 'url': 'javascript"),
        ({"date": "yesterday"}, "entry 1 'date': 'yesterday' does not match"),
        ({"by": " "}, "entry 1 'by': ' ' does not match"),
        ({"numbers": {}}, "entry 1 'numbers': {} "),
        ({"numbers": {NUMBER: []}}, "entry 1 'numbers' .*: \\[\\] "),
        ({"numbers": {NUMBER: ["76.1"]}}, "'76.1' is not of type 'number'"),
        ({"numbers": {NUMBER: [float("nan")]}}, "a score is no finite number"),
        ({"numbers": {NUMBER.replace("avg", "avrg"): [76.1]}}, f"did you mean '{NUMBER}'"),
        ({"numbers": {"is-cse/table-2/x": [1]}}, "'is-cse/table-2/x' is not the address of a"),
        ({"colour": "red"}, "entry 1: Additional properties .*'colour' was unexpected"),
        ({"code": None}, "entry 1 'code': None is not of type 'string'"),
    ],
)
def test_what_is_no_entry_is_refused(
    tmp_path: Path, change: dict[str, object], sentence: str
) -> None:
    entries = [yaml.safe_load(EXAMPLE)[0] | change]
    with pytest.raises(UserError, match=rf"^reproductions.yaml, .*{sentence}"):
        reproductions(written(tmp_path, yaml.safe_dump(entries)))


@pytest.mark.parametrize("text", ["", "by: me", "- by: me", "- [", "- ?"])
def test_what_is_no_list_of_entries_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"reproductions.yaml"):
        reproductions(written(tmp_path, text))
