"""Trainings of one run in processes that run at once."""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from bench.runs.run import Run
from tests.support.programs import environment
from tests.support.tiny_suite import training_words


def train_at_once(run: Run, count: int, folder: Path, **own: str) -> list[str]:
    """The SHA-256 of log and encoder of each of `count` trainings, which have `own` variables."""
    suites = [folder / f"{count}-{number}" for number in range(count)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "bench", *training_words(run, suite)], env=environment(**own)
        )
        for suite in suites
    ]
    assert [process.wait(900) for process in processes] == [0] * count
    sums = []
    for suite in suites:
        trained = suite / "runs" / run.id
        encoder = (trained / "encoder").rglob("*.*")
        files = [trained / "log.jsonl", *sorted(encoder)]
        assert len(files) > 2
        sums.append(sha256(b"".join(file.read_bytes() for file in files)).hexdigest())
    return sums
