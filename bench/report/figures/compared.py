"""Figures of rows: panels of backbones below each other, a row per method, and one axis of scores.
They show printed averages beside our seeds, leaderboards, and comparisons with a baseline."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isinf

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.judged.rows import (
    Heading,
    LeaderboardRow,
    NumberRow,
    PairRow,
    ScoreColumns,
    SideRow,
    SystemRow,
    known,
)
from bench.report.figures import style
from bench.report.formats import (
    backbone_text,
    by_items,
    difference_text,
    names_of,
    score_text,
    verdict_text,
)
from bench.utils.groups import grouped

# --- Layout ---

# Inches: height of a row, of each line of its name, extra height of a panel, of the axis.
ROW, NAME, PANEL, AXIS = 0.06, 0.1, 0.34, 0.42
_NAME_WIDTH = 48  # letters per line
# Of `limits`: interquartile ranges, as in box plots, and points.
FENCE, ROOM = 1.5, 5
BEYOND = "◀ and ▶: the furthest mark of a row beyond the axis."

# Verdicts up and down: colours that all kinds of colour vision distinguish, and marks.
UP: style.Look = {"color": style.GREEN, "marker": "^", "ls": "", "label": "better"}
DOWN: style.Look = {"color": style.WINE, "marker": "v", "ls": "", "label": "worse"}
DECIDED: dict[str | None, style.Look] = {
    "better": UP, "better, gain below the margin": UP, "higher": UP, "worse": DOWN, "lower": DOWN,
}  # fmt: skip

# Scores, their distance from the middle of the row, and their look; later marks are drawn over
# earlier ones.
Mark = tuple[Sequence[float], float, style.Look]


@dataclass(frozen=True)
class Strip:
    """A row of a figure."""

    panel: str  # heading of its panel, a backbone or its place
    name: str  # at the left
    text: str  # at the right
    marks: Sequence[Mark]
    verdict: str | None = None  # gives the text a colour

    @property
    def values(self) -> list[float]:
        return [value for values, _, _ in self.marks for value in values]


def limits(strips: Sequence[Strip]) -> tuple[float, float]:
    """The ends of an axis: no mark far outside the quartiles, which would squeeze the differences
    between the others."""
    values = [value for strip in strips for value in strip.values]
    first, third = np.quantile(values or [0], (0.25, 0.75))
    room = max(FENCE * (third - first), ROOM)
    return first - room, third + room


def figure_of_rows(
    strips: Sequence[Strip],
    title: str,
    notes: Sequence[str],
    scale: str,
    ends: tuple[float, float] = (-inf, inf),
) -> Figure:
    """A figure with the panels of its rows below each other.

    Args:
        strips: each is as high as its name needs.
        title, notes: texts above and below the panels.
        scale: label of the axis that all panels share.
        ends: of the axis. Of the marks of a row beyond an end, the furthest is an arrow with its
            value.
    """
    parts = grouped(strips, "panel")
    names = {strip.name: style.wrapped(strip.name, _NAME_WIDTH) for strip in strips}
    # The edges of the rows of each part. The unit is a row whose name has one line.
    edges = []
    for part in parts:
        heights = [ROW + NAME * (names[strip.name].count("\n") + 1) for strip in part]
        edges.append(np.cumsum([0, *heights]) / (ROW + NAME))
    totals = [rows[-1] for rows in edges]
    height = sum(totals) * (ROW + NAME) + len(parts) * PANEL + AXIS
    figure = Figure((style.WIDTH, height), layout="constrained")
    if parts:  # matplotlib refuses a figure without panels; a suite without scores has none
        figure.subplots(len(parts), sharex=True, height_ratios=totals)
    for panel, part, rows in zip(figure.axes, parts, edges, strict=True):
        panel.set_title(backbone_text(part[0].panel))
        # Rows are read downwards, and matplotlib counts upwards.
        panel.set(xlabel=style.wrapped(scale, 60), ylim=(rows[-1], 0))
        panel.label_outer()
        panel.margins(x=0.05 if isinf(ends[0]) else 0.17)  # room for arrows
        middles = (rows[:-1] + rows[1:]) / 2
        panel.set_yticks(middles, [names[strip.name] for strip in part], size=6.5)
        for y, strip in zip(middles, part, strict=True):
            _draw(panel, y, strip, *ends)
    style.add_texts(figure, title, notes)
    return figure


def _draw(panel: Axes, y: float, strip: Strip, low: float, high: float) -> None:
    """The marks and the text of a row."""
    for values, distance, look in strip.marks:
        if values and min(values) <= high and max(values) >= low:
            inside = [low <= value <= high for value in values]
            heights = [y + distance] * len(values)
            panel.plot(np.clip(values, low, high), heights, markevery=inside, **look)
    lowest, highest = min(strip.values, default=low), max(strip.values, default=high)
    of_panel = {"transform": panel.get_yaxis_transform(), "va": "center"}
    if lowest < low:
        panel.text(0, y, f"◀ {lowest:.1f}", size=6, **of_panel)
    if highest > high:
        panel.text(1, y, f"{highest:.1f} ▶", size=6, ha="right", **of_panel)
    text = panel.text(1.02, y, strip.text, **of_panel)
    # Colour alone would be lost in print and for colour-blind readers.
    if strip.verdict in DECIDED:
        text.set(color=DECIDED[strip.verdict]["color"], weight="bold")


def _around(middle: float | None, half_width: float | None) -> Sequence[float]:
    """The ends of an interval and its middle; nothing if a value is unknown."""
    if middle is None or half_width is None:
        return []
    return [middle - half_width, middle, middle + half_width]


# --- Printed and measured ---

LOOKS = {
    "official": style.OFFICIAL | {"label": "a seed, official settings"},
    "paper": style.PAPER_LOOK | {"label": "a seed, paper settings"},
}
BAND: style.Look = {"color": "#D5D8DD", "lw": 7, "solid_capstyle": "butt"}
TOLERANCE = BAND | {"label": "printed ± tolerance"}
MEAN = {"color": style.INK, "marker": "|", "ms": 9, "mew": 1.2, "ls": "", "label": "mean"}
# A verdict asks whether our mean is within the tolerance, and whether one run of ours could have
# the printed score.
OUR_MEAN: style.Look = {"lw": 2.4, "alpha": 0.5, "label": "our mean, 98 % interval"}
ONE_RUN: style.Look = {"lw": 0.9, "label": "98 % of single runs of ours"}


def _scored(number: NumberRow) -> list[SideRow]:
    """Our sides in both settings that have scores."""
    return [side for side in (number.ours, number.other) if side and side.n]


def _look(side: SideRow) -> style.Look:
    """The look of seeds: hollow marks if they are not comparable."""
    look = style.UNTRAINED_LOOK
    if not side.deterministic:
        look = LOOKS[side.setting]
    if side.verdict.kind == "not comparable":
        look = look | {"mfc": "none", "label": f"{look['label']}, not comparable with the paper"}
    return look


def _strip(number: NumberRow, panel: str) -> Strip:
    """The printed value as a stroke, our seeds as marks beside it, and the verdict at the right.

    The verdict uses the same intervals: the interval of our mean, and where the mean is outside
    the tolerance, the interval of one run.
    """
    side, verdict = number.ours, number.ours.verdict
    shift = 0.22 if number.other else 0.0
    color = {"color": _look(side)["color"]}
    marks: list[Mark] = [
        (_around(number.value, verdict.tolerance), 0, TOLERANCE),
        ([number.value], 0, style.PRINTED_LOOK),
        (_around(side.mean, verdict.mean_half_width), -shift, OUR_MEAN | color),
    ]
    if verdict.within is False:
        marks.append((_around(side.mean, verdict.half_width), -shift, ONE_RUN | color))
    for scored_side in _scored(number):
        y = -shift if scored_side is side else shift
        marks.append((scored_side.scores, y, _look(scored_side)))
    return Strip(panel, number.label, f"{verdict.mark} {verdict.kind}", marks, verdict.kind)


# What the numbers beside verdicts mean, and why the intervals of a row may not tell its verdict.
NOTES = {
    "? 10: the next look is at 10 seeds.": {"open"},
    "≈ 1/12: one run of ours in 12 reaches the printed value.": {"consistent"},
    "↓ and ↑ hold after Holm's correction over the averages of the paper.": {
        "consistent", "lower", "higher",
    },
}  # fmt: skip


def comparison(heading: Heading, numbers: Sequence[NumberRow]) -> Figure:
    """The averages of one printed table, a panel per backbone."""
    kinds = {number.ours.verdict.kind for number in numbers}
    notes = [heading.remark_on(number.ours.measured_on for number in numbers)]
    notes += [text for text, explained in NOTES.items() if kinds & explained]
    strips = []
    for rows in grouped(numbers, "backbone"):
        measured_on = [number.ours.measured_on for number in rows]
        place = style.with_stand_ins(rows[0].backbone, measured_on)
        strips += [_strip(number, place) for number in rows]
    title = f"{numbers[0].paper}, {numbers[0].table}: printed and measured"
    return figure_of_rows(strips, title, notes, numbers[0].our_metric.axis)


def leaderboard_figure(
    heading: Heading, leaderboard: LeaderboardRow, rows: Sequence[SystemRow]
) -> Figure:
    """The systems of a leaderboard: a panel per backbone, a mark for the average of each seed, over
    the planned tasks."""
    about = leaderboard.planned
    strips = []
    for row in rows:
        look = style.UNTRAINED_LOOK
        if row.corpus:
            look = LOOKS[row.setting]
            if row.own:
                look = look | {"label": "a seed, own method"}
        averages = ScoreColumns(scores=row.averages)
        marks: list[Mark] = [(averages.scores, 0, look), (known([averages.mean]), 0, MEAN)]
        text = score_text(averages.mean, averages.sd)
        strips.append(Strip(row.backbone, heading.short(row.name), text, marks))
    title = f"Suite {heading.suite}: every seed of every method, {about.title}"
    scale = about.title
    if about.overall == "Avg":
        scale = f"average {scale}"
    notes = [BEYOND, heading.about_names, heading.remark_on(row.backbone for row in rows)]
    return figure_of_rows(strips, title, notes, scale, limits(strips))


def figure_stems(numbers: Iterable[NumberRow]) -> dict[str, list[NumberRow]]:
    """The averages with scores of ours in the printed tables that get a figure, by the stem of its
    file names. A table gets one if it prints seven tasks with their average, and any average can be
    compared."""
    figures = {}
    for table in grouped(numbers, "source", "table"):
        tested = [number for number in table if number.split == "test"]
        tasks = {number.task for number in tested}
        averages = [number for number in tested if number.task == "Avg" and _scored(number)]
        # Fewer tasks are in an abstract, a text or a sweep.
        if len(tasks) > 7 and any(number.is_comparable for number in averages):
            figures[table[0].stem] = averages
    return figures


# --- Comparisons with a baseline ---


_DIFFERENCE = style.OFFICIAL | {"alpha": 0.6, "ms": 3, "label": "difference at one seed"}
PRINTED = style.PRINTED_LOOK | {"color": style.ORANGE, "label": "printed difference"}
MARGIN = style.PRINTED_LOOK | {"color": style.GREY, "mew": 0.7, "label": "margin of a claim"}
DIFFERENCES = MEAN | {
    "ms": 5, "lw": 1.2, "ls": "-", "label": "mean difference with its interval"
}  # fmt: skip
CORRECTED = (
    "Intervals (98 %, over test items 95 %) are of single differences; verdicts hold after Holm's "
    "correction, so a claim may be open although its interval excludes 0."
)


def versus_figure(heading: Heading, pairs: Sequence[PairRow]) -> Figure:
    """The comparisons of one leaderboard: a panel per backbone, a mark for the difference at each
    seed."""
    leaderboard, baseline = pairs[0].leaderboard, pairs[0].baseline_name
    columns = names_of(pairs)
    strips = []
    for pair in sorted(pairs, key=lambda pair: pair.task != "Avg"):
        printed = known(gain.gain for gain in pair.printed)
        # A single seed has no interval. Its difference is drawn all the same.
        interval = _around(pair.difference, pair.half_width or 0.0)
        marks: list[Mark] = [(known([pair.margin]), 0, MARGIN), (printed, 0, PRINTED)]
        if pair.kind != "items":
            marks.append((pair.differences, 0.25, _DIFFERENCE))
        marks.append((interval, -0.15, DIFFERENCES))
        if pair.verdict in DECIDED:
            marks.append((known([pair.difference]), -0.15, DECIDED[pair.verdict]))
        texts = {"Method": heading.short(pair.name), "Task": pair.task}
        name = ", ".join(texts[column] for column in columns)
        text = f"{difference_text(pair.difference)} {verdict_text(pair.verdict)}".rstrip()
        strips.append(Strip(pair.backbone, name, text, marks, pair.verdict))
    methods = "every method" if "Method" in columns else f"{pairs[0].name},"
    remark = heading.remark_on(pair.backbone for pair in pairs)
    notes = [BEYOND, heading.about_names, remark, CORRECTED]
    over = "over the test items" if by_items(pairs) else "seed by seed"
    title = f"Suite {heading.suite}: {methods} minus {baseline}, {over}"
    scale = f"difference in points ({heading.leaderboard(leaderboard).planned.title})"
    figure = figure_of_rows(strips, title, notes, scale, limits(strips))
    for panel in figure.axes:
        panel.axvline(0, color=style.GREY, lw=1, zorder=1)
    return figure
