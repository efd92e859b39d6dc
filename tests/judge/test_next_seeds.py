"""The seeds to add next: a case by hand, invariants, and the whole path from scores to a
configuration and its tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.__main__ import main
from bench.judge import stage as rows
from bench.judge.heading import heading
from bench.judge.next_seeds import greedy, grow, open_questions, runs_to_decide
from bench.judge.numbers import judge_numbers
from bench.report.tables import write_tables
from bench.results.suite_results import read_results
from bench.runs import config as configurations
from bench.stages.cost import ALL, predict, work_of
from methods.base import overlay
from methods.dclr import DCLR
from tests.support.printed_numbers import printed
from tests.support.synthetic_suite import write_suite

BERT = "bert-base-uncased"
SIMCSE, GS_INFONCE = ("simcse@official", BERT), ("gs-infonce@official", BERT)
A, B = ("a@paper", BERT), ("b@paper", BERT)
HOURS = {A: 1.0, B: 3.0}
A1, A2, B1 = (A, 1), (A, 2), (B, 1)


@pytest.fixture(autouse=True)
def no_local_data(monkeypatch):
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.delenv("BENCH_MODELS", raising=False)


# --- Which runs ---


def test_a_case_by_hand():
    """By verdicts an hour: A1 1/1, A1 and A2 (1+3)/2, B1 5/3, A1 and B1 (1+5+2)/4. Then B1 has the
    2 of A1 and B1 as well."""
    questions = {(A1,): 1, (A1, A2): 3, (B1,): 5, (A1, B1): 2}
    steps = greedy({frozenset(runs): n for runs, n in questions.items()}, HOURS, 5)
    assert [tuple(step) for step in steps] == [({A1, A2}, 4, 2), ({B1}, 7, 3)]


some_runs = st.frozensets(st.tuples(st.sampled_from([A, B]), st.integers(0, 4)), min_size=1)


@given(st.dictionaries(some_runs, st.integers(1, 5), max_size=6), st.floats(0.5, 12))
def test_steps_keep_to_the_budget_and_count_what_they_decide(questions, budget):
    steps = greedy(questions, HOURS, budget)
    runs = {run for step in steps for run in step.runs}
    assert sum(len(step.runs) for step in steps) == len(runs)  # none twice
    assert sum(step.hours for step in steps) == sum(HOURS[run] for run, _ in runs)
    assert sum(HOURS[run] for run, _ in runs) <= budget + 1e-9
    decided = {needed for needed in questions if needed <= runs}
    assert sum(step.verdicts for step in steps) == sum(questions[needed] for needed in decided)
    for needed in questions.keys() - decided:  # nothing that could be added was left out
        missing = sum(HOURS[run] for run, _ in needed - runs)
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
SPREAD = (-0.5, 0.5, -0.5, 0.5, 0.0)  # of the seeds from 42


def row_in_print(source, table, method):
    """The scores of a row on bert-base without a variant."""
    where = "source == @source and table == @table and method == @method and backbone == @BERT"
    rows = printed().query(f"{where} and variant in ('', 'M=3x')")
    return {row.task: row.value for row in rows.itertuples() if row.task != "Avg"}


PRINTED = {
    "simcse": row_in_print("gs-infonce-v2", "Table 2", "SimCSE"),
    "gs-infonce": row_in_print("gs-infonce-v2", "Table 2", "GS-InfoNCE"),
    "dclr": row_in_print("is-cse", "Table 1", "DCLR"),
}


def suite_of(folder, config=CONFIG, same=None):
    """A suite whose scores vary with an sd of 0.5 about print, but of GS-InfoNCE about 0.7 below;
    or are all the same."""
    entries = []
    for run in configurations.planned(config):
        above = SPREAD[(run.seed - 42) % 5]
        above = -above if run.method == "gs-infonce" else above - 0.7
        row = PRINTED.get(run.method, PRINTED["dclr"])  # also of the teachers that it needs
        scores = {task: same or value + above for task, value in row.items()}
        entries.append(run.model_dump(exclude={"analyses"}) | {"scores": scores})
    return write_suite(folder / "paper", entries)


def growth_of(folder, config=CONFIG, hours=20.0):
    """The growth of a suite, and the runs that it adds."""
    growth = grow(folder, config, hours, "h200")
    return growth, {run for step in growth.steps for run in step.runs}


def printed_growth(folder, suite, config, capsys, *words):
    """What `next` prints on a suite."""
    file = folder / "first.yaml"
    file.write_text(configurations.dump(config), encoding="utf-8")
    words = ["--config", str(file), "--hours", "20", *words]
    assert main(["next", "--suite", str(suite), *words]) == 0
    return capsys.readouterr().out


def open_sides(suite, **wanted):
    """The open questions whose numbers have these fields."""
    found = open_questions(read_results(suite))
    return [side for side in found if wanted.items() <= vars(side.number).items()]


def test_the_new_seeds_are_those_that_decide(tmp_path):
    suite = suite_of(tmp_path)
    found = open_sides(suite, run="simcse@official", minus="", task="Avg")
    assert [side.number.value for side in found] == [76.25]  # however often it is printed
    ours = found[0]
    assert len(ours.scores) == 5
    runs = runs_to_decide(found[0])
    assert sorted(runs) == [(SIMCSE, seed) for seed in range(47, 42 + ours.verdict.seeds)]
    growth, added = growth_of(suite)
    assert runs <= added
    before, after = (
        {run.id for run in configurations.planned(config)} for config in (CONFIG, growth.config)
    )
    assert before < after
    assert len(after - before) == len(added)
    run = next(run for run in configurations.planned(CONFIG) if run.seed == 46)
    (suite / "scores" / f"{run.id}.json").unlink()
    assert (SIMCSE, 46) in growth_of(suite)[1]  # planned, and without scores


def test_both_sides_of_a_difference_get_the_same_seeds(tmp_path):
    suite = suite_of(tmp_path)
    found = open_sides(suite, minus="simcse@official")
    side = next(side for side in found if side.verdict.seeds)
    last = 42 + side.verdict.seeds
    assert sorted(runs_to_decide(side)) == [
        *((GS_INFONCE, seed) for seed in range(45, last)),
        *((SIMCSE, seed) for seed in range(47, last)),
    ]


@pytest.mark.parametrize("seeds", [[100, 101, 102], [42]])
def test_a_difference_without_a_spread_gets_its_first_seeds(tmp_path, capsys, seeds):
    config = CONFIG.changed(methods=["simcse", {"method": "gs-infonce", "seeds": seeds}])
    suite = suite_of(tmp_path, config, same=70.0)
    found = open_sides(suite, minus="simcse@official")
    assert found
    assert not any(side.verdict.spread_known for side in found)
    missing = {(GS_INFONCE, seed) for seed in (42, 43, 44) if seed not in seeds}
    assert {runs_to_decide(side) for side in found} == {frozenset(missing)}
    growth = grow(suite, config, 20, "h200")
    assert growth.first >= len(found)
    text = printed_growth(tmp_path, suite, config, capsys)
    assert f"\n{growth.first} without a known spread get their first 3 seeds" in text
    decided = sum(step.verdicts for step in growth.steps) - growth.first
    assert f" decide {decided} of {growth.open} open verdicts" in text


def test_from_a_suite_to_its_grown_tables(tmp_path, capsys):
    suite, out = suite_of(tmp_path), tmp_path / "grown.yaml"
    said = printed_growth(tmp_path, suite, CONFIG, capsys, "--out", str(out))
    growth, added = growth_of(suite)
    assert f"\n\n{len(added)} runs in " in said
    assert " on bert-base-uncased, seed 45, 46" in said
    assert f"python -m bench run {out} --cores N" in said

    config = configurations.load(out)
    assert config == growth.config
    configurations.plan(config).write(suite / "plan.json")
    write_tables(rows.read_suite(suite), tmp_path)
    text = (tmp_path / "gs-infonce-v2_table-2.md").read_text(encoding="utf-8")
    assert "Seeds were added or left out after a look at the scores" in text


def test_added_seeds_come_after_the_first_look(tmp_path):
    growth, _ = growth_of(suite_of(tmp_path))
    assert not heading(read_results(tmp_path / "paper")).growth
    suite = suite_of(tmp_path / "grown", growth.config)
    sides = [compared["ours"] for compared in judge_numbers(read_results(suite))]
    sides = [side for side in sides if len(side.scores) > 5]
    found = {(side.number.run, side.number.minus): side.verdict_input().first for side in sides}
    assert found[SIMCSE[0], ""] == 5
    assert found[GS_INFONCE[0], ""] == 3
    assert found[GS_INFONCE[0], SIMCSE[0]] == 3  # of the seeds that both had


@pytest.mark.parametrize("on", ["", " on roberta-base"])
def test_runs_that_a_new_seed_needs_are_counted(on, tmp_path, monkeypatch):
    """Fails if the hours of a teacher, or its runs, are left out."""
    needed = "simcse[dropout=0.3]"
    table = overlay(DCLR.official, {"*": {"start": f"run:{needed}{on}"}})
    monkeypatch.setattr(DCLR, "official", table)
    config = CONFIG.changed(methods=["dclr"])
    growth, added = growth_of(suite_of(tmp_path, config), config, 200)
    teacher = f"{needed}@official", "roberta-base" if on else BERT
    new = {seed for (method, _), seed in added if method == "dclr@official"}
    assert min(new) == 47
    assert {seed for experiment, seed in added if experiment == teacher} == new
    before, after = (
        predict(work_of(configurations.planned(own)), "test", "h200")[ALL][-1]
        for own in (config, growth.config)
    )
    assert sum(step.hours for step in growth.steps) == pytest.approx(after - before)
