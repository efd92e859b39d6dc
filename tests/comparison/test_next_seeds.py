"""The seeds to add next: a case by hand, invariants, and the whole path from scores to a
configuration and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.__main__ import main
from bench.comparison.next_seeds import (
    TRAIN,
    Experiment,
    Growth,
    Job,
    Step,
    greedy,
    grow,
    open_questions,
    report,
    runs_to_decide,
)
from bench.comparison.reproduction import cells
from bench.datasets.tasks import STS_TASKS
from bench.report.page import render_page
from bench.report.tables import render_tables
from bench.reported import printed
from bench.results.suite_results import read_suite
from bench.runs import config as configurations
from bench.runs.cost import NOT_COUNTED, Measured, predict
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from methods.base import overlay
from methods.dclr import DCLR
from tests.support.page_project import png
from tests.support.synthetic_suite import write_suite

BERT = "bert-base-uncased"
A, B = Experiment("a@paper", BERT), Experiment("b@paper", BERT)
HOURS = {Job(one, seed, "sts"): hours for one, hours in ((A, 1.0), (B, 3.0)) for seed in range(5)}
A1, A2, B1 = Job(A, 1, "sts"), Job(A, 2, "sts"), Job(B, 1, "sts")


@pytest.fixture(autouse=True)
def no_local_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.delenv("BENCH_MODELS", raising=False)


# --- Which runs ---


@pytest.mark.parametrize(
    ("budget", "chosen"),
    [
        # By verdicts an hour: A1 1/1, A1 and A2 (1+3)/2, B1 5/3, A1 and B1 (1+5+2)/4. Then B1 has
        # the 2 of A1 and B1 as well.
        (5, [({A1, A2}, 4, 2), ({B1}, 7, 3)]),
        (4, [({A1, A2}, 4, 2)]),
        (1.5, [({A1}, 1, 1)]),
        (0.5, []),
    ],
)
def test_a_case_by_hand(budget: float, chosen: list[Any]) -> None:
    questions = {
        frozenset({A1}): 1,
        frozenset({A1, A2}): 3,
        frozenset({B1}): 5,
        frozenset({A1, B1}): 2,
    }
    steps = greedy(questions, HOURS, budget)
    assert [(set(step.jobs), step.verdicts, step.hours) for step in steps] == chosen


some_jobs = st.frozensets(st.sampled_from([*HOURS]), min_size=1)


@given(st.dictionaries(some_jobs, st.integers(1, 5), max_size=6), st.floats(0.5, 12))
def test_steps_keep_to_the_budget_and_count_what_they_decide(
    questions: dict[Any, int], budget: float
) -> None:
    steps = greedy(questions, HOURS, budget)
    jobs = {job for step in steps for job in step.jobs}
    assert sum(len(step.jobs) for step in steps) == len(jobs)  # none twice
    assert sum(step.hours for step in steps) == sum(HOURS[job] for job in jobs)
    assert sum(HOURS[job] for job in jobs) <= budget + 1e-9
    decided = {known for known in questions if known <= jobs}
    assert sum(step.verdicts for step in steps) == sum(questions[known] for known in decided)
    for known in questions.keys() - decided:  # nothing that could be added was left out
        missing = sum(HOURS[job] for job in known - jobs)
        assert missing > budget - sum(step.hours for step in steps) - 1e-9


@pytest.mark.parametrize(
    ("seeds", "text"),
    [
        ([42], "seed 42: sts"),
        ([1, 2], "seeds 1 to 2: sts"),
        ([1, 3, 4], "seeds 1, 3 to 4: sts"),
        (range(50), "seeds 0 to 49: sts"),
        (range(51), "seeds 0 to 50: sts (51 seeds: a mean is near the edge of its tolerance)"),
    ],
)
def test_seeds_as_text(seeds: list[int], text: str) -> None:
    jobs = frozenset(Job(A, seed, work) for seed in seeds for work in (TRAIN, "sts"))
    told = report(Growth([Step(jobs, 1, 1.0)], 1, 0, 0, 0, {}))
    assert f"a@paper on {BERT}, {text}\n" in told
    assert told.splitlines()[0].split("  ")[0].endswith("Verdicts Hours Runs to score")
    assert f"\n{len(seeds)} runs in 1.00 " in told
    assert "other planned runs" not in told
    assert told.endswith(NOT_COUNTED)


# --- From scores to a configuration ---

CONFIG = configurations.validate(
    {
        "suite": "paper",
        "data": "senteval",
        "corpus": "wiki1m",
        "tasks": ["sts"],
        "seeds": [42, 43, 44, 45, 46],
        "backbones": {BERT: None},
        "methods": ["simcse", {"method": "gs-infonce", "seeds": [42, 43, 44]}],
    }
)
SPREAD = (-1.0, 1.0, -1.0, 1.0, 0.0)


def in_print(method: str) -> dict[str, float]:
    """The row of a method on bert-base in GS-InfoNCE's Table 2."""
    rows = printed().query("source == 'gs-infonce-v2' and table == 'Table 2'")
    rows = rows[(rows["method"] == method) & (rows["backbone"] == BERT)]
    return dict(zip(rows["task"], rows["value"], strict=True))


