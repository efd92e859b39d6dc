"""From the results of a suite to its rows (`bench.judged.rows`)."""

from bench.judge.heading import heading
from bench.judge.numbers import judge_numbers, number_rows, quoted_rows, setting_rows
from bench.judge.pairs import against
from bench.judge.series import figures
from bench.judge.systems import board_rows, shown_name, system_rows
from bench.judge.world import judge_world
from bench.judged.rows import NO_BACKBONE, Analysis, Judged, PairRow, RunRow, SystemRow
from bench.results.suite_results import SuiteResults
from bench.results.system import RunResults, System
from bench.utils.errors import UserError

_ORIGIN = ("code", "data", "corpora", "device", "arithmetic", "versions")
_CURVE = ("step", "dev", "loss", "alignment", "uniformity")


def judge(suite: SuiteResults) -> Judged:
    """All rows of a suite."""
    boards = board_rows(suite)
    baseline: list[System] = []
    pairs: list[PairRow] = []
    uncompared = ""
    if suite.baseline:
        for backbone in dict.fromkeys(result.run.backbone for result in suite.runs):
            system = suite.system(suite.baseline, backbone, NO_BACKBONE)
            if system and system not in baseline:
                baseline.append(system)
        try:
            pairs = against(suite, boards, suite.baseline)
        except UserError as error:
            uncompared = str(error)
    systems: list[SystemRow] = []
    for board in boards:
        systems += system_rows(suite, board, pairs, baseline if pairs else ())
    world = judge_world(suite)
    if all(row.verdict.kind == "not comparable" for row in world):
        world = []  # a suite of its own recipe
    return Judged(
        suite=heading(suite, boards, baseline, uncompared),
        numbers=tuple(number_rows(judge_numbers(suite, boards, pairs))),
        settings=tuple(setting_rows()),
        quoted=tuple(quoted_rows(suite, boards)),
        world=tuple(world),
        systems=tuple(systems),
        pairs=tuple(pairs),
        series=tuple(figures(suite)),
        runs=tuple(_run_row(result) for result in suite.runs),
    )


def _run_row(result: RunResults) -> RunRow:
    """How a training went, and what the scores of its run come from."""
    planned, provenance = result.run, result.provenance
    outcome, written = provenance.outcome, provenance.as_written()
    title = f"{shown_name([result])}, {planned.backbone}"
    if planned.seed is not None:
        title += f", seed {planned.seed}"
    if planned.template:
        title += f", template {planned.template}"
    curve = {}
    for name in _CURVE:
        values = [getattr(point, name) for point in outcome.curve or []]
        if set(values) - {None}:
            curve[name] = values
    analyses = []
    for name, values in result.analyses.items():
        if "reason" in values:
            analyses.append(Analysis(name=name, result={}, missing=values["reason"]))
        elif name == "alignment":  # figures show the others
            analyses.append(Analysis(name=name, result=values))
    return RunRow(
        id=planned.id,
        title=title,
        text=planned.text,
        backbone=planned.backbone,
        setting=planned.setting,
        seed=planned.seed,
        trained=planned.trained,
        status=result.status,
        reason=result.reason,
        date=provenance.date,
        steps=outcome.steps,
        best_step=outcome.best_step,
        best_dev=outcome.best_dev,
        seconds=outcome.seconds,
        scoring_seconds=provenance.seconds,
        origin={name: written[name] for name in _ORIGIN if written.get(name)},
        curve=curve,
        analyses=tuple(analyses),
    )
