"""How a signal ends a workflow: Snakemake ends first, whatever happens meanwhile."""

import os
import signal
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from bench.stages import workflow
from bench.utils.interrupts import Stopped, handle_signals

# Stands for Snakemake, which waits for its jobs when it is told to end. It tells its parent once
# more while it does.
WAITS = """#!/bin/sh
trap 'kill -TERM $PPID; sleep 0.3; touch ended; exit {status}' TERM
touch started
{first}
while :; do sleep 0.01; done
"""


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a workflow by a program that first does what a line says, and then ends with a status."""

    def start(first, status=1, told="stopped by SIGTERM"):
        program = tmp_path / "python"
        program.write_text(WAITS.format(first=first, status=status))
        program.chmod(0o755)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(workflow.sys, "executable", str(program))
        ends = pytest.raises(Stopped, match=told) if told else nullcontext()
        with ends, handle_signals():
            assert workflow.run_workflow(Path("suite.yaml"), []) == 0
        return sorted(path.name for path in tmp_path.iterdir())

    return start


def test_a_second_signal_leaves_no_workflow_behind(run):
    assert run("kill -TERM $PPID") == ["ended", "python", "started"]


def test_a_signal_at_the_end_of_a_complete_suite_stops_nothing(run):
    assert "ended" in run("kill -TERM $PPID", 0, "")


def test_a_kill_of_snakemake_alone_is_said(run):
    told = "stopped by SIGKILL: its jobs go on without Snakemake"
    assert run("kill -KILL $$", told=told) == ["python", "started"]


def test_a_signal_while_the_workflow_starts_ends_it_too(run, monkeypatch, tmp_path):
    popen = subprocess.Popen

    def told(*words, **options):
        process = popen(*words, **options)
        while not (tmp_path / "started").exists():
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        return process

    monkeypatch.setattr(workflow.subprocess, "Popen", told)
    assert run("") == ["ended", "python", "started"]
