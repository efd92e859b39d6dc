"""The page: everything in one file, escaped, and nothing fetched."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from synthetic_suite import seeds, write_suite

from bench.compare import cells, read_suite
from bench.errors import UserError
from bench.figures import figure_stems
from bench.files import write_text
from bench.page import render_page
from bench.records import STS_TASKS
from bench.tables import render_tables

NASTY = '"><script>alert(1)</script>'
VOID = {"meta", "img", "link", "br"}


class Outline(HTMLParser):
    """Checks that tags close in order, and collects ids, links, sources and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.stack.append(tag)
        for name, value in attrs:
            {"id": self.ids, "href": self.links, "src": self.sources}.get(name, []).append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> tuple[Path, Outline]:
    root = tmp_path_factory.mktemp("project")
    suite, figures, out = root / "results" / "s", root / "figures" / "s", root / "results" / "s" / "report"
    rows = [dict.fromkeys(STS_TASKS, value) for value in (75.0, 75.5, 76.0, 76.5, 77.0)]
    bad = {"method": "is-cse", "seed": 1, "status": "diverged", "reason": NASTY}
    write_suite(suite, [*seeds("simcse", rows, label=f"SimCSE {NASTY}"), bad], name="s")
    render_tables(suite, suite / "tables")
    for stem in ("leaderboard", *figure_stems(cells(read_suite(suite)))):
        write_text(figures / f"{stem}.png", "a picture")
    render_page(suite, figures, out)
    return out, Outline((out / "index.html").read_text(encoding="utf-8"))


def test_foreign_text_is_text(page):
    _, outline = page
    assert "script" not in outline.tags
    assert f"SimCSE {NASTY}" in outline.text
    assert f"1 diverged: {NASTY}" in outline.text


def test_nothing_is_fetched_and_every_link_leads_somewhere(page):
    out, outline = page
    assert len(outline.sources) == 9
    assert all(source.startswith("data:image/png;base64,") for source in outline.sources)
    assert "http" not in re.sub(r"base64,[^\"]*", "", (out / "index.html").read_text())
    for link in outline.links:
        if link.startswith("#"):
            assert link[1:] in outline.ids
        else:
            assert (out / link).is_file(), link


def test_verdicts_are_words_with_signs_and_counts(page):
    out, outline = page
    counts = cells(read_suite(out.parent))["verdict"].value_counts()
    rows = re.findall(r"<td>(\S) ([a-z ]+)</td><td class=\"number\">(\d+)</td>", (out / "index.html").read_text())
    assert {kind: int(count) for _, kind, count in rows} == {kind: counts.get(kind, 0) for _, kind, _ in rows}
    assert len(rows) == 8
    assert "≈ consistent" in outline.text or "= reproduced" in outline.text


def test_measured_tables_come_first_and_open(page):
    out, outline = page
    sections = re.findall(r'<details id="([^"]+)"( open)?>', (out / "index.html").read_text())
    flags = [bool(opened) for _, opened in sections]
    assert flags == sorted(flags, reverse=True)
    assert ("sscl_table-2", " open") in sections
    assert ("sscl_table-4", "") in sections
    assert len(sections) == len(set(outline.ids)) - 4


def test_provenance_is_shown(page):
    _, outline = page
    for text in ("version 0.1.0", "name senteval", "cpu", "5 finished", "1 diverged"):
        assert text in outline.text


def test_a_missing_figure_is_named(page, tmp_path):
    out, _ = page
    with pytest.raises(UserError, match=r"\.png does not exist; render the figures"):
        render_page(out.parent, tmp_path, tmp_path / "report")
    assert not (tmp_path / "report").exists()
