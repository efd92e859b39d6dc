"""Verification of a result: its scores are recomputed from its encoder on its tasks.

With the same versions, device and arithmetic, scores must be equal bit for bit. Otherwise rounding
differs, and each score may differ by a tolerance that follows from its metric and its number of
items (`tolerances`). Files are written only to a temporary folder.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NotRequired

import torch

from bench.datasets.labelled import NESTED
from bench.datasets.manifest import manifest
from bench.datasets.sts import StsTask
from bench.datasets.tasks import AVERAGED
from bench.evaluation.scoring import Task, read_tasks, score_encoder
from bench.models.encoder import Encoder
from bench.models.from_name import Model
from bench.models.load import load_encoder
from bench.results.provenance import provenance, task_sums
from bench.results.readers import Outcome, check_form, read_trained
from bench.results.records import CellKey, Record, cell_key, read_scores, scores_damage
from bench.runs import paths
from bench.runs.resolve import resolve
from bench.stages.jobs import run_encoder
from bench.utils.errors import UserError

# Points by which rounding may change a correlation. Cosines of float32 vectors have an error of
# about e = 1e-6. Of n pairs with similarities spread over a range of 1, about n^2 e pairs of ranks
# are then swapped. Each swap changes the correlation by at most 12 / (n (n + 1)): 0.0012 points in
# total, even if all changes had the same sign.
CORRELATION = 0.01
# What `Model.describe` writes; earlier versions wrote less.
MODEL = {"model": str} | dict.fromkeys(("pooler", "prompt"), NotRequired[str | None])
MODEL |= dict.fromkeys(("normalize", "function"), NotRequired[bool])
# Samples whose predicted label may change with vectors of that error. Measured with 4-layer
# encoders on TREC, MRPC and CR and on probing and transfer tasks of the generated language:
# relative errors of 1e-6 and 1e-5 changed none.
ITEMS = 1
HUNDREDTH = 0.01  # accuracies are rounded to it, as in SentEval; averages are of rounded scores

AVERAGE = "Avg"


@dataclass(frozen=True)
class Score:
    """A stored and a recomputed score, in points; None if one side has none."""

    cell: CellKey
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
    """The verification of one result."""

    result: Path
    scores: Sequence[Score]  # every score of either side
    differences: Sequence[tuple[str, Any, Any]]  # of the provenance: name, stored and present value
    faults: Sequence[str]  # against confirmation even if all scores are equal, as clauses

    @property
    def confirmed(self) -> bool:
        return not self.faults and all(score.within for score in self.scores)

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        count = len(self.scores)
        differing = sum(not score.equal for score in self.scores)
        summary = f"all {count} scores are equal bit for bit"
        if outside := sum(not score.within for score in self.scores):
            summary = f"{outside} of {count} scores differ by more than rounding"
        elif differing:
            summary = f"{differing} of {count} scores differ, each within its tolerance"
        word = "confirmed" if self.confirmed else "not confirmed"
        return f"{word}: {'; '.join([*self.faults, summary])}"

    def report(self) -> str:
        """Return the differing scores, the differences of the provenance, and the verdict."""
        rows = [_row(score) for score in self.scores if not score.equal]
        head = ("", "stored", "recomputed", "difference", "tolerance")
        lines = [str(self.result), *(aligned([head, *rows], 1) if rows else ())]
        lines += [
            f"{name}: {_text(then)}, now {_text(now)}" for name, then, now in self.differences
        ]
        return "\n  ".join([*lines, self.verdict])


def aligned(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Return the rows of a table as lines; the first `left` columns are aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{word:{'<' if i < left else '>'}{widths[i]}}" for i, word in enumerate(row))
        for row in rows
    ]


def _row(score: Score) -> tuple[str, ...]:
    stored, recomputed = score.stored, score.recomputed
    difference = "" if stored is None or recomputed is None else f"{recomputed - stored:+.2g}"
    values = ("none" if value is None else f"{value:.4f}" for value in (stored, recomputed))
    name = " ".join(word for word in score.cell if word != "all")
    return name, *values, difference, f"{score.tolerance:.2g}"


def _text(value: Any) -> str:
    """Return a value of a provenance in words."""
    if value is None:
        return "not recorded"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(own)}" for name, own in value.items()) or "nothing"
    return ", ".join(map(_text, value)) or "nothing" if isinstance(value, list) else str(value)


def verify(
    result: Path, suite: Path | None = None, data: str | None = None, device: str = "cpu"
) -> Verification:
    """Score a result's encoder again on the same tasks, mode, data and number of threads.

    Args:
        result: scores/<run id>.json of a suite, or a file of `score_model`.
        suite: the suite with the run's encoder; by default the one that contains `result`.
        data: an argument of `paths.data_folder`; by default the data that the result names.
            Checksums tell whether they are the same.
        device: torch device.

    Raises:
        UserError: the result is damaged or holds no scores, or its encoder or data are missing.
    """
    if result.is_dir():
        raise UserError(f"{result} is a folder; name a file of scores in it")
    described, stored, faults = _read(result)
    suite = suite or result.absolute().parent.parent
    folder = _data(described, result, suite, data)
    names = dict.fromkeys(cell[0] for cell in stored) | described.get("tasks", {})
    names.pop(AVERAGE, None)
    # As in the result, at most the machine's CPUs.
    threads = min(described["device"]["threads"], os.cpu_count() or 1)
    now = torch.are_deterministic_algorithms_enabled()
    asked = described.get("arithmetic", {}).get("deterministic", now)
    as_then = computing(threads, bool(asked), warn_only=True)
    with tempfile.TemporaryDirectory(prefix="sentbench-verify-") as work, as_then:
        tasks = read_tasks(list(names), folder)
        encoder = _encoder(described, result, suite, Path(work) / "suite", device)
        mode, scoring = described.get("mode", "test"), Path(work) / "scoring"
        recomputed = _cells(score_encoder(encoder, tasks, mode, device, scoring))
        present = provenance(device, torch.get_num_threads())
    differences, same = _origins(described, present)
    allowed = {} if same else tolerances(tasks)
    scores = [
        Score(cell, stored.get(cell), recomputed.get(cell), allowed.get(cell, 0.0))
        for cell in stored | recomputed
    ]
    faults += [*_training_faults(described, suite), *_data_faults(described, folder, tasks)]
    if encoder.identity != described["encoder"]:
        was = described["encoder"]
        faults.append(f"the encoder differs ({encoder.identity}; {was} was scored)")
    return Verification(result, scores, differences, faults)


def tolerances(tasks: Sequence[Task]) -> dict[CellKey, float]:
    """Return the points by which different rounding may change each score of some tasks.

    * Correlation of n pairs: `CORRELATION`, or one swap of neighbouring ranks, at most
      1200 / (n (n + 1)), if that is larger (below 346 pairs). Mean over subsets: that of the
      smallest.
    * Accuracy: `ITEMS` samples of its split, and a hundredth.
    * F1: `ITEMS` samples, each at most 200 / (samples with label 1), and a hundredth.
    * Average: the mean of the tolerances of its scores, and a hundredth.
    """
    allowed: dict[CellKey, float] = {}
    for task in tasks:
        if isinstance(task, StsTask):
            sizes = [len(subset.gold) for subset in task.subsets]
            for aggregation in ("all", "mean", "wmean"):
                pairs = sum(sizes) if aggregation == "all" else min(sizes)
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
    for metric, group in AVERAGED.items():
        cells = [(name, "test", metric, "all") for name in group]
        if allowed.keys() >= set(cells):
            mean = fmean(allowed[cell] for cell in cells)
            allowed[AVERAGE, "test", metric, "all"] = mean + HUNDREDTH
    return allowed


def _read(result: Path) -> tuple[dict[str, Any], dict[CellKey, float], list[str]]:
    """Return provenance and scores of a result, validated, and faults of its records."""
    described, records = read_scores(result)
    with scores_damage(result):
        outcome = described.get("outcome", {"status": "finished"})
        check_form(outcome, Outcome, "its outcome")
        if outcome["status"] != "finished":
            why = f"{outcome['status']} ({_text(outcome.get('reason'))})"
            raise UserError(
                f"{result} holds no scores to verify, since its run was {why}; "
                "name a result that has some"
            )
        check_form(described, {"encoder": str, "data": {"name": str}, "device": {"threads": int}})
        names = ("id", "method", "setting", "backbone", "data")
        run = {"run": {"trained": bool} | dict.fromkeys(names, str)}
        check_form(described, run if "run" in described else MODEL)
        check_form(described.get("mode", "test"), Literal["test", "dev"], "'mode'")
        for part in ("tasks", "code", "versions", "arithmetic"):
            check_form(described.get(part, {}), dict, f"'{part}'")
        if all(record["task"] == AVERAGE for record in records):
            raise ValueError("it has no score of a task")
        if not 0 < described["device"]["threads"] < 2**16:
            raise ValueError(f"{described['device']['threads']} is not a number of threads")
    return described, _cells(records), list(_label_faults(described, records))


def _cells(records: Sequence[Record]) -> dict[CellKey, float]:
    return {cell_key(record): float(record["value"]) for record in records}


def _label_faults(described: Mapping[str, Any], records: Sequence[Record]) -> Iterator[str]:
    """Yield differences between the labels of the records and the run of the provenance."""
    columns = {"method": "method", "backbone": "backbone", "variant": "setting", "seed": "seed"}
    if run := described.get("run"):
        for column, key in columns.items():
            if others := {record.get(column) for record in records} - {run.get(key)}:
                stored = min(map(_text, others))
                yield f"its records name {column} {stored}, its provenance {_text(run.get(key))}"


def _training_faults(described: Mapping[str, Any], suite: Path) -> Iterator[str]:
    """Yield differences between the run of the provenance and that of its training's outcome."""
    if not (words := described.get("run")):
        return
    outcome = paths.run_folder(suite, words["id"]) / "outcome.json"
    if words["trained"] and outcome.is_file():
        trained: Mapping[str, Any] = read_trained(outcome)
        for name in ("run", "outcome"):
            then, now = trained.get(name, {}), described.get(name, {})
            if other := sorted(key for key in then.keys() & now.keys() if then[key] != now[key]):
                yield f"its {name} is not what {outcome} says ({', '.join(other)})"


