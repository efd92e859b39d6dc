"""The plan of a suite, `plan.json`, as data: its runs and what they have in common.

It knows nothing of the methods and backbones that runs name (`bench.runs.run`), so that judging
loads neither.
"""

import json
import operator
import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from functools import cached_property
from itertools import count, product
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import ConfigDict, Field, SerializeAsAny, field_validator, model_validator

from bench.datasets.metrics import is_points
from bench.datasets.tasks import expand_tasks
from bench.runs import STAGES
from bench.utils.errors import UserError, counted, listed, suggestion
from bench.utils.files import sha256_text, write_json
from bench.utils.validation import Document, FileName, StrictModel, read_document

# Recipe fields that change the cost of a training, not its scores.
NEUTRAL_CHANGES = {"threads", "precision"}

# Fewer seeds give a warning: with 3, two degrees of freedom estimate the standard deviation.
USUAL_SEEDS = 5


Part = tuple[str, int, dict[str, Any]]  # name of a method, its version, hyper-parameters


class PlannedRun(Document):
    """A run of a plan as data, the tasks or groups it is scored on, and the names of its analyses.
    `bench.runs.run.Run` adds what only a training needs."""

    model_config = ConfigDict(extra="ignore")

    # A readable name and the hash of the identity. The run's files are named after it.
    id: FileName
    method: str  # canonical text without the setting, e.g. `gs-infonce[multiple=1]+is-cse`
    setting: str  # "paper" or "official"
    label: str  # readable name for tables
    outside: bool = False  # whether it is an encoder that a configuration lists; it has no setting
    template: str = ""  # that sets it apart in its row, where an encoder has several
    parts: tuple[Part, ...] = ()  # the hyper-parameters are clamped to the backbone
    backbone: str  # its name in tables
    reference: str = ""  # name or path with which the backbone is loaded
    trained: bool = True  # whether there is a training
    labelled: bool = False  # whether it trains with human labels
    corpus: str = ""  # name or path of the training corpus; empty without a training
    own_corpus: bool = False  # whether the method always trains on this corpus
    data: str = ""  # name or path of the evaluation data
    seed: Annotated[int, Field(strict=True)] | None  # None without a training: nothing is drawn
    # Recipe fields with which the suite changes the method, or a run that it needs; and those of
    # these fields that a text overrides.
    recipe_changes: dict[str, Any] = {}
    overridden: dict[str, Any] = {}
    skip: str | None = None  # why this run is impossible on this backbone
    identity: dict[str, Any] = {}  # everything that affects the run's scores
    # Of a run in a plan; what another run needs has none.
    tasks: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    analyses: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    # The tasks and groups that were added for this seed after its row had a score, each with the
    # number of the addition; None if the plan with that number was lost.
    added: dict[str, int | None] = Field(default={}, exclude_if=operator.not_)

    @property
    def text(self) -> str:
        """Method and setting, as configurations name them."""
        return f"{self.method}@{self.setting}"

    @property
    def draw(self) -> int | str | None:
        """What sets it apart in its row: its seed, or its template; None if it is alone."""
        return self.template or self.seed

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the identity."""
        return sha256_text(json.dumps(self.identity, sort_keys=True))

    @property
    def row(self) -> tuple[str, ...]:
        """What the runs of one system share. Versions are no part of it: in tables an old and a new
        version of a method are one experiment."""
        changes = sorted(self.recipe_changes.items())
        return self.text, self.backbone, self.corpus, repr(changes)

    @property
    def place(self) -> tuple[object, ...]:
        """Its row and what sets it apart there: no two runs of a plan share both."""
        return self.row, self.draw

    @property
    def additions(self) -> dict[str, int | None]:
        """Its tasks, each with the number of its addition: 0 if it was planned before its row had a
        score."""
        numbers: dict[str, int | None] = dict.fromkeys(expand_tasks(self.tasks), 0)
        for name, number in self.added.items():
            numbers |= dict.fromkeys(numbers.keys() & expand_tasks([name]), number)
        return numbers

    @property
    def stages(self) -> list[str]:
        """The stages that it goes through, in the order of `bench.runs.STAGES`."""
        has = {"train": self.trained, "score": True, "analyse": bool(self.analyses)}
        return [stage for stage in STAGES if has[stage]]


AnyRun = TypeVar("AnyRun", bound=PlannedRun)


def deviations(runs: Iterable[PlannedRun]) -> list[str]:
    """The differences of runs from the trainings of papers, as clauses."""
    trained = [run for run in runs if run.seed is not None]
    corpora = {run.corpus for run in trained if not run.own_corpus} - {"wiki1m"}
    fields = {key for run in trained for key in run.recipe_changes} - NEUTRAL_CHANGES
    clauses = []
    if corpora:
        clauses.append(f"trained on {listed(sorted(corpora))}")
    if fields:
        clauses.append(f"recipe changed ({', '.join(sorted(fields))})")
    return clauses


class Claim(StrictModel):
    """That a method gains over the baseline on a backbone, in the average of a leaderboard;
    recorded before the first score."""

    method: str  # text with the setting, as of the baseline
    backbone: str
    # Of the method's training. A method that is tuned further is another claim.
    corpus: str = ""
    recipe_changes: dict[str, Any] = {}
    baseline: str
    margin: float  # points; a gain may be shown to be below it
    leaderboards: list[str] = []  # none: every leaderboard
    # Claims that are corrected together. Claims that are added after a score form a new family.
    family: int = 1
    dropped: bool = False  # it keeps counting in its family

    @property
    def key(self) -> str:
        """What makes it the same claim in a later plan."""
        return self.model_dump_json(exclude={"family", "dropped"})

    def is_on(self, leaderboard: str) -> bool:
        return not self.leaderboards or leaderboard in self.leaderboards

    def is_of(self, run: PlannedRun) -> bool:
        """Whether it is of a run's training. Claims of the first plans state none."""
        training = run.corpus, run.recipe_changes
        return not self.corpus or (self.corpus, self.recipe_changes) == training


