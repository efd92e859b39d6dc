"""Figures of rows: a panel per backbone below each other, a row per method, an axis of scores that
all share. Printed averages beside our seeds, the suite's leaderboards, comparisons with a baseline,
and printed gains."""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bench.comparison.cell import Cell, Line
from bench.comparison.paired import COMPARISON_SYMBOLS
from bench.comparison.statistics import mean_and_sd
from bench.comparison.verdict import Verdict
from bench.datasets.tasks import AVERAGED
from bench.registry.backbones import NO_BACKBONE
from bench.report.comparison_table import baseline_name, claims_of, line_of, names_of
from bench.report.figures import style
from bench.report.formats import score_text
from bench.report.printed_table import printed_tables
from bench.reported import paper_name
from bench.reported.address import row_name
from bench.reported.gains import printed_gains
from bench.results.records import is_outside, named, with_stand_ins
from bench.results.suite_results import SuiteResults
from bench.utils.errors import UserError

# --- Layout ---

# Inches: least height of a row, height of a line of its name and space between two names, extra
# height of a panel and of the axis below the last.
ROW, NAME, SPACE, PANEL, BELOW = 0.22, 0.12, 0.05, 0.34, 0.3
NAME_SIZE, NAME_WIDTH = 7, 45  # points, letters per line
# An axis ends at the last mark within this many median deviations, or these points, of the median.
DEVIATIONS, NEAR = 10, 3.0
MARGIN, ARROW = 0.05, 0.14  # shares of the axis: beside the marks, and for an arrow with its value

Panels = list[tuple[Axes, str, pd.DataFrame]]


def panels(
    table: pd.DataFrame,
    names: Sequence[str],
    title: str,
    note: str,
    handles: Sequence[Artist],
    scale: str,
) -> tuple[Figure, Panels]:
    """A figure with a panel per backbone.

    Args:
        table: has a column `backbone`, and one row per row of a panel.
        names: of the rows. All have the same size, and rows are as high as the longest needs.
        title, note: texts above and below the panels.
        handles: of the legend, between title and panels.
        scale: label of the axis.

    Returns:
        The figure, and each panel, headed by its backbone, with the backbone and its rows.
    """
    lines = pd.Series([style.wrapped(name, NAME_WIDTH) for name in names], index=table.index)
    row = max([ROW, *(NAME * (text.count("\n") + 1) + SPACE for text in lines)])
    parts = dict(list(table.groupby("backbone", sort=False)))
    counts = [len(part) for part in parts.values()]
    figure = style.sheet(title, note, handles, sum(counts) * row + len(parts) * PANEL + BELOW)
    if not parts:  # the suite has no data
        return figure, []
    axes = figure.subplots(
        len(parts), sharex=True, squeeze=False, gridspec_kw={"height_ratios": counts}
    ).ravel()
    for panel, (backbone, part) in zip(axes, parts.items(), strict=True):
        panel.set_ylim(len(part) - 0.5, -0.5)
        panel.set_yticks(range(len(part)), lines[part.index], size=NAME_SIZE)
        panel.tick_params(axis="y", length=0)
        panel.tick_params(axis="x", length=2, color=style.GREY)
        panel.grid(axis="x", color="#F0F0F0", lw=0.6)
        panel.grid(axis="y", color=style.PALE, lw=0.6)
        panel.set_axisbelow(True)
        style.heading(panel, heading(backbone, part))
    panel.locator_params(axis="x", nbins=8)
    panel.set_xlabel(scale)
    return figure, list(zip(axes, parts, parts.values(), strict=True))


def heading(backbone: str, rows: pd.DataFrame) -> str:
    """A backbone, or what its rows are that have none."""
    if backbone != NO_BACKBONE.name:
        return backbone
    outside = [is_outside(label) for label in rows.get("label", ())]
    kinds = [] if outside and all(outside) else ["no backbone"]
    if any(outside):
        kinds.append("outside encoder" if sum(outside) == 1 else "outside encoders")
    return ", ".join(kinds)


def aside(panel: Axes, y: float, text: str, *, color: str = style.INK, bold: bool = False) -> None:
    """A text to the right of a row."""
    weight = "bold" if bold else "normal"
    across = panel.get_yaxis_transform()
    panel.text(1.02, y, text, transform=across, va="center", color=color, weight=weight)


def core(values: pd.Series) -> tuple[float, float]:
    """The range of the values without outliers, by their distance from the median.

    >>> core(pd.Series([24.0, 69.0, 69.5, 70.0, 70.5, 71.0, 71.5]))
    (69.0, 71.5)
    """
    distances = (values - values.median()).abs()
    kept = values[distances <= max(NEAR, DEVIATIONS * distances.median())]
    return float(kept.min()), float(kept.max())


