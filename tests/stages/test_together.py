"""Several processes of one job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.stages.together import run_together
from bench.utils.errors import UserError
from bench.utils.memory import TOGETHER


@pytest.fixture
def as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An interpreter that runs what stands behind `-m bench` as a program."""
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(fake))
    return fake


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("statuses", "expected"), [([0, 0], 0), ([0, 75], 75), ([75], 75), ([], 0)]
)
def test_the_status_of_all(as_given: Path, statuses: list[int], expected: int) -> None:
    assert run_together([["sh", "-c", f"exit {status}"] for status in statuses]) == expected


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("exit 2", "one of 3 processes failed; fix the error that it printed and start again"),
        ("kill -9 $$", "one of 3 processes was killed by SIGKILL; start again to resume its runs"),
    ],
)
def test_one_that_fails_does_not_keep_the_others_from_their_end(
    as_given: Path, tmp_path: Path, end: str, message: str
) -> None:
    late = ["sh", "-c", f"sleep 0.3; touch {tmp_path / 'late'}"]
    with pytest.raises(UserError, match=message):
        run_together([["sh", "-c", end], late, ["sh", "-c", "exit 75"]])
    assert (tmp_path / "late").exists()


def test_the_threads_of_a_job_are_shared(
    as_given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snakemake gives a job's threads by these names, and sums of floats depend on them."""
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    monkeypatch.setenv("MKL_NUM_THREADS", "1")
    script = f"echo $OMP_NUM_THREADS $MKL_NUM_THREADS ${TOGETHER} > {tmp_path}"
    run_together([["sh", "-c", f"{script}/{name}"] for name in "abc"])
    assert [(tmp_path / name).read_text().split() for name in "abc"] == [["2", "1", "3"]] * 3


def test_all_are_at_work_at_once(as_given: Path, tmp_path: Path) -> None:
    for own, other in (("a", "b"), ("b", "a")):  # each waits for the other
        wait = f"for i in $(seq 200); do test -e {other} && exit 0; sleep 0.05; done"
        script = f"touch {own}; {wait}; exit 1"
        (tmp_path / f"{own}.sh").write_text(f"cd {tmp_path}\n{script}\n")
    assert run_together([["sh", str(tmp_path / "a.sh")], ["sh", str(tmp_path / "b.sh")]]) == 0


@pytest.mark.slow
def test_real_commands_run_and_their_mistakes_are_said(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="one of 2 processes failed"):
        run_together([["--help"], ["plan", "--suite", "papre"]])
    said = capfd.readouterr()
    assert "Usage" in said.out
    assert "error: unknown suite 'papre'" in said.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_they_end_with_their_parent(as_given: Path, tmp_path: Path, number: int) -> None:
    """SIGTERM reaches them as SIGTERM, so that they write a checkpoint; a killed parent's kernel
    sends it."""
    trap = f"trap 'echo told > {tmp_path}/told; exit 75' TERM"
    child = f"{trap}; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done"
    program = (
        f"import sys; sys.executable = {str(as_given)!r}\n"
        "from bench.stages.together import run_together\nfrom bench.utils import interrupts\n"
        f"with interrupts.handle_signals(): run_together([['sh', '-c', {child!r}]])\n"
    )
    real = Path(sys.prefix) / "bin" / "python"
    parent = subprocess.Popen(
        [real, "-c", program], cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL
    )
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip().isdigit())
    parent.send_signal(number)
    parent.wait()
    until((tmp_path / "told").exists)
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return (
        Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc").is_dir() else True
    )
