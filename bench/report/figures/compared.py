"""Figures of rows: a panel per backbone below each other, a row per method, an axis of scores that
all share. Printed averages beside our seeds, the suite's leaderboards, comparisons with a baseline,
and printed gains."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import inf
from pathlib import Path

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bench.datasets.tasks import AVERAGED
from bench.judge.against_baseline import COMPARISON_SYMBOLS, by_items, find
from bench.judge.reproduction import Cell, Line, grouped
from bench.judge.statistics import mean_and_sd
from bench.registry.backbones import NO_BACKBONE
from bench.report.comparison_table import claims_of, line_of, names_of
from bench.report.figures import style
from bench.report.formats import score_text
from bench.report.printed_table import printed_tables
from bench.reported import paper_name
from bench.reported.address import row_name
from bench.reported.number import printed_gains
from bench.results.records import with_stand_ins
from bench.results.suite_results import SuiteResults

# --- Layout ---

# Inches: least height of a row, height of a line of its name and space between two names, extra
# height of a panel and of the axis below the last.
ROW, NAME, SPACE, PANEL, BELOW = 0.22, 0.12, 0.05, 0.34, 0.3
NAME_SIZE, NAME_WIDTH = 7, 45  # points, letters per line
# An axis ends at the last mark within this many median deviations, or these points, of the median.
DEVIATIONS, NEAR = 10, 15.0
MOST_ROWS = 25  # of a figure
MARGIN = 0.05  # beside the marks, as a share of the axis
BAND = {"color": "#D5D8DD", "lw": 0}


@dataclass(frozen=True)
class Row:
    """A row of a figure."""

    panel: str  # heading of its panel, a backbone or its place
    name: str  # at the left
    text: str  # at the right
    # Scores, their distance from the middle of the row, and their look, whose label is their entry
    # of the legend; later ones are drawn over earlier ones.
    marks: Sequence[tuple[Sequence[float], float, style.Look]]
    band: tuple[float, float] | None = None  # ends of a range that is shaded
    stands_out: bool = False  # whether the text is in bold and colour


def figure_of_rows(
    rows: Sequence[Row],
    title: str,
    note: str,
    scale: str,
    band: str = "",
    always: Sequence[float] | None = None,
) -> Figure:
    """A figure with the panels of its rows below each other, at most `MOST_ROWS` in all: the first
    of each panel.

    Args:
        rows: all have the same height, which the longest name needs.
        title, note: texts above and below the panels.
        scale: label of the axis that all panels share.
        band: legend entry of the shaded ranges.
        always: if given, the axis shows the marks that lie together, and these scores.
    """
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row.panel, []).append(row)
    most, count = MOST_ROWS, len(rows)
    while len(rows) > MOST_ROWS:
        most -= 1
        parts = {panel: part[:most] for panel, part in parts.items()}
        rows = list(chain(*parts.values()))
    if len(rows) < count:
        note = f"The first {len(rows)} of {count} rows; the table has all. {note}"
    names = {row.name: style.wrapped(row.name, NAME_WIDTH) for row in rows}
    height = max([ROW, *(NAME * (name.count("\n") + 1) + SPACE for name in names.values())])
    whole = len(rows) * height + len(parts) * PANEL + BELOW
    handles: dict[str, Artist] = {}
    for scores, _, look in chain(*(row.marks for row in rows)):
        if scores:
            handles.setdefault(look["label"], Line2D([], [], **look | {"ms": min(9, look["ms"])}))
    if any(row.band for row in rows):
        handles[band] = Patch(**BAND, label=band)
    figure = style.sheet(title, note, list(handles.values()), whole)
    if not rows:  # the suite has no data
        return figure
    ratios = [len(part) for part in parts.values()]
    figure.subplots(len(parts), sharex=True, gridspec_kw={"height_ratios": ratios})
    for panel, (heading, part) in zip(figure.axes, parts.items(), strict=True):
        panel.set_ylim(len(part) - 0.5, -0.5)
        panel.set_yticks(range(len(part)), [names[row.name] for row in part], size=NAME_SIZE)
        panel.tick_params(axis="y", length=0)
        panel.tick_params(axis="x", length=2, color=style.GREY)
        panel.grid(color=style.PALE, lw=0.6)
        panel.set_axisbelow(True)
        style.heading(panel, "no backbone" if heading == NO_BACKBONE.name else heading)
        for y, row in enumerate(part):
            if row.band:
                panel.fill_between(row.band, y - 0.3, y + 0.3, **BAND)
            for scores, distance, look in row.marks:
                panel.plot(scores, [y + distance] * len(scores), **look)
            panel.text(
                1.02, y, row.text, transform=panel.get_yaxis_transform(), va="center",
                color=style.ORANGE if row.stands_out else style.INK,
                weight="bold" if row.stands_out else "normal",
            )  # fmt: skip
    panel.locator_params(axis="x", nbins=8)
    panel.set_xlabel(scale)
    if always is not None:
        _zoom(figure, parts, always)
    return figure


def core(values: pd.Series) -> tuple[float, float]:
    """The range of the values without outliers, by their distance from the median.

    >>> core(pd.Series([24.0, 69.0, 69.5, 70.0, 70.5, 71.0, 71.5]))
    (69.0, 71.5)
    """
    distances = (values - values.median()).abs()
    kept = values[distances <= max(NEAR, DEVIATIONS * distances.median())]
    return float(kept.min()), float(kept.max())


def _zoom(figure: Figure, parts: Mapping[str, list[Row]], always: Sequence[float]) -> None:
    """Zoom on the marks that lie together. An arrow at the edge stands for those beyond."""
    marks = [scores for part in parts.values() for row in part for scores, *_ in row.marks]
    xs = pd.Series(list(chain(*marks)), dtype=float).dropna()
    if xs.empty:
        return
    low, high = core(xs)
    low, high = min([low, *always]), max([high, *always])
    margin = MARGIN * ((high - low) or 1.0)
    low, high = low - margin, high + margin
    figure.axes[0].set_xlim(low, high)
    # Sides of the axis: marker, and where it is.
    edges = [((-inf, low), "<", 0.012), ((high, inf), ">", 0.988)]
    for panel, part in zip(figure.axes, parts.values(), strict=True):
        across = panel.get_yaxis_transform()
        for (y, row), (ends, marker, at) in product(enumerate(part), edges):
            for scores, _, look in row.marks:
                if any(ends[0] < score < ends[1] for score in scores):
                    color = look["color"]
                    panel.plot([at], [y], marker=marker, ms=5, color=color, ls="", transform=across)
                    break


# --- Printed and measured ---

SEEDLESS = "without a seed"  # untrained, published, or fitted once
LOOKS = {"official": style.OFFICIAL, "paper": style.PAPER, SEEDLESS: style.UNTRAINED}
PRINTED = style.PRINTED | {"label": "printed"}
MEAN = {"color": style.INK, "marker": "|", "ms": 9, "mew": 1.2, "ls": "", "label": "mean"}
# The two questions of a verdict: is our mean within the tolerance, could one run have scored print?
OUR_MEAN = {"lw": 2.4, "ms": 0, "alpha": 0.5} | {
    "label": "our mean: 90 % interval if =, else 95 %; wider if grown"
}
ONE_RUN = {"lw": 0.9, "ms": 0, "label": "95 % of single runs of ours"}


def _scored(cell: Cell) -> list[Line]:
    """Ours in both settings, as far as they have scores."""
    return [line for line in (cell.ours, cell.other) if line and line.n]


def _look(line: Line) -> style.Look:
    """Of the seeds of a line, hollow if they are not comparable."""
    kind = SEEDLESS if line.deterministic else line.setting
    label = kind if line.deterministic else f"ours, {kind} settings"
    if line.verdict.kind == "not comparable":
        return LOOKS[kind] | {"mfc": "none", "label": f"{label}, not comparable with print"}
    return LOOKS[kind] | {"label": label}


def _row(cell: Cell, panel: str) -> Row:
    """The printed value as a stroke, our seeds as marks beside it, the verdict at the right; and
    the intervals that it uses: of our mean, and of one run where the mean is outside the
    tolerance."""
    printed, ours, verdict = cell.number.value, cell.ours, cell.ours.verdict
    shift = 0.18 if cell.other else 0.0
    marks: list[tuple[Sequence[float], float, style.Look]] = [([printed], 0, PRINTED)]
    intervals: list[tuple[float | None, style.Look]] = [
        (verdict.mean_half_width, OUR_MEAN),
        (verdict.half_width, ONE_RUN),
    ]
    for half_width, look in intervals[: 2 if verdict.within is False else 1]:
        if verdict.half_width is not None and half_width is not None:
            ends = (ours.mean - half_width, ours.mean + half_width)
            marks.append((ends, -shift, look | {"color": _look(ours)["color"]}))
    marks += [
        (line.scores, -shift if line is ours else shift, _look(line)) for line in _scored(cell)
    ]
    name, width = row_name(cell.number.method, cell.number.variant), verdict.tolerance
    band = None if width is None else (printed - width, printed + width)
    is_outside = verdict.kind in ("lower", "higher")
    return Row(panel, name, f"{verdict.mark} {verdict.kind}", marks, band, is_outside)


# What the numbers of verdicts mean, and why a line may not tell the verdict.
NOTES = {
    "inconclusive": "? 8: 8 seeds decide if mean and spread stay as they are.",
    "consistent": "≈ 1/12: one run of ours in 12 reaches print.",
    "outside": "↓ and ↑ hold after Holm's correction over the averages of the paper.",
}


def comparison(suite: SuiteResults, cells: Sequence[Cell]) -> Figure:
    """The averages of one printed table, a panel per backbone."""
    first, verdicts = cells[0].number, [cell.ours.verdict for cell in cells]
    said: set[str] = {verdict.kind for verdict in verdicts}
    said |= {"outside" for verdict in verdicts if verdict.within is False}
    remark = suite.remark_on(cell.ours.measured_on for cell in cells)
    notes = [remark, *(text for kind, text in NOTES.items() if kind in said)]
    panels = {
        backbone: with_stand_ins(backbone, [cell.ours.measured_on for cell in part])
        for backbone, part in grouped(cells, lambda cell: cell.number.backbone).items()
    }
    return figure_of_rows(
        [_row(cell, panels[cell.number.backbone]) for cell in cells],
        f"{paper_name(first.source)}, {first.table}: printed and measured",
        " ".join(filter(None, notes)),
        first.our_metric.axis,
        "printed ± tolerance",
    )


def board_stem(board: str) -> str:
    """The stem of a leaderboard's file names."""
    return "leaderboard" if board == "sts" else f"leaderboard_{board}"


