"""Suite folders made up for tests: a plan and scores with chosen values."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.datasets.tasks import STS_TASKS, average
from bench.results.records import write_scores
from bench.runs.plan import PlannedRun
from bench.utils.files import write_json


def write_suite(
    folder: Path,
    entries: Sequence[Mapping[str, Any]],
    *,
    name: str = "paper",
    data: str = "senteval",
    stand_ins: Mapping[str, str] | None = None,
    baseline: str = "",
    claims: Iterable[Mapping[str, Any]] = (),
    printed: Iterable[Mapping[str, Any]] = (),
) -> Path:
    """Write plan.json and scores/ under `folder`; `printed`: fields of a `PlannedNumber` each.

    Each entry is one run: `method`, `setting`, `backbone`, `seed`, and `scores` (points by task, on
    the test split, or of all STS tasks; the average is added), or `status` and `reason` where it
    has none; `scores=None` alone leaves its file out. `corpus`, `label`, `recipe_changes`, `tasks`,
    `parts`, `trained`, `added`, `identity`, `data` and `id` may be given; `records`, more of them
    (task, split, metric, aggregation and value); `outcome`, more of it; `analyses`, results by
    name; `contamination`, counts by task.
    """
    plan = []
    for number, entry in enumerate(entries):
        trained = entry.get("seed") is not None
        scores, status = entry.get("scores"), entry.get("status", "finished")
        if isinstance(scores, int | float):
            scores = dict.fromkeys(STS_TASKS, scores)
        measured = [*(scores or ()), *(x["task"] for x in entry.get("records", ()))]
        more_tasks = dict.fromkeys(x for x in measured if x not in (*STS_TASKS, "Avg"))
        values = {
            "id": f"run{number:03d}", "method": "", "setting": "official", "seed": None,
            "label": entry["method"], "backbone": "bert-base-uncased", "corpus": "wiki1m",
            "recipe_changes": {}, "parts": (), "trained": trained, "identity": {}, "added": {},
            "tasks": ["sts", *more_tasks],
        }  # fmt: skip
        values |= {name: entry[name] for name in values.keys() & entry}
        if not trained:
            values["corpus"] = ""
        values["analyses"] = tuple(entry.get("analyses", ()))
        run = PlannedRun(**values).model_dump(mode="json")
        plan.append(run)
        if scores is None and status == "finished":
            continue
        scores = dict(scores or {})
        if scores and set(STS_TASKS) <= set(scores):
            scores.setdefault("Avg", average([scores[task] for task in STS_TASKS]))
        common = {"split": "test", "metric": "spearman"}
        own = [{"task": x, "aggregation": "all", "value": value} for x, value in scores.items()]
        means = scores.keys() - {"Avg"}
        own += [{"task": x, "aggregation": "mean", "value": 0.0} for x in scores if x in means]
        records = [common | record for record in [*own, *entry.get("records", [])]]
        outcome = {"status": status, "reason": entry.get("reason")}
        outcome |= {"step": 100 if trained else None} | entry.get("outcome", {})
        provenance = {
            "run": run, "outcome": outcome, "data": {"name": entry.get("data", data)},
            "code": {"version": "0.1.0"}, "device": {"kind": "cpu"},
            "contamination": entry.get("contamination", {}),
        }  # fmt: skip
        write_scores(folder / "scores" / f"{run['id']}.json", provenance, records)
        if "analyses" in entry:
            content = {"provenance": {}, "analyses": entry["analyses"]}
            write_json(folder / "analyses" / f"{run['id']}.json", content)
    content = {
        "suite": name, "data": data, "stand_ins": dict(stand_ins or {}), "runs": plan,
        "baseline": baseline, "claims": [*claims], "printed": [*printed],
    }  # fmt: skip
    write_json(folder / "plan.json", content)
    return folder


def claims(*methods: str, backbone: str = "bert-base-uncased", **more: Any) -> list[dict[str, Any]]:
    """Claims of a gain over SimCSE, by default of a point each."""
    claim = {"backbone": backbone, "corpus": "wiki1m", "baseline": "simcse@official"}
    claim |= {"margin": 1.0} | more
    return [claim | {"method": f"{method}@official"} for method in methods]


def seeds(method: str, rows: Iterable[Any], **more: Any) -> list[dict[str, Any]]:
    """One run for each entry of scores, with seeds 0, 1, ..."""
    return [{"method": method, "seed": n, "scores": row, **more} for n, row in enumerate(rows)]
