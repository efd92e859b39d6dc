"""Figures: our seeds against the printed averages, and the suite's own leaderboard. Shapes first, colours second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.compare import Suite, cells, read_suite
from bench.files import atomic_file, write_text
from bench.records import BOARDS, STS_TASKS, TRANSFER_TASKS
from bench.reported import SOURCES
from bench.tables import BOARD_TITLES, csv, leaderboards, printed_tables, row_name, score_text
from bench.verdict import SYMBOLS

# From Okabe and Ito's palette: told apart by all common kinds of colour vision, and by lightness in grey.
BLUE, ORANGE, GREY, INK = "#0072B2", "#D55E00", "#8A8A8A", "#222222"
STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so the bytes are the same on every machine
    "font.size": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": GREY,
    "pdf.fonttype": 42,
    "text.parse_math": False,  # labels are texts, whatever signs they hold
}
# Inches: the figure's width, its margins, the height of a row and of what a panel needs besides rows.
WIDTH, LEFT, RIGHT, TOP, BOTTOM, ROW, PANEL, LINE = 7.2, 2.45, 1.3, 0.44, 0.62, 0.27, 0.38, 0.12


SCALES = {
    "spearman": "STS average (Spearman x 100)",
    "accuracy": "average accuracy (%)",
    "accuracy_mlp": "average accuracy (%)",
}


def _panels(rows: Sequence[int], title: str, note: str, scale: str) -> tuple[Figure, list[Axes]]:
    """A figure with one panel of `rows[i]` rows each, one below the other, over one axis of scores."""
    note = fill(note, 105)
    height = TOP + BOTTOM + note.count("\n") * LINE + sum(count * ROW + PANEL for count in rows)
    figure = Figure(figsize=(WIDTH, height))
    axes: list[Axes] = []
    top = height - TOP
    for count in rows:
        bottom = top - PANEL - count * ROW
        box = (LEFT / WIDTH, bottom / height, 1 - (LEFT + RIGHT) / WIDTH, count * ROW / height)
        panel = figure.add_axes(box, sharex=axes[0] if axes else None)
        panel.set_ylim(count - 0.5, -0.5)
        panel.tick_params(axis="y", length=0)
        panel.tick_params(axis="x", length=2, color=GREY, labelbottom=False)
        panel.grid(axis="x", color="#F0F0F0", lw=0.6)
        panel.set_axisbelow(True)
        panel.hlines(range(count), 0, 1, transform=panel.get_yaxis_transform(), color="#E6E6E6", lw=0.6, zorder=0)
        axes.append(panel)
        top = bottom
    for last in axes[-1:]:  # none where a suite has nothing to show here
        last.tick_params(axis="x", labelbottom=True)
        last.locator_params(axis="x", nbins=8)
        last.set_xlabel(scale)
    figure.text(0.1 / WIDTH, 1 - 0.1 / height, title, va="top", weight="bold", size=9)
    figure.text(0.1 / WIDTH, 0.08 / height, note, va="bottom", size=7, color=INK, style="italic")
    return figure, axes


def _names(panel: Axes, names: Sequence[str]) -> None:
    panel.set_yticks(range(len(names)), [fill(name, 38) for name in names], linespacing=0.9)


def _legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    height = figure.get_size_inches()[1]
    anchor = (0.1 / WIDTH, 1 - 0.24 / height)
    figure.legend(handles=handles, loc="upper left", bbox_to_anchor=anchor, ncols=len(handles), frameon=False,
                  borderaxespad=0, handletextpad=0.3, columnspacing=1.4, borderpad=0.2)  # fmt: skip


def _save(figure: Figure, stem: Path, data: pd.DataFrame) -> None:
    """Write PNG and PDF without dates, and the data they show."""
    write_text(stem.with_name(stem.name + ".csv"), csv(data))
    for kind, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None, "Producer": None})):
        with atomic_file(stem.with_name(f"{stem.name}.{kind}")) as temporary:
            figure.savefig(temporary, format=kind, dpi=150, metadata=metadata)


PRINTED: dict[str, Any] = {"color": INK, "marker": "|", "ms": 13, "mew": 1.8, "ls": ""}
OFFICIAL: dict[str, Any] = {"color": BLUE, "marker": "o", "ms": 4.2, "mew": 0.8, "ls": "", "alpha": 0.8}
PAPER: dict[str, Any] = {"color": ORANGE, "marker": "s", "ms": 3.6, "mew": 0.9, "ls": "", "mfc": "none"}
UNTRAINED: dict[str, Any] = {"color": INK, "marker": "D", "ms": 4.2, "mew": 0.8, "ls": ""}


def _compared(panel: Axes, backbone: str, rows: pd.DataFrame) -> None:
    """One backbone: printed values as strokes, our seeds as marks around them, the verdict at the right."""
    measured = set(rows["measured_on"]) - {"", backbone}
    aside = f"  (ours: {', '.join(sorted(measured))})" if measured else ""
    panel.set_title(backbone + aside, loc="left", size=8, weight="bold", pad=3)
    _names(panel, [row_name(row.method, row.variant) for row in rows.itertuples()])
    for y, row in enumerate(rows.itertuples()):
        panel.plot(row.printed, y, **PRINTED, zorder=2)
        hollow = {"mfc": "none"} if row.verdict == "not comparable" else {}
        setting, shift = row.run.partition("@")[2], 0.18 if row.other else 0.0
        for values, which, height in ((row.ours, setting, y - shift), (row.other, row.other_setting, y + shift)):
            style = UNTRAINED if row.deterministic else OFFICIAL if which == "official" else PAPER
            panel.plot(values, [height] * len(values), **style | hollow, zorder=3)
        if pd.notna(row.half_width):
            ends = (row.mean - row.half_width, row.mean + row.half_width)
            panel.plot(ends, [y - shift] * 2, color=BLUE if setting == "official" else ORANGE, lw=0.9, zorder=1)
        strong = row.verdict in ("lower", "higher")
        color = ORANGE if strong else GREY if row.verdict == "not run" else INK
        panel.text(
            1.02, y, f"{SYMBOLS[row.verdict]} {row.verdict}", transform=panel.get_yaxis_transform(), va="center",
            color=color, weight="bold" if strong else "normal",
        )  # fmt: skip


def comparison(suite: Suite, table: pd.DataFrame) -> Figure:
    """The averages of one printed table (rows of `cells`): a panel for each backbone."""
    backbones = table["backbone"].unique()
    panels = [table[table["backbone"] == backbone] for backbone in backbones]
    source, name = table.iloc[0][["source", "table"]]
    figure, axes = _panels(
        [len(rows) for rows in panels],
        f"{SOURCES[source].partition(' (')[0]}, {name}: printed and measured",
        suite.remark,
        SCALES[table.iloc[0]["metric"]],
    )
    for panel, backbone, rows in zip(axes, backbones, panels, strict=True):
        _compared(panel, backbone, rows)
    _legend(
        figure,
        [
            Line2D([], [], **PRINTED, label="printed"),
            Line2D([], [], **OFFICIAL, label="ours, official settings"),
            Line2D([], [], **PAPER, label="paper settings"),
            Line2D([], [], **UNTRAINED, label="untrained"),
            Line2D([], [], color=GREY, lw=0.9, label="95 % interval of a further seed"),
        ],
    )
    return figure


def board_stem(board: str) -> str:
    """The name of a leaderboard's files."""
    return "leaderboard" if board == "sts" else f"leaderboard_{board}"


