"""The toy data's own numbers: what is as on the reference machine, and what `make
world-numbers` measures and writes."""

from dataclasses import replace

import pandas as pd
import pytest

from bench.datasets.metrics import Cell
from bench.judge.world import SCORES, SEEDS, judge_world, seedless_identity
from bench.results.records import Device, Provenance, write_scores
from bench.results.suite_results import SuiteResults
from bench.results.system import RunResults
from bench.runs import config
from bench.runs.plan import Plan
from tests.portable import CELL, CONFIG, lacking, numbered, numbers_of, write
from tests.support.rows import against, rows_of

NUMBERS = pd.read_csv(SCORES)
CPU = {"device": {"kind": "cpu", "name": "a CPU", "threads": 1}}


@pytest.fixture(scope="module")
def plan():
    return config.plan(config.load(CONFIG))


def scored(runs, **changes):
    """A suite with runs of a plan that score what the reference machine did; `changes` are points
    added to the STS12 of a method."""
    results = []
    for run in runs:
        rows = NUMBERS.query("run == @run.text and backbone == @run.backbone")
        scores = {
            Cell(row["task"], "test", row["metric"]): row[f"seed {run.seed or 1}"]
            for row in rows.to_dict("records")
        }
        for key in scores.keys() & {Cell("STS12", "test", "spearman")}:
            scores[key] += changes.get(run.parts[0][0].replace("-", "_"), 0.0)
        results.append(RunResults(run, "finished", "", scores, Provenance(**CPU)))
    return SuiteResults(Plan(suite="mine", data="world", mode="dev", runs=list(runs)), results)


def kinds(suite):
    """The verdicts on STS12, by run."""
    return {row.run: row.verdict.kind for row in rows_of(judge_world(suite), task="STS12")}


def chosen(plan, *texts):
    return [
        run for run in plan.runs
        if run.text in texts and run.backbone == "toy-bert" and run.seed in (None, 1)
    ]  # fmt: skip


def test_every_answer_is_seen_in_the_smoke_suite():
    """By the reference scores of the toy data."""
    plan = config.plan(config.load(config.SUITES / "smoke.yaml"))
    rows = against(replace(scored(plan.runs), plan=plan), "simcse")
    assert {
        row.method: row.verdict for row in rows if row.verdict and row.leaderboard == "sts"
    } == {
        "sup-simcse[corpus=world-nli,dimension=64]": "better",
        "simcse[dropout=0]": "worse",
        "is-cse": "gain below the margin",
        "gs-infonce": "open",
    }


@pytest.mark.parametrize("name", ["smoke", "all-methods"])
def test_every_score_of_the_suites_of_the_world_has_a_number(name):
    """A changed method or setting has another identity and needs `make world-numbers`."""
    plan = config.plan(config.load(config.SUITES / f"{name}.yaml"))
    wanted = {
        (run.text, run.backbone, run.seed, *cell) for run in plan.runs for cell in numbered(run)
    }
    judged = judge_world(scored(plan.runs))
    places = {(row.run, row.backbone, row.seed, row.task, row.metric) for row in judged}
    assert places == wanted
    assert {row.verdict.kind for row in judged} == {"reproduced"}


def test_a_score_beyond_its_tolerance_is_lower_or_higher(plan):
    """The tolerance of a run without a seed is the smallest that counts here, 0.01."""
    method = "untrained[pooler=avg]@paper"
    runs = chosen(plan, method)
    assert kinds(scored(runs, untrained=0.0099)) == {method: "reproduced"}
    assert kinds(scored(runs, untrained=0.0101)) == {method: "higher"}
    assert kinds(scored(runs, untrained=-0.0101)) == {method: "lower"}


def test_one_run_may_be_apart_and_two_may_not(plan):
    """Within the interval of their seeds, whose width is many points."""
    runs = chosen(plan, "simcse@official", "sscl@official")
    assert kinds(scored(runs, simcse=0.5)) == {
        "simcse@official": "consistent",
        "sscl@official": "reproduced",
    }
    assert kinds(scored(runs, simcse=0.5, sscl=-0.5)) == {
        "simcse@official": "higher",
        "sscl@official": "lower",
    }


def test_a_run_beyond_the_interval_of_its_seeds_is_never_as_with_another_seed(plan):
    """Mean 69.4, standard deviation 1.9 of 8 seeds: t(0.9995, 7) = 5.408 (tables)."""
    runs = chosen(plan, "simcse@official")
    row = NUMBERS.query("run == 'simcse@official' and backbone == 'toy-bert' and task == 'STS12'")
    seeds, tolerance = row[SEEDS].iloc[0], row["tolerance"].iloc[0]
    reach = 5.408 * seeds.std() * (1 + 1 / 8) ** 0.5 + tolerance / 5
    edge = seeds.mean() + reach - seeds["seed 1"]
    assert kinds(scored(runs, simcse=edge - 0.01)) == {"simcse@official": "consistent"}
    assert kinds(scored(runs, simcse=edge + 0.01)) == {"simcse@official": "higher"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"provenance": Provenance(device=Device(kind="cuda"))}, "measured on a GPU"),
        ({"status": "diverged", "reason": "NaN"}, "NaN"),
        ({"status": "missing", "reason": "no scores", "scores": {}}, "no scores"),
    ],
)
def test_what_cannot_be_compared_says_why(plan, change, reason):
    suite = scored(chosen(plan, "simcse@official"))
    suite.runs[0] = replace(suite.runs[0], **change)
    assert {row.verdict.reason for row in judge_world(suite)} == {reason}


