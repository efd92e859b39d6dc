"""The seeds to add next: a case by hand, invariants, and the whole path from scores to a
configuration and its tables."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.__main__ import main
from bench.comparison.next_seeds import (
    Growth,
    greedy,
    grow,
    open_questions,
    report,
    runs_to_decide,
)
from bench.comparison.reproduction import Cell, judge
from bench.datasets.tasks import STS_TASKS
from bench.report.tables import render_tables
from bench.results.suite_results import read_suite
from bench.runs import config as configurations
from bench.runs.run import PlannedRun
from bench.stages.cost import Measured, predict
from bench.utils.errors import UserError
from bench.utils.files import read_json
from methods.base import overlay
from methods.dclr import DCLR
from tests.support.page_project import write_page
from tests.support.printed_numbers import printed
from tests.support.synthetic_suite import write_suite

BERT = "bert-base-uncased"
SIMCSE, GS_INFONCE = ("simcse@official", BERT), ("gs-infonce@official", BERT)
A, B = ("a@paper", BERT), ("b@paper", BERT)
HOURS = {(run, seed): hours for run, hours in ((A, 1.0), (B, 3.0)) for seed in range(5)}
A1, A2, B1 = (A, 1), (A, 2), (B, 1)


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
    assert [(set(step.runs), step.verdicts, step.hours) for step in steps] == chosen


some_runs = st.frozensets(st.sampled_from([*HOURS]), min_size=1)


@given(st.dictionaries(some_runs, st.integers(1, 5), max_size=6), st.floats(0.5, 12))
def test_steps_keep_to_the_budget_and_count_what_they_decide(
    questions: dict[Any, int], budget: float
) -> None:
    steps = greedy(questions, HOURS, budget)
    runs = {run for step in steps for run in step.runs}
    assert sum(len(step.runs) for step in steps) == len(runs)  # none twice
    assert sum(step.hours for step in steps) == sum(HOURS[run] for run in runs)
    assert sum(HOURS[run] for run in runs) <= budget + 1e-9
    decided = {needed for needed in questions if needed <= runs}
    assert sum(step.verdicts for step in steps) == sum(questions[needed] for needed in decided)
    for needed in questions.keys() - decided:  # nothing that could be added was left out
        missing = sum(HOURS[run] for run in needed - runs)
        assert missing > budget - sum(step.hours for step in steps) - 1e-9


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


def entry_of(one: PlannedRun) -> dict[str, Any]:
    """A planned run, for `write_suite`."""
    described = one.model_dump()
    return {key: described[key] for key in ENTRY}


def suite_of(
    folder: Path, simcse: float, gs_infonce: float = 0.0, config: configurations.Suite = CONFIG
) -> Path:
    """A suite whose tasks are this many points above print on average, each with an sd of 0.5."""
    above = {"simcse": ("SimCSE", simcse, 0.5), "gs-infonce": ("GS-InfoNCE", gs_infonce, -0.5)}
    entries = []
    for one in configurations.planned(config):
        name, points, sd = above[one.method]
        points += sd * SPREAD[one.seed - 42]
        scores = {task: value + points for task, value in in_print(name).items() if task != "Avg"}
        entries.append(entry_of(one) | {"scores": scores, "identity": one.identity})
    return write_suite(folder / "paper", entries)


def added(growth: Growth) -> set[Any]:
    return {run for step in growth.steps for run in step.runs}


def seeds_of(cell: Cell) -> int:
    assert cell.ours.verdict.seeds
    return cell.ours.verdict.seeds


def growth_of(folder: Path, hours: float = 20.0) -> Growth:
    return grow(folder, CONFIG, hours, "h200")


def of_simcse(cells: list[Cell]) -> list[Cell]:
    """Those of SimCSE's average."""
    place = ("simcse@official", "", "Avg")
    return [c for c in cells if (c.number.run, c.number.minus, c.number.task) == place]


def beside_simcse(suite: Path) -> list[Cell]:
    """The open questions about differences from SimCSE."""
    found = open_questions(read_suite(suite))
    return [cell for cell in found if cell.number.minus == "simcse@official"]


def test_the_new_seeds_are_those_that_decide(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, simcse=-0.7)
    results = read_suite(suite)
    judged = [
        cell for cell in of_simcse(judge(results)) if cell.ours.verdict.kind == "inconclusive"
    ]
    found = of_simcse(open_questions(results))
    values = [cell.number.value for cell in judged]
    assert len(values) > 1
    # What is printed again is one question.
    assert [cell.number.value for cell in found] == list(dict.fromkeys(values))
    cell = found[0]
    assert cell.ours.n == 5
    runs = runs_to_decide(results, cell)
    assert sorted(runs) == [(SIMCSE, seed) for seed in range(47, 42 + seeds_of(cell))]
    growth = growth_of(suite)
    assert runs <= added(growth)
    before, after = (
        {run.id for run in configurations.planned(config)} for config in (CONFIG, growth.config)
    )
    assert before < after
    assert len(after - before) == len(added(growth))
    run = next(run for run in configurations.planned(CONFIG) if run.seed == 46)
    (suite / "scores" / f"{run.id}.json").unlink()
    assert (SIMCSE, 46) in added(growth_of(suite))  # planned, and without scores


