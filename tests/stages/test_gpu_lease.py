"""Leases: one device, one job, whatever happens to the jobs. Devices are pretended, processes and
locks are real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from bench.__main__ import main
from bench.stages import devices, gpu_lease
from bench.utils.errors import UserError

EIGHT = [f"GPU-{number:08x}" for number in range(8)]

# A job, on devices of which those of BROKEN do not start: it leases, writes an open line, holds,
# writes a close line. One append is atomic, so the log is in true order.
JOB = """
import os, sys, time
from bench.stages import devices, gpu_lease
devices.start_cuda = lambda: None
devices.start_fault = lambda uuid: "dead" if uuid in os.environ.get("BROKEN", "") else None
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
with gpu_lease.lease(poll=0.02) as device:
    uuid = os.environ["CUDA_VISIBLE_DEVICES"]
    os.write(log, f"{os.getpid()} take {uuid}\\n".encode())
    if sys.argv[2] == "fork":  # a worker that outlives its job
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    if sys.argv[2] == "exec":
        import subprocess
        subprocess.Popen(["sleep", "60"], close_fds=False)
    time.sleep(float(sys.argv[3]))
    os.write(log, f"{os.getpid()} give {uuid}\\n".encode())
"""


@pytest.fixture(autouse=True)
def pretended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (gpu_lease.LEASED, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SENTBENCH_DEVICES", ",".join(EIGHT))
    monkeypatch.setenv("SENTBENCH_LEASES", str(tmp_path / "leases"))
    monkeypatch.setattr(devices, "start_cuda", lambda: None)
    monkeypatch.setattr(devices, "start_fault", lambda uuid: None)
    monkeypatch.setattr(gpu_lease, "_own", None)


def start(log: Path, kind: str = "plain", seconds: float = 0.0) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", JOB, str(log), kind, str(seconds)], start_new_session=True
    )


def events(log: Path) -> list[tuple[int, str, str]]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(pid), what, uuid) for pid, what, uuid in map(str.split, lines)]


def wait_for(log: Path, takes: int, seconds: float = 20) -> list[tuple[int, str, str]]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if len([event for event in events(log) if event[1] == "take"]) >= takes:
            return events(log)
        time.sleep(0.02)
    raise AssertionError(f"only {events(log)} after {seconds} s")


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "SENTBENCH_DEVICES"])
def test_without_a_device_it_is_the_cpu_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, "")
    with gpu_lease.lease() as device:
        assert device == "cpu"
    assert not (tmp_path / "leases").exists()


def test_where_torch_cannot_use_the_device_it_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a job, and in a command that it starts."""

    def fail() -> None:
        raise UserError("built without CUDA")

    monkeypatch.setattr(devices, "start_cuda", fail)
    for leased in ("", EIGHT[0]):
        monkeypatch.setenv(gpu_lease.LEASED, leased)
        assert main(["timing", "toy"]) == 2
        assert capsys.readouterr().err == "error: built without CUDA\n"
    assert not gpu_lease._held