ENTRY = ("id", "method", "setting", "backbone", "seed", "corpus", "tasks")


def entry_of(one: configurations.Planned) -> dict[str, Any]:
    """A planned run, for `write_suite`."""
    described = one.describe()
    return {key: described[key] for key in ENTRY}


def suite_of(
    folder: Path, simcse: float, gs_infonce: float = 0.0, config: configurations.Suite = CONFIG
) -> Path:
    """A suite whose tasks are this many points above print on average, each with an sd of 0.5."""
    above = {"simcse": ("SimCSE", simcse, 0.5), "gs-infonce": ("GS-InfoNCE", gs_infonce, -0.5)}
    entries = []
    for one in configurations.planned(config):
        name, points, sd = above[one.run.text]
        points += sd * SPREAD[one.run.seed - 42]
        scores = {task: value + points for task, value in in_print(name).items() if task != "Avg"}
        entries.append(entry_of(one) | {"scores": scores})
    return write_suite(folder / "paper", entries)


def growth_of(folder: Path, hours: float = 20.0) -> Growth:
    return grow(folder, CONFIG, hours, "h200")


def averages(suite: Path) -> Any:
    found = cells(read_suite(suite)).query("task == 'Avg' and source == 'gs-infonce-v2'")
    return found[(found["table"] == "Table 2") & (found["measured_on"] == BERT)]


def test_the_new_seeds_are_those_that_decide(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, simcse=-0.7)
    (cell,) = averages(suite).query("method == 'SimCSE'").itertuples()
    assert (cell.verdict, cell.n) == ("inconclusive", 5)
    runs = runs_to_decide(read_suite(suite), cell)
    experiment = Experiment("simcse@official", BERT)
    assert sorted(runs) == [(experiment, seed) for seed in range(47, 42 + cell.seeds)]
    growth = growth_of(suite)
    assert runs <= {(job.experiment, job.seed) for step in growth.steps for job in step.jobs}


def test_both_sides_of_a_difference_get_the_same_seeds(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, simcse=-0.7)
    found = open_questions(read_suite(suite)).query("minus == 'simcse@official'")
    cell = next(found.dropna(subset="seeds").itertuples())
    runs = sorted(runs_to_decide(read_suite(suite), cell))
    ours, other = (Experiment(f"{name}@official", BERT) for name in ("gs-infonce", "simcse"))
    assert [seed for one, seed in runs if one == ours] == [*range(45, 42 + cell.seeds)]
    assert [seed for one, seed in runs if one == other] == [*range(47, 42 + cell.seeds)]


@pytest.mark.parametrize("seeds", [[100, 101, 102], [42]])
def test_a_difference_without_a_spread_gets_its_first_seeds(tmp_path: Path, seeds: Any) -> None:
    config = CONFIG.changed(methods=["simcse", {"method": "gs-infonce", "seeds": seeds}])
    scores = dict.fromkeys(STS_TASKS, 70.0)
    plan = configurations.planned(config)
    suite = write_suite(tmp_path / "paper", [entry_of(one) | {"scores": scores} for one in plan])
    found = open_questions(read_suite(suite)).query("minus == 'simcse@official'")
    assert len(found)
    assert not found["spread_known"].any()
    experiment = Experiment("gs-infonce@official", BERT)
    missing = {(experiment, seed) for seed in (42, 43, 44) if seed not in seeds}
    assert {runs_to_decide(read_suite(suite), cell) for cell in found.itertuples()} == {
        frozenset(missing)
    }
    growth = grow(suite, config, 20, "h200")
    assert growth.first >= len(found)
    said = report(growth).splitlines()
    assert said[-2].startswith(f"{growth.first} without a known spread get their first 3")
    decided = sum(step.verdicts for step in growth.steps) - growth.first
    assert f" decide {decided} of {growth.open} open verdicts" in "\n".join(said)


