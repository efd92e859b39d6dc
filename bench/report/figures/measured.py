"""The data of a paper's figure: one table from a suite, from which the whole figure is drawn."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import yaml
from pydantic import BeforeValidator, field_validator

from bench.datasets.metrics import BOUNDS
from bench.judge.reproduction import select
from bench.reported import FOLDER, curves, paper_name
from bench.reported.address import slug
from bench.reported.number import numbers
from bench.results.suite_results import RunResults, SuiteResults
from bench.utils.validation import Model, validated

Kind = Literal[
    "sweep",  # scores against a number
    "seeds",  # scores of every seed
    "curves",  # dev score against the step
    "path",  # alignment and uniformity while training
    "alignment",  # alignment and uniformity at the end
    "densities",  # cosines by gold score
    "setsim",  # similarity of adjacent layers
    "toksim",  # similarity of tokens, by layer
    "tokens",  # similarity of the tokens of one sentence
    "in-batch",  # neighbours by batch size
]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# A run as in recipes.yaml, or several, of which the first that the suite has is drawn.
Runs = Annotated[list[str], BeforeValidator(_as_list)]


class Series(Model):
    """One line of a figure, or one kind of mark."""

    label: str  # as in the legend; series that differ only in the backbone share it
    backbone: str  # as printed
    run: Runs | None = None  # of all kinds but sweeps
    runs: dict[float, Runs] = {}  # of a sweep, by x

    @property
    def points(self) -> list[tuple[float | None, list[str]]]:
        """The runs at each x of a sweep; else a single pair with None for x."""
        return list(self.runs.items()) or [(None, self.run or [])]


class PaperFigure(Model):
    """One figure of a paper."""

    id: str
    source: str  # a key of `SOURCES`
    figure: str  # its name in print
    title: str  # what it shows
    kind: Kind
    series: list[Series]
    x: str = ""  # axis label of a sweep
    scores: list[tuple[str, str]] = []  # of sweeps and seeds: task and split of each panel
    printed: list[str] = []  # tables with the numbers beside ours, or "released logs"
    note: str = ""  # how it was measured, as far as a reader needs to know

    @field_validator("series", mode="before")
    @classmethod
    def _one_backbone_each(cls, entries: list[Any]) -> list[Any]:
        """An entry with a list of backbones stands for a series on each."""
        return [
            entry | {"backbone": backbone}
            for entry in entries
            for backbone in _as_list(entry.get("backbone"))
        ]

    @property
    def stem(self) -> str:
        return f"{self.source}_{slug(self.figure)}"

    @property
    def heading(self) -> str:
        return f"{paper_name(self.source)}, {self.figure}: {self.title}"


class Figures(Model):
    figures: list[PaperFigure]


def load_figures(path: Path = FOLDER / "figures.yaml") -> list[PaperFigure]:
    """The figures in the order of the file."""
    return validated(Figures, yaml.safe_load(path.read_text(encoding="utf-8"))).figures


METRIC = "spearman"  # of all figures that show scores
OURS, PRINT, LOG = "ours", "printed", "released log"
Row = dict[str, Any]


@dataclass(frozen=True)
class FigureData:
    """The data of a figure: a row per number or point, with the columns `series`, `run`, `backbone`
    (as printed), `measured_on`, `seed`, `origin` (`OURS`, `PRINT` or `LOG`), `x` in a sweep, and
    the values that the kind of figure shows."""

    table: pd.DataFrame
    remarks: tuple[str, ...]  # sentences on what is missing or differs from print


def _rows(figure: PaperFigure, run: RunResults) -> Iterator[Row]:
    """What a figure shows of a run; nothing without a result."""
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
                row: Row = {name: getattr(point, name) for name in fields}
                row["best"] = row["step"] == outcome.best_step
                if figure.kind == "curves" or None not in (row["alignment"], row["uniformity"]):
                    yield row
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
            tokens = matrix["tokens"]
            for (row, column), cosine in np.ndenumerate(matrix["cosines"]):
                position = {"layer": matrix["layer"], "row": row, "column": column}
                words = {"token": tokens[row], "other": tokens[column]}
                yield position | words | {"cosine": cosine}
        case "in-batch" if "in-batch" in results:
            means = results["in-batch"]
            for (at, rank), mean in np.ndenumerate(means["mean"]):
                size, noise = means["sizes"][at], means["noise"][at][rank]
                yield {"batch": size, "rank": rank + 1, "sentences": mean, "noise": noise}
        case "setsim" | "toksim" if "layers" in results:
            # SetSim is between a layer and the next, so it starts at the first layer, not at the
            # embeddings.
            first = 1 if figure.kind == "setsim" else 0
            for reading, values in results["layers"][figure.kind].items():
                for layer, value in enumerate(values, first):
                    yield {"reading": reading, "layer": layer, "value": value}


def figure_data(figure: PaperFigure, suite: SuiteResults) -> FigureData | None:
    """The data of `figure` in `suite`; None without data, and for a sweep with a single value."""
    rows: list[Row] = []
    printed: list[Row] = []
    remarks: list[str] = []
    missing: list[tuple[Series, float | None]] = []
    for series in figure.series:
        before = len(rows)
        for x, texts in series.points:
            # The first of the runs that the suite has is drawn.
            for text in texts:
                runs = select(suite, text, series.backbone)
                drawn = []
                for run in runs:
                    head = _head(series, x, text) | {"origin": OURS, "seed": run.plan.seed}
                    head["measured_on"] = run.plan.backbone
                    drawn += [head | row for row in _rows(figure, run)]
                if drawn:
                    break
            else:  # it has none of them
                missing.append((series, x))
                continue
            if figure.kind == "tokens":  # one sentence of one run
                drawn = [row for row in drawn if row["seed"] == drawn[0]["seed"]]
            rows += drawn
            name = runs[0].name
            if text != texts[0]:
                remarks.append(f"{series.label}{'' if x is None else f' at {x:g}'} is {name} here.")
            diverged = sum(run.status == "diverged" for run in runs)
            if diverged:
                remarks.append(f"{diverged} of {len(runs)} trainings of {name} diverged.")
        if len(rows) > before:
            printed += _printed(figure, series)
    if not rows or len({row.get("x") for row in rows}) < (2 if figure.kind == "sweep" else 1):
        return None
    table = pd.DataFrame(rows + printed).astype({"seed": "Int64"})
    if "step" in table:
        # Printed curves that go on far beyond our last step would squeeze ours into a corner.
        last = table["step"][: len(rows)].max()
        within = table[table["step"] <= last]
        # A log is drawn as a line, so a single point would only stretch the axis.
        logs = within[within["origin"] == LOG]
        points = logs.groupby(["series", "backbone"])["step"].transform("size")
        single = points.index[points == 1]
        if len(within) < len(table) or len(single):
            also = ", nor are logs with a single point up to it" if len(single) else ""
            what = f"Printed steps and released logs beyond our last step, {last}"
            remarks.append(f"{what}, are not drawn{also}.")
        table = within.drop(single)
    if missing:
        remarks.append(f"Not in this suite: {_listed(figure, missing)}.")
    return FigureData(table, tuple(remarks))


def _head(series: Series, x: float | None, run: str) -> Row:
    """The fields that every row has, as of a printed number."""
    backbone = series.backbone
    head: Row = {"series": series.label, "run": run, "backbone": backbone, "measured_on": backbone}
    return head | {"seed": None, "origin": PRINT} | ({} if x is None else {"x": x})


def _listed(figure: PaperFigure, missing: list[tuple[Series, float | None]]) -> str:
    """What is missing, by label of the series: the swept values, and the backbones if the figure
    has several."""
    several = len({series.backbone for series in figure.series}) > 1
    texts = []
    for label in dict.fromkeys(series.label for series, _ in missing):
        points = [(series.backbone, x) for series, x in missing if series.label == label]
        xs = [x for _, x in points if x is not None]
        on = f" on {', '.join(dict(points))}" if several else ""
        at = ", ".join(f"{x:g}" for x in xs)
        texts.append(label + (f" at {at}" if xs else "") + on)
    return "; ".join(texts)


def _printed(figure: PaperFigure, series: Series) -> Iterator[Row]:
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


def common_mean(rows: pd.DataFrame, by: str, values: list[str]) -> pd.DataFrame:
    """Means over seeds, at the steps that all seeds have: elsewhere the mean would jump as seeds
    drop out."""
    groups = rows.groupby(by)
    return groups[values].mean()[groups["seed"].nunique() == rows["seed"].nunique()]
