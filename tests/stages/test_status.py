"""How far a suite is: a run that is done, one at work, one that failed, one that was killed, and
one that is left; and one run's failure leaves the others alone."""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.cli import main
from bench.runs import config, paths
from bench.runs.plan import read_plan
from bench.stages import activity, device, jobs
from bench.stages.activity import (
    FAILURE,
    KILLED,
    LOCK,
    Failure,
    is_transient,
    last_failure,
    stage_at_work,
    working,
)
from bench.stages.cost import steps
from bench.stages.status import report, status
from bench.utils.errors import TransientError, UserError
from bench.utils.files import write_error, write_json, write_text
from bench.utils.interrupts import Stopped
from tests.support.tiny_suite import SMALL, tiny_configuration

DEVICE = "NVIDIA H200"
TRAINING, SCORING = 7200.0, 1800.0  # seconds


@pytest.fixture
def suite(tmp_path) -> Path:
    """A suite of six seeds: 1 is done, 2 trains at half its steps, the training of 3 failed, the
    scoring of 4 was killed, 5 was stopped, and 6 is untouched."""
    content: dict[str, Any] = {
        "suite": "s",
        "data": "senteval",
        "corpus": "wiki1m",
        "tasks": ["MR"],
    }
    content |= {"seeds": [1, 2, 3, 4, 5, 6], "backbones": {"bert-base-uncased": None}}
    planned_suite = config.validate(content | {"methods": ["simcse"]})
    plan = config.plan(planned_suite)
    folder = tmp_path / "results" / "s"
    plan.write(folder / "plan.json")
    first, second, third, fourth, fifth, _ = plan.runs
    outcome = {"status": "finished", "steps": steps(first), "work": {"seconds": TRAINING}}
    origin: dict[str, Any] = {"run": first.describe(), "outcome": outcome}
    origin |= {"device": {"name": DEVICE}}
    origin |= {"seconds": SCORING, "tasks": {"MR": {}}, "data": {"name": "senteval"}}
    write_json(paths.result_file(folder, first.id, "score"), {"provenance": origin, "records": []})
    write_json(paths.result_file(folder, first.id, "train"), {"outcome": outcome})
    rows = [json.dumps({"step": step}) for step in (1, steps(second) // 2)]
    log = paths.run_folder(folder, second.id) / "log.jsonl"
    write_text(log, "\n".join(rows) + '\n{"step": 9')  # a line that is being written
    for _ in range(2):
        with pytest.raises(UserError), working(folder, third.id, "train"):
            raise TransientError("memory is full; use less")
    write_json(paths.result_file(folder, fourth.id, "train"), {"outcome": outcome})
    write_text(paths.run_folder(folder, fourth.id) / LOCK, "score")
    with pytest.raises(Stopped), working(folder, fifth.id, "train"):
        raise Stopped("SIGTERM")
    write_text(folder / "logs" / "train" / f"{third.id}.log", "error: memory is full; use less\n")
    return folder


def seeds(runs: list[Any]) -> list[str]:
    return [run.id.split("_")[3] for run in runs]


def test_each_run_is_counted_once_and_says_what_is_wrong(suite):
    second = read_plan(suite / "plan.json").runs[1].id
    with working(suite, second, "train"):
        suite_status = status(suite)
    assert suite_status.done == {"finished": 1}
    by_state: dict[str, list[Any]] = {"running": [], "failed": [], "left": []}
    for open_run in suite_status.open:
        by_state[open_run.state].append(open_run)
    assert {state: seeds(runs) for state, runs in by_state.items()} == {
        "running": ["s2"], "failed": ["s3", "s4"], "left": ["s5", "s6"],
    }  # fmt: skip
    (running,), (failed, killed) = by_state["running"], by_state["failed"]
    assert (running.stage, running.step) == ("train", 7812)
    assert (failed.stage, failed.failure.error) == ("train", "memory is full; use less")
    assert (failed.failure.attempts, failed.failure.final) == (2, False)
    assert Path(failed.log).read_text().startswith("error: memory")
    assert (killed.stage, killed.failure.error, killed.log) == ("score", KILLED, "")
    # Seed 2 has half its training left, 3, 5 and 6 a whole one; all five are scored.
    assert (suite_status.device, suite_status.unknown) == (DEVICE, 0)
    assert suite_status.hours == pytest.approx((3.5 * TRAINING + 5 * SCORING) / 3600, rel=1e-4)


def test_damaged_scores_and_those_of_another_run_are_not_done(suite):
    first, second = (run.id for run in read_plan(suite / "plan.json").runs[:2])
    shutil.copy(paths.result_file(suite, first, "score"), paths.result_file(suite, second, "score"))
    write_text(paths.result_file(suite, first, "score"), '{"provenance": {"run"')
    suite_status = status(suite)
    assert suite_status.done == {}
    damaged, copied, *_ = suite_status.open
    assert [(run.state, run.stage) for run in (damaged, copied)] == [("failed", "score")] * 2
    assert f"{first}.json" in damaged.failure.error
    assert f"it holds the scores of {first}" in copied.failure.error


def test_the_command_prints_text_and_json(suite, capsys):
    write_text(
        suite / "logs" / "corpus-wiki1m.log", "Traceback (most recent call last):\nOSError: x"
    )
    assert main(["status", "--suite", str(suite)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("s: 1 of 6 runs done, 0 running, 2 failed, 3 left\nhours left: 9.50 on")
    assert "train, 2 attempts: memory is full; use less\n" in text
    assert f"  OSError: x\n    {suite}/logs/corpus-wiki1m.log" in text
    assert main(["status", "--suite", str(suite), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [run["state"] for run in content["open"]] == ["left", "failed", "failed", "left", "left"]
    assert content["steps"] == {f"{suite}/logs/corpus-wiki1m.log": "OSError: x"}


def test_a_job_that_fails_before_its_run_is_seen(suite):
    last = read_plan(suite / "plan.json").runs[-1].id
    log = suite / "logs" / "train" / f"{last}.log"
    write_text(log, "waiting for a GPU\n")
    assert status(suite).open[-1].state == "left"
    write_text(log, "waiting for a GPU\nerror: nvidia-smi fails; repair it\n")
    failure = status(suite).open[-1].failure
    assert failure is not None
    assert failure.error == "nvidia-smi fails; repair it"


def test_nothing_is_measured_yet(suite):
    first = read_plan(suite / "plan.json").runs[0].id
    paths.result_file(suite, first, "score").unlink()
    assert status(suite).device == ""
    assert "hours left: unknown until a run is done" in report(status(suite))


def test_one_process_works_on_a_run_and_who_looks_leaves_no_trace(suite, monkeypatch):
    monkeypatch.setattr(activity, "LOOK", 0.1)
    name = read_plan(suite / "plan.json").runs[0].id
    with working(suite, name, "score"):
        assert stage_at_work(suite, name) == "score"
        refused = pytest.raises(TransientError, match="another process is at work")
        with refused, working(suite, name, "train"):
            pass
        assert stage_at_work(suite, name) == "score"
    assert stage_at_work(suite, name) == ""
    assert last_failure(suite, name) is None
    assert not paths.run_folder(suite, name).exists()


def failure(suite: Path, name: str) -> Failure:
    last = last_failure(suite, name)
    assert last is not None
    return last


def test_the_next_attempt_forgets_the_failure_and_success_the_attempts(suite):
    third = read_plan(suite / "plan.json").runs[2].id
    assert failure(suite, third).error == "memory is full; use less"
    with working(suite, third, "train"):
        assert not (paths.run_folder(suite, third) / FAILURE).exists()
    with pytest.raises(UserError), working(suite, third, "train"):
        raise UserError("it is broken; mend it")
    assert (failure(suite, third).attempts, failure(suite, third).final) == (1, True)


def test_a_killed_attempt_and_an_error_in_the_code(suite):
    last = read_plan(suite / "plan.json").runs[-1].id
    write_text(paths.run_folder(suite, last) / LOCK, "train")  # as SIGKILL leaves it
    assert failure(suite, last).error == KILLED
    with pytest.raises(ValueError, match="a bug"), working(suite, last, "train"):
        raise ValueError("a bug")
    bug = failure(suite, last)
    assert (bug.attempts, bug.final, bug.error) == (1, True, "ValueError('a bug')")
    assert bug.traceback.startswith("Traceback (most recent call last)")


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (UserError("'sscl' cannot be trained: 'layer' is 9"), False),
        (write_error(Path("log.jsonl"), errno.ENAMETOOLONG), False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied (8x64 and 32x64)"), False),
        (write_error(Path("log.jsonl"), errno.ENOSPC), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (RuntimeError("CUDA error: unspecified launch failure"), True),
        (OSError(errno.EIO, "Input/output error"), True),
    ],
    ids=str,
)
def test_what_another_attempt_may_not_meet_again(error, transient):
    assert is_transient(error) == transient


@pytest.fixture
def of_seeds(tiny_bert, tiny_data, tiny_corpus, tmp_path) -> Callable[[list[int]], Path]:
    """Plan a suite of one small training for each seed."""

    def make(seeds: list[int]) -> Path:
        given: dict[str, Any] = {"methods": ["simcse"], "seeds": seeds, "tasks": ["STS12"]}
        content = tiny_configuration(tiny_bert, tiny_data, tiny_corpus, **given, recipe=SMALL)
        config.plan(config.validate(content)).write(tmp_path / "results" / "tiny" / "plan.json")
        return tmp_path / "results" / "tiny"

    return make


def failing(seed: int, error: Exception) -> Callable[..., Any]:
    """`train_run`, but that of one seed raises an error."""
    train: Callable[..., Any] = jobs.train_run

    def train_run(run: Any, *rest: Any) -> Any:
        if run.seed == seed:
            raise error
        return train(run, *rest)

    return train_run


@pytest.mark.parametrize("error", [UserError("it is broken; mend it"), ValueError("a bug")])
def test_a_failed_run_does_not_stop_the_others(error, of_seeds, monkeypatch, capsys):
    suite, train = of_seeds([1, 2]), jobs.train_run
    monkeypatch.setattr(jobs, "train_run", failing(1, error))
    assert main(["job", "--suite", str(suite)]) == 2
    assert "1 of 2 runs failed; the last is simcse" in capsys.readouterr().err
    suite_status = status(suite)
    assert suite_status.done == {"finished": 1}
    (failed,) = suite_status.open
    assert (failed.state, failed.stage) == ("failed", "train")
    assert failed.failure is not None
    assert (failed.failure.attempts, failed.failure.final) == (1, True)
    monkeypatch.setattr(jobs, "train_run", train)
    # The workflow's retry: nothing is tried again, and the message is the same.
    assert main(["job", "--suite", str(suite), "--attempt", "2"]) == 2
    assert f"error: {failed.id}: {failed.failure.error}\n" in (said := capsys.readouterr().err)
    assert ("Traceback" in said) == isinstance(error, ValueError)
    with monkeypatch.context() as patch:  # alone in its job, it does not wait for a device
        patch.setattr(device, "lease", lambda: pytest.fail("a device is leased"))
        alone = ["job", "--suite", str(suite), failed.id, "--attempt", "2"]
        assert main(alone) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"error: {failed.failure.error}"
    assert status(suite) == suite_status
    # Its next start.
    assert main(["job", "--suite", str(suite)]) == 0
    assert status(suite).done == {"finished": 2}


def test_a_job_scores_what_it_trained_beside_a_failed_run(of_seeds, monkeypatch):
    """The workflow starts no scoring after a training job that failed."""
    suite = of_seeds([1, 2, 3])
    ids = [run.id for run in read_plan(suite / "plan.json").runs]
    job = ["job", *ids, "--suite", str(suite), "--stages", "train"]
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "train_run", failing(2, UserError("it is broken; mend it")))
        assert main(job) == 2
    suite_status = status(suite)
    assert suite_status.done == {"finished": 2}
    assert [(run.state, run.stage) for run in suite_status.open] == [("failed", "train")]
    assert main(job) == 0  # a job without failures leaves the scoring to its own
    assert [(run.state, run.stage) for run in status(suite).open] == [("left", "score")]