def test_a_number_that_is_printed_again_is_one_question(tmp_path: Path) -> None:
    found = cells(read_suite(suite_of(tmp_path, simcse=-0.7))).query("verdict == 'inconclusive'")
    again = found.query("run == 'simcse@official' and minus == '' and task == 'Avg'")
    assert len(again) > 1
    asked = open_questions(read_suite(tmp_path / "paper"))
    once = asked.query("run == 'simcse@official' and minus == '' and task == 'Avg'")
    assert list(once["printed"]) == list(again["printed"].unique())


def seconds(config: configurations.Suite) -> float:
    lines = predict(configurations.planned(config), "test", "h200", Measured({}, {}, {}))
    return sum(line.seconds for line in lines)


def test_hours_are_those_of_the_larger_configuration(tmp_path: Path) -> None:
    growth = growth_of(suite_of(tmp_path, simcse=-0.7))
    configurations.validate(growth.config.model_dump(exclude_defaults=True))
    more = (seconds(growth.config) - seconds(CONFIG)) / 3600
    assert sum(step.hours for step in growth.steps) == pytest.approx(more)
    before, after = (
        {run.id for run in configurations.runs(config)} for config in (CONFIG, growth.config)
    )
    assert before < after
    jobs = [job for step in growth.steps for job in step.jobs]
    assert len(after - before) == len({(job.experiment, job.seed) for job in jobs})


def test_from_a_suite_to_its_grown_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite, out = suite_of(tmp_path, simcse=-0.7), tmp_path / "grown.yaml"
    words = ["--config", str(tmp_path / "first.yaml"), "--hours", "20", "--out", str(out)]
    (tmp_path / "first.yaml").write_text(configurations.dump(CONFIG), encoding="utf-8")
    assert main(["next", "--suite", str(suite), *words]) == 0
    said = capsys.readouterr().out
    growth = growth_of(suite)
    assert said.startswith(report(growth))
    assert f"of {growth.open} open verdicts" in said
    assert f"snakemake --cores N --configfile {out}" in said

    config = configurations.load(out)
    assert config == growth.config
    write_json(suite / "plan.json", configurations.plan(config))
    assert read_json(suite / "plan.json")["grown"]
    render_tables(suite, tmp_path / "tables")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "leaderboard.png").write_bytes(png(1, 1))
    render_page(suite, tmp_path / "figures", tmp_path / "report")
    page = next((tmp_path / "report").glob("*.html"))
    for file in (tmp_path / "tables" / "gs-infonce-v2_table-2.md", page):
        assert "Seeds were added after a look at the verdicts" in file.read_text(encoding="utf-8")


def test_a_suite_that_was_not_grown_says_nothing(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, simcse=-0.7)
    assert read_suite(suite).growth == ""
    assert "grown" not in configurations.plan(CONFIG)


def test_the_shipped_configuration_is_found_by_the_name_of_the_suite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["next", "--suite", str(suite_of(tmp_path, simcse=-0.7)), "--hours", "5"]) == 0
    assert f"simcse@official on {BERT}, seed" in capsys.readouterr().out


def test_the_seeds_decide_if_mean_and_spread_stay(tmp_path: Path) -> None:
    """Scores are added whose mean and standard deviation are those of the seeds before."""
    suite = suite_of(tmp_path, simcse=-0.7)
    (cell,) = averages(suite).query("method == 'SimCSE'").itertuples()
    n, half = int(cell.seeds), int(cell.seeds) // 2
    step = cell.sd * ((n - 1) / (2 * half)) ** 0.5
    rows = [cell.mean + step * (-1) ** i * (i < 2 * half) for i in range(n)]
    scores = [dict.fromkeys(STS_TASKS, row) for row in rows]
    grown = write_suite(
        tmp_path / "grown",
        [{"method": "simcse", "seed": seed, "scores": row} for seed, row in enumerate(scores)],
    )
    (cell,) = averages(grown).query("method == 'SimCSE'").itertuples()
    assert cell.verdict != "inconclusive"


def test_new_seeds_get_the_tasks_that_their_questions_need(tmp_path: Path) -> None:
    """Transfer is planned and open, too, but not comparable without its scores."""
    config = CONFIG.changed(tasks=["sts", "transfer"], methods=["simcse"])
    suite = suite_of(tmp_path, simcse=-0.7, config=config)
    growth = grow(suite, config, 20, "h200")
    assert [entry.tasks for entry in growth.config.methods[1:]] == [["sts"]]
    assert {job.work for step in growth.steps for job in step.jobs} == {TRAIN, "sts"}
    added = [one for one in configurations.planned(growth.config) if one.run.seed > 46]
    assert {one.tasks for one in added} == {("sts",)}
    lines = predict(added, "test", "h200", Measured({}, {}, {}))
    hours = sum(line.seconds for line in lines) / 3600
    assert sum(step.hours for step in growth.steps) == pytest.approx(hours)


