"""The page: it begins with the suite's systems, loads nothing from elsewhere, has the suite's
numbers, and escapes every text."""

import json
import re
import shlex
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from urllib.parse import unquote

import pytest

from bench.report.page import CURVE_POINTS, page_content, thinned
from bench.report.tables import summaries
from tests.support.judged_rows import BASE, heading, judged, measured, number, run, system
from tests.support.page_project import COMMAND, NASTY, ROWS, write_page, write_project

VOID = {"meta", "img", "link", "br", "input"}


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


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return write_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def page(project):
    return project.out, Outline((project.out / "index.html").read_text(encoding="utf-8"))


def test_foreign_text_is_text(page):
    out, outline = page
    assert len(outline.all("script")) == 2
    assert {values["src"] for values, _ in outline.all("img")}.isdisjoint({"x", ""})
    assert not any(name.startswith("on") for _, values, _ in outline.found for name in values)
    assert outline.texts("title") == [f"sentbench: s {NASTY}"]
    places = ["s", "SimCSE", "Backbone", "Corpus", "1 diverged:", "Device", "Query", "Kept", "Note"]
    places += ["Reading", "Reason", "Asked", "Near", "Set", "Points", "version", "sha256"]
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
    addresses += [run["file"] for run in outline.data["runs"] if "file" in run]
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


def entry_of(project, outline, **fields):
    """The entry of the only number with these fields."""
    rows = [row for row in project.judged.numbers if fields.items() <= vars(row).items()]
    assert len(rows) == 1
    found = [one for one in outline.data["entries"] if one.get("address") == rows[0].address]
    assert len(found) == 1
    return found[0]


def test_every_printed_number_stands_with_ours_and_its_verdict(project, page):
    cells, entries = page[1].cells(), page[1].data["entries"]
    assert len(cells) == len(project.judged.numbers)
    by_address = {values["id"]: (values["data-verdict"], text) for values, text in cells.values()}
    kinds = set()
    for row in project.judged.numbers:
        verdict = row.ours.verdict
        shown = row.text
        if row.ours.n:
            shown += f" {row.ours.mean:.2f}"
        if row.ours.n > 1:
            shown += f" ± {row.ours.sd:.2f}"
        wanted = verdict.kind, f"{shown} {verdict.mark} {verdict.kind}"
        assert by_address[row.address] == wanted
        kinds.add(verdict.kind)
    assert kinds == {"not run", "diverged", "lower", "inconclusive", "not comparable"}
    assert {entries[place]["address"] for place in cells} == by_address.keys()


FACTS = {
    "Printed": "76.25, quoted from Gao et al. 2021 (SimCSE)",
    "Ours": "76.05 ± 0.87, n = 5",
    "Ours - printed": "−0.20",
    "Verdict": "? inconclusive: n = 5; 8 seeds decide",
    "Seeds that decide": "8",
    "Rank of print among our seeds": "4 of 6",
    "Expected best of five of our seeds": "77.00",
    "CV* of print and our seeds": "0.50 %",
    "Compared with": "simcse@official",
    "Ours, paper settings": "70.56 ± 0.62, n = 2: ↓ lower",
}


def test_a_number_opens_facts_about_it(project, page):
    entry = entry_of(project, page[1], method="SimCSE", task="Avg", table="Table 2")
    assert entry["title"] == f"SSCL (arXiv 2305.06154), Table 2: SimCSE, {BASE}, Avg test"
    assert dict(entry["facts"]) == FACTS
    assert entry["command"] == COMMAND


@pytest.mark.parametrize(("fields", "title", "facts"), [
    ({"method": "IS-BERT", "task": "Avg"}, "SSCL, Table 2: IS-BERT, bert-base-uncased, Avg test",
     {"Printed": "66.58", "Verdict": "– not run: the suite has no score for it"}),
    ({"table": "Table 3", "metric": "spearman"},
     "SSCL, Table 3: SimCSE dev, bert-base-uncased, Avg dev (ours: test)",
     {"Mean within the tolerance of print?": "no (95 % interval 76.05 ± 1.10)",
      "Could one run of ours have scored it?":
      "no (95 % of runs: 73.55 to 78.55; p = 0.002, 0.004 corrected)"}),
    ({"metric": "spearman_delta"}, "SSCL, Table 3: SimCSE test, bert-base-uncased, Avg test",
     {"Compared with": "sscl@official minus simcse@official"}),
    ({"variant": "k=2"}, "IS-CSE, Figure 6 text: SSCL, k=2, bert-base-uncased, Avg test",
     {"Verdict": "≠ not comparable: measured on glove.6B.300d"}),
])  # fmt: skip
def test_facts_of_numbers_of_other_kinds(project, page, fields, title, facts):
    entry = entry_of(project, page[1], **fields)
    assert entry["title"] == title
    assert facts.items() <= dict(entry["facts"]).items()
    assert "command" not in entry


def test_a_number_opens_the_runs_of_each_of_its_sides(project, page):
    runs = page[1].data["runs"]
    entry = entry_of(project, page[1], method="SimCSE", task="Avg", table="Table 2")
    assert [side["name"] for side in entry["sides"]] == [
        f"simcse@official on {BASE}", f"simcse@paper on {BASE}",
    ]  # fmt: skip
    ids = [[runs[place]["id"] for place in side["runs"]] for side in entry["sides"]]
    assert ids == [[f"simcse-{seed}" for seed in range(5)], ["simcse-paper-0", "simcse-paper-1"]]
    assert [side["scores"] for side in entry["sides"]] == [[*ROWS], [70.1235, 71.0]]
    entry = entry_of(project, page[1], method="IS-CSE", table="Table 2")
    assert entry["sides"][0]["scores"] == [77.0, 78.0, None]


