"""Figures of printed averages beside our seeds, and of the suite's own leaderboards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bench.comparison.statistics import mean_and_sd
from bench.datasets.tasks import AVERAGED
from bench.report.figures import style
from bench.report.figures.rows import aside, panels, zoom
from bench.report.formats import score_text
from bench.report.printed_table import printed_tables
from bench.reported import paper_name
from bench.reported.address import row_name
from bench.results.records import named, with_stand_ins
from bench.results.suite_results import SuiteResults

SCALES = {
    "spearman": "STS average (Spearman x 100)",
    "accuracy": "average accuracy (%)",
}  # axis labels of printed tables
SEEDLESS = "without a seed"  # untrained, published, or fitted once
# The two questions of a verdict: is our mean within the tolerance, could one run have scored print?
TOLERANCE = {"color": "#DCDCDC", "lw": 0}
OUR_MEAN, ONE_RUN = {"lw": 2.4, "alpha": 0.5}, {"lw": 0.9}
MEAN_KEY = "our mean: 90 % interval if =, else 95 %"
RUN_KEY = "95 % of single runs of ours"
HOLLOW: style.Look = {"mfc": "none"}
MEAN = {"color": style.INK, "marker": "|", "ms": 9, "mew": 1.2}


class _Side(NamedTuple):
    """The scores of one setting of a row."""

    values: tuple[float, ...]
    look: style.Look
    hollow: bool
    distance: float  # from the middle of the row


def _sides(row: Any) -> list[_Side]:
    """Both settings of a row, as far as they have scores."""
    setting, shift = row.run.partition("@")[2], 0.18 if row.other else 0.0
    sides = (
        (row.ours, setting, row.verdict, -shift),
        (row.other, row.other_setting, row.other_verdict, shift),
    )
    return [
        _Side(
            values,
            style.UNTRAINED if row.deterministic else _look(which),
            verdict == "not comparable",
            distance,
        )
        for values, which, verdict, distance in sides
        if values
    ]


def _look(setting: str) -> style.Look:
    return style.OFFICIAL if setting == "official" else style.PAPER


def _keys(texts: str, drawn: Sequence[style.Look]) -> list[Artist]:
    """Legend entries of the settings that are drawn; `texts` has the setting in braces."""
    keys = [(texts.format(name), _look(name)) for name in ("official", "paper")]
    keys.append((SEEDLESS, style.UNTRAINED))
    return [style.key(text, look) for text, look in keys if look in drawn]


def _intervals(row: Any) -> list[tuple[float, style.Look]]:
    """Half widths of the intervals that the verdict uses: of the mean, and of one run where the
    mean is outside the tolerance."""
    if pd.isna(row.half_width):
        return []
    return [(row.mean_half_width, OUR_MEAN), *[(row.half_width, ONE_RUN)] * (row.within is False)]


def _compared(panel: Axes, backbone: str, table: pd.DataFrame) -> None:
    """One backbone: printed values as strokes, our seeds as marks beside them, the verdict at the
    right."""
    scored = table["n"] + table["other_n"] > 0
    style.heading(panel, with_stand_ins(backbone, table.loc[scored, "measured_on"]))
    for y, row in enumerate(table.itertuples()):
        panel.plot(row.printed, y, **style.PRINTED, zorder=2)
        if pd.notna(row.tolerance):
            band = (row.printed - row.tolerance, row.printed + row.tolerance)
            panel.fill_between(band, y - 0.3, y + 0.3, **TOLERANCE, zorder=0.5)
        for values, look, hollow, distance in _sides(row):
            marks = look | HOLLOW if hollow else look
            panel.plot(values, [y + distance] * len(values), **marks, zorder=3)
        for half_width, look in _intervals(row):
            ends = (row.mean - half_width, row.mean + half_width)
            first = _sides(row)[0]
            own = look | {"color": first.look["color"]}
            panel.plot(ends, [y + first.distance] * 2, **own, zorder=1)
        strong = row.verdict in ("lower", "higher")
        color = style.ORANGE if strong else style.GREY if row.verdict == "not run" else style.INK
        text = f"{row.mark} {row.verdict}"
        aside(panel, y, text, color=color, bold=strong)


def _note(table: pd.DataFrame) -> str:
    """What the numbers of the verdicts mean, and why a line may not tell the verdict."""
    kinds = {
        "inconclusive": "? 8: 8 seeds decide if mean and spread stay as they are.",
        "consistent": "≈ 1/12: one run of ours in 12 reaches print.",
    }
    parts = [text for kind, text in kinds.items() if kind in set(table["verdict"])]
    if any(within is False for within in table["within"]):
        parts.append("↓ and ↑ hold after Holm's correction over the averages of the paper.")
    return " ".join(parts)


def comparison(suite: SuiteResults, table: pd.DataFrame) -> Figure:
    """The averages of one printed table (rows of `cells`), a panel per backbone."""
    source, name, metric = table.iloc[0][["source", "table", "metric"]]
    title = f"{paper_name(source)}, {name}: printed and measured"
    rows = list(table.itertuples())
    sides = [side for row in rows for side in _sides(row)]
    handles: list[Artist] = [style.key("printed", style.PRINTED | style.IN_LEGEND)]
    if table["tolerance"].notna().any():
        handles.append(Patch(**TOLERANCE, label="printed ± tolerance"))
    handles += _keys("ours, {} settings", [side.look for side in sides])
    if any(side.hollow for side in sides):
        open_mark = {"color": style.INK, "marker": "o", "ms": 4.2, "mew": 0.8, "ls": ""}
        handles.append(style.key("open: not comparable with print", open_mark | HOLLOW))
    drawn = [look for row in rows for _, look in _intervals(row)]
    for text, look in ((MEAN_KEY, OUR_MEAN), (RUN_KEY, ONE_RUN)):
        if look in drawn:
            handles.append(style.key(text, look, color=style.BLUE))
    names = [row_name(row.method, row.variant) for row in rows]
    note = " ".join(filter(None, [suite.remark_on(table["measured_on"]), _note(table)]))
    figure, drawn_panels = panels(table, names, title, note, handles, SCALES[metric])
    for panel in drawn_panels:
        _compared(*panel)
    return figure


def board_stem(board: str) -> str:
    """The stem of a leaderboard's file names."""
    return "leaderboard" if board == "sts" else f"leaderboard_{board}"


