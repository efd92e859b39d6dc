"""The table of tasks and the table of metrics: what the rest of the suite reads from them."""

import pytest

from bench.datasets import tasks
from bench.datasets.metrics import Cell, quantities
from bench.datasets.tasks import GROUPS, LEADERBOARDS, TASKS, leaderboards_of, scored_cells
from bench.results.records import CurvePoint, Outcome


def test_each_name_of_a_task_means_one_task():
    names = [*GROUPS, *TASKS, *(alias for task in TASKS.values() for alias in task.aliases)]
    assert len({name.lower() for name in names}) == len(names)
    assert {*tasks.SPELLINGS} == {name.lower() for name in names[len(GROUPS) :]}


def test_every_task_is_scored_by_the_metric_of_its_table():
    for task in TASKS.values():
        leaderboards = [
            leaderboard for leaderboard in LEADERBOARDS.values() if task.name in leaderboard.tasks
        ]
        assert leaderboards
        cells = scored_cells([task.name])
        assert all(
            Cell(task.name, "test", leaderboard.metric) in cells for leaderboard in leaderboards
        )
    own = [leaderboard.name for leaderboard in leaderboards_of(["sts:a", "probing:b"]).values()][
        -3:
    ]
    assert own == ["own_sts", "own_probing", "own_probing_mlp"]


def test_quantities_are_read_from_outcome_and_analyses():
    layers = {"setsim": {"cls": [0.5, 0.7]}, "toksim": {"without_special": [0.1, 0.2, 0.25]}}
    alignment = {"STS-B": {"all": {"alignment": 0.2, "uniformity": -2.5}}}
    # The groups end at 1, 2, 3 and 4: their variances are 0.01, 0.04 and, of one cosine, 0.
    cosines = {"gold": [0, 1, 1.5, 2, 5], "cosine": [0.1, 0.3, 0.2, 0.6, 0.9]}
    analyses = {"alignment": alignment, "layers": layers, "cosines": cosines}
    steps = zip((125, 1500, 1625), (60, 70, 99), strict=True)
    curve = [CurvePoint(step=step, dev=dev) for step, dev in steps]
    outcome = Outcome(status="finished", best_step=125, curve=curve)
    assert quantities(outcome, analyses) == {
        Cell("STS-B", "dev", "best_step"): 125,
        Cell("early STS-B", "dev", "early_dev"): 65,
        Cell("alignment", "", "alignment"): 0.2,
        Cell("uniformity", "", "uniformity"): -2.5,
        Cell("cosine variance", "test", "cosine_variance"): pytest.approx(0.05 / 3),
        Cell("SetSim", "test", "layer_similarity"): pytest.approx(0.6),
        Cell("last SetSim", "test", "last_layer_similarity"): 0.7,
        Cell("TokSim", "test", "token_similarity"): 25,
        Cell("last TokSim", "test", "last_token_similarity"): pytest.approx(22.5),
    }
    without = {"alignment": {"reason": "no STS-B"}, "cosines": {"reason": "no STS-B"}}
    outcome = Outcome(status="finished", curve=[])
    assert quantities(outcome, without | {"layers": {"setsim": {}}}) == {}
