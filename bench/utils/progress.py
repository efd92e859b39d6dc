"""Progress of long tasks: a line at intervals of time, with an estimate of the time left."""

import sys
import time
from datetime import timedelta

from bench.utils.errors import warn


def interval() -> int:
    """Seconds between two lines: fewer on a terminal than in a log."""
    return 10 if sys.stderr.isatty() else 30


class Progress:
    """Prints how far a task of `total` units is, a line every `interval`."""

    def __init__(self, total: float, title: str, done: float = 0) -> None:
        """The `done` units were finished in an earlier process and do not enter the estimate."""
        self.total, self.title = total, title
        self.done = self._before = done
        self._started = time.monotonic()
        self._due = self._started + interval()

    def advance(self, units: float = 1, note: str = "") -> None:
        """Advance by `units`; `note` is printed after the numbers."""
        self.done += units
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + interval()
        seconds = (now - self._started) / (self.done - self._before)
        remaining = timedelta(seconds=round(seconds * max(self.total - self.done, 0)))
        line = f"{self.title}: {min(self.done / self.total, 1):.0%}, {remaining} left"
        warn(", ".join(filter(None, [line, note])))
