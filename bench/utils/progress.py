"""Progress of long tasks: a line at intervals of time, with an estimate of the time left."""

import sys
import time
from datetime import timedelta

from bench.utils.errors import warn


class Progress:
    """Prints how far a task of `total` units is, every 10 s on a terminal and every 30 s in a log.

    Attributes:
        weight: what one unit of `advance` counts in `total`, where units take unlike times.
    """

    weight: float = 1

    def __init__(self, total: float, title: str, done: float = 0) -> None:
        """The `done` units were finished in an earlier process and do not enter the estimate."""
        self.total, self.title = total, title
        self.done = self._before = done
        self._interval = 10 if sys.stderr.isatty() else 30
        self._started = time.monotonic()
        self._due = self._started + self._interval

    def advance(self, units: float = 1, note: str = "") -> None:
        """Advance by `units`; `note` is printed after the numbers."""
        self.done += units * self.weight
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + self._interval
        each = (now - self._started) / (self.done - self._before)
        left = timedelta(seconds=round(each * max(self.total - self.done, 0)))
        line = f"{self.title}: {min(self.done / self.total, 1):.0%}, {left} left"
        warn(f"{line}, {note}" if note else line)