def zoom(drawn: Panels, always: Sequence[float] = ()) -> None:
    """Zoom on the marks that lie together, and on the scores `always`. Where a row has marks
    beyond, an arrow at the edge shows their mean. Call it when all marks are drawn."""
    # What is drawn at scores, not at positions of a panel.
    marks = pd.DataFrame(
        [
            (panel, round(y), line, x)
            for panel, *_ in drawn
            for line in panel.get_lines()
            if line.get_transform() is panel.transData
            for x, y in line.get_xydata()
        ],
        columns=["panel", "y", "line", "x"],
    ).dropna()
    if marks.empty:
        return
    xs = marks["x"]
    low, high = core(xs)
    low, high = min([low, *always]), max([high, *always])
    margin, room = np.array([MARGIN, ARROW]) * ((high - low) or 1.0)
    low, high = (
        low - margin - room * (xs < low - margin).any(),
        high + margin + room * (xs > high + margin).any(),
    )
    drawn[0][0].set_xlim(low, high)
    sides = [(xs < low, "<", "left", 0.012, 0.032), (xs > high, ">", "right", 0.988, 0.968)]
    for hidden, marker, align, at, text_at in sides:
        for (panel, y), row in marks[hidden].groupby(["panel", "y"], sort=False):
            means = row.groupby("line", sort=False)["x"].mean()
            text = ", ".join(dict.fromkeys(f"{x:.2f}".replace("-", "−") for x in means))
            look = {"color": means.index[0].get_color(), "transform": panel.get_yaxis_transform()}
            panel.plot([at], [y], marker=marker, ms=5, ls="", zorder=5, **look)
            panel.text(text_at, y, text, size=NAME_SIZE, va="center_baseline", ha=align, **look)


# --- Printed and measured ---

SEEDLESS = "without a seed"  # untrained, published, or fitted once
# The two questions of a verdict: is our mean within the tolerance, could one run have scored print?
TOLERANCE = {"color": "#DCDCDC", "lw": 0}
OUR_MEAN, ONE_RUN = {"lw": 2.4, "alpha": 0.5}, {"lw": 0.9}
MEAN_KEY = "our mean: 90 % interval if =, else 95 %"
RUN_KEY = "95 % of single runs of ours"
LOOKS = {"official": style.OFFICIAL, "paper": style.PAPER, SEEDLESS: style.UNTRAINED}
COLORS = {"lower": style.ORANGE, "higher": style.ORANGE, "not run": style.GREY}
HOLLOW: style.Look = {"mfc": "none"}
MEAN = {"color": style.INK, "marker": "|", "ms": 9, "mew": 1.2}


def _scored(cell: Cell) -> list[Line]:
    """Ours in both settings, as far as they have scores."""
    return [line for line in (cell.ours, cell.other) if line and line.n]


def _kind(line: Line) -> str:
    """A key of `LOOKS`."""
    return SEEDLESS if line.deterministic else line.setting


def _keys(text: str, kinds: Collection[str]) -> list[Artist]:
    """Legend entries of what is drawn; `text` has the setting in braces."""
    return [
        style.key(kind if kind == SEEDLESS else text.format(kind), look)
        for kind, look in LOOKS.items()
        if kind in kinds
    ]


def _intervals(verdict: Verdict) -> list[tuple[float, style.Look]]:
    """Half widths of the intervals that the verdict uses: of the mean, and of one run where the
    mean is outside the tolerance."""
    if verdict.half_width is None or verdict.mean_half_width is None:
        return []
    mean = (verdict.mean_half_width, OUR_MEAN)
    return [mean, (verdict.half_width, ONE_RUN)] if verdict.within is False else [mean]


def _draw_cell(panel: Axes, y: float, cell: Cell) -> None:
    """The printed value as a stroke, our seeds as marks beside it, the verdict at the right."""
    printed, verdict, lines = cell.number.value, cell.ours.verdict, _scored(cell)
    panel.plot(printed, y, **style.PRINTED, zorder=2)
    if verdict.tolerance is not None:
        band = (printed - verdict.tolerance, printed + verdict.tolerance)
        panel.fill_between(band, y - 0.3, y + 0.3, **TOLERANCE, zorder=0.5)
    shift = 0.18 if cell.other else 0.0
    for line in lines:
        at = y - shift if line is cell.ours else y + shift
        hollow = HOLLOW if line.verdict.kind == "not comparable" else {}
        panel.plot(line.scores, [at] * line.n, **LOOKS[_kind(line)] | hollow, zorder=3)
    for half_width, look in _intervals(verdict):
        ends = (cell.ours.mean - half_width, cell.ours.mean + half_width)
        color = LOOKS[_kind(cell.ours)]["color"]
        panel.plot(ends, [y - shift] * 2, **look | {"color": color}, zorder=1)
    color, strong = COLORS.get(verdict.kind, style.INK), verdict.kind in ("lower", "higher")
    aside(panel, y, f"{verdict.mark} {verdict.kind}", color=color, bold=strong)


