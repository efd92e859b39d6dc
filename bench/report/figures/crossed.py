"""STS against transfer tasks: the differences of all systems from the baseline, with intervals."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from bench.judged.rows import Heading, PairRow
from bench.report.figures import style
from bench.report.formats import Frame, data_frame

HEIGHT, AXIS, NAME_WIDTH = 0.2, 0.6, 52  # inches of a name and of the axis; letters per line
LINEAR = 5  # points; the few systems far from the baseline would squeeze the others
TICKS = (-50, -20, -10, -5, -2, 0, 2, 5, 10, 20)
NOTE = (
    f"Crosses: intervals (98 %, over test items 95 %). Axes are logarithmic beyond {LINEAR} points."
)
SAME = ["backbone", "method", "setting", "name"]  # columns that identify a system


def crossed_table(pairs: Sequence[PairRow]) -> Frame:
    """The systems that are compared with the baseline on both averages, with intervals: a row per
    system."""
    averages = [pair for pair in pairs if pair.task == "Avg" and pair.half_width is not None]
    sts, transfer = (
        data_frame(
            [dict(pair) for pair in averages if pair.leaderboard == name],
            [*SAME, "kind", "difference", "half_width"],
        )
        for name in ("sts", "transfer")
    )
    table = sts.merge(transfer, on=SAME, suffixes=("_sts", "_transfer"))
    return table.sort_values("difference_transfer")


def crossed_figure(heading: Heading, table: Frame) -> Figure:
    """A cross per system, with the rank correlation in the title."""
    figure = Figure((style.WIDTH, len(table) * HEIGHT + AXIS), layout="constrained")
    panel = figure.subplots()
    # In the order of their heights, names need lines that hardly cross.
    for place, row in enumerate(table.itertuples()):
        look = style.OFFICIAL | {"label": "trained"}
        if row.kind_sts != "paired":
            look = style.UNTRAINED_LOOK | {"label": "not trained"}
        at = row.difference_sts, row.difference_transfer
        panel.errorbar(
            *at, row.half_width_transfer, row.half_width_sts, color=look["color"], lw=0.8
        )
        panel.plot(*at, **look)
        name = heading.short(row.name)
        if table["backbone"].nunique() > 1:
            name = f"{row.backbone}, {name}"
        panel.annotate(
            style.wrapped(name, NAME_WIDTH), at, (1.05, (place + 0.5) / len(table)),
            textcoords="axes fraction", va="center", size=6,
            arrowprops={"arrowstyle": "-", "color": style.GREY, "lw": 0.4, "relpos": (0, 0.5)},
        )  # fmt: skip
    minus = f"minus {heading.baseline_name}"
    sts, transfer = (heading.leaderboard(name).planned.title for name in ("sts", "transfer"))
    panel.set(xlabel=f"{minus}, {sts}", ylabel=f"{minus}, {transfer}")
    for scale, axis in (panel.set_xscale, panel.xaxis), (panel.set_yscale, panel.yaxis):
        scale("symlog", linthresh=LINEAR)
        axis.set_major_locator(FixedLocator(TICKS))
        axis.set_major_formatter("{x:g}")
    panel.minorticks_off()
    panel.axvline(0, color=style.GREY, lw=1, zorder=1)
    panel.axhline(0, color=style.GREY, lw=1, zorder=1)
    ranks = table["difference_sts"].corr(table["difference_transfer"], "spearman")
    title = f"Suite {heading.suite}: STS against transfer tasks, rank correlation {ranks:+.2f}"
    style.add_texts(
        figure, title, [NOTE, heading.about_names, heading.remark_on(table["backbone"])]
    )
    return figure
