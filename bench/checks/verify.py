"""Whether a result is confirmed: its scores, computed again from its own encoder on its own tasks.

Where versions, device and arithmetic are as they were, scores must be equal bit for bit. Elsewhere sums round
otherwise, and each score may move by a tolerance that follows from its kind and from how many items stand behind it
(`tolerances`). Nothing is written but in a temporary folder.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from bench.datasets.labelled import NESTED
from bench.datasets.manifest import manifest
from bench.datasets.sts import StsTask
from bench.datasets.tasks import STS_TASKS, TRANSFER_TASKS
from bench.evaluation.classifier import MODES
from bench.evaluation.scoring import Task, read_tasks, score_encoder
from bench.models.encoder import Encoder
from bench.models.from_name import Model
from bench.models.load import load_encoder
from bench.results.provenance import provenance, task_sums
from bench.results.readers import DAMAGE, describe_damage
from bench.results.records import Record, no_scores, read_scores
from bench.runs import paths
from bench.runs.resolve import resolve
from bench.stages.jobs import run_encoder
from bench.utils.errors import UserError
from bench.utils.files import read_json

# Points by which rounding may move a correlation. Vectors of float32 give cosines that are off by about e = 1e-6. Of n
# pairs with similarities spread over a range of 1, about n^2 e pairs of ranks then change places, each of which moves
# the correlation by at most 12 / (n (n + 1)): 0.0012 points together, even if all of them pulled one way.
CORRELATION = 0.01
# Samples that may be labelled otherwise where vectors are off by as much. Measured with 4-layer encoders, on TREC, MRPC
# and CR and on probing and transfer tasks of the generated language: errors of 1e-6 and 1e-5 of every value moved none.
ITEMS = 1
HUNDREDTH = 0.01  # accuracies are rounded to it, as SentEval does, and the average is of rounded scores

AVERAGE = "Avg"

Cell = tuple[str, str, str, str]  # task, split, metric, aggregation

_BITS = ("versions", "device", "arithmetic")  # of a provenance, what decides the last bits
_SHOWN = ("code", *_BITS)


@dataclass(frozen=True)
class Score:
    """One score as it is stored and as it came out now, in points; None where one side has none."""

    cell: Cell
    stored: float | None
    recomputed: float | None
    tolerance: float

    @property
    def equal(self) -> bool:
        return self.stored == self.recomputed

    @property
    def within(self) -> bool:
        if self.stored is None or self.recomputed is None:
            return False
        return self.equal or abs(self.stored - self.recomputed) <= self.tolerance


@dataclass(frozen=True)
class Verification:
    """What came of one result.

    Attributes:
        scores: every cell of either side.
        differences: what in its origin is not as it was: name, stored and present value.
        faults: why the scores would not be confirmed even if all were equal, as clauses.
    """

    result: Path
    scores: Sequence[Score]
    differences: Sequence[tuple[str, Any, Any]]
    faults: Sequence[str]

    @property
    def confirmed(self) -> bool:
        return not self.faults and all(score.within for score in self.scores)

    @property
    def verdict(self) -> str:
        """One line."""
        count = len(self.scores)
        differing = sum(not score.equal for score in self.scores)
        outside = sum(not score.within for score in self.scores)
        if outside:
            told = f"{outside} of {count} scores differ by more than rounding"
        elif differing:
            told = f"{differing} of {count} scores differ, each within its tolerance"
        else:
            told = f"all {count} scores are equal bit for bit"
        return f"{'confirmed' if self.confirmed else 'not confirmed'}: {'; '.join([*self.faults, told])}"

    def report(self) -> str:
        """The differing cells, what is not as it was, and the verdict."""
        rows: list[tuple[str, ...]] = [("", "stored", "recomputed", "difference", "tolerance")]
        rows += [_row(score) for score in self.scores if not score.equal]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        table = [
            f"  {row[0]:{widths[0]}}"
            + "".join(f"  {text:>{width}}" for text, width in zip(row[1:], widths[1:], strict=True))
            for row in rows
        ]
        origin = [f"  {name}: {_text(then)}, now {_text(now)}" for name, then, now in self.differences]
        return "\n".join([str(self.result), *(table if len(rows) > 1 else []), *origin, f"  {self.verdict}"])


def _row(score: Score) -> tuple[str, ...]:
    stored, recomputed = score.stored, score.recomputed
    difference = "" if stored is None or recomputed is None else f"{recomputed - stored:+.2g}"
    values = ("none" if value is None else f"{value:.4f}" for value in (stored, recomputed))
    return (" ".join(word for word in score.cell if word != "all"), *values, difference, f"{score.tolerance:.2g}")


def _text(value: Any) -> str:
    """A value of a provenance in words."""
    if value is None:
        return "not recorded"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(own)}" for name, own in value.items()) or "nothing"
    return ", ".join(map(_text, value)) or "nothing" if isinstance(value, list) else str(value)


def verify(result: Path, suite: Path | None = None, data: str | None = None, device: str = "cpu") -> Verification:
    """Score a result's encoder again, on the same tasks, mode and data, with as many threads.

    Args:
        result: scores/<run id>.json of a suite, or what `score_model` wrote.
        suite: the folder that has the run's encoder; where `result` lies, if left out.
        data: what `paths.data_folder` takes; the data that the result names, if left out. Sums say whether they are
            the same.

    Raises:
        UserError: the result is damaged or holds no scores; its encoder or its data are not there.
    """
    if result.is_dir():
        raise UserError(f"{result} is a folder; name a file of scores in it")
    described, stored, run_faults = _read(result)
    suite = suite or result.absolute().parent.parent
    folder = _data(described, result, suite, data)
    names = [name for name in {cell[0]: None for cell in stored} | described.get("tasks", {}) if name != AVERAGE]
    with tempfile.TemporaryDirectory(prefix="sentbench-verify-") as work, _set_as(described):
        tasks = read_tasks(names, folder)
        encoder = _encoder(described, result, suite, Path(work) / "suite", device)
        records = score_encoder(encoder, tasks, described.get("mode", "test"), device, Path(work) / "scoring")
        present = provenance(device, torch.get_num_threads())
    differences, same = _origins(described, present)
    allowed = {} if same else tolerances(tasks)
    recomputed = _cells(records)
    scores = [
        Score(cell, stored.get(cell), recomputed.get(cell), allowed.get(cell, 0.0)) for cell in stored | recomputed
    ]
    run_faults += _training_faults(described, suite)
    faults = [*run_faults, *_data_faults(described, folder, tasks), *_encoder_faults(described, encoder)]
    return Verification(result, scores, differences, faults)


def tolerances(tasks: Sequence[Task]) -> dict[Cell, float]:
    """Points by which other rounding may move each score of some tasks.

    A correlation of n pairs: `CORRELATION`, or one exchange of neighbours in the ranking, at most 1200 / (n (n + 1)),
    where that is more (below 346 pairs); a mean over subsets: the same of its smallest. An accuracy: `ITEMS` samples of
    the part it is of, and a hundredth. F1: as many, each of which moves it by at most 200 / (samples of label 1). An
    average: the mean of its scores' own, and a hundredth.
    """
    allowed: dict[Cell, float] = {}
    for task in tasks:
        if isinstance(task, StsTask):
            sizes = [len(subset.gold) for subset in task.subsets]
            for aggregation, pairs in {"all": sum(sizes), "mean": min(sizes), "wmean": min(sizes)}.items():
                exchange = 1200 / (pairs * (pairs + 1))
                allowed[task.name, task.split, "spearman", aggregation] = max(CORRELATION, exchange)
            continue
        parts = {name: len(samples.labels) for name, samples in task.splits.items()}
        whole = parts["all"] if task.protocol == NESTED else parts["train"]
        for split in ("test", "dev"):
            one = 100 / parts.get(split, whole)
            for metric in ("accuracy", "accuracy_mlp"):
                allowed[task.name, split, metric, "all"] = ITEMS * one + HUNDREDTH
        if task.name == "MRPC":
            one = 200 / int((task.splits["test"].labels == 1).sum())
            allowed[task.name, "test", "f1", "all"] = ITEMS * one + HUNDREDTH
    for group, metric in ((STS_TASKS, "spearman"), (TRANSFER_TASKS, "accuracy")):
        own = [allowed[name, "test", metric, "all"] for name in group if (name, "test", metric, "all") in allowed]
        if len(own) == len(group):
            allowed[AVERAGE, "test", metric, "all"] = fmean(own) + HUNDREDTH
    return allowed


def _read(result: Path) -> tuple[dict[str, Any], dict[Cell, float], list[str]]:
    """Provenance and scores of a result, checked as far as they are used; and what its records say of another run."""
    described, records = read_scores(result)
    try:
        outcome = described.get("outcome", {"status": "finished"})
        if outcome["status"] != "finished":
            why = f"{outcome['status']} ({_text(outcome['reason'])})"
            raise UserError(f"{result} holds no scores to verify, since its run was {why}; name a result that has some")
        stored = _cells(records)
        if not any(cell[0] != AVERAGE for cell in stored):
            raise ValueError("it has no score of a task")
        if not isinstance(described["encoder"], str) or not isinstance(described["data"].get("name"), str):
            raise ValueError("it does not name its encoder and data")
        if not all(isinstance(described.get(part, {}), dict) for part in (*_SHOWN, "tasks")):
            raise ValueError("its provenance has another form")
        run = described.get("run")
        named = [run[name] for name in ("id", "method", "setting", "backbone", "data")] if run else [described["model"]]
        if not all(isinstance(name, str) for name in named) or (run and not isinstance(run["trained"], bool)):
            raise ValueError("it does not name what was scored")
        if not 0 < described["device"]["threads"] < 2**16:
            raise ValueError(f"it cannot be of {described['device']['threads']} threads")
        if (mode := described.get("mode", "test")) not in MODES:
            raise ValueError(f"there is no mode {mode!r}")
    except DAMAGE as error:
        raise no_scores(result, describe_damage(error)) from None
    return described, stored, list(_label_faults(described, records))


def _label_faults(described: Mapping[str, Any], records: Sequence[Record]) -> Iterator[str]:
    """Whether the records are of the run that the provenance describes."""
    if run := described.get("run"):
        for column, key in {"method": "method", "backbone": "backbone", "variant": "setting", "seed": "seed"}.items():
            if others := {record.get(column) for record in records} - {run.get(key)}:
                yield f"its records name {column} {min(map(_text, others))}, its provenance {_text(run.get(key))}"


def _training_faults(described: Mapping[str, Any], suite: Path) -> Iterator[str]:
    """Whether the provenance describes the run as its training, or what its text resolves to, has it."""
    if not (words := described.get("run")):
        return
    outcome = paths.run_folder(suite, words["id"]) / "outcome.json"
    if words["trained"] and outcome.is_file():
        found = read_json(outcome)
        for name in ("run", "outcome"):
            then, now = found.get(name, {}), described.get(name, {})
            if other := sorted(key for key in then.keys() & now.keys() if then[key] != now[key]):
                yield f"its {name} is not what {outcome} says ({', '.join(other)})"


def _cells(records: Sequence[Record]) -> dict[Cell, float]:
    cells: dict[Cell, float] = {}
    for record in records:
        cell = (record["task"], record["split"], record["metric"], record["aggregation"])
        if cell in cells:
            raise ValueError(f"{' '.join(cell)} stands twice")
        cells[cell] = float(record["value"])
    return cells


def _data(described: Mapping[str, Any], result: Path, suite: Path, given: str | None) -> Path:
    """The data folder of a result."""
    name = described["run"]["data"] if "run" in described else described["data"].get("folder", "senteval")
    try:
        return paths.data_folder(given or name, suite)
    except UserError as error:
        raise UserError(f"the data of {result} are not there ({error}); name their folder with --data") from None


def _encoder(described: Mapping[str, Any], result: Path, suite: Path, work: Path, device: str) -> Encoder:
    """What was scored: of a training its checkpoint, of anything else what is made anew."""
    if "run" not in described:
        return Model.stored(described).load(device)
    words = described["run"]
    if words["trained"]:
        folder = paths.run_folder(suite, words["id"]) / "encoder"
        if not (folder / "encoder.json").is_file():
            raise UserError(
                f"{result} cannot be verified without its encoder, and {folder} is not there; name the suite that has "
                f"it with --suite, or train the run again"
            )
        return load_encoder(folder, device=device)
    run = resolve(
        f"{words['method']}@{words['setting']}",
        backbone_name=words.get("reference", words["backbone"]),
        corpus=words.get("corpus") or "",
        data=words["data"],
        seed=None,
    )
    if run.id != words["id"]:
        raise UserError(
            f"{result} is of {words['id']}, which is {run.id} by now, since its method, backbone or data changed; "
            f"score it again"
        )
    work.mkdir()
    for name in ("world", "backbones"):  # corpora are made anew, and not in the suite
        if (suite / name).is_dir():
            (work / name).symlink_to((suite / name).absolute(), target_is_directory=True)
    return run_encoder(run, work, device)


@contextmanager
def _set_as(described: Mapping[str, Any]) -> Iterator[None]:
    """Threads and determinism as the result has them, as far as the machine does; afterwards as they were."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    asked = described.get("arithmetic", {}).get("deterministic", deterministic)
    torch.set_num_threads(min(described["device"]["threads"], os.cpu_count() or 1))
    torch.use_deterministic_algorithms(bool(asked), warn_only=True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warns)


