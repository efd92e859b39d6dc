"""How far a suite is: a run that is done, one at work, one that failed, one that was killed, and
one that is left; and one run's failure leaves the others alone."""

import errno
import json
import shutil
from pathlib import Path

import pytest
import torch

from bench.runs import config, paths
from bench.runs.run import read_runs
from bench.stages import activity, jobs
from bench.stages.activity import KILLED, LOCK, Failure, hold, last_failure, working
from bench.stages.cost import rough, steps
from bench.stages.status import status
from bench.utils.errors import TransientError, UserError
from bench.utils.files import write_error, write_json, write_text
from bench.utils.interrupts import Stopped
from tests.support.refusals import refused
from tests.support.tiny_suite import SMALL, seeds_of_simcse, tiny_configuration

# Messages of CUDA after a fault of another process of the same daemon of MPS; torch prefixes them.
OF_MPS = [
    "the remote procedural call between the MPS server and the MPS client failed",
    "MPS client has been terminated by the server",
    "an illegal memory access was encountered",
]
DEVICE = "NVIDIA H200"
TRAINING, SCORING = 7200.0, 1800.0  # seconds


@pytest.fixture
def suite(tmp_path):
    """A suite of six seeds: 1 is done, 2 trains at half its steps, the training of 3 failed, the
    scoring of 4 was killed, 5 was stopped, and 6 is untouched."""
    plan = seeds_of_simcse(6)
    folder = tmp_path / "results" / "s"
    plan.write(folder / "plan.json")
    first, second, third, fourth, fifth, _ = plan.runs
    outcome = {"status": "finished", "steps": steps(first), "seconds": TRAINING}
    origin = {
        "run": first.describe(), "outcome": outcome, "device": {"name": DEVICE}, "seconds": SCORING,
        "tasks": {"MR": {}}, "data": {"name": "senteval"},
    }  # fmt: skip
    write_json(paths.result_file(folder, first.id, "score"), {"provenance": origin, "records": []})
    write_json(paths.result_file(folder, first.id, "train"), {"outcome": outcome})
    rows = [json.dumps({"step": step}) for step in (1, steps(second) // 2)]
    log = paths.run_folder(folder, second.id) / "log.jsonl"
    write_text(log, "\n".join(rows) + '\n{"step": 9')  # a line that is being written
    for _ in range(2):
        with pytest.raises(UserError), working(folder, third.id, "train"):
            raise TransientError("memory is full; use less")
    write_json(paths.result_file(folder, fourth.id, "train"), {"outcome": outcome})
    write_text(paths.run_folder(folder, fourth.id) / LOCK, "score")  # as SIGKILL leaves it
    with pytest.raises(Stopped), working(folder, fifth.id, "train"):
        raise Stopped("SIGTERM")
    write_text(folder / "logs" / "train" / f"{third.id}.log", "error: memory is full; use less\n")
    return folder


@pytest.fixture
def ids(suite):
    return [run.id for run in read_runs(suite / "plan.json").runs]


def test_each_run_is_counted_once_and_says_what_is_wrong(suite, ids):
    with working(suite, ids[1], "train"):
        suite_status = status(suite)
    assert suite_status.done == {"finished": 1}
    assert [(run.id, run.state, run.stage) for run in suite_status.open] == [
        (ids[1], "running", "train"),
        (ids[2], "failed", "train"),
        (ids[3], "failed", "score"),
        (ids[4], "left", "train"),
        (ids[5], "left", "train"),
    ]
    running, failed, killed, *_ = suite_status.open
    assert running.step == 7812
    assert failed.failure == Failure("train", "memory is full; use less", attempts=2)
    assert failed.log == str(suite / "logs" / "train" / f"{ids[2]}.log")
    assert (killed.failure.error, killed.log) == (KILLED, "")
    # Seed 2 has half its training left, 3, 5 and 6 a whole one; all five are scored.
    assert (suite_status.device, suite_status.unknown) == (DEVICE, 0)
    assert suite_status.hours == pytest.approx((3.5 * TRAINING + 5 * SCORING) / 3600, rel=1e-4)


def test_damaged_scores_and_those_of_another_run_are_not_done(suite, ids):
    first, second = (paths.result_file(suite, name, "score") for name in ids[:2])
    shutil.copy(first, second)
    write_text(first, '{"provenance": {"run"')
    suite_status = status(suite)
    assert suite_status.done == {}
    damaged, copied, *_ = suite_status.open
    assert [(run.state, run.stage) for run in (damaged, copied)] == [("failed", "score")] * 2
    assert first.name in damaged.failure.error
    assert f"it holds the scores of {ids[0]}" in copied.failure.error
    # Nothing was measured: three trainings and four scorings are left.
    run = read_runs(suite / "plan.json").runs[0]
    assert (suite_status.hours, suite_status.unknown) == (0, 7)
    assert suite_status.estimate == rough([(run, "train")] * 3 + [(run, "score")] * 4)


def test_the_command_prints_text(suite, said):
    log = suite / "logs" / "corpus-wiki1m.log"
    write_text(log, "Traceback (most recent call last):\nOSError: x")
    text = said("status", suite).out
    assert text.startswith("s: 1 of 6 runs done, 0 running, 2 failed, 3 left\nhours left: 9.50 on")
    assert "train, 2 attempts: memory is full; use less\n" in text
    assert f"  OSError: x\n    {log}" in text


def test_hours_that_nobody_can_tell_are_unknown(suite, monkeypatch, said):
    monkeypatch.setattr("bench.stages.status._predict", lambda *_: None)  # a corpus is not here
    assert "\nhours left: unknown\n" in said("status", suite).out


def test_a_job_that_fails_before_its_run_is_seen(suite, ids):
    log = suite / "logs" / "train" / f"{ids[-1]}.log"
    write_text(log, "waiting for a GPU\n")
    assert status(suite).open[-1].state == "left"
    write_text(log, "waiting for a GPU\nerror: nvidia-smi fails; repair it\n")
    assert status(suite).open[-1].failure.error == "nvidia-smi fails; repair it"


def test_one_process_works_on_a_run_and_who_looks_leaves_no_trace(suite, ids, monkeypatch):
    monkeypatch.setattr(activity, "LOOK", 0.1)
    with working(suite, ids[0], "score"):
        refused = pytest.raises(TransientError, match="another process is at work")
        with refused, working(suite, ids[0], "train"):
            pass
        assert activity.stage_at_work(suite, ids[0]) == "score"
    assert activity.stage_at_work(suite, ids[0]) == ""
    assert last_failure(suite, ids[0]) is None
    assert not paths.run_folder(suite, ids[0]).exists()


def test_the_next_attempt_forgets_the_failure_and_an_error_in_the_code_is_final(suite, ids):
    with working(suite, ids[2], "train"):
        assert not (paths.run_folder(suite, ids[2]) / activity.FAILURE).exists()
    with pytest.raises(ValueError, match="a bug"), working(suite, ids[2], "train"):
        raise ValueError("a bug")
    bug = last_failure(suite, ids[2])
    assert (bug.attempts, bug.final, bug.error) == (1, True, "ValueError('a bug')")
    assert bug.traceback.startswith("Traceback (most recent call last)")


def test_a_suite_is_held_by_one_workflow_and_no_orphan(suite, ids, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    held = []
    monkeypatch.setattr(activity.atexit, "register", held.append)
    hold(suite, ids)
    hold(suite.with_name("other"), ids)
    refused(lambda: hold(suite, ids), "another workflow is at work on")
    held[0]()  # the process ends
    with working(suite, ids[1], "train"), pytest.raises(UserError, match=f"at work on {ids[1]} in"):
        hold(suite, ids)


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (UserError("'sscl' cannot be trained: 'layer' is 9"), False),
        (write_error(Path("log.jsonl"), errno.ENAMETOOLONG), False),
        (RuntimeError("could not create a primitive descriptor for a matmul primitive"), False),
        (RuntimeError("could not create a primitive"), True),
        (write_error(Path("log.jsonl"), errno.ENOSPC), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        *((torch.AcceleratorError(f"CUDA error: {words}\n"), True) for words in OF_MPS),
        (OSError(errno.EIO, "Input/output error"), True),
    ],
    ids=str,
)
def test_what_another_attempt_may_not_meet_again(error, transient):
    assert activity.is_transient(error) == transient


@pytest.fixture
def three(tiny_bert, tiny_data, tiny_corpus, tmp_path):
    """The folder of a planned suite: a small training with three seeds."""
    content = {"methods": ["simcse"], "seeds": [1, 2, 3], "tasks": ["STS12"], "recipe": SMALL}
    content = tiny_configuration(tiny_bert, tiny_data, tiny_corpus, **content)
    config.plan(config.validate(content)).write(tmp_path / "results" / "tiny" / "plan.json")
    return tmp_path / "results" / "tiny"


def failing(error):
    """`train_run`, but the second seed raises an error."""
    train = jobs.train_run

    def train_run(run, *rest):
        if run.seed == 2:
            raise error
        return train(run, *rest)

    return train_run


@pytest.mark.parametrize("error", [UserError("it is broken; mend it"), ValueError("a bug")])
def test_a_failed_run_does_not_stop_the_others(error, three, monkeypatch, said):
    job = ["job", "--suite", three]
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "train_run", failing(error))
        assert "1 of 3 runs failed; the last is simcse" in said(*job, status=2).err
    suite_status = status(three)
    assert suite_status.done == {"finished": 2}
    (failed,) = suite_status.open
    assert (failed.state, failed.stage) == ("failed", "train")
    assert (failed.failure.attempts, failed.failure.final) == (1, True)
    # The workflow's retry: nothing is tried again, and the message is the same.
    err = said(*job, "--attempt", "2", status=2).err
    assert f"error: {failed.id}: {failed.failure.error}\n" in err
    assert ("Traceback" in err) == isinstance(error, ValueError)
    with monkeypatch.context() as patch:  # alone in its job, it does not wait for a device
        patch.setattr(jobs, "lease", lambda _: pytest.fail("a device is leased"))
        err = said(*job, failed.id, "--attempt", "2", status=2).err
    assert err.splitlines()[-1] == f"error: {failed.failure.error}"
    assert status(three) == suite_status
    said(*job)  # its next start
    assert status(three).done == {"finished": 3}


def test_a_job_scores_what_it_trained_beside_a_failed_run(three, monkeypatch, said):
    """The workflow starts no scoring after a training job that failed."""
    ids = [run.id for run in read_runs(three / "plan.json").runs]
    job = ["job", *ids, "--suite", three, "--stages", "train"]
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "train_run", failing(UserError("it is broken; mend it")))
        said(*job, status=2)
    suite_status = status(three)
    assert suite_status.done == {"finished": 2}
    assert [(run.state, run.stage) for run in suite_status.open] == [("failed", "train")]
    said(*job)  # a job without failures leaves the scoring to its own
    assert [(run.state, run.stage) for run in status(three).open] == [("left", "score")]