class PrintedRow(StrictModel):
    """A row of the file `printed` of a configuration: a printed number, and the runs of the suite
    that it is compared with."""

    method: str
    """a method of the suite, as in `methods`, or the label of an encoder"""
    backbone: str = "none"
    """as in tables; by default `none`, as of encoders"""
    task: str
    """a task of the suite, or `Avg`"""
    value: Decimal
    """in points, with the printed decimals"""
    split: Literal["test", "dev"] = "test"
    """`test`, by default, or `dev`"""
    metric: Literal["spearman", "accuracy"] = "spearman"
    """`spearman`, by default, or `accuracy`"""
    source: FileName = "printed"
    """the paper, in a word; by default `printed`"""
    table: str = "Table 1"
    """by default `Table 1`"""

    @field_validator("value")
    @classmethod
    def _in_points(cls, value: Decimal) -> Decimal:
        if not is_points(value):
            raise ValueError(f"'value' should be in points, such as 76.25, not {value}")
        return value


class PlannedNumber(PrintedRow):
    """A printed number that a configuration adds."""

    run: str  # method and setting that it is compared with


class Plan(Document, Generic[AnyRun]):
    """The content of plan.json. Judging reads its runs as data, `Plan[PlannedRun]`; what makes them
    as `Plan[Run]`."""

    model_config = ConfigDict(extra="ignore")

    # Its name. Runs by hand have the name of their folder, which may have any letters.
    suite: str = Field(pattern="^[^/]*$")
    data: str  # evaluation data
    corpus: str = ""  # training corpus of methods that do not fix one
    tasks: list[str] = []  # tasks and groups of the suite
    mode: Literal["test", "dev"] = "test"  # of the classifiers
    stand_ins: dict[str, str] = {}  # by printed backbone, the suite's backbone that replaces it
    # Method and setting that others are compared with; empty if they are not.
    baseline: str = ""
    keep_encoders: bool = True
    claims: list[Claim] = []
    # They may change after a score: others have printed them, so nobody could choose them by our
    # scores.
    printed: list[PlannedNumber] = Field(default=[], exclude_if=operator.not_)
    runs: list[SerializeAsAny[AnyRun]]  # in the order in which they are made
    # Runs of an earlier plan whose row had a score. They count as planned seeds.
    dropped: list[SerializeAsAny[AnyRun]] = []

    @model_validator(mode="after")
    def _distinct_runs(self) -> Self:
        """Refuse a seed that is planned twice: some tables would count it once, others twice.
        Identities are not compared, since tables take two versions of a method as one."""
        ids: dict[tuple[object, ...], str] = {}
        for run in self.runs:
            place = run.place
            if place in ids:
                raise ValueError(
                    f"'{ids[place]}' and '{run.id}' are one experiment with one seed, {run.draw}"
                )
            ids[place] = run.id
        return self

    def after(self, path: Path, lost: bool = False) -> Self:
        """This plan after an earlier one at `path`. Looks take the seeds that were planned before
        the first score, then the added ones, and claims are corrected together; so what was planned
        stays planned. If the earlier plan is `lost`, no seed of a row with scores counts.

        `UserError`: there are scores, and their plan cannot be read; or it can, and is said to be
        lost.
        """
        scored_ids = {file.stem for file in (path.parent / "scores").glob("*.json")}
        if not lost:
            if not (scored_ids or path.is_file()):
                return self
            return _grown(self, read_as(type(self), path), scored_ids)
        try:
            read_plan(path)
        except UserError:
            runs = [
                run.model_copy(update={"added": dict.fromkeys(run.tasks)})
                for run in self.runs
                if run.id in scored_ids
            ]
            return _grown(self, self.model_copy(update={"runs": runs}), scored_ids)
        raise UserError(f"{path} can be read, so it is not lost; leave out --lost")

    def write(self, path: Path, lost: bool = False) -> Self:
        """Write the plan `after` the one at `path`, and its copy; return it."""
        plan = self.after(path, lost)
        for file in (path, _copy(path)):
            write_json(file, plan.model_dump(mode="json"))
        return plan

    @property
    def claims_in_short(self) -> str:
        """How many gains are claimed, with how many seeds that were planned before a score, and how
        many claims were dropped. Seeds that were added count at no first look."""
        seeds: dict[tuple[str, ...], set[object]] = defaultdict(set)
        for run in self.runs:
            for task, number in run.additions.items():
                if number == 0:
                    seeds[run.text, run.backbone, task].add(run.seed)
        claims = [claim for claim in self.claims if not claim.dropped]
        counts = set()
        for claim, task in product(claims, {task for *_, task in seeds}):
            of_method = seeds[claim.method, claim.backbone, task]
            pairs = of_method & seeds[claim.baseline, claim.backbone, task]
            counts.add(len(pairs or of_method))  # a baseline without training has no seeds
        counts.discard(0)  # of tasks that the method is not scored on
        parts = []
        if counts:
            seed_counts = listed(map(str, sorted(counts)))
            parts += [counted(len(claims), "claim"), f"seeds planned for both sides: {seed_counts}"]
            if min(counts) < USUAL_SEEDS:
                parts.append(f"with fewer than {USUAL_SEEDS} a look decides next to nothing")
        dropped_count = len(self.claims) - len(claims)
        if dropped_count:
            parts.append(counted(dropped_count, "dropped claim"))
        return "; ".join(parts)

    def chosen(self, ids: Sequence[str] = ()) -> list[AnyRun]:
        """The runs with these ids, by default all.

        They are ordered by seed, so that an interrupted suite has some seeds of each method. A run
        still follows those that it needs, which have its seed.
        """
        unknown = set(ids) - {run.id for run in self.runs}
        if unknown:
            raise UserError(
                f"the plan has no run '{min(unknown)}'; write the plan again, or leave it out"
            )
        runs = [run for run in self.runs if not ids or run.id in ids]
        return sorted(runs, key=lambda run: run.seed or 0)


