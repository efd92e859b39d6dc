"""The tasks: their files and sizes, their groups, and the result tables of a suite.

A new task is one entry of `TASKS`. The papers' averages are over the groups "sts" and "transfer",
so a further set belongs in a group of its own, with a heading in `_HEADINGS`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import fmean

from bench.datasets.metrics import AGGREGATIONS, METRICS, aggregated, metrics_of
from bench.utils.errors import UserError, suggestion

# Protocols: cosines of pairs, or a classifier with nested k-fold cross-validation over all samples,
# with k-fold cross-validation over "train", or with the fixed parts "train" and "dev"; for probing
# these with a second classifier, a network.
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
    # The file of a part below the data folder: {split} stands for its name, or what `names` has
    # instead.
    path: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)  # pairs or samples by part
    names: Mapping[str, str] = field(default_factory=dict)
    # How a file is read:
    #   "table"    a part, in `columns`: one or two sentences, then the gold score or label
    #   "subsets"  a subset of pairs; the gold scores are in the file STS.gs beside STS.input
    #   "classes"  the sentences of one label in latin-1, that of label 1 first
    #   "trec"     a part in latin-1: LABEL:fine, a space, the sentence
    #   "parts"    all parts: tr, va or te; label; ...; sentence
    reader: str = "table"
    columns: Sequence[int] = (0, 1)  # counted from 0
    separator: str = "\t"
    header: bool = False
    even: bool = False  # whether all rows have equally many fields
    quoted: bool = False  # whether fields may stand in double quotes
    range: tuple[float, float] = (0, 5)  # of gold scores
    labels: Sequence[str] = ()  # in the order of their numbers; else those of training, sorted
    aliases: Sequence[str] = ()  # names in papers
    # Accuracy in points of the most frequent class in test, as the sole prediction.
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
_ZERO_ONE = ("0", "1")


def _year(name: str, sizes: Mapping[str, int], *aliases: str) -> Task:
    path = f"downstream/STS/{name}-en-test/STS.input.{{split}}.txt"
    return Task(name, "sts", PAIRS, path, sizes, reader="subsets", aliases=aliases)


def _polarity(name: str, file: str, positive: int, negative: int) -> Task:
    path, sizes = f"downstream/{file}.{{split}}", {"positive": positive, "negative": negative}
    return Task(
        name, "transfer", NESTED, path, sizes, {"positive": "pos", "negative": "neg"},
        reader="classes", labels=_ZERO_ONE,
        majority=Fraction(100 * max(positive, negative), positive + negative),
    )  # fmt: skip


def _probing(name: str, file: str, *aliases: str, classes: int = 2) -> Task:
    """A probing task, whose classes SentEval describes as balanced."""
    path, sizes = f"probing/{file}.txt", {"train": 100_000, "dev": 10_000, "test": 10_000}
    return Task(
        name, "probing", PROBING, path, sizes, reader="parts", aliases=aliases,
        majority=Fraction(100, classes),
    )  # fmt: skip


def _xprobe(name: str, file: str, size: int = 10_000) -> Task:
    """A probing task on other sentences, without a training part: "va" trains."""
    path, sizes = f"probing-xprobe-en/{file}/{{split}}.txt.gz", {"train": size, "test": size}
    return Task(f"xprobe-{name}", "xprobe", KFOLD, path, sizes, {"train": "va", "test": "te"})


_TASKS = [
    # SemEval-2012 task 6, test: 3108 pairs in 5 subsets (Agirre et al., 2012)
    _year("STS12", {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459,
                    "surprise.OnWN": 750, "surprise.SMTnews": 399}),
    # *SEM 2013 shared task, test without SMT, which LDC distributes and SentEval leaves out: 1500
    # pairs (Agirre et al., 2013)
    _year("STS13", {"FNWN": 189, "headlines": 750, "OnWN": 561}),
    # SemEval-2014 task 10, English test: 3750 pairs in 6 subsets (Agirre et al., 2014)
    _year("STS14", {"deft-forum": 450, "deft-news": 300, "headlines": 750,
                    "OnWN": 750, "images": 750, "tweet-news": 750}),
    # SemEval-2015 task 2, English test: 3000 annotated of 8500 pairs in 5 subsets (Agirre et al.,
    # 2015)
    _year("STS15", {"answers-forums": 375, "answers-students": 750, "belief": 375,
                    "headlines": 750, "images": 750}, "SICK15"),
    # SemEval-2016 task 1, English test: 1186 annotated of 9183 pairs in 5 subsets (Agirre et al.,
    # 2016)
    _year("STS16", {"answer-answer": 254, "headlines": 249, "plagiarism": 230,
                    "postediting": 244, "question-question": 209}),
    # SemEval-2017 task 1, STS benchmark: 8628 pairs (Cer et al., 2017)
    Task(
        "STS-B", "sts", PAIRS, "downstream/STS/STSBenchmark/sts-{split}.csv",
        {"train": 5749, "dev": 1500, "test": 1379},
        columns=(5, 6, 4), aliases=["STSB", "STS-Benchmark"],
    ),
    # SemEval-2014 task 1: 9927 pairs; dev is the file called trial (Marelli et al., 2014)
    Task(
        "SICK-R", "sts", PAIRS, "downstream/SICK/SICK_{split}.txt",
        {"train": 4500, "dev": 500, "test": 4927},
        names={"dev": "trial", "test": "test_annotated"},
        columns=(1, 2, 3), header=True, aliases=["SICKR"],
    ),
    _polarity("MR", "MR/rt-polarity", 5331, 5331),  # Pang and Lee, 2005
    _polarity("CR", "CR/custrev", 2407, 1368),  # Hu and Liu, 2004
    Task(  # Pang and Lee, 2004
        "SUBJ", "transfer", NESTED, "downstream/SUBJ/subj.{split}",
        {"objective": 5000, "subjective": 5000}, reader="classes", labels=_ZERO_ONE,
        majority=Fraction(50),
    ),
    _polarity("MPQA", "MPQA/mpqa", 3312, 7294),  # Wiebe et al., 2005
    Task(  # Socher et al., 2013
        "SST2", "transfer", SPLIT, "downstream/SST/binary/sentiment-{split}",
        {"train": 67349, "dev": 872, "test": 1821}, labels=_ZERO_ONE, aliases=["SST", "SST-2"],
        majority=Fraction(91_200, 1821),
    ),
    Task(  # Li and Roth, 2002
        "TREC", "transfer", KFOLD, "downstream/TREC/{split}.label", {"train": 5452, "test": 500},
        names={"train": "train_5500", "test": "TREC_10"},
        reader="trec", labels=("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"),
        majority=Fraction(13_800, 500),
    ),
    Task(  # Dolan et al., 2004
        "MRPC", "transfer", KFOLD, "downstream/MRPC/msr_paraphrase_{split}.txt",
        {"train": 4076, "test": 1725},
        columns=(3, 4, 0), header=True, labels=_ZERO_ONE, aliases=["MPRC"],
        majority=Fraction(114_700, 1725),
    ),
    # Conneau et al., 2018, in SentEval's data/probing
    _probing("Length", "sentence_length", "SentLen", classes=6),
    _probing("WordContent", "word_content", classes=1000),
    _probing("Depth", "tree_depth", "TreeDepth", classes=8),
    _probing("TopConstituents", "top_constituents", classes=20),
    _probing("BigramShift", "bigram_shift"),
    _probing("Tense", "past_present"),
    _probing("SubjNumber", "subj_number"),
    _probing("ObjNumber", "obj_number"),
    _probing("OddManOut", "odd_man_out"),
    _probing("CoordinationInversion", "coordination_inversion", "CoordInv"),
    # The English part of X-Probe (Ravishankar et al., 2019), sentences of another source
    _xprobe("Length", "sentence_length", 4998),
    _xprobe("WordContent", "word_content"),
    # Of tree depth only one part is published.
    Task(
        "xprobe-Depth", "xprobe", NESTED, "probing-xprobe-en/tree_depth/te.txt.gz", {"all": 10_000},
    ),
    _xprobe("BigramShift", "bigram_shift"),
    _xprobe("Tense", "past_present"),
    _xprobe("SubjNumber", "subj_number"),
    _xprobe("ObjNumber", "obj_number"),
    _xprobe("OddManOut", "odd_man_out"),
    _xprobe("CoordinationInversion", "coordination_inversion"),
    # Chinese STS-B (CNSD), a translation of STS-B with integer scores: 8050 pairs, the files in
    # shuxinyin/SimCSE-Pytorch; not in the hub's archive
    Task(
        "CNSD-STS-B", "chinese", PAIRS, "downstream/CNSD-STS-B/cnsd-sts-{split}.txt",
        {"train": 5231, "dev": 1458, "test": 1361},
        columns=(1, 2, 3), separator="||", even=True, language="cmn-Hans",
    ),
]  # fmt: skip
TASKS = {task.name: task for task in _TASKS}
GROUPS: dict[str, tuple[str, ...]] = {}
for _task in _TASKS:
    GROUPS[_task.group] = (*GROUPS.get(_task.group, ()), _task.name)
STS_TASKS, TRANSFER_TASKS, PROBING_TASKS, XPROBE_TASKS, CHINESE_TASKS = GROUPS.values()
GROUPS["all"] = (*STS_TASKS, *TRANSFER_TASKS, *PROBING_TASKS)
WITH_SUBSETS = tuple(task.name for task in _TASKS if task.has_subsets)
# Tasks of the "Avg" that papers report, by metric.
AVERAGED = {name: GROUPS[metric.average] for name, metric in METRICS.items() if metric.average}
# The dev sets whose plain mean is "Avg. STS" on dev, as `avg_sts` in SimCSE's trainer.
DEV_AVERAGE = ("STS-B", "SICK-R")

Key = tuple[str, str, str]  # task, split, metric, of a score
# The averages that papers report, each with the scores whose mean it is. STS-B and SICK-R have no
# subsets, so they enter means over subsets with their only score.
AVERAGES: dict[Key, list[Key]] = {
    ("Avg", "test", metric): [(task, "test", metric) for task in group]
    for metric, group in AVERAGED.items()
}
for _metric in (aggregated("spearman", mean) for mean in AGGREGATIONS):
    AVERAGES["Avg", "test", _metric] = [
        (task, "test", _metric if task in WITH_SUBSETS else "spearman") for task in STS_TASKS
    ]
AVERAGES["Avg", "dev", "spearman"] = [(task, "dev", "spearman") for task in DEV_AVERAGE]
ALIASES = {alias: task.name for task in _TASKS for alias in task.aliases} | {"Avg.": "Avg"}


def is_task(name: str) -> bool:
    """Return whether this is the name of a task, which may be user-defined."""
    own = re.fullmatch(rf"{OWN_STS}.+|{OWN_PROBING}\w[\w.-]*", name)
    return name in TASKS or own is not None


def task_of(name: str) -> Task:
    """The task of a name; only a manifest knows sizes and STS files of a user-defined one."""
    if name.startswith(OWN_STS):
        return Task(name, "own_sts", PAIRS, language=_UNKNOWN)
    if name.startswith(OWN_PROBING):
        path = f"probing/{name.removeprefix(OWN_PROBING)}.txt"
        return Task(
            name, "own_probing", PROBING, path, reader="parts", even=True, language=_UNKNOWN
        )
    return TASKS[name]


def expand_tasks(names: Sequence[str]) -> list[str]:
    """Expand names of tasks and groups to distinct tasks."""
    names = [ALIASES.get(name.strip(), name.strip()) for name in names]
    for name in names:
        if name not in GROUPS and not is_task(name):
            listed = "; ".join(map(", ".join, (GROUPS, STS_TASKS, TRANSFER_TASKS, PROBING_TASKS)))
            raise UserError(
                f"unknown task '{name}'{suggestion(name, (*GROUPS, *TASKS))} (known: {listed})"
            )
    return list(dict.fromkeys(task for name in names for task in GROUPS.get(name, (name,))))


# --- Result tables


@dataclass(frozen=True)
class Board:
    """A result table of a suite."""

    name: str  # part of the file names
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


def boards_of(tasks: Iterable[str]) -> dict[str, Board]:
    """Return the tables of a suite by name: of all groups and of user-defined tasks, one for each
    metric that all tasks of a group have."""
    groups: dict[str, list[Task]] = {group: [] for group in _HEADINGS}
    for task in map(task_of, dict.fromkeys([*TASKS, *tasks])):
        groups[task.group].append(task)
    boards = {}
    for group, members in groups.items():
        for metric, entry in METRICS.items():
            if members and all(metric in metrics_of(task.protocol, task.name) for task in members):
                family, subject = _HEADINGS[group]
                classifier = entry.classifier if members[0].protocol == PROBING else ""
                boards[group + entry.suffix] = Board(
                    group + entry.suffix, family + entry.heading, subject,
                    tuple(task.name for task in members), metric, classifier,
                )  # fmt: skip
    return boards


BOARDS = boards_of(())


# --- Scores and their averages


def scored_cells(tasks: Iterable[str]) -> set[Key]:
    """The cells that a scoring of tasks gives, with averages of complete groups; sets that a
    manifest describes are taken to have a dev split."""
    cells: set[Key] = set()
    for task in map(task_of, tasks):
        means = AGGREGATIONS if task.has_subsets else ()
        for name, metric in metrics_of(task.protocol, task.name).items():
            cells |= {(task.name, "test", aggregated(name, mean)) for mean in ("all", *means)}
            # SentEval gives F1 on the test part only.
            is_pairs = task.protocol == PAIRS
            if "dev" in (task.sizes or SPLITS) if is_pairs else not metric.formula:
                cells.add((task.name, "dev", name))
    return cells | {cell for cell, parts in AVERAGES.items() if cells.issuperset(parts)}


def averages(scores: Mapping[Key, float]) -> dict[Key, float]:
    """The `AVERAGES` of which all scores, points by cell, are there."""
    means = {}
    for cell, parts in AVERAGES.items():
        values = [scores[part] for part in parts if part in scores]
        if len(values) == len(parts):
            means[cell] = fmean(values) if "dev" in cell else average(values)
    return means


def average_of_all(values: Sequence[float | None]) -> float | None:
    """`average`, or None if a value is missing: averages of different tasks are not comparable."""
    present = [value for value in values if value is not None]
    return average(present) if len(present) == len(values) else None


def average(values: Sequence[float]) -> float:
    """The papers' "Avg.": the mean of values of two decimals (docs/methods.md#test-score)."""
    return sum(round(value, 2) for value in values) / len(values)
