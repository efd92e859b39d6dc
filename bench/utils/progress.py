"""Progress of long tasks: a tqdm bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import sys
import time

LINES = 5  # lines per task without a terminal


class Progress:
    """Progress of a task of `total` units, as a context manager. The `done` units were finished in
    an earlier process and do not enter the estimate of the time left."""

    def __init__(self, total: int, title: str, unit: str, done: int = 0) -> None:
        self.total, self.title, self.unit = total, title, unit
        self.done = self._before = done
        self._started = time.monotonic()
        self._printed = done * LINES // max(total, 1)
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
        lines = self.done * LINES // self.total
        if lines > self._printed:
            self._printed = lines
            each = (time.monotonic() - self._started) / (self.done - self._before)
            left = f"{each * (self.total - self.done):.0f} s left"
            done = f"{self.title}: {self.done}/{self.total} {self.unit}s"
            print(", ".join(filter(None, (done, left, note))), file=sys.stderr, flush=True)
