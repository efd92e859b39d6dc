"""Figures of rows: a panel per backbone below each other, a row per method, an axis of scores that
all share. Printed averages beside our seeds, the suite's leaderboards, comparisons with a baseline,
and printed gains."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bench.datasets.tasks import AVERAGED
from bench.judged.rows import (
    NO_BACKBONE,
    BoardRow,
    Heading,
    NumberRow,
    PairRow,
    SideRow,
    SystemRow,
    grouped,
)
from bench.judged.words import COMPARISON_SYMBOLS
from bench.report.figures import style
from bench.report.formats import by_items, difference_text, names_of, score_text
from bench.utils.files import stem

if TYPE_CHECKING:
    import pandas as pd

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


Mark = tuple[Sequence[float], float, style.Look]


@dataclass(frozen=True)
class Strip:
    """A row of a figure."""

    panel: str  # heading of its panel, a backbone or its place
    name: str  # at the left
    text: str  # at the right
    # Scores, their distance from the middle of the row, and their look, whose label is their entry
    # of the legend; later ones are drawn over earlier ones.
    marks: Sequence[Mark]
    band: tuple[float, float] | None = None  # ends of a range that is shaded
    stands_out: bool = False  # whether the text is in bold and colour


def figure_of_rows(
    strips: Sequence[Strip],
    title: str,
    notes: Sequence[str],
    scale: str,
    band: str = "",
    always: Sequence[float] | None = None,
) -> Figure:
    """A figure with the panels of its rows below each other, at most `MOST_ROWS` in all: the first
    of each panel.

    Args:
        strips: all have the same height, which the longest name needs.
        title, notes: texts above and below the panels.
        scale: label of the axis that all panels share.
        band: legend entry of the shaded ranges.
        always: if given, the axis shows the marks that lie together, and these scores.
    """
    parts = grouped(strips, lambda strip: strip.panel)
    most, count = MOST_ROWS, len(strips)
    while len(strips) > MOST_ROWS:
        most -= 1
        parts = [part[:most] for part in parts]
        strips = list(chain(*parts))
    if len(strips) < count:
        notes = [f"The first {len(strips)} of {count} rows; the table has all.", *notes]
    names = {strip.name: style.wrapped(strip.name, NAME_WIDTH) for strip in strips}
    height = max([ROW, *(NAME * (name.count("\n") + 1) + SPACE for name in names.values())])
    whole = len(strips) * height + len(parts) * PANEL + BELOW
    handles: dict[str, Artist] = {}
    for scores, _, look in chain(*(strip.marks for strip in strips)):
        if scores:
            handles.setdefault(look["label"], Line2D([], [], **look | {"ms": min(9, look["ms"])}))
    if any(strip.band for strip in strips):
        handles[band] = Patch(**BAND, label=band)
    figure = style.sheet(title, notes, list(handles.values()), whole)
    if not strips:  # the suite has no data
        return figure
    ratios = list(map(len, parts))
    figure.subplots(len(parts), sharex=True, gridspec_kw={"height_ratios": ratios})
    for panel, part in zip(figure.axes, parts, strict=True):
        panel.set_ylim(len(part) - 0.5, -0.5)
        panel.set_yticks(range(len(part)), [names[strip.name] for strip in part], size=NAME_SIZE)
        panel.tick_params(axis="y", length=0)
        panel.tick_params(axis="x", length=2, color=style.GREY)
        panel.grid(color=style.PALE, lw=0.6)
        panel.set_axisbelow(True)
        place = part[0].panel
        style.heading(panel, "no backbone" if place == NO_BACKBONE else place)
        for y, strip in enumerate(part):
            if strip.band:
                panel.fill_between(strip.band, y - 0.3, y + 0.3, **BAND)
            for scores, distance, look in strip.marks:
                panel.plot(scores, [y + distance] * len(scores), **look)
            panel.text(
                1.02, y, strip.text, transform=panel.get_yaxis_transform(), va="center",
                color=style.ORANGE if strip.stands_out else style.INK,
                weight="bold" if strip.stands_out else "normal",
            )  # fmt: skip
    panel.locator_params(axis="x", nbins=8)
    panel.set_xlabel(scale)
    if always is not None:
        _zoom(figure, parts, always)
    return figure


def core(values: Sequence[float]) -> tuple[float, float]:
    """The range of the values without outliers, by their distance from the median.

    >>> core([24.0, 69.0, 69.5, 70.0, 70.5, 71.0, 71.5])
    (69.0, 71.5)
    """
    middle = median(values)
    reach = max(NEAR, DEVIATIONS * median(abs(value - middle) for value in values))
    kept = [value for value in values if abs(value - middle) <= reach]
    return min(kept), max(kept)


def _zoom(figure: Figure, parts: Sequence[Sequence[Strip]], always: Sequence[float]) -> None:
    """Zoom on the marks that lie together. An arrow at the edge stands for those beyond."""
    marks = chain(*(strip.marks for strip in chain(*parts)))
    xs = list(chain(*(scores for scores, *_ in marks)))
    if not xs:
        return
    low, high = core(xs)
    low, high = min([low, *always]), max([high, *always])
    margin = MARGIN * ((high - low) or 1.0)
    low, high = low - margin, high + margin
    figure.axes[0].set_xlim(low, high)
    # Sides of the axis: marker, where it is, and whether a score is beyond.
    edges = [("<", 0.012, lambda x: x < low), (">", 0.988, lambda x: x > high)]
    for panel, part in zip(figure.axes, parts, strict=True):
        across = panel.get_yaxis_transform()
        for (y, strip), (marker, at, is_beyond) in product(enumerate(part), edges):
            looks = [look for scores, _, look in strip.marks if any(map(is_beyond, scores))]
            for look in looks[:1]:
                color = look["color"]
                panel.plot([at], [y], marker=marker, ms=5, color=color, ls="", transform=across)


# --- Printed and measured ---

SEEDLESS = "without a seed"  # untrained, published, or fitted once
LOOKS = {"official": style.OFFICIAL, "paper": style.PAPER, SEEDLESS: style.UNTRAINED}
PRINTED = style.PRINTED | {"label": "printed"}
MEAN = {"color": style.INK, "marker": "|", "ms": 9, "mew": 1.2, "ls": "", "label": "mean"}
# The two questions of a verdict: is our mean within the tolerance, could one run have scored print?
OUR_MEAN: style.Look = {"lw": 2.4, "ms": 0, "alpha": 0.5} | {
    "label": "our mean: 90 % interval if =, else 95 %; wider if grown"
}
ONE_RUN: style.Look = {"lw": 0.9, "ms": 0, "label": "95 % of single runs of ours"}


def _scored(number: NumberRow) -> list[SideRow]:
    """Ours in both settings, as far as they have scores."""
    return [side for side in (number.ours, number.other) if side and side.n]


def _look(side: SideRow) -> style.Look:
    """The look of seeds, hollow if they are not comparable."""
    kind, label = side.setting, f"ours, {side.setting} settings"
    if side.deterministic:
        kind = label = SEEDLESS
    if side.verdict.kind == "not comparable":
        return LOOKS[kind] | {"mfc": "none", "label": f"{label}, not comparable with print"}
    return LOOKS[kind] | {"label": label}


def _strip(number: NumberRow, panel: str) -> Strip:
    """The printed value as a stroke, our seeds as marks beside it, the verdict at the right; and
    the intervals that it uses: of our mean, and of one run where the mean is outside the
    tolerance."""
    printed, ours, verdict = number.value, number.ours, number.ours.verdict
    shift = 0.18 if number.other else 0.0
    marks: list[Mark] = [([printed], 0, PRINTED)]
    intervals = [(verdict.mean_half_width, OUR_MEAN)]
    if verdict.within is False:
        intervals.append((verdict.half_width, ONE_RUN))
    for half_width, look in intervals:
        if ours.mean is not None and half_width is not None:
            ends = (ours.mean - half_width, ours.mean + half_width)
            marks.append((ends, -shift, look | {"color": _look(ours)["color"]}))
    marks += [
        (side.scores, -shift if side is ours else shift, _look(side)) for side in _scored(number)
    ]
    band = None
    if verdict.tolerance is not None:
        band = (printed - verdict.tolerance, printed + verdict.tolerance)
    is_outside = verdict.kind in ("lower", "higher")
    return Strip(panel, number.label, f"{verdict.mark} {verdict.kind}", marks, band, is_outside)


# What the numbers of verdicts mean, and why a line may not tell the verdict.
NOTES = {
    "inconclusive": "? 8: 8 seeds decide if mean and spread stay as they are.",
    "consistent": "≈ 1/12: one run of ours in 12 reaches print.",
    "outside": "↓ and ↑ hold after Holm's correction over the averages of the paper.",
}


def comparison(heading: Heading, numbers: Sequence[NumberRow]) -> Figure:
    """The averages of one printed table, a panel per backbone."""
    first, verdicts = numbers[0], [number.ours.verdict for number in numbers]
    said: set[str] = {verdict.kind for verdict in verdicts}
    if any(verdict.within is False for verdict in verdicts):
        said.add("outside")
    remark = heading.remark_on(number.ours.measured_on for number in numbers)
    notes = [remark, *(text for kind, text in NOTES.items() if kind in said)]
    strips = []
    for own in grouped(numbers, lambda number: number.backbone):
        place = style.with_stand_ins(own[0].backbone, [number.ours.measured_on for number in own])
        strips += [_strip(number, place) for number in own]
    return figure_of_rows(
        strips,
        f"{first.paper}, {first.table}: printed and measured",
        notes,
        first.our_metric.axis,
        "printed ± tolerance",
    )


def board_figure(heading: Heading, board: BoardRow, rows: Sequence[SystemRow]) -> Figure:
    """The systems of a board: a panel per backbone, a mark for the average of each seed, over the
    planned tasks. The highest is on the axis; others that are far away may be arrows."""
    about = board.planned
    strips = []
    for row in rows:
        kind = label = SEEDLESS
        if row.corpus:
            kind = row.setting
            label = "a seed, own method" if row.own else f"a seed, {kind} settings"
        marks: list[Mark] = [(row.averages, 0, LOOKS[kind] | {"label": label})]
        mean = sd = None
        if row.averages:
            mean = fmean(row.averages)
            marks.append(([mean], 0, MEAN))
        if len(row.averages) > 1:
            sd = stdev(row.averages)
        strips.append(Strip(row.backbone, row.name, score_text(mean, sd), marks))
    return figure_of_rows(
        strips,
        f"Suite {heading.suite}: every seed of every method, {about.title}",
        [heading.remark_on(row.backbone for row in rows)],
        f"average {about.title}" if about.overall == "Avg" else about.title,
        always=sorted(chain(*(row.averages for row in rows)))[-1:],
    )


def figure_stems(numbers: Iterable[NumberRow]) -> dict[str, list[NumberRow]]:
    """The averages with scores of ours in the printed tables that get a figure, by the stem of its
    file names: those with seven tasks and their average, any of which can be compared."""
    averages = {}
    of_test = [number for number in numbers if number.split == "test"]
    for table in grouped(of_test, lambda number: (number.source, number.table)):
        tasks = {number.task for number in table}
        of_rows = [number for number in table if number.task == "Avg" and _scored(number)]
        is_whole = any({*group, "Avg"} <= tasks for group in AVERAGED.values())
        if is_whole and any(number.is_comparable for number in of_rows):
            averages[f"{table[0].source}_{stem(table[0].table)}"] = of_rows
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


def versus_figure(heading: Heading, pairs: Sequence[PairRow]) -> Figure:
    """The comparisons of one board: a panel per backbone, a mark for the difference at each seed.

    With several methods, those that are not trained are left out: their differences are so large
    that the gains of the others would not be visible.
    """
    first = pairs[0]
    ours, drawn = f"{first.name},", pairs
    names = names_of(pairs)
    if "Method" in names:
        trained = [pair for pair in pairs if pair.kind == "paired"]
        ours, drawn = ("every trained method", trained) if trained else ("every method", pairs)
    over = "over the test items" if by_items(drawn) else "seed by seed"
    strips = []
    # The average first, in case that not all rows are shown.
    for pair in sorted(drawn, key=lambda pair: pair.task != "Avg"):
        claimed = [claim.claimed for claim in pair.claims if claim.claimed is not None]
        marks: list[Mark] = [(claimed, 0, CLAIM)]
        if pair.kind != "items":
            marks.append((pair.differences, 0.16, DIFFERENCE))
        if pair.difference is not None:
            half_width = pair.half_width or 0.0
            ends = [pair.difference + end for end in (-half_width, 0, half_width)]
            marks.append((ends, -0.1, DIFFERENCES))
        texts = {"Method": pair.name, "Task": pair.task}
        name = ", ".join(texts[name] for name in names)
        word = pair.verdict
        text = f"{difference_text(pair.difference)} {COMPARISON_SYMBOLS[word]} {word}"
        strips.append(Strip(pair.backbone, name, text, marks, None, word != "undecided"))
    notes = [heading.remark_on(pair.backbone for pair in drawn)]
    if len(drawn) > 1:
        notes.append(CORRECTED)
    title = f"Suite {heading.suite}: {ours} minus {first.baseline_name}, {over}"
    scale = f"difference in points ({heading.board(first.board).planned.title})"
    figure = figure_of_rows(strips, title, notes, scale, always=[0])
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


def gains_figure(gains: "pd.DataFrame") -> Figure:
    """A panel per method and a row per backbone; gains outside the range of seeds stand out.

    Args:
        gains: columns `method`, `backbone`, `gain` (points), `reach` (points that 95 % of the
            differences of two public runs of SimCSE stay below), and `share` (of all pairs of
            these runs, those at least `gain` apart).
    """
    strips = []
    for row in gains.itertuples():
        text, marks = f"{100 * row.share:.0f} % of pairs", [([row.gain], 0, GAIN)]
        is_beyond = row.gain >= row.reach
        strips.append(Strip(row.method, row.backbone, text, marks, (0, row.reach), is_beyond))
    count = f"{sum(not strip.stands_out for strip in strips)} of {len(strips)}"
    title = f"{count} printed gains over SimCSE are within the spread of its seeds"
    band = "differences of two runs of SimCSE, by the seed alone"
    scale = "gain over SimCSE on the STS average (Spearman x 100)"
    figure = figure_of_rows(strips, title, [GAINS_NOTE], scale, band)
    figure.axes[0].set_xlim(0, 1.04 * gains["reach"].max())
    return figure


def write_gains(path: Path, gains: "pd.DataFrame") -> None:
    """Write the figure in the format that the extension names."""
    with style.drawing():
        style.save_picture(gains_figure(gains), path)
