"""Figures of printed averages beside our seeds, and of the suite's own leaderboards."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.comparison.verdict import VERDICT_SYMBOLS
from bench.datasets.tasks import AVERAGED
from bench.report.figures.style import (
    BLUE,
    GREY,
    INK,
    OFFICIAL,
    ORANGE,
    PAPER,
    PRINTED,
    UNTRAINED,
    heading,
    names,
    panels,
)
from bench.report.tables import printed_tables, row_name, score_text
from bench.reported import SOURCES
from bench.results.suite_results import SuiteResults

SCALES = {
    "spearman": "STS average (Spearman x 100)",
    "accuracy": "average accuracy (%)",
}  # axis labels of printed tables
SEEDLESS = "without a seed"  # untrained, published, or fitted once
MEAN: dict[str, Any] = {"color": INK, "marker": "|", "ms": 9, "mew": 1.2}


def _compared(panel: Axes, backbone: str, rows: pd.DataFrame) -> None:
    """One backbone: printed values as strokes, our seeds as marks beside them, the verdict at the
    right."""
    measured = set(rows["measured_on"]) - {"", backbone}
    aside = f"  (ours: {', '.join(sorted(measured))})" if measured else ""
    heading(panel, backbone + aside)
    names(panel, [row_name(row.method, row.variant) for row in rows.itertuples()])
    for y, row in enumerate(rows.itertuples()):
        panel.plot(row.printed, y, **PRINTED, zorder=2)
        hollow = {"mfc": "none"} if row.verdict == "not comparable" else {}
        setting, shift = row.run.partition("@")[2], 0.18 if row.other else 0.0
        for values, which, height in (
            (row.ours, setting, y - shift),
            (row.other, row.other_setting, y + shift),
        ):
            style = UNTRAINED if row.deterministic else OFFICIAL if which == "official" else PAPER
            panel.plot(values, [height] * len(values), **style | hollow, zorder=3)
        if pd.notna(row.half_width):
            ends = (row.mean - row.half_width, row.mean + row.half_width)
            panel.plot(
                ends,
                [y - shift] * 2,
                color=BLUE if setting == "official" else ORANGE,
                lw=0.9,
                zorder=1,
            )
        strong = row.verdict in ("lower", "higher")
        color = ORANGE if strong else GREY if row.verdict == "not run" else INK
        text = f"{VERDICT_SYMBOLS[row.verdict]} {row.verdict}"
        panel.text(
            1.02, y, text, transform=panel.get_yaxis_transform(), va="center",
            color=color, weight="bold" if strong else "normal",
        )  # fmt: skip


def comparison(suite: SuiteResults, table: pd.DataFrame) -> Figure:
    """The averages of one printed table (rows of `cells`), a panel per backbone."""
    backbones = table["backbone"].unique()
    parts = [table[table["backbone"] == backbone] for backbone in backbones]
    source, name = table.iloc[0][["source", "table"]]
    figure, axes = panels(
        [len(rows) for rows in parts],
        f"{SOURCES[source].partition(' (')[0]}, {name}: printed and measured",
        suite.remark_on(table["measured_on"]),
        [
            Line2D([], [], **PRINTED, label="printed"),
            Line2D([], [], **OFFICIAL, label="ours, official settings"),
            Line2D([], [], **PAPER, label="paper settings"),
            Line2D([], [], **UNTRAINED, label=SEEDLESS),
            Line2D([], [], color=GREY, lw=0.9, label="95 % prediction interval"),
        ],
        SCALES[table.iloc[0]["metric"]],
    )
    for panel, backbone, rows in zip(axes, backbones, parts, strict=True):
        _compared(panel, backbone, rows)
    return figure


def board_stem(board: str) -> str:
    """The stem of a leaderboard's file names."""
    return "leaderboard" if board == "sts" else f"leaderboard_{board}"


def board_figure(suite: SuiteResults, board: pd.DataFrame, name: str = "sts") -> Figure:
    """A `leaderboard` of the suite: a panel per backbone, a mark for the average of each seed."""
    backbones = board["backbone"].unique()
    parts = [board[board["backbone"] == backbone] for backbone in backbones]
    title = f"Suite {suite.name}: every seed of every method, {suite.boards[name].title}"
    handles = [
        Line2D([], [], **OFFICIAL, label="a seed, official settings"),
        Line2D([], [], **PAPER, label="a seed, paper settings"),
        Line2D([], [], **UNTRAINED, label=SEEDLESS),
        Line2D([], [], **MEAN, ls="", label="mean"),
    ]
    about = suite.boards[name]
    scale = f"average {about.title}" if about.overall == "Avg" else about.title
    figure, axes = panels(
        [len(rows) for rows in parts], title, suite.remark_on(backbones), handles, scale
    )
    for panel, backbone, rows in zip(axes, backbones, parts, strict=True):
        heading(panel, backbone if backbone != "none" else "no backbone")
        names(
            panel,
            [
                row.label if row.corpus == "" else f"{row.label}, {row.setting}"
                for row in rows.itertuples()
            ],
        )
        for y, row in enumerate(rows.itertuples()):
            style = (
                UNTRAINED if row.corpus == "" else OFFICIAL if row.setting == "official" else PAPER
            )
            panel.plot(row.averages, [y] * len(row.averages), **style, zorder=3)
            if row.averages:
                panel.plot(row.Avg, y, **MEAN, zorder=2)
            text = score_text(row.Avg, board.loc[row.Index, "Avg sd"])
            panel.text(1.02, y, text, transform=panel.get_yaxis_transform(), va="center", color=INK)
    return figure


def figure_stems(all_cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The printed tables that get a figure, by the stem of its file names: those with seven tasks
    and their average."""
    return {
        stem: table[table["task"] == "Avg"]
        for stem, table in printed_tables(all_cells[all_cells["split"] == "test"]).items()
        if any({*tasks, "Avg"} <= set(table["task"]) for tasks in AVERAGED.values())
    }
