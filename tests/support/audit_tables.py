"""Printed tables of three invented papers, consistent with themselves and each other.

Figures are drawn with a seed and not by hypothesis, which likes equal ones: an audit looks for
rows that agree.
"""

from fractions import Fraction
from math import floor
from random import Random

import pandas as pd

from bench.datasets.tasks import STS_TASKS, TRANSFER_TASKS
from bench.reported import COLUMNS

# How a row's figures and average are rounded. "printed": the average is the rounded mean of the
# figures as printed.
STYLES = ("printed", "unrounded", "half up", "truncated average", "truncated")
ITEMS = {"SST2": 1821, "TREC": 500, "MRPC": 1725}
PAPERS = ("first", "second", "third")
QUOTED = "Someone et al. 2020 (Alpha)"


def half_up(value: Fraction, places: int = 2) -> Fraction:
    return Fraction(floor(value * 10**places + Fraction(1, 2)), 10**places)


def truncated(value: Fraction, places: int = 2) -> Fraction:
    return Fraction(floor(value * 10**places), 10**places)


def mean(values: list[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


class Row:
    """A row's true figures and average, and what is printed of them."""

    def __init__(self, draw: Random, tasks: tuple[str, ...], style: str, places: int = 2) -> None:
        true = [self._figure(draw, task) for task in tasks]
        figure, average = {
            "half up": (half_up, half_up),
            "truncated": (truncated, truncated),
            "truncated average": (round, truncated),
        }.get(style, (round, round))
        if style == "truncated" and draw.random() < 0.5:
            average = round
        cells = [figure(value, places) for value in true]
        self.true = mean(cells if style == "printed" else true)
        self.cells = dict(zip(tasks, cells, strict=True)) | {"Avg": average(self.true, places)}

    @staticmethod
    def _figure(draw: Random, task: str) -> Fraction:
        if task in ITEMS:  # one run on so many items, above the most frequent class
            return Fraction(100 * draw.randint(int(0.7 * ITEMS[task]), ITEMS[task]), ITEMS[task])
        return Fraction(draw.randint(70_000_000, 95_000_000), 1_000_000)


def consistent(seed: int, style: str = "printed") -> pd.DataFrame:
    """Three papers' numbers as `bench.reported.printed` has them; `style` "any" mixes `STYLES`."""
    draw = Random(seed)
    lines: list[list[object]] = []

    def print_row(
        source: str,
        table: str,
        label: tuple[str, str, str],
        cells: dict[str, Fraction],
        *,
        split: str = "test",
        metric: str = "",
        quoted: str = "",
    ) -> None:
        tasks = list(cells)
        draw.shuffle(tasks)
        metric = metric or ("accuracy" if {*TRANSFER_TASKS, "Depth"} & {*tasks} else "spearman")
        for task in tasks:
            place = [source, table, *label, task, split, metric]
            lines.append([*place, float(cells[task]), quoted])

    def new_row(tasks: tuple[str, ...], places: int = 2) -> Row:
        return Row(draw, tasks, draw.choice(STYLES) if style == "any" else style, places)

    public = {
        label: (new_row(STS_TASKS, places), new_row(TRANSFER_TASKS, places))
        for label, places in {
            ("GloVe", "glove", "avg"): 2,
            ("BERT", "base", "cls"): 2,
            ("BERT", "base", "avg"): 2,
            ("Alpha", "base", ""): 2,
            ("Alpha", "large", ""): 2,
            ("Beta", "base", ""): 2,
            ("Old", "own vectors", ""): 1,  # quoted from a work that printed one decimal
        }.items()
    }
    low = {"Depth": 20, "Length": 40, "CoordinationInversion": 51}

    def probing() -> dict[str, Fraction]:
        return {task: Fraction(draw.randint(10 * at, 10 * at + 90), 10) for task, at in low.items()}

    probed = probing()
    settings = ("0.01", "0.05", "0.1")
    # All quoted, so that no sweep mixes quoted numbers with a paper's own.
    of_alpha = {tau: new_row(STS_TASKS) for tau in settings}
    of_alpha["0.05"] = public["Alpha", "base", ""][0]
    firsts: Row | None = None
    for source in PAPERS:
        own, large, other = new_row(STS_TASKS), new_row(STS_TASKS), new_row(STS_TASKS)
        name = f"Own-{source}"
        for label, (sts, transfer) in public.items():
            if label[0] in ("BERT", "Alpha") or draw.random() < 0.7:
                print_row(source, "Table 1", label, sts.cells, quoted=QUOTED)
                print_row(source, "Table 2", label, transfer.cells, quoted=QUOTED)
        if firsts is not None:
            # The source that a row names may call it otherwise.
            label = ("First's", "base", "")
            print_row(source, "Table 1", label, firsts.cells, quoted="Somebody 2021 (first)")
        firsts = firsts or own
        ours = (f"Other-{source}", "base", "(ours)")
        print_row(source, "Table 1", (name, "base", "k=3"), own.cells)
        print_row(source, "Table 1", (name, "large", "k=3"), large.cells)
        print_row(source, "Table 1", ours, other.cells)
        print_row(source, "Table 2", (name, "base", "k=3"), new_row(TRANSFER_TASKS).cells)
        print_row(source, "Table 2", ours, new_row(TRANSFER_TASKS).cells)

        for tau in settings:
            for method, row in ((name, own), ("Alpha", None), (f"Other-{source}", other)):
                shown = row if row and tau == "0.05" else new_row(STS_TASKS)
                cells, by = (shown if row else of_alpha[tau]).cells, "" if row else QUOTED
                label = (method, "base", f"tau={tau}")
                print_row(source, "Table 3", label, {"Avg": cells["Avg"]}, quoted=by)
        untrained = public["BERT", "base", "cls"][0].cells
        for size in (64, 128):
            # What is not trained has no batch size, what is trained has the default one in Table 1.
            print_row(source, "Table 4", ("BERT", "base", f"bs={size}, cls"), untrained)
            shown = own if size == 64 else new_row(STS_TASKS)
            print_row(source, "Table 4", (name, "base", f"bs={size}"), shown.cells)
        for k in (1, 2, 3, 4):
            dev = new_row(STS_TASKS).cells
            shown = {task: dev[task] for task in ("STS-B", "Avg")}
            print_row(source, "Table 5", (name, "base", f"k={k}"), shown, split="dev")
        print_row(source, "Table 6", ("BERT", "base", ""), probed)
        print_row(source, "Table 6", (name, "base", ""), probing())

        # The text repeats, rounds, truncates and subtracts.
        average = own.cells["Avg"]
        print_row(source, "Abstract", (name, "base", ""), {"Avg": average})
        shorter = draw.choice([half_up, truncated, round])(average, 1)
        print_row(source, "Figure 1 text", (name, "base", ""), {"Avg": shorter})
        for backbone, row in (("base", own), ("large", large)):
            baseline = public["Alpha", backbone, ""][0]
            exactly = row.cells["Avg"] - baseline.cells["Avg"]
            gain = exactly if draw.random() < 0.5 else round(row.true - baseline.true, 2)
            label = (f"{name} minus Alpha", backbone, "")
            print_row(source, "Introduction", label, {"Avg": gain}, metric="spearman_delta")
    return pd.DataFrame(lines, columns=COLUMNS).astype({"value": float})
