"""A GPU per process, with pretended GPUs and real locks."""

import subprocess
import sys
import time
from contextlib import ExitStack, nullcontext
from types import SimpleNamespace

import pytest
import torch
from filelock import FileLock

from bench.stages.device import lease

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
    properties = [SimpleNamespace(uuid=uuid) for uuid in UUIDS]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(UUIDS))
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties.__getitem__)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    return tmp_path


def test_without_a_gpu_nothing_is_locked(folder, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with lease() as device:
        assert device == "cpu"
    assert not list(folder.iterdir())


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
    assert capsys.readouterr().err == "waiting for a GPU: all 2 are leased\n"


def test_a_killed_process_holds_nothing(folder):
    command = [sys.executable, "-c", HOLD, str(folder / "GPU-a")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with lease() as device:
            assert device == "cuda:1"
        process.kill()
    with lease() as device:
        assert device == "cuda:0"
