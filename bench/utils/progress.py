"""Progress of long tasks, by tqdm."""

import sys
from math import inf

from tqdm import tqdm

UPDATES = 5  # of a task without a terminal, as in the log of a job


class Progress(tqdm):
    """Progress of a task of `total` units, as a context manager. The `done` units were finished in
    an earlier process and do not enter the estimate of the time left."""

    monitor_interval = 0  # no thread that updates an idle bar

    def __init__(self, total: int, title: str, unit: str, done: int = 0) -> None:
        few = {"miniters": max(1, total // UPDATES), "mininterval": 0, "maxinterval": inf}
        form = {"dynamic_ncols": True} if sys.stderr.isatty() else few | {"position": 0}
        super().__init__(total=total, desc=title, unit=unit, initial=done, **form)

    def advance(self, units: int = 1, note: str = "") -> None:
        """Advance by `units`; `note` is printed after the numbers."""
        if note:
            self.set_postfix_str(note, refresh=False)
        self.update(units)
