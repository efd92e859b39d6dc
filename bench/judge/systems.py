"""The systems of a suite on its boards: scores over seeds, shares of items read before, order."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain
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
    known,
)
from bench.results.suite_results import SuiteResults
from bench.results.system import RunResults, System, diverged, first_scored
from bench.runs.plan import PlannedRun
from bench.utils.errors import counted, listed


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


def shown_name(results: Sequence[RunResults]) -> str:
    """Label and setting of runs of a system, as tables show them, and whether it has seen test
    sentences."""
    result = first_scored(results)
    name = result.run.label
    if result.run.outside:
        name += OUTSIDE
    elif not is_own(result.run):
        name += f", {result.run.setting}"
    if result.contaminated(result.provenance.contamination):
        name += " (has seen test sentences)"
    return name


def system_rows(
    suite: SuiteResults,
    board: BoardRow,
    pairs: Sequence[PairRow] = (),
    baseline: Collection[System] = (),
) -> list[SystemRow]:
    """A row per system, the best average of a backbone first; then those without a backbone, then
    those trained with labels. Each has its difference from the baseline on what sums up the
    board."""
    tasks = set(board.whole.tasks)
    rows = []
    for system in suite.systems:
        # Seeds that were added may have other tasks.
        runs = [result for result in system.runs if tasks & {*expand_tasks(result.run.tasks)}]
        if runs:
            rows.append(_system_row(board, runs, pairs, is_baseline=system in baseline))
    places = [*dict.fromkeys(row.backbone for row in rows if row.backbone != NO_BACKBONE)]
    places.append(NO_BACKBONE)

    def order(row: SystemRow) -> tuple[bool, int, float]:
        return row.labelled, places.index(row.backbone), -fmean(row.averages or [-inf])

    return sorted(rows, key=order)


def _system_row(
    board: BoardRow,
    results: Sequence[RunResults],
    pairs: Sequence[PairRow],
    is_baseline: bool,
) -> SystemRow:
    first = results[0].run
    # A method without a backbone is compared on each, and shown beside a single one.
    place = board.name, board.overall
    of_system = [x for x in pairs if first.id in x.runs and (x.board, x.task) == place]
    pair = of_system[0] if len(of_system) == 1 else None
    unfinished = Counter(result.fate for result in results if result.status != "finished")
    scored = first_scored(results)
    remarks = _remarks(board, results, scored, unfinished)
    cells = board.planned.cells("Avg")
    draws = [tuple(result.draws(cells).values()) for result in results]
    return SystemRow(
        board=board.name,
        backbone=first.backbone,
        label=first.label,
        method=first.method,
        setting=first.setting,
        corpus=first.corpus,
        name=shown_name(results),
        labelled=first.labelled,
        outside=first.outside,
        own=is_own(first),
        n=len(results) - unfinished.total() + sum(len(points) - 1 for points in draws if points),
        over_templates=bool(first.template),
        diverged=bool(diverged(results)),
        remark="; ".join(remarks),
        seen=100 * scored.share("seen", board.planned.tasks),
        on_unseen=_mean_points(results, board.planned, board.planned.overall, UNSEEN),
        in_dev=100 * scored.share("in_dev", board.planned.tasks),
        on_rest=_mean_points(results, board.planned, board.planned.overall, REST),
        runs=tuple(result.run.id for result in results),
        run_averages=tuple(result.points(board.planned, "Avg") for result in results),
        averages=tuple(chain(*draws)),
        scores=tuple(task_scores(results, board.whole)),
        is_baseline=is_baseline,
        difference=pair.difference if pair else None,
        half_width=pair.half_width if pair else None,
        margin=pair.margin if pair else None,
        word=pair.verdict if pair else None,
        progress=pair.progress if pair else "",
        why=pair.reason if pair else "",
    )


def _remarks(
    board: BoardRow, results: Sequence[RunResults], scored: RunResults, unfinished: Counter[str]
) -> list[str]:
    """Why runs have no scores, and how many test items have a sentence in the corpus."""
    remarks = [f"{count} {fate}" for fate, count in sorted(unfinished.items())]
    overall = known(result.points(board.planned, board.planned.overall) for result in results)
    if results[0].run.template and overall:
        ends = f"{board.planned.overall} {min(overall):.2f} to {max(overall):.2f}"
        remarks.append(f"over {counted(len(overall), 'template')}, {ends}")
    seen = []
    for task in scored.contaminated(board.planned.tasks):
        text = f"{task} {scored.share('seen', [task]):.0%}"
        mean = _mean_points(results, board.whole, task, UNSEEN)
        if mean is not None:
            text += f" ({mean:.2f} on the other items)"
        seen.append(text)
    if seen:
        remarks.append(f"test items in its corpus: {', '.join(seen)}")
    return remarks


def task_scores(results: Sequence[RunResults], board: Board) -> list[Score]:
    """The points of runs by draw on each task of a board, and their average."""
    scores = []
    for task in (*board.tasks, "Avg"):
        draws = (result.draws(board.cells(task)).values() for result in results)
        scores.append(Score(task=task, scores=tuple(chain(*draws))))
    return scores


def _mean_points(
    results: Iterable[RunResults], board: Board, task: str, aggregation: str
) -> float | None:
    """The mean over runs of `RunResults.points`; None if none has any."""
    points = known(result.points(board, task, aggregation) for result in results)
    return fmean(points) if points else None
