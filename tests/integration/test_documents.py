"""Documents and comments refer to what exists: links, sections, files, tests."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "config/README.md",
    *(f"docs/{x.name}" for x in (ROOT / "docs").glob("*.md")),
]
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
            assert section in sections(name), (
                f"{document} links to {link}, but {name} has no such section"
            )


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_files_and_functions_exist(document: str) -> None:
    """Paths of the code in backticks, and `path::name`."""
    for path, name in re.findall(
        r"`((?:bench|methods|tests|rules|profiles|config|docs)/[\w./-]*)(?:::([\w.]+))?`",
        text(document),
    ):
        assert (ROOT / path).exists(), (
            f"{document} names {path}, which does not exist; write its new path"
        )
        if name and path.startswith("tests/"):
            assert name in functions(path), (
                f"{document} names {path}::{name}, which does not exist; write its new name"
            )


def test_sections_named_in_comments_exist() -> None:
    """A comment that cites a document names a section by its anchor: docs/methods.md#gs-infonce."""
    folders = ("bench", "methods", "tests", "rules", "config")
    files = [
        file
        for folder in folders
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".py", ".smk", ".yaml")
    ]
    for name in sorted(
        {str(file.relative_to(ROOT)) for file in files} - {"tests/integration/test_documents.py"}
    ):
        for document, section in re.findall(r"\b(docs/[\w-]+\.md)(?:#([\w-]+))?", text(name)):
            assert (ROOT / document).is_file(), f"{name} cites {document}, which does not exist"
            assert not section or section in sections(document), (
                f"{name}: {document} has no section #{section}"
            )
        numbered = re.search(r"methods\.md [a-e](?:\.\d+)?\b", text(name))
        assert not numbered, (
            f"{name} cites '{numbered and numbered[0]}'; name the section: docs/methods.md#gs-infonce"
        )


def test_tests_named_by_the_protocol_exist() -> None:
    rows = re.findall(PROTOCOL, text("docs/protocol.md"))
    assert len(rows) > 50
    for file, first, rest in rows:
        folder, _, stem = file.partition("/")
        path = f"tests/{folder}/test_{stem}.py"
        assert (ROOT / path).is_file(), (
            f"docs/protocol.md names {path}, which does not exist; write its new path"
        )
        for name in [first, *re.findall(r"`(\w+)`", rest)]:
            assert f"test_{name}" in functions(path), (
                f"docs/protocol.md: {path} has no test_{name}; write its new name"
            )
