"""The page: it begins with the suite's systems, loads nothing from elsewhere, has the suite's
numbers, and escapes every text."""

import json
import re
import shlex
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from math import isnan
from statistics import fmean, stdev
from urllib.parse import unquote

import pytest

import bench.report.page
from bench.judge.against_baseline import with_baseline
from bench.judge.reproduction import judge, leaderboard
from bench.judge.verdict import VERDICT_SYMBOLS
from bench.report.leaderboard import leaderboards
from bench.report.page import CURVE_POINTS, curve_columns, page_content
from bench.report.page import commands as commands_of
from bench.report.printed_table import printed_tables
from bench.report.tables import summaries, verdict_counts
from bench.reported.address import address as address_of
from bench.reported.audit import Finding, findings
from bench.results.records import Point
from bench.results.suite_results import read_suite
from bench.utils.files import read_json, write_json
from tests.support.page_project import NASTY, ROWS, write_page, write_project
from tests.support.synthetic_suite import seeds, write_suite

VOID = {"meta", "img", "link", "br", "input"}
PLACE = ("aggregation", "task", "split", "metric")  # of a record


class Outline(HTMLParser):
    """Checks the nesting of tags, and collects them with attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.found, self.text = [], [], ""
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        if tag in VOID:
            self.found.append((tag, values, ""))
        else:
            self.stack.append((tag, values, []))

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.handle_data(" ")
        name, values, texts = self.stack.pop()
        assert name == tag
        self.found.append((tag, values, " ".join("".join(texts).split())))

    def handle_data(self, data):
        for _, _, texts in self.stack:
            texts.append(data)
        if self.stack and self.stack[-1][0] != "script":
            self.text += data

    def all(self, tag):
        return [(values, text) for name, values, text in self.found if name == tag]

    def texts(self, *tags):
        return [text for name, _, text in self.found if name in tags]

    @property
    def data(self):
        texts = (text for values, text in self.all("script") if values.get("id") == "data")
        return json.loads(next(texts))

    def cells(self):
        """The cells that open an entry, by its number."""
        cells = [cell for cell in self.all("td") if "data-entry" in cell[0]]
        return {int(cell[0]["data-entry"]): cell for cell in cells}


def in_order(all_cells):
    """The cells by printed table and row, in the order of the page's entries."""
    rows = [row for table in printed_tables(all_cells).values() for row in table.rows]
    return [shown.cell for row in rows for shown in row.cells.values()]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = write_project(tmp_path_factory.mktemp("project"))
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    hostile = Finding("copy", "sscl", NASTY, (f"Row {NASTY}",), f"Text {NASTY}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.report.page, "findings", lambda: [*findings(), hostile])
        write_page(out.parent, out.parents[2] / "figures" / "s", out)
    return out, Outline((out / "index.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def all_cells(page):
    return judge(read_suite(page[0].parent))


def test_foreign_text_is_text(page):
    out, outline = page
    assert len(outline.all("script")) == 2
    assert {values["src"] for values, _ in outline.all("img")}.isdisjoint({"x", ""})
    assert not any(name.startswith("on") for _, values, _ in outline.found for name in values)
    assert outline.texts("title") == [f"sentbench: s {NASTY}"]
    places = ["s", "SimCSE", "Backbone", "Corpus", "1 diverged:", "Device", "Query", "Kept"]
    places += ["Reading", "Reason", "Asked", "Near", "Set", "Row", "Text", "version", "sha256"]
    for place in places:
        assert f"{place} {NASTY}" in outline.text, place
    text = (out / "index.html").read_text()
    assert "<!--" not in text
    assert text.count("<script") == text.count("</script") == 2
    assert [run["reason"] for run in outline.data["runs"] if run.get("seed") == 7] == [NASTY]
    assert any(NASTY in text for origin in outline.data["origins"] for _, text in origin)


def test_nothing_is_fetched_and_every_link_leads_somewhere(page):
    out, outline = page
    ids = Counter(values["id"] for _, values, _ in outline.found if "id" in values)
    assert max(ids.values()) == 1
    assert {values.get("aria-labelledby") for _, values, _ in outline.found} <= {None, *ids}
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


def test_every_printed_number_stands_with_ours_and_its_verdict(page, all_cells):
    _, outline = page
    found, entries, kinds = outline.cells(), outline.data["entries"], set()
    for i, cell in zip(sorted(found), in_order(all_cells), strict=True):
        number, scores, verdict = cell.number, cell.ours.scores, cell.ours.verdict
        text = f"{number.text} {fmean(scores):.2f}" if scores else number.text
        text += f" ± {stdev(scores):.2f}" if len(scores) > 1 else ""
        values, shown = found[i]
        assert (values["data-verdict"], shown) == (
            verdict.kind,
            f"{text} {verdict.mark} {verdict.kind}",
        )
        assert values["id"] == entries[i]["address"] == address_of(number)
        words = shlex.split(entries[i].get("command", ""))
        assert words[4:6] == ([number.source, number.table] if number.run else [])
        kinds.add(verdict.kind)
    assert kinds >= {"not run", "diverged", "lower", "inconclusive", "not comparable"}


def test_a_number_opens_the_runs_that_it_is_made_of(page, all_cells):
    out, outline = page
    data, numbers = outline.data, sorted(outline.cells())

    def scores_in_files(side, key):
        found = []
        for run in side["runs"]:
            records = read_json(out / data["runs"][run]["file"])["records"]
            values = {tuple(map(record.get, PLACE)): record["value"] for record in records}
            found.append(values.get(key))
        return found

    sides = Counter()
    for cell, entry_number in zip(in_order(all_cells), numbers, strict=True):
        number, ours, other = cell.number, cell.ours, cell.other
        entry = data["entries"][entry_number]
        facts = dict(entry["facts"])
        assert float(facts["Printed"].split(",")[0]) == number.value
        symbol = VERDICT_SYMBOLS[ours.verdict.kind]
        assert facts["Verdict"].startswith(f"{symbol} {ours.verdict.kind}: ")
        assert ours.verdict.reason in facts["Verdict"]
        if number.key[2] not in ("spearman", "accuracy"):
            continue
        for side in entry["sides"]:
            wanted = scores_in_files(side, ("all", *number.key))
            assert side["scores"] == pytest.approx(wanted, abs=5e-5)
        if not ours.n:
            continue
        assert facts["Ours"].endswith(f"n = {ours.n}")
        assert ("Ours - printed" in facts) == ours.is_comparable
        if ours.is_comparable:
            gap = float(facts["Ours - printed"].replace("−", "-"))
            assert gap == pytest.approx(cell.difference, abs=0.0051)
        names = [side["name"].partition("@")[0] for side in entry["sides"]]
        runs = [text.partition("@")[0] for text in (number.run, number.minus) if text]
        if other:
            runs += runs
        assert names[: len(runs)] == runs
        sides[len(runs)] += 1
    assert set(sides) == {1, 2}  # with the other setting, or what is subtracted


def test_each_side_has_the_commands_that_make_it(page):
    """The script appends ids of runs, which need no quotes."""
    _, outline = page
    commands = {name: shlex.split(text) for name, text in outline.data["commands"].items()}
    suite = f"results/s {NASTY}"
    assert commands["run"] == ["python", "-m", "bench", "job", "--suite", suite]
    assert " ".join(commands["workflow"]) == "python -m bench run FILE.yaml --cores 4"
    assert commands["scores"] == [f"{suite}/scores/"]
    assert all(re.fullmatch(r"[a-z0-9.+_-]+", run["id"]) for run in outline.data["runs"])
    assert commands_of("smoke")["workflow"] == "python -m bench run smoke --cores 4"


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
            assert entry["title"] == f"{row['name']}, {row['backbone']}"
            side = entry["sides"][0]
            scores = [score for score in side["scores"] if score is not None]
            assert scores == pytest.approx(row["averages"], abs=5e-5)
            assert len(side["runs"]) == row["n"] + bool(row["remark"])
            assert {data["runs"][run]["backbone"] for run in side["runs"]} == {row["backbone"]}
            mean, shown = row[task], dict(entry["facts"])[task].split(" ± ")[0]
            assert shown == ("–" if isnan(mean) else f"{mean:.2f}")
            assert row["remark"] in outline.text


def test_every_part_of_the_page_is_there(page, all_cells):
    out, outline = page
    html = (out / "index.html").read_text(encoding="utf-8")
    boards, rest = html.split('<details class="part" id="printed"')
    assert boards.count("figures/compare.png") == 2  # the picture and its link
    assert "tables/compare.md" in boards
    assert "figures/compare" not in rest
    for kind, count in verdict_counts(all_cells).items():
        start = f"{VERDICT_SYMBOLS[kind]} {kind} {count} "
        assert any(row.startswith(start) for row in outline.texts("tr"))
    texts = set(outline.texts("td", "th"))
    for table in summaries(read_suite(out.parent), all_cells):
        assert texts >= set(table.shown.to_numpy().ravel())
    for cell in all_cells:
        assert unescape(html).count(cell.number.note) == 1 or not cell.number.note
    listed = " ".join(outline.texts("li"))
    assert all(" ".join(finding.text.split()) in listed for finding in findings())
    rows = outline.texts("tr")
    assert "bert-base-uncased IS-CSE learning rate 3e-5 3e-5 3e-5" in rows  # hyper-parameters
    assert {f"0.812 Kept {NASTY}", f"0.938 Near {NASTY}"} <= {*rows}  # analyses
    assert any(row.startswith("SSCL, Table 2 136 136 136") for row in rows)  # coverage
    for part in (
        " sets its own: learning rate 0.001.",
        "1024 sentences in the memory at step 250",
        "2026-11-20 (1 run)",
        "finished (17 runs)",
        "diverged (1 run)",
        "cpu (13 runs)",
    ):
        assert part in outline.text


def test_what_is_written_beside_foreign_files(page):
    out, outline = page
    assert (out / "mine.txt").read_text() == "mine"
    written = {"figures", "index.html", "page.css", "page.js", "statistics.md"}
    assert {path.name for path in out.iterdir()} == {"mine.txt", *written}
    assert (out / "index.html").stat().st_size < 1_000_000
    for path in (out.parents[2] / "figures" / "s").iterdir():
        assert (out / "figures" / path.name).read_bytes() == path.read_bytes()
    sizes = sorted((image["width"], image["height"]) for image, _ in outline.all("img"))
    assert sizes == [(str(40 + i), "20") for i in range(5)]


def test_curves_of_runs(page):
    runs = page[1].data["runs"]
    assert [run["curve"]["dev"][0] for run in runs[:5]] == [61.0, 62.0, 63.0, 64.0, 65.0]
    assert runs[0]["curve"]["step"] == list(range(10, 251, 10))
    assert not any("curve" in run for run in runs[5:])
    assert (runs[0]["best_step"], runs[0]["seconds"]) == (200, 0)
    assert len({run["origin"] for run in runs}) == len(page[1].data["origins"]) == 2


@pytest.mark.parametrize("length", [1, 60, 61, 100, 400])
def test_a_curve_keeps_its_ends_and_no_point_is_made_up(length):
    found = curve_columns([Point(step=5 * i, loss=i * 1.23456789) for i in range(length)])
    assert list(found) == ["step", "loss"]
    assert len(found["step"]) == min(length, CURVE_POINTS)
    assert (found["step"][0], found["step"][-1]) == (0, 5 * (length - 1))
    gaps = {right - left for left, right in pairwise(found["step"])}
    assert max(gaps, default=0) - min(gaps, default=0) in (0, 5)
    values = [step / 5 * 1.23456789 for step in found["step"]]
    assert found["loss"] == pytest.approx(values, abs=5e-5)


# --- What folds ---


def opened(suite, tmp_path):
    """The titles of the sections of a suite's page, and whether they are open."""
    (tmp_path / "figures").mkdir(exist_ok=True)
    write_page(suite, tmp_path / "figures", tmp_path / "page")
    outline = Outline((tmp_path / "page" / "index.html").read_text(encoding="utf-8"))
    parts = [values for values, _ in outline.all("details") if values.get("class") == "part"]
    return outline, {values["id"]: "open" in values for values in parts}


def test_papers_fold_to_a_line_where_nothing_of_them_can_be_compared(tmp_path):
    toys = [
        *seeds("simcse", ROWS, backbone="toy-bert"),
        *seeds("is-cse", ROWS, backbone="toy-bert"),
    ]
    names = {"bert-base-uncased": "toy-bert"}
    toy = write_suite(tmp_path / "toy", toys, data="world", stand_ins=names)
    outline, parts = opened(toy, tmp_path)
    assert parts == {"printed": False, "provenance": False}
    (line,) = [text for text in outline.texts("summary") if text.startswith("The papers")]
    count = sum(cell.ours.verdict.kind == "not comparable" for cell in judge(read_suite(toy)))
    assert line == (
        f"The papers 929 numbers of 5 papers: {count} not comparable (toy-bert stands in for "
        f"bert-base-uncased, with its own settings), {929 - count} not run"
    )
    comparable = write_suite(tmp_path / "paper", seeds("simcse", ROWS))
    outline, parts = opened(comparable, tmp_path)
    assert parts == {"printed": True, "provenance": False}
    assert any("inconclusive" in text for text in outline.texts("summary"))


def test_the_page_begins_with_the_systems_and_their_difference_from_the_baseline(tmp_path):
    suite = write_suite(tmp_path, [*seeds("simcse", ROWS), *seeds("is-cse", [80.0] * 5)])
    write_json(suite / "plan.json", read_json(suite / "plan.json") | {"baseline": "simcse"})
    own = read_suite(suite)
    boards = leaderboards(own, with_baseline(own)[0])
    content = page_content(own, judge(own), [], boards, "scores")
    (board,) = content["boards"]
    assert list(board["columns"])[:4] == ["Method", "n", "Avg", "Minus baseline"]
    scores = [row["scores"]["Minus baseline"] for row in board["rows"]]
    assert scores == ["+3.95 ± 1.08 ↑ better", "baseline"]
