"""Further seeds of the classifiers: the literal classifier with the same seed, the averages of each
seed, interrupted scorings, and a suite from its configuration to its table."""

from collections import defaultdict
from dataclasses import replace
from statistics import fmean

import pytest

import sentbench
from bench.datasets.tasks import TRANSFER_TASKS
from bench.evaluation.scoring import Classifiers, Scorer, read_tasks
from bench.judge.stage import judge_encoders
from bench.results.records import ScoredEncoder, read_scores
from bench.runs import config
from bench.runs.paths import result_file
from bench.runs.run import read_runs
from bench.stages.jobs import run_plan
from bench.utils.errors import UserError
from tests.oracles import senteval as literal
from tests.support.literal_classifier import LITERAL, SMALL, literal_values, task, vectors
from tests.support.tiny_tasks import Words, look_up


def values(records):
    """Values by aggregation, and in each by task, split and metric."""
    result = defaultdict(dict)
    for record in records:
        cell = record["task"], record["split"], record["metric"]
        result[record["aggregation"]][cell] = record["value"]
    return result


# One seed


@pytest.mark.parametrize(
    "task",
    [
        task("MR", "nested", 2, all=90),
        task("Length", "probing", 5, train=130, dev=42, test=50),
    ],
    ids=lambda task: task.name,
)
@pytest.mark.usefixtures("small_modes_in_double")
def test_scores_of_a_seed_are_those_of_the_literal_classifier(task, monkeypatch):
    records = Scorer([task], vectors, None, Classifiers("dev", [7])).scores().records
    monkeypatch.setattr(literal, "SEED", 7)
    expected = literal_values(task, replace(LITERAL["dev"], **SMALL))
    result = values(records)["probe seed 7"]
    assert result == {
        (task.name, split, metric): value
        for (metric, split), value in expected.items()
        if split == "test"
    }


# Several


@pytest.mark.usefixtures("quick")
def test_each_seed_has_its_average():
    result = values(sentbench.score(look_up, ["transfer"], "world", probe_seeds=[5, 6]))
    del result["all"]
    assert sorted(result) == ["probe seed 5", "probe seed 6"]
    averages = set()
    for scores in result.values():
        averages.add(scores["Avg", "test", "accuracy"])
        single = [scores[name, "test", "accuracy"] for name in TRANSFER_TASKS]
        assert scores["Avg", "test", "accuracy"] == pytest.approx(fmean(single), abs=1e-12)
    assert len(averages) == 2


@pytest.mark.usefixtures("quick")
def test_finished_classifications_are_kept_by_seed(world, tmp_path, classified):
    tasks = read_tasks(["MR", "TREC"], world)
    whole = Scorer(tasks, look_up, None, Classifiers(probe_seeds=[5, 6])).scores().records
    Scorer(tasks, look_up, None, Classifiers(probe_seeds=[6]), folder=tmp_path).scores()
    classified.clear()
    assert (
        Scorer(tasks, look_up, None, Classifiers(probe_seeds=[5, 6]), folder=tmp_path)
        .scores()
        .records
        == whole
    )
    assert classified == ["MR", "TREC"]


@pytest.mark.parametrize("wrong", [[1111], [3, 3], [2**32], [1.5]])
def test_seeds_that_are_none_are_refused(wrong):
    with pytest.raises(UserError, match=r"give distinct whole numbers .* without 1111"):
        sentbench.score(Words(), probe_seeds=wrong)


# Tables


def test_the_row_has_mean_and_spread_over_the_seeds_of_the_scoring():
    common = {"task": "MR", "split": "test", "metric": "accuracy"}
    points = {"all": 70.0, "probe seed 1": 71.0, "probe seed 2": 73.5}
    records = [common | {"aggregation": name, "value": value} for name, value in points.items()]
    (row,) = judge_encoders([ScoredEncoder("a", records)], probe_seeds=[1, 2]).systems
    score = row.score("MR")
    assert (score.n, score.mean, score.sd) == pytest.approx((3, 71.5, 3.25**0.5))


# Suites


@pytest.mark.usefixtures("quick")
def test_scores_of_one_seed_are_made_again(tmp_path, monkeypatch):
    content = {"suite": "probed", "data": "world", "tasks": ["TREC"], "mode": "dev"}
    content |= {"encoders": [{"model": "toy-bert", "pooler": "avg"}]}
    config.plan(config.validate(content)).write(tmp_path / "plan.json")
    plan = read_runs(tmp_path / "plan.json")
    (run,) = plan.runs
    file = result_file(tmp_path, run.id, "score")

    def made():
        run_plan(tmp_path, plan, plan.runs)
        return read_scores(file)

    with monkeypatch.context() as then:
        then.setattr("bench.runs.run.FURTHER_SEEDS", ())
        first = made()
    second = made()
    assert [record for record in second.records if record.aggregation == "all"] == first.records
    assert len(second.records) == len(first.records) + 4
    assert made().provenance.date == second.provenance.date
