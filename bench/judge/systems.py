"""The systems of a suite on its leaderboards: their scores over seeds, the shares of test items
that they have seen, and their order."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from math import inf
from statistics import fmean
from typing import Any

from bench.datasets.metrics import REST, UNSEEN
from bench.datasets.tasks import Leaderboard, expand_tasks, leaderboards_of
from bench.judged.rows import NO_BACKBONE, OUTSIDE, LeaderboardRow, PairRow, Score, SystemRow, known
from bench.results.suite_results import SuiteResults
from bench.results.system import RunResults, System, first_scored
from bench.runs.plan import PlannedRun
from bench.utils.errors import counted, listed


def leaderboard_rows(suite: SuiteResults) -> list[LeaderboardRow]:
    """The tables of the suite's tasks. Some may hold no system."""
    planned = expand_tasks([task for result in suite.runs for task in result.run.tasks])
    rows = []
    for leaderboard in leaderboards_of(planned).values():
        tasks = tuple(task for task in leaderboard.tasks if task in planned)
        planned_leaderboard = leaderboard
        # The usual subject, such as "seven STS tasks", would be wrong of a part of them.
        if tasks and tasks != leaderboard.tasks:
            planned_leaderboard = replace(leaderboard, tasks=tasks, subject=listed(tasks))
        rows.append(LeaderboardRow(whole=leaderboard, planned=planned_leaderboard))
    return rows


def is_own(run: PlannedRun) -> bool:
    """Whether a run is of a user's own method, for which the setting "paper" would be wrong."""
    # In the identity of a run, a user's method has a fourth entry: the checksum of its file.
    has_file = any(len(part) > 3 for part in run.identity.get("parts", ()))
    return has_file and run.setting == "paper"


def shown_name(results: Sequence[RunResults]) -> str:
    """The name of a system in tables: its label and setting, and whether it has seen test
    sentences."""
    result = first_scored(results)
    name = result.run.label
    if result.run.outside:
        name += OUTSIDE
    elif result.run.setting and not is_own(result.run):
        name += f", {result.run.setting}"
    if result.contaminated(result.provenance.contamination):
        name += " (has seen test sentences)"
    return name


def system_rows(
    suite: SuiteResults,
    leaderboard: LeaderboardRow,
    pairs: Sequence[PairRow] = (),
    baseline: Collection[System] = (),
) -> list[SystemRow]:
    """A row per system, the best average of a backbone first. Systems without a backbone follow,
    and systems that are trained with labels are last. Each row has the difference from the baseline
    in the column that sums up the leaderboard."""
    tasks = set(leaderboard.whole.tasks)
    rows = []
    for system in suite.systems:
        # Seeds that were added may have other tasks.
        runs = [result for result in system.runs if tasks & {*expand_tasks(result.run.tasks)}]
        if runs:
            rows.append(_system_row(leaderboard, runs, pairs, is_baseline=system in baseline))
    places = [*dict.fromkeys(row.backbone for row in rows if row.backbone != NO_BACKBONE)]
    places.append(NO_BACKBONE)

    # Systems on different backbones, or with labels, do not compete: they are ranked apart.
    def order(row: SystemRow) -> tuple[bool, int, float]:
        return row.labelled, places.index(row.backbone), -fmean(row.averages or [-inf])

    return sorted(rows, key=order)


# The fields that a row has from its comparison with the baseline.
_OF_PAIR = ("difference", "half_width", "margin", "verdict", "progress", "reason")


def _system_row(
    leaderboard: LeaderboardRow,
    results: Sequence[RunResults],
    pairs: Sequence[PairRow],
    is_baseline: bool,
) -> SystemRow:
    first_run = results[0].run
    # A system without a backbone is compared on each, and no single difference would be its own.
    place = leaderboard.name, leaderboard.overall
    of_system = [x for x in pairs if first_run.id in x.runs and (x.leaderboard, x.task) == place]
    comparison: dict[str, Any] = {}
    if len(of_system) == 1:
        (pair,) = of_system
        comparison = {name: getattr(pair, name) for name in _OF_PAIR}
    unfinished = Counter(result.fate for result in results if result.status != "finished")
    # Runs of a system read the same corpora and dev sets, so the counts of one stand for all.
    scored = first_scored(results)
    planned = leaderboard.planned
    # A run without a seed has a draw for each seed of its classifiers, and counts as often in n.
    draws = [tuple(result.draws(planned.cells("Avg")).values()) for result in results]
    return SystemRow(
        leaderboard=leaderboard.name,
        backbone=first_run.backbone,
        label=first_run.label,
        method=first_run.method,
        setting=first_run.setting,
        corpus=first_run.corpus,
        labelled=first_run.labelled,
        outside=first_run.outside,
        name=shown_name(results),
        own=is_own(first_run),
        n=len(results) - unfinished.total() + sum(len(points) - 1 for points in draws if points),
        over_templates=bool(first_run.template),
        remark="; ".join(_remarks(leaderboard, results, scored, unfinished)),
        seen=100 * scored.share("seen", planned.tasks),
        on_unseen=_mean_points(results, planned, planned.overall, UNSEEN),
        in_dev=100 * scored.share("in_dev", planned.tasks),
        on_rest=_mean_points(results, planned, planned.overall, REST),
        runs=tuple(result.run.id for result in results),
        run_averages=tuple(result.points(planned, "Avg") for result in results),
        averages=tuple(chain(*draws)),
        scores=tuple(task_scores(results, leaderboard.whole)),
        is_baseline=is_baseline,
        **comparison,
    )


def _remarks(
    leaderboard: LeaderboardRow,
    results: Sequence[RunResults],
    scored: RunResults,
    unfinished: Counter[str],
) -> list[str]:
    """Why runs have no scores, the range over templates, and how many test items have a sentence in
    the corpus."""
    remarks = [f"{count} {fate}" for fate, count in sorted(unfinished.items())]
    overall = known(
        result.points(leaderboard.planned, leaderboard.planned.overall) for result in results
    )
    if results[0].run.template and overall:
        ends = f"{leaderboard.planned.overall} {min(overall):.2f} to {max(overall):.2f}"
        remarks.append(f"over {counted(len(overall), 'template')}, {ends}")
    overlaps = []
    for task in scored.contaminated(leaderboard.planned.tasks):
        text = f"{task} {scored.share('seen', [task]):.0%}"
        mean = _mean_points(results, leaderboard.whole, task, UNSEEN)
        if mean is not None:
            text += f" ({mean:.2f} on the other items)"
        overlaps.append(text)
    if overlaps:
        remarks.append(f"test items in its corpus: {', '.join(overlaps)}")
    return remarks


def task_scores(results: Sequence[RunResults], leaderboard: Leaderboard) -> list[Score]:
    """The points of runs by draw on each task of a leaderboard, and their average."""
    scores = []
    for task in (*leaderboard.tasks, "Avg"):
        draws = (result.draws(leaderboard.cells(task)).values() for result in results)
        scores.append(Score(task=task, scores=tuple(chain(*draws))))
    return scores


def _mean_points(
    results: Iterable[RunResults], leaderboard: Leaderboard, task: str, aggregation: str
) -> float | None:
    """The mean over runs of `RunResults.points`; None if none has any."""
    points = known(result.points(leaderboard, task, aggregation) for result in results)
    return fmean(points) if points else None