def board_figure(suite: SuiteResults, board: pd.DataFrame, name: str = "sts") -> Figure:
    """A `leaderboard` of the suite: a panel per backbone, a mark for the average of each seed, over
    the planned tasks. The highest is on the axis; others that are far away may be arrows."""
    about = suite.planned(name)
    title = f"Suite {suite.name}: every seed of every method, {about.title}"
    rows = board.to_dict("records")
    handles = _keys("a seed, {} settings", [_board_look(row) for row in rows if row["averages"]])
    if handles:
        handles.append(style.key("mean", MEAN, ls=""))
    names = [named(row["label"], row["setting"]) for row in rows]
    scale = f"average {about.title}" if about.overall == "Avg" else about.title
    note = suite.remark_on(board["backbone"].unique())
    figure, drawn = panels(board, names, title, note, handles, scale)
    for panel, _, table in drawn:
        for y, row in enumerate(table.to_dict("records")):
            averages = row["averages"]
            mean, sd = mean_and_sd(averages)
            panel.plot(averages, [y] * len(averages), **_board_look(row), zorder=3)
            if averages:
                panel.plot(mean, y, **MEAN, zorder=2)
            aside(panel, y, score_text(mean, sd))
    zoom(drawn, always=sorted(chain(*board["averages"]))[-1:])
    return figure


def _board_look(row: Mapping[str, Any]) -> style.Look:
    return _look(row["setting"]) if row["corpus"] else style.UNTRAINED


def figure_stems(all_cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The printed tables that get a figure, by the stem of its file names: those with seven tasks
    and their average."""
    return {
        stem: table[table["task"] == "Avg"]
        for stem, table in printed_tables(all_cells[all_cells["split"] == "test"]).items()
        if any({*tasks, "Avg"} <= set(table["task"]) for tasks in AVERAGED.values())
    }
