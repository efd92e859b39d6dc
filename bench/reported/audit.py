"""Consistency checks of the printed numbers: within their rows, with each other, and with the size
of the test sets.

The checks use values, labels, sizes of test sets, which paper quotes which, and what papers say of
their tables (claims.yaml). docs/audit.md gives the reasons.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import combinations, pairwise, product
from math import ceil
from pathlib import Path
from statistics import mean, mode

import pandas as pd
import yaml
from pydantic import TypeAdapter

from bench.datasets.tasks import BOARDS, CHINESE_TASKS, PROBING_TASKS, STS_TASKS, TASKS
from bench.reported import COLUMNS, FOLDER, SCORES
from bench.reported import printed as all_printed
from bench.utils.text import listed
from bench.utils.validation import Model

FINDING_KINDS = {
    "average": "Averages that are not the mean of their row, whatever the rounding",
    "rounding": "Averages that only rounding or truncation of other numbers explains",
    "unattainable": "Accuracies that neither one run on the test set nor the mean of 3 or 5 runs "
    "can give",
    "runs": "Accuracies that one run on the test set cannot give, but the mean of several can",
    "range": "Scores outside their scale",
    "chance": "Accuracies that a constant prediction reaches",
    "copy": "Rows of different models with the same numbers",
    "partial": "Rows of different models that share most of their numbers",
    "shift": "Rows that differ by one constant in all numbers",
    "cells": "One label with the same numbers but another average",
    "label": "One label with different numbers",
    "untrained": "Untrained models whose numbers change with a hyper-parameter of training",
    "sweep": "Sweeps that agree with the paper's other tables at different settings",
    "mixed": "Sweeps that continue a quoted number with the paper's own runs",
    "split": "Numbers that one paper prints for two splits",
    "text": "Numbers in the text that are not in the tables",
    "difference": "Differences in the text that are not those of the tables",
    "resting": "Differences in the text that use a row with another finding",
    "statement": "Statements in words that figures of their table contradict",
}

DIFFERENCE = "_delta"  # suffix of the metric of a printed difference "A minus B"
ANONYMOUS = ("", "unknown")  # values of quoted_from: the paper's own result, or an unnamed source
FEWEST = 3  # numbers that must agree for rows to count as equal; fewer may agree by chance
MEANS = (3, 5)  # numbers of runs that a printed accuracy may average
# Running text may name a family of tasks rather than a task.
FAMILIES = {"STS": (*STS_TASKS, *CHINESE_TASKS, "Avg")}
# Findings that make a row an unsafe operand of a difference.
UNSAFE = ("average", "shift", "copy", "partial")
# The groups of tasks that an "Avg" can be the mean of.
AVERAGED = [board.tasks for board in BOARDS.values() if len(board.tasks) > 1]

# Models that the papers do not train: hyper-parameters of training are not part of their label.
UNTRAINED = ("GloVe", "BERT", "RoBERTa")
# Hyper-parameters of training, as variants spell them before the "=".
TRAINING = {
    "bs", "batch_size", "lr", "learning_rate", "tau", "temperature", "epochs", "steps", "seed"
}  # fmt: skip

# SentEval's published sizes: task -> split, or class for cross-validated tasks -> items.
SIZES = {task.name: task.sizes for task in TASKS.values() if task.kind != "sts"}
# Items of the most frequent class in test sets with a fixed split, counted in SentEval's files.
MOST_FREQUENT = {"SST2": 912, "TREC": 138, "MRPC": 1147}
# Number of classes of the probing tasks, which SentEval describes as balanced; two of all others.
CLASSES = dict.fromkeys(PROBING_TASKS, 2) | {
    "Length": 6, "WordContent": 1000, "Depth": 8, "TopConstituents": 20
}  # fmt: skip


# --- Rows ---


@dataclass(frozen=True)
class Finding:
    """An inconsistency of printed numbers."""

    kind: str  # a key of `FINDING_KINDS`
    source: str  # of the first row, as the table
    table: str
    rows: tuple[str, ...]  # those concerned, by `Row.name`
    text: str  # one sentence


@dataclass(frozen=True, eq=False)
class Row:
    """A printed row: the numbers of one label, split and metric in one table or place of the text.

    `cells` maps tasks to numbers in points, as exact fractions; other attributes are columns of
    `printed`.
    """

    source: str
    table: str
    method: str
    backbone: str
    variant: str
    split: str
    metric: str
    quoted_from: str
    cells: Mapping[str, Fraction]

    @property
    def place(self) -> str:
        return f"{self.source} {self.table}"

    @property
    def who(self) -> str:
        variant = f" ({self.variant.strip('()')})" if self.variant else ""
        return f"{self.method}{variant}, {self.backbone}"

    @property
    def name(self) -> str:
        return f"{self.place}: {self.who}"

    @property
    def model(self) -> tuple[str, str]:
        return self.method, self.backbone

    @cached_property
    def words(self) -> frozenset[str]:
        """The parts of the variant: `bs=64, cls` has two."""
        return frozenset(map(str.strip, self.variant.strip("()").split(","))) - {""}

    @cached_property
    def training_words(self) -> frozenset[str]:
        """The words that set a hyper-parameter of training, of models that are not trained."""
        words = self.words if self.method in UNTRAINED else ()
        return frozenset(word for word in words if setting(word)[0] in TRAINING)

    @property
    def paper(self) -> str:
        """The source without its version."""
        return re.sub(r"-v\d+$", "", self.source)

    @property
    def label(self) -> tuple[object, ...]:
        """What determines the numbers: rows with equal labels should have equal numbers.

        A paper's own run of a trained method is distinct from quoted numbers and from other papers'
        runs.
        """
        origin = "quoted" if self.quoted_from else self.paper
        if self.method in UNTRAINED:
            origin = ""
        return self.model, self.words - self.training_words, origin, self.metric, self.split

    @cached_property
    def in_text(self) -> bool:
        """Whether the row is from running text or a caption, not from a table or figure."""
        return not re.fullmatch(r"(Table|Figure) \w+", self.table)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The tasks without the average, sorted, so that rows can be compared."""
        return tuple(sorted(self.cells.keys() - {"Avg"}))

    @cached_property
    def figures(self) -> tuple[Fraction, ...]:
        """The numbers of `tasks`."""
        return tuple(self.cells[task] for task in self.tasks)

    @cached_property
    def unit(self) -> Fraction:
        """The last printed decimal place, taken over all tasks because single numbers may end in a
        zero: 0.1 in a row quoted from a paper that prints one decimal."""
        return min(map(last_place, self.figures or self.cells.values()))

    @property
    def misfit(self) -> Fraction:
        """How far the printed average is from the mean of the row."""
        return abs(self.cells["Avg"] - mean(self.figures))

    def quotes(self, other: Row) -> bool:
        """Whether the row names the paper of another row as its source."""
        name = rf"(?<![\w-]){re.escape(other.paper)}(?![\w-])"
        return re.search(name, self.quoted_from.lower()) is not None

    def elsewhere(self, tables: Iterable[Row]) -> list[Row]:
        """The rows of the paper's other tables that have the same numbers for the same model, as
        far as both have some."""
        label = (self.source, self.model, self.metric)
        like = [row for row in tables if (row.source, row.model, row.metric) == label]
        shared = {row: self.cells.keys() & row.cells.keys() for row in like}
        return [
            row
            for row in like
            if row.table != self.table
            and shared[row]
            and all(self.cells[task] == row.cells[task] for task in shared[row])
        ]