def board_figure(suite: Suite, board: pd.DataFrame, name: str = "sts") -> Figure:
    """A `leaderboard` of the suite: a panel for each backbone, a mark for the average of each seed."""
    backbones = board["backbone"].unique()
    panels = [board[board["backbone"] == backbone] for backbone in backbones]
    title = f"Suite {suite.name}: every seed of every method, {BOARD_TITLES[name]}"
    figure, axes = _panels([len(rows) for rows in panels], title, suite.remark, SCALES[BOARDS[name][1]])
    for panel, backbone, rows in zip(axes, backbones, panels, strict=True):
        panel.set_title(backbone if backbone != "none" else "no backbone", loc="left", size=8, weight="bold", pad=3)
        _names(panel, [row.label if row.corpus == "" else f"{row.label}, {row.setting}" for row in rows.itertuples()])
        for y, row in enumerate(rows.itertuples()):
            style = UNTRAINED if row.corpus == "" else OFFICIAL if row.setting == "official" else PAPER
            panel.plot(row.averages, [y] * len(row.averages), **style, zorder=3)
            if row.averages:
                panel.plot(row.Avg, y, color=INK, marker="|", ms=9, mew=1.2, zorder=2)
            text = score_text(row.Avg, board.loc[row.Index, "Avg sd"])
            panel.text(1.02, y, text, transform=panel.get_yaxis_transform(), va="center", color=INK)
    _legend(
        figure,
        [
            Line2D([], [], **OFFICIAL, label="a seed, official settings"),
            Line2D([], [], **PAPER, label="a seed, paper settings"),
            Line2D([], [], **UNTRAINED, label="untrained"),
            Line2D([], [], color=INK, marker="|", ms=9, mew=1.2, ls="", label="mean"),
        ],
    )
    return figure


def figure_stems(all_cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The printed tables that get a figure, by the name of its files: those of seven tasks and an average."""
    return {
        stem: table[table["task"] == "Avg"]
        for stem, table in printed_tables(all_cells[all_cells["split"] == "test"]).items()
        if any({*tasks, "Avg"} <= set(table["task"]) for tasks in (STS_TASKS, TRANSFER_TASKS))
    }


def render_figures(suite_folder: Path, out: Path) -> None:
    """Write `leaderboard` (of STS), those of other tasks, and `<paper>_<table>`, as PNG and PDF with their data as CSV.

    Raises:
        UserError: the suite's files are missing or damaged, or `out` cannot be written.
    """
    suite = read_suite(suite_folder)
    with matplotlib.rc_context(STYLE):
        for name, board in leaderboards(suite).items():
            _save(board_figure(suite, board, name), Path(out) / board_stem(name), board)
        for stem, table in figure_stems(cells(suite)).items():
            _save(comparison(suite, table), Path(out) / stem, table)
