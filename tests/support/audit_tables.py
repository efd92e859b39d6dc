"""Printed tables of three invented papers, consistent with themselves and each other.

Figures are drawn with a seed and not by hypothesis, which likes equal ones: an audit looks for
rows that agree.
"""

from fractions import Fraction
from math import floor
from random import Random
from typing import NamedTuple

import pandas as pd

from bench.datasets.tasks import STS_TASKS, TRANSFER_TASKS
from bench.reported import COLUMNS

Figures = dict[str, Fraction]  # by task
PAPERS = ("first", "second", "third")
ITEMS = {"SST2": 1821, "TREC": 500, "MRPC": 1725}
QUOTED = "Someone et al. 2020 (Alpha)"
BASE, LARGE = ("Alpha", "base", ""), ("Alpha", "large", "")


def half_up(value: Fraction, places: int = 2) -> Fraction:
    return Fraction(floor(value * 10**places + Fraction(1, 2)), 10**places)


def truncated(value: Fraction, places: int = 2) -> Fraction:
    return Fraction(floor(value * 10**places), 10**places)


def mean(values: list[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


# How the figures of a row and its average are rounded. "printed": the average is the rounded mean
# of the figures as printed.
STYLES = {
    "printed": (round, round),
    "unrounded": (round, round),
    "half up": (half_up, half_up),
    "truncated": (truncated, truncated),
    "truncated figures": (truncated, round),
    "truncated average": (round, truncated),
}


class Row(NamedTuple):
    true: Fraction  # average
    cells: Figures  # as printed


def drawn_row(draw: Random, tasks: tuple[str, ...], style: str, places: int = 2) -> Row:
    true = []
    for task in tasks:
        if task in ITEMS:  # one run on so many items, above the most frequent class
            correct = draw.randint(int(0.7 * ITEMS[task]), ITEMS[task])
            true.append(Fraction(100 * correct, ITEMS[task]))
        else:
            true.append(Fraction(draw.randint(70_000_000, 95_000_000), 1_000_000))
    figure, average = STYLES[style]
    cells = [figure(value, places) for value in true]
    whole = mean(cells if style == "printed" else true)
    return Row(whole, dict(zip(tasks, cells, strict=True)) | {"Avg": average(whole, places)})


def consistent(seed: int, style: str = "printed") -> pd.DataFrame:
    """Three papers' numbers as `bench.reported.printed` has them; `style` "any" mixes `STYLES`."""
    draw = Random(seed)
    lines: list[list[object]] = []

    def write(
        place: tuple[str, str], label: tuple[str, str, str], cells: Figures, quoted: str = "",
        split: str = "test", metric: str = "spearman",
    ) -> None:  # fmt: skip
        tasks = list(cells)
        draw.shuffle(tasks)
        metric = "accuracy" if {*TRANSFER_TASKS, "Depth"} & {*tasks} else metric
        for task in tasks:
            lines.append([*place, *label, task, split, metric, float(cells[task]), quoted])

    def row(tasks: tuple[str, ...] = STS_TASKS, places: int = 2) -> Row:
        return drawn_row(draw, tasks, draw.choice([*STYLES]) if style == "any" else style, places)

    def probing() -> Figures:
        low = {"Depth": 20, "Length": 40, "CoordinationInversion": 51}
        return {task: Fraction(draw.randint(10 * at, 10 * at + 90), 10) for task, at in low.items()}

    labels = [("GloVe", "glove", "avg"), ("BERT", "base", "cls"), ("BERT", "base", "avg")]
    labels += [BASE, LARGE, ("Beta", "base", "")]
    public = {label: (row(), row(TRANSFER_TASKS)) for label in labels}
    # Quoted from a work that printed one decimal.
    public["Old", "own vectors", ""] = (row(places=1), row(TRANSFER_TASKS, places=1))
    probed, taus = probing(), ("0.01", "0.05", "0.1")
    # All quoted, so that no sweep mixes quoted numbers with a paper's own.
    of_alpha = {tau: row().cells for tau in taus} | {"0.05": public[BASE][0].cells}
    firsts: Figures = {}
    for source in PAPERS:
        own, large, other = row(), row(), row()
        name, rival = f"Own-{source}", f"Other-{source}"
        ours, theirs = (name, "base", "k=3"), (rival, "base", "(ours)")
        one, two, three, four, five, six = ((source, f"Table {number}") for number in range(1, 7))
        for label, (sts, transfer) in public.items():
            if label[0] in ("BERT", "Alpha") or draw.random() < 0.7:
                write(one, label, sts.cells, QUOTED)
                write(two, label, transfer.cells, QUOTED)
        if firsts:  # the source that a row names may call it otherwise
            write(one, ("First's", "base", ""), firsts, "Somebody 2021 (first)")
        firsts = firsts or own.cells
        write(one, ours, own.cells)
        write(one, (name, "large", "k=3"), large.cells)
        write(one, theirs, other.cells)
        for label in (ours, theirs):
            write(two, label, row(TRANSFER_TASKS).cells)
        for tau in taus:
            for method, known in ((name, own), (rival, other)):
                cells = (known if tau == "0.05" else row()).cells
                write(three, (method, "base", f"tau={tau}"), {"Avg": cells["Avg"]})
            write(three, ("Alpha", "base", f"tau={tau}"), {"Avg": of_alpha[tau]["Avg"]}, QUOTED)
        untrained = public["BERT", "base", "cls"][0].cells
        for size in (64, 128):
            # What is not trained has no batch size, what is trained has the default one in Table 1.
            write(four, ("BERT", "base", f"bs={size}, cls"), untrained)
            write(four, (name, "base", f"bs={size}"), (own if size == 64 else row()).cells)
        for k in (1, 2, 3, 4):
            dev = row().cells
            shown = {task: dev[task] for task in ("STS-B", "Avg")}
            write(five, (name, "base", f"k={k}"), shown, split="dev")
        write(six, ("BERT", "base", ""), probed)
        write(six, (name, "base", ""), probing())

        # The text repeats, rounds, truncates and subtracts.
        average = own.cells["Avg"]
        write((source, "Abstract"), (name, "base", ""), {"Avg": average})
        shorter = draw.choice([half_up, truncated, round])(average, 1)
        write((source, "Figure 1 text"), (name, "base", ""), {"Avg": shorter})
        for alpha, trained in ((BASE, own), (LARGE, large)):
            baseline = public[alpha][0]
            exactly = trained.cells["Avg"] - baseline.cells["Avg"]
            gain = exactly if draw.random() < 0.5 else round(trained.true - baseline.true, 2)
            label = (f"{name} minus Alpha", alpha[1], "")
            write((source, "Introduction"), label, {"Avg": gain}, metric="spearman_delta")
    return pd.DataFrame(lines, columns=COLUMNS).astype({"value": float})
