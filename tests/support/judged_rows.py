"""Rows of a judged suite with chosen values, for tests of what is rendered of them. Every builder
takes other values of any field."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

from bench.datasets.tasks import STS_TASKS, boards_of
from bench.judged.rows import (
    BoardRow,
    Claim,
    Heading,
    Judged,
    Measured,
    NumberRow,
    PairRow,
    RunRow,
    Score,
    SystemRow,
    Verdict,
)
from bench.utils.errors import listed

BASE = "bert-base-uncased"


def board(name: str = "sts", planned: Sequence[str] = (), tasks: Sequence[str] = ()) -> BoardRow:
    """A board; `planned`: the tasks that are planned, by default all; `tasks`: those of a user."""
    whole = boards_of(tasks)[name]
    part = replace(whole, tasks=tuple(planned), which=listed(planned)) if planned else whole
    return BoardRow(whole=whole, planned=part)


def heading(*boards: BoardRow, **more: Any) -> Heading:
    """A suite of the papers' data without a baseline, by default with the board of STS."""
    values: dict[str, Any] = {"suite": "s", "mode": "test", "config": "FILE.yaml"}
    values |= {"baseline": "", "baseline_name": "", "baseline_has_seeds": True, "uncompared": ""}
    values |= {"boards": boards or (board(),), "stand_ins": (), "differs": (), "partial": ""}
    return Heading(**values | {"growth": "", "recipe": "", "orders": ()} | more)


WITH_BASELINE = {"baseline": "simcse", "baseline_name": "SimCSE, official"}


def score(task: str, values: Sequence[float]) -> Score:
    mean = fmean(values) if values else None
    return Score(
        task=task, values=tuple(values), mean=mean, sd=stdev(values) if values[1:] else None
    )


def system(
    method: str,
    points: Sequence[float] | Mapping[str, Sequence[float]] = (),
    *,
    tasks: Sequence[str] = STS_TASKS,
    **more: Any,
) -> SystemRow:
    """A system with these points, one a seed, on every task and on average, or by task."""
    by_task = points if isinstance(points, Mapping) else dict.fromkeys((*tasks, "Avg"), points)
    longest = max(map(len, by_task.values()))
    values: dict[str, Any] = {"board": "sts", "backbone": BASE, "label": method, "method": method}
    values |= {"setting": "official", "corpus": "wiki1m", "labelled": False, "outside": False}
    values |= {"own": False, "n": longest, "diverged": False, "remark": "", "seen": None}
    values |= {"on_unseen": None, "run_averages": by_task.get("Avg", ())}
    values |= more
    values.setdefault("name", f"{values['label']}, {values['setting']}")
    values.setdefault("runs", [f"{method}-{seed}" for seed in range(longest)])
    scores = [score(task, by_task.get(task, ())) for task in (*tasks, "Avg")]
    return SystemRow(**{"scores": scores} | values)


def pair(method: str, differences: Sequence[float], **more: Any) -> PairRow:
    """A method against SimCSE on the average of STS, with one difference a seed; undecided."""
    n = len(differences)
    values: dict[str, Any] = {"board": "sts", "backbone": BASE, "method": method, "label": method}
    values |= {"setting": "official", "task": "Avg", "outside": False, "labelled": False}
    values |= {"runs": [f"{method}-{seed}" for seed in range(n)], "baseline": "simcse@official"}
    values |= {"baseline_name": "SimCSE, official", "kind": "paired", "n": n, "n_a": n, "n_b": n}
    values |= {"items": None, "mean_a": 75.0 + fmean(differences), "sd_a": 0.5, "mean_b": 75.0}
    values |= {"sd_b": 0.4, "differences": differences, "difference": fmean(differences)}
    values |= {"prior_sd": None, "prior_df": 0, "half_width": 0.5, "p": 0.2, "p_adjusted": 0.4}
    values |= {"verdict": "undecided", "reason": "about 8 seeds would decide", "seeds": 8} | more
    values.setdefault("name", f"{values['label']}, {values['setting']}")
    return PairRow(**values)


def claim(printed_a: float, printed_b: float | None, **more: Any) -> Claim:
    """A printed gain of Table 2 of SSCL, without a part."""
    values: dict[str, Any] = {"source": "sscl", "table": "Table 2", "printed_on": BASE}
    values |= {"printed_a": printed_a, "printed_b": printed_b, "seeds_claimed": None}
    values |= {"claimed": None if printed_b is None else printed_a - printed_b}
    return Claim(**values | dict.fromkeys(("part", "part_low", "part_high")) | more)


def measured(scores: Sequence[float] = (), kind: str = "", **more: Any) -> Measured:
    """Our side of a printed number: by default not run, or inconclusive with scores. Fields of a
    verdict (`reason`, `seeds`, `tolerance`, ...) may be given, too."""
    of_verdict = {name: more.pop(name) for name in Verdict.model_fields.keys() & more}
    of_verdict["kind"] = kind or ("inconclusive" if scores else "not run")
    mean = fmean(scores) if scores else None
    values: dict[str, Any] = {"run": "simcse@official", "setting": "official", "scores": scores}
    values |= {"measured_on": BASE if scores else "", "deterministic": False, "mean": mean}
    values |= {"sd": stdev(scores) if scores[1:] else None, "verdict": Verdict(**of_verdict)}
    return Measured(**values | more)


def number(value: float, ours: Measured | None = None, **more: Any) -> NumberRow:
    """A printed STS average of SimCSE, in Table 2 of SSCL, and by default no run of ours."""
    side = ours or measured()
    values: dict[str, Any] = {"place": 0, "address": "", "paper": "SSCL", "paper_title": "SSCL"}
    values |= {"source": "sscl", "table": "Table 2", "row": "SimCSE", "label": "SimCSE"}
    values |= {"method": "SimCSE", "backbone": BASE, "variant": "", "line": "", "task": "Avg"}
    values |= {"split": "test", "metric": "spearman", "aggregation": "", "value": value}
    values |= {"text": f"{value:.2f}", "quoted_from": "", "note": "", "reason": ""}
    values |= {"run": side.run, "minus": "", "our_split": "test", "command": "", "ranks": True}
    values |= {"planned": True, "ours": side, "rank": None, "best_of_five": None, "cv": None}
    values |= {"difference": None if side.mean is None else side.mean - value}
    return NumberRow(**values | more)


def run(method: str, seed: int | None = 0, **more: Any) -> RunRow:
    """A finished run that took a minute."""
    text, title = f"{method}@official", f"{method}, official, {BASE}, seed {seed}"
    values: dict[str, Any] = {"id": f"{method}-{seed}", "title": title, "text": text}
    values |= {"backbone": BASE, "setting": "official", "seed": seed, "trained": seed is not None}
    values |= {"status": "finished", "reason": "", "scored": True, "date": None, "steps": 100}
    values |= {"best_step": 100, "best_dev": 80.0, "seconds": 50.0, "scoring_seconds": 10.0}
    return RunRow(**values | {"origin": {}, "curve": {}, "analyses": ()} | more)


def judged(systems: Iterable[SystemRow] = (), suite: Heading | None = None, **more: Any) -> Judged:
    """A judged suite of these systems."""
    return Judged(suite=suite or heading(), systems=tuple(systems), **more)
