"""Trainings that are killed: a process that has trained once forks one for each.

What they share is what was imported. A training counts what Python does in each of its phases, and
sends itself SIGKILL at a chosen event of a phase: before a rename, between two syncs, within a
step. Or the kill comes from outside at a chosen time, which also hits the middle of a write.
`python kills.py` is the process that forks; a request is a line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PHASES = {  # and the functions that are the whole of them
    ("loop.py", "load"): "resume",
    ("loop.py", "steps"): "step",  # and the selections and checkpoints in it
    ("loop.py", "_select"): "selection",
    ("checkpoint.py", "save"): "checkpoint",
    ("loop.py", "finish"): "save",
    ("files.py", "write_json"): "end",  # the outcome, last of all
}


class Sitting(NamedTuple):
    """How a training's process ended."""

    status: int  # -9 when it was killed
    counts: Counter[str]  # events in each phase, as far as the process could tell
    seconds: float  # from its fork to its end


class Watch:
    """Counts a process's calls and returns by phase, and kills it at one of them."""

    def __init__(self, phase: str, event: int, report: int) -> None:
        self.phase, self.event, self.report = phase, event, report
        self.counts: Counter[str] = Counter()
        self.stack: list[tuple[FrameType, str]] = []

    def __call__(self, frame: FrameType, kind: str, argument: Any) -> None:
        code = frame.f_code
        place = code.co_filename.rpartition("/")[2], code.co_name
        phase = PHASES.get(place) if kind == "call" else None
        if phase and (phase != "end" or not self.stack):  # a saved encoder has JSON, too
            self.stack.append((frame, phase))
        if self.stack:
            now = self.stack[-1][1]
            self.counts[now] += 1
            if now == self.phase and self.counts[now] == self.event:
                self.tell()
                os.kill(os.getpid(), signal.SIGKILL)
            if kind == "return" and self.stack[-1][0] is frame:
                self.stack.pop()

    def tell(self) -> None:
        """The counts so far."""
        os.write(self.report, json.dumps(self.counts).encode())


def _train(request: dict[str, Any], report: int) -> int:
    from bench.__main__ import main

    os.environ["SENTBENCH_CHECKPOINT_SECONDS"] = str(request["interval"])
    os.environ["REFUSE"] = request["refuse"]
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    watch = Watch(request["phase"], request["event"], report)
    if not request["refuse"]:
        sys.setprofile(watch)
    status = main(request["words"])
    sys.setprofile(None)
    watch.tell()
    return status


def serve() -> None:
    from bench.__main__ import main

    with redirect_stdout(sys.stderr):
        assert main(json.loads(sys.stdin.readline())) == 0
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked"
    for line in sys.stdin:
        request, started = json.loads(line), time.monotonic()
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            os._exit(_train(request, writing))
        os.close(writing)
        if request["delay"] >= 0:
            time.sleep(request["delay"])
            # A child that has ended waits for us, so its number is still its own.
            os.kill(process, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        with open(reading, "rb") as stream:
            counts = json.loads(stream.read() or b"{}")
        answer = {"status": status, "counts": counts, "seconds": time.monotonic() - started}
        print(json.dumps(answer), flush=True)


class Trainings:
    """Starts trainings, each in a process of its own; use it in a `with`.

    Args:
        first: the words of a training that is not killed.
        output: the file of what the others print.
    """

    def __init__(self, first: list[str], output: Path) -> None:
        self.output = str(output)
        places = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": os.environ | places}
        command = [sys.executable, str(Path(__file__))]
        self._process = subprocess.Popen(command, text=True, **options)
        self._tell(first)

    def __enter__(self) -> Trainings:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def _tell(self, content: Any) -> None:
        print(json.dumps(content), file=self._process.stdin, flush=True)

    def run(
        self,
        words: list[str],
        interval: float,
        phase: str = "",
        event: int = 0,
        delay: float = -1,
        refuse: str = "",
    ) -> Sitting:
        """Run a command to its end, to an event of a phase, or for some seconds (`delay` >= 0).

        Args:
            interval: seconds between checkpoints.
            refuse: the call that fails, where refuse.c is loaded.
        """
        request = {"words": words, "interval": interval, "phase": phase, "event": event}
        self._tell(request | {"delay": delay, "refuse": refuse, "output": self.output})
        answer = json.loads(self._process.stdout.readline())
        return Sitting(**answer | {"counts": Counter(answer["counts"])})


if __name__ == "__main__":
    serve()
