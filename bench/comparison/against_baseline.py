"""Methods of a suite compared with a baseline, paired by seed, and the printed gains over it.

`against` is the only path from a suite to these comparisons: tables and figures show what it
returns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pandas as pd

from bench.comparison import paired
from bench.comparison.paired import Scores
from bench.comparison.statistics import mean_and_sd
from bench.comparison.verdict import TOLERANCES, tolerance
from bench.datasets.tasks import Board
from bench.reported import prior_sd
from bench.reported.number import Number, numbers
from bench.results.records import is_outside
from bench.results.suite_results import RunResults, SuiteResults, diverged
from bench.runs.plan import named
from bench.runs.run import OUTSIDE
from bench.utils.errors import UserError, did_you_mean, errors_of


class NothingToCompare(UserError):
    """No method of a suite has scores beside those of the baseline."""


# The columns that identify a comparison.
IDENTITY = ["board", "backbone", "method", "setting", "task"]


@dataclass(frozen=True)
class Candidate:
    """A method of a suite in one setting, with its runs by backbone."""

    method: str
    setting: str
    label: str
    runs: dict[str, list[RunResults]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """As in configurations, with its setting: `simcse@official`. Of an outside encoder its
        label."""
        if is_outside(self.label):
            return self.label.removesuffix(OUTSIDE)
        return f"{self.method}@{self.setting}"

    def on(self, backbone: str) -> list[RunResults]:
        """Its runs on a backbone. A method without a backbone has the same runs on all of them."""
        return self.runs.get(backbone) or self.runs.get("none", [])


def candidates(suite: SuiteResults) -> list[Candidate]:
    """The methods that can be compared, in the order of the plan; of several corpora or recipes of
    one on a backbone the first."""
    by_name: dict[tuple[str, str], Candidate] = {}
    for run in suite.runs:
        name = run.plan.method, run.plan.setting
        candidate = by_name.setdefault(name, Candidate(*name, run.plan.label))
        runs = candidate.runs.setdefault(run.plan.backbone, [])
        if not runs or run.experiment == runs[0].experiment:
            runs.append(run)
    return list(by_name.values())


def find(suite: SuiteResults, text: str) -> Candidate:
    """The planned method that a text names (`bench.runs.plan`); without `@`, its official setting
    if that is planned."""
    planned = {(candidate.method, candidate.setting): candidate for candidate in candidates(suite)}
    plans = [runs[0].plan for candidate in planned.values() for runs in candidate.runs.values()]
    with errors_of(f"suite {suite.name}"):
        meant = [planned[plan.method, plan.setting] for plan in named(text, plans)]
    return min(meant, key=lambda candidate: candidate.setting != "official")


@dataclass
class Comparison:
    """A method against the baseline on one task."""

    row: dict[str, Any]  # names and statistics, a row of the first frame that `against` returns
    pair: paired.PairedDifferences
    diverged: str  # how many seeds diverged, as a clause; empty if none did


def _compare(
    board: Board, backbone: str, method: Candidate, baseline: Candidate, task: str
) -> Comparison | None:
    """None without scores of both sides, or of one if a training diverged, which is reported."""
    a, b = (_scores(side.on(backbone), board, task) for side in (method, baseline))
    clauses = [diverged(side.on(backbone), f" of {side.label}") for side in (method, baseline)]
    ended_badly = "; ".join(filter(None, clauses))
    if not (a and b) and not (ended_badly and (a or b)):
        return None
    is_sts = board.metric == "spearman"
    allowed = tolerance(TOLERANCES["untrained" if is_sts else "transfer"], task)
    prior = prior_sd(backbone, task) if is_sts and board.is_in_print(task) else None
    pair = paired.pair_scores(a, b, tolerance=allowed, prior_sd=prior)
    mean_a, sd_a = _paired_mean_and_sd(a, b)
    mean_b, sd_b = _paired_mean_and_sd(b, a)
    low, high = pair.improvement_interval
    row = {
        "board": board.name,
        "backbone": backbone,
        "method": method.method,
        "setting": method.setting,
        "task": task,
        "label": method.label,
        "baseline": baseline.text,
        "kind": pair.kind,
        "n": pair.n,
        "n_a": len(a),
        "n_b": len(b),
        "mean_a": mean_a,
        "sd_a": sd_a,
        "mean_b": mean_b,
        "sd_b": sd_b,
        "differences": pair.differences,
        "difference": pair.mean,
        "half_width": pair.half_width,
        "improvement": pair.improvement,
        "improvement_low": low,
        "improvement_high": high,
        "permutation_p": pair.permutation_p,
        "p": pair.p_value,
    }
    return Comparison(row, pair, ended_badly)


def _scores(runs: Sequence[RunResults], board: Board, task: str) -> Scores:
    points = {run.plan.seed: run.points(board, task) for run in runs}
    return {seed: value for seed, value in points.items() if value is not None}


def _paired_mean_and_sd(scores: Scores, beside: Scores) -> tuple[float, float]:
    """Mean and standard deviation of the scores that are paired with one of the other method."""
    if not (None in scores or None in beside):
        scores = {seed: score for seed, score in scores.items() if seed in beside}
    return mean_and_sd(list(scores.values()))


# Columns of claims, and their types where empty cells would change them.
_CLAIM = [*IDENTITY, "source", "table", "printed_on", "printed_a", "printed_b", "claimed"]
_CLAIM += ["part", "part_low", "part_high", "comparable", "seeds_claimed"]
_CLAIM_TYPES = dict.fromkeys(_CLAIM[8:14], "float") | {"seeds_claimed": "Int64"}

# (method, backbone in the suite, task, metric) -> printed scores
Printed = dict[tuple[str, str, str, str], list[Number]]


def _printed(suite: SuiteResults) -> Printed:
    """The printed scores of a suite's methods, each for both settings of its method."""
    printed: Printed = {}
    for number in numbers():
        if number.split == "test" and number.run:
            method, backbone = number.run.partition("@")[0], number.our_backbone
            for name in {backbone, suite.stand_ins.get(backbone, backbone)}:
                key = (method, name, number.task, number.metric)
                printed.setdefault(key, []).append(number)
    return printed


