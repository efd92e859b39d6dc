"""From the results of a suite to its rows (`bench.judged.rows`). The order matters: printed values
take the verdicts of claims, and rows of systems the differences, so pairs are judged first."""

from bench.judge.heading import heading
from bench.judge.numbers import judge_numbers, number_rows, quoted_rows, setting_rows
from bench.judge.pairs import against
from bench.judge.series import figures
from bench.judge.systems import leaderboard_rows, shown_name, system_rows
from bench.judge.world import judge_world
from bench.judged.rows import NO_BACKBONE, Analysis, Judged, PairRow, RunRow, SystemRow
from bench.results.suite_results import SuiteResults
from bench.results.system import RunResults, System
from bench.utils.errors import UserError

_CURVE = ("step", "dev", "loss", "alignment", "uniformity")


def judge(suite: SuiteResults) -> Judged:
    """All rows of a suite."""
    leaderboards = leaderboard_rows(suite)
    baseline: list[System] = []
    pairs: list[PairRow] = []
    uncompared = ""
    if suite.baseline:
        for backbone in suite.backbones:
            system = suite.system(suite.baseline, backbone, NO_BACKBONE)
            # A baseline without a backbone is one system, which every backbone finds again.
            if system and system not in baseline:
                baseline.append(system)
        # While the baseline has no scores the suite is judged all the same: tables and page say why
        # nothing is compared.
        try:
            pairs = against(suite, leaderboards, suite.baseline)
        except UserError as error:
            uncompared = str(error)
    systems: list[SystemRow] = []
    for leaderboard in leaderboards:
        # Without pairs no row is called the baseline: the columns of differences are empty then.
        systems += system_rows(suite, leaderboard, pairs, baseline if pairs else ())
    world = judge_world(suite)
    if all(row.verdict.kind == "not comparable" for row in world):
        world = []  # the suite has a recipe of its own
    return Judged(
        suite=heading(suite, leaderboards, baseline, uncompared),
        numbers=tuple(number_rows(judge_numbers(suite, leaderboards, pairs))),
        settings=tuple(setting_rows()),
        quoted=tuple(quoted_rows(suite, leaderboards)),
        world=tuple(world),
        systems=tuple(systems),
        pairs=tuple(pairs),
        series=tuple(figures(suite)),
        runs=tuple(_run_row(result) for result in suite.runs),
    )


def _run_row(result: RunResults) -> RunRow:
    """How a training went, and what the scores of its run come from."""
    run, provenance = result.run, result.provenance
    outcome = provenance.outcome
    title = f"{shown_name([result])}, {run.backbone}"
    if run.seed is not None:
        title += f", seed {run.seed}"
    if run.template:
        title += f", template {run.template}"
    curve = {}
    for name in _CURVE:
        values = [getattr(point, name) for point in outcome.curve or []]
        # The page draws a chart for each column, so a column without a value is left out.
        if set(values) - {None}:
            curve[name] = values
    analyses = []
    for name, values in result.analyses.items():
        if "reason" in values:
            analyses.append(Analysis(name=name, result={}, missing=values["reason"]))
        elif name == "alignment":  # figures show the others
            analyses.append(Analysis(name=name, result=values))
    return RunRow(
        id=run.id,
        text=run.text,
        backbone=run.backbone,
        setting=run.setting,
        seed=run.seed,
        trained=run.trained,
        steps=outcome.steps,
        best_step=outcome.best_step,
        best_dev=outcome.best_dev,
        seconds=outcome.seconds,
        title=title,
        status=result.status,
        reason=result.reason,
        date=provenance.date,
        scoring_seconds=provenance.seconds,
        origin=provenance.as_written(),
        curve=curve,
        analyses=tuple(analyses),
    )
