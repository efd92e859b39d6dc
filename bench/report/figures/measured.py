"""The data of a paper's figure, taken from a suite: one table, from which the whole figure is
drawn."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pandas as pd

from bench.comparison.reproduction import select
from bench.report.figures.described import PaperFigure, Series
from bench.reported import curves, mapped
from bench.results.readers import DAMAGE, describe_damage
from bench.results.suite_results import RunResults, SuiteResults
from bench.utils.errors import UserError

METRIC = "spearman"  # of all figures that show scores
OURS, PRINT, LOG = "ours", "printed", "released log"
BOUNDS = (1, 2, 3, 4)  # bounds of the groups of gold scores: up to 1, ..., above 4
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class FigureData:
    """The data of a figure.

    Attributes:
        table: one row per number or point. Columns: `series`, `run`, `backbone` (as printed),
            `measured_on`, `seed`, `origin` (`OURS`, `PRINT` or `LOG`), `x` in a sweep, and the
            values that the kind of figure shows.
        remarks: sentences on what is missing or differs from print.
    """

    table: pd.DataFrame
    remarks: tuple[str, ...]


def _scores(figure: PaperFigure, run: RunResults) -> Rows:
    values = {(task, split): run.scores.get((task, split, METRIC)) for task, split in figure.scores}
    return [
        {"task": task, "split": split, "value": value}
        for (task, split), value in values.items()
        if value is not None
    ]


def _curve(figure: PaperFigure, run: RunResults) -> Rows:
    outcome = run.provenance.get("outcome") or {}
    fields = ("step", "loss", "dev", "alignment", "uniformity")
    rows = [{name: point.get(name) for name in fields} for point in outcome.get("curve") or []]
    return [row | {"best": row["step"] == outcome.get("best_step")} for row in rows]


def _path(figure: PaperFigure, run: RunResults) -> Rows:
    return [
        row
        for row in _curve(figure, run)
        if row["alignment"] is not None and row["uniformity"] is not None
    ]


def _analysis(run: RunResults, name: str) -> Mapping[str, Any]:
    """A result of `bench.stages.analyse`; empty if there is none, or only the reason why."""
    result = run.analyses.get(name, {})
    return {} if "reason" in result else result


def _alignment(figure: PaperFigure, run: RunResults) -> Rows:
    if not (result := _analysis(run, "alignment")):
        return []
    whole = result["STS-B"]["all"]
    if whole["alignment"] is None:  # there is no positive pair
        return []
    return [whole | {"average": run.scores.get(("Avg", "test", "spearman"))}]


def _cosines(figure: PaperFigure, run: RunResults) -> Rows:
    if not (result := _analysis(run, "cosines")):
        return []
    pairs = zip(result["gold"], result["cosine"], strict=True)
    return [
        {"gold": gold, "group": bisect_left(BOUNDS, gold), "cosine": cosine}
        for gold, cosine in pairs
    ]


def _by_layer(measure: str, first: int) -> Callable[[PaperFigure, RunResults], Rows]:
    def rows(figure: PaperFigure, run: RunResults) -> Rows:
        result = _analysis(run, "layers")
        readings = result[measure] if result else {}
        return [
            {"reading": reading, "layer": layer, "value": value}
            for reading, values in readings.items()
            for layer, value in enumerate(values, first)
        ]

    return rows


def _tokens(figure: PaperFigure, run: RunResults) -> Rows:
    if not (result := _analysis(run, "tokens")):
        return []
    pieces = list(enumerate(result["tokens"]))
    return [
        {
            "layer": result["layer"],
            "row": i,
            "column": j,
            "token": one,
            "other": other,
            "cosine": result["cosines"][i][j],
        }
        for i, one in pieces
        for j, other in pieces
    ]


def _in_batch(figure: PaperFigure, run: RunResults) -> Rows:
    if not (result := _analysis(run, "in-batch")):
        return []
    return [
        {"batch": size, "rank": rank, "sentences": mean, "noise": noise}
        for size, means, noises in zip(
            result["sizes"], result["mean"], result["noise"], strict=True
        )
        for rank, (mean, noise) in enumerate(zip(means, noises, strict=True), 1)
    ]


ROWS: dict[str, Callable[[PaperFigure, RunResults], Rows]] = {
    "sweep": _scores,
    "seeds": _scores,
    "curves": _curve,
    "path": _path,
    "alignment": _alignment,
    "densities": _cosines,
    "setsim": _by_layer("setsim", 1),  # between this layer and the next
    "toksim": _by_layer("toksim", 0),
    "tokens": _tokens,
    "in-batch": _in_batch,
}


def figure_data(figure: PaperFigure, suite: SuiteResults) -> FigureData | None:
    """The data of `figure` in `suite`; None without data, and for a sweep with a single value.

    Raises:
        UserError: an analysis of a run has not the form that `bench.stages.analyse` writes.
    """
    rows: Rows = []
    remarks: list[str] = []
    missing: list[tuple[Series, float | None]] = []
    for series in figure.series:
        for x, texts in series.runs:
            text, runs = next(
                (
                    (text, runs)
                    for text in texts
                    if (runs := _rows_of_runs(figure, suite, text, series.backbone))
                ),
                ("", {}),
            )
            if not runs:
                missing.append((series, x))
                continue
            if text != texts[0]:
                remarks.append(f"{series.label}{'' if x is None else f' at {x:g}'} is {text} here.")
            planned = select(suite, text, series.backbone)
            if diverged := sum(run.status == "diverged" for run in planned):
                remarks.append(f"{diverged} of {len(planned)} trainings of {text} diverged.")
            for index, values in runs.items():
                head: dict[str, Any] = {
                    "series": series.label,
                    "run": text,
                    "backbone": series.backbone,
                }
                head |= {
                    "measured_on": planned[index].plan["backbone"],
                    "seed": planned[index].plan["seed"],
                }
                head |= {"origin": OURS} | ({} if x is None else {"x": x})
                rows += [head | row for row in values]
    if not rows or len({row.get("x") for row in rows}) < (2 if figure.kind == "sweep" else 1):
        return None
    backbones = {row["backbone"] for row in rows}
    # Printed curves that go on far beyond our last step would squeeze ours into a corner.
    last = max((row["step"] for row in rows if "step" in row), default=0)
    printed = [
        row
        for series in figure.series
        if series.backbone in backbones
        for row in _printed(figure, series)
    ]
    shown = [row for row in printed if row.get("step", last) <= last]
    rows += shown
    if len(shown) < len(printed):
        remarks.append(
            f"Printed steps and released logs beyond our last step, {last}, are not drawn."
        )
    if missing:
        remarks.append(f"Not in this suite: {_listed(figure, missing)}.")
    return FigureData(pd.DataFrame(rows).astype({"seed": "Int64"}), tuple(remarks))


def _listed(figure: PaperFigure, missing: list[tuple[Series, float | None]]) -> str:
    """What is missing, by label of the series: the swept values, and the backbones if the figure
    has several."""
    several = len({series.backbone for series in figure.series}) > 1
    texts = []
    for label in dict.fromkeys(series.label for series, _ in missing):
        xs = [x for series, x in missing if series.label == label and x is not None]
        backbones = dict.fromkeys(series.backbone for series, _ in missing if series.label == label)
        texts.append(
            label
            + (f" at {ranges(xs)}" if xs else "")
            + (f" on {', '.join(backbones)}" if several else "")
        )
    return "; ".join(texts)


def _rows_of_runs(
    figure: PaperFigure, suite: SuiteResults, text: str, backbone: str
) -> dict[int, Rows]:
    """The rows of each selected run that has any, by its index; for cosines of tokens, those of the
    first seed only."""
    by_index = {}
    for index, run in enumerate(select(suite, text, backbone)):
        try:
            rows = ROWS[figure.kind](figure, run)
        except DAMAGE as error:
            raise UserError(
                f"the data of run {run.plan['id']} for figure {figure.id} is damaged ({describe_damage(error)}); "
                "move its file under analyses/ or scores/ away and create it again"
            ) from None
        if rows:
            by_index[index] = rows
            if figure.kind == "tokens":
                break
    return by_index


def _printed(figure: PaperFigure, series: Series) -> Rows:
    """The printed values of a series: scores, the best step of a training, or a released log."""
    numbers = mapped()
    here = (numbers["source"] == figure.source) & (numbers["backbone"] == series.backbone)
    numbers = numbers[here & numbers["table"].isin(figure.printed)]
    rows: Rows = []
    for x, texts in series.runs:
        head: dict[str, Any] = {"series": series.label, "run": texts[0]}
        head |= {"backbone": series.backbone, "measured_on": series.backbone}
        head |= {"seed": None, "origin": PRINT} | ({} if x is None else {"x": x})
        for number in numbers[numbers["run"] == texts[0]].to_dict("records"):
            if number["metric"] == METRIC and (number["task"], number["split"]) in figure.scores:
                rows.append(
                    head
                    | {"task": number["task"], "split": number["split"], "value": number["value"]}
                )
            if number["metric"] == "best_step" and figure.kind == "curves":
                rows.append(head | {"step": int(number["value"]), "best": True})
        if "released logs" in figure.printed:
            logs = curves().query(
                "method == @series.label and backbone == @series.backbone and task == 'STS-B'"
            )
            rows += [
                head | {"origin": LOG, "step": step, "dev": dev}
                for step, dev in zip(logs["step"], logs["value"], strict=True)
            ]
    return rows


def common_mean(rows: pd.DataFrame, by: str, values: list[str]) -> pd.DataFrame:
    """Means over seeds, at the steps that all seeds have: elsewhere the mean would jump as seeds
    drop out."""
    groups = rows.groupby(by)
    return groups[values].mean()[groups["seed"].nunique() == rows["seed"].nunique()]


def ranges(values: Iterable[float]) -> str:
    """Numbers as text, with consecutive ones as a range.

    >>> ranges([0.5, 4, 5, 6, 8])
    '0.5, 4 to 6, 8'
    """
    parts = []
    for _, group in groupby(enumerate(sorted(values)), key=lambda item: item[1] - item[0]):
        run = [f"{value:g}" for _, value in group]
        parts.append(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run))
    return ", ".join(parts)