def _share_table(a: Number, b: Number) -> bool:
    """Whether two printed numbers share a table and, if both have one, a backbone."""
    either_without = "none" in (a.our_backbone, b.our_backbone)
    same_backbone = either_without or a.backbone == b.backbone
    return same_backbone and (a.source, a.table) == (b.source, b.table)


def _share_settings(a: Number, b: Number) -> bool:
    """Whether two printed numbers agree in every setting that both state, as in `bs=64, cls`."""
    stated: dict[str, str] = {}
    pieces = [*a.variant.split(", "), *b.variant.split(", ")]
    settings = [piece.split("=", 1) for piece in pieces if "=" in piece]
    return all(stated.setdefault(name, value) == value for name, value in settings)


def _claims(
    suite: SuiteResults, compared: Comparison, level: float, printed: Printed
) -> list[dict[str, Any]]:
    """The printed numbers of a comparison, as rows of the second frame that `against` returns."""
    row, board = compared.row, suite.boards[compared.row["board"]]
    if not board.is_in_print(row["task"]):
        return []
    numbers_a, numbers_b = (
        printed.get((method, row["backbone"], row["task"], board.metric))
        or printed.get((method, "none", row["task"], board.metric), [])
        for method in (row["method"], row["baseline"].partition("@")[0])
    )
    claims = []
    for a in numbers_a:
        beside = [b for b in numbers_b if _share_table(a, b)]
        rows = [number for number in numbers_a if _share_table(number, a)]
        if any(_share_settings(*both) for both in product(rows, beside)):
            beside = [b for b in beside if _share_settings(a, b)]
        # Otherwise the table is a sweep, and our two runs differ in the swept setting just as the
        # printed rows do.
        pairs: Sequence[Number | None] = beside or [None]
        for b in pairs:
            claimed = a.value - b.value if b else None
            # The seeds that did not diverge would be a biased sample.
            part, low, high = compared.pair.part_of(0.0 if compared.diverged else claimed or 0.0)
            claims.append({name: row[name] for name in IDENTITY} | {
                "source": a.source,
                "table": a.table,
                "printed_on": a.backbone,
                "printed_a": a.value,
                "printed_b": b.value if b else None,
                "claimed": claimed,
                "part": part,
                "part_low": low,
                "part_high": high,
                "comparable": not suite.remark,
                "seeds_claimed": compared.pair.seeds_for(claimed, level) if claimed else None,
            })  # fmt: skip
    # A number of A alone adds nothing if a table prints both.
    return [claim for claim in claims if claim["claimed"] is not None] or claims


