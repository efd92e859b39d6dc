"""A user who wants a word tries for it through the files of a suite: configuration, plan, scores.

All true gains are 0, or the margin, so that the word is false. It may come no more often than three
looks at each family of claims allow.
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

    def plan(self, seeds, *, lost=False):
        self.seeds, self.losses = list(seeds), self.losses + lost
        self.runs = planned(tuple(self.seeds))
        self.runs.write(self.folder / "plan.json", lost)
        return self

    def run(self):
        """Score the planned runs, and look."""
        for run in self.runs.runs:
            path = self.folder / "scores" / f"{run.id}.json"
            if not path.exists():
                points = self.points[run.text, run.seed] + self.gain * (run.method != "simcse")
                provenance = {"run": run.describe(), "outcome": {"status": "finished", "step": 100}}
                write_scores(path, provenance, [RECORD | {"value": points}])
        rows = against(read_results(self.folder), "simcse")
        self.words |= {(row.family, row.verdict) for row in rows if row.family}

    @property
    def families(self):
        """Those that have looks; seeds that are added after a loss have new ones."""
        return len({family for family, _ in self.words}) + self.losses

    @property
    def has_false_word(self):
        return any(
            word == "worse"
            or (not self.gain and "better" in word)
            or (self.gain and "below" in word)
            for _, word in self.words
        )

    def difference(self, seed):
        return self.points["is-cse@official", seed] - self.points["simcse@official", seed]


# --- Attempts ---


def replaces_the_worst(desk):
    desk.plan(range(N)).run()
    for new in range(N, N + 4):
        desk.plan([*sorted(desk.seeds, key=desk.difference)[1:], new]).run()


def loses_the_plan(desk):
    desk.plan(range(N)).run()
    for again in range(2, 6):
        for path in desk.folder.glob("plan*.json"):
            path.unlink()
        desk.plan(range(again * N), lost=True).run()


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
    assert count <= stats.binom.isf(1e-3, DRAWS, min(1, 0.06 * desk.families))
