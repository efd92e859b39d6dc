"""Names of tasks, groups of tasks, and the result tables of a suite."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.datasets.metrics import AGGREGATIONS as AGGREGATIONS
from bench.datasets.metrics import aggregated as aggregated
from bench.utils.errors import UserError, suggestion

STS_TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
TRANSFER_TASKS = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC")
# Of Conneau et al. (2018): task -> its file.
PROBING_FILES = {
    "Length": "sentence_length",
    "WordContent": "word_content",
    "Depth": "tree_depth",
    "TopConstituents": "top_constituents",
    "BigramShift": "bigram_shift",
    "Tense": "past_present",
    "SubjNumber": "subj_number",
    "ObjNumber": "obj_number",
    "OddManOut": "odd_man_out",
    "CoordinationInversion": "coordination_inversion",
}
PROBING_TASKS = tuple(PROBING_FILES)
# The same tasks on other sentences (X-Probe), without TopConstituents.
XPROBE_TASKS = tuple(f"xprobe-{task}" for task in PROBING_TASKS if task != "TopConstituents")
CHINESE_TASKS = ("CNSD-STS-B",)  # Chinese STS-B; not part of any average

# Prefixes of user-defined STS sets, described in the manifest of the data folder, and of
# user-defined probing tasks: the file probing/NAME.txt, with its sizes in the manifest.
OWN_STS, OWN_PROBING = "sts:", "probing:"

GROUPS = {
    "sts": STS_TASKS,
    "transfer": TRANSFER_TASKS,
    "probing": PROBING_TASKS,
    "all": (*STS_TASKS, *TRANSFER_TASKS, *PROBING_TASKS),
    "xprobe": XPROBE_TASKS,
    "chinese": CHINESE_TASKS,
}

# Tasks of the "Avg" that papers report, by metric.
AVERAGED = {"spearman": STS_TASKS, "accuracy": TRANSFER_TASKS}
WITH_SUBSETS = STS_TASKS[:5]  # tasks of several subsets
# The dev sets whose plain mean is "Avg. STS" on dev, as `avg_sts` in SimCSE's trainer.
DEV_AVERAGE = ("STS-B", "SICK-R")


@dataclass(frozen=True)
class Board:
    """A result table of a suite."""

    name: str  # part of the file names
    family: str  # short heading
    which: str  # names the tasks in a sentence
    tasks: tuple[str, ...]  # the columns
    metric: str  # shown for each task
    classifier: str = ""  # if the metric alone does not say it

    @property
    def title(self) -> str:
        """Description of the numbers."""
        measure = "Spearman x 100" if self.metric == "spearman" else "accuracy"
        return f"{measure} on {self.which}" + f", {self.classifier}" * bool(self.classifier)

    @property
    def overall(self) -> str:
        """The main column: the average, or the only task."""
        return "Avg" if len(self.tasks) > 1 else self.tasks[0]

    def is_in_print(self, task: str) -> bool:
        """Return whether papers have this column: their "Avg" is over the tasks of `AVERAGED`."""
        return task != "Avg" or AVERAGED.get(self.metric) == self.tasks


def _probing_boards(name: str, family: str, which: str, tasks: tuple[str, ...]) -> list[Board]:
    network = "tuned network with one hidden layer"
    return [
        Board(name, family, which, tasks, "accuracy", "logistic regression"),
        Board(f"{name}_mlp", f"{family}, network", which, tasks, "accuracy_mlp", network),
    ]


_BOARDS = [
    Board("sts", "STS", "seven STS tasks", STS_TASKS, "spearman"),
    Board("transfer", "Transfer", "seven transfer tasks", TRANSFER_TASKS, "accuracy"),
    *_probing_boards("probing", "Probing", "ten probing tasks", PROBING_TASKS),
    Board("xprobe", "X-Probe", "nine probing tasks of X-Probe", XPROBE_TASKS, "accuracy"),
    Board("chinese", "Chinese STS", "Chinese STS-B", CHINESE_TASKS, "spearman"),
]
BOARDS = {board.name: board for board in _BOARDS}


def boards_of(tasks: Iterable[str]) -> dict[str, Board]:
    """Return the tables of a suite by name: `BOARDS` and those of user-defined tasks."""
    tasks = list(dict.fromkeys(tasks))
    sts = tuple(task for task in tasks if task.startswith(OWN_STS))
    probing = tuple(task for task in tasks if task.startswith(OWN_PROBING))
    own = [
        Board("own_sts", "Own STS", "STS sets of its own", sts, "spearman"),
        *_probing_boards("own_probing", "Own probing", "probing tasks of its own", probing),
    ]
    return BOARDS | {board.name: board for board in own if board.tasks}


KNOWN_TASKS = (*GROUPS["all"], *XPROBE_TASKS, *CHINESE_TASKS)

# Name in papers -> name used here.
TASK_ALIASES = {
    **{"SICK15": "STS15", "SST": "SST2", "SST-2": "SST2", "MPRC": "MRPC", "Avg.": "Avg"},
    **{"SentLen": "Length", "TreeDepth": "Depth", "CoordInv": "CoordinationInversion"},
    **{"STSB": "STS-B", "STS-Benchmark": "STS-B", "SICKR": "SICK-R"},
}


def canonical_task(label: str) -> str:
    """Return the name of a task used here for a label in a paper."""
    return TASK_ALIASES.get(label, label)


def is_described(task: str) -> bool:
    """Return whether a task is an STS set described in a manifest: CNSD's or a user-defined one."""
    return task in CHINESE_TASKS or (task.startswith(OWN_STS) and task != OWN_STS)


