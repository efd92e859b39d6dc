"""The regression test of the smoke suite: intervals, how far they are widened, what makes it fail,
and what an update of the reference measures."""

import math
import re
from copy import deepcopy
from pathlib import Path

import pytest

from bench.checks.regression import (
    PLAIN,
    check,
    identity_of,
    interval,
    judged,
    name_of,
    runs_apart,
    widenings,
)
from bench.results.records import write_scores
from bench.runs import config
from bench.runs.plan import read_plan
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from tests.portable import lacking, write

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "results" / "reference" / "smoke.json"


# What a check says of the processor.
MACHINE = {"device": {"name": "Some Processor", "threads": 1}, "versions": {"torch": "2.13.0"}}
MACHINE |= {"arithmetic": {"cpu_capability": "AVX2"}, "date": "2026-11-23"}
SIMCSE, SSCL, GLOVE = (f"{name}@official on toy" for name in ("simcse", "sscl", "glove"))
KEPT, CHANGED, NONE = [70.1, 70.2], [80.1, 80.2], [math.nan, math.nan]


def write_runs(folder, runs, versions=None, commit="abc", status="finished"):
    """A suite with one STS12 score for each seed of its methods, or with none, where that is nan.

    The identity of a run is the version of its method, its seed and its threads.
    """
    plan = []
    for method, values in runs.items():
        for seed, value in enumerate(values):
            version = (versions or {}).get(method, 1)
            identity = {"parts": [method, version], "seed": seed, "recipe": {"threads": seed}}
            entry = {"id": f"{method}_s{seed}", "method": method, "seed": seed, "label": "a method"}
            entry |= {"setting": "official", "backbone": "toy", "tasks": ["STS12"]}
            plan.append(entry | {"identity": identity})
            record = {"task": "STS12", "split": "test", "metric": "spearman", "aggregation": "all"}
            provenance = {"outcome": {"status": status}, "code": {"commit": commit}, **MACHINE}
            path = folder / "scores" / f"{entry['id']}.json"
            if not math.isnan(value):
                write_scores(path, provenance, [record | {"value": value}])
    write_json(folder / "plan.json", {"suite": "mine", "data": "world", "runs": plan})
    return folder


def plan(folder):
    return read_plan(folder / "plan.json")


def test_a_widening_is_twice_the_movement_of_its_run_or_of_nine_runs_in_ten():
    runs = [f"run {number}" for number in range(11)]
    cells = {"STS12 spearman": [50.0, 60.0], "STS13 spearman": [40.0, 40.0], "MR accuracy": [80]}
    plain = {run: deepcopy(cells) for run in runs}
    other = {run: deepcopy(cells) for run in runs}
    # In the second seed; holds for all tasks of this metric and run.
    other["run 0"]["STS13 spearman"][1] -= 1.5
    other["run 1"]["STS12 spearman"][0] += 0.1
    other["run 2"]["MR accuracy"] = [83]
    found = widenings({PLAIN: {"cells": plain}, "same": {"cells": plain}, "x": {"cells": other}})
    assert found["spearman"] == pytest.approx({run: 3.0 if run == "run 0" else 0.2 for run in runs})
    # Nine runs in ten did not move here; two of 150 samples are room for each.
    accuracy = {run: 6.0 if run == "run 2" else 200 / 150 for run in runs}
    assert found["accuracy"] == pytest.approx(accuracy)


def test_a_run_is_apart_where_it_differs_more_than_arithmetic_from_the_same_seed():
    # Arithmetic moved run 0 by 0.1, so its limit is ten times that; the others' is that of nine in
    # ten runs, 0.02.
    runs = [f"run {number}" for number in range(21)]
    plain = {run: {"STS12 spearman": [50.0, 60.0], "MR accuracy": [80.0, 80.0]} for run in runs}
    other = {run: {"STS12 spearman": [50.0, 60.02], "MR accuracy": [80.0, 80.0]} for run in runs}
    other["run 0"]["STS12 spearman"] = [50.1, 60.0]
    arithmetics = {PLAIN: {"cells": plain}, "other": {"cells": other}}

    def apart(**changes):
        cells = {run: {"STS12 spearman": [50.0], "MR accuracy": [70.0]} for run in runs}
        for name, values in changes.items():
            cells[name.replace("_", " ")]["STS12 spearman"] = values
        return [message for _, message in runs_apart(cells, arithmetics)]

    assert apart(run_0=[50.99, 60.99], run_1=[50.19, 59.81]) == []
    assert apart(run_0=[50, 61.01], run_1=[50.21]) == [
        "run 0, STS12 spearman: 1.01 points from the same seed, more than 1.00",
        "run 1, STS12 spearman: 0.21 points from the same seed, more than 0.20",
    ]
    assert apart(run_2=[50, 60, 90]) == []  # a seed that the reference does not have


