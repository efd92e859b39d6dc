"""Results of a suite in formats that others read: model folders, mteb's results, tables, TensorBoard's curves.

`export` writes one folder, whole or not at all, with a list of its files and their sums in `export.json`. By that list
a later export knows what it may replace: a folder that holds anything else, or a file changed since, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from bench.export.runs import Exported, read_runs
from bench.utils.errors import UserError
from bench.utils.files import atomic_folder, read_json, sha256_file, write_json

MARK = "export.json"
# Each module has `write(suite, runs, folder, asked)`, which returns remarks for the user; `asked` says that the runs
# were named, so that one that cannot be exported is an error and not a remark.
KINDS = {
    "sentence-transformers": "bench.export.folders",
    "mteb": "bench.export.mteb",
    "table": "bench.export.table",
    "tensorboard": "bench.export.tensorboard",
}


def export(suite: Path, what: str, out: Path, only: Sequence[str] = ()) -> list[str]:
    """Write results of a suite to the folder `out`.

    Args:
        what: one of `KINDS`.
        only: identities of runs; empty takes all that have what it takes.

    Returns:
        Remarks: what was left out and why, each a sentence.

    Raises:
        UserError: the suite has no such run or nothing to export; a library is missing; `out` holds other files.
    """
    runs = read_runs(suite, only)
    _refuse_foreign(out)
    write: Callable[[Path, Sequence[Exported], Path, bool], list[str]] = import_module(KINDS[what]).write
    with atomic_folder(out, keep_others=True) as folder:
        remarks = write(suite, runs, folder, bool(only))
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        sums = {path.relative_to(folder).as_posix(): sha256_file(path) for path in files}
        write_json(folder / MARK, {"what": what, "suite": suite.resolve().name, "files": sums})
        _refuse_foreign(out)  # it may have changed meanwhile
    return remarks


def _refuse_foreign(out: Path) -> None:
    """Refuse a folder that holds anything but an export as it was written."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise UserError(f"--out {out} is no folder, and would be replaced by one; name another")
    if not out.exists() or not any(out.iterdir()):
        return
    written = None
    with suppress(UserError):  # no such file, or a damaged one
        written = read_json(out / MARK)
    sums = written.get("files") if isinstance(written, dict) else None
    if not isinstance(sums, dict):
        raise UserError(
            f"--out {out} holds files, and no whole {MARK} that says they are of an export; name another folder"
        )
    for path in sorted(path for path in out.rglob("*") if not path.is_dir() and path != out / MARK):
        known = sums.get(path.relative_to(out).as_posix())
        if known is None:
            raise UserError(f"{path} is not of an export, and would be deleted; name another folder with --out")
        if path.is_symlink() or known != sha256_file(path):
            raise UserError(f"{path} was changed since it was exported; name another folder with --out")
