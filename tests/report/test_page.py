"""The page shows what was read (`rendered/suite/page.*`), loads nothing from elsewhere, and escapes
every text."""

import json
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from urllib.parse import unquote

import pytest

from bench.report.page import CURVE_POINTS, thinned
from tests.support.judged_rows import judged, measured, number, of_world, run, system
from tests.support.page_project import write_page, write_project
from tests.support.rendered import assert_as_read

VOID = {"meta", "img", "link", "br", "input"}
DATA = re.compile(r'(?<=<script type="application/json" id="data">).*(?=</script>)')


class Outline(HTMLParser):
    """Checks the nesting of tags, and collects them with attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.tags = [], []
        self.feed(text)
        assert self.stack == []
        self.data = json.loads(DATA.search(text)[0])

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        if tag in VOID:
            self.tags.append((tag, values, ""))
        else:
            self.stack.append((tag, values, []))

    def handle_endtag(self, tag):
        name, values, texts = self.stack.pop()
        assert name == tag
        self.tags.append((tag, values, " ".join("".join(texts).split())))

    def handle_data(self, data):
        for _, _, texts in self.stack:
            texts.append(data)

    def all(self, tag):
        return [(values, text) for name, values, text in self.tags if name == tag]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return write_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def html(project):
    return (project.out / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def outline(html):
    return Outline(html)


@pytest.mark.parametrize("name", ["page.html", "page.json"])
def test_the_page_is_what_was_read(name, html, outline, tmp_path):
    text = DATA.sub("{}", html)
    if name == "page.json":
        text = json.dumps(outline.data, indent=1, ensure_ascii=False) + "\n"
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert_as_read(tmp_path / name, f"suite/{name}")


def test_every_link_leads_somewhere(project, outline):
    ids = Counter(values["id"] for _, values, _ in outline.tags if "id" in values)
    assert max(ids.values()) == 1
    assert {values.get("aria-labelledby") for _, values, _ in outline.tags} <= {None, *ids}
    addresses = [run["file"] for run in outline.data["runs"] if "file" in run]
    for _, values, _ in outline.tags:
        addresses += [values[name] for name in ("href", "src") if name in values]
    for address in addresses:
        if address.startswith("#"):
            assert address[1:] in ids
        elif address != "data:,":
            assert (project.out / unquote(address)).is_file(), address


def test_nothing_is_fetched(project, outline):
    policy = next(values["content"] for values, _ in outline.all("meta") if "http-equiv" in values)
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    # The policy would refuse styles of single elements.
    assert not any("style" in values for _, values, _ in outline.tags)
    style = (project.out / "page.css").read_text(encoding="utf-8")
    script = (project.out / "page.js").read_text(encoding="utf-8")
    assert not re.search(r"url\(|@import|http", style)
    assert re.findall(r"https?:[^\"]*", script) == ["http://www.w3.org/2000/svg"]
    risky = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|fetch\(|import "
    assert not re.findall(risky, script.split('"use strict"')[1])


def test_the_page_has_copies_of_all_figures_and_leaves_foreign_files(project, outline):
    out = project.out
    assert (out / "mine.txt").read_text() == "mine"
    for path in (out.parents[2] / "figures" / "s").iterdir():
        assert (out / "figures" / path.name).read_bytes() == path.read_bytes()
    sizes = sorted((image["width"], image["height"]) for image, _ in outline.all("img"))
    assert sizes == [(str(40 + i), "20") for i in range(5)]


@pytest.mark.parametrize("length", [1, 60, 61, 400])
def test_a_curve_keeps_its_ends_and_no_point_is_made_up(length):
    losses = [place * 1.23456789 for place in range(length)]
    result = thinned({"step": [5 * place for place in range(length)], "loss": losses})
    assert list(result) == ["step", "loss"]
    assert len(result["step"]) == min(length, CURVE_POINTS)
    assert (result["step"][0], result["step"][-1]) == (0, 5 * (length - 1))
    gaps = {right - left for left, right in pairwise(result["step"])}
    assert max(gaps, default=0) - min(gaps, default=0) in (0, 5)
    values = [step / 5 * 1.23456789 for step in result["step"]]
    assert result["loss"] == pytest.approx(values, abs=5e-5)


def parts_of(outline):
    return {values["id"]: "open" in values for values, _ in outline.all("details")
            if values.get("class") == "part"}  # fmt: skip


def test_papers_are_a_sentence_where_nothing_of_them_can_be_compared(tmp_path):
    ours = measured([75.0], "not comparable", reason="toy-bert stands in; its settings differ")
    numbers = [number(76.0, ours), number(77.0, task="STS12", address="other")]
    rows = judged([system("simcse", [75.0])], runs=[run("simcse")], numbers=numbers)
    out = write_page(rows, tmp_path, tmp_path / "figures")
    outline = Outline((out / "index.html").read_text(encoding="utf-8"))
    assert parts_of(outline) == {"provenance": False}
    line = "2 numbers of 1 papers, none of which is comparable (toy-bert stands in)"
    assert f"{line}: CSV." in [text for _, text in outline.all("p")]
    assert len(outline.data["entries"]) == 1  # of the system


def test_toy_data_are_shown_where_they_deviate(tmp_path):
    same, lower = of_world("STS12", "reproduced", 60.0), of_world("STS13", "lower", 50.0)
    for world, shown in (([same], []), ([same, lower], ["world"])):
        rows = judged([system("simcse", [75.0])], runs=[run("simcse")], world=world)
        outline = Outline(
            (write_page(rows, tmp_path, tmp_path / "figures") / "index.html").read_text()
        )
        assert [name for name in parts_of(outline) if name == "world"] == shown
        assert any("scores of the toy data" in text for _, text in outline.all("p"))
