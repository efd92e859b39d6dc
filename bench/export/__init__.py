"""Export of a suite's results: sentence-transformers folders, mteb results, tidy tables."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from bench.utils.errors import UserError
from bench.utils.files import atomic_folder

EXPORT_FORMATS = ("sentence-transformers", "mteb", "table")


def export(suite_dir: Path, form: str, out: Path, only: Sequence[str] = ()) -> list[str]:
    """Write results of a suite to the folder `out`, whole or not at all.

    Args:
        suite_dir: folder of the suite.
        form: one of `EXPORT_FORMATS`.
        out: folder to write; an earlier export there is replaced.
        only: ids of runs; empty takes all that can be exported.

    Returns:
        One sentence on each run that was left out.

    Raises:
        UserError: a named run or no run can be exported, or `out` holds other files.
    """
    from bench.export import folders, scores
    from bench.export.runs import read_runs

    runs = read_runs(suite_dir, only)
    remarks: list[str] = []
    with atomic_folder(out, keep_others=True) as folder:
        if form == "table":
            scores.write_tables(suite_dir, runs, folder)
            return []
        write = scores.write_mteb if form == "mteb" else folders.write
        for exported in runs:
            try:
                write(suite_dir, exported, folder)
            except UserError as error:
                if only:
                    raise
                remarks.append(str(error))
                shutil.rmtree(folder / exported.run.id, ignore_errors=True)
        if len(remarks) == len(runs):
            raise UserError(f"{suite_dir} has nothing to export; its first run: {remarks[0]}")
    return remarks