def test_a_changed_method_is_not_compared(plan):
    (run,) = chosen(plan, "simcse@official")
    changed = run.model_copy(update={"identity": {**run.identity, "loop": 0}})
    assert kinds(scored([changed])) == {"simcse@official": "not comparable"}


def test_accuracies_of_other_classifiers_are_not_compared(plan):
    suite = scored(chosen(plan, "untrained[pooler=avg]@paper"))
    suite = replace(suite, plan=suite.plan.model_copy(update={"mode": "test"}))
    kinds = {row.metric: row.verdict.kind for row in judge_world(suite)}
    assert (kinds["spearman"], kinds["accuracy"]) == ("reproduced", "not comparable")


def test_seeds_and_threads_do_not_change_an_identity():
    content = config.load(CONFIG)
    plain = config.plan(config.reseeded(content, range(1, 9))).runs
    recipe = {**content.recipe, "threads": 2}
    threads = config.plan(content.changed(recipe=recipe)).runs
    first, second = ({(run.text, run.backbone, seedless_identity(run)) for run in runs}
                     for runs in (plain, threads))  # fmt: skip
    assert first == second
    assert len(first) == len({identity for *_, identity in first})


# What make world-numbers does


def test_a_tolerance_is_twice_the_movement_of_its_metric_and_ten_times_that_of_a_seed():
    """At least 0.01 for a correlation and two of 150 samples for an accuracy, five times of that
    with seeds."""
    cells = [("STS13", "spearman"), ("STS12", "spearman"), ("MR", "accuracy")]
    rows = [["a", "b", *cell, seed, 50.0] for seed in SEEDS for cell in cells]
    seeds = pd.DataFrame(rows, columns=[*CELL, "seed", "value"])
    plain = seeds[seeds["seed"] == "seed 1"]
    moved = plain.replace({"value": {50.0: 50.1}}).where(plain["task"] == "STS12", plain)
    for scores, frames, expected in (
        (plain, [plain, moved], [0.2, 0.2, 1.333]),
        (seeds, [plain, moved], [1.0, 1.0, 6.667]),
        (seeds, [plain, plain], [0.05, 0.05, 6.667]),
    ):
        table = numbers_of(scores, frames)
        assert table["tolerance"].tolist() == pytest.approx(expected)
        assert table["task"].tolist() == ["STS13", "STS12", "MR"]


def suite_of(folder, plan, points, commit):
    """A suite with the plan's runs, each task of which scores `points` plus the seed."""
    plan.write(folder / "plan.json")
    for run in plan.runs:
        records = [
            {"task": task, "split": "test", "metric": "spearman", "aggregation": "all"}
            | {"value": points + (run.seed or 0)}
            for task in run.tasks
        ]
        provenance = CPU | {
            "code": {"commit": commit}, "versions": {"torch": "2.13.0"}, "date": "today",
            "arithmetic": {"cpu_capability": "AVX2"}, "outcome": {"status": "finished"},
        }  # fmt: skip
        write_scores(folder / "scores" / f"{run.id}.json", provenance, records)
    return folder


def test_an_update_measures_what_changed_and_keeps_the_rest(plan, tmp_path):
    files = tmp_path / "world.csv", tmp_path / "world_runs.csv"
    runs = [
        run.model_copy(update={"tasks": ("STS12",)})
        for run in chosen(plan, "simcse@official", "sscl@official")
    ]
    first = plan.model_copy(update={"runs": runs})
    assert lacking(first, *files) == {
        ("simcse@official", "toy-bert"),
        ("sscl@official", "toy-bert"),
    }
    suite = suite_of(tmp_path / "plain", first, 70, "one")
    write(suite, [suite], *files)
    assert lacking(first, *files) == set()

    runs[1] = runs[1].model_copy(update={"identity": {**runs[1].identity, "loop": 0}})
    second = plan.model_copy(update={"runs": runs})
    assert lacking(second, *files) == {("sscl@official", "toy-bert")}
    suite = suite_of(tmp_path / "again" / "plain", second, 80, "two")
    write(suite, [suite], *files)
    numbers, origins = (pd.read_csv(file).set_index("run") for file in files)
    assert numbers["seed 1"].to_dict() == {"simcse@official": 71, "sscl@official": 81}
    assert origins["commit"].to_dict() == {"simcse@official": "one", "sscl@official": "two"}
