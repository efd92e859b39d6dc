"""The data of the papers' figures: a table a figure, from which all of it is drawn."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bench.datasets.metrics import BOUNDS
from bench.judge.numbers import select
from bench.judge.systems import shown_name
from bench.judged.rows import FigureRow, Series
from bench.judged.words import LOG, OURS, PRINT
from bench.reported import curves
from bench.reported.figures import PaperFigure, PaperSeries, load_figures
from bench.reported.number import numbers
from bench.results.suite_results import RunResults, SuiteResults

METRIC = "spearman"  # of all figures that show scores
Point = dict[str, Any]  # a row of the table of a figure


def figures(suite: SuiteResults) -> list[FigureRow]:
    """The figures of figures.yaml that the suite has data for; of a sweep, more than one value."""
    rows = [_figure(figure, suite) for figure in load_figures()]
    return [row for row in rows if row]


def _figure(figure: PaperFigure, suite: SuiteResults) -> FigureRow | None:
    points: list[Point] = []
    printed: list[Point] = []
    remarks: list[str] = []
    missing: list[tuple[PaperSeries, float | None]] = []
    for series in figure.series:
        before = len(points)
        for x, texts in series.points:
            # The first of the runs that the suite has is drawn.
            for text in texts:
                runs = select(suite, text, series.backbone)
                drawn = []
                for run in runs:
                    head = _head(series, x, text) | {"origin": OURS, "seed": run.run.seed}
                    head["measured_on"] = run.run.backbone
                    drawn += [head | shown for shown in _shown(figure, run)]
                if drawn:
                    break
            else:  # it has none of them
                missing.append((series, x))
                continue
            if figure.kind == "tokens":  # one sentence of one run
                drawn = [point for point in drawn if point["seed"] == drawn[0]["seed"]]
            points += drawn
            name = shown_name(runs[0])
            if text != texts[0]:
                at = "" if x is None else f" at {x:g}"
                remarks.append(f"{series.label}{at} is {name} here.")
            diverged = sum(run.status == "diverged" for run in runs)
            if diverged:
                remarks.append(f"{diverged} of {len(runs)} trainings of {name} diverged.")
        if len(points) > before:
            printed += _printed(figure, series)
    fewest = 2 if figure.kind == "sweep" else 1
    if len({point.get("x") for point in points}) < fewest:
        return None
    table = points + printed
    if figure.kind == "curves":
        table, remark = _near(table, last=max(point["step"] for point in points))
        remarks += filter(None, [remark])
    if missing:
        remarks.append(f"Not in this suite: {_listed(figure, missing)}.")
    columns: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for point in table for name in point):
        columns[name] = [point.get(name) for point in table]
    return FigureRow(
        stem=figure.stem,
        heading=figure.heading,
        kind=figure.kind,
        x=figure.x,
        note=figure.note,
        remarks=tuple(remarks),
        series=tuple(Series(label=one.label, backbone=one.backbone) for one in figure.series),
        columns=columns,
    )


def _near(table: list[Point], last: int) -> tuple[list[Point], str]:
    """The points of curves up to our last step, and a remark on the others, if there are any:
    printed curves that go on far beyond it would squeeze ours into a corner."""
    within = [point for point in table if point["step"] <= last]
    # A log is drawn as a line, so a single point would only stretch the axis.
    sizes = Counter(_log(point) for point in within)
    kept = [point for point in within if not _log(point) or sizes[_log(point)] > 1]
    if len(kept) == len(table):
        return kept, ""
    also = ", nor are logs with a single point up to it" if len(kept) < len(within) else ""
    beyond = f"Printed steps and released logs beyond our last step, {last}"
    return kept, f"{beyond}, are not drawn{also}."


def _log(point: Point) -> tuple[str, ...]:
    """The released log that a point belongs to; empty for another point."""
    return (point["series"], point["backbone"]) if point["origin"] == LOG else ()


def _head(series: PaperSeries, x: float | None, run: str) -> Point:
    """The fields that every point has, as of a printed number."""
    backbone = series.backbone
    head: Point = {"series": series.label, "run": run, "backbone": backbone}
    head |= {"measured_on": backbone, "seed": None, "origin": PRINT}
    if x is not None:
        head["x"] = x
    return head


def _shown(figure: PaperFigure, run: RunResults) -> Iterator[Point]:
    """The values of a run that a figure shows; none without a result."""
    outcome = run.provenance.outcome
    # An analysis without a result holds the reason.
    results: dict[str, Any] = {
        name: result for name, result in run.analyses.items() if result and "reason" not in result
    }
    match figure.kind:
        case "sweep" | "seeds":
            for task, split in figure.scores:
                value = run.scores.get((task, split, METRIC))
                if value is not None:
                    yield {"task": task, "split": split, "value": value}
        case "curves" | "path":
            fields = ("step", "loss", "dev", "alignment", "uniformity")
            for point in outcome.curve or []:
                shown: Point = {name: getattr(point, name) for name in fields}
                shown["best"] = point.step == outcome.best_step
                if figure.kind == "curves" or None not in (point.alignment, point.uniformity):
                    yield shown
        case "alignment" if "alignment" in results:
            whole = results["alignment"]["STS-B"]["all"]
            if whole["alignment"] is not None:  # otherwise there is no positive pair
                yield whole | {"average": run.scores.get(("Avg", "test", METRIC))}
        case "densities" if "cosines" in results:
            pairs = results["cosines"]
            for gold, cosine in zip(pairs["gold"], pairs["cosine"], strict=True):
                yield {"gold": gold, "group": bisect_left(BOUNDS, gold), "cosine": cosine}
        case "tokens" if "tokens" in results:
            matrix = results["tokens"]
            layer, tokens = matrix["layer"], matrix["tokens"]
            for row, cosines in enumerate(matrix["cosines"]):
                for column, cosine in enumerate(cosines):
                    position = {"layer": layer, "row": row, "column": column}
                    words = {"token": tokens[row], "other": tokens[column]}
                    yield position | words | {"cosine": cosine}
        case "in-batch" if "in-batch" in results:
            neighbours = results["in-batch"]
            columns = (neighbours[name] for name in ("sizes", "mean", "noise"))
            for size, means, noises in zip(*columns, strict=True):
                for rank, (mean, noise) in enumerate(zip(means, noises, strict=True), 1):
                    yield {"batch": size, "rank": rank, "sentences": mean, "noise": noise}
        case "setsim" | "toksim" if "layers" in results:
            # SetSim is between a layer and the next, so it starts at the first layer, not at the
            # embeddings.
            first = 1 if figure.kind == "setsim" else 0
            for reading, values in results["layers"][figure.kind].items():
                for layer, value in enumerate(values, first):
                    yield {"reading": reading, "layer": layer, "value": value}


def _printed(figure: PaperFigure, series: PaperSeries) -> Iterator[Point]:
    """The printed values of a series: scores, the best step of a training, or a released log."""
    place = (figure.source, series.backbone)
    here = [number for number in numbers() if (number.source, number.backbone) == place]
    here = [number for number in here if number.table in figure.printed]
    for x, (text, *_) in series.points:
        head = _head(series, x, text)
        for number in [number for number in here if number.run == text]:
            if number.metric == METRIC and (number.task, number.split) in figure.scores:
                yield head | {"task": number.task, "split": number.split, "value": number.value}
            if number.metric == "best_step" and figure.kind == "curves":
                yield head | {"step": int(number.value), "best": True}
        if "released logs" in figure.printed:
            logs = curves().query(
                "method == @series.label and backbone == @series.backbone and task == 'STS-B'"
            )
            for step, dev in zip(logs["step"], logs["value"], strict=True):
                yield head | {"origin": LOG, "step": step, "dev": dev}


def _listed(figure: PaperFigure, missing: list[tuple[PaperSeries, float | None]]) -> str:
    """The missing points by label of the series: the swept values, and the backbones if the figure
    has several."""
    several = len({series.backbone for series in figure.series}) > 1
    texts = []
    for label in dict.fromkeys(series.label for series, _ in missing):
        points = [(series.backbone, x) for series, x in missing if series.label == label]
        text = label
        xs = [f"{x:g}" for _, x in points if x is not None]
        if xs:
            text += f" at {', '.join(xs)}"
        if several:
            text += f" on {', '.join(dict(points))}"
        texts.append(text)
    return "; ".join(texts)
