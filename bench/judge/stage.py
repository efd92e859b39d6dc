"""The stage of judging: the rows of a suite's folder, of plans, and of chosen comparisons."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.judge.heading import heading
from bench.judge.judge import judge
from bench.judge.pairs import against, over_items
from bench.judge.systems import leaderboard_rows, system_rows
from bench.judged.rows import NO_BACKBONE, Judged, PairRow
from bench.results.records import Provenance, RecordedScore, ScoredEncoder
from bench.results.suite_results import SuiteResults, read_results
from bench.results.system import RunResults
from bench.runs.plan import Plan, PlannedRun
from bench.utils.errors import UserError, listed


def read_suite(suite_dir: Path | str) -> Judged:
    """Return the judged rows of a suite, as `leaderboard`, `against` and `verdicts` take them.

    >>> suite = sentbench.read_suite("results/wiki-mini")  # doctest: +SKIP

    Args:
        suite_dir: the suite's folder, with its plan.json and scores/.

    Raises:
        UserError: there is no plan, or a file is damaged.
    """
    folder = Path(suite_dir)
    return judge(read_results(folder)).model_copy(update={"folder": folder})


def judge_plans(plans: Sequence[Plan]) -> Judged:
    """The rows of plans, as one suite in which nothing has run; without plans the printed numbers
    alone."""
    runs = [RunResults(run) for plan in plans for run in plan.runs]
    union: Plan[Any] = Plan(suite="", data="senteval", runs=[])
    if plans:
        union = plans[0].model_copy(update={"suite": listed(plan.suite for plan in plans)})
    return judge(SuiteResults(union, runs))


def judge_encoders(
    encoders: Sequence[ScoredEncoder],
    data: str = "senteval",
    mode: Any = "test",
    probe_seeds: Sequence[int] = (),
) -> Judged:
    """The systems of encoders outside suites, and the comparison of the first with the second if
    their test items are there. The other arguments say how they were scored: data, mode and further
    seeds of the classifiers."""
    provenance = Provenance(mode=mode, probe_seeds=[*probe_seeds])
    results = []
    for place, encoder in enumerate(encoders):
        scores = {RecordedScore(**record).cell: record["value"] for record in encoder.records}
        # Tables take systems, so each encoder becomes a run of a suite that nobody planned.
        run = PlannedRun(
            id="encoder", method=f"encoder-{place}", label=encoder.label, setting="",
            trained=False, backbone=NO_BACKBONE, seed=None,
            tasks=tuple(dict.fromkeys(cell.task for cell in scores if cell.task != "Avg")),
        )  # fmt: skip
        results.append(RunResults(run, "finished", "", scores, provenance, items=encoder.items))
    plan: Plan[Any] = Plan(suite="", data=data, mode=mode, runs=[])
    suite = SuiteResults(plan, results)
    leaderboards = leaderboard_rows(suite)
    rows = [row for leaderboard in leaderboards for row in system_rows(suite, leaderboard)]
    pairs = over_items(suite, leaderboards) if encoders[0].items else []
    return Judged(suite=heading(suite, leaderboards), systems=tuple(rows), pairs=tuple(pairs))


def compared(judged: Judged, baseline: str = "", methods: Sequence[str] = ()) -> list[PairRow]:
    """The comparisons of a suite with its baseline or another one, of some methods, by default of
    all. Holm's correction is over all of them in any case. Methods are named with their setting
    (`bench.runs.naming.planned_text`)."""
    heading, pairs = judged.suite, judged.pairs
    assert judged.folder is not None
    if baseline not in ("", heading.baseline):
        pairs = tuple(against(read_results(judged.folder), heading.leaderboards, baseline))
    elif not heading.baseline:
        raise UserError(f"suite {heading.suite} has no baseline; name one")
    elif not pairs:
        raise UserError(heading.uncompared)
    side_b, texts = pairs[0].baseline, {pair.text for pair in pairs}
    # Each method is checked: otherwise a method without scores would silently miss its row.
    for text in methods:
        if text == (baseline or heading.baseline):
            raise UserError(f"'{side_b}' would be compared with itself; pass another baseline")
        if text not in texts:
            raise UserError(
                f"suite {heading.suite} has no scores of '{text}' to compare with '{side_b}'; run "
                "its missing runs first, or pass others"
            )
    # Rows are chosen last, so that a row has the same numbers whatever stands beside it.
    return [pair for pair in pairs if not methods or pair.text in methods]