def test_a_score_outside_fails_and_one_inside_passes(tmp_path):
    """Twenty seeds from 70 to 71.9, and one of them under two arithmetics, 0.25 points apart."""
    reference = tmp_path / "reference.json"
    arithmetics = [
        write_runs(tmp_path / name, {"simcse": [value]})
        for name, value in {PLAIN: 70.0, "oldest": 70.25}.items()
    ]
    seeds = write_runs(tmp_path / "many", {"simcse": [70 + seed / 10 for seed in range(20)]})
    write(seeds, arithmetics, reference)
    # Mean 70.95, s^2 = 0.35; t(0.9995, 19) = 3.8834 (tables); widened by twice 0.25.
    half = 3.8834 * math.sqrt(0.35 * 1.05) + 0.5
    assert interval([70.0], 0.25) == (69.75, 70.25)  # of one value, which nothing is drawn for
    inside, outside = 70.95 + half - 0.01, 70.95 + half + 0.01
    assert "1 scores" in check(write_runs(tmp_path / "good", {"simcse": [inside]}), reference)
    with pytest.raises(UserError) as caught:
        check(write_runs(tmp_path / "bad", {"simcse": [outside, 90.0]}), reference)
    first, worst, nearest, *_ = str(caught.value).splitlines()
    assert first == f"2 of 2 scores are outside their intervals of {reference}:"
    name, ends = f"  {SIMCSE}, STS12 spearman", "outside 68.10 to 73.80"
    assert worst == f"{name}: 90.00 is {90 - 70.95 - half:.2f} {ends}"
    assert nearest == f"{name}: 73.81 is 0.01 {ends}"
    diverged = write_runs(tmp_path / "diverged", {"simcse": [71.0]}, status="diverged")
    with pytest.raises(UserError, match="did not finish"):
        check(diverged, reference)
    write_json(reference, read_json(reference) | {"cells": {}})
    with pytest.raises(UserError, match=f"no STS12 spearman of {SIMCSE}; update it with make"):
        check(diverged, reference)


def test_one_run_may_be_apart_and_two_may_not(tmp_path):
    """Every score is within its wide interval."""
    reference, wide = tmp_path / "reference.json", [50.0, 40.0, 60.0]
    seeds = write_runs(tmp_path / PLAIN, {"simcse": wide, "sscl": wide})
    write(seeds, [seeds], reference)
    one = write_runs(tmp_path / "one", {"simcse": [50.5], "sscl": [50.0]})
    assert "2 scores" in check(one, reference)
    two = write_runs(tmp_path / "two", {"simcse": [50.5], "sscl": [50.5]})
    with pytest.raises(UserError, match="2 of 2 runs differ from the same seeds in "):
        check(two, reference)


def test_an_update_measures_what_changed_and_keeps_the_rest(tmp_path):
    reference = tmp_path / "reference.json"

    def written(folder):
        """STS12 by run, of the seeds and of the only arithmetic; the runs' commits."""
        write(folder, [folder], reference)
        content = read_json(reference)
        cells = [content["cells"], content["arithmetics"][PLAIN]["cells"]]
        commits = {run: made["code"]["commit"] for run, made in content["runs"].items()}
        return *({run: x["STS12 spearman"] for run, x in each.items()} for each in cells), commits

    first = write_runs(tmp_path / "first" / PLAIN, {"simcse": KEPT, "sscl": KEPT}, commit="one")
    measured = {SIMCSE: KEPT, SSCL: KEPT}
    assert lacking(plan(first), reference) == {SIMCSE, SSCL}
    assert written(first) == (measured, measured, {SIMCSE: "one", SSCL: "one"})
    assert lacking(plan(first), reference) == set()

    # SSCL has a new version, GloVe is new, and nothing else has scores.
    runs = {"simcse": NONE, "sscl": CHANGED, "glove": KEPT}
    second = write_runs(tmp_path / "second" / PLAIN, runs, {"sscl": 2}, commit="two")
    head = f"methods or settings changed since {reference} was measured; run make reference:"
    with pytest.raises(UserError, match=re.escape(f"{head}\n  {SSCL}")):
        check(second, reference)
    assert lacking(plan(second), reference) == {SSCL, GLOVE}
    measured = {SIMCSE: KEPT, SSCL: CHANGED, GLOVE: KEPT}
    assert written(second) == (measured, measured, {SIMCSE: "one", SSCL: "two", GLOVE: "two"})


def test_the_smoke_suite_has_one_identity_for_all_seeds_and_threads():
    content = config.load(ROOT / "config" / "smoke.yaml")
    plain = config.plan(config.reseeded(content, range(1, 9))).runs
    recipe = {**content.recipe, "threads": 2}
    threads = config.plan(content.changed(recipe=recipe)).runs
    found = [{(name_of(run), identity_of(run)) for run in runs} for runs in (plain, threads)]
    names = {name for name, _ in found[0]}
    assert found[0] == found[1]
    assert len(names) == len(found[0]) == len({identity for _, identity in found[0]})


def test_each_arithmetic_lies_within_the_intervals_that_the_others_give():
    """On the smoke suite's own reference, so on what another processor may be like: none of its
    scores was used."""
    known = read_json(REFERENCE)
    for name in set(known["arithmetics"]) - {PLAIN}:
        others = {other: found for other, found in known["arithmetics"].items() if other != name}
        cells = known["arithmetics"][name]["cells"]
        places = list(judged(cells, known | {"arithmetics": others}, REFERENCE))
        outside = [place for place in places if not place[3] <= place[2] <= place[4]]
        assert (len(places) > 0, outside) == (True, []), name
