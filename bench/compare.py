"""Reading a suite's folder, and joining printed numbers with ours.

`cells` is the one path from scores to verdicts: tables, figures, page and tests go through it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from bench.errors import UserError
from bench.files import read_json
from bench.records import BOARDS, average, expand_tasks, read_scores
from bench.reported import LABEL, SCORES, mapped, prior_sd
from bench.verdict import Cell, Verdict, tolerance, verdicts

NEUTRAL_CHANGES = {"threads", "precision"}  # recipe fields that change an experiment's cost, not the experiment

Key = tuple[str, str, str]  # task, split, metric


@dataclass(frozen=True)
class Scored:
    """A planned run with what became of it.

    Attributes:
        plan: the run as plan.json has it.
        status: "finished", "diverged", "skipped", or "missing" where nothing was scored yet.
        data: the evaluation data it was scored on.
        scores: points by (task, split, metric), aggregated over a task's parts as one list ("all").
    """

    plan: Mapping[str, Any]
    status: str
    reason: str
    data: str
    scores: Mapping[Key, float]


@dataclass(frozen=True)
class Suite:
    """A suite's folder, read."""

    name: str
    data: str
    stand_ins: Mapping[str, str]
    runs: list[Scored]
    provenance: list[Mapping[str, Any]]

    @property
    def remark(self) -> str:
        """What the suite's numbers cannot be compared with, as a sentence; empty where they can."""
        foreign = []
        if self.stand_ins:
            foreign.append("measured on " + " and ".join(sorted(set(self.stand_ins.values()))))
        if self.data != "senteval":
            foreign.append(
                "scored on " + ("the embedded world" if self.data == "world" else f"the data set {self.data}")
            )
        else:
            trained = [run.plan for run in self.runs if run.plan["seed"] is not None]
            if corpora := {plan["corpus"] for plan in trained if not plan.get("own_corpus")} - {"wiki1m"}:
                foreign.append("trained on " + " and ".join(sorted(corpora)))
            if changed := {key for plan in trained for key in plan.get("recipe_changes") or {}} - NEUTRAL_CHANGES:
                foreign.append(f"recipe changed ({', '.join(sorted(changed))})")
        text = ", ".join(foreign)
        return f"{text[0].upper()}{text[1:]}: comparable with each other, with no paper." if text else ""


def _read_run(plan: Mapping[str, Any], path: Path) -> tuple[Scored, Mapping[str, Any]]:
    if not path.is_file():
        return Scored(plan, "missing", "no scores in this suite", "", {}), {}
    provenance, records = read_scores(path)
    try:
        outcome, data = provenance["outcome"], provenance["data"]["name"]
        scores = {
            (record["task"], record["split"], record["metric"]): float(record["value"])
            for record in records
            if record["aggregation"] not in ("mean", "wmean")
        }
        return Scored(plan, outcome["status"], outcome.get("reason") or "", data, scores), provenance
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a scores file of this suite ({error!r}); delete it and score again") from None


def read_suite(folder: Path) -> Suite:
    """Read `plan.json` and the scores of every planned run.

    Raises:
        UserError: there is no plan, or a file is not what it should be.
    """
    folder = Path(folder)
    plan = read_json(folder / "plan.json")
    try:
        read = [_read_run(run, folder / "scores" / f"{run['id']}.json") for run in plan["runs"]]
        runs, provenance = [run for run, _ in read], [entry for _, entry in read if entry]
        return Suite(plan["suite"], plan["data"], plan.get("stand_ins") or {}, runs, provenance)
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{folder / 'plan.json'} is not a plan ({error!r}); delete it and plan the suite again"
        ) from None


def _select(suite: Suite, method: str, setting: str, backbone: str) -> list[Scored]:
    """The planned runs for a printed label, on its backbone or else its stand-in; comparable ones alone if any."""
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
        differences.append(f"{run.plan['backbone']} stands in for {backbone}")
    if run.data not in ("senteval", ""):
        differences.append(f"scored on {run.data}")
    if run.plan["seed"] is not None:
        if run.plan["corpus"] != "wiki1m" and not run.plan.get("own_corpus"):
            differences.append(f"trained on {run.plan['corpus']}")
        changed = sorted(set(run.plan.get("recipe_changes") or {}) - NEUTRAL_CHANGES)
        if changed:
            differences.append(f"recipe changed ({', '.join(changed)})")
    return differences


def _settled(runs: list[Scored], values: list[float], backbone: str) -> Verdict | None:
    """The verdict where no statistics are needed, else None."""
    statuses = [run.status for run in runs]
    ended = len(runs) - statuses.count("missing")
    diverged = f"{statuses.count('diverged')} of {ended} seeds diverged"
    if not values and "diverged" not in statuses:
        reasons = [run.reason for run in runs if run.status != "finished" and run.reason]
        absent = "this score is not in the suite" if "finished" in statuses else "no scores in this suite"
        return Verdict("not run", next(iter(reasons), absent))
    differences = next((found for run in runs if (found := _differences(run, backbone))), [])
    if differences:
        return Verdict("not comparable", "; ".join([*differences, *([diverged] if "diverged" in statuses else [])]))
    # A mean over the seeds that survived would be a mean of the lucky ones.
    return Verdict("diverged", diverged) if "diverged" in statuses else None