AnyPlan = TypeVar("AnyPlan", bound=Plan)


def _copy(path: Path) -> Path:
    """The copy of a plan, which is evidence that no other file of a suite has."""
    return path.with_stem(f"{path.stem}.copy")


def add_by_hand(plan: Plan, path: Path) -> bool:
    """Write a plan of runs that no configuration names, with the earlier ones at `path`; False if
    the plan there is a configuration's, or of other data or another mode."""
    if path.exists():
        earlier = read_as(type(plan), path)
        # A configuration has tasks.
        if earlier.tasks or (earlier.data, earlier.mode) != (plan.data, plan.mode):
            return False
        runs = {run.place: run for run in (*earlier.runs, *plan.runs)}
        plan = plan.model_copy(update={"runs": [*runs.values()]})
    plan.write(path)
    return True


def _grown(plan: AnyPlan, earlier: AnyPlan, scored: AbstractSet[str]) -> AnyPlan:
    """A plan after an earlier one, of which some runs are scored. A row is open to a look once one
    of its runs has a score. From then on tasks that the plan adds for a seed are `added`, and runs
    that it lacks are `dropped`."""
    before = [*earlier.dropped, *earlier.runs]
    open_rows = {run.row for run in earlier.runs if run.id in scored or run.added}
    open_rows |= {run.row for run in earlier.dropped}
    if not open_rows:
        return plan
    additions: dict[tuple[object, ...], dict[str, int | None]] = defaultdict(dict)
    compared: dict[tuple[str, ...], set[str]] = defaultdict(set)  # tasks by row
    for run in before:
        additions[run.place] |= run.additions
        compared[run.row].update(run.additions)
    numbers = [number or 0 for by_task in additions.values() for number in by_task.values()]
    next_number = count(max(numbers) + 1)
    runs = []
    for run in plan.runs:
        if run.row in open_rows:
            number, by_task = next(next_number), additions[run.place]
            # No score of a new task could be seen: it is planned, not added.
            tasks = [task for task in expand_tasks(run.tasks) if task in compared[run.row]]
            added = {task: by_task.get(task, number) for task in tasks if by_task.get(task) != 0}
            run = run.model_copy(update={"added": added})
        runs.append(run)
    # A planned seed that is left out because of its score would bias the looks, so it stays.
    planned_tasks = {(run.place, task) for run in runs for task in expand_tasks(run.tasks)}
    dropped_runs = []
    for run in before:
        counted_tasks = {
            (run.place, task) for task, number in run.additions.items() if number is not None
        }
        if run.row in open_rows and not counted_tasks <= planned_tasks:
            dropped_runs.append(run)
    update = {"runs": runs, "dropped": dropped_runs, "claims": _claims(plan.claims, earlier.claims)}
    return plan.model_copy(update=update)


