"""An archive of a suite: everything that its tables, figures and page are made of, in one file.

It holds the plan and configuration, scores, outcomes and analyses with their provenance, stamps of
inputs and logs; not the data, and encoders only on request. The same files give the same bytes:
members are sorted, and have no times and owners. Logs and provenance name folders and the machine.
"""

from __future__ import annotations

import gzip
import os
import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path

from bench.download.fetch import unpack
from bench.results.suite_results import read_suite
from bench.utils.errors import UserError
from bench.utils.files import atomic_file, atomic_folder

ENDING = ".tar.gz"
# Patterns in a suite's folder; `runs/` also holds checkpoints and vectors of unfinished work.
CONTENT = ["plan.json", "config.yaml", "inputs/*.json", "trained/*.json", "scores/*.json"]
CONTENT += ["analyses/*.json", "logs/**/*.log", "runs/*/log.jsonl", "runs/*/outcome.json"]
WEIGHTS = ["runs/*/encoder/**/*"]
OF_RUNS = ("trained", "scores", "analyses", "runs")  # folders whose entries are named by runs


def pack(suite: Path, out: Path, weights: bool = False) -> None:
    """Write an archive of a suite.

    Args:
        suite: its folder.
        out: the file to write, which ends in `ENDING`.
        weights: whether to include the encoders of trained runs.

    Raises:
        UserError: the suite has no plan, a result of it is damaged, `out` has another ending, or it
            cannot be written.
    """
    if not out.name.endswith(ENDING):
        raise UserError(f"--out is '{out}'; its ending must be {ENDING}")
    content = read_suite(suite)  # raises if its results cannot be shown again
    planned = {run.plan["id"] for run in content.runs}
    with (
        atomic_file(out) as temporary,
        open(temporary, "wb") as raw,
        gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in _files(suite, weights, planned):
            member = tarfile.TarInfo(path.relative_to(suite).as_posix())
            with open(path, "rb") as file:
                member.size = os.fstat(file.fileno()).st_size
                tar.addfile(member, file)


def _files(suite: Path, weights: bool, planned: Collection[str]) -> Iterator[Path]:
    patterns = CONTENT + WEIGHTS * weights
    found = {path for pattern in patterns for path in suite.glob(pattern)}
    for path in sorted(found):
        folder, *names = path.relative_to(suite).parts
        if folder in OF_RUNS and names[0].removesuffix(".json") not in planned:
            continue  # results of earlier plans stay in the folder, and are no part of the suite
        if path.is_file():  # or a link to one, which tables follow, too
            yield path


def unpack_suite(archive: Path, folder: Path) -> None:
    """Unpack an archive of a suite as the new folder of the suite.

    Raises:
        UserError: the archive or a result in it is damaged, it is none of a suite, or has a member
            that leads out of the folder; or the folder exists. Nothing is written then.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"--out {folder} exists; name a new folder for the archive's suite")
    with atomic_folder(folder) as temporary:
        unpack(archive, temporary, "name a suite's folder, or pack the suite again")
        if not (temporary / "plan.json").is_file():
            raise UserError(f"{archive} has no plan.json, so it is no archive of a suite")
        try:
            read_suite(temporary)
        except UserError as error:
            what = str(error).replace(f"{temporary}{os.sep}", "").partition("; ")[0]
            raise UserError(f"{archive}: {what}; pack the suite again") from None
