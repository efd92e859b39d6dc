"""The tasks: their files and sizes, their groups, and the result tables of a suite.

A new task is one entry of tasks.toml. The papers' averages are over the groups "sts" and
"transfer", so a further set belongs in another group, with a heading in `_HEADINGS`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from statistics import fmean

from bench.datasets.metrics import AGGREGATIONS, METRICS, Cell, metrics_of
from bench.utils.errors import UserError, suggestion
from bench.utils.files import read_toml
from bench.utils.validation import FileName

# Protocols: cosines of pairs, or a classifier. The weight decay of a classifier is selected by
# nested k-fold cross-validation over all samples, by k-fold cross-validation over "train", or on a
# fixed "dev". Probing selects on a fixed "dev", and has a second classifier, a network.
PAIRS, NESTED, KFOLD, SPLIT, PROBING = "pairs", "nested", "kfold", "split", "probing"

SPLITS = ("train", "dev", "test")  # of an STS set
# Prefixes of user-defined STS sets, described in the manifest of the data folder, and of
# user-defined probing tasks: the file probing/NAME.txt, with its sizes in the manifest.
OWN_STS, OWN_PROBING = "sts:", "probing:"


@dataclass(frozen=True)
class Task:
    """A set of labelled sentences or pairs, its files and how they are read."""

    name: str
    group: str
    protocol: str
    source: str = ""  # the data set and its paper
    # The file of a split below the data folder. {split} stands for the name of the split, or for
    # the name that `names` has for it.
    path: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)  # pairs or samples by split
    names: Mapping[str, str] = field(default_factory=dict)
    # How a file is read:
    #   "table"    a split, in `columns`: one or two sentences, then the gold score or label
    #   "subsets"  a subset of pairs; the gold scores are in the file STS.gs beside STS.input
    #   "classes"  the sentences of one label in latin-1; the file of label 1 is the first
    #   "trec"     a split in latin-1: LABEL:fine, a space, the sentence
    #   "parts"    all splits: tr, va or te; label; ...; sentence
    reader: str = "table"
    columns: Sequence[int] = (0, 1)  # counted from 0
    separator: str = "\t"
    header: bool = False
    even: bool = False  # whether all rows have equally many fields
    quoted: bool = False  # whether fields may stand in double quotes
    range: tuple[float, float] = (0, 5)  # of gold scores
    labels: Sequence[str] = ()  # in the order of their numbers; empty: the sorted labels of train
    aliases: Sequence[str] = ()  # names in papers
    # Accuracy in points of the most frequent class in test, as the sole prediction; 0: unknown.
    majority: Fraction = Fraction(0)
    language: str = "eng-Latn"  # ISO 639-3 code and script

    @property
    def kind(self) -> str:
        """The table of a manifest that lists the task: "sts", "transfer" or "probing"."""
        if self.protocol == PAIRS:
            return "sts"
        return "probing" if self.path.startswith("probing") else "transfer"

    @property
    def has_subsets(self) -> bool:
        return self.reader == "subsets"

    @property
    def has_dev(self) -> bool:
        """Whether it is a set of pairs on which trainings can select their weights."""
        return self.protocol == PAIRS and not self.has_subsets

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits of a set of pairs."""
        return ("test",) if self.has_subsets else tuple(self.sizes)

    def file(self, part: str) -> str:
        return self.path.replace("{split}", self.names.get(part, part))


_UNKNOWN = "und-Zyyy"  # language


def _read_table() -> dict[str, Task]:
    tasks = {}
    for family in read_toml(Path(__file__).with_suffix(".toml"))["families"]:
        for name, values in family.pop("tasks").items():
            # The values of a task come last, since they replace the values of its family.
            fields = {"majority": "0", **family, **values}
            # A fraction, since the audit compares it exactly with a printed decimal.
            fields["majority"] = 100 * Fraction(fields["majority"])
            tasks[name] = Task(name, **fields)
    return tasks


