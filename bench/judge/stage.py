"""The stage of judging: rows from the suite's folder where they are fresh, else judged in memory.

Nothing is imported at the top that loads torch or scipy: reading fresh rows needs neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.judged import store
from bench.judged.rows import Judged, PairRow
from bench.utils.errors import UserError, did_you_mean, listed

if TYPE_CHECKING:
    from bench.runs.plan import Plan


def read_suite(suite_dir: Path | str) -> Judged:
    """The rows of a suite; `UserError` if there is no plan, or a file is damaged."""
    folder = Path(suite_dir)
    return store.read(folder, store.key_of(folder)) or _judged(folder)


def _judged(folder: Path) -> Judged:
    from bench.judge.judge import judge
    from bench.results import suite_results

    return judge(suite_results.read_suite(folder)).model_copy(update={"folder": folder})


def write_rows(suite_dir: Path) -> None:
    """Judge a suite and write its rows, as the workflow does."""
    key = store.key_of(suite_dir)  # before anything is read
    store.write(_judged(suite_dir), suite_dir, key)


def planned(plans: Sequence[Plan]) -> Judged:
    """The rows of plans, as one suite in which nothing has run; without plans of print alone."""
    from bench.judge.judge import judge
    from bench.results.suite_results import NOT_SCORED, RunResults, SuiteResults
    from bench.runs.plan import Plan

    runs = [RunResults(run, "missing", NOT_SCORED, "", {}) for plan in plans for run in plan.runs]
    whole = Plan(suite="", data="senteval", runs=[])
    if plans:
        whole = plans[0].model_copy(update={"suite": listed(plan.suite for plan in plans)})
    return judge(SuiteResults(whole, runs))


def planned_names(folder: Path, text: str) -> set[tuple[str, str]]:
    """Method and setting of the planned runs that a text names (`bench.runs.plan.named`)."""
    from bench.runs.plan import named, read_plan

    return {(run.method, run.setting) for run in named(text, read_plan(folder / "plan.json").runs)}


def compared(
    judged: Judged, baseline: str = "", methods: Sequence[str] = (), backbones: Sequence[str] = ()
) -> list[PairRow]:
    """The comparisons of a suite with its baseline or another one, of some methods on some
    backbones; by default of all. The family of Holm's correction is all of them in any case."""
    from bench.judge.pairs import against, find
    from bench.results.suite_results import read_suite as read_results

    heading = judged.suite
    baseline = baseline or heading.baseline
    if not baseline:
        raise UserError(f"suite {heading.suite} has no baseline; name one with --baseline")
    assert judged.folder is not None
    results = read_results(judged.folder)
    side_b = find(results, baseline)
    pairs = list(judged.pairs)
    if not pairs or pairs[0].baseline != side_b.text:
        pairs = against(results, baseline)
    planned = list(dict.fromkeys(run.backbone for run in judged.runs))
    for name in backbones:
        if name not in planned:
            hint = did_you_mean(name, planned)
            raise UserError(f"backbone '{name}' is not in suite {heading.suite}{hint}")
    names = list(backbones) or planned
    sides = {}
    for text in methods:
        side_a = find(results, text)
        if side_a.text == side_b.text:
            raise UserError(f"'{side_a.text}' would be compared with itself; pass another baseline")
        if not any(side_a.on(name) and side_b.on(name) for name in names):
            raise UserError(
                f"'{side_a.text}' and '{side_b.text}' are both planned on none of "
                f"{', '.join(names)}; pass others"
            )
        sides[side_a.method, side_a.setting] = side_a
    chosen = [
        pair
        for pair in pairs
        if pair.backbone in names and (not sides or (pair.method, pair.setting) in sides)
    ]
    if not chosen:
        raise UserError(
            f"suite {heading.suite} has no scores to compare with '{side_b.text}' on "
            f"{', '.join(names)}; run its missing runs first, or pass others"
        )
    return chosen
