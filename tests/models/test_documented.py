"""docs/encoders.md lists what is read of a folder and what is refused, as the code has it."""

import ast
import re
from pathlib import Path

import pytest

from bench.download.hub import BACKBONE_FILES
from bench.models import load, transformer
from bench.registry import backbones
from bench.utils import files

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "encoders.md").read_text(encoding="utf-8")
# Where folders are refused.
CHECKS = {
    transformer: [
        "check_folder",
        "refuse_pickled",
        "check_adapter",
        "merged",
        "_check_fit",
        "_probe",
    ],
    backbones: ["folder_kind", "refuse_unread", "refuse_adapter", "adapter_base"],
    load: ["read_modules"],
    files: ["refuse_pointer"],
}


def rows(title):
    """The first cells of a section's table."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)


def messages():
    """The sentences of the errors that `CHECKS` raise, with `*` for what a run fills in."""
    found = []
    for module, names in CHECKS.items():
        for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name in names:
                raised = [part.exc for part in ast.walk(node) if isinstance(part, ast.Raise)]
                for error in raised:
                    parts = getattr(error.args[0], "values", [error.args[0]])
                    found.append(
                        "".join(
                            getattr(part, "value", "*") if isinstance(part, ast.Constant) else "*"
                            for part in parts
                        )
                    )
    return found


def test_the_files_are_those_that_are_fetched_and_those_of_saved_encoders():
    named = [
        name for cell in rows("What is read of a folder") for name in re.findall("`(.*?)`", cell)
    ]
    assert sorted(named) == sorted({*BACKBONE_FILES, backbones.SAVED})


@pytest.mark.parametrize("message", messages())
def test_each_refusal_has_a_row(message):
    assert [row for row in rows("What is refused") if row.strip("`") in message]


def test_each_row_is_a_refusal():
    for row in rows("What is refused"):
        assert [message for message in messages() if row.strip("`") in message], row
