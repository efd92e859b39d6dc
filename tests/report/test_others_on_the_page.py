"""Reproductions by others on the page: in a table and with their number, as text."""

from __future__ import annotations

from pathlib import Path

import pytest

import bench.report.reproductions
from bench.report.page import render_page
from bench.reported.reproductions import Reproduction
from tests.report.test_page import Outline
from tests.support.page_project import NASTY, write_project

NUMBER = "is-cse/table-1/simcse/roberta-base/avg/test/spearman"
SCORES = [76.0, 76.5, 77.0]  # mean 76.50, standard deviation 0.50


def test_reproductions_stand_in_a_table_and_with_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any, tests/report/test_page.py finds no link to elsewhere."""
    out = write_project(tmp_path)
    url = 'https://example.org/"><script>'
    first = Reproduction(NASTY, "2026-11-23", url, f"Code {NASTY}", {NUMBER: SCORES})
    second = Reproduction("B", "2026-11-24", "https://b.org", "ours", {NUMBER: [75.0]}, "longer")
    monkeypatch.setattr(bench.report.reproductions, "_registered", lambda: (first, second))
    render_page(out.parent, out.parents[2] / "figures" / "s", out)
    page = Outline((out / "index.html").read_text(encoding="utf-8"))
    outside = [values["href"] for values, _ in page.all("a") if "://" in values["href"]]
    rows = [text for _, text in page.all("tr") if "2026-11-23" in text or "2026-11-24" in text]
    facts = [facts for entry in page.data["entries"] for facts in entry["facts"]]
    theirs = [fact for fact in facts if fact[0].startswith("Reproduced by")]
    assert outside == ['https://example.org/"><script>', "https://b.org"]
    (entry,) = [one for one in page.data["entries"] if one.get("address") == NUMBER]
    texts = ["76.50 ± 0.50, n = 3", "75.00, n = 1"]
    assert theirs == [[f"Reproduced by {NASTY}", texts[0]], ["Reproduced by B", texts[1]]]
    assert [fact for fact in entry["facts"] if fact in theirs] == theirs
    assert len(rows) == 2
    assert all(text in row for text, row in zip(texts, rows, strict=True))
    assert rows[1].endswith("B 2026-11-24 ours longer")
    links = {values["href"] for values, _ in page.all("a")}
    assert f"#{NUMBER}" in links
    assert len(page.all("script")) == 2
