"""Printed numbers joined with a suite's own.

`cells` is the only path from scores to verdicts: tables, figures, page and tests all use it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from bench.comparison.verdict import Verdict, VerdictInput, tolerance, verdicts
from bench.datasets.tasks import Board, average_of_all, expand_tasks
from bench.reported import LABEL, MEASURES, mapped, prior_sd
from bench.results.suite_results import NEUTRAL_CHANGES, Key, RunResults, SuiteResults


def select(suite: SuiteResults, run: str, backbone: str) -> list[RunResults]:
    """The planned runs of a method, all of one corpus and recipe.

    Args:
        suite: where to look.
        run: method and setting as in recipes.yaml, such as `simcse@official`.
        backbone: as printed; its stand-in in the suite is used if the backbone itself is not
            planned.

    Returns:
        The runs that are comparable with print if there are any, else those that come first in the
        plan.
    """
    method, _, setting = run.partition("@")
    for name in (backbone, suite.stand_ins.get(backbone)):
        matches = [
            run
            for run in suite.runs
            if (run.plan["method"], run.plan["setting"], run.plan["backbone"])
            == (method, setting, name)
        ]
        if matches:
            first = next((run for run in matches if not _deviations(run, backbone)), matches[0])
            shared = ("corpus", "recipe_changes")
            return [
                run
                for run in matches
                if all(run.plan.get(key) == first.plan.get(key) for key in shared)
            ]
    return []


def _deviations(run: RunResults, backbone: str) -> list[str]:
    """How a run's experiment differs from the printed one, as clauses."""
    deviations = []
    if run.plan["backbone"] != backbone:
        deviations.append(f"{run.plan['backbone']} stands in for {backbone}, with its own settings")
    if run.data not in ("senteval", ""):
        deviations.append(f"scored on {run.data}")
    if run.plan["seed"] is not None:
        if run.plan["corpus"] != "wiki1m" and not run.plan.get("own_corpus"):
            deviations.append(f"trained on {run.plan['corpus']}")
        changed = sorted(set(run.plan.get("recipe_changes") or {}) - NEUTRAL_CHANGES)
        if changed:
            deviations.append(f"recipe changed ({', '.join(changed)})")
    return deviations


@dataclass(frozen=True)
class _OurScores:
    """Our side of a printed number.

    Attributes:
        runs: one per seed.
        minus: for a printed difference, the runs whose scores are subtracted.
        key: task, split and metric of the scores.
        sign: 1, or -1 if print states the negated quantity.
    """

    runs: list[RunResults]
    minus: list[RunResults] | None
    key: Key
    sign: int

    @property
    def all_runs(self) -> list[RunResults]:
        return [*self.runs, *(self.minus or [])]

    @property
    def deterministic(self) -> bool:
        return bool(self.all_runs) and all(run.plan["seed"] is None for run in self.all_runs)

    @property
    def values(self) -> list[float]:
        """Points, one per seed; for a difference, over the seeds that both sides have.

        A side without seeds is paired with every seed of the other.
        """
        ours = {
            run.plan["seed"]: run.scores[self.key] for run in self.runs if self.key in run.scores
        }
        if self.minus is None:
            return [self.sign * value for value in ours.values()]
        minus = {
            run.plan["seed"]: run.scores[self.key] for run in self.minus if self.key in run.scores
        }
        if set(minus) == {None}:
            minus = dict.fromkeys(ours, minus[None])
        elif set(ours) == {None}:
            ours = dict.fromkeys(minus, ours[None])
        return [self.sign * (value - minus[seed]) for seed, value in ours.items() if seed in minus]


def _why_missing(runs: list[RunResults], key: Key) -> str:
    """Why none of the runs has a score; empty if one has, or if one diverged."""
    statuses = {run.status for run in runs}
    if "diverged" in statuses or any(key in run.scores for run in runs):
        return ""
    reasons = [run.reason for run in runs if run.status != "finished" and run.reason]
    default = (
        "this score is not in the suite" if "finished" in statuses else "no scores in this suite"
    )
    return next(iter(reasons), default)


def _verdict_without_test(ours: _OurScores, backbone: str) -> Verdict | None:
    """The verdict if no statistics are needed, else None."""
    sides = [ours.runs] if ours.minus is None else [ours.runs, ours.minus]
    if missing := next(filter(None, (_why_missing(side, ours.key) for side in sides)), ""):
        return Verdict("not run", missing)
    statuses = [run.status for run in ours.all_runs]
    ended = len(statuses) - statuses.count("missing")
    diverged = (
        f"{statuses.count('diverged')} of {ended} seeds diverged" if "diverged" in statuses else ""
    )
    if not ours.values and not diverged:
        return Verdict("not run", "the two runs have no seed in common")
    deviations = next(filter(None, (_deviations(run, backbone) for run in ours.all_runs)), [])
    if deviations:
        return Verdict("not comparable", "; ".join(filter(None, [*deviations, diverged])))
    # The mean over the seeds that did not diverge would be biased upwards.
    return Verdict("diverged", diverged) if diverged else None


