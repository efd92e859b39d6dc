"""The systems of a suite on its boards: scores over seeds, shares of seen sentences, order."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf
from statistics import fmean

from bench.datasets.tasks import Board, boards_of, expand_tasks
from bench.judged.rows import NO_BACKBONE, OUTSIDE, BoardRow, PairRow, Score, Scores, SystemRow
from bench.results.suite_results import RunResults, SuiteResults
from bench.runs.run import PlannedRun
from bench.utils.errors import listed


def boards(suite: SuiteResults) -> list[BoardRow]:
    """The tables of the suite's tasks. Some may hold no system."""
    planned = expand_tasks([task for run in suite.runs for task in run.run.tasks])
    rows = []
    for whole in boards_of(planned).values():
        tasks = tuple(task for task in whole.tasks if task in planned)
        part = whole
        if tasks not in ((), whole.tasks):
            part = replace(whole, tasks=tasks, subject=listed(tasks))
        rows.append(BoardRow(whole=whole, planned=part))
    return rows


def is_own(run: PlannedRun) -> bool:
    """Whether a run is of a user's own method, for which the setting "paper" would be wrong."""
    # Its part of the identity has the checksum of its file, too.
    has_file = any(len(part) > 3 for part in run.identity.get("parts", ()))
    return has_file and run.setting == "paper"


def shown_name(run: RunResults) -> str:
    """Label and setting, as tables show them, and whether the run has seen test sentences."""
    name = run.run.label
    if run.run.outside:
        name += OUTSIDE
    elif not is_own(run.run):
        name += f", {run.run.setting}"
    if run.contaminated(run.provenance.contamination):
        name += " (has seen test sentences)"
    return name


def system_rows(suite: SuiteResults, board: BoardRow) -> list[SystemRow]:
    """A row per method, setting, backbone, corpus and recipe, the best average of a backbone first;
    then those without a backbone, then those trained with labels."""
    groups: dict[tuple[str, ...], list[RunResults]] = {}
    for run in suite.runs:
        if set(board.whole.tasks) & set(expand_tasks(run.run.tasks)):
            planned, changes = run.run, sorted(run.run.recipe_changes.items())
            experiment = (planned.method, planned.setting, planned.corpus, str(changes))
            groups.setdefault((planned.backbone, planned.label, *experiment), []).append(run)
    rows = [_system(board, runs) for runs in groups.values()]
    backbones = dict.fromkeys(row.backbone for row in rows if row.backbone != NO_BACKBONE)
    places = {name: place for place, name in enumerate([*backbones, NO_BACKBONE])}

    def order(row: SystemRow) -> tuple[bool, int, float]:
        return row.labelled, places[row.backbone], -fmean(row.averages or [-inf])

    return sorted(rows, key=order)


def _system(board: BoardRow, runs: Sequence[RunResults]) -> SystemRow:
    first, tasks = runs[0].run, board.planned.tasks
    unfinished = Counter(run.fate for run in runs if run.status != "finished")
    scored = next((run for run in runs if run.status == "finished"), runs[0])
    return SystemRow(
        board=board.name,
        backbone=first.backbone,
        label=first.label,
        method=first.method,
        setting=first.setting,
        corpus=first.corpus,
        name=shown_name(runs[0]),
        labelled=first.labelled,
        outside=first.outside,
        own=is_own(first),
        n=len(runs) - unfinished.total(),
        diverged=any(run.status == "diverged" for run in runs),
        remark=_remark(board, runs, scored, unfinished),
        seen=100 * scored.seen(tasks),
        on_unseen=_mean_on_unseen(runs, board.planned, board.planned.overall),
        runs=tuple(run.run.id for run in runs),
        run_averages=tuple(run.points(board.planned, "Avg") for run in runs),
        scores=scores_of(runs, board.whole),
    )


def _remark(
    board: BoardRow, runs: Sequence[RunResults], scored: RunResults, unfinished: Counter[str]
) -> str:
    """Why runs have no scores, and how much of the test sentences stands in the corpus."""
    remarks = [f"{count} {fate}" for fate, count in sorted(unfinished.items())]
    seen = []
    for task in scored.contaminated(board.planned.tasks):
        mean = _mean_on_unseen(runs, board.whole, task)
        others = "" if mean is None else f" ({mean:.2f} on the other items)"
        seen.append(f"{task} {scored.seen([task]):.0%}{others}")
    if seen:
        remarks.append(f"test sentences in its corpus: {', '.join(seen)}")
    return "; ".join(remarks)


def scores_of(runs: Sequence[RunResults], board: Board) -> tuple[Score, ...]:
    """The points of runs on each task of a board, and their average."""
    scores = []
    for task in (*board.tasks, "Avg"):
        points = [run.points(board, task) for run in runs]
        scores.append(Score(task=task, scores=tuple(one for one in points if one is not None)))
    return tuple(scores)


def _mean_on_unseen(runs: Iterable[RunResults], board: Board, task: str) -> float | None:
    """The mean over runs of `RunResults.points_on_unseen`; None if none has any."""
    points = [run.points_on_unseen(board, task) for run in runs]
    return Scores(scores=tuple(one for one in points if one is not None)).mean


def beside_baseline(
    board: BoardRow, rows: Iterable[SystemRow], pairs: Iterable[PairRow], baseline: Iterable[str]
) -> list[SystemRow]:
    """Systems with their differences from a baseline on what sums up their board; `baseline` are
    the ids of its runs."""
    by_run: dict[str, list[PairRow]] = {}
    for pair in pairs:
        if (pair.board, pair.task) == (board.name, board.overall):
            for run in pair.runs:
                by_run.setdefault(run, []).append(pair)
    compared = []
    for row in rows:
        changes: dict[str, object] = {"is_baseline": row.runs[0] in baseline}
        # A method without a backbone is compared on each, and shown beside a single one.
        found = by_run.get(row.runs[0], [])
        if len(found) == 1:
            pair = found[0]
            changes |= {"difference": pair.difference, "half_width": pair.half_width}
            changes["word"] = pair.verdict
        compared.append(row.model_copy(update=changes))
    return compared
