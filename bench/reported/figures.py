"""The papers' figures as figures.yaml describes them."""

from functools import cache
from typing import Any, Literal

import yaml
from pydantic import field_validator

from bench.reported import FOLDER, paper_name
from bench.reported.number import Texts, as_list
from bench.utils.files import stem
from bench.utils.validation import StrictModel, validated

FigureKind = Literal[
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


class PaperSeries(StrictModel):
    """One line of a figure, or one kind of mark."""

    label: str  # as in the legend; series that differ only in the backbone share it
    backbone: str  # as printed
    # A run as in recipes.yaml, or several, of which the first that the suite has is drawn.
    run: Texts = []  # of all kinds but sweeps
    runs: dict[float, Texts] = {}  # of a sweep, by x

    @property
    def points(self) -> list[tuple[float | None, list[str]]]:
        """The runs at each x of a sweep; else a single pair with None for x."""
        return list(self.runs.items()) or [(None, self.run)]


class PaperFigure(StrictModel):
    """One figure of a paper."""

    id: str
    source: str  # a key of `SOURCES`
    figure: str  # its name in print
    title: str  # what it shows
    kind: FigureKind
    series: list[PaperSeries]
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
    content = yaml.safe_load((FOLDER / "figures.yaml").read_text(encoding="utf-8"))
    return validated(_Figures, content).figures
