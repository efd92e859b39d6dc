"""The systems of a suite on its boards: their order, and what is said of them."""

from bench.judge.heading import heading
from bench.results.suite_results import read_results
from bench.utils.files import write_json
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
    suite = read_results(folder)
    assert heading(suite).partial == "Partial: 6 of 9 runs have been made, 1 failed."
    rows = systems_of(suite)
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