def _methods(
    suite: SuiteResults, baseline: Candidate, texts: Sequence[str], backbones: Sequence[str]
) -> Iterable[Candidate]:
    """The methods to compare: those that are named, each once, or all others than the baseline."""
    methods: dict[str, Candidate] = {}
    for method in [find(suite, text) for text in texts] or candidates(suite):
        if texts and method.text == baseline.text:
            raise UserError(f"'{method.text}' would be compared with itself; pass another baseline")
        on_both = any(method.on(name) and baseline.on(name) for name in backbones)
        if texts and not on_both:
            raise UserError(
                f"'{method.text}' and '{baseline.text}' are both planned on none of "
                f"{', '.join(backbones)}; pass others"
            )
        if on_both and method.text != baseline.text:
            methods[method.text] = method
    return methods.values()


def against(
    suite: SuiteResults, baseline: str, methods: Sequence[str] = (), backbones: Sequence[str] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare methods of a suite with `baseline`, each on the backbones that it shares with it;
    without names all that are planned.

    Returns:
        Two frames, in points. The first has a row for each board, backbone, method and task (or
        `Avg`) that both have scores on: the columns of `_compare`, and its verdict. The families of
        Holm's correction are, per board, its overall scores and its single tasks.

        The second has a row for each printed number of a method, with that of the baseline from the
        same table: `claimed` is their difference, `part` ours / `claimed` (NaN if that is 0 or a
        seed diverged), `seeds_claimed` the seeds that would show it.
    """
    side_b = find(suite, baseline)
    planned = list(dict.fromkeys(run.plan.backbone for run in suite.runs))
    for name in backbones:
        if name not in planned:
            hint = did_you_mean(name, planned)
            raise UserError(f"backbone '{name}' is not in suite {suite.name}{hint}")
    names = list(dict.fromkeys(backbones)) or planned
    sides = _methods(suite, side_b, methods, names)
    comparisons: list[Comparison] = []
    families: dict[tuple[str, bool], list[Comparison]] = {}
    for board in suite.boards.values():
        for backbone, method in product(names, sides):
            # If neither side uses a backbone there is one comparison, not one per backbone.
            used = backbone == "none" or backbone in method.runs or backbone in side_b.runs
            if not (used and method.on(backbone) and side_b.on(backbone)):
                continue
            for task in dict.fromkeys((*board.tasks, board.overall)):
                compared = _compare(board, backbone, method, side_b, task)
                if compared:
                    comparisons.append(compared)
                    family = families.setdefault((board.name, task == board.overall), [])
                    family.append(compared)
    if not comparisons:
        raise NothingToCompare(
            f"suite {suite.name} has no scores to compare with '{side_b.text}' on "
            f"{', '.join(names)}; run its missing runs first, or pass another baseline"
        )
    printed, claims = _printed(suite), []
    for family in families.values():
        # The seeds that did not diverge would be a biased sample.
        tested = [compared.pair for compared in family if not compared.diverged]
        decisions, level = iter(paired.decide(tested)), paired.strictest_level(tested)
        for compared in family:
            if compared.diverged:
                decision = paired.Decision("undecided", compared.diverged)
            else:
                decision = next(decisions)
            compared.row |= {"p_adjusted": decision.p_adjusted, "verdict": decision.word}
            compared.row |= {"reason": decision.reason, "seeds": decision.seeds}
            claims += _claims(suite, compared, level, printed)
    rows = pd.DataFrame([compared.row for compared in comparisons]).astype({"seeds": "Int64"})
    return rows, pd.DataFrame(claims, columns=_CLAIM).astype(_CLAIM_TYPES)
