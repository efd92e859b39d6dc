"""The data of the papers' figures: one long table a figure, a row per point."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.datasets.metrics import BOUNDS, Cell
from bench.judge.numbers import select
from bench.judge.systems import shown_name
from bench.judged.rows import FigureRow
from bench.judged.verdicts import LOG, OURS, PRINT, RANKS
from bench.reported import curves
from bench.reported.figures import PaperFigure, PaperSeries, load_figures
from bench.reported.number import numbers
from bench.results.suite_results import SuiteResults
from bench.results.system import RunResults, diverged

METRIC = "spearman"  # of all figures that show scores
Point = dict[str, Any]  # some of `COLUMNS`
COLUMNS = (
    "panel", "series", "run", "backbone", "measured_on", "seed", "origin", "x", "value",
    "at", "kept", "score", "y", "token",
)  # fmt: skip

# --- The points of a run, by what a figure shows ---


def _scores(figure: PaperFigure, run: RunResults) -> Iterator[Point]:
    for panel, (task, split) in figure.panels.items():
        value = run.scores.get(Cell(task, split, METRIC))
        if value is not None:
            yield {"panel": panel, "value": value}


def _training(figure: PaperFigure, run: RunResults) -> Iterator[Point]:
    outcome = run.provenance.outcome
    for panel, (x, y) in figure.panels.items():
        for point in outcome.curve or ():
            place = {"x": getattr(point, x), "value": getattr(point, y)}
            if None not in place.values():
                kept = point.step == outcome.best_step
                yield {"panel": panel, "at": point.step, "kept": kept} | place


def _alignment(figure: PaperFigure, run: RunResults) -> Iterator[Point]:
    measures = run.analyses["alignment"]["STS-B"]["all"]
    place = {"x": measures["uniformity"], "value": measures["alignment"]}
    if None not in place.values():  # without a positive pair there is no alignment
        score = run.scores.get(Cell("Avg", "test", METRIC))
        # Each seed is a line of one point, which is kept. The common `at` joins seeds to one mean.
        yield place | {"at": 0, "kept": True, "score": score}


def _cosines(figure: PaperFigure, run: RunResults) -> Iterator[Point]:
    """The share of the pairs at each cosine, by range of gold scores."""
    pairs = run.analyses["cosines"]
    # A gold score on a bound belongs to the range below it, as in `bench.datasets.metrics`.
    ranges, cosines = np.searchsorted(BOUNDS, pairs["gold"]), np.clip(pairs["cosine"], 0, 1)
    # Five ranges of gold scores, and 20 bins of cosines. The few negative cosines are in the first.
    counts, *_ = np.histogram2d(ranges, cosines, (5, 20), ((0, 5), (0, 1)))
    for (low, place), count in np.ndenumerate(counts):
        total = counts[low].sum()
        panel = f"gold score {low} to {low + 1}, {total:.0f} pairs"
        yield {"panel": panel, "x": (place + 0.5) / 20, "value": 100 * count / max(total, 1)}


# SetSim is between a layer and the next, so it starts at the first layer, not at the embeddings.
_FIRST_LAYER = {"setsim": 1, "toksim": 0}


def _layers(figure: PaperFigure, run: RunResults) -> Iterator[Point]:
    layers = run.analyses["layers"]
    for panel, (measure, reading) in figure.panels.items():
        for layer, value in enumerate(layers[measure][reading], _FIRST_LAYER[measure]):
            yield {"panel": panel, "x": str(layer), "value": value}


def _tokens(figure: PaperFigure, run: RunResults) -> Iterator[Point]:
    result = run.analyses["tokens"]
    panel = f"layer {result['layer']}"
    for (row, column), cosine in np.ndenumerate(result["cosines"]):
        token = result["tokens"][column]
        yield {"panel": panel, "x": column, "y": row, "token": token, "value": cosine}


def _neighbours(figure: PaperFigure, run: RunResults) -> Iterator[Point]:
    result = run.analyses["in-batch"]
    for panel, (name,) in figure.panels.items():
        for (place, rank), cosine in np.ndenumerate(result[name]):
            size = str(result["sizes"][place])
            yield {"panel": panel, "series": RANKS[rank], "x": size, "value": cosine}


# By `shows` in figures.yaml; all but the first two are of analyses with these names.
POINTS_OF: Mapping[str, Callable[[PaperFigure, RunResults], Iterator[Point]]] = {
    "scores": _scores,
    "training": _training,
    "alignment": _alignment,
    "cosines": _cosines,
    "layers": _layers,
    "tokens": _tokens,
    "in-batch": _neighbours,
}


def _of_run(figure: PaperFigure, run: RunResults) -> list[Point]:
    """The points of a run; none if its analysis is missing, or gave a reason instead of a
    result."""
    # Analyses have the names of what a figure shows (`POINTS_OF`).
    measured = {"scores": run.scores, "training": run.provenance.outcome.curve, **run.analyses}
    result = measured.get(figure.shows)
    if not result or "reason" in result:
        return []
    planned = run.run
    head = {
        "run": planned.text,
        "measured_on": planned.backbone,
        "seed": planned.seed,
        "origin": OURS,
    }
    return [head | point for point in POINTS_OF[figure.shows](figure, run)]


# --- Printed points ---


def _of_print(figure: PaperFigure, series: PaperSeries, run: str) -> Iterator[Point]:
    """The printed scores and best steps of a series, and its released log."""
    for number in numbers():
        place = number.source, number.backbone, number.run
        if number.table in figure.printed and place == (figure.source, series.backbone, run):
            if number.metric == "best_step":
                yield {"x": number.value}
            for panel, cell in figure.panels.items():
                if number.metric == METRIC and cell == [number.task, number.split]:
                    yield {"panel": panel, "value": number.value}

    if "released logs" in figure.printed:
        of_series = "method == @series.label and backbone == @series.backbone and task == 'STS-B'"
        for point in curves().query(of_series).itertuples():
            yield {"x": point.step, "value": point.value, "origin": LOG}


# --- Figures ---


@dataclass(frozen=True, eq=False)
class _Place:
    """A series as a whole, or at one value of a sweep."""

    name: str  # its label with the backbone or the value
    measured: list[Point]
    printed: list[Point]
    remarks: list[str]


def figures(suite: SuiteResults) -> list[FigureRow]:
    """The figures of figures.yaml that the suite has data for."""
    rows = (_figure(suite, figure) for figure in load_figures())
    return [*filter(None, rows)]


def _figure(suite: SuiteResults, figure: PaperFigure) -> FigureRow | None:
    points, remarks, names = [], [], []
    xs: set[Any] = set()
    for series in figure.series:
        places = [_place(suite, figure, series, x, texts) for x, texts in series.points]
        has_runs = any(place.measured for place in places)
        for place in places:
            remarks += place.remarks
            if not place.measured:
                names.append(place.name)
            if has_runs:  # without a run, the printed points are no series of a redrawn figure
                points += place.measured + place.printed
        of_series = {point["x"] for place in places for point in place.measured}
        # A series of a sweep is a line; its points, and not those of other series, make a figure.
        xs = max(xs, of_series, key=len) if series.runs else xs | of_series
    if len(xs) < 2:  # nothing was measured, or a single point
        return None
    if names:
        remarks.append(f"Not in this suite: {', '.join(names)}.")
    return FigureRow(
        stem=figure.stem,
        heading=figure.heading,
        drawn=figure.drawn,
        x=figure.x,
        y=figure.y,
        columns=figure.columns,
        note=figure.note,
        remarks=tuple(remarks),
        points={name: [point.get(name) for point in points] for name in COLUMNS},
    )


def _place(
    suite: SuiteResults, figure: PaperFigure, series: PaperSeries, x: float | None, texts: list[str]
) -> _Place:
    tick, name = series.label, f"{series.label} ({series.backbone})"
    if x is not None:
        tick, name = f"{x:g}", f"{series.label} ({x:g})"
    head = {"panel": "", "series": series.label, "backbone": series.backbone, "x": tick}
    # The printed points belong to the first run; the other runs stand in for it.
    of_print = head | {"run": texts[0], "measured_on": series.backbone, "origin": PRINT}
    printed = [of_print | point for point in _of_print(figure, series, texts[0])]
    systems = (select(suite, text, series.backbone) for text in texts)
    runs = next((system.runs for system in systems if system), ())
    measured = [head | point for run in runs for point in _of_run(figure, run)]
    remarks = []
    if runs and runs[0].run.text != texts[0]:
        remarks.append(f"{name} is {shown_name(runs)} here.")
    ended_badly = diverged(runs, name)
    if ended_badly:
        remarks.append(f"{ended_badly}.")
    return _Place(name, measured, printed, remarks)
