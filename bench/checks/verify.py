"""Verification of a result: its encoder is scored again on its tasks.

With the same versions, device and arithmetic all scores are equal to the bit. Elsewhere the largest
difference of a score is named, and may be `ROUNDING`. Files are written only to a temporary folder.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from bench.datasets.labelled import task_sums
from bench.datasets.manifest import manifest
from bench.datasets.metrics import REST, UNSEEN, Cell
from bench.evaluation.scoring import Classifiers, ReadTask, read_tasks, score_encoder
from bench.models.defaults import computing
from bench.models.encoder import Encoder
from bench.models.model import Model
from bench.results.provenance import provenance
from bench.results.records import Provenance, Record, ScoreDocument, read_scores, read_trained
from bench.runs import paths
from bench.runs.run import Run, identity_of
from bench.stages.jobs import run_encoder
from bench.training.checkpoint import trained_encoder
from bench.utils.errors import UserError, errors_of
from bench.utils.validation import validated

# Points by which a score of the same weights may differ between machines. On the toy data
# correlations move by at most 0.007 and accuracies not at all (not trained, in
# docs/explanation/portability.csv), on SentEval's STS and MRPC all scores by at most 0.0001
# (wiki-minilm without training, from an AMD EPYC to an Intel Xeon); TF32 moves correlations by 0.04
# (docs/explanation/performance.csv).
ROUNDING = 0.02


class Difference(NamedTuple):
    """A score that is not equal to the bit, in points."""

    points: float  # first, so that `max` finds the largest
    score: str
    recorded: float
    again: float


@dataclass(frozen=True)
class Verification:
    """A result, compared with what is computed now."""

    result: Path  # the file
    differences: Sequence[Difference]
    provenance: Sequence[str]  # what differs in it, a line each
    faults: Sequence[str]  # clauses that deny a confirmation, even if all scores are equal

    @property
    def confirmed(self) -> bool:
        return not self.faults and all(score.points <= ROUNDING for score in self.differences)

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        clauses = [*self.faults]
        if self.differences:
            points, score, recorded, again = max(self.differences)
            clauses.append(
                f"the largest difference is {points:.2g} points, rounding explains {ROUNDING} "
                f"({score}: {recorded:.4f} recorded, {again:.4f} again)"
            )
        verdict = "confirmed" if self.confirmed else "not confirmed"
        return f"{verdict}: {'; '.join(clauses)}" if clauses else f"{verdict}, to the bit"

    def report(self) -> str:
        """The result, the differences of its provenance, and the verdict."""
        return "\n  ".join([str(self.result), *self.provenance, self.verdict])


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
    document = read_scores(result)
    described, outcome = document.provenance, document.provenance.outcome
    if outcome.status != "finished" or not described.tasks:
        raise UserError(
            f"{result} holds no scores to verify, since its run was {outcome.status} "
            f"({outcome.reason}); name a result that has some"
        )
    suite = suite or result.absolute().parent.parent
    # As in the result, at most the machine's CPUs.
    threads = min(described.device.threads or 1, os.cpu_count() or 1)
    # The arithmetic of the result, or its scores would differ by rounding.
    as_then = computing(threads, "warn" if described.arithmetic.deterministic else "default")
    with tempfile.TemporaryDirectory(prefix="sentbench-verify-") as work, as_then:
        # The encoder first: a result without one need not wait for data.
        encoder = _encoder(described, result, suite, Path(work) / "suite", device)
        with errors_of(f"the data of {result}"):
            folder = paths.data_folder(data or described.run.data or described.data.folder)
        tasks = read_tasks(list(described.tasks), folder)
        classifiers = Classifiers(described.mode, described.probe_seeds, device)
        scored, _ = score_encoder(encoder, tasks, classifiers, Path(work) / "scoring")
        now = provenance(device, torch.get_num_threads())
    then = described.as_written()
    changed = [
        f"{part}, {name}: {then[part].get(name)}, now {now[part].get(name)}"
        for part in ("code", "versions", "device", "arithmetic")
        for name in then[part] | now[part]
        if then[part].get(name) != now[part].get(name)
    ]
    # Scores without contaminated items depend on corpora, which may not be on this machine.
    recorded = _points(
        record.as_written()
        for record in document.records
        if record.aggregation not in (UNSEEN, REST)
    )
    again = dict(_points(scored))
    faults = [*_faults(document, suite, folder, tasks, encoder)]
    unmatched = {name for name, _ in recorded} ^ again.keys()
    if unmatched:
        faults.append(f"only recorded or only scored again: {', '.join(sorted(unmatched))}")
    differences = [
        Difference(abs(again[name] - value), name, value, again[name])
        for name, value in recorded
        if name in again and again[name] != value
    ]
    return Verification(result, differences, changed, faults)


def _points(records: Iterable[Record]) -> list[tuple[str, float]]:
    """The score of each record by its name, as "STS-B test spearman"."""
    return [
        (" ".join(record[part] for part in Cell._fields).removesuffix(" all"), record["value"])
        for record in records
    ]


def _faults(
    document: ScoreDocument, suite: Path, folder: Path, tasks: Sequence[ReadTask], encoder: Encoder
) -> Iterator[str]:
    """Reasons why equal scores would confirm nothing, as clauses."""
    described = document.provenance
    # The run: is it the one that the records name, and the one that was trained?
    run = described.run
    if run.id:
        for name in ("method", "backbone", "setting", "seed"):
            if any(getattr(record, name) != getattr(run, name) for record in document.records):
                yield f"its records name another {name} than its provenance"
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
    return run_encoder(run, paths.Files(work, run.data), device)
