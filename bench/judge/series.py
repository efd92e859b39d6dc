"""The data of the papers' figures: a table a figure, from which all of it is drawn."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bench.datasets.metrics import BOUNDS
from bench.judge.numbers import select
from bench.judge.systems import shown_name
from bench.judged.rows import FigureRow, Series
from bench.judged.words import LOG, OURS, PRINT
from bench.reported import curves
from bench.reported.figures import PaperFigure, PaperSeries, load_figures
from bench.reported.number import numbers
from bench.results.suite_results import RunResults, SuiteResults
from bench.runs.run import PlannedRun

METRIC = "spearman"  # of all figures that show scores
# The analysis that a kind of figure shows, where it has another name than the kind.
_ANALYSES = {"densities": "cosines", "setsim": "layers", "toksim": "layers"}
Point = dict[str, Any]  # a row of the table of a figure


def figures(suite: SuiteResults) -> list[FigureRow]:
    """The figures of figures.yaml that the suite has data for; of a sweep, more than one value."""
    rows = (_figure(figure, suite) for figure in load_figures())
    return [*filter(None, rows)]


def _figure(figure: PaperFigure, suite: SuiteResults) -> FigureRow | None:
    points: list[Point] = []
    printed: list[Point] = []
    remarks: list[str] = []
    missing: dict[str, list[tuple[str, float | None]]] = {}
    for series in figure.series:
        before = len(points)
        for x, texts in series.points:
            # The first of the runs that the suite has is drawn.
            for text in texts:
                runs = select(suite, text, series.backbone)
                drawn = []
                for run in runs:
                    head = _head(series, x, text, run.run)
                    drawn += [head | values for values in _shown(figure, run)]
                    if drawn and figure.kind == "tokens":  # one sentence of one run
                        break
                if drawn:
                    break
            else:  # it has none of them
                missing.setdefault(series.label, []).append((series.backbone, x))
                continue
            points += drawn
            name = shown_name(runs)
            if text != texts[0]:
                at = "" if x is None else f" at {x:g}"
                remarks.append(f"{series.label}{at} is {name} here.")
            diverged = sum(run.status == "diverged" for run in runs)
            if diverged:
                remarks.append(f"{diverged} of {len(runs)} trainings of {name} diverged.")
        if len(points) > before:
            printed += _printed(figure, series)
    # A single value is no sweep.
    if len({point.get("x") for point in points}) < 1 + (figure.kind == "sweep"):
        return None
    table = pd.DataFrame(points + printed, dtype=object)
    if figure.kind == "curves":
        table = _near(table, max(point["step"] for point in points), remarks)
    if missing:
        remarks.append(f"Not in this suite: {_listed(figure, missing)}.")
    columns = table.where(table.notna(), None).to_dict("list")
    return FigureRow(
        stem=figure.stem,
        heading=figure.heading,
        kind=figure.kind,
        x=figure.x,
        note=figure.note,
        remarks=tuple(remarks),
        series=tuple(Series(label=x.label, backbone=x.backbone) for x in figure.series),
        columns=columns,
    )


def _near(table: pd.DataFrame, last: int, remarks: list[str]) -> pd.DataFrame:
    """The points of curves up to our last step: printed curves that go on far beyond it would
    squeeze ours into a corner. A remark on the others is added, if there are any."""
    within = table[table["step"] <= last]
    # A log is drawn as a line, so a single point would only stretch the axis.
    sizes = within.groupby(["series", "backbone", "origin"])["step"].transform("size")
    kept = within[(within["origin"] != LOG) | (sizes > 1)]
    if len(kept) < len(table):
        also = ", nor are logs with a single point up to it" if len(kept) < len(within) else ""
        beyond = f"Printed steps and released logs beyond our last step, {last}"
        remarks.append(f"{beyond}, are not drawn{also}.")
    return kept


def _head(series: PaperSeries, x: float | None, text: str, run: PlannedRun | None = None) -> Point:
    """The fields that every point has: one of a run of ours, else one in print."""
    head: Point = {"series": series.label, "run": text, "backbone": series.backbone}
    head |= {"measured_on": series.backbone, "seed": None, "origin": PRINT}
    if run:
        head |= {"measured_on": run.backbone, "seed": run.seed, "origin": OURS}
    if x is not None:
        head["x"] = x
    return head


def _shown(figure: PaperFigure, run: RunResults) -> Iterator[Point]:
    """The values of a run that a figure shows; none without a result."""
    for task, split in figure.scores:
        value = run.scores.get((task, split, METRIC))
        if value is not None:
            yield {"task": task, "split": split, "value": value}
    if figure.kind in ("curves", "path"):
        outcome = run.provenance.outcome
        for point in outcome.curve or []:
            if figure.kind == "curves" or None not in (point.alignment, point.uniformity):
                yield point.model_dump() | {"best": point.step == outcome.best_step}
    result = run.analyses.get(_ANALYSES.get(figure.kind, figure.kind))
    # Without a result, an analysis holds the reason.
    if not result or "reason" in result:
        return
    match figure.kind:
        case "alignment":
            whole = result["STS-B"]["all"]
            if whole["alignment"] is not None:  # otherwise there is no positive pair
                yield whole | {"average": run.scores.get(("Avg", "test", METRIC))}
        case "densities":
            for gold, cosine in zip(result["gold"], result["cosine"], strict=True):
                yield {"gold": gold, "group": bisect_left(BOUNDS, gold), "cosine": cosine}
        case "tokens":
            layer, tokens = result["layer"], result["tokens"]
            for (row, column), cosine in np.ndenumerate(result["cosines"]):
                position = {"layer": layer, "row": row, "column": column}
                words = {"token": tokens[row], "other": tokens[column]}
                yield position | words | {"cosine": cosine}
        case "in-batch":
            noises = np.array(result["noise"])
            for (place, rank), mean in np.ndenumerate(result["mean"]):
                near = {"sentences": mean, "noise": noises[place, rank]}
                yield {"batch": result["sizes"][place], "rank": rank + 1, **near}
        case "setsim" | "toksim":
            # SetSim is between a layer and the next, so it starts at the first layer, not at the
            # embeddings.
            first = int(figure.kind == "setsim")
            for reading, values in result[figure.kind].items():
                for layer, value in enumerate(values, first):
                    yield {"reading": reading, "layer": layer, "value": value}


def _printed(figure: PaperFigure, series: PaperSeries) -> Iterator[Point]:
    """The printed values of a series: scores, the best step of a training, or a released log."""
    # Print is of the first of several runs; the others stand in for it.
    xs = {texts[0]: x for x, texts in series.points}
    for number in numbers():
        place = (number.source, number.backbone)
        is_beside = place == (figure.source, series.backbone) and number.table in figure.printed
        if is_beside and number.run in xs:
            head = _head(series, xs[number.run], number.run)
            if number.metric == METRIC and (number.task, number.split) in figure.scores:
                yield head | {"task": number.task, "split": number.split, "value": number.value}
            if number.metric == "best_step":
                yield head | {"step": int(number.value), "best": True}
    if "released logs" in figure.printed:
        logs = curves().query(
            "method == @series.label and backbone == @series.backbone and task == 'STS-B'"
        )
        head = _head(series, None, series.run[0]) | {"origin": LOG}
        for point in logs.itertuples():
            yield head | {"step": point.step, "dev": point.value}


def _listed(figure: PaperFigure, missing: Mapping[str, list[tuple[str, float | None]]]) -> str:
    """The missing points by label of the series: the swept values, and the backbones if the figure
    has several."""
    several = len({series.backbone for series in figure.series}) > 1
    texts = []
    for text, points in missing.items():
        xs = [f"{x:g}" for _, x in points if x is not None]
        if xs:
            text += f" at {', '.join(xs)}"
        if several:
            text += f" on {', '.join(dict(points))}"
        texts.append(text)
    return "; ".join(texts)
