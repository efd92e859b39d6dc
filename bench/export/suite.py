"""Export of a suite's results, as a whole."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from bench.export.runs import read_runs
from bench.utils.errors import UserError
from bench.utils.files import atomic_folder


def export(suite_dir: Path, form: str, out: Path, only: Sequence[str] = ()) -> list[str]:
    """Write results of a suite to the folder `out`, whole or not at all; an earlier export there is
    replaced.

    Args:
        form: one of `EXPORT_FORMATS`.
        only: ids of runs; empty takes all that can be exported.

    Returns one sentence on each run that was left out. `UserError`: a named run or no run can be
    exported, or `out` holds other files.
    """
    if form == "mteb":
        from bench.export.mteb import write
    else:  # importing the library takes seconds
        from bench.export.folders import write

    runs, remarks = read_runs(suite_dir, only), list[str]()
    with atomic_folder(out, keep_others=True) as folder:
        for exported in runs:
            try:
                write(suite_dir, exported, folder)
            except Exception as error:  # of a library, too: the others are exported
                if only:
                    raise
                remark = f"{exported.run.id}: {error!r}"
                if isinstance(error, UserError):
                    remark = str(error)
                remarks.append(remark)
                shutil.rmtree(folder / exported.run.id, ignore_errors=True)
        if len(remarks) == len(runs):
            raise UserError(f"{suite_dir} has nothing to export; its first run: {remarks[0]}")
    return remarks
