"""The regression test of the smoke suite: intervals, how far they are widened, and what makes it
fail."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.checks.regression import (
    LEAST,
    PLAIN,
    check,
    interval,
    judged,
    runs_apart,
    widenings,
    write,
)
from bench.datasets import probing, transfer
from bench.datasets.tasks import PROBING_TASKS, TRANSFER_TASKS
from bench.results.records import write_scores
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "results" / "reference" / "smoke.json"


def test_known_interval():
    # Five values 1..5: mean 3, s^2 = 2.5; t(0.9995, 4) = 8.6103 (tables), so 3 -+ 8.6103 * sqrt(2.5
    # * 1.2).
    low, high = interval([1, 2, 3, 4, 5])
    assert low == pytest.approx(3 - 8.6103 * math.sqrt(3), abs=1e-3)
    assert high == pytest.approx(3 + 8.6103 * math.sqrt(3), abs=1e-3)
    # Widened on both sides; one value, nothing drawn, has nothing else.
    assert interval([1, 2, 3, 4, 5], widening=0.5) == (low - 0.5, high + 0.5)
    assert interval([70.0], widening=0.25) == (69.75, 70.25)


def test_one_draw_in_a_thousand_leaves_the_interval():
    draw = random.Random(0)
    trials = 4_000
    left = 0
    for _ in range(trials):
        low, high = interval([draw.gauss(70, 2) for _ in range(20)], coverage=0.95)
        left += not low <= draw.gauss(70, 2) <= high
    assert left / trials == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / trials))


MACHINE = {
    "device": {"name": "Some Processor", "threads": 1},
    "arithmetic": {"cpu_capability": "AVX2"},
}


def write_plan(folder: Path, runs: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a plan with these runs by id."""
    common = {"setting": "official", "label": "a method", "backbone": "toy"}
    entries = [common | {"id": name} | dict(run) for name, run in runs.items()]
    write_json(folder / "plan.json", {"suite": "mine", "data": "world", "runs": entries})


def write_score(folder: Path, run: str, task: str, value: float, status: str = "finished") -> None:
    """Write a file of one score."""
    record = {"task": task, "split": "test", "metric": "spearman", "aggregation": "all"}
    provenance = {"outcome": {"status": status}, "code": {"commit": "abc"}, **MACHINE}
    write_scores(folder / "scores" / f"{run}.json", provenance, [record | {"value": value}])


