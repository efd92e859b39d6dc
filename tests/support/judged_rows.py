"""Rows of a judged suite with chosen values, for tests of what is rendered of them. Every builder
takes other values of any field."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, TypeVar, get_args, get_origin

from bench.datasets.tasks import LEADERBOARDS, STS_TASKS
from bench.judged.rows import (
    Heading,
    Judged,
    LeaderboardRow,
    NumberRow,
    PairRow,
    PrintedGain,
    RunRow,
    Score,
    SettingRow,
    SideRow,
    SystemRow,
    Verdict,
    WorldRow,
    known,
)
from bench.utils.errors import listed
from bench.utils.validation import StrictModel

BASE = "bert-base-uncased"
AnyModel = TypeVar("AnyModel", bound=StrictModel)


def row(model: type[AnyModel], **values: Any) -> AnyModel:
    """A row with these values, and empty ones in its other fields without a default."""
    required = {
        name: field.annotation for name, field in model.model_fields.items() if field.is_required()
    }
    for name in required.keys() - values:
        optional = type(None) in get_args(required[name])
        values[name] = None if optional else (get_origin(required[name]) or required[name])()
    return model(**values)


def leaderboard(name: str = "sts", planned: Sequence[str] = ()) -> LeaderboardRow:
    """A leaderboard; `planned`: the tasks that are planned, by default all."""
    whole = LEADERBOARDS[name]
    part = replace(whole, tasks=tuple(planned), subject=listed(planned)) if planned else whole
    return LeaderboardRow(whole=whole, planned=part)


def heading(*leaderboards: LeaderboardRow, **more: Any) -> Heading:
    """A suite of the papers' data without a baseline, by default with the leaderboard of STS."""
    values = {
        "suite": "s", "setting": "official", "mode": "test", "config": "FILE.yaml",
        "baseline_has_seeds": True,
    }  # fmt: skip
    return row(Heading, **values | {"leaderboards": leaderboards or (leaderboard(),)} | more)


WITH_BASELINE = {
    "baseline": "simcse",
    "baseline_name": "SimCSE, official",
    "families": 1,
    "claims": "1 claim",
}
WHY = "look at 3 seeds (N = 3)"


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
    values: dict[str, Any] = {
        "leaderboard": "sts", "backbone": BASE, "label": method, "method": method,
        "setting": "official", "corpus": "wiki1m", "n": longest,
    }  # fmt: skip
    values |= {"run_averages": by_task.get("Avg", ())} | more
    values["averages"] = known(values["run_averages"])
    values.setdefault("name", f"{values['label']}, {values['setting']}")
    values.setdefault("runs", [f"{method}-{seed}" for seed in range(longest)])
    scores = [Score(task=task, scores=by_task.get(task, ())) for task in (*tasks, "Avg")]
    return row(SystemRow, **{"scores": scores} | values)


def pair(method: str, differences: Sequence[float], **more: Any) -> PairRow:
    """A method against SimCSE on the average of STS, with one difference a seed, which nobody
    claims."""
    n, mean = len(differences), fmean(differences)
    values: dict[str, Any] = {
        "leaderboard": "sts", "backbone": BASE, "method": method, "label": method,
        "setting": "official", "task": "Avg", "baseline": "simcse@official",
        "runs": [f"{method}-{seed}" for seed in range(n)], "n": n,
        "baseline_name": "SimCSE, official", "kind": "paired", "mean_a": 75.0 + mean, "sd_a": 0.5,
        "mean_b": 75.0, "sd_b": 0.4, "differences": differences,
    }  # fmt: skip
    values |= {"difference": mean, "half_width": 0.5, "p": 0.2} | more
    values.setdefault("name", f"{values['label']}, {values['setting']}")
    return row(PairRow, **values)


def claim(method: str, differences: Sequence[float], **more: Any) -> PairRow:
    """A claimed gain of a point, which is open after its first look."""
    n = len(differences)
    values: dict[str, Any] = {
        "family": 1, "margin": 1.0, "planned": n, "next_look": 2 * n, "p_adjusted": 0.4,
        "p_below": 0.3, "verdict": "open", "reason": WHY,
    }  # fmt: skip
    return pair(method, differences, **values | more)


def printed_gain(printed_a: float, printed_b: float | None, **more: Any) -> PrintedGain:
    """A printed gain of Table 2 of SSCL, without a part."""
    values: dict[str, Any] = {
        "source": "sscl", "table": "Table 2", "printed_on": BASE, "printed_a": printed_a,
        "printed_b": printed_b, "gain": None if printed_b is None else printed_a - printed_b,
    }  # fmt: skip
    return row(PrintedGain, **values | more)


def measured(scores: Sequence[float] = (), kind: str = "", **more: Any) -> SideRow:
    """Our side of a printed number: by default not run, or open with scores. Fields of a verdict
    (`reason`, `next_look`, `tolerance`, ...) and the setting may be given, too."""
    of_verdict = {name: more.pop(name) for name in Verdict.model_fields.keys() & more}
    of_verdict["kind"] = kind or ("open" if scores else "not run")
    run = f"simcse@{more.pop('setting', 'official')}"
    values = {"run": run, "scores": scores, "measured_on": BASE if scores else ""}
    return row(SideRow, **values | {"verdict": Verdict(**of_verdict)} | more)


def number(value: float, ours: SideRow | None = None, **more: Any) -> NumberRow:
    """A printed STS average of SimCSE, in Table 2 of SSCL, and by default no run of ours."""
    side = ours or measured()
    values: dict[str, Any] = {
        "paper": "SSCL", "paper_title": "SSCL", "source": "sscl", "table": "Table 2",
        "row": "SimCSE", "label": "SimCSE", "method": "SimCSE", "backbone": BASE, "task": "Avg",
        "split": "test", "our_split": "test", "metric": "spearman", "value": value,
        "text": f"{value:.2f}", "run": side.run, "planned": True, "ours": side,
        "difference": None if side.mean is None else side.mean - value,
    }  # fmt: skip
    return row(NumberRow, **values | more)


def setting(place: int = 0, **more: Any) -> SettingRow:
    """A printed hyper-parameter of SSCL."""
    values = {
        "paper": "SSCL", "source": "sscl", "table": "Table 1", "label": "SSCL", "backbone": "all",
        "reason": "hyper-parameter, not a score",
    }  # fmt: skip
    return row(SettingRow, place=place, **values | more)


def run(method: str, seed: int | None = 0, **more: Any) -> RunRow:
    """A finished run that took a minute."""
    text, title = f"{method}@official", f"{method}, official, {BASE}, seed {seed}"
    values: dict[str, Any] = {
        "id": f"{method}-{seed}", "title": title, "text": text, "backbone": BASE,
        "setting": "official", "seed": seed, "trained": seed is not None, "status": "finished",
        "steps": 100, "best_step": 100, "best_dev": 80.0,
    }  # fmt: skip
    return row(RunRow, **values | {"seconds": 50.0, "scoring_seconds": 10.0} | more)


def judged(systems: Iterable[SystemRow] = (), suite: Heading | None = None, **more: Any) -> Judged:
    """A judged suite of these systems."""
    return Judged(suite=suite or heading(), systems=tuple(systems), **more)


def of_world(task: str, kind: str, score: float | None, seed: int | None = 1) -> WorldRow:
    """A score of a run on the toy data, beside a number of 60 with a tolerance of 0.5."""
    run = {"run": "simcse@official", "backbone": "toy-bert", "seed": seed, "metric": "spearman"}
    verdict = Verdict(kind=kind, reason="x")
    return WorldRow(**run, task=task, number=60.0, score=score, tolerance=0.5, verdict=verdict)