def setting(word: str) -> tuple[str, str]:
    """Parameter and value of a word such as `tau=0.05` or `12 transformer layers`; empty for
    others."""
    counted = re.fullmatch(r"(\d+) (.+)", word)
    if counted:
        return counted[2], counted[1]
    parameter, equals, value = word.partition("=")
    return (parameter, value) if equals else ("", "")


def last_place(value: Fraction) -> Fraction:
    """The last decimal place of a finite decimal number: 0.01 for 76.25, 1 for 21."""
    decimals = repr(float(value)).partition(".")[2].rstrip("0")
    return Fraction(1, 10 ** len(decimals))


def shown(value: Fraction) -> str:
    return f"{float(value):.2f}"


def finding(kind: str, rows: Sequence[Row], text: str) -> Finding:
    """A finding about `rows`, reported for the first of them."""
    names = tuple(dict.fromkeys(row.name for row in rows))
    return Finding(kind, rows[0].source, rows[0].table, names, text)


def read_rows(printed: pd.DataFrame) -> list[Row]:
    """The rows of scores and of differences of scores, in the order of print; other metrics are
    left out."""
    scores = printed[printed["metric"].str.removesuffix(DIFFERENCE).isin(SCORES)]
    fields = [name for name in COLUMNS if name not in ("task", "value")]
    rows = []
    for label, cells in scores.groupby(fields, sort=False):
        # The decimal number that is printed, rather than the nearest binary fraction.
        values = [Fraction(repr(float(value))) for value in cells["value"]]
        cells_by_task = dict(zip(cells["task"], values, strict=True))
        rows.append(Row(**dict(zip(fields, label, strict=True)), cells=cells_by_task))
    return rows


