"""Whether the inputs of results have changed since.

The identity of a run has the names of evaluation data, of corpora and of models of the hub. In
BENCH_DATA and BENCH_MODELS a name can get other content. So results record checksums of their
inputs. Where test sets have changed, runs are scored again. A change of any other input is refused
before a run is trained.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from bench.datasets.corpora import MADE, is_fetched
from bench.datasets.labelled import read_scored, task_sums
from bench.datasets.manifest import listed_task
from bench.download.hub import local_folder
from bench.download.sums import file_sum
from bench.results.records import Provenance, read_analyses, read_scores, read_trained
from bench.runs import STAGES, paths
from bench.runs.run import Run
from bench.utils.errors import UserError
from bench.utils.files import read_settings, write_json


class Inputs(paths.Files):
    """The content behind the names of a suite's inputs now. Each input is read once."""

    def __init__(self, suite: Path, data: str, local: bool = False) -> None:
        """Describe the evaluation data; if `local`, only what is here and can change."""
        super().__init__(suite, data)
        self.folder: Path | None = None
        if not local:
            self.folder = self.data
        elif data != "world":
            self.folder = paths.local_data(data)
        self.described: dict[str, Any] = paths.describe_data(self.folder) if self.folder else {}
        self._corpus_sum, self._task_sums = cache(self._read_corpus), cache(self._read_task)

    def check_made(self, run: Run, origin: Provenance) -> None:
        """Refuse the result of a run if its corpora, models or dev sets have changed; `origin` is
        the provenance of the result. Results without sums, of older versions, are trusted."""
        for name, corpus in zip(run.corpora, origin.corpora, strict=False):
            if self._corpus_sum(name) not in (None, corpus.sha256):
                self._refuse(f"corpus {name}", run)
        if origin.files:
            files = paths.file_sums(run, self)
            for name, digest in origin.files.items():
                if files.get(name, digest) != digest:
                    self._refuse(name, run)
        # A test set is only scored, so the run can be scored again. A dev set selected the weights.
        changed = self.changed_sets(origin)
        for task in run.selection:
            if (task, "dev") in changed:
                self._refuse(changed[task, "dev"], run)

    def _refuse(self, name: str, run: Run) -> None:
        raise UserError(
            f"{name} is not the one that {run.id} in {self.suite} was made with; restore it, or "
            "give the suite another name to train again"
        )

    def changed_sets(self, origin: Provenance) -> dict[tuple[str, str], str]:
        """The files of the sets that have changed since a result was made, by task and split."""
        changed: dict[tuple[str, str], str] = {}
        # Equal checksums over all files of the folder save reading the tasks.
        if not self.folder or self.described == origin.data.as_written():
            return changed
        for task, splits in origin.tasks.items():
            sums = self._task_sums(task, self.folder)
            for split, digest in splits.items():
                if sums.get(split, digest) != digest:
                    file = listed_task(task, self.folder).file(split)
                    changed[task, split] = str(self.folder / file)
        return changed

    def _read_corpus(self, name: str) -> str | None:
        """The checksum of a corpus that only its name identifies; None for one of the hub."""
        is_local = self.folder if name in MADE else is_fetched(name) and local_folder()
        return file_sum(self.corpus(name)) if is_local else None

    def _read_task(self, name: str, folder: Path) -> dict[str, str]:
        """Checksums of the splits of a task; none if it cannot be read."""
        with suppress(UserError):
            return task_sums(read_scored(name, folder))[name]
        return {}


def lacks_seeds(run: Run, origin: Provenance) -> bool:
    """Whether a run was scored with fewer seeds of its classifiers than suites have now."""
    return not {*run.further_seeds(origin.tasks)} <= {*origin.probe_seeds}


def compare(
    runs: Sequence[Run], suite: Path, write: bool = True
) -> tuple[list[str], dict[str, bool]]:
    """Compare results with their inputs for the workflow, which compares only times of files.

    If `write`, changed data get a new stamp, and scores that lack seeds become older than the
    stamp, so that Snakemake makes them again.

    Returns:
        The files of sets that have changed since runs were scored or analysed. For each result
        that is older than its inputs, as in a copied suite, whether its sums equal the sums of
        the inputs.

    Raises:
        UserError: an input of a training has changed.
    """
    changed, older = set[str](), dict[str, bool]()
    inputs = Inputs(suite, runs[0].data, local=True)
    stamp = suite / "inputs" / "data.json"
    data, description = read_settings(stamp), {"kind": "data", **inputs.described}
    if data and inputs.folder and data != description:
        data = description
        if write:
            write_json(stamp, data)
    stamps = sorted(stamp.parent.glob("*.json"))
    for run in runs:
        train, score, analyse = (paths.result_file(suite, run.id, stage) for stage in STAGES)
        outcome = None
        if train.is_file():
            trained = read_trained(train)
            outcome = trained.outcome
            inputs.check_made(run, trained.provenance)
        before = [path.stat().st_mtime for path in (*stamps, train) if path.is_file()]
        for file, read_document in (score, read_scores), (analyse, read_analyses):
            if not file.is_file():
                continue
            origin = read_document(file).provenance
            inputs.check_made(run, origin)
            sets = inputs.changed_sets(origin)
            changed |= {*sets.values()}
            is_lacking = lacks_seeds(run, origin)
            if is_lacking and write:
                os.utime(file, (1, 1))
            if file.stat().st_mtime < max(before, default=0):
                has_sets = inputs.folder and origin.tasks
                # Sums of sets say whether they changed. Results without sums are trusted if the
                # folder is as described.
                is_same = has_sets or data == {"kind": "data", **origin.data.as_written()}
                is_stale = sets or is_lacking or outcome not in (None, origin.outcome)
                older[str(file)] = is_same and not is_stale
    return sorted(changed), older