TASKS = _read_table()
GROUPS: dict[str, tuple[str, ...]] = {}
for _task in TASKS.values():
    GROUPS[_task.group] = (*GROUPS.get(_task.group, ()), _task.name)
# The groups are in the order in which tasks.toml has their families.
STS_TASKS, TRANSFER_TASKS, PROBING_TASKS, XPROBE_TASKS, CHINESE_TASKS = GROUPS.values()
# SentEval's tasks alone.
GROUPS["all"] = (*STS_TASKS, *TRANSFER_TASKS, *PROBING_TASKS)
WITH_SUBSETS = tuple(task.name for task in TASKS.values() if task.has_subsets)
# Tasks of the "Avg" that papers report, by metric.
AVERAGED = {name: GROUPS[metric.average] for name, metric in METRICS.items() if metric.average}
# The dev sets whose plain mean is "Avg. STS" on dev, as `avg_sts` in SimCSE's trainer.
DEV_AVERAGE = ("STS-B", "SICK-R")

# The averages that papers report, each with the scores whose mean it is. STS-B and SICK-R have no
# subsets, so they enter means over subsets with their only score.
AVERAGES: dict[Cell, list[Cell]] = {
    Cell("Avg", "test", metric): [Cell(task, "test", metric) for task in group]
    for metric, group in AVERAGED.items()
}
for _mean in AGGREGATIONS:
    AVERAGES[Cell("Avg", "test", "spearman", _mean)] = [
        Cell(task, "test", "spearman", _mean if task in WITH_SUBSETS else "all")
        for task in STS_TASKS
    ]
AVERAGES[Cell("Avg", "dev", "spearman")] = [Cell(task, "dev", "spearman") for task in DEV_AVERAGE]
# Tasks by their names, and those in papers, in small letters.
SPELLINGS = {
    name.lower(): task.name for task in TASKS.values() for name in (task.name, *task.aliases)
}


def is_task(name: str) -> bool:
    """Return whether this is the name of a task, which may be user-defined."""
    return name in TASKS or bool(re.fullmatch(rf"({OWN_STS}|{OWN_PROBING})\w[\w.-]*", name))


def task_of(name: str) -> Task:
    """The task of a name; only a manifest knows sizes and STS files of a user-defined one."""
    if name.startswith(OWN_STS):
        return Task(name, "own_sts", PAIRS, language=_UNKNOWN)
    if name.startswith(OWN_PROBING):
        path = f"probing/{name.removeprefix(OWN_PROBING)}.txt"
        return Task(
            name, "own_probing", PROBING, path=path, reader="parts", even=True, language=_UNKNOWN
        )
    return TASKS[name]


def expand_tasks(names: Sequence[str]) -> list[str]:
    """Expand names of tasks and groups to distinct tasks."""
    names = [SPELLINGS.get(name.strip().lower(), name.strip()) for name in names]
    for name in names:
        if name not in GROUPS and not is_task(name):
            listed = "; ".join(map(", ".join, (GROUPS, STS_TASKS, TRANSFER_TASKS, PROBING_TASKS)))
            raise UserError(
                f"unknown task '{name}'{suggestion(name, (*GROUPS, *TASKS))} (known: {listed})"
            )
    return list(dict.fromkeys(task for name in names for task in GROUPS.get(name, (name,))))


# --- Result tables