# --- A single row: its average, its accuracies, its scale ---


def items(task: str) -> int | None:
    """Size of a task's test set; None for cross-validated tasks."""
    return SIZES.get(task, {}).get("test")


def majority(task: str) -> Fraction:
    """Accuracy in points of a constant prediction of the most frequent class; 0 if unknown."""
    if task in CLASSES:
        return Fraction(100, CLASSES[task])
    if task in MOST_FREQUENT:
        return Fraction(100 * MOST_FREQUENT[task], SIZES[task]["test"])
    counts = SIZES.get(task, {"none": 0}).values()
    return Fraction(100 * max(counts), max(sum(counts), 1))


def averages(rows: Iterable[Row]) -> Iterator[Finding]:
    """Findings `average` and `rounding`: averages that differ from the mean of their row."""
    for row in rows:
        board = next((tasks for tasks in AVERAGED if {*tasks, "Avg"} <= row.cells.keys()), None)
        if board is None:
            continue
        gap = row.cells["Avg"] - mean(row.cells[task] for task in board)
        text = (
            f"{row.who}: the average is printed as {shown(row.cells['Avg'])}, "
            f"the mean of the row is {float(row.cells['Avg'] - gap):.4f} ({float(gap):+.4f})"
        )
        if abs(gap) > row.unit * 3 / 2:
            yield finding("average", [row], text)
        elif abs(gap) > row.unit / 2:
            text += "; unrounded or truncated figures can give both"
            yield finding("rounding", [row], text)


def attainable(value: Fraction, unit: Fraction, n: int, runs: int = 1) -> bool:
    """Whether the mean accuracy of `runs` runs on `n` items, rounded or truncated to `unit`, can be
    `value`.

    Each run may have been rounded before averaging.
    """
    slack = unit / 2 if runs > 1 and Fraction(100, n) % unit else Fraction(0)
    step = Fraction(100, runs * n)
    # Rounded from [value - unit/2, value + unit/2], or truncated from [value, value + unit).
    above = ceil((value - unit / 2 - slack) / step) * step
    return above < value + unit + slack


def scales(rows: Iterable[Row]) -> Iterator[Finding]:
    """Findings `range` and `chance`: scores outside their scale, and accuracies of a constant
    prediction; `unattainable` and `runs`: those that no whole number of correct test items
    gives."""
    cells = [(row, task, value) for row in rows for task, value in row.cells.items()]
    for row, task, value in cells:
        text = f"{row.who}: {task} is printed as {shown(value)}"
        if abs(value) > 100 and not row.metric.endswith(DIFFERENCE):
            yield finding("range", [row], f"{text}, outside -100 to 100")
        if row.metric != "accuracy":
            continue
        constant = majority(task)
        if constant and value <= constant:
            relation = "exactly what" if value == constant else "below what"
            clause = f"{relation} a constant prediction gives ({shown(constant)})"
            yield finding("chance", [row], f"{text}, {clause}")
        n = items(task)
        if n and row.split == "test" and not attainable(value, row.unit, n):
            correct = value * n // 100
            near = [shown(Fraction(100 * count, n)) for count in (correct, correct + 1)]
            able = {runs: attainable(value, row.unit, n, runs) for runs in MEANS}
            means = [f"the mean of {k} {'can' if able[k] else 'cannot'} give it" for k in MEANS]
            clause = f"one run on its {n:,} items gives {', '.join([' or '.join(near), *means])}"
            kind = "runs" if any(able.values()) else "unattainable"
            yield finding(kind, [row], f"{text}; {clause}")