def _data(described: Mapping[str, Any], result: Path, suite: Path, given: str | None) -> Path:
    """Return the data folder of a result."""
    run, folder = described.get("run"), described["data"].get("folder", "senteval")
    try:
        return paths.data_folder(given or (run["data"] if run else folder), suite)
    except UserError as error:
        raise UserError(
            f"the data of {result} were not found ({error}); name their folder with --data"
        ) from None


def _encoder(
    described: Mapping[str, Any], result: Path, suite: Path, work: Path, device: str
) -> Encoder:
    """Return the scored encoder: loaded if it was trained, otherwise made again."""
    if "run" not in described:
        return Model.stored(described).load(device)
    words = described["run"]
    if words["trained"]:
        folder = paths.run_folder(suite, words["id"]) / "encoder"
        if not (folder / "encoder.json").is_file():
            raise UserError(
                f"{result} cannot be verified without its encoder, and {folder} does not exist; "
                "name the suite that has it with --suite, or train the run again"
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
            f"{result} is of {words['id']}, which is now {run.id} since its method, backbone or "
            f"data changed; score it again"
        )
    work.mkdir()  # corpora are created again, outside the suite
    return run_encoder(run, work, device)


@contextmanager
def computing(threads: int, deterministic: bool, warn_only: bool = False) -> Iterator[None]:
    """Set torch's threads and determinism, and restore them afterwards."""
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1], warn_only=warned)


