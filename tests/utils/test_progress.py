"""Progress by time. Mutations caught: lines by units; an estimate that counts earlier work, or
units of unlike weight alike."""

import sys

import pytest

from bench.utils import progress
from bench.utils.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """A list with the present second, which a test sets."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(("is_terminal", "seconds"), [(True, [10, 20, 30]), (False, [30])])
def test_a_line_at_intervals_of_time(clock, is_terminal, seconds, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    task, printed = Progress(100, "encode"), []
    for second in range(1, 40):
        clock[0] = second
        task.advance()
        if capsys.readouterr().err:
            printed.append(second)
    assert printed == seconds


def test_the_time_left_is_that_of_the_units_of_this_process(clock, capsys):
    task = Progress(200, "run", done=100)
    clock[0] = 3600
    task.advance(20, "step 3")
    assert capsys.readouterr().err == "run: 60%, 4:00:00 left, step 3\n"
