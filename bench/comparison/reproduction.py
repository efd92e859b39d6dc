"""Joining printed numbers with ours.

`cells` is the one path from scores to verdicts: tables, figures, page and tests go through it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from bench.comparison.verdict import Cell, Verdict, tolerance, verdicts
from bench.datasets.tasks import average, expand_tasks
from bench.reported import LABEL, MEASURES, mapped, prior_sd
from bench.results.suite_results import NEUTRAL_CHANGES, Key, Scored, Suite


def select(suite: Suite, run: str, backbone: str) -> list[Scored]:
    """The planned runs of a text as in recipes.yaml, on its backbone or else its stand-in.

    Comparable ones alone if there are any; one corpus and recipe in any case.
    """
    method, _, setting = run.partition("@")
    for name in (backbone, suite.stand_ins.get(backbone)):
        found = [
            run
            for run in suite.runs
            if (run.plan["method"], run.plan["setting"], run.plan["backbone"]) == (method, setting, name)
        ]
        if found:
            first = next((run for run in found if not _differences(run, backbone)), found[0])
            alike = ("corpus", "recipe_changes")
            return [run for run in found if all(run.plan.get(key) == first.plan.get(key) for key in alike)]
    return []


def _differences(run: Scored, backbone: str) -> list[str]:
    """What makes a run another experiment than the printed one."""
    differences = []
    if run.plan["backbone"] != backbone:
        differences.append(f"{run.plan['backbone']} stands in for {backbone}, with its own settings")
    if run.data not in ("senteval", ""):
        differences.append(f"scored on {run.data}")
    if run.plan["seed"] is not None:
        if run.plan["corpus"] != "wiki1m" and not run.plan.get("own_corpus"):
            differences.append(f"trained on {run.plan['corpus']}")
        changed = sorted(set(run.plan.get("recipe_changes") or {}) - NEUTRAL_CHANGES)
        if changed:
            differences.append(f"recipe changed ({', '.join(changed)})")
    return differences


@dataclass(frozen=True)
class _Ours:
    """Our side of a printed number: one run's seeds, or two runs' (`minus` is subtracted), and the values of `key`."""

    runs: list[Scored]
    minus: list[Scored] | None
    key: Key
    sign: int

    @property
    def all(self) -> list[Scored]:
        return [*self.runs, *(self.minus or [])]

    @property
    def deterministic(self) -> bool:
        return bool(self.all) and all(run.plan["seed"] is None for run in self.all)

    @property
    def values(self) -> list[float]:
        """One a seed; of two runs the differences seed by seed, with every seed where one of them has none."""
        ours = {run.plan["seed"]: run.scores[self.key] for run in self.runs if self.key in run.scores}
        if self.minus is None:
            return [self.sign * value for value in ours.values()]
        less = {run.plan["seed"]: run.scores[self.key] for run in self.minus if self.key in run.scores}
        if set(less) == {None}:
            less = dict.fromkeys(ours, less[None])
        elif set(ours) == {None}:
            ours = dict.fromkeys(less, ours[None])
        return [self.sign * (value - less[seed]) for seed, value in ours.items() if seed in less]


def _missing(runs: list[Scored], key: Key) -> str:
    """Why none of some runs has a score; empty where one has, or diverged."""
    statuses = {run.status for run in runs}
    if "diverged" in statuses or any(key in run.scores for run in runs):
        return ""
    reasons = [run.reason for run in runs if run.status != "finished" and run.reason]
    absent = "this score is not in the suite" if "finished" in statuses else "no scores in this suite"
    return next(iter(reasons), absent)


def _settled(ours: _Ours, backbone: str) -> Verdict | None:
    """The verdict where no statistics are needed, else None."""
    sides = [ours.runs] if ours.minus is None else [ours.runs, ours.minus]
    if missing := next(filter(None, (_missing(side, ours.key) for side in sides)), ""):
        return Verdict("not run", missing)
    statuses = [run.status for run in ours.all]
    ended = len(statuses) - statuses.count("missing")
    diverged = f"{statuses.count('diverged')} of {ended} seeds diverged" if "diverged" in statuses else ""
    if not ours.values and not diverged:
        return Verdict("not run", "the two runs have no seed in common")
    differences = next((found for run in ours.all if (found := _differences(run, backbone))), [])
    if differences:
        return Verdict("not comparable", "; ".join(filter(None, [*differences, diverged])))
    # A mean over the seeds that survived would be a mean of the lucky ones.
    return Verdict("diverged", diverged) if diverged else None


def _tolerance_kind(ours: _Ours, task: str, metric: str, backbone: str) -> str:
    if metric in ("uniformity", "best_step"):
        return metric.replace("_", " ")
    if metric == "accuracy":
        return "transfer, small test" if task in ("TREC", "MRPC") else "transfer"
    if ours.deterministic:
        last = ours.runs[0].plan["method"].rpartition("+")[2].partition("[")[0]
        return {"whitening": "whitening", "flow": "flow", "published": "checkpoint"}.get(last, "untrained")
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


def cells(suite: Suite) -> pd.DataFrame:
    """One row for each printed number that measures something, in the order of print, with our side of it.

    Columns: `source`, `table`, `method`, `backbone`, `variant`, `task`, `split`, `metric`, `quoted_from`, `ours_split`
    (of our scores, where print means another than it says) and `printed` (points); `run` and `minus` (as in
    recipes.yaml, or empty) with `measured_on` (its backbone) and `deterministic`; `ours` (tuple of points, one a seed;
    where there is a `minus`, of paired differences), `n`, `mean`, `sd`,
    `difference` (mean - printed), `half_width` (of the 95 % interval, for trained cells that are judged); `verdict`,
    `reason`, `seeds` (how many would decide); and of the other setting `other_setting`, `other` (tuple), `other_n`,
    `other_mean`, `other_sd`.
    """
    printed = mapped()
    rows: list[dict[str, Any]] = []
    judged: dict[tuple[str, str], list[tuple[dict[str, Any], Cell]]] = {}
    runs_of = cache(lambda run, backbone: select(suite, run, backbone))

    for number in printed[printed.metric.isin(MEASURES)].to_dict("records"):
        backbone = number["suite_backbone"] or number["backbone"]
        split = number["suite_split"] or number["split"]
        metric, sign = MEASURES[number["metric"]]
        key = (number["task"], split, metric)
        run, minus, other_run = number["run"], number["minus"], _other_setting(number["run"])
        ours = _Ours(runs_of(run, backbone), runs_of(minus, backbone) if minus else None, key, sign)
        # What has one setting alone, as untrained encoders, is subtracted from both.
        less = (runs_of(_other_setting(minus), backbone) or runs_of(minus, backbone)) if minus else None
        values, other = ours.values, _Ours(runs_of(other_run, backbone), less, key, sign).values
        row = {name: number[name] for name in [*LABEL, "task", "split", "metric", "quoted_from"]}
        row |= {"ours_split": split}
        row |= {"printed": number["value"], "run": run, "minus": minus, "ours": tuple(values), "n": len(values)}
        row |= {"measured_on": ours.runs[0].plan["backbone"] if ours.runs else "", "deterministic": ours.deterministic}
        row |= {"mean": _mean(values), "sd": _sd(values)}
        row |= {"difference": fmean(values) - number["value"] if values else None}
        row |= {"other_setting": other_run.partition("@")[2] if other else "", "other": tuple(other)}
        row |= {"other_n": len(other), "other_mean": _mean(other), "other_sd": _sd(other), "half_width": None}
        rows.append(row)
        known = Verdict("not run", number["reason"]) if number["reason"] else _settled(ours, backbone)
        if known:
            row |= {"verdict": known.kind, "reason": known.reason, "seeds": known.seeds}
            continue
        # The public seeds are Spearman's correlations of one method.
        prior = prior_sd(backbone, number["task"], split) if metric == "spearman" and not minus else None
        cell = Cell(
            printed=number["value"],
            ours=values,
            tolerance=tolerance(_tolerance_kind(ours, number["task"], metric, backbone), number["task"], prior),
            deterministic=ours.deterministic,
            prior_sd=prior,
        )
        row |= {"half_width": cell.prediction.half_width if cell.prediction else None}
        judged.setdefault((number["source"], number["table"]), []).append((row, cell))

    for table in judged.values():
        for (row, _), found in zip(table, verdicts([cell for _, cell in table]), strict=True):
            row |= {"verdict": found.kind, "reason": found.reason, "seeds": found.seeds}
    frame = pd.DataFrame(rows)
    numeric = ["mean", "sd", "difference", "half_width", "other_mean", "other_sd"]
    return frame.astype({**dict.fromkeys(numeric, float), "seeds": "Int64"})


def leaderboard(suite: Suite, name: str = "sts") -> pd.DataFrame:
    """One of a suite's own tables: a row for each method, setting, backbone and corpus, best average first.

    Columns: `backbone`, `label`, `method`, `setting`, `corpus`, `n` (finished seeds), `remark` (what became of the
    others), `averages` (tuple, one a seed), and for each task of `suite.boards[name]` and `Avg` its mean in points and
    `<task> sd` (NaN for fewer than 2 seeds) and `<task> n`, its seeds. Rows are sorted within a backbone.
    """
    board = suite.boards[name]
    tasks, metric = board.tasks, board.metric
    groups: dict[tuple[Any, ...], list[Scored]] = {}
    for run in suite.runs:
        if not set(tasks) & set(expand_tasks(run.plan.get("tasks", tasks))):
            continue
        changes = sorted((run.plan.get("recipe_changes") or {}).items())
        names = ("backbone", "label", "method", "setting", "corpus")
        groups.setdefault((*(run.plan[name] or "" for name in names), str(changes)), []).append(run)
    rows = []
    for (backbone, label, method, setting, corpus, _), runs in groups.items():
        unfinished = [run for run in runs if run.status != "finished"]
        fates = Counter(run.status if run.status == "missing" else f"{run.status}: {run.reason}" for run in unfinished)
        remark = "; ".join(f"{count} {fate}" for fate, count in sorted(fates.items()))
        row: dict[str, Any] = {"backbone": backbone, "label": label, "method": method, "setting": setting}
        row |= {"corpus": corpus, "n": len(runs) - len(unfinished), "remark": remark}
        points = [[run.scores.get((task, "test", metric)) for task in tasks] for run in runs]
        averages = [average(values) for values in map(_present, points) if len(values) == len(tasks)]
        row |= {"averages": tuple(averages)}
        for task, values in (*zip(tasks, map(_present, zip(*points, strict=True)), strict=True), ("Avg", averages)):
            row |= {task: _mean(values), f"{task} sd": _sd(values), f"{task} n": len(values)}
        rows.append(row)
    scores = [name for task in (*tasks, "Avg") for name in (task, f"{task} sd")]
    counts = [f"{task} n" for task in (*tasks, "Avg")]
    frame = pd.DataFrame(
        rows, columns=["backbone", "label", "method", "setting", "corpus", "n", "remark", "averages", *scores, *counts]
    )
    frame = frame.astype(dict.fromkeys(scores, float) | dict.fromkeys(counts, int))
    order = {name: index for index, name in enumerate(frame["backbone"].unique())}
    return frame.sort_values(
        ["backbone", "Avg"], ascending=[True, False], kind="stable", ignore_index=True,
        key=lambda column: column.map(order) if column.name == "backbone" else column,
    )  # fmt: skip
