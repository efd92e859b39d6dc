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

from bench.stages import gpu_lease
from bench.utils.errors import UserError

EIGHT = [f"GPU-{number:08x}" for number in range(8)]

# A job: leases, writes an open line, holds, writes a close line. One append is atomic, so the log
# is in true order.
JOB = """
import os, sys, time
from bench.stages import gpu_lease
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
    for name in (*gpu_lease.ALLOCATED, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SENTBENCH_DEVICES", ",".join(EIGHT))
    monkeypatch.setenv("SENTBENCH_LEASES", str(tmp_path / "leases"))


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


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (None, EIGHT),
        ("", []),
        ("  ", []),
        ("-1", []),
        ("3,1", [EIGHT[3], EIGHT[1]]),
        ("2,2", [EIGHT[2]]),
        ("1,9,2", [EIGHT[1]]),  # ends at the first that names none, as for CUDA
        (f"{EIGHT[5]}, 0", [EIGHT[5], EIGHT[0]]),
        ("GPU-00000004", [EIGHT[4]]),
        ("GPU-", []),  # the beginning of several
        ("MIG-1/2/3", ["MIG-1/2/3"]),
    ],
)
def test_only_what_cuda_visible_devices_allows(
    chosen: str | None, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert gpu_lease.visible() == expected


def test_without_a_device_it_is_the_cpu_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with gpu_lease.lease() as device:
        assert device == "cpu"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("SENTBENCH_DEVICES", "")
    with gpu_lease.lease() as device:
        assert device == "cpu"
    monkeypatch.delenv("SENTBENCH_DEVICES")
    monkeypatch.setenv("PATH", str(tmp_path))  # no nvidia-smi
    with gpu_lease.lease() as device:
        assert device == "cpu"
    assert not (tmp_path / "leases").exists()


@pytest.mark.parametrize("name", gpu_lease.ALLOCATED)
def test_inside_an_allocation_none_is_taken(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, "77")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with gpu_lease.lease() as device, gpu_lease.lease() as again:
        assert (device, again) == ("cuda", "cuda")
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert not (tmp_path / "leases").exists()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ('echo "1, GPU-b"; echo "0, GPU-a"', ["GPU-a", "GPU-b"]),
        ('echo "No devices were found"; exit 6', []),
    ],
)
def test_nvidia_smi_is_asked(
    script: str, expected: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SENTBENCH_DEVICES")
    (tmp_path / "nvidia-smi").write_text(
        f'#!/bin/sh\n[ "$1" = --query-gpu=index,uuid ] || exit 9\n{script}\n'
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert gpu_lease.listed() == expected


def test_a_broken_driver_is_no_reason_to_train_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SENTBENCH_DEVICES")
    (tmp_path / "nvidia-smi").write_text(
        "#!/bin/sh\necho Driver/library version mismatch >&2; exit 18\n"
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(UserError, match=r"version mismatch.*CUDA_VISIBLE_DEVICES= "):
        gpu_lease.visible()


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
    assert "SENTBENCH_LEASE" not in os.environ
    assert not gpu_lease._held


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
    assert set(taken.values()) == set(gpu_lease.visible())  # none was lost
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
        monkeypatch.delenv("SENTBENCH_LEASE")  # not a command of the holder's
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        waiting = start(tmp_path / "log")
        time.sleep(1.0)
        assert waiting.poll() is None
    assert waiting.wait(20) == 0
    assert capfd.readouterr().err.count("waiting for a GPU: all 1 are leased") == 1
