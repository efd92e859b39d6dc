"""The runs on a suite's page: their data for its script, their provenance, and their commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from bench.results.suite_results import RunResults
from bench.runs import config

CURVE = {
    "dev": "Selection score (Spearman x 100)",
    "loss": "Training loss",
    "alignment": "Alignment",
    "uniformity": "Uniformity",
}
CURVE_POINTS = 60  # as many as a chart 280 pixels wide can show
SCORE_DIGITS = 4  # decimals in the page's data; the tables show two

Json = dict[str, Any]
Facts = list[tuple[str, str]]  # (title, text)


def commands(suite: str) -> Json:
    """What a reader types before the id of a run, to make it alone, and before the scores of
    several, which the workflow makes; and the folder of these scores. Configurations that are not
    of the project are called FILE."""
    own = {path.stem for path in config.SUITES.glob("*.yaml")}
    file = f"config/{suite}.yaml" if suite in own else "FILE"
    return {
        "run": f"python -m bench runs --suite {shlex.quote(f'results/{suite}')} --only",
        # A --configfile takes several files; another option ends the list.
        "workflow": f"snakemake --configfile {file} --cores 4",
        "scores": shlex.quote(f"results/{suite}/scores/"),
    }


def _text(value: Any) -> str:
    """A value of a provenance as text; empty and false fields are left out."""
    if isinstance(value, Mapping):
        fields = {
            key: item for key, item in value.items() if item is not None and item is not False
        }
        return ", ".join(f"{key} {_text(item)}" for key, item in fields.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(_text, value))
    return str(value)


def origin(provenance: Mapping[str, Any]) -> Facts:
    """The provenance of scores, as titled texts."""
    fields = {name: provenance.get(name.lower()) for name in ("Code", "Data", "Corpora")}
    fields["Corpora"] = fields["Corpora"] or provenance.get("corpus")
    fields |= {name: provenance.get(name.lower()) for name in ("Device", "Arithmetic")}
    fields["Libraries"] = provenance.get("versions")
    return [(title, _text(value)) for title, value in fields.items() if value]


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, SCORE_DIGITS)


def curve_columns(points: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """A training curve as columns, thinned evenly to `CURVE_POINTS`; the first and the last point
    are kept."""
    last = len(points) - 1
    indices = sorted({round(index * last / (CURVE_POINTS - 1)) for index in range(CURVE_POINTS)})
    kept = [points[index] for index in indices]
    columns = {name: [rounded(point.get(name)) for point in kept] for name in CURVE}
    columns = {name: values for name, values in columns.items() if set(values) != {None}}
    return {"step": [point["step"] for point in kept], **columns}


def run_data(run: RunResults, origins: list[Facts], scores: str) -> Json:
    """A run; its provenance is appended to `origins` unless an equal one is there."""
    outcome = run.provenance.get("outcome", {})
    data: Json = {name: run.plan[name] for name in ("id", "backbone", "setting", "seed")}
    data |= {"status": run.status, "reason": run.reason, "date": run.provenance.get("date")}
    data |= {name: outcome.get(name) for name in ("steps", "best_step", "best_dev", "seconds")}
    if run.provenance:
        if (found := origin(run.provenance)) not in origins:
            origins.append(found)
        data |= {"origin": origins.index(found), "file": f"{scores}/{quote(run.plan['id'])}.json"}
    if outcome.get("curve"):
        data["curve"] = curve_columns(outcome["curve"])
    return {name: value for name, value in data.items() if value not in (None, "")}
