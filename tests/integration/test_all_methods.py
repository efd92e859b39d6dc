"""Every system and variant of config/all-methods.yaml trains a few steps, alike twice, and is
scored; the scores of whole trainings are among the toy data's numbers."""

from math import isfinite

import pytest

from bench.results.records import read_scores
from bench.runs import config
from bench.runs.paths import run_folder
from bench.stages.jobs import run_plan
from tests.support.outcomes import assert_left, left
from tests.support.programs import ROOT

pytestmark = pytest.mark.slow

CONTENT = config.load(ROOT / "config" / "all-methods.yaml")
PLAN = config.plan(CONTENT.changed(recipe={**CONTENT.recipe, "sentences": 192}))
TRAINED = {f"{run.text} on {run.backbone}": run.id for run in PLAN.runs if run.trained}


@pytest.mark.parametrize("name", TRAINED)
def test_a_method_trains_the_same_way_twice_and_is_scored(name, tmp_path):
    (run,) = PLAN.chosen([TRAINED[name]])
    tasks = ("CNSD-STS-B",) if "toy-chinese" in name else ("STS-B",)
    run = run.model_copy(update={"tasks": tasks})
    suites = tmp_path / "first", tmp_path / "second"
    for suite in suites:
        run_plan(suite, PLAN, [run], ["train", "score"])
    first, second = (run_folder(suite, run.id) for suite in suites)
    assert_left(second, left(first))
    read = read_scores(suites[0] / "scores" / f"{run.id}.json")
    assert read.provenance.outcome.status == "finished"
    assert read.provenance.outcome.steps >= 2
    assert all(isfinite(record.value) for record in read.records)
