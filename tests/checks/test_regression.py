"""The regression test of the smoke suite: intervals, how far they are widened, what makes it fail,
and what an update of the reference measures."""

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path

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


def write_runs(
    folder: Path,
    runs: Mapping[str, Sequence[float]],
    versions: Mapping[str, int] | None = None,
    commit: str = "abc",
    status: str = "finished",
) -> Path:
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


def plan(folder: Path) -> Plan:
    return read_plan(folder / "plan.json")


SIMCSE, SSCL, GLOVE = (f"{name}@official on toy" for name in ("simcse", "sscl", "glove"))


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


def test_one_run_may_be_apart_and_two_may_not(tmp_path):
    """Every score is within its wide interval."""
    reference, wide = tmp_path / "reference.json", [50.0, 40.0, 60.0]
    seeds = write_runs(tmp_path / PLAIN, {"simcse": wide, "sscl": wide})
    write(seeds, [seeds], reference)
    one = write_runs(tmp_path / "one", {"simcse": [50.5], "sscl": [50.0]})
    assert "2 scores" in check(one, reference)
    two = write_runs(tmp_path / "two", {"simcse": [50.5], "sscl": [50.5]})
    told = r"(?s)2 of 2 runs differ from the same seeds in .*0\.50 points from"
    with pytest.raises(UserError, match=told):
        check(two, reference)


def test_no_test_part_of_the_world_has_fewer_samples_than_the_least_widening_says(world):
    tasks = [labelled.read(name, world) for name in (*TRANSFER_TASKS, *PROBING_TASKS)]
    # The only part, or the test part.
    fewest = min(len(list(task.splits.values())[-1].labels) for task in tasks)
    assert LEAST["accuracy"] == LEAST["accuracy_mlp"] == LEAST["f1"] == 2 * 100 / fewest


@pytest.fixture
def reference(tmp_path) -> Path:
    """Twenty seeds from 70 to 71.9, and one of them under two arithmetics that are 0.25 points
    apart."""
    arithmetics = [
        write_runs(tmp_path / "arithmetics" / name, {"simcse": [value]})
        for name, value in {PLAIN: 70.0, "oldest": 70.25}.items()
    ]
    seeds = write_runs(tmp_path / "many", {"simcse": [70 + seed / 10 for seed in range(20)]})
    write(seeds, arithmetics, tmp_path / "reference.json")
    return tmp_path / "reference.json"


def test_a_score_outside_fails_and_one_inside_passes(reference, tmp_path):
    # Mean 70.95, s^2 = 0.35; t(0.9995, 19) = 3.8834 (tables); widened by twice 0.25.
    half = 3.8834 * math.sqrt(0.35 * 1.05) + 0.5
    inside, outside = 70.95 + half - 0.01, 70.95 + half + 0.01
    assert "1 scores" in check(write_runs(tmp_path / "good", {"simcse": [inside]}), reference)
    with pytest.raises(UserError) as caught:
        check(write_runs(tmp_path / "bad", {"simcse": [outside, 90.0]}), reference)
    first, worst, nearest, *rest = str(caught.value).splitlines()
    assert first == f"2 of 2 scores are outside their intervals of {reference}:"
    name, ends = "  simcse@official on toy, STS12 spearman", "outside 68.10 to 73.80"
    assert worst == f"{name}: 90.00 is {90 - 70.95 - half:.2f} {ends}"
    assert nearest == f"{name}: 73.81 is 0.01 {ends}"
    assert "made on Some Processor (AVX2, 1 thread)" in rest[0]
    assert "make reference" in rest[1]
    diverged = write_runs(tmp_path / "diverged", {"simcse": [71.0]}, status="diverged")
    with pytest.raises(UserError, match="did not finish"):
        check(diverged, reference)


def test_what_the_reference_lacks_is_named(reference, tmp_path):
    content = read_json(reference)
    write_json(reference, content | {"cells": {}})
    told = "no STS12 spearman of simcse@official on toy; update it with make reference"
    with pytest.raises(UserError, match=told):
        check(write_runs(tmp_path / "suite", {"simcse": [71.0]}), reference)
    with pytest.raises(UserError, match="has no arithmetic 'plain'"):
        write(tmp_path / "many", [tmp_path / "nowhere"], reference)


# Updates


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


KEPT, CHANGED, NONE = [70.1, 70.2], [80.1, 80.2], [math.nan, math.nan]


def test_an_update_measures_what_changed_and_keeps_the_rest(tmp_path):
    reference = tmp_path / "reference.json"

    runs = {"simcse": KEPT, "sscl": KEPT}
    first = write_runs(tmp_path / "first" / PLAIN, runs, commit="one")
    assert lacking(plan(first), reference) == {SIMCSE, SSCL}
    write(first, [first], reference)
    assert lacking(plan(first), reference) == set()
    assert values_in(reference) == [{SIMCSE: KEPT, SSCL: KEPT}] * 2

    # SSCL has a new version, GloVe is new; nothing else has scores.
    runs = {"simcse": NONE, "sscl": CHANGED, "glove": KEPT}
    second = write_runs(tmp_path / "second" / PLAIN, runs, {"sscl": 2}, commit="two")
    assert lacking(plan(second), reference) == {SSCL, GLOVE}
    write(second, [second], reference)
    assert values_in(reference) == [{SIMCSE: KEPT, SSCL: CHANGED, GLOVE: KEPT}] * 2
    assert commits_in(reference) == {SIMCSE: "one", SSCL: "two", GLOVE: "two"}
    made = read_json(reference)["runs"][SSCL]
    assert made["processor"] == "Some Processor (AVX2, 1 thread)"

    # SSCL is no longer planned.
    third = write_runs(tmp_path / "third" / PLAIN, {"simcse": NONE, "glove": NONE})
    assert lacking(plan(third), reference) == set()
    write(third, [third], reference)
    assert values_in(reference) == [{SIMCSE: KEPT, GLOVE: KEPT}] * 2
    assert commits_in(reference) == {SIMCSE: "one", GLOVE: "two"}


@pytest.fixture
def both(tmp_path) -> Path:
    """The folder of a suite of two methods, and its reference beside it."""
    folder = write_runs(tmp_path / PLAIN, {"simcse": KEPT, "sscl": KEPT})
    write(folder, [folder], tmp_path / "reference.json")
    return folder


def test_other_tasks_or_seeds_are_measured_again(both, tmp_path):
    made, reference = plan(both), tmp_path / "reference.json"
    more = [run.model_copy(update={"tasks": ("STS12", "STS-B")}) for run in made.runs[:2]]
    longer = made.model_copy(update={"runs": [*more, *made.runs[2:]]})
    assert lacking(longer, reference) == {SIMCSE}
    assert lacking(made.model_copy(update={"runs": made.runs[:3]}), reference) == {SSCL}


def test_a_method_that_was_changed_since_is_not_compared(both, tmp_path):
    reference = tmp_path / "reference.json"
    assert "4 scores" in check(both, reference)
    changed = write_runs(tmp_path / "changed", {"simcse": KEPT, "sscl": KEPT}, {"sscl": 2})
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