# What the numbers of verdicts mean, and why a line may not tell the verdict.
NOTES = {
    "inconclusive": "? 8: 8 seeds decide if mean and spread stay as they are.",
    "consistent": "≈ 1/12: one run of ours in 12 reaches print.",
    "outside": "↓ and ↑ hold after Holm's correction over the averages of the paper.",
}


def comparison(suite: SuiteResults, cells: Sequence[Cell]) -> Figure:
    """The averages of one printed table, a panel per backbone."""
    first, verdicts = cells[0].number, [cell.ours.verdict for cell in cells]
    lines = [line for cell in cells for line in _scored(cell)]
    handles: list[Artist] = [style.key("printed", style.PRINTED | style.IN_LEGEND)]
    if any(verdict.tolerance is not None for verdict in verdicts):
        handles.append(Patch(**TOLERANCE, label="printed ± tolerance"))
    handles += _keys("ours, {} settings", set(map(_kind, lines)))
    if any(line.verdict.kind == "not comparable" for line in lines):
        open_mark = {"color": style.INK, "marker": "o", "ms": 4.2, "mew": 0.8, "ls": ""}
        handles.append(style.key("open: not comparable with print", open_mark | HOLLOW))
    looks = [look for verdict in verdicts for _, look in _intervals(verdict)]
    for text, look in ((MEAN_KEY, OUR_MEAN), (RUN_KEY, ONE_RUN)):
        if look in looks:
            handles.append(style.key(text, look, color=style.BLUE))
    said: set[str] = {verdict.kind for verdict in verdicts}
    said |= {"outside" for verdict in verdicts if verdict.within is False}
    notes = [suite.remark_on(cell.ours.measured_on for cell in cells)]
    notes += [text for kind, text in NOTES.items() if kind in said]
    names = [row_name(cell.number.method, cell.number.variant) for cell in cells]
    title = f"{paper_name(first.source)}, {first.table}: printed and measured"
    rows = pd.DataFrame({"backbone": [cell.number.backbone for cell in cells], "cell": cells})
    note, scale = " ".join(filter(None, notes)), first.our_metric.axis
    figure, drawn = panels(rows, names, title, note, handles, scale)
    for panel, backbone, part in drawn:
        measured_on = [cell.ours.measured_on for cell in part["cell"] if _scored(cell)]
        style.heading(panel, with_stand_ins(backbone, measured_on))
        for y, cell in enumerate(part["cell"]):
            _draw_cell(panel, y, cell)
    return figure


def board_stem(board: str) -> str:
    """The stem of a leaderboard's file names."""
    return "leaderboard" if board == "sts" else f"leaderboard_{board}"


def board_figure(suite: SuiteResults, board: pd.DataFrame, name: str = "sts") -> Figure:
    """A `leaderboard` of the suite: a panel per backbone, a mark for the average of each seed, over
    the planned tasks. The highest is on the axis; others that are far away may be arrows."""
    about = suite.planned(name)
    title = f"Suite {suite.name}: every seed of every method, {about.title}"
    board = board.assign(kind=board["setting"].where(board["corpus"] != "", SEEDLESS))
    handles = _keys("a seed, {} settings", set(board.loc[board["averages"].astype(bool), "kind"]))
    if handles:
        handles.append(style.key("mean", MEAN, ls=""))
    names = list(map(named, board["label"], board["setting"]))
    scale = f"average {about.title}" if about.overall == "Avg" else about.title
    note = suite.remark_on(board["backbone"].unique())
    figure, drawn = panels(board, names, title, note, handles, scale)
    for panel, _, table in drawn:
        for y, row in enumerate(table.itertuples()):
            mean, sd = mean_and_sd(row.averages)
            panel.plot(row.averages, [y] * len(row.averages), **LOOKS[row.kind], zorder=3)
            if row.averages:
                panel.plot(mean, y, **MEAN, zorder=2)
            aside(panel, y, score_text(mean, sd))
    zoom(drawn, always=sorted(chain(*board["averages"]))[-1:])
    return figure