def kind_of(task: str) -> str:
    """Return the table of the manifest that lists a task: "sts", "transfer" or "probing"."""
    if task in STS_TASKS or is_described(task):
        return "sts"
    return "transfer" if task in TRANSFER_TASKS else "probing"


def is_probing(task: str) -> bool:
    """Return whether a task is one of the ten probing tasks, or a user-defined one."""
    name = task.removeprefix(OWN_PROBING)
    return task in PROBING_TASKS or (name != task and re.fullmatch(r"\w[\w.-]*", name) is not None)


def expand_tasks(names: Sequence[str]) -> list[str]:
    """Expand names of tasks and groups to distinct tasks.

    Raises:
        UserError: unknown name.
    """
    names = [canonical_task(name.strip()) for name in names]
    known = (*GROUPS, *KNOWN_TASKS)
    for name in names:
        if not (name in known or is_described(name) or is_probing(name)):
            listed = "; ".join(map(", ".join, (GROUPS, STS_TASKS, TRANSFER_TASKS, PROBING_TASKS)))
            raise UserError(f"unknown task '{name}'{suggestion(name, known)} (known: {listed})")
    return list(dict.fromkeys(task for name in names for task in GROUPS.get(name, (name,))))


def scored_cells(tasks: Iterable[str]) -> set[tuple[str, str, str]]:
    """The (task, split, metric) that a scoring of tasks gives, with averages of complete groups.

    Sets that a manifest describes are taken to have a dev split.
    """
    tasks = set(tasks)
    of_kind = {"sts": ["spearman"], "transfer": ["accuracy"]}
    cells: set[tuple[str, str, str]] = set()
    for task in tasks:
        test_only = task in STS_TASKS and task not in DEV_AVERAGE
        splits = ("test",) if test_only else ("test", "dev")
        metrics = of_kind.get(kind_of(task), ["accuracy", "accuracy_mlp"])
        if task in WITH_SUBSETS:
            metrics = [aggregated("spearman", one) for one in ("all", *AGGREGATIONS)]
        cells |= {(task, split, metric) for split in splits for metric in metrics}
    if "MRPC" in tasks:
        cells.add(("MRPC", "test", "f1"))
    cells |= {("Avg", "test", metric) for metric, group in AVERAGED.items() if set(group) <= tasks}
    if ("Avg", "test", "spearman") in cells:
        cells |= {("Avg", "test", aggregated("spearman", one)) for one in AGGREGATIONS}
    if set(DEV_AVERAGE) <= tasks:
        cells.add(("Avg", "dev", "spearman"))
    return cells


def averages(scores: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """The papers' "Avg." by metric, of complete groups in `AVERAGED`.

    `scores` are points on the test split by (task, metric).
    """
    means = {
        metric: average_of_all([scores.get((task, metric)) for task in group])
        for metric, group in AVERAGED.items()
    }
    return {metric: mean for metric, mean in means.items() if mean is not None}


def average_of_all(values: Sequence[float | None]) -> float | None:
    """`average`, or None if a value is missing: averages of different tasks are not comparable."""
    present = [value for value in values if value is not None]
    return average(present) if len(present) == len(values) else None


def average(values: Sequence[float]) -> float:
    """The papers' "Avg.": the mean of values of two decimals (docs/methods.md#test-score)."""
    return sum(round(value, 2) for value in values) / len(values)


TASK_ORDER = [*GROUPS["all"], *GROUPS["xprobe"], *GROUPS["chinese"], "Avg"]