def _origins(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[list[tuple[str, Any, Any]], bool]:
    """What differs between two provenances, and whether what decides the last bits is the same."""
    differences, same = [], True
    for part in _SHOWN:
        before, after = then.get(part, {}), now[part]
        for name in before | after:
            if before.get(name) != after.get(name):
                differences.append((f"{part}, {name}", before.get(name), after.get(name)))
                same &= part not in _BITS
    return differences, same


def _data_faults(described: Mapping[str, Any], folder: Path, tasks: Sequence[Task]) -> Iterator[str]:
    """Whether the data are those of the result: by the sums of its tasks, or of the folder where it has no others."""
    then, name = described["data"], manifest(folder)["name"]
    if name != then["name"]:
        yield f"it was scored on {then['name']}, and {folder} is {name}"
    elif "tasks" in described:
        now = task_sums(tasks)
        changed = [task for task in now if described["tasks"].get(task) != now[task]]
        if changed:
            yield f"the data changed since ({', '.join(changed)} in {folder})"
    elif then.get("sha256") not in (None, (sums := paths.data_sums(folder))["sha256"]):
        yield f"the data changed since ({folder} holds {sums['files']} files of another sum)"


def _encoder_faults(described: Mapping[str, Any], encoder: Encoder) -> Iterator[str]:
    if encoder.identity != described["encoder"]:
        yield f"the encoder is another one ({encoder.identity}; {described['encoder']} was scored)"
