"""What the papers' figures show: `bench/reported/figures.yaml`, read and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.report.formats import slug
from bench.reported import FOLDER, SOURCES
from bench.utils.errors import UserError, did_you_mean

# Kind of figure -> the fields that it has beside those of every figure.
KINDS: dict[str, set[str]] = {
    "sweep": {"x", "scores"},  # scores against a number
    "seeds": {"scores"},  # scores of every seed
    "curves": set(),  # dev score against the step
    "path": set(),  # alignment and uniformity while training
    "alignment": set(),  # alignment and uniformity at the end
    "densities": set(),  # cosines by gold score
    "setsim": set(),  # similarity of adjacent layers
    "toksim": set(),  # similarity of tokens, by layer
    "tokens": set(),  # similarity of the tokens of one sentence
    "in-batch": set(),  # nearest neighbours by batch size
}
NEEDED = {"id", "source", "figure", "title", "kind", "series"}
OPTIONAL = {"note", "printed"}


@dataclass(frozen=True)
class Series:
    """What one line, or one kind of mark, stands for.

    Attributes:
        label: as in the legend; series that differ in the backbone alone share it.
        backbone: as printed.
        runs: `(x, runs)` for each of its points in a sweep, else one with None for x. Of several runs, as in
            recipes.yaml, the first one is drawn that the suite has.
    """

    label: str
    backbone: str
    runs: tuple[tuple[float | None, tuple[str, ...]], ...]


@dataclass(frozen=True)
class PaperFigure:
    """One figure of a paper.

    Attributes:
        id, source, figure, title: its short name, a key of `SOURCES`, its name in print, what it shows.
        kind: a key of `KINDS`.
        x: name of the axis of a sweep.
        scores: (task, split) of each panel, of the kinds that show scores.
        printed: the printed tables whose numbers stand beside ours, or "released logs".
        note: what a reader has to know of how it was measured.
    """

    id: str
    source: str
    figure: str
    title: str
    kind: str
    series: tuple[Series, ...]
    x: str = ""
    scores: tuple[tuple[str, str], ...] = ()
    printed: tuple[str, ...] = ()
    note: str = ""

    @property
    def stem(self) -> str:
        """The name of its files."""
        return f"{self.source}_{slug(self.figure)}"

    @property
    def heading(self) -> str:
        return f"{SOURCES[self.source].partition(' (')[0]}, {self.figure}: {self.title}"


def load_figures(path: Path = FOLDER / "figures.yaml") -> list[PaperFigure]:
    """The figures in `path`, in its order.

    Raises:
        UserError: the file is no such list; the message names the figure, the field and what it should be.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path.name} is not YAML: {' '.join(str(error).split())}") from None
    entries = content.get("figures") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise UserError(f"{path.name} needs one list called 'figures'")
    figures = [_figure(entry, f"{path.name}, figure {place}") for place, entry in enumerate(entries, 1)]
    for name in ("id", "stem"):
        values = [getattr(figure, name) for figure in figures]
        for value in {value for value in values if values.count(value) > 1}:
            raise UserError(f"{path.name}: two figures are called {value!r}; give each a name of its own")
    return figures


def _fields(entry: Any, where: str, needed: set[str], optional: set[str]) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise UserError(f"{where}: {entry!r} is no map of fields")
    for field in sorted(set(map(str, entry)) - needed - optional):
        raise UserError(f"{where}: {field!r} is no field{did_you_mean(field, needed | optional)}")
    for field in sorted(needed - set(entry)):
        raise UserError(f"{where} lacks the field {field!r}")
    return entry


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise UserError(f"{where} should be a text, not {value!r}")
    return value


def _chosen(value: Any, known: Mapping[str, Any], where: str) -> str:
    if not isinstance(value, str) or value not in known:
        raise UserError(f"{where}: {value!r} is unknown{did_you_mean(str(value), known)}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise UserError(f"{where} should be a list, not {value!r}")
    return value


def _figure(entry: Any, where: str) -> PaperFigure:
    if isinstance(entry, dict) and "id" in entry:
        where = f"{where} ({entry['id']})"
    if isinstance(entry, dict) and "kind" in entry:
        own = KINDS[_chosen(entry["kind"], KINDS, f"{where}, kind")]
    else:
        own = set[str]().union(*KINDS.values())  # the first mistake is that it has no kind
    fields = _fields(entry, where, NEEDED | own, OPTIONAL)
    texts = {name: _text(fields[name], f"{where}, {name}") for name in ("id", "figure", "title", "kind")}
    texts |= {name: _text(fields[name], f"{where}, {name}") for name in ("x", "note") if name in fields}
    scores = []
    for score in _list(fields["scores"], f"{where}, scores") if "scores" in own else []:
        if not isinstance(score, list) or len(score) != 2:
            raise UserError(f"{where}, scores: {score!r} should be [task, split]")
        scores.append((_text(score[0], f"{where}, scores"), _text(score[1], f"{where}, scores")))
    printed = [_text(name, f"{where}, printed") for name in _list(fields.get("printed", ["-"]), f"{where}, printed")]
    series = [
        one
        for place, part in enumerate(_list(fields["series"], f"{where}, series"), 1)
        for one in _series(part, f"{where}, series {place}", sweep=texts["kind"] == "sweep")
    ]
    if len({(one.label, one.backbone) for one in series}) < len(series):
        raise UserError(f"{where}: two series have one label and backbone; give each a label of its own")
    return PaperFigure(
        **texts,
        source=_chosen(fields["source"], SOURCES, f"{where}, source"),
        series=tuple(series),
        scores=tuple(scores),
        printed=tuple(printed) if "printed" in fields else (),
    )


def _series(entry: Any, where: str, *, sweep: bool) -> list[Series]:
    named = "runs" if sweep else "run"
    fields = _fields(entry, where, {"label", "backbone", named}, set())
    runs: list[tuple[float | None, tuple[str, ...]]] = []
    if sweep:
        if not isinstance(fields[named], dict) or not fields[named]:
            raise UserError(f"{where}, runs should map numbers to runs, not {fields[named]!r}")
        for x, run in fields[named].items():
            if isinstance(x, bool) or not isinstance(x, int | float):
                raise UserError(f"{where}, runs: {x!r} should be a number")
            runs.append((float(x), _runs(run, f"{where}, runs")))
    else:
        runs.append((None, _runs(fields[named], f"{where}, run")))
    backbones = fields["backbone"] if isinstance(fields["backbone"], list) else [fields["backbone"]]
    label = _text(fields["label"], f"{where}, label")
    return [Series(label, _text(name, f"{where}, backbone"), tuple(runs)) for name in backbones]


def _runs(value: Any, where: str) -> tuple[str, ...]:
    texts = tuple(_text(text, where) for text in (value if isinstance(value, list) else [value]))
    for text in texts:
        if not re.fullmatch(r"[^@]+@(paper|official)", text):
            raise UserError(f"{where}: {text!r} should be written method[key=value,...]@paper or @official")
    if not texts:
        raise UserError(f"{where} names no run")
    return texts
