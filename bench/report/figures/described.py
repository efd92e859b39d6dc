"""The papers' figures as described in `bench/reported/figures.yaml`, read and validated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.reported import FOLDER, SOURCES
from bench.reported.address import slug
from bench.utils.errors import UserError, did_you_mean

# Kind of figure -> its fields beside those that every figure has.
FIGURE_KINDS: dict[str, set[str]] = {
    "sweep": {"x", "scores"},  # scores against a number
    "seeds": {"scores"},  # scores of every seed
    "curves": set(),  # dev score against the step
    "path": set(),  # alignment and uniformity while training
    "alignment": set(),  # alignment and uniformity at the end
    "densities": set(),  # cosines by gold score
    "setsim": set(),  # similarity of adjacent layers
    "toksim": set(),  # similarity of tokens, by layer
    "tokens": set(),  # similarity of the tokens of one sentence
    "in-batch": set(),  # neighbours by batch size
}
NEEDED = {"id", "source", "figure", "title", "kind", "series"}
OPTIONAL = {"note", "printed"}


@dataclass(frozen=True)
class Series:
    """One line of a figure, or one kind of mark."""

    label: str  # as in the legend; series that differ only in the backbone share it
    backbone: str  # as printed
    # `(x, runs)` for each point of a sweep; otherwise a single pair with None for x. Runs are
    # written as in recipes.yaml; the first that the suite has is drawn.
    runs: tuple[tuple[float | None, tuple[str, ...]], ...]


@dataclass(frozen=True)
class PaperFigure:
    """One figure of a paper."""

    id: str
    source: str  # a key of `SOURCES`
    figure: str  # its name in print
    title: str  # what it shows
    kind: str  # a key of `FIGURE_KINDS`
    series: tuple[Series, ...]
    x: str = ""  # axis label of a sweep
    scores: tuple[tuple[str, str], ...] = ()  # (task, split) of each panel that shows scores
    printed: tuple[str, ...] = ()  # tables with the numbers beside ours, or "released logs"
    note: str = ""  # how it was measured, as far as a reader needs to know

    @property
    def stem(self) -> str:
        return f"{self.source}_{slug(self.figure)}"

    @property
    def heading(self) -> str:
        return f"{SOURCES[self.source].partition(' (')[0]}, {self.figure}: {self.title}"


def load_figures(path: Path = FOLDER / "figures.yaml") -> list[PaperFigure]:
    """The figures in `path`, in the order of the file.

    Raises:
        UserError: the file is invalid; the message names the figure, the field, and what is
            expected.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path.name} is not valid YAML: {' '.join(str(error).split())}") from None
    entries = content.get("figures") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise UserError(f"{path.name} must have one key, 'figures', with a list")
    figures = [_figure(one, f"{path.name}, figure {place}") for place, one in enumerate(entries, 1)]
    for name in ("id", "stem"):
        values = Counter(getattr(figure, name) for figure in figures)
        for value in (value for value, count in values.items() if count > 1):
            raise UserError(f"{path.name}: two figures have the {name} {value!r}; make them unique")
    return figures


def _fields(entry: Any, where: str, needed: set[str], optional: Iterable[str] = ()) -> Any:
    if not isinstance(entry, dict):
        raise UserError(f"{where}: expected a mapping, got {entry!r}")
    known = {*needed, *optional}
    for field in sorted(set(map(str, entry)) - known):
        raise UserError(f"{where}: unknown field {field!r}{did_you_mean(field, known)}")
    for field in sorted(needed - set(entry)):
        raise UserError(f"{where}: the field {field!r} is missing")
    return entry


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise UserError(f"{where}: expected a non-empty string, got {value!r}")
    return value


def _chosen(value: Any, options: Mapping[str, Any], where: str) -> str:
    if not isinstance(value, str) or value not in options:
        raise UserError(f"{where}: unknown value {value!r}{did_you_mean(str(value), options)}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise UserError(f"{where}: expected a non-empty list, got {value!r}")
    return value


def _figure(entry: Any, where: str) -> PaperFigure:
    own = set[str]().union(*FIGURE_KINDS.values())  # so that a missing kind is reported first
    if isinstance(entry, dict):
        where += f" ({entry['id']})" if "id" in entry else ""
        if "kind" in entry:
            own = FIGURE_KINDS[_chosen(entry["kind"], FIGURE_KINDS, f"{where}, kind")]
    fields = _fields(entry, where, NEEDED | own, OPTIONAL)
    lists = {
        name: _list(fields[name], f"{where}, {name}")
        for name in ("scores", "printed", "series")
        if name in fields
    }
    for score in lists.get("scores", []):
        if not isinstance(score, list) or len(score) != 2:
            raise UserError(f"{where}, scores: expected [task, split], got {score!r}")
    series = [
        one
        for place, part in enumerate(lists["series"], 1)
        for one in _series(part, f"{where}, series {place}", sweep=fields["kind"] == "sweep")
    ]
    if len({(one.label, one.backbone) for one in series}) < len(series):
        raise UserError(f"{where}: two series have the same label and backbone; rename one")
    return PaperFigure(
        **{
            name: _text(fields[name], f"{where}, {name}")
            for name in ("id", "figure", "title", "kind", "x", "note")
            if name in fields
        },
        source=_chosen(fields["source"], SOURCES, f"{where}, source"),
        series=tuple(series),
        scores=tuple(
            (_text(task, f"{where}, scores"), _text(split, f"{where}, scores"))
            for task, split in lists.get("scores", [])
        ),
        printed=tuple(_text(name, f"{where}, printed") for name in lists.get("printed", [])),
    )


def _series(entry: Any, where: str, *, sweep: bool) -> list[Series]:
    key = "runs" if sweep else "run"
    fields = _fields(entry, where, {"label", "backbone", key})
    points = fields[key] if sweep else {None: fields[key]}
    if not isinstance(points, dict) or not points:
        raise UserError(f"{where}, runs: expected a mapping from numbers to runs, got {points!r}")
    for x in points if sweep else ():
        if isinstance(x, bool) or not isinstance(x, int | float):
            raise UserError(f"{where}, runs: expected a number, got {x!r}")
    runs = tuple(
        (None if x is None else float(x), _runs(run, f"{where}, {key}"))
        for x, run in points.items()
    )
    backbones = fields["backbone"] if isinstance(fields["backbone"], list) else [fields["backbone"]]
    label = _text(fields["label"], f"{where}, label")
    return [Series(label, _text(name, f"{where}, backbone"), runs) for name in backbones]


def _runs(value: Any, where: str) -> tuple[str, ...]:
    texts = tuple(_text(text, where) for text in (value if isinstance(value, list) else [value]))
    for text in texts:
        if not re.fullmatch(r"[^@]+@(paper|official)", text):
            form = "method[key=value,...]@paper or @official"
            raise UserError(f"{where}: {text!r} is not of the form {form}")
    if not texts:
        raise UserError(f"{where}: expected at least one run")
    return texts
