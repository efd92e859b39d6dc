"""The plan of a suite, `plan.json`: its runs and what they have in common; the runs of a text."""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import count, product
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from bench.datasets.tasks import expand_tasks
from bench.runs.resolve import parse, resolve, suite_recipe
from bench.runs.run import PlannedRun, Run
from bench.utils.errors import UserError, counted, did_you_mean, listed, suggestion
from bench.utils.files import write_json
from bench.utils.validation import Document, StrictModel, read_document

# Recipe fields that change the cost of a training, not its scores.
NEUTRAL_CHANGES = {"threads", "precision"}

USUAL_SEEDS = 5  # with 3, two degrees of freedom estimate the spread


def in_order(runs: Iterable[Run]) -> list[Run]:
    """Runs and those that they need, each once and after what it needs."""
    ordered: dict[str, Run] = {}
    for run in runs:
        for needed in (*in_order(run.needs.values()), run):
            ordered.setdefault(needed.id, needed)
    return list(ordered.values())


def deviations(runs: Iterable[Run]) -> list[str]:
    """How the trainings of runs differ from those of papers, as clauses."""
    trained = [run for run in runs if run.seed is not None]
    corpora = {run.corpus for run in trained if not run.own_corpus} - {"wiki1m"}
    changed = {key for run in trained for key in run.recipe_changes} - NEUTRAL_CHANGES
    clauses = []
    if corpora:
        clauses.append(f"trained on {listed(sorted(corpora))}")
    if changed:
        clauses.append(f"recipe changed ({', '.join(sorted(changed))})")
    return clauses


class Claim(StrictModel):
    """That a method gains over the baseline on a backbone, in the average of a board; recorded
    before the first score."""

    method: str  # text with the setting, as of the baseline
    backbone: str
    # Of the method's training. A method that is tuned further is another claim.
    corpus: str = ""
    recipe_changes: dict[str, Any] = {}
    baseline: str
    margin: float  # points; a gain may be shown to be below it
    boards: list[str] = []  # none: every board
    # Claims that are corrected together. Those that are added after a score are one of their own.
    family: int = 1
    dropped: bool = False  # it keeps counting in its family

    @property
    def key(self) -> str:
        """What makes it the same claim in a later plan."""
        return self.model_dump_json(exclude={"family", "dropped"})

    def is_on(self, board: str) -> bool:
        return not self.boards or board in self.boards

    def is_of(self, run: PlannedRun) -> bool:
        """Whether it is of a run's training. Claims of the first plans state none."""
        training = run.corpus, run.recipe_changes
        return not self.corpus or (self.corpus, self.recipe_changes) == training