@dataclass(frozen=True)
class Leaderboard:
    """A result table of a suite."""

    name: FileName  # part of the file names
    family: str  # short heading
    subject: str  # names the tasks in a sentence
    tasks: tuple[str, ...]  # the columns
    metric: str  # shown for each task
    classifier: str = ""  # if the metric alone does not say it

    @property
    def title(self) -> str:
        """Description of the numbers."""
        measure = METRICS[self.metric].title
        return ", ".join(filter(None, [f"{measure} on {self.subject}", self.classifier]))

    @property
    def overall(self) -> str:
        """The main column: the average, or the only task."""
        return "Avg" if len(self.tasks) > 1 else self.tasks[0]

    def cells(self, task: str) -> list[Cell]:
        """The scores whose mean stands in a column: one score, or for "Avg" the scores of all
        tasks."""
        tasks = self.tasks if task == "Avg" else (task,)
        return [Cell(name, "test", self.metric) for name in tasks]

    def is_in_print(self, task: str) -> bool:
        """Return whether papers have this column: their "Avg" is over the tasks of `AVERAGED`."""
        return task != "Avg" or AVERAGED.get(self.metric) == self.tasks


# Heading of a group's table, and its tasks in a sentence.
_HEADINGS = {
    "sts": ("STS", "seven STS tasks"),
    "transfer": ("Transfer", "seven transfer tasks"),
    "probing": ("Probing", "ten probing tasks"),
    "xprobe": ("X-Probe", "nine probing tasks of X-Probe"),
    "chinese": ("Chinese STS", "Chinese STS-B"),
    "own_sts": ("Own STS", "STS sets of its own"),
    "own_probing": ("Own probing", "probing tasks of its own"),
}


def leaderboards_of(tasks: Iterable[str]) -> dict[str, Leaderboard]:
    """Return the tables of a suite by name: of all groups and of user-defined tasks, one for each
    metric that all tasks of a group have."""
    groups: dict[str, list[Task]] = {group: [] for group in _HEADINGS}
    for task in map(task_of, dict.fromkeys([*TASKS, *tasks])):
        groups[task.group].append(task)
    leaderboards = {}
    for group, members in groups.items():
        for metric, entry in METRICS.items():
            if members and all(metric in metrics_of(task.protocol, task.name) for task in members):
                family, subject = _HEADINGS[group]
                classifier = entry.classifier if members[0].protocol == PROBING else ""
                leaderboards[group + entry.suffix] = Leaderboard(
                    group + entry.suffix, family + entry.heading, subject,
                    tuple(task.name for task in members), metric, classifier,
                )  # fmt: skip
    return leaderboards


LEADERBOARDS = leaderboards_of(())


# --- Scores and their averages


def scored_cells(tasks: Iterable[str]) -> set[Cell]:
    """The cells that a scoring of tasks gives, with averages of complete groups; sets that a
    manifest describes are taken to have a dev split."""
    cells: set[Cell] = set()
    for task in map(task_of, tasks):
        means = AGGREGATIONS if task.has_subsets else ()
        for name, metric in metrics_of(task.protocol, task.name).items():
            cells |= {Cell(task.name, "test", name, mean) for mean in ("all", *means)}
            # Pairs have a dev score where the set has a dev split. Of classifiers, accuracies have
            # one; SentEval gives F1, which has a formula, on the test split only.
            is_pairs = task.protocol == PAIRS
            if "dev" in (task.sizes or SPLITS) if is_pairs else not metric.formula:
                cells.add(Cell(task.name, "dev", name))
    return cells | {cell for cell, parts in AVERAGES.items() if cells.issuperset(parts)}


def averages(scores: Mapping[Cell, float]) -> dict[Cell, float]:
    """The `AVERAGES` of which all scores, points by cell, are there."""
    means = {}
    for cell, parts in AVERAGES.items():
        if scores.keys() >= {*parts}:
            values = [scores[part] for part in parts]
            # Dev averages select checkpoints and are not rounded
            # (docs/reference/protocol.md#selection).
            means[cell] = fmean(values) if cell.split == "dev" else average(values)
    return means


def average(values: Sequence[float]) -> float:
    """The papers' "Avg.": the mean of values of two decimals
    (docs/reference/protocol.md#sts)."""
    # As princeton-nlp/SimCSE@49fa580:evaluation.py:187-188, which averages the figures that it
    # prints.
    return sum(round(value, 2) for value in values) / len(values)
