"""How a signal ends a workflow: Snakemake ends first, whatever happens meanwhile."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from bench.stages import workflow
from bench.utils.interrupts import Stopped, handle_signals

# Stands for Snakemake, which waits for its jobs when it is told to end. It tells its parent once
# more while it does.
WAITS = """#!/bin/sh
trap 'kill -TERM $PPID; sleep 0.3; touch ended; exit 0' TERM
touch started
{first}
while :; do sleep 0.01; done
"""


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a workflow by a program that first does what a line says."""

    def start(first):
        program = tmp_path / "python"
        program.write_text(WAITS.format(first=first))
        program.chmod(0o755)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(workflow.sys, "executable", str(program))
        with pytest.raises(Stopped, match="SIGTERM"), handle_signals():
            workflow.run_workflow(Path("suite.yaml"), [])
        return sorted(path.name for path in tmp_path.iterdir())

    return start


def test_a_second_signal_leaves_no_workflow_behind(run):
    assert run("kill -TERM $PPID") == ["ended", "python", "started"]


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
