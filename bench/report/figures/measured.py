"""The data of a paper's figure: one table from a suite, from which the whole figure is drawn."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

import pandas as pd

from bench.comparison.reproduction import select
from bench.report.figures.described import PaperFigure, Series
from bench.reported import curves, mapped
from bench.results.records import named
from bench.results.suite_results import RunResults, SuiteResults

METRIC = "spearman"  # of all figures that show scores
OURS, PRINT, LOG = "ours", "printed", "released log"
BOUNDS = (1, 2, 3, 4)  # bounds of the groups of gold scores: up to 1, ..., above 4
Row = dict[str, Any]
Rows = list[Row]
Reader = Callable[[PaperFigure, RunResults], Rows]


@dataclass(frozen=True)
class FigureData:
    """The data of a figure: a row per number or point, with the columns `series`, `run`, `backbone`
    (as printed), `measured_on`, `seed`, `origin` (`OURS`, `PRINT` or `LOG`), `x` in a sweep, and
    the values that the kind of figure shows."""

    table: pd.DataFrame
    remarks: tuple[str, ...]  # sentences on what is missing or differs from print


def _scores(figure: PaperFigure, run: RunResults) -> Rows:
    values = {(task, split): run.scores.get((task, split, METRIC)) for task, split in figure.scores}
    rows = [{"task": task, "split": split, "value": values[task, split]} for task, split in values]
    return [row for row in rows if row["value"] is not None]


def _curve(figure: PaperFigure, run: RunResults) -> Rows:
    outcome = run.provenance.get("outcome") or {}
    fields = ("step", "loss", "dev", "alignment", "uniformity")
    rows = [{name: point.get(name) for name in fields} for point in outcome.get("curve") or []]
    return [row | {"best": row["step"] == outcome.get("best_step")} for row in rows]


def _path(figure: PaperFigure, run: RunResults) -> Rows:
    rows = _curve(figure, run)
    return [row for row in rows if None not in (row["alignment"], row["uniformity"])]


def _of(analysis: str) -> Callable[[Callable[[Any, RunResults], Iterable[Row]]], Reader]:
    """A reader of a result of `bench.stages.analyse`: no rows without one, or with the reason why
    there is none."""

    def reader(read: Callable[[Any, RunResults], Iterable[Row]]) -> Reader:
        def rows(figure: PaperFigure, run: RunResults) -> Rows:
            result = run.analyses.get(analysis)
            return list(read(result, run)) if result and "reason" not in result else []

        return rows

    return reader


@_of("alignment")
def _alignment(result: Any, run: RunResults) -> Iterator[Row]:
    whole = result["STS-B"]["all"]
    if whole["alignment"] is not None:  # otherwise there is no positive pair
        yield whole | {"average": run.scores.get(("Avg", "test", METRIC))}


@_of("cosines")
def _cosines(result: Any, run: RunResults) -> Iterator[Row]:
    for gold, cosine in zip(result["gold"], result["cosine"], strict=True):
        yield {"gold": gold, "group": bisect_left(BOUNDS, gold), "cosine": cosine}


def _by_layer(measure: str, first: int) -> Reader:
    @_of("layers")
    def rows(result: Any, run: RunResults) -> Iterator[Row]:
        for reading, values in result[measure].items():
            for layer, value in enumerate(values, first):
                yield {"reading": reading, "layer": layer, "value": value}

    return rows


@_of("tokens")
def _tokens(result: Any, run: RunResults) -> Iterator[Row]:
    for (i, one), (j, other) in product(enumerate(result["tokens"]), repeat=2):
        place = {"layer": result["layer"], "row": i, "column": j}
        yield place | {"token": one, "other": other, "cosine": result["cosines"][i][j]}


@_of("in-batch")
def _in_batch(result: Any, run: RunResults) -> Iterator[Row]:
    for size, *both in zip(result["sizes"], result["mean"], result["noise"], strict=True):
        for rank, (mean, noise) in enumerate(zip(*both, strict=True), 1):
            yield {"batch": size, "rank": rank, "sentences": mean, "noise": noise}


ROWS: dict[str, Reader] = {
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
    """The data of `figure` in `suite`; None without data, and for a sweep with a single value."""
    rows: Rows = []
    remarks: list[str] = []
    missing: list[tuple[Series, float | None]] = []
    for series in figure.series:
        for x, texts in series.points:
            found = ((text, _ours(figure, suite, series, x, text)) for text in texts)
            text, own = next((pair for pair in found if pair[1]), ("", []))
            rows += own
            if not own:
                missing.append((series, x))
                continue
            planned = select(suite, text, series.backbone)
            name = named(planned[0].plan["label"], planned[0].plan["setting"])
            if text != texts[0]:
                remarks.append(f"{series.label}{'' if x is None else f' at {x:g}'} is {name} here.")
            if diverged := sum(run.status == "diverged" for run in planned):
                remarks.append(f"{diverged} of {len(planned)} trainings of {name} diverged.")
    if not rows or len({row.get("x") for row in rows}) < (2 if figure.kind == "sweep" else 1):
        return None
    measured = {(row["series"], row["backbone"]) for row in rows}
    of_ours = [series for series in figure.series if (series.label, series.backbone) in measured]
    printed = [row for series in of_ours for row in _printed(figure, series)]
    last = max((row["step"] for row in rows if "step" in row), default=0)
    shown, left_out = _up_to(last, printed)
    remarks += left_out
    if missing:
        remarks.append(f"Not in this suite: {_listed(figure, missing)}.")
    return FigureData(pd.DataFrame(rows + shown).astype({"seed": "Int64"}), tuple(remarks))


def _up_to(last: int, printed: Rows) -> tuple[Rows, list[str]]:
    """The printed rows that are drawn beside trainings whose last step is `last`, and a sentence on
    what is left out."""
    # Printed curves that go on far beyond our last step would squeeze ours into a corner.
    within = [row for row in printed if row.get("step", last) <= last]
    points = Counter((row["series"], row["backbone"], row["origin"]) for row in within)
    # A log is drawn as a line, so a single point would only stretch the axis.
    shown = [
        row
        for row in within
        if row["origin"] != LOG or points[row["series"], row["backbone"], LOG] > 1
    ]
    if len(shown) == len(printed):
        return shown, []
    text = f"Printed steps and released logs beyond our last step, {last}, are not drawn"
    text += ", nor are logs with a single point up to it" * (len(shown) < len(within))
    return shown, [f"{text}."]


def _head(series: Series, x: float | None, run: str, plan: Mapping[str, Any], origin: str) -> Row:
    """The fields that every row has."""
    head = {"series": series.label, "run": run, "backbone": series.backbone}
    head |= {"measured_on": plan["backbone"], "seed": plan["seed"], "origin": origin}
    return head | ({} if x is None else {"x": x})


def _ours(
    figure: PaperFigure, suite: SuiteResults, series: Series, x: float | None, text: str
) -> Rows:
    """The rows of the runs that `text` selects; for cosines of tokens, those of the first alone."""
    found: Rows = []
    for run in select(suite, text, series.backbone):
        rows = ROWS[figure.kind](figure, run)
        found += [_head(series, x, text, run.plan, OURS) | row for row in rows]
        if rows and figure.kind == "tokens":
            break
    return found


def _listed(figure: PaperFigure, missing: list[tuple[Series, float | None]]) -> str:
    """What is missing, by label of the series: the swept values, and the backbones if the figure
    has several."""
    several = len({series.backbone for series in figure.series}) > 1
    texts = []
    for label in dict.fromkeys(series.label for series, _ in missing):
        own = [(series.backbone, x) for series, x in missing if series.label == label]
        xs = [x for _, x in own if x is not None]
        on = f" on {', '.join(dict(own))}" if several else ""
        texts.append(label + (f" at {ranges(xs)}" if xs else "") + on)
    return "; ".join(texts)


def _printed(figure: PaperFigure, series: Series) -> Iterator[Row]:
    """The printed values of a series: scores, the best step of a training, or a released log."""
    numbers = mapped()
    here = (numbers["source"] == figure.source) & (numbers["backbone"] == series.backbone)
    numbers = numbers[here & numbers["table"].isin(figure.printed)]
    plan = {"backbone": series.backbone, "seed": None}
    for x, (text, *_) in series.points:
        head = _head(series, x, text, plan, PRINT)
        for number in numbers[numbers["run"] == text].to_dict("records"):
            score = {name: number[name] for name in ("task", "split", "value")}
            if number["metric"] == METRIC and (score["task"], score["split"]) in figure.scores:
                yield head | score
            if number["metric"] == "best_step" and figure.kind == "curves":
                yield head | {"step": int(number["value"]), "best": True}
        if "released logs" in figure.printed:
            logs = curves().query(
                "method == @series.label and backbone == @series.backbone and task == 'STS-B'"
            )
            for step, dev in zip(logs["step"], logs["value"], strict=True):
                yield head | {"origin": LOG, "step": step, "dev": dev}


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