def test_each_side_has_the_commands_that_make_it(page):
    """The script appends ids of runs, which need no quotes."""
    _, outline = page
    found = {name: shlex.split(text) for name, text in outline.data["commands"].items()}
    suite = f"results/s {NASTY}"
    assert found["run"] == ["python", "-m", "bench", "job", "--suite", suite]
    assert " ".join(found["workflow"]) == "python -m bench run FILE.yaml --cores 4"
    assert found["scores"] == [f"{suite}/scores/"]


def test_leaderboards_hold_means_spreads_and_their_runs(project, page):
    _, outline = page
    data, numbers = outline.data, outline.cells()
    entries = [one for place, one in enumerate(data["entries"]) if place not in numbers]
    for row, entry in zip(project.judged.systems, entries, strict=True):
        assert entry["title"] == f"{row.name}, {row.backbone}"
        (side,) = entry["sides"]
        assert side["scores"] == [*row.run_averages]
        assert [data["runs"][place]["id"] for place in side["runs"]] == [*row.runs]
        overall = row.score("CNSD-STS-B" if row.board == "chinese" else "Avg")
        shown = dict(entry["facts"])[overall.task].split(" ± ")[0]
        assert shown == ("–" if overall.mean is None else f"{overall.mean:.2f}")
        assert row.remark in outline.text


def test_every_part_of_the_page_is_there(project, page):
    out, outline = page
    html = (out / "index.html").read_text(encoding="utf-8")
    boards, rest = html.split('<details class="part" id="printed"')
    assert boards.count("figures/compare.png") == 2  # the picture and its link
    assert "tables/compare.md" in boards
    assert "figures/compare" not in rest
    assert unescape(html).count(f"Note {NASTY}") == 1
    texts, rows = set(outline.texts("td", "th")), outline.texts("tr")
    tables = summaries(project.judged)
    assert [table.stem for table in tables] == ["order", "averages"]
    for table in tables:
        for line in table.shown.texts:
            assert texts >= {*line}
    for row in (
        f"0.812 Kept {NASTY}",
        f"0.938 Near {NASTY}",
        "SSCL, Table 2 17 17 9 9 9 0 8 1 0",  # coverage
        "IS-CSE, Table 2 1 0 0 0 0 0 0 0 0",
        f"SSCL, Table 2 IS-BERT {BASE} 8 no recipe",
    ):
        assert row in rows
    for kind in ("? inconclusive 8 ", "× diverged 1 ", "↓ lower 2 ", "≠ not comparable 3 "):
        assert any(row.startswith(kind) for row in rows)
    for part in (
        "1024 sentences in the memory at step 250",
        "2026-11-20 (1 run)",
        "finished (12 runs)",
        "diverged (1 run)",
        "cpu (8 runs)",
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
    assert (
        len({run["origin"] for run in runs if "origin" in run}) == len(page[1].data["origins"]) == 2
    )


@pytest.mark.parametrize("length", [1, 60, 61, 100, 400])
def test_a_curve_keeps_its_ends_and_no_point_is_made_up(length):
    losses = [place * 1.23456789 for place in range(length)]
    found = thinned({"step": [5 * place for place in range(length)], "loss": losses})
    assert list(found) == ["step", "loss"]
    assert len(found["step"]) == min(length, CURVE_POINTS)
    assert (found["step"][0], found["step"][-1]) == (0, 5 * (length - 1))
    gaps = {right - left for left, right in pairwise(found["step"])}
    assert max(gaps, default=0) - min(gaps, default=0) in (0, 5)
    values = [step / 5 * 1.23456789 for step in found["step"]]
    assert found["loss"] == pytest.approx(values, abs=5e-5)


# --- What folds ---


@pytest.mark.parametrize(("kind", "line", "is_open"), [
    ("not comparable", "2 numbers of 1 papers: 1 not comparable (toy-bert stands in), 1 not run",
     False),
    ("inconclusive", "2 numbers of 1 papers: 1 inconclusive, 1 not run", True),
])  # fmt: skip
def test_papers_fold_to_a_line_where_nothing_of_them_can_be_compared(tmp_path, kind, line, is_open):
    ours = measured([75.0], kind=kind, reason="toy-bert stands in; its settings differ")
    numbers = [number(76.0, ours), number(77.0, task="STS12", address="other")]
    rows = judged([system("simcse", [75.0])], runs=[run("simcse")], numbers=numbers)
    out = write_page(rows, tmp_path, tmp_path / "figures")
    outline = Outline((out / "index.html").read_text(encoding="utf-8"))
    parts = [values for values, _ in outline.all("details") if values.get("class") == "part"]
    assert {values["id"]: "open" in values for values in parts} == {
        "printed": is_open, "provenance": False,
    }  # fmt: skip
    assert f"The papers {line}" in outline.texts("summary")


def test_the_page_begins_with_the_systems_and_their_difference_from_the_baseline():
    runs = [run(method, seed) for method in ("simcse", "is-cse") for seed in (0, 1)]
    better = {"difference": 3.95, "half_width": 1.08, "word": "better"}
    systems = [
        system("is-cse", [80.0, 80.0], **better),
        system("simcse", [76.0, 76.1], is_baseline=True),
    ]
    suite = heading(baseline="simcse", baseline_name="SimCSE, official")
    (board,) = page_content(judged(systems, suite, runs=runs), "scores")["boards"]
    assert list(board["columns"])[:4] == ["Method", "n", "Avg", "Minus baseline"]
    shown = [line["scores"]["Minus baseline"] for line in board["lines"]]
    assert shown == ["+3.95 ± 1.08 ↑ better", "baseline"]
