"""The jobs of a workflow: their runs, what they read, and what repeats them."""

from pathlib import Path

import pytest

from bench.runs import config
from bench.stages.workflow import Jobs
from tests.support.tiny_suite import tiny_configuration

FOLDER = Path("results/tiny")


def jobs(*methods, older=(), **changes):
    content = tiny_configuration("toy-bert", "world", "world", methods=list(methods), **changes)
    suite = config.validate(content)
    plan = config.plan(suite)
    files = {str(FOLDER / stage / f"{plan.runs[0].id}.json"): same for stage, same in older}
    return Jobs(plan, suite.runs_per_job, FOLDER, files), [run.id for run in plan.runs]


def test_a_job_of_several_runs_has_those_with_its_stage():
    several, ids = jobs("simcse", "untrained", seeds=[1, 2], runs_per_job=2)
    assert several.rules("train") == {"train_0": ids[:2]}
    assert several.rules("score") == {"score_0": ids[:2], "score_1": ids[2:]}
    assert jobs("simcse")[0].rules("train") == {"train": ["{run}"]}


def test_a_training_reads_what_it_needs_and_is_not_repeated():
    students, (teacher, student) = jobs("rankcse[teacher=run:simcse@official]")
    read = students.inputs("train", [student])
    names = ["inputs/data", "inputs/backbone-toy-bert", "inputs/corpus-world", f"trained/{teacher}"]
    assert read == {str(FOLDER / f"{name}.json"): False for name in names}
    # In one job, the order of the plan is enough.
    assert str(FOLDER / f"trained/{teacher}.json") not in students.inputs(
        "train", [teacher, student]
    )


def test_an_analysis_waits_for_the_scores_and_is_not_repeated_by_them():
    entry = {"method": "untrained", "analyses": ["in-batch"]}
    analyses, (run,) = jobs(entry)
    read = analyses.inputs("analyse", [run])
    assert read[str(FOLDER / f"scores/{run}.json")] is False
    assert read[str(FOLDER / "inputs/corpus-world.json")] is True  # the suite's, which it reads
    assert str(FOLDER / "inputs/corpus-world.json") not in analyses.inputs("score", [run])


@pytest.mark.parametrize(("same", "repeats"), [(True, False), (False, True)])
def test_a_copied_result_of_the_same_inputs_is_not_repeated(same, repeats):
    copies, (run,) = jobs("untrained", older=[("scores", same)])
    assert {*copies.inputs("score", [run]).values()} == {repeats}


def test_the_content_of_a_job_is_what_repeats_it():
    first, (run,) = jobs("untrained")
    for changes in ({"mode": "dev"}, {"tasks": ["STS-B"]}):
        other, _ = jobs("untrained", **changes)
        assert first.content("score", [run]) != other.content("score", [run])
        assert first.content("train", [run]) == other.content("train", [run])


def test_each_row_is_read_early_with_its_first_seeds():
    plan, ids = jobs("simcse", "is-bert", seeds=[1, 2])
    order = [(stage, run) for run in ids for stage in ("train", "score")]
    order.sort(key=lambda job: -plan.priority(job[0], [job[1]]))
    seeds = [plan.runs[run].seed for _, run in order]
    assert seeds == [1, 1, 1, 1, 2, 2, 2, 2]
    assert [stage for stage, _ in order] == ["score", "train"] * 4