class Plan(Document):
    """The content of plan.json."""

    model_config = ConfigDict(extra="ignore")

    # Its name; of runs by hand that of their folder, which may have any letters.
    suite: str = Field(pattern="^[^/]*$")
    data: str  # evaluation data
    corpus: str = ""  # training corpus of the methods that have none of their own
    tasks: list[str] = []  # tasks and groups of the suite
    mode: Literal["test", "dev"] = "test"  # of the classifiers
    stand_ins: dict[str, str] = {}  # the suite's backbones by the printed ones that they stand for
    baseline: str = ""  # the method that others are compared with; empty if they are not
    keep_encoders: bool = True
    claims: list[Claim] = []
    runs: list[PlannedRun]  # in the order in which they are made
    # Planned when a score of their row was there, and not any more. They count as planned seeds.
    dropped: list[PlannedRun] = []

    @model_validator(mode="after")
    def _distinct_runs(self) -> "Plan":
        """A run or seed that is planned twice would count once or twice by where one looks."""
        known: dict[tuple[object, ...], str] = {}
        for run in self.runs:
            # Identities are not compared: two versions of a method are one experiment in tables.
            key = run.row, run.draw
            if key in known:
                raise ValueError(
                    f"'{known[key]}' and '{run.id}' are one experiment with one seed, {run.draw}"
                )
            known[key] = run.id
        return self

    def after(self, path: Path, lost: bool = False) -> "Plan":
        """This plan after an earlier one at `path`. Looks are at the seeds that were planned before
        the first score, and at those that were added, in this order, and claims are corrected
        together; so what was planned stays planned. Of a plan that is `lost` no seed of a row with
        scores counts.

        `UserError`: there are scores, and their plan cannot be read; or it can, and is said to be
        lost.
        """
        scored = {file.stem for file in (path.parent / "scores").glob("*.json")}
        if not lost:
            return _grown(self, read_plan(path), scored) if scored or path.is_file() else self
        try:
            read_plan(path)
        except UserError:
            runs = [
                run.model_copy(update={"added": dict.fromkeys(run.tasks)})
                for run in self.runs
                if run.id in scored
            ]
            return _grown(self, self.model_copy(update={"runs": runs}), scored)
        raise UserError(f"{path} can be read, so it is not lost; leave out --lost")

    def write(self, path: Path, lost: bool = False) -> "Plan":
        """Write the plan `after` the one at `path`, and its copy; return it."""
        grown = self.after(path, lost)
        for file in (path, _copy(path)):
            write_json(file, grown.model_dump(mode="json"))
        return grown

    @property
    def claims_in_short(self) -> str:
        """How many gains are claimed, with how many seeds that were planned before a score, and how
        many claims were dropped."""
        seeds: dict[tuple[str, ...], set[object]] = defaultdict(set)
        for run in self.runs:
            for task, number in run.additions.items():
                if number == 0:
                    seeds[run.text, run.backbone, task].add(run.seed)
        claims = [claim for claim in self.claims if not claim.dropped]
        counts = set()
        for claim, task in product(claims, {task for *_, task in seeds}):
            own = seeds[claim.method, claim.backbone, task]
            counts.add(len(own & seeds[claim.baseline, claim.backbone, task]) or len(own))
        counts.discard(0)
        parts = []
        if counts:
            planned = listed(map(str, sorted(counts)))
            parts += [counted(len(claims), "claim"), f"seeds planned for both sides: {planned}"]
            if min(counts) < USUAL_SEEDS:
                parts.append(f"with fewer than {USUAL_SEEDS} a look decides next to nothing")
        dropped = len(self.claims) - len(claims)
        if dropped:
            parts.append(counted(dropped, "dropped claim"))
        return "; ".join(parts)

    def chosen(self, ids: Sequence[str] = ()) -> list[PlannedRun]:
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


def _copy(path: Path) -> Path:
    """The copy of a plan, which is evidence that no other file of a suite has."""
    return path.with_name(f"{path.stem}.copy{path.suffix}")


def add_by_hand(plan: Plan, path: Path) -> bool:
    """Write a plan of runs that no configuration names, with the earlier ones at `path`; False if
    the plan there is a configuration's, or of other data or another mode."""
    if path.exists():
        earlier = read_plan(path)
        # A configuration has tasks.
        if earlier.tasks or (earlier.data, earlier.mode) != (plan.data, plan.mode):
            return False
        runs = {(run.row, run.draw): run for run in (*earlier.runs, *plan.runs)}
        plan = plan.model_copy(update={"runs": [*runs.values()]})
    plan.write(path)
    return True


def _grown(plan: Plan, earlier: Plan, scored: AbstractSet[str]) -> Plan:
    """A plan after an earlier one, of which some runs are scored. In a row with scores, or that had
    some before, tasks that it adds for a seed are `added`, and runs that it lacks are `dropped`."""
    before = [*earlier.dropped, *earlier.runs]
    looked = {run.row for run in earlier.runs if run.id in scored or run.added}
    looked |= {run.row for run in earlier.dropped}
    if not looked:
        return plan
    known: dict[tuple[object, ...], dict[str, int | None]] = defaultdict(dict)
    compared: dict[tuple[str, ...], set[str]] = defaultdict(set)  # tasks by row
    for run in before:
        known[run.row, run.draw] |= run.additions
        compared[run.row].update(run.additions)
    numbers = [number or 0 for additions in known.values() for number in additions.values()]
    addition = count(max(numbers) + 1)
    runs = []
    for run in plan.runs:
        if run.row in looked:
            number = next(addition)
            added: dict[str, int | None] = {}
            for task, own in run.additions.items():
                if task in compared[run.row]:
                    own = known[run.row, run.draw].get(task, number)
                if own != 0:
                    added[task] = own
            run = run.model_copy(update={"added": added})
        runs.append(run)
    planned = {(run.row, run.draw, task) for run in runs for task in expand_tasks(run.tasks)}
    dropped = []
    for run in before:
        counted = [task for task, number in run.additions.items() if number is not None]
        if run.row in looked and any((run.row, run.draw, task) not in planned for task in counted):
            dropped.append(run)
    update = {"runs": runs, "dropped": dropped, "claims": _claims(plan.claims, earlier.claims)}
    return plan.model_copy(update=update)