def _tolerance_kind(ours: _OurScores, task: str, metric: str, backbone: str) -> str:
    if metric in ("uniformity", "best_step"):
        return metric.replace("_", " ")
    if metric == "accuracy":
        return "transfer, small test" if task in ("TREC", "MRPC") else "transfer"
    if ours.deterministic:
        last = ours.runs[0].plan["method"].rpartition("+")[2].partition("[")[0]
        return {"whitening": "whitening", "flow": "flow", "published": "checkpoint"}.get(
            last, "untrained"
        )
    if ours.minus is not None:
        return "difference"
    return "trained large" if "large" in backbone else "trained base"


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None


def _present(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _sd(values: list[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None


def _other_setting(run: str) -> str:
    method, _, setting = run.partition("@")
    return f"{method}@{'paper' if setting == 'official' else 'official'}"


@dataclass
class Cell:
    """A printed number with our side of it: one row of `cells`.

    Attributes:
        source, table, method, backbone, variant, task, split, metric, quoted_from: as in
        `bench.reported.printed`.
        ours_split: split of our scores, if it differs from what print names.
        printed: the printed number, in points.
        run, minus: as in recipes.yaml, or empty. `minus` is subtracted from `run`.
        ours: points, one per seed; with a `minus`, paired differences.
        n, mean, sd: number, mean and standard deviation of `ours`.
        measured_on: backbone of our runs.
        deterministic: whether our runs have no seed.
        difference: mean - printed.
        other_setting, other, other_n, other_mean, other_sd: the same for the method's other
        setting, if it has scores.
        half_width: of the 95 % prediction interval, for trained cells that are judged.
        verdict, reason, seeds: as in `Verdict`.
    """

    source: str
    table: str
    method: str
    backbone: str
    variant: str
    task: str
    split: str
    metric: str
    quoted_from: str
    ours_split: str
    printed: float
    run: str
    minus: str
    ours: tuple[float, ...]
    n: int
    measured_on: str
    deterministic: bool
    mean: float | None
    sd: float | None
    difference: float | None
    other_setting: str
    other: tuple[float, ...]
    other_n: int
    other_mean: float | None
    other_sd: float | None
    half_width: float | None = None
    verdict: str = ""
    reason: str = ""
    seeds: int | None = None

    def set_verdict(self, verdict: Verdict) -> None:
        self.verdict, self.reason, self.seeds = verdict.kind, verdict.reason, verdict.seeds


def _cell(number: Mapping[str, Any], split: str, ours: _OurScores, other: _OurScores) -> Cell:
    """A cell without a verdict. `number` is a row of `mapped`, `split` that of our scores."""
    values, other_values = ours.values, other.values
    return Cell(
        **{name: number[name] for name in [*LABEL, "task", "split", "metric", "quoted_from"]},
        ours_split=split,
        printed=number["value"],
        run=number["run"],
        minus=number["minus"],
        ours=tuple(values),
        n=len(values),
        measured_on=ours.runs[0].plan["backbone"] if ours.runs else "",
        deterministic=ours.deterministic,
        mean=_mean(values),
        sd=_sd(values),
        difference=fmean(values) - number["value"] if values else None,
        other_setting=_other_setting(number["run"]).partition("@")[2] if other_values else "",
        other=tuple(other_values),
        other_n=len(other_values),
        other_mean=_mean(other_values),
        other_sd=_sd(other_values),
    )


def _verdict_input(cell: Cell, ours: _OurScores, backbone: str) -> VerdictInput:
    task, split, metric = ours.key
    # The public seeds are Spearman correlations of a single method, so they are no prior for
    # anything else.
    prior = prior_sd(backbone, task, split) if metric == "spearman" and not cell.minus else None
    allowed = tolerance(_tolerance_kind(ours, task, metric, backbone), task, prior)
    return VerdictInput(cell.printed, list(cell.ours), allowed, ours.deterministic, prior)


def cells(suite: SuiteResults) -> pd.DataFrame:
    """One row per printed number that measures something, in the order of print; the columns are
    those of `Cell`.

    Holm's correction covers the cells of one printed table.
    """
    printed = mapped()
    all_cells: list[Cell] = []
    tested: dict[tuple[str, str], list[tuple[Cell, VerdictInput]]] = {}
    runs_of = cache(lambda run, backbone: select(suite, run, backbone))

    for number in printed[printed.metric.isin(MEASURES)].to_dict("records"):
        backbone = number["suite_backbone"] or number["backbone"]
        split = number["suite_split"] or number["split"]
        metric, sign = MEASURES[number["metric"]]
        key = (number["task"], split, metric)
        run, minus = number["run"], number["minus"]
        ours = _OurScores(
            runs_of(run, backbone), runs_of(minus, backbone) if minus else None, key, sign
        )
        # A method with a single setting, such as an untrained encoder, is subtracted from both
        # settings.
        other_minus = (
            (runs_of(_other_setting(minus), backbone) or runs_of(minus, backbone))
            if minus
            else None
        )
        other = _OurScores(runs_of(_other_setting(run), backbone), other_minus, key, sign)
        cell = _cell(number, split, ours, other)
        all_cells.append(cell)
        if number["reason"]:
            cell.set_verdict(Verdict("not run", number["reason"]))
        elif settled := _verdict_without_test(ours, backbone):
            cell.set_verdict(settled)
        else:
            judged = _verdict_input(cell, ours, backbone)
            cell.half_width = judged.prediction.half_width if judged.prediction else None
            tested.setdefault((cell.source, cell.table), []).append((cell, judged))

    for table in tested.values():
        for (cell, _), verdict in zip(
            table, verdicts([judged for _, judged in table]), strict=True
        ):
            cell.set_verdict(verdict)
    frame = pd.DataFrame([vars(cell) for cell in all_cells])  # asdict would copy deeply
    numeric = ["mean", "sd", "difference", "half_width", "other_mean", "other_sd"]
    return frame.astype({**dict.fromkeys(numeric, float), "seeds": "Int64"})


_BOARD_GROUP = (
    "backbone",
    "label",
    "method",
    "setting",
    "corpus",
)  # of a leaderboard's row, beside the recipe


def leaderboard(suite: SuiteResults, name: str = "sts") -> pd.DataFrame:
    """One of a suite's own tables: a row per method, setting, backbone, corpus and recipe, best
    average first.

    Args:
        suite: the suite.
        name: a key of `suite.boards`.

    Returns:
        Columns: `backbone`, `label`, `method`, `setting`, `corpus`, `n` (finished seeds), `remark`
        (why other seeds have no scores), `run_ids` (tuple, in the order of the plan), `averages`
        (tuple, one per seed), and for each
        task and `Avg`: `<task>`, the mean in points, `<task> sd` (NaN with fewer than 2 seeds) and
        `<task> n`, the number of seeds. Rows are sorted within a backbone.
    """
    board = suite.boards[name]
    groups: dict[tuple[str, ...], list[RunResults]] = {}
    for run in suite.runs:
        if set(board.tasks) & set(expand_tasks(run.plan.get("tasks", board.tasks))):
            changes = sorted((run.plan.get("recipe_changes") or {}).items())
            group = (*(run.plan[name] or "" for name in _BOARD_GROUP), str(changes))
            groups.setdefault(group, []).append(run)
    columns = (*board.tasks, "Avg")
    scores = [name for task in columns for name in (task, f"{task} sd")]
    counts = [f"{task} n" for task in columns]
    rows = [
        dict(zip(_BOARD_GROUP, group[:-1], strict=True)) | _board_row(runs, board)
        for group, runs in groups.items()
    ]
    frame = pd.DataFrame(
        rows, columns=[*_BOARD_GROUP, "n", "remark", "run_ids", "averages", *scores, *counts]
    )
    frame = frame.astype(dict.fromkeys(scores, float) | dict.fromkeys(counts, int))
    order = {name: index for index, name in enumerate(frame["backbone"].unique())}
    return frame.sort_values(
        ["backbone", "Avg"], ascending=[True, False], kind="stable", ignore_index=True,
        key=lambda column: column.map(order) if column.name == "backbone" else column,
    )  # fmt: skip


def _board_row(runs: list[RunResults], board: Board) -> dict[str, Any]:
    """The columns of a leaderboard that are computed from the runs of one row."""
    unfinished = [run for run in runs if run.status != "finished"]
    fates = Counter(
        run.status if run.status == "missing" else f"{run.status}: {run.reason}"
        for run in unfinished
    )
    points = [
        [run.scores.get((task, "test", board.metric)) for task in board.tasks] for run in runs
    ]
    averages = _present(map(average_of_all, points))
    row: dict[str, Any] = {
        "n": len(runs) - len(unfinished),
        "remark": "; ".join(f"{count} {fate}" for fate, count in sorted(fates.items())),
        "run_ids": tuple(run.plan["id"] for run in runs),
        "averages": tuple(averages),
    }
    by_task = dict(zip(board.tasks, map(_present, zip(*points, strict=True)), strict=True)) | {
        "Avg": averages
    }
    for task, values in by_task.items():
        row |= {task: _mean(values), f"{task} sd": _sd(values), f"{task} n": len(values)}
    return row