def _tolerance_kind(run: Scored, task: str, metric: str, backbone: str) -> str:
    if metric == "accuracy":
        return "transfer, small test" if task in ("TREC", "MRPC") else "transfer"
    if run.plan["seed"] is None:
        return "untrained"
    return "trained large" if "large" in backbone else "trained base"


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None


def _present(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _sd(values: list[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None


def cells(suite: Suite) -> pd.DataFrame:
    """One row for each printed score, in the order of print, with our side of it.

    Columns: `source`, `table`, `method`, `backbone`, `variant`, `task`, `split`, `metric`, `quoted_from` and `printed`
    (points); `run` (as in recipes.yaml, or empty) with `measured_on` (its backbone) and `deterministic`; `ours` (tuple
    of points, one a seed), `n`, `mean`, `sd`, `difference` (mean - printed), `half_width` (of the 95 % interval, for
    trained cells that are judged); `verdict`, `reason`, `seeds` (how many would decide); and of the other setting
    `other_setting`, `other` (tuple), `other_n`, `other_mean`, `other_sd`.
    """
    printed = mapped()
    rows: list[dict[str, Any]] = []
    judged: dict[tuple[str, str], list[tuple[dict[str, Any], Cell]]] = {}
    selected: dict[tuple[str, str, str], list[Scored]] = {}

    def select(method: str, setting: str, backbone: str) -> list[Scored]:
        if (key := (method, setting, backbone)) not in selected:
            selected[key] = _select(suite, *key)
        return selected[key]

    for number in printed[printed.metric.isin(SCORES)].to_dict("records"):
        key = (number["task"], number["split"], number["metric"])
        backbone = number["suite_backbone"] or number["backbone"]
        method, _, setting = number["run"].partition("@")
        other_setting = "paper" if setting == "official" else "official"
        runs = select(method, setting, backbone)
        values = [run.scores[key] for run in runs if key in run.scores]
        other = [run.scores[key] for run in select(method, other_setting, backbone) if key in run.scores]
        row = {name: number[name] for name in [*LABEL, "task", "split", "metric", "quoted_from"]}
        row |= {"printed": number["value"], "run": number["run"], "ours": tuple(values), "n": len(values)}
        deterministic = bool(runs) and runs[0].plan["seed"] is None
        row |= {"measured_on": runs[0].plan["backbone"] if runs else "", "deterministic": deterministic}
        row |= {"mean": _mean(values), "sd": _sd(values)}
        row |= {"difference": fmean(values) - number["value"] if values else None}
        row |= {"other_setting": other_setting if other else "", "other": tuple(other), "other_n": len(other)}
        row |= {"other_mean": _mean(other), "other_sd": _sd(other), "half_width": None}
        rows.append(row)
        known = Verdict("not run", number["reason"]) if number["reason"] else _settled(runs, values, backbone)
        if known:
            row |= {"verdict": known.kind, "reason": known.reason, "seeds": known.seeds}
            continue
        prior = prior_sd(backbone, number["task"], number["split"])
        kind = _tolerance_kind(runs[0], number["task"], number["metric"], backbone)
        cell = Cell(
            printed=number["value"],
            ours=values,
            tolerance=tolerance(kind, number["task"], prior),
            deterministic=deterministic,
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


def leaderboard(suite: Suite, board: str = "sts") -> pd.DataFrame:
    """One of a suite's own tables: a row for each method, setting, backbone and corpus, best average first.

    Columns: `backbone`, `label`, `method`, `setting`, `corpus`, `n` (finished seeds), `remark` (what became of the
    others), `averages` (tuple, one a seed), and for each task of `BOARDS[board]` and `Avg` its mean in points and
    `<task> sd` (NaN for fewer than 2 seeds). Rows are sorted within a backbone.
    """
    tasks, metric = BOARDS[board]
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
            row |= {task: _mean(values), f"{task} sd": _sd(values)}
        rows.append(row)
    scores = [name for task in (*tasks, "Avg") for name in (task, f"{task} sd")]
    frame = pd.DataFrame(
        rows, columns=["backbone", "label", "method", "setting", "corpus", "n", "remark", "averages", *scores]
    )
    frame = frame.astype(dict.fromkeys(scores, float))
    order = {name: index for index, name in enumerate(frame["backbone"].unique())}
    return frame.sort_values(
        ["backbone", "Avg"], ascending=[True, False], kind="stable", ignore_index=True,
        key=lambda column: column.map(order) if column.name == "backbone" else column,
    )  # fmt: skip