def _claims(claims: Sequence[Claim], earlier: Sequence[Claim]) -> list[Claim]:
    """Earlier claims, some of them dropped, then the new ones as a family. A claim that was dropped
    is still corrected for: leaving out a lost claim would make the others look better."""
    new_claims = {claim.key: claim for claim in claims}
    all_claims = []
    for claim in earlier:
        is_dropped = new_claims.pop(claim.key, None) is None
        all_claims.append(claim.model_copy(update={"dropped": is_dropped}))
    family = max((claim.family for claim in earlier), default=0) + 1
    return [
        *all_claims,
        *(claim.model_copy(update={"family": family}) for claim in new_claims.values()),
    ]


def read_plan(path: Path) -> Plan[PlannedRun]:
    """Read the `plan.json` of a suite, as data."""
    return read_as(Plan[PlannedRun], path)


def read_as(kind: type[AnyPlan], path: Path) -> AnyPlan:
    """Read a plan whose runs are of this kind."""
    # The user restores it: a choice of the wrong plan would change which verdicts can be given.
    copied = shlex.join(["cp", str(_copy(path)), str(path)])
    remedy = (
        f"restore it with: {copied}; if that is lost, too, write it again, with all seeds of rows "
        f"with scores counted as added, with: {plan_command(path)} --lost"
    )
    if path.exists():
        return read_document(path, kind, "a plan", remedy)
    folder = path.parent
    if any(folder.glob("scores/*.json")):
        raise UserError(f"{path} does not exist, and there are scores; {remedy}")
    hint = suggestion(folder.name, (plan.parent.name for plan in folder.parent.glob("*/plan.json")))
    # The user may have left out `results/`, or have named a folder in a suite.
    for suite in (Path("results", folder.name), folder.parent):
        if (suite / path.name).exists():
            hint = f"; did you mean '{suite}'?"
    hint = hint or "; name another folder, or run the suite with: sentbench run FILE.yaml"
    raise UserError(f"{path} does not exist{hint}")


def plan_command(path: Path) -> str:
    """The shell command that writes a plan."""
    return f"sentbench plan FILE.yaml --out {shlex.quote(str(path))}"
