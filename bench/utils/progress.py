"""Progress of long tasks: a tqdm bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import sys
import time

LINES = 5  # lines per task without a terminal


class Progress:
    """Progress of a task, as a context manager.

    Args:
        total: number of units.
        title: name of the task.
        unit: name of a unit, singular.
        done: units finished in an earlier process; they do not enter the estimate of the time left.

    >>> with Progress(3, "demo", unit="step") as progress:
    ...     progress.advance(3)
    """

    def __init__(self, total: int, title: str, unit: str, done: int = 0) -> None:
        self.total, self.title, self.unit = total, title, unit
        self.done = self._before = done
        self._started = time.monotonic()
        self._printed = done * LINES // total if total else 0
        self._bar = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=total, initial=done, desc=title, unit=unit, dynamic_ncols=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def advance(self, units: int = 1, note: str = "") -> None:
        """Advance by `units`; `note` is printed after the numbers."""
        self.done += units
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(units)
            return
        share = self.done / self.total if self.total else 1.0
        if share * LINES >= self._printed + 1:
            self._printed = int(share * LINES)
            advanced = self.done - self._before
            each = (time.monotonic() - self._started) / advanced if advanced else 0.0
            left = f"{each * (self.total - self.done):.0f} s left{f', {note}' if note else ''}"
            done = f"{self.title}: {self.done}/{self.total} {self.unit}s"
            print(f"{done}, {left}", file=sys.stderr, flush=True)
