"""The best system of each column of a leaderboard, and those that cannot be told from it
(docs/statistics.md#as-good-as-the-best)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, sqrt
from statistics import fmean, variance

from bench.judge.pairs import (
    BySeed,
    PairedDifferences,
    Seeds,
    first_seeds,
    has_templates,
    of_both,
    scores_by_seed,
)
from bench.judge.statistics import Prior, estimated_prior, level_of, t_p_value
from bench.judged.rows import NO_BACKBONE, BoardRow, SystemRow
from bench.judged.words import FEWEST_SEEDS, LEVEL, Standing
from bench.results.suite_results import SuiteResults


def with_standings(
    suite: SuiteResults, board: BoardRow, rows: Sequence[SystemRow]
) -> list[SystemRow]:
    """Systems with their standings in the columns of their board, each among those of its backbone.
    Controls that are trained with labels, and means over templates, have none."""
    results = {result.run.id: result for result in suite.runs}
    # Systems without a backbone stand beside those of the only one.
    several = len({row.backbone for row in rows} - {NO_BACKBONE}) > 1
    columns: dict[tuple[str | bool, str], dict[tuple[str, ...], BySeed]] = defaultdict(dict)
    firsts: dict[str, dict[tuple[str, ...], Seeds]] = defaultdict(dict)
    for row in rows:
        for task in board.columns:
            of_row = [results[run] for run in row.runs]
            scores = scores_by_seed(of_row, board.whole, task)
            firsts[task][row.runs] = first_seeds(of_row, board.whole, task)
            if scores and not (row.labelled or has_templates(scores)):
                is_tested = None in scores or len(scores) >= FEWEST_SEEDS
                is_tested = is_tested and not row.diverged
                columns[several and row.backbone, task][row.runs] = scores if is_tested else {}
    found: dict[tuple[str, ...], dict[str, Standing]] = defaultdict(dict)
    for (_, task), systems in columns.items():
        for runs, standing in standings(systems, LEVEL, firsts[task]).items():
            found[runs][task] = standing
    return [row.model_copy(update={"standings": (*found[row.runs].items(),)}) for row in rows]


def standings(
    systems: Mapping[tuple[str, ...], BySeed],
    level: float,
    firsts: Mapping[tuple[str, ...], Seeds],
) -> dict[tuple[str, ...], Standing]:
    """The standings of the systems of a column that no other is better than, at a level that holds
    for all others at once. Systems that cannot be tested have no scores. `firsts` are the seeds
    that were planned before the first score."""
    variances = [variance(other.values()) for other in systems.values() if len(other) > 1]
    column_sd = sqrt(fmean(variances or [0]))
    best = max(systems, key=lambda runs: fmean(systems[runs].values() or [-inf]))
    found: dict[tuple[str, ...], Standing] = {best: "best"}
    for runs, scores in systems.items():
        pairs = []
        for name, other in systems.items():
            if name != runs and other and scores:
                first = frozenset(of_both(firsts[name], firsts[runs]))
                pairs.append(PairedDifferences(other, scores, first_seeds=first))
        prior = estimated_prior([(pair.sd, pair.n) for pair in pairs if pair.kind == "paired"])
        if not any(
            _is_better(pair, prior, column_sd, level / len(pairs))
            for pair in pairs
            if pair.mean > 0
        ):
            found.setdefault(runs, "tied")
    if 2 * len(found) > len(systems):
        return dict.fromkeys(found, "open") if len(systems) > 1 else {}
    return found


def _is_better(pair: PairedDifferences, prior: Prior, column_sd: float, level: float) -> bool:
    """Whether A, whose mean is higher, is better than B."""
    p_value = replace(pair, prior=prior).deciding_p
    if pair.kind == "one-sample":
        # Few seeds with a long lower tail often lie close together above their mean.
        p_value = t_p_value(pair.mean, max(pair.sd, column_sd) / sqrt(pair.n), pair.n - 1)
        p_value *= LEVEL / level_of(pair.n, pair.planned)
    if pair.kind == "deterministic":
        p_value = 0.0
    return p_value / 2 < level  # one-sided