def figure_stems(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """The averages of the printed tables that get a figure, by the stem of its file names: those
    with seven tasks and their average."""
    of_test = [cell for cell in cells if cell.number.split == "test"]
    averages = {}
    for stem, table in printed_tables(of_test).items():
        tasks = {cell.number.task for cell in table.cells}
        if any({*group, "Avg"} <= tasks for group in AVERAGED.values()):
            averages[stem] = [cell for cell in table.cells if cell.number.task == "Avg"]
    return averages


# --- Comparisons with a baseline ---


def versus_figure(suite: SuiteResults, frame: pd.DataFrame, claims: pd.DataFrame) -> Figure:
    """The comparisons of one board: a panel per backbone, a mark for the difference at each seed.

    With several methods, those that are not trained are left out: their differences are so large
    that the gains of the others would not be visible.
    """
    seed = {"color": style.BLUE, "marker": "o", "ms": 4.2, "mew": 0.8, "ls": "", "alpha": 0.6}
    claim = {"color": style.ORANGE, "marker": "|", "ms": 13, "mew": 1.8, "ls": ""}
    mean = {"color": style.INK, "marker": "|", "ms": 7, "mew": 1.4, "lw": 1.2}
    names, trained = names_of(frame), frame[frame["kind"] == "paired"]
    first = frame.iloc[0]
    ours = f"{named(first['label'], first['setting'])},"
    if "Method" in names:
        ours = "every trained method" if len(trained) else "every method"
        frame = trained if len(trained) else frame
    notes = [suite.remark_on(frame["backbone"])]
    if len(frame) > 1:
        notes.append(
            "Intervals are of single differences; verdicts hold after Holm's correction, so a row "
            "may be undecided although its interval excludes 0."
        )
    if len(claims) and suite.remark:
        notes.append("Printed differences are shown for their size only.")
    title = f"Suite {suite.name}: {ours} minus {baseline_name(suite, frame)}, seed by seed"
    scale = f"difference in points ({suite.planned(first['board']).title})"
    handles = [
        style.key("difference at one seed", seed),
        style.key("mean, 95 % interval before Holm's correction", mean),
    ]
    if claims["claimed"].notna().any():
        handles.append(style.key("printed difference", claim | style.IN_LEGEND))
    labels = [", ".join(line_of(row)[name] for name in names) for row in frame.to_dict("records")]
    figure, drawn = panels(frame, labels, title, " ".join(notes).strip(), handles, scale)
    for panel, _, rows in drawn:
        panel.axvline(0, color=style.GREY, lw=1, zorder=1)
        for y, row in enumerate(rows.to_dict("records")):
            claimed = claims_of(row, claims)["claimed"].dropna()
            panel.plot(claimed, [y] * len(claimed), **claim, zorder=2)
            panel.plot(row["differences"], [y + 0.16] * row["n"], **seed, zorder=3)
            half_width = 0.0 if pd.isna(row["half_width"]) else row["half_width"]
            ends = [row["difference"] + end for end in (-half_width, 0, half_width)]
            panel.plot(ends, [y - 0.1] * 3, **mean, zorder=4)
            text = f"{COMPARISON_SYMBOLS[row['verdict']]} {row['verdict']}"
            aside(panel, y, text, bold=row["verdict"] != "undecided")
    zoom(drawn, always=[0])
    return figure


# --- Printed gains over SimCSE, beside what seeds alone make of SimCSE ---

REACH = {"color": "#C9CED6", "lw": 0}
GAIN: style.Look = {"color": style.ORANGE, "marker": "|", "ms": 13, "mew": 2.4, "ls": ""}
GAINS_NOTE = (
    "Grey: 95 % of the differences of two of 50 public runs (hppRC/simple-simcse), as 1.96 √2 "
    "standard deviations. Right: share of all pairs of these runs that are at least as far apart. "
    "SSCL's averages are means of three runs."
)


def gains_figure() -> Figure:
    """A panel per method and a row per backbone; gains outside the range of seeds stand out."""
    table = printed_gains()
    within = table["gain"] < table["reach"]
    count = f"{within.sum()} of {len(table)}"
    title = f"{count} printed gains over SimCSE are within the spread of its seeds"
    handles = [
        style.key("printed gain", GAIN | style.IN_LEGEND),
        Patch(**REACH, label="differences of two runs of SimCSE, by the seed alone"),
    ]
    names = list(table["backbone"])
    scale = "gain over SimCSE on the STS average (Spearman x 100)"
    rows = table.assign(backbone=table["method"])
    figure, drawn = panels(rows, names, title, GAINS_NOTE, handles, scale)
    for panel, _, part in drawn:
        for y, row in enumerate(part.itertuples()):
            panel.fill_between((0, row.reach), y - 0.32, y + 0.32, **REACH, zorder=1)
            panel.plot(row.gain, y, **GAIN, zorder=3)
            beyond = row.gain >= row.reach
            color = style.ORANGE if beyond else style.INK
            aside(panel, y, f"{100 * row.share:.0f} % of pairs", color=color, bold=beyond)
    drawn[0][0].set_xlim(0, 1.04 * table["reach"].max())
    return figure


def write_gains(path: Path) -> None:
    """Write the figure as PNG or PDF.

    Raises:
        UserError: the extension is another one.
    """
    if path.suffix.removeprefix(".") not in style.UNDATED:
        raise UserError(f"--figure is '{path}'; its extension must be .png or .pdf")
    with matplotlib.rc_context(style.STYLE):
        style.save_picture(gains_figure(), path)
