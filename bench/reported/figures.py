"""The papers' figures as figures.yaml describes them."""

from functools import cache
from typing import Any, Literal

from pydantic import field_validator

from bench.reported import FOLDER, paper_name, read_yaml
from bench.reported.number import Texts, as_list
from bench.utils.files import stem
from bench.utils.validation import StrictModel, validated


class PaperSeries(StrictModel):
    """One line of a figure, or one kind of mark."""

    label: str  # as in the legend; series that differ only in the backbone share it
    backbone: str  # as printed
    # A run as in mapping.yaml, or several, of which the first that the suite has is drawn.
    run: Texts = []
    runs: dict[float, Texts] = {}  # of a sweep instead, by x

    @property
    def points(self) -> list[tuple[float | None, list[str]]]:
        """The runs at each x of a sweep; else a single pair with None for x."""
        return list(self.runs.items()) or [(None, self.run)]


class PaperFigure(StrictModel):
    """One figure of a paper."""

    id: str
    source: str  # a key of `SOURCES`
    figure: str  # its name in the paper
    title: str
    shows: str  # a key of `bench.judge.series.POINTS_OF`
    drawn: Literal["lines", "points", "cells"]  # `bench.report.figures.papers.DRAW`
    series: list[PaperSeries]
    x: str = ""  # label of an axis
    y: str = ""
    # The heading of each panel, and its part of what is shown: a task and its split, a similarity
    # and its reading, or the fields of a training on its axes. By default a panel per backbone.
    panels: dict[str, list[str]] = {}
    columns: int = 2  # the most panels in a row
    printed: list[str] = []  # tables with the numbers beside ours, or "released logs"
    note: str = ""  # how it was measured, as far as a reader needs to know

    @field_validator("series", mode="before")
    @classmethod
    def _one_backbone_each(cls, entries: list[Any]) -> list[Any]:
        """An entry with a list of backbones stands for a series on each."""
        return [
            entry | {"backbone": backbone}
            for entry in entries
            for backbone in as_list(entry.get("backbone"))
        ]

    @property
    def stem(self) -> str:
        return f"{self.source}_{stem(self.figure)}"

    @property
    def heading(self) -> str:
        return f"{paper_name(self.source)}, {self.figure}: {self.title}"


class _Figures(StrictModel):
    figures: list[PaperFigure]


@cache
def load_figures() -> list[PaperFigure]:
    """The figures in the order of the file."""
    content = read_yaml(FOLDER / "figures.yaml")
    return validated(_Figures, content).figures
