"""Export of a suite's results: sentence-transformers folders, mteb results, tidy tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from bench.export.runs import read_runs
from bench.utils.errors import UserError
from bench.utils.files import atomic_folder

# Each module has `write(suite_dir, runs, folder, requested)`, which returns remarks for the user.
# `requested` means that the runs were named, so that a run that cannot be exported is an error
# rather than a remark.
EXPORT_FORMATS = {
    "sentence-transformers": "bench.export.folders",
    "mteb": "bench.export.mteb",
    "table": "bench.export.table",
}


def export(suite_dir: Path, what: str, out: Path, only: Sequence[str] = ()) -> list[str]:
    """Write results of a suite to the folder `out`, whole or not at all.

    Args:
        suite_dir: folder of the suite.
        what: a key of `EXPORT_FORMATS`.
        out: folder to write; an earlier export there is replaced.
        only: ids of runs; empty takes all that can be exported.

    Returns:
        One sentence on each run that was left out.

    Raises:
        UserError: the suite has no such run or nothing to export, or `out` holds other files.
    """
    if out.is_symlink() or out.is_file():
        raise UserError(f"--out {out} is not a folder; pass another path")
    runs = read_runs(suite_dir, only)
    write: Callable[..., list[str]] = import_module(EXPORT_FORMATS[what]).write
    with atomic_folder(out, keep_others=True) as folder:
        return write(suite_dir, runs, folder, bool(only))