def test_both_sides_of_a_difference_get_the_same_seeds(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, simcse=-0.7)
    cell = next(cell for cell in beside_simcse(suite) if cell.ours.verdict.seeds)
    assert sorted(runs_to_decide(read_suite(suite), cell)) == [
        *((GS_INFONCE, seed) for seed in range(45, 42 + seeds_of(cell))),
        *((SIMCSE, seed) for seed in range(47, 42 + seeds_of(cell))),
    ]


@pytest.mark.parametrize("seeds", [[100, 101, 102], [42]])
def test_a_difference_without_a_spread_gets_its_first_seeds(tmp_path: Path, seeds: Any) -> None:
    config = CONFIG.changed(methods=["simcse", {"method": "gs-infonce", "seeds": seeds}])
    scores = dict.fromkeys(STS_TASKS, 70.0)
    plan = configurations.planned(config)
    suite = write_suite(tmp_path / "paper", [entry_of(one) | {"scores": scores} for one in plan])
    found = beside_simcse(suite)
    assert found
    assert not any(cell.ours.verdict.spread_known for cell in found)
    missing = {(GS_INFONCE, seed) for seed in (42, 43, 44) if seed not in seeds}
    assert {runs_to_decide(read_suite(suite), cell) for cell in found} == {frozenset(missing)}
    growth = grow(suite, config, 20, "h200")
    assert growth.first >= len(found)
    text = report(growth)
    assert f"\n{growth.first} without a known spread get their first 3 seeds" in text
    decided = sum(step.verdicts for step in growth.steps) - growth.first
    assert f" decide {decided} of {growth.open} open verdicts" in text


def seconds(config: configurations.Suite) -> float:
    nothing = Measured(Path("nowhere"), "h200")
    return float(predict(configurations.planned(config), "test", "h200", nothing)["seconds"].sum())


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
    configurations.plan(config).write(suite / "plan.json")
    assert read_json(suite / "plan.json")["grown"]
    grown = read_suite(suite)
    render_tables(grown, judge(grown), tmp_path / "tables")
    (tmp_path / "figures").mkdir()
    write_page(suite, tmp_path / "figures", tmp_path / "report")
    for file in ("tables/gs-infonce-v2_table-2.md", "report/index.html"):
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert "Seeds were added after a look at the verdicts" in text


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
        above = 0.5 * SPREAD[one.seed - 42] - 0.7
        scores = {task: points[task] + above for task in STS_TASKS}
        entries.append(entry_of(one) | {"scores": scores})
    growth = grow(write_suite(tmp_path / "paper", entries), config, 200, "h200")
    teacher = f"{needed}@official", "roberta-base" if on else BERT
    new = {seed for (method, _), seed in added(growth) if method == "dclr@official"}
    assert min(new) == 47
    assert {seed for experiment, seed in added(growth) if experiment == teacher} == new
    more = (seconds(growth.config) - seconds(config)) / 3600
    assert sum(step.hours for step in growth.steps) == pytest.approx(more)


# --- Refusals ---


def test_refused_suites(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, simcse=-0.7)
    with pytest.raises(UserError, match=r"can be decided in 0.01 hours; the cheapest takes 0\.\d"):
        growth_of(suite, hours=0.01)
    with pytest.raises(UserError, match="has runs that its configuration lacks"):
        grow(suite, CONFIG.changed(methods=["simcse"]), 20, "h200")
    only = CONFIG.changed(methods=["simcse"], seeds=[42])
    entry = entry_of(configurations.planned(only)[0]) | {"status": "diverged", "reason": "nan"}
    none_open = write_suite(tmp_path / "diverged", [entry])
    with pytest.raises(UserError, match="no seed would decide a verdict of suite 'paper': none"):
        grow(none_open, only, 20, "h200")
    config = CONFIG.changed(corpus="wiki1m_fallback", methods=["simcse"])
    not_comparable = suite_of(tmp_path / "other", simcse=-0.7, config=config)
    with pytest.raises(
        UserError, match=r"none on a printed number is open\. Trained on wiki1m_fallback"
    ):
        grow(not_comparable, config, 20, "h200")