@pytest.mark.parametrize("on", ["", " on roberta-base"])
def test_runs_that_a_new_seed_needs_are_counted(
    on: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if the hours of a teacher, or its runs, are left out."""
    needed = "simcse[dropout=0.3]"
    table = overlay(DCLR.official, {"*": {"start": f"run:{needed}{on}"}})
    monkeypatch.setattr(DCLR, "official", table)
    config = CONFIG.changed(methods=["dclr"])
    rows = printed().query("source == 'is-cse' and table == 'Table 1' and method == 'DCLR'")
    rows = rows[(rows["backbone"] == BERT) & (rows["variant"] == "")]
    points = dict(zip(rows["task"], rows["value"], strict=True))
    entries = []
    for one in configurations.planned(config):
        above = 0.5 * SPREAD[one.run.seed - 42] - 0.7
        scores = {task: points[task] + above for task in STS_TASKS}
        entries.append(entry_of(one) | {"scores": scores})
    growth = grow(write_suite(tmp_path / "paper", entries), config, 200, "h200")
    runs = {(job.experiment, job.seed) for step in growth.steps for job in step.jobs}
    other = Experiment(f"{needed}@official", "roberta-base" if on else BERT)
    new = {seed for experiment, seed in runs if experiment.method == "dclr@official"}
    assert min(new) == 47
    assert {seed for experiment, seed in runs if experiment == other} == new
    more = (seconds(growth.config) - seconds(config)) / 3600
    assert sum(step.hours for step in growth.steps) == pytest.approx(more)


def test_planned_runs_without_scores_are_told(tmp_path: Path) -> None:
    """One seed of SimCSE is planned and never scored; it does all its tasks. IS-CSE was not run."""
    config = CONFIG.changed(methods=["simcse", {"method": "is-cse", "tasks": ["sts", "transfer"]}])
    suite = suite_of(tmp_path, simcse=-0.7, config=CONFIG.changed(methods=["simcse"]))
    write_json(suite / "plan.json", configurations.plan(config))
    first = next(one for one in configurations.planned(config) if one.run.seed == 46)
    (suite / "scores" / f"{first.run.id}.json").unlink()
    growth = grow(suite, config, 20, "h200")
    runs = {(job.experiment.method, job.seed) for step in growth.steps for job in step.jobs}
    assert ("simcse@official", 46) in runs
    assert {name for name, _ in runs} == {"simcse@official"}
    assert growth.left == 5
    told = "The configuration also has 5 other planned runs without scores"
    assert told in report(growth)


# --- Refusals ---


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--hours", "0"], "--hours is '0'; write a number above 0"),
        (["--hours", "-3"], "--hours is '-3'; write a number above 0"),
        (["--hours", "many"], "--hours is 'many'; write a number above 0"),
        (["--hours", "inf"], "--hours is 'inf'; write a number above 0"),
        (["--hours", "1"], "plan.json"),
    ],
)
def test_refused_command_lines(
    words: Sequence[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["next", "--suite", str(tmp_path / "none"), *words]) == 2
    assert message in capsys.readouterr().err


def test_refused_suites(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, simcse=-0.7)
    with pytest.raises(UserError, match=r"can be decided in 0.01 hours; the cheapest takes 0\.\d"):
        growth_of(suite, hours=0.01)
    with pytest.raises(UserError, match="has runs that its configuration lacks"):
        grow(suite, CONFIG.changed(methods=["simcse"]), 20, "h200")
    only = CONFIG.changed(methods=["simcse"], seeds=[42])
    entry = entry_of(configurations.planned(only)[0]) | {"status": "diverged", "reason": "nan"}
    none_open = write_suite(tmp_path / "diverged", [entry])
    with pytest.raises(UserError, match="no verdict of suite 'paper' is open"):
        grow(none_open, only, 20, "h200")


def test_a_suite_of_which_nothing_is_comparable_says_so(tmp_path: Path) -> None:
    config = CONFIG.changed(corpus="wiki1m_fallback", methods=["simcse"])
    suite = suite_of(tmp_path, simcse=-0.7, config=config)
    message = r"none of the 8 numbers .* is comparable with print \(trained on wiki1m_fallback\)"
    with pytest.raises(UserError, match=message):
        grow(suite, config, 20, "h200")
