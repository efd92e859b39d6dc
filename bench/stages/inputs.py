"""Whether results are of what stands behind the names of their inputs now.

The identity of a run has the names of evaluation data, of corpora and of models of the hub. In
BENCH_DATA and BENCH_MODELS a name can get other content. Results record checksums of what they
read. Where test sets have changed, runs are scored again. Where anything else has changed, that is
refused before a run is trained.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import product
from pathlib import Path

from bench.datasets.corpora import MADE, is_fetched
from bench.datasets.labelled import read_scored, task_sums
from bench.datasets.manifest import listed_task
from bench.download.hub import local_folder
from bench.download.sums import file_sum
from bench.results.records import (
    Analyses,
    Provenance,
    Scores,
    Trained,
    read_analyses,
    read_scores,
    read_trained,
)
from bench.runs import paths
from bench.runs.run import Run
from bench.utils.errors import UserError
from bench.utils.files import read_json, read_settings, write_json

READERS: Mapping[str, Callable[[Path], Trained | Scores | Analyses]] = {
    "train": read_trained, "score": read_scores, "analyse": read_analyses,
}  # fmt: skip


def local_data(name: str) -> Path | None:
    """The folder of evaluation data that can change: BENCH_DATA, or a path."""
    folder = local_folder() if name == "senteval" else Path(name)
    has_files = name != "world" and folder and (folder / "downstream").is_dir()
    return folder if has_files else None


class Inputs:
    """What stands behind the names of a suite's inputs now. Each input is read once."""

    def __init__(self, suite: Path, data: str, folder: Path | None) -> None:
        """Take the name of the evaluation data, and their folder if they are here."""
        self.suite, self.data, self.folder = suite, data, folder
        self.stamp = paths.describe_input("data", data, suite) if folder else {}
        self._corpus_sum, self._task_sums = cache(self._read_corpus), cache(self._read_task)

    def check_made(self, run: Run, origin: Provenance) -> None:
        """Refuse the result of a run if its corpora, models or dev sets have changed; `origin` is
        the provenance of the result."""
        for name, recorded in zip(run.corpora, origin.corpora, strict=False):
            if self._corpus_sum(name) not in (None, recorded.sha256):
                self._refuse(f"corpus {name}", run)
        if origin.files:
            files = paths.named_files(run, self.suite)
            for name, digest in origin.files.items():
                if files.get(name, digest) != digest:
                    self._refuse(name, run)
        changed = self.changed_sets(origin) if run.trained else {}
        for task in run.recipe.selection:
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
        if not self.folder or self.stamp == {"kind": "data", **origin.data.as_written()}:
            return changed
        for task, splits in origin.tasks.items():
            present = self._task_sums(task, self.folder)
            for split, digest in splits.items():
                if present.get(split, digest) != digest:
                    file = listed_task(task, self.folder).file(split)
                    changed[task, split] = str(self.folder / file)
        return changed

    def _read_corpus(self, name: str) -> str | None:
        """The checksum of a corpus that only its name identifies; None for one of the hub."""
        is_local = self.folder if name in MADE else is_fetched(name) and local_folder()
        return file_sum(paths.corpus_file(name, self.suite, self.data)) if is_local else None

    def _read_task(self, name: str, folder: Path) -> dict[str, str]:
        """Checksums of the splits of a task; none if it cannot be read."""
        with suppress(UserError):
            return task_sums(read_scored(name, folder))[name]
        return {}


def renew(runs: Sequence[Run], suite: Path) -> list[str]:
    """Prepare results for the workflow, which compares times of files.

    The stamp of the data is written again if the data have changed. Results that are older than
    their inputs, as in a copied suite, get a new time if they are of these inputs.

    Returns:
        The files of sets that have changed since runs were scored or analysed.

    Raises:
        UserError: what a training read has changed.
    """
    data_name, changed = runs[0].data, set[str]()
    inputs = Inputs(suite, data_name, local_data(data_name))
    stamp = suite / "inputs" / "data.json"
    data = read_settings(stamp)
    if data and inputs.stamp not in ({}, data):
        data = inputs.stamp
        write_json(stamp, data)
    stamps = sorted(stamp.parent.glob("*.json"))
    for run, stage in product(runs, READERS):
        file = paths.result_file(suite, run.id, stage)
        if not file.is_file():
            continue
        origin = READERS[stage](file).provenance
        inputs.check_made(run, origin)
        if stage == "train":
            continue
        sets = inputs.changed_sets(origin)
        changed |= {*sets.values()}
        trained = paths.result_file(suite, run.id, "train")
        times = [path.stat().st_mtime for path in (*stamps, trained) if path.is_file()]
        if sets or file.stat().st_mtime >= max(times, default=0):
            continue
        has_sets = inputs.folder and origin.tasks
        is_same = has_sets or data == {"kind": "data", **origin.data.as_written()}
        ended = read_trained(trained).outcome if trained.is_file() else origin.outcome
        if is_same and ended == origin.outcome:
            write_json(file, read_json(file))  # newly, also if somebody else owns it
    return sorted(changed)