def _claims(claims: Sequence[Claim], earlier: Sequence[Claim]) -> list[Claim]:
    """Earlier claims, of which some are dropped, and those that are new, as a family."""
    wanted = {claim.key: claim for claim in claims}
    grown = []
    for claim in earlier:
        is_dropped = wanted.pop(claim.key, None) is None
        grown.append(claim.model_copy(update={"dropped": is_dropped}))
    family = max((claim.family for claim in earlier), default=0) + 1
    return [*grown, *(claim.model_copy(update={"family": family}) for claim in wanted.values())]


def read_plan(path: Path) -> Plan:
    """Read the `plan.json` of a suite."""
    # Neither is done unasked, since the answer decides which verdicts can be given.
    copied = shlex.join(["cp", str(_copy(path)), str(path)])
    remedy = (
        f"restore it with: {copied}; if that is lost, too, write it again, with all seeds of rows "
        f"with scores counted as added, with: {plan_command(path)} --lost"
    )
    if path.exists():
        return read_document(path, Plan, "a plan", remedy)
    folder = path.parent
    if any(folder.glob("scores/*.json")):
        raise UserError(f"{path} does not exist, and there are scores; {remedy}")
    hint = suggestion(
        folder.name, (found.parent.name for found in folder.parent.glob("*/plan.json"))
    )
    # A suite without `results/` before it, or a folder of a suite.
    for suite in (Path("results", folder.name), folder.parent):
        if (suite / path.name).exists():
            hint = f"; did you mean '{suite}'?"
    hint = hint or "; name another folder, or run the suite with: python -m bench run FILE.yaml"
    raise UserError(f"{path} does not exist{hint}")


def plan_command(path: Path) -> str:
    """The shell command that writes a plan."""
    return f"python -m bench plan --config FILE.yaml --out {shlex.quote(str(path))}"


def named(text: str, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The runs whose method, and setting if the text has one, a text names.

    An outside encoder is named by its label. Any other run is named by its method, or by its label:
    in upper or lower case, and without what it has in parentheses if that is clear. In methods,
    spaces, the order of keys and ingredients, the spelling of numbers, and keys that change nothing
    make no difference. A run of a method or backbone that is not here any more is named as in the
    plan. `UserError` gives the nearest names.
    """
    labels = {run.label for run in runs if run.outside}
    if text in labels:
        return [run for run in runs if run.outside and run.label == text]
    plain = text.strip().lower()
    labelled = [run for run in runs if run.label.lower() == plain]
    if not labelled:
        labelled = [run for run in runs if run.label.partition(" (")[0].lower() == plain]
        if len({run.method for run in labelled}) > 1:
            labelled = []
    try:
        _, setting = parse(text)
    except UserError:
        if labelled:
            return labelled
        if labels:
            raise UserError(f"'{text}' is not planned{did_you_mean(text, labels)}") from None
        raise
    method = text.strip().removesuffix(f"@{setting}")
    candidates = [run for run in runs if setting in (None, run.setting)]
    chosen = [run for run in candidates if run.method == method]
    if not chosen:
        same: dict[tuple[str, str], bool] = {}  # the seeds of a run have one text
        for run in candidates:
            name = run.text, run.backbone
            if name not in same:
                same[name] = _would_be(method, run)
            if same[name]:
                chosen.append(run)
    if chosen or labelled:
        return chosen or labelled
    texts = {run.text if setting else run.method for run in runs}
    raise UserError(f"'{text}' is not planned{did_you_mean(text, texts | labels)}")


def named_row(text: str, runs: Sequence[PlannedRun]) -> PlannedRun:
    """A run of the planned method that a text names; without `@`, of its official setting if that
    is planned, and of several corpora or recipes one that is comparable with print."""
    return min(
        named(text, runs), key=lambda run: (run.setting != "official", bool(deviations([run])))
    )


def _would_be(method: str, planned: PlannedRun) -> bool:
    """Tell whether a method's text would be this run if it were planned instead of it."""
    try:
        run = resolve(
            f"{method}@{planned.setting}",
            backbone_name=planned.reference or planned.backbone,
            corpus="wiki1m",  # the text does not depend on it, nor on data and seed
            data="senteval",
            seed=planned.seed,
            recipe=suite_recipe(planned),
        )
    except UserError:  # it is not possible in this setting or on this backbone
        return False
    return run.method == planned.method
