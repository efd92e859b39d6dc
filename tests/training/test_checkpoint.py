"""A training that is stopped ends as if it had not been; a fault is one sentence and leaves nothing
half-written."""

import os
import re
import signal
from contextlib import closing, contextmanager

import pytest
import torch

import bench.training.checkpoint
import bench.training.loop
from bench.runs.config import plan, validate
from bench.runs.run import Recipe
from bench.training.checkpoint import Checkpoints, Log
from bench.training.loop import batches, train
from bench.utils import interrupts
from bench.utils.errors import TransientError, UserError
from bench.utils.files import sha256_file
from methods.simcse import SimCSE
from tests.support.outcomes import assert_left, left, log_of, outcome_of
from tests.support.tiny_suite import SMALL, tiny_configuration, tiny_run, training_words

pytestmark = pytest.mark.usefixtures("global_state")

# Every kind of memory: buffers, second encoders that follow, that learn and that are frozen,
# RMSProp, early stopping.
METHODS = [
    "is-cse[buffer=12,clusters=3,group=both,neighbours=3]",
    "esimcse[queue=20]",
    "dclr[complement_dropout=true,epochs=1]+sscl",
    "ct-bert[batch_size=4,drawn=12,negatives=3]",
    "simcse[patience=1,select_every=1]",
]
CONTINUE = "run the same command again to continue from what is finished"


@pytest.fixture
def make(tiny_bert, tiny_data, tiny_corpus):
    def make_run(text="simcse", seed=1, **recipe):
        return tiny_run(text, tiny_bert, tiny_data, tiny_corpus, seed, **recipe)

    return make_run


def fit(run, folder):
    """Train in a folder; what several runs share stands beside it."""
    return train(run, folder.parent / "suite", folder)


@pytest.fixture(scope="module")
def unstopped(tmp_path_factory):
    """The files of a training that nobody stopped; equal runs share one."""
    known = {}

    def look_up(run):
        if run.id not in known:
            folder = tmp_path_factory.mktemp("whole") / "run"
            fit(run, folder)
            known[run.id] = left(folder)
        return known[run.id]

    return look_up


