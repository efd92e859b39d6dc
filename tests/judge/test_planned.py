"""Every printed number has a recipe or a reason, every recipe is planned, every kind of recipe has
a small run."""

from functools import cache, partial

import numpy as np
import pytest

from bench.datasets.metrics import PRINTED, Cell
from bench.evaluation import protocols
from bench.evaluation.scoring import Classifiers, read_tasks, score_encoder
from bench.judge.numbers import select
from bench.judge.stage import judge_plans as planned_rows
from bench.judged.verdicts import FEWEST_SEEDS
from bench.report.coverage import without_recipe
from bench.reported.address import address
from bench.reported.figures import load_figures
from bench.reported.number import numbers
from bench.results.suite_results import SuiteResults, read_results
from bench.results.system import RunResults, planned_scores
from bench.runs import config
from bench.runs.plan import Plan, PlannedRun
from bench.runs.text import parse
from tests.support.printed_numbers import mapped
from tests.support.synthetic_suite import write_suite
from tests.support.tiny_tasks import Words


@pytest.fixture(scope="module")
def plans():
    return [config.plan(config.load(path)) for path in config.PAPERS]


@pytest.fixture(scope="module")
def suite(plans):
    """The suites of the papers, in which nothing has run."""
    runs = [RunResults(run) for plan in plans for run in plan.runs]
    return SuiteResults(Plan(suite="s", data="senteval", runs=[]), runs)


@pytest.fixture(scope="module")
def rows(plans):
    return planned_rows(plans)


@pytest.fixture(scope="module")
def all_methods():
    return config.plan(config.load(config.SUITES / "all-methods.yaml")).runs


def scored_on(suite, number, text):
    """The planned runs of a text that are scored on a number."""
    runs = [result.run for result in select(suite, text, number.our_backbone).runs]
    return [run for run in runs if number.cell in planned_scores(run)]


# The printed numbers that measure something and have no run.
WITHOUT_RUN = {
    f"{table}/skip-thought/skip-thought/{task}/test/accuracy"
    for table in ("is-cse/table-8", "sscl/table-3")
    for task in ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc", "avg")
} | {"simcse-zh-noise/abstract/simcse/bert-base-chinese/sts/spearman"}


def test_all_that_a_recipe_names_is_planned_on_its_number(suite):
    """The run, the run that is subtracted, and the published checkpoint, with enough seeds, of
    which a difference has some in common."""
    without, sides_of = set(), cache(partial(scored_on, suite))
    for number in (number for number in numbers() if number.is_measurement):
        drawn = []
        for text in filter(None, (number.run, number.minus)):
            runs = sides_of(number, text)
            assert {(run.text, run.backbone) for run in runs} == {(text, number.our_backbone)}
            drawn.append({run.seed for run in runs})
            assert drawn[-1] == {None} or len(drawn[-1]) >= FEWEST_SEEDS, (address(number), text)
        if number.checkpoint:
            published = [result.run for result in select(suite, number.checkpoint, "none").runs]
            assert any(number.cell in planned_scores(run) for run in published), address(number)
        if not drawn:
            without.add(address(number))
        assert not drawn or set.intersection(*drawn) or {None} in drawn, address(number)
    assert without == WITHOUT_RUN


def test_every_printed_number_is_shown(rows):
    assert [row.address for row in rows.numbers if row.run and not row.planned] == []
    unmapped = (mapped()["run"] == "").sum()
    assert len(without_recipe(rows)) == unmapped


def test_all_that_a_figure_shows_is_planned(suite):
    """The first run of each point, on the figure's scores or with its analysis."""
    for figure in load_figures():
        for series in figure.series:
            for _, (text, *_) in series.points:
                runs = [run.run for run in select(suite, text, series.backbone).runs]
                assert runs, (figure.id, text)
                for run in runs:
                    if figure.shows == "scores":
                        scores = {Cell(*place, "spearman") for place in figure.panels.values()}
                        assert scores <= planned_scores(run), (figure.id, text)
                    elif figure.shows != "training":
                        assert figure.shows in run.analyses, (figure.id, text)


def test_transfer_and_probing_are_scored_only_where_they_are_printed(suite):
    printed = set()
    for number in numbers():
        if number.metric.startswith("accuracy"):
            for text in filter(None, (number.run, number.minus)):
                printed |= {run.id for run in scored_on(suite, number, text)}
            if number.checkpoint:
                printed |= {run.run.id for run in select(suite, number.checkpoint, "none").runs}
    scored = {
        run.run.id
        for run in suite.runs
        if any(cell.metric == "accuracy" for cell in planned_scores(run.run))
    }
    assert scored == printed


def test_all_methods_have_a_small_run_of_every_kind_of_recipe_and_every_metric(all_methods):
    """With the same parts, each with the same keys changed, whatever their values."""
    scored = {cell.metric for run in all_methods for cell in planned_scores(run)}
    assert scored >= {metric for metric, _ in PRINTED.values()}
    small = [dict(parse(run.method)[0]) for run in all_methods if not run.skip]
    numbers, lost = mapped(), set()
    for recipe in {*numbers["run"], *numbers["minus"]} - {""}:
        wanted = dict(parse(recipe)[0])
        alike = [parts for parts in small if parts.keys() == wanted.keys()]
        if not any(
            all(wanted[part].keys() <= parts[part].keys() for part in parts) for parts in alike
        ):
            lost.add(recipe.partition("=")[0])
    # Published checkpoints are downloaded from the hub, which this suite never uses.
    assert lost == {"published[model"}


def test_what_is_measured_is_what_is_scored(world, tmp_path, monkeypatch):
    """On every task of SentEval, scoring gives exactly the scores that `planned_scores` lists."""

    def result(part):
        return protocols.ProtocolResult(1.0, 2.0, np.zeros(len(part.labels), dtype=np.int64))

    def best_on_dev(tasks, grids, _):
        return [[result(parts["test"])] * len(grids) for parts, _ in tasks]

    monkeypatch.setattr(protocols, "nested", lambda data, *_: result(data))
    monkeypatch.setattr(protocols, "kfold", lambda train, test, *_: result(test))
    monkeypatch.setattr(protocols, "best_on_dev", best_on_dev)
    records, _ = score_encoder(
        Words(), read_tasks(["all"], world), Classifiers("dev"), tmp_path / "work"
    )
    entry = {"method": "simcse", "seed": 1, "scores": {}, "records": records}
    entry["outcome"] = {"best_step": 3, "curve": [{"step": 3, "dev": 70.0}]}
    suite = read_results(write_suite(tmp_path / "suite", [entry]))
    assert planned_scores(planned_run(1, "all")) == set(suite.runs[0].scores)
    assert planned_scores(planned_run(1, "all", skip="no such layer")) == set()


def planned_run(seed, *tasks, **more):
    names = dict.fromkeys(("id", "method", "setting", "label", "backbone"), "x")
    return PlannedRun(**names, seed=seed, tasks=tasks, **more)


def test_what_is_measured_in_part():
    accuracy = {Cell("MR", "test", "accuracy"), Cell("MR", "dev", "accuracy")}
    analysed = planned_scores(planned_run(None, "MR", analyses=("alignment",)))
    assert analysed == accuracy | {Cell(name, "", name) for name in ("alignment", "uniformity")}
    dev_sets = planned_scores(planned_run(None, "STS-B", "SICK-R"))
    assert [cell for cell in dev_sets if cell.task == "Avg"] == [Cell("Avg", "dev", "spearman")]
    trained = planned_scores(planned_run(1, "CNSD-STS-B"))
    assert Cell("STS-B", "dev", "best_step") in trained
