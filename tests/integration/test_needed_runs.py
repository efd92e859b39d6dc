"""A teacher that is a run of the suite: both are trained, in order, and missing ones are named."""

import pytest
import torch

from bench.models.load import load_encoder
from bench.results.records import read_trained
from bench.results.suite_results import read_results
from bench.runs import config as suites
from bench.runs import paths
from bench.runs.run import Recipe, read_runs
from bench.stages import jobs
from bench.utils.files import write_json
from tests.support.refusals import refused
from tests.support.tiny_suite import tiny_configuration

STUDENT = "rankcse[sentences=28,teacher=run:simcse[sentences=28]]"
# The teacher's text has the method's own value for a field that the suite sets: only the suite's
# recipe tells that its name must spell it.
OWN_VALUE = "rankcse[sentences=28,teacher=run:simcse[select_every=125,sentences=28]]"


@pytest.fixture
def make(tiny_bert, tiny_data, tiny_corpus, tmp_path):
    """The configuration of a teacher and its student, and both runs; the suite is `tmp_path`."""

    def made(**changes):
        recipe = {"batch_size": 8, "learning_rate": 1e-3, "select_every": 2}
        inputs = {"methods": [STUDENT], "recipe": recipe} | changes
        content = tiny_configuration(tiny_bert, tiny_data, tiny_corpus, **inputs)
        suite = suites.validate(content)
        suites.plan(suite).write(tmp_path / "plan.json")
        teacher, student = suites.planned(suite)
        return content, teacher, student

    return made


def weights(suite, run):
    encoder = load_encoder(paths.run_folder(suite, run.id))
    return torch.cat([tensor.flatten() for tensor in encoder.model.parameters()])


def test_teacher_and_student_are_trained_in_order(make, tiny_bert, tmp_path):
    """Fails if the student learns from its own backbone, from another encoder, or without one."""
    content, teacher, student = make()
    plan = read_runs(tmp_path / "plan.json")
    assert [run.id for run in plan.chosen()] == [teacher.id, student.id]
    jobs.run_plan(tmp_path, plan, plan.chosen())
    rows = read_results(tmp_path).runs
    assert [run.status for run in rows] == ["finished", "finished"]
    result = read_trained(paths.result_file(tmp_path, student.id, "train")).run
    assert result.needs == {"run:simcse[sentences=28]@official": teacher.describe()}
    assert f"run-{teacher.digest}" == result.identity["parts"][0][2]["teacher"]
    # By path the same encoder gives the same weights; the untrained backbone gives others.
    folder = paths.run_folder(tmp_path, teacher.id)
    for place, equal in ((str(folder), True), (str(tiny_bert), False)):
        text = f"rankcse[sentences=28,teacher={place}]"
        (same,) = suites.planned(suites.validate(content | {"methods": [text]}))
        jobs.train_run(same, tmp_path, "cpu")
        assert torch.equal(weights(tmp_path, same), weights(tmp_path, student)) is equal


def test_a_planned_run_keeps_its_name(make, tmp_path):
    """Fails if a job trains what is not the run that is planned: its results are nobody's then."""
    _, run, _ = make(methods=[OWN_VALUE])
    assert "select-every-125" in run.id
    plan = read_runs(tmp_path / "plan.json")
    (planned,) = plan.chosen([run.id])
    changed = planned.model_copy(update={"recipe": Recipe()})
    told = f"the plan's run {run.id} is another one now", "; write the plan again"
    refused(lambda: jobs.run_plan(tmp_path, plan, [changed], ["train"]), *told)
    assert not (tmp_path / "trained").exists()
    jobs.run_plan(tmp_path, plan, [planned], ["train"])
    assert paths.result_file(tmp_path, run.id, "train").is_file()


def test_a_student_needs_its_teachers_encoder(make, tmp_path):
    """Where the teacher diverged, that is a result and no failure: a suite comes to its end."""
    _, teacher, student = make()
    refused(
        lambda: jobs.train_run(student, tmp_path, "cpu"),
        "needs the encoder of run:simcse",
        "train it first",
    )
    file = paths.result_file(tmp_path, teacher.id, "train")
    write_json(file, {"outcome": {"status": "finished"}})  # but no encoder
    refused(
        lambda: jobs.train_run(student, tmp_path, "cpu"),
        "has no encoder:",
        "does not exist; train the run",
    )
    write_json(file, {"outcome": {"status": "diverged", "reason": "the loss is nan"}})
    plan = read_runs(tmp_path / "plan.json")
    jobs.run_plan(tmp_path, plan, plan.chosen([student.id]))
    row = read_results(tmp_path).runs[1]
    why = "it needs run:simcse[sentences=28]@official, whose training diverged"
    assert (row.status, row.reason) == ("skipped", why)
