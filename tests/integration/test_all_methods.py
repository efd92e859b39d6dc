"""Every system and variant of config/all-methods.yaml trains a few steps and is scored; the scores
of whole trainings are among the embedded world's numbers."""

from math import isfinite
from pathlib import Path

import pytest

from bench.results.records import read_scores
from bench.runs import config
from bench.stages.jobs import run_plan

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("global_state")]

ROOT = Path(__file__).parents[2]
CONTENT = config.load(ROOT / "config" / "all-methods.yaml")
PLAN = config.plan(CONTENT.changed(recipe={**CONTENT.recipe, "sentences": 192}))
TRAINED = {f"{run.text} on {run.backbone}": run.id for run in PLAN.runs if run.trained}


@pytest.mark.parametrize("name", TRAINED)
def test_a_method_trains_and_is_scored(name, tmp_path):
    (run,) = PLAN.chosen([TRAINED[name]])
    tasks = ("CNSD-STS-B",) if "toy-chinese" in name else ("STS-B",)
    run = run.model_copy(update={"tasks": tasks})
    list(run_plan(tmp_path, PLAN, [run], "cpu", ["train", "score"]))
    read = read_scores(tmp_path / "scores" / f"{run.id}.json")
    assert read.provenance.outcome.status == "finished"
    assert read.provenance.outcome.steps >= 2
    assert all(isfinite(record.value) for record in read.records)
