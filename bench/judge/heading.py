"""The heading of a suite: its leaderboards, its baseline, and how it differs from the papers."""

from collections.abc import Iterable, Sequence
from itertools import chain
from statistics import mode

from bench.judge.systems import shown_name
from bench.judged.rows import Heading, LeaderboardRow
from bench.results.suite_results import SuiteResults
from bench.results.system import FAILED, System
from bench.runs import SUITES
from bench.runs.plan import deviations


def differs(suite: SuiteResults) -> list[str]:
    """How data, corpora and recipes differ from those of papers, as clauses."""
    data = suite.plan.data
    if data == "senteval":
        return deviations([result.run for result in suite.runs])
    # On other data no score can be compared with papers, whatever the recipe.
    return [f"scored on {'the toy data' if data == 'world' else f'the data set {data}'}"]


def _partial(suite: SuiteResults) -> str:
    """How many runs have been made, and how many failed; empty if all have been made."""
    reasons = [result.reason for result in suite.runs if result.status == "missing"]
    if not reasons:
        return ""
    text = f"Partial: {len(suite.runs) - len(reasons)} of {len(suite.runs)} runs have been made"
    failed = reasons.count(FAILED)
    if failed:
        text += f", {failed} failed"
    return f"{text}."


def heading(
    suite: SuiteResults,
    leaderboards: Iterable[LeaderboardRow] = (),
    baseline: Sequence[System] = (),
    uncompared: str = "",
) -> Heading:
    """The heading of a suite, given its leaderboards, its baseline on each backbone, and why there
    are no pairs."""
    plan = suite.plan
    # A plan does not keep the path of a user's configuration, so commands show a placeholder.
    is_of_project = (SUITES / f"{plan.suite}.yaml").is_file()
    return Heading(
        suite=plan.suite,
        setting=mode([result.run.setting for result in suite.runs] or [""]),
        mode=plan.mode,
        config=plan.suite if is_of_project else "FILE.yaml",
        baseline=suite.baseline,
        baseline_name=shown_name([*chain(*(x.runs for x in baseline))]) if baseline else "",
        baseline_has_seeds=any(system.has_seeds for system in baseline),
        uncompared=uncompared,
        leaderboards=tuple(leaderboards),
        stand_ins=tuple(plan.stand_ins.values()),
        differs=tuple(differs(suite)),
        partial=_partial(suite),
        claims=plan.claims_in_short,
        families=max((claim.family for claim in plan.claims), default=0),
    )
