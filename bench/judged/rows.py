"""The rows of a judged suite. Scores are in points; None is a number that does not exist.

A row holds what a table, a figure or the page needs of it, so that nothing is looked up again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from bench.datasets.metrics import OfMetric
from bench.datasets.tasks import Leaderboard
from bench.judged.verdicts import VERDICT_SYMBOLS, Pairing, PairVerdict, PrintedVerdict
from bench.utils.errors import listed
from bench.utils.files import stem
from bench.utils.validation import FileName, StrictModel

# A number; NaN, which does not equal itself, becomes None.
Known = Annotated[float | None, BeforeValidator(lambda value: value if value == value else None)]


def known(values: Iterable[float | None]) -> tuple[float, ...]:
    """The numbers that exist."""
    return tuple(value for value in values if value is not None)


NO_BACKBONE = "none"  # the name of the backbone of a system without one
OUTSIDE = " (outside encoder)"  # after the label of an encoder that the suite has not trained


class ScoreColumns(StrictModel):
    """Points of some runs, each once."""

    scores: tuple[float, ...]

    @property
    def n(self) -> int:
        return len(self.scores)

    @property
    def mean(self) -> float | None:
        return fmean(self.scores) if self.scores else None

    @property
    def sd(self) -> float | None:
        """The sample standard deviation (n - 1); None with fewer than two."""
        return stdev(self.scores) if self.n > 1 else None


# --- Printed numbers ---


class Verdict(StrictModel):
    """The verdict on a printed number with its basis. Numbers that are not judged have no
    tolerance; numbers without a test have none of the fields below it."""

    kind: PrintedVerdict
    reason: str = ""  # its basis as a sentence, or why there is no test
    next_look: int | None = None  # the seeds of the next look
    one_in: int | None = None  # of `consistent`: one run of ours in so many reaches the value
    tolerance: float | None = None  # in points
    within: bool | None = None  # whether our mean is within the tolerance; None while open
    half_width: float | None = None  # of the 98 % prediction interval
    mean_half_width: float | None = None  # of the 98 % interval of our mean
    p: float | None = None  # that a run of ours is as far from our mean as the printed value
    p_adjusted: float | None = None

    @property
    def mark(self) -> str:
        """The symbol with its number: `? 10`, the next look is at 10 seeds; `≈ 1/12`, one run in
        12."""
        number = f"1/{self.one_in}" if self.one_in else ""
        if self.kind == "open" and self.next_look:
            number = str(self.next_look)
        return f"{VERDICT_SYMBOLS[self.kind]} {number}".strip()

    @property
    def is_comparable(self) -> bool:
        """Whether it says something of the printed value: its scores can be compared, or a training
        diverged."""
        return self.kind not in ("not comparable", "not run")


class SideRow(ScoreColumns):
    """Our side of a printed number: the runs that it is compared with, their scores (one per seed
    of the look; for a printed difference, paired differences), and the verdict on them."""

    run: str  # their text, such as simcse@official
    measured_on: str  # their backbone; empty without runs
    deterministic: bool  # whether they have no seed
    verdict: Verdict

    @property
    def setting(self) -> str:
        return self.run.partition("@")[2]


class RunScores(StrictModel):
    """Runs behind a printed number, with the score of each."""

    name: str
    runs: tuple[str, ...]  # ids
    scores: tuple[float | None, ...]


class PrintedNumber(OfMetric, StrictModel):
    """The fields that a row has from its `bench.reported.number.Number`."""

    source: FileName
    table: str
    method: str
    backbone: str
    variant: str
    task: str
    split: str
    metric: str  # as printed
    aggregation: str  # how the subsets of a task are joined; empty for tasks without subsets
    value: float
    text: str  # `value` with the decimals that are printed, such as `46.70`
    quoted_from: str
    note: str  # a sentence for the caption of the table
    reason: str  # why there is no run; else empty
    run: str  # that it is compared with
    minus: str  # the run whose scores are subtracted
    our_split: str
    is_own: bool = False  # whether the suite's configuration has it


class NumberRow(PrintedNumber):
    """A printed number that measures something, with our scores."""

    place: int  # in the order of print
    address: str
    paper: str  # short name
    paper_title: str  # with its arXiv number
    row: str  # its name as printed
    label: str  # method and variant
    line: str  # of a sweep, the line that the row belongs to; empty in other tables
    command: str  # runs the row; empty without a run
    planned: bool  # whether every side is scored by a planned run
    ours: SideRow
    other: SideRow | None = None  # of the method's other setting
    published: str = ""  # the run of the checkpoint that the paper quotes
    checkpoint: SideRow | None = None  # its scores
    difference: Known  # our mean - printed value
    runs: tuple[RunScores, ...] = ()

    @property
    def stem(self) -> str:
        """Of the names of its table's files, and of the table's figure."""
        return f"{self.source}_{stem(self.table)}"

    @property
    def sides(self) -> list[SideRow]:
        return [side for side in (self.ours, self.other, self.checkpoint) if side]

    @property
    def is_comparable(self) -> bool:
        """Whether any of our sides can be compared with it."""
        return any(side.verdict.is_comparable for side in self.sides)


class SettingRow(StrictModel):
    """A printed hyper-parameter."""

    place: int  # in the order of print
    paper: str  # short name
    source: str
    table: str
    label: str  # method and variant
    backbone: str
    reason: str  # why there is no run


class Score(ScoreColumns):
    """The points of a system on a task, or their average: one per draw that has all scores
    (`RunResults.draws`)."""

    task: str


class QuotedRow(StrictModel):
    """Scores of a method of another paper, as printed, and ours beside them without a verdict."""

    leaderboard: str
    backbone: str
    name: str
    quoted_from: str
    printed: dict[str, str]  # by task
    setting: str = ""  # of our runs that are comparable; empty without any
    n: int = 0
    ours: tuple[Score, ...] = ()


class WorldRow(StrictModel):
    """A score of a run of the toy data beside the score of the reference machine."""

    run: str
    backbone: str
    seed: int | None
    task: str
    metric: str
    number: float  # of the reference machine
    score: Known
    tolerance: float
    verdict: Verdict


# --- Systems ---


class SystemRow(StrictModel):
    """A system on a leaderboard, with its difference from the baseline of the suite."""

    leaderboard: str
    backbone: str
    label: str
    method: str
    setting: str
    corpus: str  # empty if it is not trained
    name: str  # label and setting, and whether it has seen test sentences
    labelled: bool  # whether it is trained with labels
    outside: bool  # whether the suite has not trained it
    own: bool  # whether it is a user's own method, which has no setting
    n: int  # finished seeds, or templates; without either, seeds of the classifiers
    over_templates: bool  # whether it is a mean over templates
    remark: str  # why runs have no scores, and what share of test items has sentences in the corpus
    seen: Known  # percent of the test items of all tasks with a sentence in the corpus
    on_unseen: Known  # mean of the averages on items without a sentence in the corpus
    in_dev: Known  # percent of the test items of all tasks in the dev set
    on_rest: Known  # mean of the averages on items in neither the dev set nor the corpus
    runs: tuple[str, ...]  # ids
    run_averages: tuple[float | None, ...]  # of each run, over the planned tasks
    averages: tuple[float, ...]  # over the planned tasks, by draw
    scores: tuple[Score, ...]  # of each task of the leaderboard, and their average
    is_baseline: bool = False
    difference: float | None = None
    half_width: float | None = None  # of the interval of the difference
    margin: float | None = None  # of the claim
    verdict: PairVerdict | None = None
    progress: str = ""  # whether its claim is late; of an open claim, how many seeds have results
    reason: str = ""  # the basis of the verdict as a sentence

    @property
    def plain_label(self) -> str:
        """The label as tables show it where no setting stands beside it."""
        return f"{self.label}{OUTSIDE}" if self.outside else self.label

    def score(self, task: str) -> Score:
        return next(score for score in self.scores if score.task == task)


# --- Pairs ---


class PrintedGain(StrictModel):
    """A printed number of a method, with the number of the baseline from the same table."""

    source: str
    table: str
    printed_on: str  # backbone
    printed_a: float
    # Without a number of the baseline, the fields below are None.
    printed_b: float | None = None
    gain: Known = None  # their difference
    part: Known = None  # our difference / `gain`
    part_low: Known = None  # ends of its 98 % interval
    part_high: Known = None


class PairRow(StrictModel):
    """A method (A) against a baseline (B) on one task of a leaderboard, or its `Avg`; of a claim,
    at its look."""

    leaderboard: FileName
    backbone: str
    method: str
    setting: str
    task: str
    label: str
    name: str
    outside: bool
    labelled: bool
    runs: tuple[str, ...]  # ids of A
    baseline: str
    baseline_name: str  # label and setting
    kind: Pairing
    n: int  # pairs, or seeds of A beside classifier seeds of B
    items: int | None  # number of test items, where they decide
    mean_a: float | None
    sd_a: float | None
    mean_b: float | None
    sd_b: float | None
    differences: tuple[float, ...]  # one per pair
    difference: Known
    half_width: Known  # of the interval: 98 %, over items 95 %
    p: Known  # two-sided, of the hypothesis that the difference is 0
    family: int | None = None  # of the claim; None without one
    margin: float | None = None
    planned: int | None = None  # N
    next_look: int | None = None  # the seeds of the next look
    progress: str = ""  # whether its claim is late; of an open claim, how many seeds have results
    p_adjusted: Known = None  # `p` by Holm's method
    p_below: Known = None  # by Holm's method, of a gain of the margin or more
    verdict: PairVerdict | None = None
    reason: str = ""  # the basis of the verdict as a sentence
    printed: tuple[PrintedGain, ...]

    @property
    def text(self) -> str:
        """Method and setting, as configurations name them."""
        return f"{self.method}@{self.setting}"

    @property
    def plain_label(self) -> str:
        return f"{self.label}{OUTSIDE}" if self.outside else self.label


# --- Figures ---


class FigureRow(StrictModel):
    """A figure of a paper with our data."""

    stem: FileName  # of its file names
    heading: str
    drawn: str  # as in figures.yaml
    x: str  # labels of the axes
    y: str
    columns: int  # the most panels in a row
    note: str  # how it was measured
    remarks: tuple[str, ...]  # sentences on missing series and on differences from the paper
    # A column per name, an entry per point. `backbone` is the printed one; `origin` is "ours",
    # "printed" or "released log"; `x` is a number on lines, the text of a tick on points, and the
    # column of a cell, with `y` for its row and `token` for its name. `at` is what the seeds of a
    # line have in common, if not x; `kept` says whether a point is of a kept checkpoint; the mean
    # of `score` is written at the end of a line. Further columns: `panel`, `series`, `run`,
    # `measured_on`, `seed`, `value`.
    points: dict[str, list[Any]]


# --- Runs ---


class Analysis(StrictModel):
    """A result of an analysis that the page shows as a table."""

    name: str
    result: dict[str, Any]
    missing: str = ""  # why there is no result


class RunRow(StrictModel):
    """A planned run, where its results come from, and how its training went."""

    id: FileName
    title: str  # name, backbone and seed
    text: str
    backbone: str
    setting: str
    seed: int | None
    trained: bool
    status: str  # "finished", "diverged", "skipped", or "missing"
    reason: str  # why it did not finish
    date: str | None
    steps: int | None
    best_step: int | None
    best_dev: float | None
    seconds: float | None  # of its training
    scoring_seconds: float | None
    origin: dict[str, Any]  # the provenance of its scores, as their file has it
    curve: dict[str, list[Any]]  # by name of a column, a value per selection; `step` is one
    analyses: tuple[Analysis, ...]


# --- The suite ---


class LeaderboardRow(StrictModel):
    """A result table of the suite."""

    whole: Leaderboard
    planned: Leaderboard  # with only the tasks that a run is planned for

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def columns(self) -> list[str]:
        """The planned tasks, and the average if the leaderboard has several tasks and all are
        planned."""
        tasks = self.planned.tasks
        return [*tasks, "Avg"] if tasks == self.whole.tasks and len(tasks) > 1 else [*tasks]

    @property
    def overall(self) -> str:
        """The column that sums it up: the average, else the first task."""
        return "Avg" if "Avg" in self.columns else self.columns[0]

    @property
    def summary(self) -> list[str]:
        """The columns that a comparison of two systems shows: the average, else all tasks."""
        return ["Avg"] if "Avg" in self.columns else self.columns


class Heading(StrictModel):
    """What tables, figures and page say of the suite."""

    suite: str  # its name
    setting: str = ""  # of most runs
    mode: str  # of the classifiers
    config: str  # what `sentbench run` takes for it
    baseline: str  # empty if nothing is compared with it
    baseline_name: str
    baseline_has_seeds: bool
    uncompared: str  # why there are no pairs although there is a baseline
    leaderboards: tuple[LeaderboardRow, ...]
    stand_ins: tuple[str, ...]  # backbones that stand in for printed ones
    # How data, corpora and recipes differ from those of papers, as clauses.
    differs: tuple[str, ...]
    partial: str  # how many runs have been made; empty if all
    claims: str  # how many, with how many seeds
    families: int  # number of families of claims

    @property
    def is_compared(self) -> bool:
        """Whether there are pairs with its baseline."""
        return bool(self.baseline) and not self.uncompared

    @property
    def about_names(self) -> str:
        """What `short` leaves out, as a sentence."""
        return f"Settings are {self.setting} unless a name says otherwise."

    def short(self, name: str) -> str:
        """The name of a system without the setting of most runs."""
        # Labels are free text, and may hold the word.
        return re.sub(rf", {self.setting}(?= \(has seen|$)", "", name) if self.setting else name

    def leaderboard(self, name: str) -> LeaderboardRow:
        return next(leaderboard for leaderboard in self.leaderboards if leaderboard.name == name)

    def incomparable(self, backbones: Iterable[str]) -> str:
        """Why scores on some backbones are not comparable with papers; empty if they are."""
        measured = sorted(set(self.stand_ins) & set(backbones))
        parts = [f"measured on {listed(measured)}"] if measured else []
        text = ", ".join([*parts, *self.differs])
        end = ". Do not compare these numbers with any paper."
        return f"{text[0].upper()}{text[1:]}{end}" if text else ""

    def remark_on(self, backbones: Iterable[str]) -> str:
        """`partial`, and `incomparable` for some backbones."""
        return f"{self.partial} {self.incomparable(backbones)}".strip()


class Judged(StrictModel):
    """A judged suite."""

    suite: Heading
    numbers: tuple[NumberRow, ...] = ()  # in the order of print
    settings: tuple[SettingRow, ...] = ()  # in the order of print
    quoted: tuple[QuotedRow, ...] = ()
    world: tuple[WorldRow, ...] = ()
    systems: tuple[SystemRow, ...] = ()  # by leaderboard, the best average of a backbone first
    pairs: tuple[PairRow, ...] = ()
    series: tuple[FigureRow, ...] = ()
    runs: tuple[RunRow, ...] = ()  # in the order of the plan
    # The folder of the suite, if there is one: what is computed on demand reads its results.
    folder: Path | None = Field(default=None, exclude=True)

    def __repr_args__(self) -> Iterable[tuple[str, str]]:
        """Its name alone: a notebook prints what ends a cell."""
        return [("suite", self.suite.suite)]

    def leaderboard_systems(self, name: str) -> list[SystemRow]:
        return [row for row in self.systems if row.leaderboard == name]
