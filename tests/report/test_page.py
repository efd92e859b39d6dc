"""The page: it loads nothing from elsewhere, has the suite's numbers, and escapes every text."""

import json
import re
import shlex
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from math import isnan
from operator import itemgetter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bench.report.page
from bench.comparison.order import orders
from bench.comparison.reproduction import Cell, judge, leaderboard
from bench.comparison.verdict import VERDICT_SYMBOLS
from bench.report.page import CURVE, CURVE_POINTS, curve_columns, verdict_counts
from bench.report.page import commands as commands_of
from bench.report.printed_table import printed_tables
from bench.report.tables import order_text, summaries
from bench.reported.address import address as address_of
from bench.reported.audit import Finding, findings
from bench.results.suite_results import read_suite
from bench.utils.files import read_json
from tests.support.page_project import NASTY, write_page, write_project

VOID = {"meta", "img", "link", "br", "input"}


class Outline(HTMLParser):
    """Checks the nesting of tags, and collects them with attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[tuple[str, dict[str, str], list[str]]] = []
        self.found: list[tuple[str, dict[str, str], str]] = []
        self.text = ""
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag in VOID:
            self.found.append((tag, values, ""))
        else:
            self.stack.append((tag, values, []))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.handle_data(" ")
        name, values, texts = self.stack.pop()
        assert name == tag
        self.found.append((tag, values, " ".join("".join(texts).split())))

    def handle_data(self, data: str) -> None:
        for _, _, texts in self.stack:
            texts.append(data)
        if self.stack and self.stack[-1][0] != "script":
            self.text += data

    def all(self, tag: str, attribute: str | None = None) -> list[tuple[dict[str, str], str]]:
        return [
            (values, text)
            for name, values, text in self.found
            if name == tag and (attribute is None or attribute in values)
        ]

    @property
    def data(self) -> Any:
        texts = (text for values, text in self.all("script") if values.get("id") == "data")
        return json.loads(next(texts))

    def cells(self) -> dict[int, tuple[dict[str, str], str]]:
        return {int(cell[0]["data-entry"]): cell for cell in self.all("td", "data-entry")}


def in_order(all_cells: list[Cell]) -> list[Cell]:
    """The cells by printed table and row, in the order of the page's entries."""
    rows = [row for table in printed_tables(all_cells).values() for row in table.rows]
    return [shown.cell for row in rows for shown in row.cells.values()]


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> tuple[Path, Outline]:
    out = write_project(tmp_path_factory.mktemp("project"))
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    hostile = Finding("copy", "sscl", NASTY, (f"Row {NASTY}",), f"Text {NASTY}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.report.page, "findings", lambda: [*findings(), hostile])
        write_page(out.parent, out.parents[2] / "figures" / "s", out)
    return out, Outline((out / "index.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def all_cells(page) -> list[Cell]:
    return judge(read_suite(page[0].parent))


def test_foreign_text_is_text(page):
    out, outline = page
    assert len(outline.all("script")) == 2
    assert {values["src"] for values, _ in outline.all("img")}.isdisjoint({"x", ""})
    assert not any(name.startswith("on") for _, values, _ in outline.found for name in values)
    places = ["s", "SimCSE", "Backbone", "Corpus", "1 diverged:", "Device", "Query", "Kept"]
    places += ["Reading", "Reason", "Asked", "Near", "Set", "Row", "Text", "version", "sha256"]
    for place in places:
        assert f"{place} {NASTY}" in outline.text, place
    assert outline.all("title")[0][1] == f"sentbench: s {NASTY}"
    text = (out / "index.html").read_text()
    assert "<!--" not in text
    assert text.count("<script") == text.count("</script") == 2
    assert [run["reason"] for run in outline.data["runs"] if run.get("seed") == 7] == [NASTY]
    assert any(NASTY in text for origin in outline.data["origins"] for _, text in origin)


def test_what_was_found_stands_before_the_leaderboards(page, all_cells):
    """With the number of each verdict, and the first in the list of sections."""
    out, outline = page
    sections = [values["id"] for values, _ in outline.all("h2")]
    assert sections[:3] == ["found", "leaderboards", "printed"]
    links = [values["href"] for values, _ in outline.all("a", "href")]
    assert [link for link in links if link.removeprefix("#") in sections][:2] == [
        "#found", "#leaderboards",
    ]  # fmt: skip
    text = (out / "index.html").read_text(encoding="utf-8")
    before, rest = text.split('<h2 id="found">')
    assert "<table" not in before
    summary = Outline(rest.partition("</h2>")[2].partition("</section>")[0])
    counts = [text for values, text in summary.all("span", "data-verdict")]
    assert counts == [
        f"{VERDICT_SYMBOLS[kind]} {count} {kind}"
        for kind, count in verdict_counts(all_cells).items()
    ]
    assert len(summary.all("dd")) >= 3


def test_nothing_is_fetched_and_every_link_leads_somewhere(page):
    out, outline = page
    ids = {values["id"] for _, values, _ in outline.found if "id" in values}
    addresses = [
        values[name] for _, values, _ in outline.found for name in ("href", "src") if name in values
    ]
    addresses += [run["file"] for run in outline.data["runs"]]
    for address in addresses:
        if address.startswith("#"):
            assert address[1:] in ids
        elif address != "data:,":
            assert (out / unquote(address)).is_file(), address
    policy = next(values["content"] for values, _ in outline.all("meta") if "http-equiv" in values)
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "; img-src 'self' data:;" in policy
    # The policy would refuse styles of single elements.
    assert not any("style" in values for _, values, _ in outline.found)
    style, script = ((out / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    assert not re.search(r"url\(|@import|http", style)
    assert re.findall(r"https?:[^\"]*", script) == ["http://www.w3.org/2000/svg"]
    risky = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|fetch\(|import "
    assert not re.findall(risky, script.split('"use strict"')[1])


def test_ids_are_unique_and_labels_exist(page):
    _, outline = page
    ids = Counter(values["id"] for _, values, _ in outline.found if "id" in values)
    assert max(ids.values()) == 1
    labels = [values.get("aria-labelledby") for _, values, _ in outline.found]
    assert set(labels) <= {None, *ids}
    for values, _ in outline.all("div", "role"):
        assert values.get("tabindex") == "0"
        assert values["aria-label"]
    assert all(values["scope"] in ("row", "col") for values, _ in outline.all("th"))


def test_every_printed_number_stands_with_ours_and_its_verdict(page, all_cells):
    _, outline = page
    expected = []
    for cell in in_order(all_cells):
        text, scores, verdict = cell.number.text, cell.ours.scores, cell.ours.verdict
        if len(scores) > 1:
            text += f" {fmean(scores):.2f} ± {stdev(scores):.2f}"
        elif scores:
            text += f" {scores[0]:.2f}"
        expected.append((verdict.kind, f"{text} {verdict.mark} {verdict.kind}"))
    found = outline.cells()
    assert [(found[i][0]["data-verdict"], found[i][1]) for i in sorted(found)] == expected
    kinds = {verdict for verdict, _ in expected}
    assert kinds >= {"not run", "diverged", "lower", "inconclusive", "not comparable"}


def test_notes_averages_order_and_comparison_stand_with_their_tables(page, all_cells):
    out, outline = page
    text = (out / "index.html").read_text(encoding="utf-8")
    for note in {cell.number.note for cell in all_cells} - {""}:
        assert unescape(text).count(note) == 1
    boards, rest = text.split('<h2 id="printed">')
    assert boards.count("figures/compare.png") == 2  # the picture and its link
    assert "tables/compare.md" in boards
    assert "figures/compare" not in rest
    suite = read_suite(out.parent)
    order = orders(suite, all_cells)
    texts = {text for tag in ("td", "th") for _, text in outline.all(tag)}
    for table in summaries(suite, order, all_cells):
        assert texts >= set(table.shown.to_numpy().ravel())
    assert "averages" in [table.stem for table in summaries(suite, order, all_cells)]
    notes = " ".join(text for _, text in outline.all("p"))
    for source, name in {(cell.number.source, cell.number.table) for cell in all_cells}:
        assert order_text(order, source, name) in notes


def test_a_number_opens_the_runs_that_it_is_made_of(page, all_cells):
    out, outline = page
    data, numbers = outline.data, sorted(outline.cells())
    place = itemgetter("aggregation", "task", "split", "metric")
    differences = 0
    for cell, entry_number in zip(in_order(all_cells), numbers, strict=True):
        number, ours, other = cell.number, cell.ours, cell.other
        entry = data["entries"][entry_number]
        facts = dict(entry["facts"])
        assert float(facts["Printed"].split(",")[0]) == number.value
        verdict = ours.verdict
        assert facts["Verdict"].startswith(f"{VERDICT_SYMBOLS[verdict.kind]} {verdict.kind}: ")
        assert verdict.reason in facts["Verdict"]
        metric = {"spearman_delta": "spearman"}.get(number.metric, number.metric)
        if metric not in ("spearman", "accuracy"):
            continue
        key, scores = ("all", number.task, number.our_split, metric), []
        for side in entry["sides"]:
            known = []
            for run, score in zip(side["runs"], side["scores"], strict=True):
                records = read_json(out / data["runs"][run]["file"])["records"]
                own = [r["value"] for r in records if place(r) == key]
                assert [score] == (pytest.approx(own, abs=5e-5) if own else [None])
                known += [score] if own else []
            scores.append(known)
        if not ours.n:
            continue
        assert facts["Ours"].endswith(f"n = {ours.n}")
        gap = float(facts["Ours - printed"].replace("−", "-"))
        assert gap == pytest.approx(cell.difference, abs=0.0051)
        if number.minus:
            differences += 1
            pairs = zip(*scores[:2], strict=False)
            differences_of_pairs = [score - less for score, less in pairs]
            assert differences_of_pairs == pytest.approx(ours.scores, abs=1e-3)
        else:
            assert scores[0] == pytest.approx(ours.scores, abs=5e-5)
        if other and not number.minus:
            assert scores[1] == pytest.approx(other.scores, abs=5e-5)
            name = f"{number.run.partition('@')[0]}@{other.setting} on "
            assert entry["sides"][1]["name"].startswith(name)
    assert differences > 0


def test_each_printed_number_has_its_address_and_its_command(page, all_cells):
    _, outline = page
    entries, shown = outline.data["entries"], outline.cells()
    for cell, number in zip(in_order(all_cells), sorted(shown), strict=True):
        address = address_of(cell.number)
        assert shown[number][0]["id"] == entries[number]["address"] == address
        assert ("command" in entries[number]) == bool(cell.number.run)
        if cell.number.run:
            words = shlex.split(entries[number]["command"])
            assert words[4:6] == [cell.number.source, cell.number.table]
    assert len({entry.get("address") for entry in entries}) == len(all_cells) + 1


def test_each_side_has_the_commands_that_make_it(page):
    """The script appends ids of runs, which need no quotes."""
    _, outline = page
    commands = {name: shlex.split(text) for name, text in outline.data["commands"].items()}
    suite = f"results/s {NASTY}"
    assert commands["run"] == ["python", "-m", "bench", "job", "--suite", suite]
    assert commands["workflow"] == ["snakemake", "--configfile", "FILE", "--cores", "4"]
    assert commands["scores"] == [f"{suite}/scores/"]
    assert all(re.fullmatch(r"[a-z0-9.+_-]+", run["id"]) for run in outline.data["runs"])
    assert commands_of("smoke")["workflow"] == "snakemake --configfile config/smoke.yaml --cores 4"


def test_hyperparameters_are_tables_of_the_page(page):
    _, outline = page
    rows = [text for _, text in outline.all("tr")]
    assert "bert-base-uncased IS-CSE learning rate 3e-5 3e-5 3e-5" in rows
    own = " sets its own: learning rate 0.001."
    assert any(text.endswith(own) for _, text in outline.all("p"))


def test_leaderboards_hold_means_spreads_and_their_runs(page):
    out, outline = page
    suite, data = read_suite(out.parent), outline.data
    printed = outline.cells()
    names = [number for number in range(len(data["entries"])) if number not in printed]
    boards = [leaderboard(suite, name) for name in ("sts", "chinese")]
    assert len(names) == sum(map(len, boards))
    for board, task in zip(boards, ("Avg", "CNSD-STS-B"), strict=True):
        for row in board.to_dict("records"):
            entry = data["entries"][names.pop(0)]
            assert entry["title"] == f"{row['label']}, {row['setting']}, {row['backbone']}"
            side = entry["sides"][0]
            scores = [score for score in side["scores"] if score is not None]
            assert scores == pytest.approx(row["averages"], abs=5e-5)
            assert len(side["runs"]) == row["n"] + bool(row["remark"])
            assert {data["runs"][run]["backbone"] for run in side["runs"]} == {row["backbone"]}
            mean, shown = row[task], dict(entry["facts"])[task].split(" ± ")[0]
            assert shown == ("–" if isnan(mean) else f"{mean:.2f}")
            assert row["remark"] in outline.text


def test_what_is_written_beside_foreign_files(page):
    out, _ = page
    assert (out / "mine.txt").read_text() == "mine"
    written = {"figures", "index.html", "page.css", "page.js", "statistics.md"}
    assert {path.name for path in out.iterdir()} == {"mine.txt", *written}
    assert (out / "index.html").stat().st_size < 1_000_000
    assert (out / "page.js").stat().st_size + (out / "page.css").stat().st_size < 30_000


@given(st.integers(1, 400), st.sets(st.sampled_from(sorted(CURVE)), min_size=1))
def test_a_curve_keeps_its_ends_and_no_point_is_made_up(length, names):
    points = [{"step": 5 * i} | dict.fromkeys(names, i * 1.23456789) for i in range(length)]
    found = curve_columns(points)
    assert set(found) == {"step", *names}
    assert len(found["step"]) == min(length, CURVE_POINTS)
    assert (found["step"][0], found["step"][-1]) == (0, 5 * (length - 1))
    assert found["step"] == sorted(set(found["step"]))
    steps = [right - left for left, right in pairwise(found["step"])]
    assert max(steps, default=0) - min(steps, default=0) <= 5
    values = [step / 5 * 1.23456789 for step in found["step"]]
    assert all(found[name] == pytest.approx(values, abs=5e-5) for name in names)
    gap = [{"step": 1, "dev": None, "loss": 2.0}, {"step": 2, "dev": 70.0, "loss": 1.5}]
    assert curve_columns(gap) == {"step": [1, 2], "dev": [None, 70.0], "loss": [2.0, 1.5]}


def test_curves_and_provenance_of_runs(page):
    _, outline = page
    runs = outline.data["runs"]
    assert [run["curve"]["dev"][0] for run in runs[:5]] == [61.0, 62.0, 63.0, 64.0, 65.0]
    assert runs[0]["curve"]["step"] == list(range(10, 251, 10))
    assert not any("curve" in run for run in runs[5:])
    assert len({run["origin"] for run in runs}) == len(outline.data["origins"]) == 2
    assert (runs[0]["best_step"], runs[0]["seconds"]) == (200, 0)
    assert runs[0]["date"].startswith("2026-11-20")
    dates = "2026-11-20T05:54:00+00:00 to 2026-11-24T05:54:00+00:00"
    for text in (dates, "17 finished", "1 diverged", "cpu (13 runs)"):
        assert text in outline.text


def test_figures_stand_beside_the_page_as_they_are(page):
    out, outline = page
    figures = out.parents[2] / "figures" / "s"
    expected = {path.name: path.read_bytes() for path in figures.iterdir()}
    assert {path.name: path.read_bytes() for path in (out / "figures").iterdir()} == expected
    images = [values for values, _ in outline.all("img")]
    sizes = sorted((image["width"], image["height"]) for image in images)
    assert sizes == [(str(40 + i), "20") for i in range(5)]
    assert all(image["loading"] == "lazy" and image["alt"] for image in images)


def test_findings_and_coverage_are_complete(page):
    _, outline = page
    listed = [text for _, text in outline.all("li")]
    for finding in findings():
        assert any(" ".join(finding.text.split()) in text for text in listed)
    rows = [text.split() for _, text in outline.all("tr") if text.startswith("SSCL, Table 2 ")]
    assert ["SSCL,", "Table", "2", "136", "136", "136"] in [row[:6] for row in rows]


def test_analyses_are_tables_of_text(page):
    _, outline = page
    rows = [text for _, text in outline.all("tr")]
    for text in (f"0.812 Kept {NASTY}", f"0.938 Near {NASTY}"):
        assert text in rows
    assert any("0.188" in row and "-2.250" in row and "dev" in row for row in rows)
    assert "1024 sentences in the memory at step 250" in outline.text
