"""The plan of a suite: the order in which runs are made, and what stays planned when it grows."""

import os
import re
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from bench.runs import config
from bench.runs.plan import read_plan
from bench.utils.errors import UserError
from tests.support.refusals import refused
from tests.support.tiny_suite import tiny_configuration


def planned(**changes):
    given = {"seeds": [2, 1], "methods": ["simcse", "sscl", "word-overlap"], **changes}
    return config.plan(config.validate(tiny_configuration("toy-bert", "world", "world", **given)))


# --- A plan that is written again ---


@pytest.mark.parametrize("loss", [Path.unlink, lambda path: os.truncate(path, 300)])
def test_without_the_plan_of_its_scores_a_suite_is_not_planned_unasked(written, tmp_path, loss):
    path, copy = tmp_path / "plan.json", tmp_path / "plan.copy.json"
    written(planned(tasks=["STS-B"]))
    loss(path)
    more = planned(tasks=["STS-B"], seeds=[1, 2, 3])
    with pytest.raises(UserError) as caught:
        more.write(path)
    ways = re.search("restore it with: (.*?); if .* write it again.* (--lost)$", str(caught.value))
    assert ways[1] == f"cp {copy} {path}"
    shutil.copy(copy, path)
    more.write(path)
    assert first(read_plan(path), "simcse") == STS_B
    for file in (path, copy):
        file.unlink()
    more.write(path, lost=True)
    assert first(read_plan(path), "simcse") == {}
    assert [run.added for run in read_plan(path).runs if run.method == "simcse"] == [
        {"STS-B": 1}, {"STS-B": None}, {"STS-B": 3},  # the second is scored
    ]  # fmt: skip
    assert first(read_plan(path), "sscl") == {"STS-B": {1, 2, 3}}
    assert path.read_text() == copy.read_text()
    refused(lambda: more.write(path, lost=True), "can be read, so it is not lost")


def test_what_was_added_stays_so_without_the_scores(written, tmp_path):
    grown = planned(tasks=["STS-B"], seeds=[1, 2, 3])
    written(planned(tasks=["STS-B"]), grown)
    shutil.rmtree(tmp_path / "scores")
    assert first(written(grown), "simcse") == STS_B


@pytest.fixture
def written(tmp_path):
    """Write a plan, take a run of SimCSE for scored, write the other; what is read then."""

    def write(*plans):
        for plan in plans:
            plan.write(tmp_path / "plan.json")
            scored = next(run for run in plan.runs if run.method == "simcse")
            (tmp_path / "scores").mkdir(exist_ok=True)
            (tmp_path / "scores" / f"{scored.id}.json").touch()
        return read_plan(tmp_path / "plan.json")

    return write


def first(plan, method):
    """The seeds with a task that were planned before a score, by task."""
    found = defaultdict(set)
    for run in (*plan.runs, *plan.dropped):
        for task, number in run.additions.items():
            if (run.method, number) == (method, 0):
                found[task].add(run.seed)
    return found


STS_B = {"STS-B": {1, 2}}


def test_seeds_that_are_planned_after_a_score_are_added_to_its_row_alone(written):
    grown = written(planned(tasks=["STS-B"]), planned(tasks=["STS-B"], seeds=[3, 2, 1]))
    assert [run.added for run in grown.runs if run.method == "simcse"] == [{"STS-B": 1}, {}, {}]
    assert first(grown, "simcse") == STS_B
    assert first(grown, "sscl") == {"STS-B": {1, 2, 3}}


def test_additions_are_numbered_in_the_order_in_which_they_are_made(written):
    """Not in that of the seeds, nor of the configuration."""
    each = [
        planned(tasks=["STS-B"], seeds=seeds) for seeds in ([2, 1], [2, 1, 9, 8], [0, 9, 8, 1, 2])
    ]
    runs = [run for run in written(*each).runs if run.method == "simcse"]
    numbers = {run.seed: run.additions["STS-B"] for run in runs}
    assert sorted(numbers, key=lambda seed: (numbers[seed], seed)) == [1, 2, 9, 8, 0]
    assert [seed for seed, number in numbers.items() if number] == [0, 9, 8]


def test_seeds_that_are_left_out_stay_planned_until_they_are_back(written):
    whole, less = planned(tasks=["STS-B"]), planned(tasks=["STS-B"], seeds=[1])
    shrunk = written(whole, less)
    assert [(run.method, run.seed) for run in shrunk.dropped] == [("simcse", 2)]
    assert first(shrunk, "simcse") == STS_B
    assert first(shrunk, "sscl") == {"STS-B": {1}}
    back = written(whole, less, whole)
    assert not back.dropped
    assert first(back, "simcse") == STS_B


def test_a_task_that_nobody_has_scored_is_not_added(written):
    """One that some seeds had, and others get, is."""
    entry = {"method": "simcse", "seeds": [2], "tasks": ["MR"]}
    some = planned(tasks=["STS-B"], methods=["simcse", entry])
    grown = written(some, planned(tasks=["STS-B", "MR", "CR"]))
    assert first(grown, "simcse") == STS_B | {"MR": {2}, "CR": {1, 2}}


# --- Claims ---


def claiming(*claims, baseline="simcse", margin=1.0, **more):
    compare = {"baseline": baseline, "claims": [*claims], "margin": margin}
    return planned(methods=["simcse", "sscl", "is-cse", "dclr"], compare=compare, **more)


def recorded(plan):
    """Method, margin, family and whether it was dropped, of each claim."""
    return [
        (claim.method.partition("@")[0], claim.margin, claim.family, claim.dropped)
        for claim in plan.claims
    ]


def test_claims_are_free_before_the_first_score_and_kept_after_it(tmp_path, written):
    path = tmp_path / "plan.json"
    claiming("sscl", "dclr").write(path)
    before = written(claiming("sscl", "is-cse"))
    assert recorded(before) == [("sscl", 1.0, 1, False), ("is-cse", 1.0, 1, False)]
    assert recorded(written(claiming("sscl"))) == [
        ("sscl", 1.0, 1, False),
        ("is-cse", 1.0, 1, True),
    ]
    assert read_plan(path).claims_in_short.endswith("; 1 dropped claim")
    without = written(planned(methods=["simcse", "sscl", "is-cse", "dclr"]))
    assert without.claims_in_short == "2 dropped claims"
    assert written(claiming("is-cse", "sscl")).claims == before.claims


def test_added_seeds_are_not_those_that_gains_are_claimed_with(written):
    grown = written(claiming("sscl"), claiming("sscl", seeds=[1, 2, 3]))
    assert "both sides: 2;" in grown.claims_in_short


@pytest.mark.parametrize(
    ("later", "new"),
    [
        (claiming("sscl", "is-cse", "dclr"), [("is-cse", 1.0), ("dclr", 1.0)]),
        (claiming("sscl", margin=2.0), [("sscl", 2.0)]),
        (claiming("sscl", baseline="dclr"), [("sscl", 1.0)]),
    ],
    ids=["methods", "margin", "baseline"],
)
def test_claims_that_come_after_a_score_are_a_family_of_their_own(written, later, new):
    """And one after them a further one."""
    found = written(claiming("sscl"), later)
    assert [claim[:2] for claim in recorded(found) if claim[2] == 2] == new
    assert recorded(found)[0] == ("sscl", 1.0, 1, later.claims[0].key != found.claims[0].key)
    last = recorded(written(claiming("sscl", margin=3.0)))
    assert last[-1] == ("sscl", 3.0, 3, False)
    assert {claim[3] for claim in last[:-1]} == {True}
