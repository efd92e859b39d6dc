"""Export of a suite's results: sentence-transformers folders, mteb results, tables, TensorBoard
event files, verdicts, predictions of pairs, evaluation results of the hub.

`export` writes one folder atomically, with the checksums of its files in `export.json`. A later
export replaces the folder only if it holds exactly these files, unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path

from bench.export.runs import read_runs
from bench.utils.errors import UserError
from bench.utils.files import atomic_folder, read_json, sha256_file, write_json

MARK = "export.json"
# Each module has `write(suite_dir, runs, folder, requested)`, which returns remarks for the user.
# `requested` means that the runs were named, so that a run that cannot be exported is an error
# rather than a remark.
EXPORT_FORMATS = {
    "sentence-transformers": "bench.export.folders",
    "mteb": "bench.export.mteb",
    "table": "bench.export.table",
    "tensorboard": "bench.export.tensorboard",
    "verdicts": "bench.export.verdicts",
    "predictions": "bench.export.predictions",
    "eval-results": "bench.export.eval_results",
}


def export(
    suite_dir: Path, what: str, out: Path, only: Sequence[str] = (), benchmark: str | None = None
) -> list[str]:
    """Write results of a suite to the folder `out`.

    Args:
        suite_dir: folder of the suite.
        what: a key of `EXPORT_FORMATS`.
        out: folder to write; an earlier export there is replaced.
        only: ids of runs; empty takes all that can be exported.
        benchmark: for `eval-results`, the data set of the hub that is the benchmark.

    Returns:
        One sentence on each run that was left out.

    Raises:
        UserError: the suite has no such run or nothing to export, a library is missing, or `out`
            holds other files.
    """
    if benchmark and what != "eval-results":
        raise UserError(f"--benchmark is for eval-results, and --what is {what}; leave it out")
    runs = read_runs(suite_dir, only)
    _refuse_foreign(out)
    write: Callable[..., list[str]] = import_module(EXPORT_FORMATS[what]).write
    if what == "eval-results":
        write = partial(write, benchmark=benchmark)
    with atomic_folder(out, keep_others=True) as folder:
        remarks = write(suite_dir, runs, folder, bool(only))
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        sums = {path.relative_to(folder).as_posix(): sha256_file(path) for path in files}
        write_json(folder / MARK, {"what": what, "suite": suite_dir.resolve().name, "files": sums})
        _refuse_foreign(out)  # again: it may have changed in the meantime
    return remarks


def _refuse_foreign(out: Path) -> None:
    """Raise UserError if `out` holds anything but an unchanged export."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise UserError(f"--out {out} is not a folder; pass another path")
    if not out.exists() or not any(out.iterdir()):
        return
    sums = None
    with suppress(UserError, KeyError, TypeError, AttributeError):  # missing or damaged
        sums = dict(read_json(out / MARK)["files"].items())
    if sums is None:
        what = f"--out {out} is not empty and has no valid {MARK}, so it is not an export"
        raise UserError(f"{what}; pass another folder")
    for path in sorted(path for path in out.rglob("*") if not path.is_dir() and path != out / MARK):
        expected = sums.get(path.relative_to(out).as_posix())
        fault = ""
        if expected is None:
            fault = "is not part of the export and would be deleted"
        elif path.is_symlink() or expected != sha256_file(path):
            fault = "was changed since it was exported"
        if fault:
            raise UserError(f"{path} {fault}; pass another folder as --out")