def board_figure(suite: SuiteResults, board: pd.DataFrame, name: str = "sts") -> Figure:
    """A `leaderboard` of the suite: a panel per backbone, a mark for the average of each seed, over
    the planned tasks. The highest is on the axis; others that are far away may be arrows."""
    about = suite.planned(name)
    rows = []
    for row in board.itertuples():
        kind = row.setting if row.corpus else SEEDLESS
        whose = "own method" if row.name == row.label else f"{kind} settings"
        label = f"a seed, {whose}" if row.corpus else kind
        mean, sd = mean_and_sd(row.averages)
        marks = [
            (row.averages, 0, LOOKS[kind] | {"label": label}),
            ([mean] if row.averages else [], 0, MEAN),
        ]
        rows.append(Row(row.backbone, row.name, score_text(mean, sd), marks))
    return figure_of_rows(
        rows,
        f"Suite {suite.plan.suite}: every seed of every method, {about.title}",
        suite.remark_on(board["backbone"].unique()),
        f"average {about.title}" if about.overall == "Avg" else about.title,
        always=sorted(chain(*board["averages"]))[-1:],
    )


def figure_stems(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """The averages with scores of ours in the printed tables that get a figure, by the stem of its
    file names: those with seven tasks and their average, any of which can be compared."""
    of_test = [cell for cell in cells if cell.number.split == "test"]
    averages = {}
    for stem, table in printed_tables(of_test).items():
        tasks = {cell.number.task for cell in table.cells}
        of_rows = [cell for cell in table.cells if cell.number.task == "Avg" and _scored(cell)]
        is_whole = any({*group, "Avg"} <= tasks for group in AVERAGED.values())
        if is_whole and any(cell.is_comparable for cell in of_rows):
            averages[stem] = of_rows
    return averages


# --- Comparisons with a baseline ---


DIFFERENCE = style.OFFICIAL | {"alpha": 0.6, "label": "difference at one seed"}
CLAIM = style.PRINTED | {"color": style.ORANGE, "label": "printed difference"}
DIFFERENCES = MEAN | {
    "ms": 7, "mew": 1.4, "lw": 1.2, "ls": "-",
    "label": "mean difference, 95 % interval before Holm's correction",
}  # fmt: skip
CORRECTED = (
    "Intervals are of single differences; verdicts hold after Holm's correction, so a row may be "
    "undecided although its interval excludes 0."
)


def versus_figure(suite: SuiteResults, frame: pd.DataFrame, claims: pd.DataFrame) -> Figure:
    """The comparisons of one board: a panel per backbone, a mark for the difference at each seed.

    With several methods, those that are not trained are left out: their differences are so large
    that the gains of the others would not be visible.
    """
    names, trained = names_of(frame), frame[frame["kind"] == "paired"]
    first = frame.iloc[0]
    ours = f"{first['name']},"
    # The average first, in case that not all rows are shown.
    frame = frame.sort_values("task", key=lambda tasks: tasks != "Avg", kind="stable")
    if "Method" in names:
        ours = "every trained method" if len(trained) else "every method"
        frame = trained if len(trained) else frame
    notes = [suite.remark_on(frame["backbone"]), CORRECTED if len(frame) > 1 else ""]
    baseline = find(suite, first["baseline"]).name
    over = "over the test items" if by_items(frame) else "seed by seed"
    title = f"Suite {suite.plan.suite}: {ours} minus {baseline}, {over}"
    scale = f"difference in points ({suite.planned(first['board']).title})"
    rows = []
    for row in frame.to_dict("records"):
        half_width = 0.0 if pd.isna(row["half_width"]) else row["half_width"]
        ends = [row["difference"] + end for end in (-half_width, 0, half_width)]
        marks = [
            (claims_of(row, claims)["claimed"].dropna().to_list(), 0, CLAIM),
            (row["differences"] if row["kind"] != "items" else [], 0.16, DIFFERENCE),
            (ends, -0.1, DIFFERENCES),
        ]
        name = ", ".join(line_of(row)[name] for name in names)
        text = f"{row['difference']:+.2f} {COMPARISON_SYMBOLS[row['verdict']]} {row['verdict']}"
        rows.append(Row(row["backbone"], name, text, marks, None, row["verdict"] != "undecided"))
    figure = figure_of_rows(rows, title, " ".join(filter(None, notes)), scale, always=[0])
    for panel in figure.axes:
        panel.axvline(0, color=style.GREY, lw=1, zorder=1)
    return figure


# --- Printed gains over SimCSE, beside what seeds alone make of SimCSE ---

GAIN = style.PRINTED | {"color": style.ORANGE, "mew": 2.4, "label": "printed gain"}
GAINS_NOTE = (
    "Grey: 95 % of the differences of two of 50 public runs (hppRC/simple-simcse), as 1.96 √2 "
    "standard deviations. Right: share of all pairs of these runs that are at least as far apart. "
    "SSCL's averages are means of three runs."
)


def gains_figure() -> Figure:
    """A panel per method and a row per backbone; gains outside the range of seeds stand out."""
    table = printed_gains()
    beyond = table["gain"] >= table["reach"]
    rows = [
        Row(
            row.method,
            row.backbone,
            f"{100 * row.share:.0f} % of pairs",
            [([row.gain], 0, GAIN)],
            (0, row.reach),
            is_beyond,
        )
        for row, is_beyond in zip(table.itertuples(), beyond, strict=True)
    ]
    count = f"{(~beyond).sum()} of {len(table)}"
    title = f"{count} printed gains over SimCSE are within the spread of its seeds"
    band = "differences of two runs of SimCSE, by the seed alone"
    scale = "gain over SimCSE on the STS average (Spearman x 100)"
    figure = figure_of_rows(rows, title, GAINS_NOTE, scale, band)
    figure.axes[0].set_xlim(0, 1.04 * table["reach"].max())
    return figure


def write_gains(path: Path) -> None:
    """Write the figure in the format that the extension names."""
    with style.drawing():
        style.save_picture(gains_figure(), path)
