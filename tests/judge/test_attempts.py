"""A user who wants a word tries for it through the files of a suite: configuration, plan, scores.

All true gains are 0, or the margin, so that the word is false. It may come no more often than three
looks allow, or seeds that are added after a loss, which have new ones.
"""

import shutil
from collections import defaultdict
from functools import cache

import numpy as np
import pytest
from scipy import stats

from bench.results.records import write_scores
from bench.results.suite_results import read_results
from bench.runs import config
from tests.support.no_fsync import no_fsync
from tests.support.rows import against
from tests.support.tiny_suite import tiny_configuration

__all__ = ["no_fsync"]

MARGIN, SD, N = 1.0, 0.4, 3
METHODS = ["is-cse", "sscl"]
RECORD = {"task": "STS12", "split": "test", "metric": "spearman", "aggregation": "all"}


@cache
def planned(seeds):
    content = tiny_configuration(
        "toy-bert", "world", "world", tasks=["STS12"], seeds=[*seeds], methods=["simcse", *METHODS],
        compare={"baseline": "simcse", "margin": MARGIN, "claims": METHODS},
    )  # fmt: skip
    return config.plan(config.validate(content))


class Desk:
    """The folder of a suite, and who sits before it."""

    def __init__(self, folder, draw, gain):
        self.folder, self.gain, self.rng = folder, gain, np.random.default_rng(draw)
        self.points, self.words, self.losses = defaultdict(self._point), set(), 0
        shutil.rmtree(folder, ignore_errors=True)

    def _point(self):
        return 75 + SD * self.rng.normal() / 2**0.5

    def make(self, seeds, *, lost=False):
        """Plan these seeds, score what is planned, and look."""
        self.seeds, self.losses = list(seeds), self.losses + lost
        plan = planned(tuple(self.seeds))
        plan.write(self.folder / "plan.json", lost)
        for run in plan.runs:
            path = self.folder / "scores" / f"{run.id}.json"
            if not path.exists():
                points = self.points[run.text, run.seed] + self.gain * (run.method != "simcse")
                provenance = {"run": run.describe(), "outcome": {"status": "finished", "step": 100}}
                write_scores(path, provenance, [RECORD | {"value": points}])
        rows = against(read_results(self.folder), "simcse")
        self.words |= {row.verdict for row in rows if row.family}

    @property
    def has_false_word(self):
        false = "below" if self.gain else "better"
        return any(word == "worse" or false in word for word in self.words)

    def difference(self, seed):
        return self.points["is-cse@official", seed] - self.points["simcse@official", seed]


# --- Attempts ---


def replaces_the_worst(desk):
    desk.make(range(N))
    for new in range(N, N + 4):
        desk.make([*sorted(desk.seeds, key=desk.difference)[1:], new])


def loses_the_plan(desk):
    desk.make(range(N))
    for again in range(2, 6):
        for path in desk.folder.glob("plan*.json"):
            path.unlink()
        desk.make(range(again * N), lost=True)


DRAWS = 300


@pytest.mark.nightly
@pytest.mark.parametrize("attempt", [replaces_the_worst, loses_the_plan])
@pytest.mark.parametrize("gain", [0.0, MARGIN])
def test_attempts_are_no_better_than_three_looks(attempt, gain, tmp_path):
    count = 0
    for draw in range(DRAWS):
        desk = Desk(tmp_path / "s", draw, gain)
        attempt(desk)
        count += desk.has_false_word
    assert count <= stats.binom.isf(1e-3, DRAWS, min(1, 0.06 * (1 + desk.losses)))