def stop(run, folder, after=1):
    """Train until a signal comes after so many steps; whether it came."""
    signals = iter([None] * (after - 1) + ["SIGTERM"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interrupts, "pending_signal", lambda: next(signals, None))
        try:
            fit(run, folder)
        except interrupts.Stopped:
            return True
    return False


def generations(folder):
    """Checkpoints of a training, the oldest first."""
    return sorted((folder / "checkpoints").iterdir())


def steps_of(folder):
    return [int(path.name[:8]) for path in generations(folder)]


@contextmanager
def changed_loss(change):
    """SimCSE, the loss of which goes through `change`, with the views and the step's place."""
    plain = SimCSE.loss
    with pytest.MonkeyPatch.context() as patch:
        loss = lambda self, v, step: change(plain(self, v, step), v, step.index)  # noqa: E731
        patch.setattr(SimCSE, "loss", loss)
        yield patch


# Going on


@pytest.mark.parametrize("text", METHODS)
def test_stopped_after_each_step(make, unstopped, text, tmp_path):
    run, folder, sittings = make(text), tmp_path / "parts", 1
    while stop(run, folder):
        sittings += 1
    assert_left(folder, unstopped(run))
    assert sittings == outcome_of(folder)["steps"] + 1  # the last one only saves


def test_the_scale_of_mixed_precision_goes_on(make, unstopped, tmp_path, monkeypatch):
    """A scaler on the processor, which doubles its scale every other step and loses a step to
    overflow at first."""
    scalers, plain = [], torch.amp.GradScaler

    def scaler(device, enabled):
        scalers.append(plain(device, init_scale=2.0**126, growth_interval=2))
        return scalers[-1]

    monkeypatch.setattr(torch.amp, "GradScaler", scaler)
    run = make(sentences=44)
    assert stop(run, tmp_path / "parts", after=3)
    assert scalers[-1].get_scale() < 2.0**126
    fit(run, tmp_path / "parts")
    assert_left(tmp_path / "parts", unstopped(run))
    assert scalers[-1].get_scale() == scalers[-2].get_scale()


def test_checkpoints_change_nothing_and_go_with_the_end(make, tmp_path, monkeypatch):
    often, seldom, steps, save = tmp_path / "often", tmp_path / "seldom", [], Checkpoints.save

    def watched(self, *arguments):
        save(self, *arguments)
        steps.append(steps_of(often))
        for path in generations(often):
            assert path.name[9:] == f"{sha256_file(path)}.safetensors"

    with monkeypatch.context() as patch:
        patch.setenv("SENTBENCH_CHECKPOINT_SECONDS", "0")
        patch.setattr(Checkpoints, "save", watched)
        fit(make(), often)
    assert steps == [[1], [1, 2], [2, 3], [3, 4]]  # two generations, whatever comes
    monkeypatch.setattr(Checkpoints, "save", None)  # a short training writes none
    fit(make(), seldom)
    assert_left(seldom, left(often))
    assert_left(often, left(seldom))


def test_checkpoints_come_by_time(tmp_path, monkeypatch):
    now = iter(range(0, 10_000, 50))
    monkeypatch.setattr(bench.training.checkpoint.time, "monotonic", lambda: next(now))
    checkpoints = Checkpoints(tmp_path, {})
    # After 50, 100, 150 of 120 seconds.
    assert [checkpoints.due() for _ in range(3)] == [False, False, True]
    checkpoints.save(1, {})
    assert [checkpoints.due() for _ in range(3)] == [False, False, True]


def test_earlier_sittings_elsewhere_are_named(make, tmp_path, monkeypatch, capsys):
    plain = bench.training.loop.provenance
    with monkeypatch.context() as patch:
        older = {"versions": {"torch": "1.0"}}
        patch.setattr(bench.training.loop, "provenance", lambda *given: plain(*given) | older)
        assert stop(make(), tmp_path / "run")
        assert stop(make(), tmp_path / "run")
    assert "earlier steps ran with other" not in capsys.readouterr().err
    described = fit(make(), tmp_path / "run")["provenance"]
    assert [sitting["versions"] for sitting in described["earlier"]] == [{"torch": "1.0"}]
    assert described["versions"]["torch"] == torch.__version__
    assert "earlier steps ran with other code, versions or devices" in capsys.readouterr().err
    assert "earlier" not in fit(make(), tmp_path / "other")["provenance"]


# Broken and foreign checkpoints


def shorten(path):
    os.truncate(path, path.stat().st_size // 2)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "number", "said"),
    [
        (flip, 1, "simcse resumes after step 2 of 4"),
        (shorten, 2, ""),
    ],
)
def test_of_a_broken_checkpoint_the_one_before_is_taken(
    make, unstopped, tmp_path, capsys, damage, number, said
):
    run = make()
    for _ in range(3):
        assert stop(run, tmp_path / "run")
    damaged = generations(tmp_path / "run")[-number:]
    for path in damaged:
        damage(path)
    capsys.readouterr()
    fit(run, tmp_path / "run")
    told = capsys.readouterr().err.replace(run.id, "simcse")
    assert told.count("is damaged and was deleted") == number
    assert all(f"{path} is damaged" in told for path in damaged)
    assert ("resumes" in told) == bool(said)
    assert said in told
    assert_left(tmp_path / "run", unstopped(run))


def other_tensors(folder, patch):
    memory = torch.zeros(3)
    patch.setattr(SimCSE, "prepare", lambda self, context: self.register_buffer("memory", memory))


def lost_rows(folder, patch):
    os.truncate(folder / "log.jsonl", 10)


@pytest.mark.parametrize(
    ("change", "seed", "problem"),
    [
        (
            None,
            2,
            "of another training, or its corpus or backbone has changed; move its folder away",
        ),
        (other_tensors, 1, "does not match the tensors of 'simcse' in this version"),
        (lost_rows, 1, "log.jsonl has lost rows since "),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(
    make, tmp_path, monkeypatch, change, seed, problem
):
    folder = tmp_path / "run"
    assert stop(make(), folder)
    if change:
        change(folder, monkeypatch)
    files = [*generations(folder), folder / "log.jsonl"]
    before = [path.read_bytes() for path in files]
    with pytest.raises(UserError, match=re.escape(problem)):
        fit(make(seed=seed), folder)
    assert [path.read_bytes() for path in files] == before


def test_a_run_is_trained_once_at_a_time(make, tmp_path):
    with closing(Log(tmp_path / "run" / "log.jsonl")) as log:
        log.write({"step": 1})
        with pytest.raises(TransientError, match="is locked: another process is training this run"):
            fit(make(), tmp_path / "run")
        assert (tmp_path / "run" / "log.jsonl").read_text() == '{"step": 1}\n'
    assert fit(make(), tmp_path / "run")["outcome"]["status"] == "finished"


# Signals


def told(at, *numbers):
    """This process sends itself signals while the loss of a step is computed."""

    def change(loss, views, index):
        for number in numbers if index == at else ():
            os.kill(os.getpid(), number)
        return loss

    return changed_loss(change)


@pytest.mark.parametrize(
    ("numbers", "status", "how"),
    [
        ([signal.SIGTERM], 75, "stopped by SIGTERM"),
        ([signal.SIGUSR1, signal.SIGTERM], 75, "stopped by SIGTERM"),
        ([signal.SIGINT], 130, "interrupted"),
    ],
)
def test_a_signal_leaves_a_checkpoint(make, unstopped, said, tmp_path, numbers, status, how):
    run = make()
    folder = tmp_path / "runs" / run.id
    handlers = [signal.getsignal(number) for number in interrupts.SIGNALS]
    with told(1, *numbers):
        last = said(*training_words(run, tmp_path), status=status).err.splitlines()[-1]
    kept = f"{run.id} has a checkpoint after step 2 of 4"
    assert last == f"{how}: {kept}; {CONTINUE}"
    assert steps_of(folder) == [2]
    assert not (tmp_path / "trained").exists()
    assert [signal.getsignal(number) for number in interrupts.SIGNALS] == handlers  # as they were
    said(*training_words(run, tmp_path))
    assert_left(folder, unstopped(run))


@pytest.mark.parametrize("place", ["RunContext", "save_encoder"])
def test_outside_of_the_steps_a_signal_stops_at_once(
    make, unstopped, said, tmp_path, monkeypatch, place
):
    run = make()
    with monkeypatch.context() as patch:
        patch.setattr(bench.training.loop, place, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        last = said(*training_words(run, tmp_path), status=75).err.splitlines()[-1]
    assert last == f"stopped by SIGTERM; {CONTINUE}"
    said(*training_words(run, tmp_path))
    assert_left(tmp_path / "runs" / run.id, unstopped(run))


def test_several_runs_in_one_process_go_on(
    make, unstopped, said, tiny_bert, tiny_data, tiny_corpus, tmp_path
):
    methods = ["gs-infonce[multiple=1]", "simcse", "sscl"]
    places = tiny_bert, tiny_data, tiny_corpus
    planned = plan(validate(tiny_configuration(*places, recipe=SMALL, methods=methods)))
    planned.write(tmp_path / "plan.json")
    first, second, third = (run.id for run in planned.runs)
    command = ["job", "--suite", tmp_path, "--stages", "train"]
    with told(2, signal.SIGTERM):
        said(*command, status=75)
    assert [path.stem for path in (tmp_path / "trained").iterdir()] == [first]
    assert steps_of(tmp_path / "runs" / second) == [3]
    assert not (tmp_path / "runs" / third).exists()
    said(*command)
    assert len(list((tmp_path / "trained").iterdir())) == 3
    assert_left(tmp_path / "runs" / second, unstopped(make()))


# Disks and memory


@pytest.mark.parametrize(
    ("error", "expected", "said"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), UserError, "full after step 1 of ct-bert"),
        (RuntimeError("shapes do not match"), RuntimeError, "shapes do not match"),
    ],
)
def test_full_memory_keeps_what_was_done(
    make, unstopped, tmp_path, monkeypatch, error, expected, said
):
    """Other errors are not taken for full memory."""
    run = make("ct-bert[batch_size=4,drawn=12,negatives=3]")
    assert stop(run, tmp_path / "run")

    def full(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.utils, "clip_grad_norm_", full)
        with pytest.raises(expected, match=said):
            fit(run, tmp_path / "run")
    fit(run, tmp_path / "run")
    assert_left(tmp_path / "run", unstopped(run))


# Divergence (of the loss: test_loop.py)


@pytest.mark.parametrize(("slope", "norm"), [(1e25, "inf"), (float("inf"), "nan")])
def test_a_gradient_that_is_not_finite_is_a_divergence(make, tmp_path, slope, norm):
    """The loss stays finite; clipping would make zeros or NaN of such a gradient, and the next step
    would be blamed."""

    def change(loss, views, index):
        steep = (views.vectors[0] - views.vectors[0].detach()).sum()
        steep.register_hook(lambda gradient: gradient * slope)
        return loss + (steep if index == 2 else 0)

    with changed_loss(change):
        assert stop(make(), tmp_path / "run")
        outcome = fit(make(), tmp_path / "run")["outcome"]
    assert outcome == {
        "status": "diverged",
        "reason": f"the gradient's norm became {norm}",
        "step": 3,
        "sentences": list(batches(28, Recipe(batch_size=8), 1))[2],
    }
    assert [row["step"] for row in log_of(tmp_path / "run")] == [1, 2]
    assert sorted(os.listdir(tmp_path / "run")) == ["log.jsonl", "outcome.json"]


# Mixed precision, with a real scaler on the CPU


@pytest.fixture
def scaled(monkeypatch):
    """The scaler of a GPU's mixed precision: it skips a step whose gradient is not finite."""
    scaler = torch.amp.GradScaler
    monkeypatch.setattr(torch.amp, "GradScaler", lambda device, enabled: scaler(device))


def overflowing(*bad):
    """The loss is not finite at the steps after `bad` others."""
    return changed_loss(lambda loss, views, index: loss * (float("nan") if index in bad else 1))


@pytest.mark.usefixtures("scaled")
def test_the_scaler_skips_a_step_and_says_so(make, tmp_path):
    run, whole, parts = make(), tmp_path / "whole", tmp_path / "parts"
    with overflowing(1):
        outcome = fit(run, whole)["outcome"]
        while stop(run, parts):
            pass
    assert_left(parts, left(whole))
    assert (outcome["status"], outcome["steps"], outcome["skipped_steps"]) == ("finished", 4, 1)
    rows = log_of(whole)
    assert [row["step"] for row in rows if row.get("skipped")] == [2]
    assert [row["step"] for row in rows if row["loss"] is None] == [2]
    assert outcome["curve"][0]["loss"] is None  # of the selection after that step


@pytest.mark.usefixtures("scaled")
@pytest.mark.parametrize(("bad", "ended"), [([0, 1, 3], None), ([0, 1, 2], 3)])
@pytest.mark.parametrize("stops", [False, True])
def test_many_skipped_steps_in_a_row_are_a_divergence(
    make, tmp_path, monkeypatch, bad, ended, stops
):
    """Also where the training is stopped between them: the checkpoint knows their number."""
    monkeypatch.setattr(bench.training.loop, "SKIPS", 2)
    with overflowing(*bad):
        if stops:
            assert stop(make(), tmp_path / "run", after=2)
        outcome = fit(make(), tmp_path / "run")["outcome"]
    assert outcome["skipped_steps"] == 3
    assert outcome.get("step") == ended
    if ended:
        expected = "the gradients of 3 steps in a row were not finite, the last loss nan"
        assert (outcome["status"], outcome["reason"]) == ("diverged", expected)
