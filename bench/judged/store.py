"""The rows of a suite as a file, `results/<suite>/judged.json`: a cache of what judging makes.

It names what it is made of by a checksum: results, plan, and the rule with the printed numbers; and
the rows themselves. Rows of anything else, and damaged ones, are not read: nothing is lost with the
file. Only the workflow writes it.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from bench.judged.rows import Judged
from bench.utils.errors import errors_of
from bench.utils.files import sha256_file, sha256_text, write_json
from bench.utils.validation import StrictModel, read_document, validated

FILE = "judged.json"
_BENCH = Path(__file__).parents[1]
# The packages and modules on which rows depend, printed numbers among them.
# Methods decide what the text of a run means.
_RULE = (
    "judge", "judged", "reported", "results", "runs", "registry", "../methods",
    "datasets/tasks.py", "datasets/tasks.toml", "datasets/metrics.py",
)  # fmt: skip
_RESULTS = ("plan.json", "scores/*.json", "items/*.npz", "analyses/*.json")
_FAILURES = "runs/*/failure.json"  # of these only the place counts
_REMEDY = "remove it, and the suite is judged again"


class _Content(StrictModel):
    key: str
    rows: dict[str, Any]  # of any version, as long as the key is not compared


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
    failed = sorted(path.parent.name for path in suite_dir.glob(_FAILURES))
    return sha256_text(json.dumps([sums, failed]))


def _sealed(key: str, rows: dict[str, Any]) -> str:
    return sha256_text(json.dumps([key, rows]))


def write(judged: Judged, suite_dir: Path, key: str) -> None:
    """Write rows that were made of what has this key."""
    rows = judged.model_dump(mode="json")
    write_json(suite_dir / FILE, {"key": _sealed(key, rows), "rows": rows})


def read(suite_dir: Path, key: str) -> Judged | None:
    """Read rows; None if they are missing, changed, or made of something else. `UserError` if the
    file is damaged."""
    path = suite_dir / FILE
    if not path.is_file():
        return None
    content = read_document(path, _Content, "a file of rows", _REMEDY)
    if content.key != _sealed(key, content.rows):
        return None
    with errors_of(f"{path} has no valid rows; {_REMEDY}"):
        return validated(Judged, content.rows | {"folder": suite_dir})
