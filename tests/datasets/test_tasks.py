"""The table of tasks and the table of metrics: what the rest of the suite reads from them."""

from pathlib import Path

import pytest

from bench.datasets import tasks
from bench.datasets.manifest import manifest
from bench.datasets.metrics import CORRELATION, METRICS, PRINTED, QUANTITY, metric_of, quantities
from bench.datasets.tasks import BOARDS, GROUPS, TASKS, boards_of, scored_cells


def test_each_name_of_a_task_means_one_task():
    names = [*TASKS, *tasks.ALIASES, *GROUPS]
    assert len(set(names)) == len(names)
    files = [task.file(part) for task in TASKS.values() for part in task.sizes]
    own = [task for task in TASKS.values() if task.reader == "parts"]
    assert len(set(files)) == len(files) - 2 * len(own)


def test_every_task_is_scored_by_the_metric_of_its_table():
    listed = manifest(Path("nowhere"))
    for task in TASKS.values():
        assert getattr(listed, task.kind)[task.name] == task.sizes
        boards = [board for board in BOARDS.values() if task.name in board.tasks]
        assert boards
        cells = scored_cells([task.name])
        assert all((task.name, "test", board.metric) in cells for board in boards)
    own = [board.name for board in boards_of(["sts:a", "probing:b"]).values()][-3:]
    assert own == ["own_sts", "own_probing", "own_probing_mlp"]


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_is_of_scores_or_has_a_tolerance(name):
    metric = METRICS[name]
    assert bool(metric.tasks) == (metric.kind != QUANTITY)
    assert bool(metric.value) == bool(metric.tolerance) == (metric.kind == QUANTITY)
    assert all(PRINTED[form][0] == name for form in metric.printed)
    assert (metric_of(f"{name}_wmean") is metric) if metric.kind == CORRELATION else True


def test_quantities_are_read_from_outcome_and_analyses():
    layers = {"setsim": {"cls": [0.5, 0.7]}, "toksim": {"without_special": [0.1, 0.25]}}
    alignment = {"STS-B": {"all": {"uniformity": -2.5}}}
    found = quantities({"best_step": 125}, {"alignment": alignment, "layers": layers})
    assert found == {
        ("STS-B", "dev", "best_step"): 125,
        ("uniformity", "", "uniformity"): -2.5,
        ("SetSim", "test", "layer_similarity"): pytest.approx(0.6),
        ("TokSim", "test", "token_similarity"): 25,
    }
    assert quantities({}, {"alignment": {"skipped": "no STS-B"}, "layers": {"setsim": {}}}) == {}
