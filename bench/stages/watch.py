"""Lines that the workflow prints while it runs: the stages at work, and how much is left; and which
lines of Snakemake it leaves out."""

import time
from datetime import timedelta
from logging import LogRecord
from pathlib import Path
from textwrap import shorten

from bench.registry.backbones import NO_BACKBONE
from bench.runs.plan import Plan
from bench.stages.activity import stage_at_work
from bench.stages.status import stages_left
from bench.utils.errors import warn
from bench.utils.progress import interval

# What Snakemake logs at Ctrl-C.
_INTERRUPTED = "Terminating processes on user request"
WORDS = {"train": "training", "score": "scoring", "analyse": "analysing"}
# Shares of the work that is done. Trainings take the longest.
WEIGHTS = {"train": 4, "score": 1, "analyse": 1}
_LONGEST = 120  # characters of a line


class LogFilter:
    """Leaves out of Snakemake's log what `watch` says better, and all that follows Ctrl-C: jobs
    that it stopped look like errors."""

    is_interrupted = False

    def filter(self, record: LogRecord) -> bool:
        message = record.getMessage()
        if message.startswith(_INTERRUPTED):
            self.is_interrupted = True
        return not self.is_interrupted and not message.startswith(("Select jobs", "Execute "))


def watch(plan: Plan, suite: Path) -> None:
    """Print a line every few seconds until the process ends. It runs in a thread."""
    total = sum(WEIGHTS[stage] for run in plan.runs for stage in run.stages)

    def finished() -> int:
        open_work = (WEIGHTS[stage] for run in plan.runs for stage in stages_left(suite, run))
        return total - sum(open_work)

    begun, done_before = time.monotonic(), finished()
    while True:
        time.sleep(interval())
        done, elapsed = finished(), time.monotonic() - begun
        parts = [f"{timedelta(seconds=round(elapsed))}  {100 * done // total} % done"]
        if done == total:
            parts.append("rendering")
        elif done - done_before > total / 10:  # earlier, the start of processes would count most
            seconds = elapsed * (total - done) / (done - done_before)
            parts.append(f"about {timedelta(seconds=round(seconds))} left")
        for run in plan.runs:
            stage = stage_at_work(suite, run.id)
            if stage:
                seed = "" if run.seed is None else f", seed {run.seed}"
                where = "" if run.backbone == NO_BACKBONE.name else f" on {run.backbone}"
                parts.append(f"{WORDS[stage]} {run.label}{where}{seed}")
        warn(shorten("; ".join(parts), _LONGEST, placeholder=" ..."))
