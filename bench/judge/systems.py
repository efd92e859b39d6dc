"""The systems of a suite on its boards: scores over seeds, shares of items read before, order."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf
from statistics import fmean

from bench.datasets.metrics import REST, UNSEEN
from bench.datasets.tasks import Board, boards_of, expand_tasks
from bench.judged.rows import (
    NO_BACKBONE,
    OUTSIDE,
    BoardRow,
    PairRow,
    Score,
    SystemRow,
    grouped,
    known,
)
from bench.results.suite_results import RunResults, SuiteResults
from bench.runs.run import PlannedRun
from bench.utils.errors import listed


def board_rows(suite: SuiteResults) -> list[BoardRow]:
    """The tables of the suite's tasks. Some may hold no system."""
    planned = expand_tasks([task for result in suite.runs for task in result.run.tasks])
    rows = []
    for whole in boards_of(planned).values():
        tasks = tuple(task for task in whole.tasks if task in planned)
        part = whole
        if tasks and tasks != whole.tasks:
            part = replace(whole, tasks=tasks, subject=listed(tasks))
        rows.append(BoardRow(whole=whole, planned=part))
    return rows


def is_own(run: PlannedRun) -> bool:
    """Whether a run is of a user's own method, for which the setting "paper" would be wrong."""
    # Its part of the identity has the checksum of its file, too.
    has_file = any(len(part) > 3 for part in run.identity.get("parts", ()))
    return has_file and run.setting == "paper"


def shown_name(result: RunResults) -> str:
    """Label and setting, as tables show them, and whether the run has seen test sentences."""
    name = result.run.label
    if result.run.outside:
        name += OUTSIDE
    elif not is_own(result.run):
        name += f", {result.run.setting}"
    if result.contaminated(result.provenance.contamination):
        name += " (has seen test sentences)"
    return name


def system_rows(suite: SuiteResults, board: BoardRow) -> list[SystemRow]:
    """A row per method, setting, backbone, corpus and recipe, the best average of a backbone first;
    then those without a backbone, then those trained with labels."""
    tasks = set(board.whole.tasks)
    scored = [result for result in suite.runs if tasks & set(expand_tasks(result.run.tasks))]
    rows = [_system(board, group) for group in grouped(scored, _experiment)]
    places = list(dict.fromkeys(row.backbone for row in rows))

    def order(row: SystemRow) -> tuple[bool, bool, int, float]:
        average = fmean(row.averages or [-inf])
        has_none = row.backbone == NO_BACKBONE
        return row.labelled, has_none, places.index(row.backbone), -average

    return sorted(rows, key=order)


def _experiment(result: RunResults) -> tuple[str, ...]:
    """The fields that runs of one system have in common, whatever their seeds."""
    run = result.run
    changes = str(sorted(run.recipe_changes.items()))
    return run.backbone, run.label, run.method, run.setting, run.corpus, changes


def _system(board: BoardRow, results: Sequence[RunResults]) -> SystemRow:
    first = results[0].run
    unfinished = Counter(result.fate for result in results if result.status != "finished")
    finished = (result for result in results if result.status == "finished")
    scored = next(finished, results[0])
    return SystemRow(
        board=board.name,
        backbone=first.backbone,
        label=first.label,
        method=first.method,
        setting=first.setting,
        corpus=first.corpus,
        name=shown_name(results[0]),
        labelled=first.labelled,
        outside=first.outside,
        own=is_own(first),
        n=len(results) - unfinished.total(),
        diverged=any(result.status == "diverged" for result in results),
        remark=_remark(board, results, scored, unfinished),
        seen=100 * scored.share("seen", board.planned.tasks),
        on_unseen=_mean_points(results, board.planned, board.planned.overall, UNSEEN),
        in_dev=100 * scored.share("in_dev", board.planned.tasks),
        on_rest=_mean_points(results, board.planned, board.planned.overall, REST),
        runs=tuple(result.run.id for result in results),
        run_averages=tuple(result.points(board.planned, "Avg") for result in results),
        scores=scores_of(results, board.whole),
    )


def _remark(
    board: BoardRow, results: Sequence[RunResults], scored: RunResults, unfinished: Counter[str]
) -> str:
    """Why runs have no scores, and how many test items have a sentence in the corpus."""
    remarks = [f"{count} {fate}" for fate, count in sorted(unfinished.items())]
    seen = []
    for task in scored.contaminated(board.planned.tasks):
        text = f"{task} {scored.share('seen', [task]):.0%}"
        mean = _mean_points(results, board.whole, task, UNSEEN)
        if mean is not None:
            text += f" ({mean:.2f} on the other items)"
        seen.append(text)
    if seen:
        remarks.append(f"test items in its corpus: {', '.join(seen)}")
    return "; ".join(remarks)


def scores_of(results: Sequence[RunResults], board: Board) -> tuple[Score, ...]:
    """The points of runs on each task of a board, and their average."""
    scores = []
    for task in (*board.tasks, "Avg"):
        points = known(result.points(board, task) for result in results)
        scores.append(Score(task=task, scores=points))
    return tuple(scores)


def _mean_points(
    results: Iterable[RunResults], board: Board, task: str, aggregation: str
) -> float | None:
    """The mean over runs of `RunResults.points`; None if none has any."""
    points = known(result.points(board, task, aggregation) for result in results)
    return fmean(points) if points else None


def beside_baseline(
    board: BoardRow, rows: Iterable[SystemRow], pairs: Iterable[PairRow], baseline: Iterable[str]
) -> list[SystemRow]:
    """Systems with their differences from a baseline on what sums up their board; `baseline` are
    the ids of its runs."""
    overall = [x for x in pairs if (x.board, x.task) == (board.name, board.overall)]
    compared = []
    for row in rows:
        changes: dict[str, object] = {"is_baseline": row.runs[0] in baseline}
        # A method without a backbone is compared on each, and shown beside a single one.
        found = [pair for pair in overall if row.runs[0] in pair.runs]
        if len(found) == 1:
            pair = found[0]
            changes |= {"difference": pair.difference, "half_width": pair.half_width}
            changes["word"] = pair.verdict
        compared.append(row.model_copy(update=changes))
    return compared
