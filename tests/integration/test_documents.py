"""Documents and comments refer to what exists: links, sections, files, tests."""

import ast
import csv
import re
from functools import cache
from pathlib import Path

import pytest

from tests.methods.outside import run_of
from tools import documents

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "config/README.md", "examples/README.md"]
DOCUMENTS += [f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")]
GONE = "which does not exist; write its new path or name"
RELEASED = "docs/released-code.csv"
COLUMNS = ["system", "repository", "point", "released", "ours", "same", "difference"]
VERDICTS = {"yes", "no", "shift", "own", "not confirmed"}
# Methods whose rows state their settings as the text of a run.
NEWER = {
    "focal-infonce", "mixcse", "simcse-plus-plus", "cot-bert", "rankcse", "diffcse", "sup-simcse",
    "cropping",
}  # fmt: skip
# docs/protocol.md names its tests as `package/file: test, test`.
PROTOCOL = r"`([\w-]+/\w+): (\w+)`((?:,\s+`\w+`)*)"


def text(path: str | Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def sections(path: str) -> set[str]:
    """Anchors of a document's headings, as GitHub forms them."""
    prose = re.sub(r"^```.*?^```$", "", text(path), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cache
def functions(path: str) -> set[str]:
    nodes = ast.walk(ast.parse(text(path)))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@cache
def names(path: str) -> set[str]:
    """Classes, functions and constants of a module, and methods as `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(text(path)).body:
        if isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            inner = (each for each in node.body if isinstance(each, ast.FunctionDef))
            found |= {node.name, *(f"{node.name}.{each.name}" for each in inner)}
    return found


def test_generated_tables_are_current() -> None:
    texts = [path.read_text(encoding="utf-8") for path in documents.DOCUMENTS]
    for path, content in zip(documents.DOCUMENTS, texts, strict=True):
        assert documents.current(content) == content, f"{path} is not current; run make documents"
    named = re.findall(r"<!-- generated: (.*?) -->", "\n".join(texts))
    assert sorted(named) == sorted(documents.TABLES)


def test_hyper_parameters_are_described() -> None:
    """The table of config/README.md shows what they mean."""
    for cls in documents.built_in():
        for key, field in cls.Hyper.model_fields.items():
            assert field.description, f"{cls.name}: '{key}' needs a description"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
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
def test_named_files_and_functions_exist(document: str) -> None:
    """Paths of the code in backticks, and `path::name`."""
    named = r"`((?:bench|methods|tests|rules|profiles|config|docs)/[\w./-]*)(?:::([\w.]+))?`"
    for path, name in re.findall(named, text(document)):
        assert (ROOT / path).exists(), f"{document} names {path}, {GONE}"
        if name and path.startswith("tests/"):
            assert name in functions(path), f"{document} names {path}::{name}, {GONE}"


@cache
def released() -> list[dict[str, str]]:
    with (ROOT / RELEASED).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_functions_beside_released_code_exist() -> None:
    """Our side of the rows is written `path:name`."""
    cells = "\n".join(row["ours"] for row in released())
    named = re.findall(r"\b((?:bench|methods)/[\w/]+\.py):([\w.]+)", cells)
    assert len(named) > 500
    for path, name in named:
        assert (ROOT / path).is_file(), f"{RELEASED} names {path}, {GONE}"
        assert name in names(path), f"{RELEASED} names {path}:{name}, {GONE}"


def test_rows_beside_released_code_are_whole() -> None:
    """Each cell is filled, `difference` unless both are the same; rows for each released code."""
    named = r"[\w-]+/[\w.-]+@(?:[0-9a-f]{7}|v[\d.]+)"
    assert len(released()) > 400
    for row in released():
        assert list(row) == COLUMNS, f"{RELEASED}: more than its columns: {row}"
        assert None not in row.values(), f"{RELEASED}: fewer than its columns: {row}"
        assert re.fullmatch(rf"{named}(; {named})*", row["repository"]), f"{RELEASED}: {row}"
        assert row["same"] in VERDICTS, f"{RELEASED}: {row}"
        assert all(row[column] for column in COLUMNS[:-1]), f"{RELEASED}: an empty cell: {row}"
        assert bool(row["difference"]) == (row["same"] != "yes"), f"{RELEASED}: {row}"
    sources = re.findall(r"^Paper: .*?\n\n", text("docs/methods.md"), re.DOTALL | re.MULTILINE)
    assert len(sources) > 20
    compared = {name for row in released() for name in row["repository"].split("; ")}
    missing = set(re.findall(named, "".join(sources))) - compared
    assert not missing, f"{RELEASED} has no row for {missing}"


def test_settings_beside_released_code_are_those_of_the_registry() -> None:
    """`method[key=released value]@setting on backbone` is the run without the keys."""
    cells = "\n".join(row["ours"] for row in released())
    stated = re.findall(r"([\w+-]+)\[([^]]+)\](@\w+) on ([\w-]+)", cells)
    assert len(stated) > 20
    assert {method for method, *_ in stated} >= NEWER
    for method, keys, setting, backbone in stated:
        run = run_of(f"{method}[{keys}]{setting}", backbone)
        assert run.id == run_of(method + setting, backbone).id, (
            f"{RELEASED}: ours is not {run.method}"
        )


def test_sections_named_in_comments_exist() -> None:
    """A comment that cites a document names a section by its anchor: docs/methods.md#gs-infonce."""
    folders = ("bench", "methods", "tests", "rules", "config")
    files = sorted(file for folder in folders for file in (ROOT / folder).rglob("*"))
    for file in files:
        if file.suffix not in (".py", ".smk", ".yaml") or file.samefile(__file__):
            continue
        content = file.read_text(encoding="utf-8")
        for document, section in re.findall(r"\b(docs/[\w-]+\.md)(?:#([\w-]+))?", content):
            assert (ROOT / document).is_file(), f"{file} cites {document}, {GONE}"
            known = not section or section in sections(document)
            assert known, f"{file}: {document} has no section #{section}"
        numbered = re.findall(r"methods\.md [a-e](?:\.\d+)?\b", content)
        assert not numbered, f"{file} has {numbered}; name the section: docs/methods.md#gs-infonce"


def test_tests_named_by_the_protocol_exist() -> None:
    rows = re.findall(PROTOCOL, text("docs/protocol.md"))
    assert len(rows) > 40
    for file, first, rest in rows:
        folder, _, stem = file.partition("/")
        path = f"tests/{folder}/test_{stem}.py"
        assert (ROOT / path).is_file(), f"docs/protocol.md names {path}, {GONE}"
        for name in [first, *re.findall(r"`(\w+)`", rest)]:
            assert f"test_{name}" in functions(path), f"docs/protocol.md: {path}: {name}, {GONE}"
