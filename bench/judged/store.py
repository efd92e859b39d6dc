"""The rows of a suite as files, `results/<suite>/judged/`: a cache of what judging makes.

Each file names what it is made of by checksums: results, plan, and the rule with the printed
numbers. Rows of anything else are not read, so nothing is lost with the folder. Only the workflow
writes it.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bench.judged.rows import FILES, Judged
from bench.utils.errors import UserError
from bench.utils.files import files_together, sha256_file, sha256_text, write_json
from bench.utils.validation import Model, explain, read_document

_BENCH = Path(__file__).parents[1]
# The packages and modules on which rows depend, printed numbers among them.
# Methods decide what the text of a run means.
_RULE = (
    "judge", "judged", "reported", "results", "runs", "registry", "../methods",
    "datasets/tasks.py", "datasets/metrics.py",
)  # fmt: skip
_RESULTS = ("plan.json", "scores/*.json", "items/*.npz", "analyses/*.json")
FAILURES = "runs/*/failure.json"  # of these only the place counts
REMEDY = "remove it, and the suite is judged again"


class _File(Model):
    key: str
    rows: Any


@cache
def rule_sum() -> str:
    """A checksum of the rule: its code and the printed numbers."""
    files: list[Path] = []
    for name in _RULE:
        path = _BENCH / name
        files += [path] if path.is_file() else path.glob("*.*")
    return sha256_text("".join(map(sha256_file, sorted(files))))


def key_of(suite_dir: Path) -> str:
    """A checksum of all that rows are made of."""
    sums = {"rule": rule_sum()}
    for pattern in _RESULTS:
        for path in sorted(suite_dir.glob(pattern)):
            sums[path.relative_to(suite_dir).as_posix()] = sha256_file(path)
    failed = sorted(path.parent.name for path in suite_dir.glob(FAILURES))
    return sha256_text(json.dumps([sums, failed]))


def write(judged: Judged, suite_dir: Path, key: str) -> None:
    """Write rows that were made of what has this key."""
    rows = judged.model_dump(mode="json")
    with files_together(suite_dir / "judged") as folder:
        for name in FILES:
            write_json(folder / f"{name}.json", {"key": key, "rows": rows[name]})


def read(suite_dir: Path, key: str) -> Judged | None:
    """Read rows; None if they are missing, or made of something else. `UserError` if a file is
    damaged."""
    folder = suite_dir / "judged"
    rows = {}
    for name in FILES:
        path = folder / f"{name}.json"
        if not path.is_file():
            return None
        file = read_document(path, _File, "a file of rows", REMEDY)
        if file.key != key:
            return None
        rows[name] = file.rows
    try:
        return Judged(**rows, folder=suite_dir)
    except ValidationError as error:
        damaged = folder / f"{error.errors()[0]['loc'][0]}.json"
        raise UserError(f"{damaged} has no valid rows ({explain(error)}); {REMEDY}") from None
