"""Verification of a result: its scores are recomputed from its encoder on its tasks.

With the same versions, device and arithmetic, scores must be equal bit for bit. Otherwise rounding
differs, and each score may differ by a tolerance that follows from its metric and its number of
items (`tolerances`). Files are written only to a temporary folder.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
import torch

from bench.datasets.labelled import task_sums
from bench.datasets.manifest import manifest
from bench.datasets.metrics import PROBE_SEED, REST, UNSEEN
from bench.datasets.sts import StsTask
from bench.datasets.tasks import AVERAGED, NESTED
from bench.evaluation.scoring import ReadTask, read_tasks, score_encoder
from bench.models.defaults import computing
from bench.models.encoder import Encoder
from bench.models.load import Model
from bench.results.provenance import provenance
from bench.results.records import Provenance, Record, ScoreDocument, read_scores, read_trained
from bench.runs import paths
from bench.runs.run import Run, identity_of
from bench.stages.jobs import run_encoder
from bench.training.checkpoint import trained_encoder
from bench.utils.errors import UserError, errors_of
from bench.utils.validation import validated

# Points by which rounding may change a correlation. Cosines of float32 vectors have an error of
# about e = 1e-6. Of n pairs with similarities spread over a range of 1, about n^2 e pairs of ranks
# are then swapped. Each swap changes the correlation by at most 12 / (n (n + 1)): 0.0012 points in
# total, even if all changes had the same sign.
CORRELATION = 0.01
# Samples whose predicted label may change with vectors of that error. Measured with 4-layer
# encoders on TREC, MRPC and CR and on probing and transfer tasks of the generated language:
# relative errors of 1e-6 and 1e-5 changed none.
ITEMS = 1
HUNDREDTH = 0.01  # accuracies are rounded to it, as in SentEval; averages are of rounded scores

# Columns of the report, and how their numbers are written.
FORMATTERS = {
    "stored": "{:.4f}".format,
    "recomputed": "{:.4f}".format,
    "difference": "{:+.2g}".format,
    "tolerance": "{:.2g}".format,
}
Cell = tuple[str, str, str, str]
CELL = ["task", "split", "metric", "aggregation"]


@dataclass(frozen=True)
class Verification:
    """A result beside what is computed now."""

    result: Path  # the file
    # `stored` and `recomputed` points by cell, NaN on a side without a score, and `tolerance`.
    scores: pd.DataFrame
    differences: Sequence[tuple[str, Any, Any]]  # of the provenance: name, stored, present value
    faults: Sequence[str]  # against confirmation even if all scores are equal, as clauses

    @property
    def differing(self) -> pd.DataFrame:
        """The scores that are not equal bit for bit."""
        return self.scores[self.scores["stored"] != self.scores["recomputed"]]

    @property
    def outside(self) -> pd.DataFrame:
        """The scores that differ by more than rounding, or that one side lacks."""
        distances = (self.scores["stored"] - self.scores["recomputed"]).abs()
        return self.scores[~(distances <= self.scores["tolerance"])]

    @property
    def confirmed(self) -> bool:
        return not self.faults and self.outside.empty

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        count, differing, outside = map(len, (self.scores, self.differing, self.outside))
        summary = f"all {count} scores are equal bit for bit"
        if outside:
            summary = f"{outside} of {count} scores differ by more than rounding"
        elif differing:
            summary = f"{differing} of {count} scores differ, each within its tolerance"
        word = "confirmed" if self.confirmed else "not confirmed"
        return f"{word}: {'; '.join([*self.faults, summary])}"

    def report(self) -> str:
        """The differing scores, the differences of the provenance, and the verdict."""
        lines, shown = [str(self.result)], self.differing
        if len(shown):
            shown = shown.assign(difference=shown["recomputed"] - shown["stored"])
            shown.index = pd.Index(" ".join(cell).removesuffix(" all") for cell in shown.index)
            table = shown.to_string(columns=[*FORMATTERS], formatters=FORMATTERS, na_rep="none")
            lines += table.split("\n")
        lines += [f"{name}: {then}, now {now}" for name, then, now in self.differences]
        return "\n  ".join([*lines, self.verdict])


def verify(
    result: Path, suite: Path | None = None, data: str | None = None, device: str = "cpu"
) -> Verification:
    """Score a result's encoder again on the same tasks, mode, data and number of threads.

    Args:
        result: scores/<run id>.json of a suite, or a file of `score_model`.
        suite: the suite with the run's encoder; by default the one that contains `result`.
        data: as `paths.data_folder` takes it; by default what the result names.
        device: torch device.
    """
    read = read_scores(result)
    described, outcome = read.provenance, read.provenance.outcome
    if outcome.status != "finished" or not read.records:
        raise UserError(
            f"{result} holds no scores to verify, since its run was {outcome.status} "
            f"({outcome.reason}); name a result that has some"
        )
    suite = suite or result.absolute().parent.parent
    with errors_of(f"the data of {result}"):
        folder = paths.data_folder(data or described.run.data or described.data.folder)
    names = dict.fromkeys(record.task for record in read.records) | dict.fromkeys(described.tasks)
    names.pop("Avg", None)
    # As in the result, at most the machine's CPUs.
    threads = min(described.device.threads or 1, os.cpu_count() or 1)
    as_then = computing(threads, "warn" if described.arithmetic.deterministic else "default")
    with tempfile.TemporaryDirectory(prefix="sentbench-verify-") as work, as_then:
        tasks = read_tasks(list(names), folder)
        encoder = _encoder(described, result, suite, Path(work) / "suite", device)
        scored, _ = score_encoder(
            encoder, tasks, described.mode, device, Path(work) / "scoring", described.probe_seeds
        )
        now = provenance(device, torch.get_num_threads())
    then = described.as_written()
    differences = []
    for part in ("code", "versions", "device", "arithmetic"):
        for name in then[part] | now[part]:
            stored, present = then[part].get(name), now[part].get(name)
            if stored != present:
                differences.append((f"{part}, {name}", stored, present))
    # Another commit alone changes no last bits.
    allowed: dict[Cell, float] = {}
    if not all(name.startswith("code, ") for name, *_ in differences):
        allowed = tolerances(tasks)
    # Which items were read before depends on corpora, which may not be here.
    records = [
        record.as_written() for record in read.records if record.aggregation not in (UNSEEN, REST)
    ]
    scores = pd.concat({"stored": _points(records), "recomputed": _points(scored)}, axis=1)
    # Of a further seed of the classifiers that of their score "all".
    whole = ((*cell[:3], cell[3].partition(PROBE_SEED)[0] or "all") for cell in scores.index)
    scores["tolerance"] = [allowed.get(cell, 0.0) for cell in whole]
    faults = _faults(read, suite, folder, tasks, encoder)
    return Verification(result, scores, differences, list(faults))


def _points(records: Sequence[Record]) -> pd.Series:
    return pd.DataFrame(records).set_index(CELL)["value"].astype(float)


def tolerances(tasks: Sequence[ReadTask]) -> dict[Cell, float]:
    """The points by which different rounding may change each score of some tasks.

    * Correlation of n pairs: `CORRELATION`, or one swap of neighbouring ranks, at most
      1200 / (n (n + 1)), if that is larger (below 346 pairs). Mean over subsets: that of the
      smallest.
    * Accuracy: `ITEMS` samples of its split, and a hundredth.
    * F1: `ITEMS` samples, each at most 200 / (samples with label 1), and a hundredth.
    * Average: the mean of the tolerances of its scores, and a hundredth.
    """
    allowed: dict[Cell, float] = {}
    for task in tasks:
        if isinstance(task, StsTask):
            sizes = [len(subset.gold) for subset in task.subsets]
            parts = {"all": sum(sizes), "mean": min(sizes), "wmean": min(sizes)}
            for aggregation, pairs in parts.items():
                swap = 1200 / (pairs * (pairs + 1))
                allowed[task.name, task.split, "spearman", aggregation] = max(CORRELATION, swap)
            continue
        # A task without such a split is scored on folds of all its samples, or of the training set.
        counts = {name: len(samples.labels) for name, samples in task.splits.items()}
        whole = counts["all"] if task.protocol == NESTED else counts["train"]
        for split, metric in product(("test", "dev"), ("accuracy", "accuracy_mlp")):
            points = ITEMS * 100 / counts.get(split, whole)
            allowed[task.name, split, metric, "all"] = points + HUNDREDTH
        if task.name == "MRPC":
            points = ITEMS * 200 / int((task.splits["test"].labels == 1).sum())
            allowed[task.name, "test", "f1", "all"] = points + HUNDREDTH
    for metric, group in AVERAGED.items():
        cells = [(name, "test", metric, "all") for name in group]
        if allowed.keys() >= set(cells):
            allowed["Avg", "test", metric, "all"] = (
                fmean(allowed[cell] for cell in cells) + HUNDREDTH
            )
    return allowed


def _faults(
    read: ScoreDocument, suite: Path, folder: Path, tasks: Sequence[ReadTask], encoder: Encoder
) -> Iterator[str]:
    """Reasons why equal scores would confirm nothing, as clauses."""
    described = read.provenance
    # The run: is it the one that the records name, and the one that was trained?
    run = described.run
    if run.id:
        for name in ("method", "backbone", "setting", "seed"):
            named = getattr(run, name)
            recorded = {getattr(record, name) for record in read.records} - {named}
            if recorded:
                yield f"its records name {name} {min(recorded, key=str)}, its provenance {named}"
        outcome = paths.run_folder(suite, run.id) / "outcome.json"
        if run.trained and outcome.is_file():
            trained = read_trained(outcome)
            for name in ("run", "outcome"):
                then, now = (getattr(part, name).as_written() for part in (trained, described))
                changed = sorted(key for key in then.keys() & now.keys() if then[key] != now[key])
                if changed:
                    yield f"its {name} is not what {outcome} says ({', '.join(changed)})"
    # The data.
    data, name = described.data.name, manifest(folder).name
    sums = task_sums(tasks).items()
    of_tasks = [task for task, parts in sums if described.tasks.get(task) != parts]
    if data != name:
        yield f"it was scored on {data}, and {folder} is {name}"
    elif of_tasks:
        yield f"the data changed since ({', '.join(of_tasks)} in {folder})"
    # The encoder.
    if encoder.identity != described.encoder:
        yield f"the encoder differs ({encoder.identity}; {described.encoder} was scored)"


def _encoder(described: Provenance, result: Path, suite: Path, work: Path, device: str) -> Encoder:
    """The scored encoder: loaded if it was trained, otherwise made again."""
    if not described.run.id:
        return Model.stored(described.as_written()).load(device)
    if described.run.trained:
        with errors_of(f"{result} cannot be verified"):
            return trained_encoder(suite, described.run.id, device=device)
    with errors_of(f"the run in {result}"):
        run = validated(Run, described.run.as_written())
    if identity_of(run) != run.identity:
        raise UserError(
            f"{result} is of {run.id}, which is another run now since its method, backbone or "
            "data changed; score it again"
        )
    work.mkdir()  # corpora are created again, outside the suite
    return run_encoder(run, work, device)
