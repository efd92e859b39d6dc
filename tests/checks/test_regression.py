"""The regression test of the smoke suite: intervals, how far they are widened, what makes it fail,
and what an update of the reference measures."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.checks.regression import (
    LEAST,
    PLAIN,
    check,
    identity_of,
    interval,
    judged,
    name_of,
    runs_apart,
    widenings,
)
from bench.datasets import labelled
from bench.datasets.tasks import PROBING_TASKS, TRANSFER_TASKS
from bench.results.records import write_scores
from bench.runs import config
from bench.runs.plan import Plan, read_plan
from bench.runs.run import PlannedRun
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from tests.support.reference import lacking, write

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


MACHINE = {
    "device": {"name": "Some Processor", "threads": 1},
    "arithmetic": {"cpu_capability": "AVX2"},
    "versions": {"torch": "2.13.0"},
    "date": "2026-11-23",
}


def write_plan(folder: Path, runs: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a plan with these runs by id."""
    common = {"setting": "official", "label": "a method", "backbone": "toy", "tasks": ["STS12"]}
    common["identity"] = {}
    entries = [common | {"id": name} | dict(run) for name, run in runs.items()]
    write_json(folder / "plan.json", {"suite": "mine", "data": "world", "runs": entries})


def write_score(
    folder: Path, run: str, task: str, value: float, status: str = "finished", commit: str = "abc"
) -> None:
    """Write a file of one score."""
    record = {"task": task, "split": "test", "metric": "spearman", "aggregation": "all"}
    provenance = {"outcome": {"status": status}, "code": {"commit": commit}, **MACHINE}
    write_scores(folder / "scores" / f"{run}.json", provenance, [record | {"value": value}])


def planned_run() -> PlannedRun:
    names = dict.fromkeys(("id", "method", "setting", "label", "backbone"), "x")
    return PlannedRun(**names, seed=1)


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
    run = {"identity": identity_of(planned_run()), "processor": "Some Processor"}
    runs = dict.fromkeys(names.values(), run)
    write_json(reference, {"runs": runs, "cells": wide, "arithmetics": same})
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
    tasks = [labelled.read(name, world) for name in (*TRANSFER_TASKS, *PROBING_TASKS)]
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
def reference(tmp_path) -> Path:
    """Twenty seeds from 70 to 71.9, and one of them under two arithmetics that are 0.25 points
    apart."""
    arithmetics = [
        suite(tmp_path / "arithmetics" / name, {1: value})
        for name, value in {PLAIN: 70.0, "oldest": 70.25}.items()
    ]
    seeds = suite(tmp_path / "many", {seed: 70 + seed / 10 for seed in range(20)})
    write(seeds, arithmetics, tmp_path / "reference.json")
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


def test_what_the_reference_lacks_is_named(reference, tmp_path):
    content = read_json(reference)
    write_json(reference, content | {"cells": {}})
    told = "no Avg spearman of simcse@official on toy; update it with make reference"
    with pytest.raises(UserError, match=told):
        check(suite(tmp_path / "suite", {1: 71.0}), reference)
    with pytest.raises(UserError, match="has no arithmetic 'plain'"):
        write(tmp_path / "many", [tmp_path / "nowhere"], reference)


# Updates

SIMCSE, SSCL, GLOVE = (f"{name}@official on toy" for name in ("simcse", "sscl", "glove"))


def measure(
    folder: Path, commit: str, scored: Sequence[str] | None = None, **versions: int
) -> Path:
    """A suite with two seeds of each method, of which `scored` have scores; all by default.

    Their identities are their versions, which are also their scores: 70.1, 70.2 of the first.
    """
    runs = {
        f"{method}_s{seed}": {"method": method, "seed": seed}
        | {"identity": {"parts": [method, version], "seed": seed, "recipe": {"threads": seed}}}
        for method, version in versions.items()
        for seed in (1, 2)
    }
    write_plan(folder, runs)
    for name, run in runs.items():
        if scored is None or run["method"] in scored:
            value = 60 + 10 * versions[run["method"]] + run["seed"] / 10
            write_score(folder, name, "STS12", value, commit=commit)
    return folder


def values_in(reference: Path) -> list[dict[str, list[float]]]:
    """STS12 by run, of the seeds and of the only arithmetic."""
    content = read_json(reference)
    (arithmetic,) = content["arithmetics"].values()
    return [
        {run: of_run["STS12 spearman"] for run, of_run in cells.items()}
        for cells in (content["cells"], arithmetic["cells"])
    ]


def commits_in(reference: Path) -> dict[str, str]:
    return {run: made["code"]["commit"] for run, made in read_json(reference)["runs"].items()}


def test_an_update_measures_what_changed_and_keeps_the_rest(tmp_path):
    reference = tmp_path / "reference.json"

    first = measure(tmp_path / "first" / PLAIN, "one", simcse=1, sscl=1)
    assert lacking(plan(first), reference) == {SIMCSE, SSCL}
    write(first, [first], reference)
    assert lacking(plan(first), reference) == set()
    assert values_in(reference) == [{SIMCSE: [70.1, 70.2], SSCL: [70.1, 70.2]}] * 2

    # SSCL has a new version, GloVe is new; nothing else has scores.
    new = {"simcse": 1, "sscl": 2, "glove": 1}
    second = measure(tmp_path / "second" / PLAIN, "two", ["sscl", "glove"], **new)
    assert lacking(plan(second), reference) == {SSCL, GLOVE}
    write(second, [second], reference)
    kept, changed = [70.1, 70.2], [80.1, 80.2]
    assert values_in(reference) == [{SIMCSE: kept, SSCL: changed, GLOVE: kept}] * 2
    assert commits_in(reference) == {SIMCSE: "one", SSCL: "two", GLOVE: "two"}
    made = read_json(reference)["runs"][SSCL]
    assert made["processor"] == "Some Processor (AVX2, 1 thread)"

    # SSCL is no longer planned.
    third = measure(tmp_path / "third" / PLAIN, "three", [], simcse=1, glove=1)
    assert lacking(plan(third), reference) == set()
    write(third, [third], reference)
    assert values_in(reference) == [{SIMCSE: kept, GLOVE: kept}] * 2
    assert commits_in(reference) == {SIMCSE: "one", GLOVE: "two"}


def plan(folder: Path) -> Plan:
    return read_plan(folder / "plan.json")


def test_other_tasks_or_seeds_are_measured_again(tmp_path):
    reference, folder = tmp_path / "reference.json", tmp_path / PLAIN
    write(measure(folder, "one", simcse=1, sscl=1), [folder], reference)
    made = plan(folder)
    more = [run.model_copy(update={"tasks": ("STS12", "STS-B")}) for run in made.runs[:2]]
    longer = made.model_copy(update={"runs": [*more, *made.runs[2:]]})
    assert lacking(longer, reference) == {SIMCSE}
    assert lacking(made.model_copy(update={"runs": made.runs[:3]}), reference) == {SSCL}


def test_a_method_that_was_changed_since_is_not_compared(tmp_path):
    reference, folder = tmp_path / "reference.json", tmp_path / PLAIN
    write(measure(folder, "one", simcse=1, sscl=1), [folder], reference)
    assert "4 scores" in check(folder, reference)
    changed = measure(tmp_path / "changed", "two", simcse=1, sscl=2)
    with pytest.raises(UserError) as caught:
        check(changed, reference)
    head = f"methods or settings changed since {reference} was measured; run make reference:"
    assert str(caught.value).splitlines() == [head, f"  {SSCL}"]


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
