"""Documents and comments refer to what exists: links, sections, files, functions, tests."""

import ast
import csv
import re
from functools import cache
from pathlib import Path

import pytest

from bench.registry.methods import method_classes
from bench.report import leaderboard
from bench.report.comparison_table import pairs_frame, printed_frame
from bench.report.tables import number_frame
from bench.runs.run import Recipe
from tests.support.method_runs import run_of
from tests.support.programs import ROOT
from tools import documents

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "examples/README.md"]
DOCUMENTS += [str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")]
GONE = "which does not exist; write its new path or name"
RELEASED = "docs/reference/released-code.csv"


def text(path: str | Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def sections(path: str) -> set[str]:
    """Anchors of a document's headings."""
    prose = re.sub(r"^```.*?^```$", "", text(path), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {documents.anchor(heading) for heading in headings}


@cache
def definitions(path: str) -> dict[str, ast.AST]:
    """Classes, functions and constants of a module, and methods as `Class.method`."""
    nodes: dict[str, ast.AST] = {}
    for node in ast.parse(text(path)).body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        nodes |= {target.id: node for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            nodes[node.name] = node
            for method in node.body:
                nodes[f"{node.name}.{getattr(method, 'name', '')}"] = method
    return nodes


def test_generated_tables_are_current():
    texts = [path.read_text(encoding="utf-8") for path in documents.DOCUMENTS]
    for path, content in zip(documents.DOCUMENTS, texts, strict=True):
        assert documents.current(content) == content, f"{path} is not current; run make documents"
    names = re.findall(r"<!-- generated: (.*?) -->", "\n".join(texts))
    assert {*documents.TABLES} == {*names}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    for link in re.findall(r"\]\(([^)\s]+)\)", text(document)):
        if link.startswith(("http:", "https:")):
            continue
        path, _, section = link.partition("#")
        target = (ROOT / document).parent / path if path else ROOT / document
        assert target.exists(), f"{document} links to {link}, which does not exist"
        if section:
            name = str(target.resolve().relative_to(ROOT.resolve()))
            assert section in sections(name), f"{document} links to {link}: {name} has no such one"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_files_and_functions_exist(document):
    """Paths of the code in backticks, and `path::name`."""
    place = r"`((?:bench|methods|tests|rules|profiles|config|docs)/[\w./-]*)(?:::([\w.]+))?`"
    for path, name in re.findall(place, text(document)):
        assert (ROOT / path).exists(), f"{document} names {path}, {GONE}"
        assert not name or name in definitions(path), f"{document} names {path}::{name}, {GONE}"


def test_differences_from_released_code_have_notes_and_keys():
    classes = method_classes()
    for row in documents.released().to_dict("records"):
        assert row["note"] or row["same"] == "yes", row
        assert (row["moves"] in ("yes", "no", "unknown")) == (row["same"] == "no"), row
        assert row["tag"] in ("paper", "code", "log", "interpretation", "recalled"), row
        assert row["key"] or row["tag"] != "interpretation", row
        if row["key"]:
            fields = classes[row["system"]].Hyper.model_fields.keys() | Recipe.model_fields
            assert row["key"] in fields, row


def test_functions_beside_released_code_exist():
    """Our side of the rows is written `path:name`."""
    cells = "\n".join(documents.released()["ours"])
    places = re.findall(r"\b((?:bench|methods)/[\w/]+\.py):([\w.]+)", cells)
    assert places
    for path, name in places:
        assert name in definitions(path), f"{RELEASED} names {path}:{name}, {GONE}"


def test_settings_beside_released_code_are_those_of_the_registry():
    """`method[key=released value]@setting on backbone` is the run without the keys."""
    cells = "\n".join(documents.released()["ours"])
    stated = re.findall(r"([\w+-]+)\[([^]]+)\](@\w+) on ([\w-]+)", cells)
    assert stated
    for method, keys, setting, backbone in stated:
        run = run_of(f"{method}[{keys}]{setting}", backbone)
        assert run.id == run_of(method + setting, backbone).id, (
            f"{RELEASED}: ours is not {run.method}"
        )


def test_sections_named_in_comments_exist():
    """A comment that cites a document names a section by its anchor:
    docs/reference/methods.md#gs-infonce."""
    files = [ROOT / "bench", ROOT / "methods", ROOT / "tests", ROOT / "rules", ROOT / "config"]
    for file in (file for folder in files for file in folder.rglob("*")):
        if file.suffix in (".py", ".smk", ".yaml") and not file.samefile(__file__):
            cited = re.findall(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?", file.read_text("utf-8"))
            for document, section in cited:
                assert (ROOT / document).is_file(), f"{file} cites {document}, {GONE}"
                assert not section or section in sections(document), f"{file}: {document}#{section}"


def test_tests_of_the_protocol_exist():
    for row in csv.DictReader(text("tests/integration/protocol_tests.csv").splitlines()):
        assert row["section"] in sections("docs/reference/protocol.md"), row
        path, _, name = row["test"].partition("::")
        assert name in definitions(path), f"{row['test']}, {GONE}"


def test_columns_of_files_are_in_the_document():
    judged = documents.wiki_mini()
    sts = re.compile("|".join(judged.suite.leaderboard("sts").columns))
    written = {
        "Leaderboards": [sts.sub("TASK", name) for name in leaderboard.frame(judged)],
        "Comparisons": pairs_frame(judged.pairs),
        "Printed gains": printed_frame(judged.pairs),
        "Printed numbers": number_frame(judged.numbers),
    }
    document = text("docs/reference/files.md")
    for section, columns in written.items():
        table = document.partition(f"### {section}\n")[2].partition("\n#")[0]
        cells = re.findall(r"^\* (`.*?`):", table, re.MULTILINE | re.DOTALL)
        assert {*re.findall("`(.+?)`", "".join(cells))} == {*columns}, section


def test_environment_variables_are_in_the_document():
    document = text("docs/reference/files.md").partition("## Environment variables")[2]
    reads = r"environ(?:\.get|\.setdefault)?[\[(]\"(\w+)|\b((?:SENT)?BENCH_[A-Z_]+)\b"
    for folder in ("bench", "methods", "rules", "tests/reported"):
        for file in (ROOT / folder).rglob("*.*"):
            if file.suffix in (".py", ".smk"):
                for match in re.finditer(reads, file.read_text("utf-8")):
                    name = match[1] or match[2]
                    assert f"`{name}`" in document, f"{file} reads {name}"