# --- Rows among each other: equal numbers under different labels, and the reverse ---


def leading(rows: Sequence[Row]) -> list[Row]:
    """The rows, with the one that a finding is reported for first.

    That is the row whose numbers are shared by the fewest others; among several, one that quotes no
    named source; then the first.
    """
    numbers = [row.figures or row.cells["Avg"] for row in rows]
    ranks = [
        (numbers.count(number), row.quoted_from not in ANONYMOUS)
        for row, number in zip(rows, numbers, strict=True)
    ]
    first = rows[ranks.index(min(ranks))]
    return [first, *(row for row in rows if row is not first)]


def _described(rows: Iterable[Row]) -> str:
    """Rows by label, each with its places: `BERT (cls), bert-base-uncased [sscl Table 2 and sscl
    Table 7]`."""
    places: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        places[row.who].append(row.place)
    return " and ".join(f"{who} [{listed(tables)}]" for who, tables in places.items())


def copies(rows: Iterable[Row]) -> Iterator[Finding]:
    """Findings `copy`, `partial` and `shift`: rows of different labels with equal or shifted
    numbers."""
    # Rows by what makes them comparable, then by their numbers.
    blocks: dict[object, dict[object, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if len(row.tasks) >= FEWEST:
            blocks[row.metric, row.split, row.tasks][row.figures].append(row)
    for block in blocks.values():
        for equal in block.values():
            # A row that quotes the paper of another row may use another label.
            independent = [row for row in equal if not any(row.quotes(other) for other in equal)]
            if len({row.model for row in independent}) > 1:
                ordered = leading(equal)
                text = f"{_described(ordered)} have the same {len(ordered[0].tasks)} figures"
                averages = {row.cells.get("Avg") for row in equal}
                if len(averages) == 1 and None not in averages:
                    text += " and the same average"
                yield finding("copy", ordered, text)
        for first, second in combinations(block.values(), 2):
            in_first = leading([*first, *second])[0] in first
            yield from _compared(first, second) if in_first else _compared(second, first)


def _compared(rows: list[Row], others: list[Row]) -> Iterator[Finding]:
    """The finding `shift` or `partial` about rows and others, each with equal numbers."""
    row, other = rows[0], others[0]
    gaps = {task: row.cells[task] - other.cells[task] for task in row.tasks}
    differing = [task for task, gap in gaps.items() if gap]
    equal = len(gaps) - len(differing)
    # Rows of one label are left to `labels`.
    same_label = {row.label for row in rows} & {other.label for other in others}
    if len(set(gaps.values())) == 1:
        shift = gaps[row.tasks[0]]
        text = (
            f"each of the {len(gaps)} figures of {_described(rows)} is {shown(abs(shift))} "
            f"{'above' if shift > 0 else 'below'} that of {_described(others)}"
        )
        cells = [(here.cells, there.cells) for here, there in product(rows, others)]
        averages = {a["Avg"] - b["Avg"] for a, b in cells if "Avg" in a and "Avg" in b}
        if shift in averages:
            text += ", and so is the average"
            text += " in one print of several" if len(averages) > 1 else ""
        yield finding("shift", [*rows, *others], text)
    elif equal >= FEWEST and equal > len(differing) and not same_label:
        pairs = [
            f"{task} ({shown(row.cells[task])}, there {shown(other.cells[task])})"
            for task in differing
        ]
        text = (
            f"{equal} of {len(gaps)} figures of {_described(rows)} are those of "
            f"{_described(others)}, but not {listed(pairs)}"
        )
        if "Avg" in row.cells and row.cells["Avg"] == other.cells.get("Avg"):
            text += f"; the average, {shown(row.cells['Avg'])}, is the same"
            fitting = [entry for entry in (row, other) if entry.misfit <= entry.unit * 3 / 2]
            text += f" and fits {fitting[0].place} alone" if len(fitting) == 1 else ""
        yield finding("partial", [*rows, *others], text)


def labels(tables: Sequence[Row]) -> Iterator[Finding]:
    """Findings `label`, `cells` and `untrained`: one label printed several times with different
    numbers."""
    groups: dict[object, list[Row]] = defaultdict(list)
    for row in tables:
        groups[row.label].append(row)
    for group in groups.values():
        prints: dict[str, dict[Fraction, list[str]]] = defaultdict(lambda: defaultdict(list))
        for row in group:
            for task, value in row.cells.items():
                prints[task][value].append(row.place)
        contested = [task for task, values in prints.items() if len(values) > 1]
        if not contested:
            continue
        concerned = leading([row for row in group if not row.cells.keys().isdisjoint(contested)])
        settings = _settings_of_training(concerned)
        kind = "label"
        text = f"{len(contested)} of {len(prints)} figures are not the same everywhere"
        if settings:
            kind = "untrained"
            text = f"the model is not trained, yet with {settings} its figures are not the same"
        elif contested == ["Avg"] and all(len(row.tasks) >= FEWEST for row in concerned):
            kind, text = "cells", "the same figures have another average"
            # Reported for the average that fits its row worse; the first of equals, in print.
            concerned = sorted(filter(concerned.__contains__, group), key=lambda row: -row.misfit)
        # Of many tasks, one is given as an example.
        example = "Avg" if "Avg" in contested else contested[0]
        for task in contested if len(contested) <= 2 else [example]:
            values = [f"{shown(value)} [{listed(at)}]" for value, at in prints[task].items()]
            text += f"; {task} is {listed(values)}"
        if kind == "label" and example == "Avg":
            text += _between(concerned[0], prints["Avg"], tables)
        yield finding(kind, concerned, f"{concerned[0].who}: {text}")


def _settings_of_training(rows: Sequence[Row]) -> str:
    """The settings of training with which a table prints different numbers for a model that is not
    trained; empty if none does."""
    for place in dict.fromkeys(row.place for row in rows):
        trained = [row for row in rows if row.place == place and row.training_words]
        if len({row.figures or row.cells["Avg"] for row in trained}) > 1:
            return listed(sorted(word for row in trained for word in row.training_words))
    return ""


def _between(row: Row, averages: Iterable[Fraction], tables: Iterable[Row]) -> str:
    """The paper's own rows that lie between the `averages` of `row`, as the end of a sentence."""
    place = (row.place, row.backbone, row.metric, row.split)
    names = [
        f"{own.method} ({shown(own.cells['Avg'])})"
        for own in tables
        if (own.place, own.backbone, own.metric, own.split) == place
        and not own.quoted_from
        and row.words <= own.words
        and min(averages) < own.cells.get("Avg", 0) < max(averages)
    ]
    return f"; between them, in {row.place}: {listed(names)}" if names else ""


# --- Sweeps and splits ---

# Method, with the words of its variant that do not change -> setting -> row.
Sweep = dict[str, dict[str, Row]]


def _sweeps(tables: Iterable[Row]) -> Iterator[tuple[str, Sweep]]:
    """Yield a parameter, and the rows of a table that differ in it."""
    sweeps: dict[tuple[str, ...], Sweep] = defaultdict(lambda: defaultdict(dict))
    for row in tables:
        for word in sorted(row.words):
            parameter, value = setting(word)
            if parameter:
                rest = ", ".join(sorted(row.words - {word}))
                method = f"{row.method} ({rest})" if rest else row.method
                place = (parameter, row.place, row.backbone, row.metric, row.split)
                sweeps[place][method][value] = row
    for (parameter, *_), sweep in sweeps.items():
        yield parameter, sweep


def sweeps(tables: Sequence[Row]) -> Iterator[Finding]:
    """Finding `sweep`: a sweep agrees with the paper's other tables at one setting, except for a
    method at another.

    Splits are ignored here; `splits` checks them.
    """
    for parameter, sweep in _sweeps(tables):
        elsewhere = {row: row.elsewhere(tables) for rows in sweep.values() for row in rows.values()}
        agreeing = {
            method: [value for value, row in rows.items() if elsewhere[row]]
            for method, rows in sweep.items()
        }
        usual = mode([value for values in agreeing.values() for value in values] or [""])
        like = [method for method in sweep if usual in agreeing[method]]
        if len(like) < 2:  # there may be two defaults
            continue
        for method, values in agreeing.items():
            if values and usual not in values and usual in sweep[method]:
                here, there = sweep[method][values[0]], sweep[method][usual]
                task = "Avg" if "Avg" in here.cells else here.tasks[0]
                text = (
                    f"with {parameter}={usual} the figures of {listed(like)} are printed in other "
                    f"tables too, those of {method} with {parameter}={values[0]} "
                    f"({shown(here.cells[task])}, as in "
                    f"{listed(row.table for row in elsewhere[here])}; "
                    f"with {parameter}={usual} {shown(there.cells[task])})"
                )
                yield finding("sweep", [there, here, *elsewhere[here]], text)


def _named_source(row: Row, tables: Iterable[Row]) -> str:
    """Who is quoted: by the row, or by another table of the paper for the same numbers; empty if
    nobody is named."""
    sources = [like.quoted_from for like in (row, *row.elsewhere(tables))]
    return next((source for source in sources if source not in ANONYMOUS), "")


def mixed(tables: Sequence[Row]) -> Iterator[Finding]:
    """Finding `mixed`: a sweep in which some points are quoted and the others are the paper's own.

    A method at a single setting that no other method has (no noise at all) belongs to the sweep of
    the others.
    """
    for parameter, sweep in _sweeps(tables):
        methods = Counter(value for rows in sweep.values() for value in rows)
        ends = {
            value: row
            for rows in sweep.values()
            for value, row in rows.items()
            if len(rows) == methods[value] == 1
        }
        for rows in sweep.values():
            points = (ends | rows).values() if len(rows) > 1 else ()
            sources = {row: _named_source(row, tables) for row in points}
            quoted = [row for row in points if sources[row]]
            own = [row for row in points if not sources[row]]
            if quoted and own:
                text = (
                    f"along {parameter}, {listed(row.who for row in quoted)} is quoted from "
                    f"{listed(sources[row] for row in quoted)}; the paper's own runs are "
                    f"{listed(f'{row.method} ({row.variant})' for row in own)}"
                )
                yield finding("mixed", [*quoted, *own], text)


# A printed number without its place: model, metric, task and number.
Number = tuple[object, ...]


def splits(tables: Iterable[Row]) -> Iterator[Finding]:
    """Finding `split`: several numbers of a table that another table of the paper prints for
    another split."""
    printed: dict[tuple[str, ...], dict[Number, Row]] = defaultdict(dict)
    for row in (row for row in tables if row.split):
        for task, value in row.cells.items():
            number = (row.model, row.metric, task, shown(value))
            printed[row.source, row.table, row.split].setdefault(number, row)
    for (source, _, split), numbers in printed.items():
        alike: dict[tuple[str, tuple[Number, ...]], list[tuple[str, ...]]] = defaultdict(list)
        for place, others in printed.items():
            same = tuple(sorted(numbers.keys() & others.keys()))
            # A single number may agree by chance. Reported for the smaller table, of which a larger
            # share is equal.
            comparable = source == place[0] and split != place[2]
            if comparable and len(same) > 1 and len(numbers) < len(others):
                alike[place[2], same].append(place)
        for (other_split, same), places in alike.items():
            values = listed(f"{number[-1]} ({numbers[number].who})" for number in same)
            text = (
                f"{values} are printed for {split} here and for {other_split} in "
                f"{listed(table for _, table, _ in places)}"
            )
            prints = [numbers, *(printed[place] for place in places)]
            concerned = [cells[number] for cells in prints for number in same]
            yield finding("split", concerned, text)


# --- The text: its numbers, its differences, its statements in words ---


class Claim(Model):
    """A statement about a printed table, as in claims.yaml."""

    source: list[str]  # the papers that make it
    where: str  # place of the statement
    quote: str
    table: str
    above: dict[str, str] = {}  # method -> the method below it
    parameter: str = ""
    rising: list[str] = []  # settings of the parameter, in their order
    falling: list[str] = []
    method: str = ""  # of the settings; empty: of all methods


@cache
def load_claims(path: Path = FOLDER / "claims.yaml") -> list[Claim]:
    """The statements of all papers."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return TypeAdapter(list[Claim]).validate_python(content["claims"])


def _comparable(claim: Row, row: Row) -> bool:
    """Whether paper, backbone and metric are equal and splits are compatible; a text may leave the
    split open."""
    metric = claim.metric.removesuffix(DIFFERENCE)
    same = (row.source, row.backbone, row.metric) == (claim.source, claim.backbone, metric)
    return same and (row.split == claim.split or not row.split or not claim.split)


def quoted_figures(rows: Sequence[Row]) -> Iterator[Finding]:
    """Finding `text`: scores in running text that differ from the paper's tables, or from its other
    text."""
    for claim in rows:
        if not claim.in_text or claim.metric.endswith(DIFFERENCE):
            continue
        like = [row for row in rows if _comparable(claim, row) and row.method == claim.method]
        like = [row for row in like if row.table != claim.table and claim.words <= row.words]
        for task, value in claim.cells.items():
            family = FAMILIES.get(task, (task,))
            cells = [(row, row.cells[name]) for row in like for name in family if name in row.cells]
            cells = [(row, cell) for row, cell in cells if not row.in_text] or cells
            # The text may round or truncate the table's number.
            unit = last_place(value)
            if cells and not any(-unit / 2 <= cell - value < unit for _, cell in cells):
                text = (
                    f"{claim.table} gives {shown(value)} for {claim.who} ({task}); "
                    f"{listed(row.table for row, _ in cells)} has "
                    f"{listed(shown(cell) for _, cell in cells)}"
                )
                yield finding("text", [claim, *(row for row, _ in cells)], text)


def _operands(claim: Row, method: str, task: str, tables: Iterable[Row]) -> list[Row]:
    """The rows that may be one side of a difference: those of the claim's variant, else of a
    compatible one."""
    like = [row for row in tables if row.method == method and task in row.cells]
    like = [row for row in like if _comparable(claim, row)]
    exactly = [row for row in like if row.words == claim.words]
    return exactly or [row for row in like if row.words <= claim.words or claim.words <= row.words]


def differences(
    rows: Iterable[Row], tables: Sequence[Row], known: Iterable[Finding]
) -> Iterator[Finding]:
    """Findings `difference` and `resting`: claimed differences that the `tables` do not give, or
    that use rows with `known` findings."""
    places = {(entry.kind, name) for entry in known for name in entry.rows}
    claims = [row for row in rows if " minus " in row.method]
    for claim, task in ((row, task) for row in claims for task in row.cells):
        value = claim.cells[task]
        sides = [_operands(claim, name, task, tables) for name in claim.method.split(" minus ")]
        gaps = {(a, b): a.cells[task] - b.cells[task] for a, b in product(*sides)}
        if not gaps:
            continue
        pair = min(gaps, key=lambda pair: abs(gaps[pair] - value))
        text = f"{claim.table} gives {shown(value)} for {claim.who} ({task})"
        # Both sides and the claim are rounded.
        if abs(gaps[pair] - value) >= max(row.unit for row in pair) + last_place(value):
            terms = " - ".join(shown(row.cells[task]) for row in pair)
            result = f"{listed(row.table for row in pair)} {terms} = {shown(gaps[pair])}"
            yield finding("difference", [claim, *pair], f"{text}; {result}")
        kinds = {row.name: [kind for kind in UNSAFE if (kind, row.name) in places] for row in pair}
        unsafe = [f"{name} (see: {', '.join(kinds[name])})" for name in kinds if kinds[name]]
        if unsafe:
            text += f", which rests on {listed(unsafe)}"
            doubted = any("average" in names for names in kinds.values())
            if task == "Avg" and doubted and all(row.figures for row in pair):
                gap = mean(pair[0].figures) - mean(pair[1].figures)
                text += f"; between the means of the rows it is {shown(gap)}"
            yield finding("resting", [claim, *pair], text)


# A comparison that a statement makes: task, the row whose figure should be higher, the other row,
# and a clause about both.
Comparison = tuple[str, Row, Row, str]


def statements(tables: Sequence[Row], claims: Iterable[Claim]) -> Iterator[Finding]:
    """Finding `statement`: statements in words that figures of their own table contradict."""
    for claim, source in ((entry, source) for entry in claims for source in entry.source):
        rows = [row for row in tables if (row.source, row.table) == (source, claim.table)]
        comparisons = [*_methods(claim, rows), *_settings(claim, rows)]
        against = [
            (higher, lower, clause)
            for task, higher, lower, clause in comparisons
            if higher.cells[task] <= lower.cells[task]
        ]
        if against:
            text = (
                f'{claim.where} says "{claim.quote}"; {len(against)} of {len(comparisons)} '
                f"comparisons say otherwise: {'; '.join(clause for *_, clause in against)}"
            )
            concerned = [row for higher, lower, _ in against for row in (higher, lower)]
            yield finding("statement", concerned, text)


def _methods(claim: Claim, rows: Sequence[Row]) -> Iterator[Comparison]:
    """Each method in `claim.above` with the method below it."""
    for row, other in product(rows, repeat=2):
        place = (other.method, other.backbone, other.metric, other.split)
        # GS-InfoNCE has a variant that SimCSE cannot have; SSCL-BERT (avg) is not BERT (cls).
        alike = row.words <= other.words or other.words <= row.words
        if alike and place == (claim.above.get(row.method), row.backbone, row.metric, row.split):
            for task in row.tasks:
                if task in other.cells:
                    clause = (
                        f"{task} is {shown(row.cells[task])} for {row.who} and "
                        f"{shown(other.cells[task])} for {other.method}"
                    )
                    yield task, row, other, clause


def _settings(claim: Claim, rows: Iterable[Row]) -> Iterator[Comparison]:
    """Neighbouring settings whose figures should rise or fall."""
    start = f"{claim.parameter}="
    points = {
        word.removeprefix(start): row
        for row in rows
        for word in row.words
        if word.startswith(start) and claim.method in ("", row.method)
    }
    for settings in (claim.rising, claim.falling):
        for here, there in pairwise(filter(points.__contains__, settings)):
            first, second = points[here], points[there]
            for task in first.cells.keys() & second.cells.keys():
                before, after = shown(first.cells[task]), shown(second.cells[task])
                clause = f"{task} is {before} at {start}{here} and {after} at {start}{there}"
                pair = (second, first) if settings is claim.rising else (first, second)
                yield task, *pair, clause


def findings(
    printed: pd.DataFrame | None = None, claims: Sequence[Claim] | None = None
) -> list[Finding]:
    """All inconsistencies of the printed numbers, in the order of `FINDING_KINDS`, then of print.

    Args:
        printed: rows with the columns `bench.reported.COLUMNS`; those of the papers by default.
        claims: statements about their tables; those of the papers by default.
    """
    rows = read_rows(all_printed() if printed is None else printed)
    tables = [row for row in rows if not row.in_text]
    known = [
        *averages(rows), *scales(rows), *copies(rows), *labels(tables),
        *sweeps(tables), *mixed(tables), *splits(tables), *quoted_figures(rows),
        *statements(tables, load_claims() if claims is None else claims),
    ]  # fmt: skip
    known += differences(rows, tables, known)
    return sorted(known, key=lambda finding: [*FINDING_KINDS].index(finding.kind))
