"""The jobs of a workflow: their runs, what they read, and what repeats them."""

from pathlib import Path

from bench.runs import config
from bench.stages.workflow import Jobs
from tests.support.tiny_suite import tiny_configuration

FOLDER = Path("results/tiny")


def jobs(*methods, **changes):
    content = tiny_configuration("toy-bert", "world", "world", methods=list(methods), **changes)
    suite = config.validate(content)
    plan = config.plan(suite)
    return Jobs(plan, suite.runs_per_job, FOLDER, {}), [run.id for run in plan.runs]


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


def test_the_content_of_a_job_is_what_repeats_it():
    first, (run,) = jobs("untrained")
    for changes in ({"mode": "dev"}, {"tasks": ["STS-B"]}):
        other, _ = jobs("untrained", **changes)
        assert first.content("score", [run]) != other.content("score", [run])
        assert first.content("train", [run]) == other.content("train", [run])