def measured(cells: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    return {"cells": cells}


def test_a_widening_is_twice_the_movement_of_its_run_or_of_nine_runs_in_ten():
    runs = [f"run {number}" for number in range(11)]
    plain = {
        run: {"STS12 spearman": [50.0, 60.0], "STS13 spearman": [40.0, 40.0], "MR accuracy": [80]}
        for run in runs
    }
    other = {
        run: {cell: list(values) for cell, values in cells.items()} for run, cells in plain.items()
    }
    # In the second seed; holds for all tasks of this metric and run.
    other["run 0"]["STS13 spearman"][1] -= 1.5
    other["run 1"]["STS12 spearman"][0] += 0.1
    other["run 2"]["MR accuracy"] = [83]
    found = widenings({PLAIN: measured(plain), "same": measured(plain), "other": measured(other)})
    assert found["spearman"] == pytest.approx({run: 3.0 if run == "run 0" else 0.2 for run in runs})
    # Nine runs in ten did not move here; two of 150 samples are room for each.
    assert found["accuracy"] == pytest.approx(
        {run: 6.0 if run == "run 2" else 200 / 150 for run in runs}
    )


def test_one_run_may_differ_from_the_same_seed_and_two_may_not(tmp_path):
    # Arithmetic moved run 0 by 0.1, so its limit is ten times that; the others' is that of nine in
    # ten runs, 0.02.
    runs = [f"run {number}" for number in range(21)]
    plain = {run: {"STS12 spearman": [50.0, 60.0], "MR accuracy": [80.0, 80.0]} for run in runs}
    other = {run: {"STS12 spearman": [50.0, 60.02], "MR accuracy": [80.0, 80.0]} for run in runs}
    other["run 0"]["STS12 spearman"] = [50.1, 60.0]
    arithmetics = {PLAIN: measured(plain), "other": measured(other)}

    def apart(**changes: list[float]) -> list[str]:
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
    # The whole check: every score within wide intervals, and two runs apart.
    reference = tmp_path / "reference.json"
    names = {"simcse": "simcse@official on toy", "esimcse": "esimcse@official on toy"}
    wide = {name: {"STS12 spearman": [40.0, 50.0, 60.0]} for name in names.values()}
    narrow = {name: {"STS12 spearman": [50.0]} for name in names.values()}
    same = {PLAIN: measured(narrow), "other": measured(narrow)}
    write_json(reference, {"cells": wide, "arithmetics": same, "provenance": MACHINE})
    for moved, fails in ((["simcse"], False), (["simcse", "esimcse"], True)):
        folder = tmp_path / "-".join(moved)
        write_plan(folder, {name: {"method": name, "seed": 1} for name in names})
        for name in names:
            write_score(folder, name, "STS12", 50.5 if name in moved else 50.0)
        if fails:
            told = r"(?s)2 of 2 runs differ from the same seeds in .*0\.50 points from"
            with pytest.raises(UserError, match=told):
                check(folder, reference)
        else:
            assert "2 scores" in check(folder, reference)


def test_no_test_part_of_the_world_has_fewer_samples_than_the_least_widening_says(world):
    tasks = [*(transfer.read(name, world) for name in TRANSFER_TASKS)]
    tasks += [probing.read(name, world) for name in PROBING_TASKS]
    # The only part, or the test part.
    fewest = min(len(list(task.splits.values())[-1].labels) for task in tasks)
    assert LEAST["accuracy"] == LEAST["accuracy_mlp"] == LEAST["f1"] == 2 * 100 / fewest


def suite(folder: Path, values: Mapping[int, float], status: str = "finished") -> Path:
    names = {f"simcse_s{seed}": seed for seed in values}
    write_plan(folder, {name: {"method": "simcse", "seed": seed} for name, seed in names.items()})
    for name, seed in names.items():
        write_score(folder, name, "Avg", values[seed], status)
    return folder


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    """Twenty seeds from 70 to 71.9, and one of them under two arithmetics that are 0.25 points
    apart."""
    for name, value in {PLAIN: 70.0, "oldest": 70.25}.items():
        suite(tmp_path / "arithmetics" / name, {1: value})
    seeds = suite(tmp_path / "many", {seed: 70 + seed / 10 for seed in range(20)})
    write(seeds, tmp_path / "arithmetics", tmp_path / "reference.json")
    return tmp_path / "reference.json"


def test_a_score_outside_fails_and_one_inside_passes(reference, tmp_path):
    # Mean 70.95, s^2 = 0.35; t(0.9995, 19) = 3.8834 (tables); widened by twice 0.25.
    half = 3.8834 * math.sqrt(0.35 * 1.05) + 0.5
    inside, outside = 70.95 + half - 0.01, 70.95 + half + 0.01
    assert "1 scores" in check(suite(tmp_path / "good", {1: inside}), reference)
    with pytest.raises(UserError) as caught:
        check(suite(tmp_path / "bad", {1: outside, 2: 90.0}), reference)
    first, worst, nearest, *rest = str(caught.value).splitlines()
    assert first == f"2 of 2 scores are outside their intervals of {reference}:"
    name, ends = "  simcse@official on toy, Avg spearman", "outside 68.10 to 73.80"
    assert worst == f"{name}: 90.00 is {90 - 70.95 - half:.2f} {ends}"
    assert nearest == f"{name}: 73.81 is 0.01 {ends}"
    assert "made on Some Processor (AVX2, 1 thread)" in rest[0]
    assert "make reference" in rest[1]
    with pytest.raises(UserError, match="did not finish"):
        check(suite(tmp_path / "diverged", {1: 71.0}, status="diverged"), reference)


def test_the_reference_says_where_it_comes_from(reference):
    content = read_json(reference)
    made = [content["provenance"], *(one["provenance"] for one in content["arithmetics"].values())]
    assert [found["device"]["name"] for found in made] == ["Some Processor"] * 3
    assert [found["code"] for found in made] == [{"commit": "abc"}] * 3


def test_what_the_reference_lacks_is_named(reference, tmp_path):
    content = read_json(reference)
    write_json(reference, content | {"cells": {}})
    told = "no Avg spearman of simcse@official on toy; update it with make reference"
    with pytest.raises(UserError, match=told):
        check(suite(tmp_path / "suite", {1: 71.0}), reference)
    with pytest.raises(UserError, match=r"has no suite 'plain'; create it with make portable"):
        write(tmp_path / "many", tmp_path / "nowhere", reference)


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
