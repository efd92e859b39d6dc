"""The runs of a suite as rows: how their trainings went, and what their scores come from."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.judge.systems import shown_name
from bench.judged.rows import Analysis, RunRow
from bench.results.records import CurvePoint
from bench.results.suite_results import RunResults

_ORIGIN = ("code", "data", "corpora", "device", "arithmetic", "versions")
_CURVE = ("step", "dev", "loss", "alignment", "uniformity")


def run_row(result: RunResults) -> RunRow:
    planned, provenance = result.run, result.provenance
    outcome, written = provenance.outcome, provenance.as_written()
    title = f"{shown_name(result)}, {planned.backbone}"
    if planned.seed is not None:
        title += f", seed {planned.seed}"
    return RunRow.of(
        planned,
        result,
        outcome,
        provenance,
        title=title,
        scoring_seconds=provenance.seconds,
        origin={name: written[name] for name in _ORIGIN if written.get(name)},
        curve=_columns(outcome.curve or []),
        analyses=_analyses(result.analyses),
    )


def _columns(points: Sequence[CurvePoint]) -> dict[str, list[Any]]:
    """A training curve as columns; without those that have no value."""
    columns = {}
    for name in _CURVE:
        values = [getattr(point, name) for point in points]
        if set(values) - {None}:
            columns[name] = values
    return columns


def _analyses(results: Mapping[str, Any]) -> list[Analysis]:
    rows = []
    for name, values in results.items():
        if "reason" in values:
            rows.append(Analysis(name=name, result={}, missing=values["reason"]))
        elif name == "alignment":  # figures show the others
            rows.append(Analysis(name=name, result=values))
    return rows
