"""Places on GPUs for processes, with pretended GPUs and real locks."""

import os
import subprocess
import sys
import time
from contextlib import ExitStack, nullcontext
from types import SimpleNamespace

import pytest
import torch
from filelock import FileLock

from bench.stages import device
from bench.stages.device import LARGE_BATCH, lease
from bench.utils.errors import TransientError, UserError

UUIDS = ["GPU-a", "GPU-b"]
HOLD = """
import sys, time
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of leases of a machine with two GPUs."""
    monkeypatch.setenv("SENTBENCH_LEASES", str(tmp_path))
    monkeypatch.delenv("SENTBENCH_RUNS_PER_GPU", raising=False)
    properties = [SimpleNamespace(uuid=uuid) for uuid in UUIDS]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(UUIDS))
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties.__getitem__)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    return tmp_path


def test_without_a_gpu_nothing_is_locked(folder, monkeypatch):
    """Beside GPUs on which CUDA does not start, nothing is computed on the processor: the driver
    may be too old, or MPS refuses new processes for a while after a fault of one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(TransientError, match="CUDA does not start"), lease():
        pass
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with lease() as device:
        assert device == "cpu"
    assert not list(folder.iterdir())


def test_a_folder_of_locks_that_another_user_made_is_refused(folder, monkeypatch):
    monkeypatch.delenv("SENTBENCH_LEASES")
    monkeypatch.setattr(device, "gettempdir", lambda: folder)
    with lease() as place:
        assert place == "cuda:0"
    owner = os.getuid()
    (folder / f"sentbench-{owner}").rename(folder / f"sentbench-{owner + 1}")
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(UserError, match="belongs to another user; name a folder"), lease():
        pass


def test_tf32_that_nothing_can_turn_off_is_refused(folder, monkeypatch):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    with pytest.raises(UserError, match="in TF32 whatever is asked for; unset it"), lease():
        pass


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "two", "100"])
def test_how_many_runs_share_a_gpu_is_a_number_from_1_to_99(text, folder, monkeypatch):
    monkeypatch.setenv("SENTBENCH_RUNS_PER_GPU", text)
    with pytest.raises(UserError, match=f"SENTBENCH_RUNS_PER_GPU is '{text}'"), lease():
        pass


@pytest.mark.parametrize(
    ("batch_size", "places"),
    [(LARGE_BATCH - 1, ["a", "b", "a", "b", "a", "b"]), (LARGE_BATCH, ["a", "b"])],
)
def test_places_of_two_gpus_for_three_runs_each(batch_size, places, folder, monkeypatch):
    """Every GPU's first before any second; of large trainings one on each GPU."""
    monkeypatch.setenv("SENTBENCH_RUNS_PER_GPU", "3")
    with ExitStack() as held:
        taken = []
        for _ in places:
            before = {path.name for path in folder.iterdir()}
            with lease(batch_size) as device:
                (name,) = {path.name for path in folder.iterdir()} - before
            taken.append(name[len("GPU-")])
            assert device == f"cuda:{UUIDS.index(name.partition('.')[0])}"
            held.enter_context(FileLock(folder / name))  # of another process
        assert taken == places


def test_a_large_training_shares_a_gpu_with_small_ones(folder, monkeypatch):
    monkeypatch.setenv("SENTBENCH_RUNS_PER_GPU", "2")
    first, second = (FileLock(folder / uuid).acquire() for uuid in UUIDS)
    with lease() as device:
        assert device == "cuda:0"
    second.lock.release()
    with FileLock(folder / "GPU-a.2"), FileLock(folder / "GPU-b.2"), lease(LARGE_BATCH) as device:
        assert device == "cuda:1"
    first.lock.release()


def test_the_first_that_no_process_holds(folder):
    first = FileLock(folder / "GPU-a").acquire()
    with lease() as device:
        assert device == "cuda:1"
        first.lock.release()
        with lease() as inner:  # of the GPU that this process has, although the first one is free
            assert inner == device
    # An error in the block is its own, and frees the GPU.
    with pytest.raises(TimeoutError, match="a download"), lease():
        raise TimeoutError("a download")
    with lease() as device:
        assert device == "cuda:0"


def test_waits_until_one_is_free(folder, monkeypatch, capsys):
    with ExitStack() as stack:
        _, second = (stack.enter_context(FileLock(folder / uuid)) for uuid in UUIDS)
        monkeypatch.setattr(time, "sleep", lambda _: second.release())
        with lease() as device:
            assert device == "cuda:1"
    assert capsys.readouterr().err == "waiting for a GPU: all 2 slots are taken\n"


def test_a_killed_process_holds_nothing(folder):
    command = [sys.executable, "-c", HOLD, str(folder / "GPU-a")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with lease() as device:
            assert device == "cuda:1"
        process.kill()
    with lease() as device:
        assert device == "cuda:0"
