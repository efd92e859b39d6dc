"""Figures of printed averages beside our seeds, and of the suite's own leaderboards."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.comparison.verdict import VERDICT_SYMBOLS
from bench.datasets.tasks import AVERAGED
from bench.report.figures import style
from bench.report.tables import printed_tables, row_name, score_text
from bench.reported import SOURCES
from bench.results.suite_results import SuiteResults

SCALES = {
    "spearman": "STS average (Spearman x 100)",
    "accuracy": "average accuracy (%)",
}  # axis labels of printed tables
SEEDLESS = "without a seed"  # untrained, published, or fitted once
MEAN = {"color": style.INK, "marker": "|", "ms": 9, "mew": 1.2}


def _compared(panel: Axes, backbone: str, table: pd.DataFrame) -> None:
    """One backbone: printed values as strokes, our seeds as marks beside them, the verdict at the
    right."""
    measured = set(table["measured_on"]) - {"", backbone}
    title = f"{backbone}  (ours: {', '.join(sorted(measured))})" if measured else backbone
    rows = list(table.itertuples())
    style.rows(panel, title, [row_name(row.method, row.variant) for row in rows])
    for y, row in enumerate(rows):
        panel.plot(row.printed, y, **style.PRINTED, zorder=2)
        hollow = {"mfc": "none"} if row.verdict == "not comparable" else {}
        setting, shift = row.run.partition("@")[2], 0.18 if row.other else 0.0
        sides = [(row.ours, setting, y - shift), (row.other, row.other_setting, y + shift)]
        for values, which, height in sides:
            look = (
                style.UNTRAINED
                if row.deterministic
                else style.OFFICIAL
                if which == "official"
                else style.PAPER
            )
            panel.plot(values, [height] * len(values), **look | hollow, zorder=3)
        if pd.notna(row.half_width):
            ends = (row.mean - row.half_width, row.mean + row.half_width)
            color = style.BLUE if setting == "official" else style.ORANGE
            panel.plot(ends, [y - shift] * 2, color=color, lw=0.9, zorder=1)
        strong = row.verdict in ("lower", "higher")
        color = style.ORANGE if strong else style.GREY if row.verdict == "not run" else style.INK
        text = f"{VERDICT_SYMBOLS[row.verdict]} {row.verdict}"
        style.aside(panel, y, text, color=color, bold=strong)


def comparison(suite: SuiteResults, table: pd.DataFrame) -> Figure:
    """The averages of one printed table (rows of `cells`), a panel per backbone."""
    source, name, metric = table.iloc[0][["source", "table", "metric"]]
    title = f"{SOURCES[source].partition(' (')[0]}, {name}: printed and measured"
    handles = [
        style.key("printed", style.PRINTED),
        style.key("ours, official settings", style.OFFICIAL),
        style.key("paper settings", style.PAPER),
        style.key(SEEDLESS, style.UNTRAINED),
        style.key("95 % prediction interval", color=style.GREY, lw=0.9),
    ]
    note = suite.remark_on(table["measured_on"])
    figure, panels = style.panels(table, title, note, handles, SCALES[metric])
    for panel in panels:
        _compared(*panel)
    return figure


def board_stem(board: str) -> str:
    """The stem of a leaderboard's file names."""
    return "leaderboard" if board == "sts" else f"leaderboard_{board}"


def board_figure(suite: SuiteResults, board: pd.DataFrame, name: str = "sts") -> Figure:
    """A `leaderboard` of the suite: a panel per backbone, a mark for the average of each seed."""
    about = suite.boards[name]
    title = f"Suite {suite.name}: every seed of every method, {about.title}"
    handles = [
        style.key("a seed, official settings", style.OFFICIAL),
        style.key("a seed, paper settings", style.PAPER),
        style.key(SEEDLESS, style.UNTRAINED),
        style.key("mean", MEAN, ls=""),
    ]
    scale = f"average {about.title}" if about.overall == "Avg" else about.title
    note = suite.remark_on(board["backbone"].unique())
    figure, panels = style.panels(board, title, note, handles, scale)
    for panel, backbone, table in panels:
        rows = table.to_dict("records")
        names = [
            f"{row['label']}, {row['setting']}" if row["corpus"] else row["label"] for row in rows
        ]
        style.rows(panel, backbone if backbone != "none" else "no backbone", names)
        for y, row in enumerate(rows):
            look = style.OFFICIAL if row["setting"] == "official" else style.PAPER
            look = look if row["corpus"] else style.UNTRAINED
            panel.plot(row["averages"], [y] * len(row["averages"]), **look, zorder=3)
            if row["averages"]:
                panel.plot(row["Avg"], y, **MEAN, zorder=2)
            style.aside(panel, y, score_text(row["Avg"], row["Avg sd"]))
    return figure


def figure_stems(all_cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The printed tables that get a figure, by the stem of its file names: those with seven tasks
    and their average."""
    return {
        stem: table[table["task"] == "Avg"]
        for stem, table in printed_tables(all_cells[all_cells["split"] == "test"]).items()
        if any({*tasks, "Avg"} <= set(table["task"]) for tasks in AVERAGED.values())
    }