def _origins(
    then: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[list[tuple[str, Any, Any]], bool]:
    """Return the differences of two provenances, and whether the last bits should be equal."""
    differences, same = [], True
    for part in ("code", "versions", "device", "arithmetic"):
        before, after = then.get(part, {}), now[part]
        for name in before | after:
            if before.get(name) != after.get(name):
                differences.append((f"{part}, {name}", before.get(name), after.get(name)))
                same &= part == "code"
    return differences, same


def _data_faults(
    described: Mapping[str, Any], folder: Path, tasks: Sequence[Task]
) -> Iterator[str]:
    """Yield differences of the data: by the sums of the tasks, or of the folder without them."""
    then, name = described["data"], manifest(folder)["name"]
    # Earlier versions recorded the path of a suite's own data for their name.
    own = then["name"] not in ("world", "senteval") and described.get("run", {}).get("data")
    if then["name"] not in (name, own):
        yield f"it was scored on {then['name']}, and {folder} is {name}"
    elif "tasks" in described:
        present = task_sums(tasks).items()
        if changed := [task for task, now in present if described["tasks"].get(task) != now]:
            yield f"the data changed since ({', '.join(changed)} in {folder})"
    elif then.get("sha256") not in (None, (sums := paths.data_sums(folder))["sha256"]):
        yield f"the data changed since ({folder} holds {sums['files']} files with another checksum)"
