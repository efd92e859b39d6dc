"""Figures of printed averages beside our seeds, and of the suite's own leaderboards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.comparison.verdict import VERDICT_SYMBOLS
from bench.datasets.tasks import AVERAGED
from bench.report.figures import style
from bench.report.figures.labels import with_stand_ins
from bench.report.figures.rows import aside, panels, zoom
from bench.report.formats import score_text
from bench.report.tables import printed_tables, row_name
from bench.reported import SOURCES
from bench.results.suite_results import SuiteResults

SCALES = {
    "spearman": "STS average (Spearman x 100)",
    "accuracy": "average accuracy (%)",
}  # axis labels of printed tables
SEEDLESS = "without a seed"  # untrained, published, or fitted once
MEAN = {"color": style.INK, "marker": "|", "ms": 9, "mew": 1.2}


def _sides(row: Any) -> list[tuple[tuple[float, ...], style.Look, float]]:
    """The scores of both settings of a row, each with its look and its distance from the middle."""
    setting, shift = row.run.partition("@")[2], 0.18 if row.other else 0.0
    sides = ((row.ours, setting, -shift), (row.other, row.other_setting, shift))
    return [
        (values, style.UNTRAINED if row.deterministic else _look(which), distance)
        for values, which, distance in sides
        if values
    ]


def _look(setting: str) -> style.Look:
    return style.OFFICIAL if setting == "official" else style.PAPER


def _keys(texts: str, drawn: Sequence[style.Look]) -> list[Artist]:
    """Legend entries of the settings that are drawn; `texts` has the setting in braces."""
    keys = [(texts.format(name), _look(name)) for name in ("official", "paper")]
    keys.append((SEEDLESS, style.UNTRAINED))
    return [style.key(text, look) for text, look in keys if look in drawn]


def _compared(panel: Axes, backbone: str, table: pd.DataFrame) -> None:
    """One backbone: printed values as strokes, our seeds as marks beside them, the verdict at the
    right."""
    scored = table["n"] + table["other_n"] > 0
    style.heading(panel, with_stand_ins(backbone, table.loc[scored, "measured_on"]))
    for y, row in enumerate(table.itertuples()):
        panel.plot(row.printed, y, **style.PRINTED, zorder=2)
        hollow = {"mfc": "none"} if row.verdict == "not comparable" else {}
        for values, look, distance in _sides(row):
            panel.plot(values, [y + distance] * len(values), **look | hollow, zorder=3)
        if pd.notna(row.half_width):
            ends = (row.mean - row.half_width, row.mean + row.half_width)
            _, look, distance = _sides(row)[0]
            panel.plot(ends, [y + distance] * 2, color=look["color"], lw=0.9, zorder=1)
        strong = row.verdict in ("lower", "higher")
        color = style.ORANGE if strong else style.GREY if row.verdict == "not run" else style.INK
        text = f"{VERDICT_SYMBOLS[row.verdict]} {row.verdict}"
        aside(panel, y, text, color=color, bold=strong)


def comparison(suite: SuiteResults, table: pd.DataFrame) -> Figure:
    """The averages of one printed table (rows of `cells`), a panel per backbone."""
    source, name, metric = table.iloc[0][["source", "table", "metric"]]
    title = f"{SOURCES[source].partition(' (')[0]}, {name}: printed and measured"
    rows = list(table.itertuples())
    drawn = [look for row in rows for _, look, _ in _sides(row)]
    handles = [style.key("printed", style.PRINTED), *_keys("ours, {} settings", drawn)]
    if table["half_width"].notna().any():
        handles.append(style.key("95 % prediction interval", color=style.GREY, lw=0.9))
    names = [row_name(row.method, row.variant) for row in rows]
    note = suite.remark_on(table["measured_on"])
    figure, drawn_panels = panels(table, names, title, note, handles, SCALES[metric])
    for panel in drawn_panels:
        _compared(*panel)
    return figure


def board_stem(board: str) -> str:
    """The stem of a leaderboard's file names."""
    return "leaderboard" if board == "sts" else f"leaderboard_{board}"


def board_figure(suite: SuiteResults, board: pd.DataFrame, name: str = "sts") -> Figure:
    """A `leaderboard` of the suite: a panel per backbone, a mark for the average of each seed."""
    about = suite.boards[name]
    title = f"Suite {suite.name}: every seed of every method, {about.title}"
    rows = board.to_dict("records")
    handles = _keys("a seed, {} settings", [_board_look(row) for row in rows if row["averages"]])
    if handles:
        handles.append(style.key("mean", MEAN, ls=""))
    names = [f"{row['label']}, {row['setting']}" if row["corpus"] else row["label"] for row in rows]
    scale = f"average {about.title}" if about.overall == "Avg" else about.title
    note = suite.remark_on(board["backbone"].unique())
    figure, drawn = panels(board, names, title, note, handles, scale)
    for panel, backbone, table in drawn:
        style.heading(panel, backbone if backbone != "none" else "no backbone")
        for y, row in enumerate(table.to_dict("records")):
            panel.plot(row["averages"], [y] * len(row["averages"]), **_board_look(row), zorder=3)
            if row["averages"]:
                panel.plot(row["Avg"], y, **MEAN, zorder=2)
            aside(panel, y, score_text(row["Avg"], row["Avg sd"]))
    zoom(drawn)
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