@pytest.mark.parametrize("variable", ["HOME", "SLURM_JOB_ID"])
def test_eight_jobs_use_eight_devices(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a machine, and within an allocation of its scheduler."""
    monkeypatch.setenv(variable, "77")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7")
    jobs = [start(tmp_path / "log", seconds=60) for _ in range(8)]
    try:
        taken = [uuid for _, _, uuid in wait_for(tmp_path / "log", 8, seconds=60)]
    finally:
        for job in jobs:
            job.kill()
            job.wait()
    assert sorted(taken) == EIGHT


def test_the_block_sees_its_device_alone_and_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6,7")
    with gpu_lease.lease() as device:
        assert (device, os.environ["CUDA_VISIBLE_DEVICES"]) == ("cuda", EIGHT[6])
        (descriptor,) = gpu_lease._held
        assert not os.get_inheritable(descriptor)
        with gpu_lease.lease() as inner:  # a command that the job starts uses the job's device
            assert (inner, os.environ["CUDA_VISIBLE_DEVICES"]) == ("cuda", EIGHT[6])
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "6,7"
    assert gpu_lease.LEASED not in os.environ
    assert not gpu_lease._held


def test_a_process_in_which_cuda_has_started_keeps_its_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CUDA reads CUDA_VISIBLE_DEVICES once."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with gpu_lease.lease() as device:  # that of the caller, who may have a model there
        assert (device, gpu_lease._held) == ("cuda", set())
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with gpu_lease.lease():
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with gpu_lease.lease():
        assert os.environ["CUDA_VISIBLE_DEVICES"] == EIGHT[3]
        assert len(gpu_lease._held) == 1


def test_a_folder_of_somebody_else_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    with pytest.raises(UserError, match="another user"):
        gpu_lease.lease_folder()


def test_a_lock_on_a_file_that_was_cleaned_away_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, lock = tmp_path / "a", gpu_lease.lock_descriptor

    def cleaned_meanwhile(descriptor: int, blocking: bool) -> bool:
        path.unlink()
        return lock(descriptor, blocking=blocking)

    monkeypatch.setattr(gpu_lease, "lock_descriptor", cleaned_meanwhile)
    assert gpu_lease._take(path) is None
    monkeypatch.setattr(gpu_lease, "lock_descriptor", lock)
    first = gpu_lease._take(path)
    assert first is not None
    assert gpu_lease._take(path) is None
    os.close(first)
    gpu_lease._held.discard(first)


@pytest.mark.parametrize("kind", ["plain", "fork", "exec"])
def test_a_killed_job_gives_its_device_back(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Killed outright, and with a child that lives on: neither a fork nor an exec may keep the
    lock."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    log = tmp_path / "log"
    first = start(log, kind, 60)
    try:
        wait_for(log, 1)
        second = start(log)
        time.sleep(0.3)
        assert second.poll() is None
        assert len(events(log)) == 1
        time.sleep(0.2)  # the first has made its child by now
        first.kill()
        assert second.wait(20) == 0
    finally:
        os.killpg(first.pid, signal.SIGKILL)  # with the child
        first.wait()
    assert [(what, uuid) for _, what, uuid in events(log)] == [("take", EIGHT[3])] * 2 + [
        ("give", EIGHT[3])
    ]


def compete(log: Path, jobs: int, kills: int, seconds: float) -> None:
    """Start jobs, kill some that hold a device, and check from the log that no device ever had two
    holders."""
    processes = [start(log, seconds=seconds) for _ in range(jobs)]
    killed: list[int] = []
    try:
        while len(killed) < kills:
            assert any(process.poll() is None for process in processes)
            over = {pid for pid, what, _ in events(log) if what == "give"} | set(killed)
            victim = next(
                (pid for pid, what, _ in events(log) if what == "take" and pid not in over), None
            )
            if victim is not None:
                os.kill(victim, signal.SIGKILL)
                next(process for process in processes if process.pid == victim).wait(20)
                killed.append(victim)
            time.sleep(0.05)
        assert [process.wait(120) for process in processes].count(0) >= jobs - kills
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    taken = {pid: uuid for pid, what, uuid in events(log) if what == "take"}
    assert len(taken) == jobs  # nobody starved
    holders: dict[str, int] = {}
    for pid, what, uuid in events(log):
        if what == "take":
            assert uuid not in holders or holders[uuid] in killed, (
                f"{uuid} had two holders: {json.dumps(holders)}"
            )
            holders[uuid] = pid
        elif what == "give":
            assert holders.pop(uuid) == pid
    assert set(taken.values()) == set(devices.visible())  # none was lost
    with gpu_lease.lease(poll=0.02):
        pass


def test_jobs_compete_for_devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    compete(tmp_path / "log", jobs=6, kills=1, seconds=0.15)


@pytest.mark.slow
def test_many_jobs_compete_for_eight_devices(tmp_path: Path) -> None:
    compete(tmp_path / "log", jobs=24, kills=6, seconds=0.8)
    for uuid in EIGHT:  # every device can be leased again
        descriptor = gpu_lease._take(tmp_path / "leases" / uuid)
        assert descriptor is not None
        gpu_lease._held.discard(descriptor)
        os.close(descriptor)


def test_a_waiting_job_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with gpu_lease.lease():
        monkeypatch.delenv(gpu_lease.LEASED)  # not a command of the holder's
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        waiting, said, end = start(tmp_path / "log"), "", time.monotonic() + 20
        while not said and time.monotonic() < end:
            said += capfd.readouterr().err
            time.sleep(0.02)
        assert waiting.poll() is None
    assert waiting.wait(20) == 0
    assert said + capfd.readouterr().err == "waiting for a GPU: 1 leased (0 s)\n"


def test_a_device_that_does_not_start_is_set_aside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Jobs have the others; it comes back after ten minutes, or when the file is deleted."""
    monkeypatch.setenv("BROKEN", EIGHT[0])
    log, file = tmp_path / "log", tmp_path / "leases" / f"{EIGHT[0]}.fault"
    for job in [start(log, seconds=0.1) for _ in range(4)]:
        assert job.wait(20) == 0
    taken = {uuid for _, what, uuid in events(log) if what == "take"}
    assert taken
    assert EIGHT[0] not in taken
    said = capfd.readouterr().err
    sentence = f"{EIGHT[0]} does not start (dead) and is set aside for 10 minutes; to use it before"
    assert f"{sentence}, delete {file}\n" in said

    def next_job() -> str:
        with gpu_lease.lease(poll=0.02):
            return os.environ["CUDA_VISIBLE_DEVICES"]

    assert next_job() == EIGHT[1]  # though it would start by now
    long_ago = time.time() - gpu_lease.RETRY - 1
    os.utime(file, (long_ago, long_ago))
    assert next_job() == EIGHT[0]
    assert not file.exists()


def test_where_none_starts_it_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setattr(devices, "start_fault", lambda uuid: "the driver is too old")
    expected = (
        f"no GPU starts ({EIGHT[0]}: the driver is too old; {EIGHT[1]}: the driver is too old)"
    )
    for _ in range(2):  # found, and remembered
        with pytest.raises(UserError) as caught, gpu_lease.lease():
            pass
        assert str(caught.value).startswith(f"{expected}; repair that and delete {tmp_path}/leases")
    assert not gpu_lease._held


def test_a_leased_device_is_waited_for_beside_one_that_does_not_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("BROKEN", EIGHT[0])
    jobs = [start(tmp_path / "log", seconds=1) for _ in range(3)]
    assert [job.wait(30) for job in jobs] == [0, 0, 0]
    assert [uuid for _, _, uuid in events(tmp_path / "log")] == [EIGHT[1]] * 6
    assert "waiting for a GPU: 1 leased, 1 set aside (" in capfd.readouterr().err
