"""The systems of a suite on its leaderboards: their order, and what is said of them."""

from bench.datasets.metrics import FURTHER_SEEDS, Cell, probe_seed
from bench.datasets.tasks import STS_TASKS
from bench.judge.heading import heading
from bench.judge.judge import judge
from bench.results.suite_results import read_results
from bench.utils.files import write_json
from tests.support.compared_runs import scored, suite
from tests.support.rows import systems_of
from tests.support.synthetic_suite import seeds, write_suite


def test_leaderboards_are_best_first_and_count_what_is_missing(tmp_path):
    """Mutations caught: sorted by the average of all tasks, which may be missing; rows without a
    backbone where the plan has them; failed runs counted as missing."""
    tasks = {"tasks": ["STS-B", "SICK-R"]}
    methods = {"word-overlap": 99.0, "simcse": 60.0, "is-cse": 90.0, "sscl": 70.0}
    runs = [run | tasks for name, value in methods.items() for run in seeds(name, [value])]
    for run in runs:
        run["scores"] = dict.fromkeys(tasks["tasks"], run["scores"])
    runs[0] |= {"backbone": "none"}
    runs += [{"method": "simcse", "seed": seed} | tasks for seed in (7, 8, 9)]
    diverged = {"method": "gs-infonce", "seed": 9, "status": "diverged", "reason": "loss is nan"}
    runs.append(diverged | tasks)
    runs += [run | tasks for run in seeds("sscl", [{"STS-B": 50.0}], backbone="roberta-base")]
    folder = write_suite(tmp_path, runs)
    write_json(folder / "runs" / "run004" / "failure.json", {})
    results = read_results(folder)
    assert heading(results).partial == "Partial: 6 of 9 runs have been made, 1 failed."
    rows = systems_of(results)
    assert [(row.backbone, row.method, row.n, row.averages, row.remark) for row in rows] == [
        ("bert-base-uncased", "is-cse", 1, (90.0,), ""),
        ("bert-base-uncased", "sscl", 1, (70.0,), ""),
        ("bert-base-uncased", "simcse", 1, (60.0,), "1 failed; 2 missing"),
        ("bert-base-uncased", "gs-infonce", 0, (), "1 diverged: loss is nan"),
        ("roberta-base", "sscl", 1, (), ""),
        ("none", "word-overlap", 1, (99.0,), ""),
    ]
    assert {row.score("Avg").mean for row in rows} == {None}  # of all seven
    assert (rows[0].score("STS-B").mean, rows[0].score("STS-B").n) == (90.0, 1)


def test_what_was_read_before_is_known_of_any_finished_seed(tmp_path):
    """The first seed of one system is missing, that of the other diverged: neither has counts."""
    diverged = {"status": "diverged", "reason": "loss is nan"}
    counts = {task: {"items": 10, "seen": 2, "in_dev": 1} for task in STS_TASKS}
    runs = []
    for name, first in ("simcse", {}), ("is-cse", diverged):
        runs += [{"method": name, "seed": 9} | first, *seeds(name, [60.0], contamination=counts)]
    rows = judge(read_results(write_suite(tmp_path, runs, baseline="simcse")))
    assert {(row.seen, row.in_dev) for row in rows.systems} == {(20, 10)}
    assert "test items in its corpus: STS12 20%" in rows.systems[0].remark
    names = {rows.suite.baseline_name, rows.pairs[0].name, rows.pairs[0].baseline_name}
    assert names == {f"{x}, official (has seen test sentences)" for x in ("simcse", "is-cse")}
    assert names == {row.name for row in rows.systems}


def test_the_seeds_of_classifiers_are_those_of_a_row_without_another():
    """The order is over them; the score of the run is that of the first."""
    of_mr = {"metric": "accuracy", "tasks": ("MR",)}
    untrained = scored("untrained", None, {"MR": 70.0}, **of_mr)
    for seed, points in zip(FURTHER_SEEDS, (71.0, 72.0, 73.0, 74.0), strict=True):
        untrained.scores[Cell("MR", "test", "accuracy", probe_seed(seed))] = points
    rows = systems_of(suite(scored("simcse", 1, {"MR": 71.0}, **of_mr), untrained), "transfer")
    assert [(row.method, row.n) for row in rows] == [("untrained", 5), ("simcse", 1)]
    assert rows[0].averages == (70.0, 71.0, 72.0, 73.0, 74.0)
    assert rows[0].run_averages == (70.0,)
