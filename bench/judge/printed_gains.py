"""Printed numbers beside a comparison: the numbers of the method, each with the number of the
baseline from the same table."""

from collections.abc import Sequence
from functools import cache
from itertools import product

from bench.datasets.tasks import Leaderboard
from bench.judge.statistics import Estimate
from bench.judged.rows import NO_BACKBONE, PrintedGain
from bench.reported.number import Number, numbers


def printed_gains(
    methods: Sequence[str],
    leaderboard: Leaderboard,
    task: str,
    backbone: str,
    estimate: Estimate | None,
) -> list[PrintedGain]:
    """The printed numbers of two methods, A and B, in a column of a leaderboard, and which part of
    the printed difference our runs have."""
    if not leaderboard.is_in_print(task):
        return []
    # A method without a backbone, such as GloVe, is printed once and stands beside every backbone.
    numbers_a, numbers_b = (
        _printed(method, backbone, task, leaderboard.metric)
        or _printed(method, NO_BACKBONE, task, leaderboard.metric)
        for method in methods
    )
    alone: list[PrintedGain] = []
    beside_b: list[PrintedGain] = []
    for a in numbers_a:
        without_b = PrintedGain(
            source=a.source, table=a.table, printed_on=a.backbone, printed_a=a.value
        )
        alone.append(without_b)
        beside = [b for b in numbers_b if _share_table(a, b)]
        rows = [number for number in numbers_a if _share_table(number, a)]
        # Rows are compared that agree in their settings. If none of a table does, the table is a
        # sweep, and our two runs differ in the swept setting just as the printed rows do.
        if any(_share_settings(*pair) for pair in product(rows, beside)):
            beside = [b for b in beside if _share_settings(a, b)]
        for b in beside:
            gain = a.value - b.value
            change = {"printed_b": b.value, "gain": gain}
            beside_b.append(without_b.model_copy(update=change | _part(estimate, gain)))
    # A number of A alone adds nothing if a table prints both.
    return beside_b or alone


def _part(estimate: Estimate | None, gain: float) -> dict[str, float]:
    """The mean difference divided by a printed gain, and the ends of its interval. A printed gain
    has no interval of its own, so the part has only the uncertainty of our runs."""
    if not (estimate and gain):
        return {}
    mean, width = estimate.mean, estimate.half_width()
    # A negative gain exchanges the ends of the interval.
    ends = (mean - width) / gain, (mean + width) / gain
    return {"part": mean / gain, "part_low": min(ends), "part_high": max(ends)}


@cache
def _printed(method: str, backbone: str, task: str, metric: str) -> list[Number]:
    """The printed scores that a method is compared with, in either setting."""
    return [
        number
        for number in numbers()
        if (number.our_backbone, number.task, number.metric) == (backbone, task, metric)
        # Sweeps print scores on dev, beside which our test scores must not stand.
        and number.split == "test"
        and number.run.partition("@")[0] == method
    ]


def _share_table(a: Number, b: Number) -> bool:
    """Whether two printed numbers share a table and, if both have one, a backbone."""
    either_without = NO_BACKBONE in (a.our_backbone, b.our_backbone)
    is_beside = (a.source, a.table) == (b.source, b.table)
    return is_beside and (either_without or a.backbone == b.backbone)


def _share_settings(a: Number, b: Number) -> bool:
    """Whether two printed numbers agree in every setting that both state, as in `bs=64, cls`."""
    stated: dict[str, str] = {}
    for piece in f"{a.variant}, {b.variant}".split(", "):
        # A word without a value, such as `cls`, is no setting that two rows could state
        # differently.
        name, is_setting, value = piece.partition("=")
        if is_setting and stated.setdefault(name, value) != value:
            return False
    return True
