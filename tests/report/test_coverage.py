"""Every printed number has a recipe or a reason, every recipe is planned, every kind of recipe has
a small run."""

from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from bench.datasets.metrics import PRINTED
from bench.datasets.tasks import STS_TASKS
from bench.evaluation import protocols
from bench.evaluation.scoring import read_tasks, score_encoder
from bench.judge.reproduction import judge, select
from bench.judge.statistics import FEWEST_SEEDS
from bench.judge.verdict import VERDICT_SYMBOLS
from bench.report.coverage import (
    coverage,
    coverage_of_numbers,
    planned_scores,
    planned_suite,
    render_coverage,
    report,
    without_recipe,
)
from bench.report.figures.measured import load_figures
from bench.reported import LABEL
from bench.reported.address import address
from bench.reported.number import numbers
from bench.results.suite_results import read_suite
from bench.runs import config
from bench.runs.resolve import parse
from bench.runs.run import PlannedRun
from tests.support.cells import cells
from tests.support.printed_numbers import mapped
from tests.support.synthetic_suite import seeds, write_suite
from tests.support.tiny_tasks import Words, write_tasks

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def planned():
    return planned_suite([config.plan(config.load(path)) for path in config.PAPERS])


@pytest.fixture(scope="module")
def all_methods():
    return planned_suite([config.plan(config.load(ROOT / "config" / "all-methods.yaml"))])


def test_every_printed_number_with_a_recipe_has_runs_in_the_plan(planned):
    found = coverage_of_numbers(planned, judge(planned))
    counts = coverage(found)
    assert counts["run"].sum() == 0
    assert counts["not run"].sum() == counts["recipe"].sum()
    assert len(found) == 981
    lost = found[(found["run"] != "") & ~found["planned"]]
    assert lost.empty, lost[[*LABEL, "task", "run", "minus"]].to_string()
    known = {run.plan.id: run.plan for run in planned.runs}
    for row in found[found["run"] != ""].itertuples():
        drawn = {}
        for plan in (known[name] for name in row.targets):
            assert plan.backbone == row.our_backbone
            drawn.setdefault(plan.text, set()).add(plan.seed)
        assert set(drawn) == {row.run, row.minus} - {""}
        # Two sides have seeds in common, or one of them has none.
        assert set.intersection(*drawn.values()) or {None} in drawn.values()


# The printed numbers that measure something and have no run.
WITHOUT_RUN = {
    f"{table}/skip-thought/skip-thought/{task}/test/accuracy"
    for table in ("is-cse/table-8", "sscl/table-3")
    for task in ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc", "avg")
} | {"simcse-zh-noise/abstract/simcse/bert-base-chinese/sts/spearman"}


def test_all_that_a_recipe_names_is_planned_on_its_number(planned):
    """The run, the run that is subtracted, and the published checkpoint, with enough seeds."""
    without, runs_of = set(), cache(partial(select, planned))
    for number in (number for number in numbers() if number.is_measurement):
        named = [(text, number.our_backbone) for text in (number.run, number.minus) if text]
        named += [(number.checkpoint, "none")] if number.checkpoint else []
        for text, backbone in named:
            runs = [run.plan for run in runs_of(text, backbone)]
            seeds = {run.seed for run in runs if number.key in planned_scores(run)}
            assert seeds == {None} or len(seeds) >= FEWEST_SEEDS, (address(number), text)
        without |= set() if named else {address(number)}
    assert without == WITHOUT_RUN


SHOWN = {
    "alignment": "alignment", "densities": "cosines", "setsim": "layers", "toksim": "layers",
    "tokens": "tokens", "in-batch": "in-batch",
}  # fmt: skip


def test_all_that_a_figure_shows_is_planned(planned):
    """The first run of each point, on the figure's scores or with its analysis."""
    for figure in load_figures():
        for series in figure.series:
            for _, (text, *_) in series.points:
                runs = [run.plan for run in select(planned, text, series.backbone)]
                assert runs, (figure.id, text)
                scores = {(*place, "spearman") for place in figure.scores}
                for run in runs[:1]:  # a few figures show one seed
                    assert scores <= planned_scores(run), (figure.id, text)
                    assert {SHOWN.get(figure.kind)} - {None} <= {*run.analyses}, (figure.id, text)


def test_transfer_and_probing_are_scored_only_where_they_are_printed(planned):
    found = coverage_of_numbers(planned, judge(planned))
    found = found[found["metric"].str.startswith("accuracy")]
    printed = {name for targets in found["targets"] for name in targets}
    for text in {*found["checkpoint"]} - {""}:
        printed |= {run.plan.id for run in select(planned, text, "none")}
    scored = {
        run.plan.id
        for run in planned.runs
        if any(metric == "accuracy" for _, _, metric in planned_scores(run.plan))
    }
    assert scored == printed


def test_few_numbers_that_measure_something_have_no_recipe():
    numbers = mapped()
    measuring = numbers[numbers["metric"].isin(PRINTED)]
    left_out = without_recipe()
    assert len(measuring) == 929
    assert left_out["numbers"].sum() == (numbers["run"] == "").sum()
    assert (measuring["run"] == "").mean() <= 0.05
    assert set(left_out.loc[~left_out["measures"], "reason"]) == {"hyper-parameter, not a score"}


def test_all_methods_have_a_small_run_of_every_kind_of_recipe_and_every_metric(all_methods):
    """With the same parts, each with the same keys changed, whatever their values."""
    scored = {metric for run in all_methods.runs for _, _, metric in planned_scores(run.plan)}
    assert scored >= {metric for metric, _ in PRINTED.values()}
    small = [parse(run.plan.method)[0] for run in all_methods.runs if not run.plan.skip]
    numbers, lost = mapped(), set()
    for recipe in {*numbers["run"], *numbers["minus"]} - {""}:
        wanted = parse(recipe)[0]
        alike = (parts for parts in small if [p for p, _ in parts] == [p for p, _ in wanted])
        if not any(
            all({*keys} <= {*own} for (_, own), (_, keys) in zip(parts, wanted, strict=True))
            for parts in alike
        ):
            lost.add(recipe.partition("=")[0])
    # Published checkpoints are downloaded from the hub, which this suite never uses.
    assert lost == {"published[model"}


def test_what_is_measured_is_what_is_scored(tiny_data, tmp_path, monkeypatch):
    """On every task of SentEval, scoring gives exactly the scores that `planned_scores` lists."""

    def result(part):
        return protocols.Result(1.0, 2.0, np.zeros(len(part.labels), dtype=np.int64))

    def best_on_dev(tasks, grids, _):
        return [[result(parts["test"])] * len(grids) for parts, _ in tasks]

    monkeypatch.setattr(protocols, "nested", lambda data, *_: result(data))
    monkeypatch.setattr(protocols, "kfold", lambda train, test, *_: result(test))
    monkeypatch.setattr(protocols, "best_on_dev", best_on_dev)
    data = write_tasks(tiny_data, tmp_path / "data")
    records, _ = score_encoder(Words(), read_tasks(["all"], data), "dev", "cpu", tmp_path / "work")
    entry = {"method": "simcse", "seed": 1, "scores": {}, "records": records}
    entry["outcome"] = {"best_step": 3, "curve": [{"step": 3, "dev": 70.0}]}
    suite = read_suite(write_suite(tmp_path / "suite", [entry]))
    assert planned_scores(planned_run(1, "all")) == set(suite.runs[0].scores)
    assert planned_scores(planned_run(1, "all", skip="no such layer")) == set()


def planned_run(seed, *tasks, **more):
    names = dict.fromkeys(("id", "method", "setting", "label", "backbone"), "x")
    return PlannedRun(**names, seed=seed, tasks=tasks, **more)


def test_what_is_measured_in_part():
    accuracy = {("MR", "test", "accuracy"), ("MR", "dev", "accuracy")}
    analysed = planned_scores(planned_run(None, "MR", analyses=("alignment",)))
    assert analysed == accuracy | {(name, "", name) for name in ("alignment", "uniformity")}
    both = planned_scores(planned_run(None, "STS-B", "SICK-R"))
    assert [key for key in both if key[0] == "Avg"] == [("Avg", "dev", "spearman")]
    trained = planned_scores(planned_run(1, "CNSD-STS-B"))
    assert ("STS-B", "dev", "best_step") in trained


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    entries = [*seeds("simcse", [76.1, 76.2, 76.3]), *seeds("sscl", [76.1])]
    entries.insert(3, {"method": "is-cse", "seed": 0})
    return write_suite(tmp_path_factory.mktemp("suite"), entries)


def test_stages_and_verdicts_in_text_and_markdown(finished, tmp_path):
    suite = read_suite(finished)
    assert render_coverage(finished, out=tmp_path / "out.md") == report(suite, judge(suite))
    written = (tmp_path / "out.md").read_text()
    for row in (
        "| gs-infonce-v2 | Table 2 | 64 | 64 | 64 | 8 | 8 |",
        "| is-cse | Table 1 | 200 | 200 | 200 | 16 | 8 |",  # is-cse has not run
        "| is-cse | Table 8 | 88 | 88 | 80 | 0 | 0 |",
        # For a difference, both sides must be planned.
        "| gs-infonce-v2 | Main results | 5 | 5 | 5 | 0 | 0 |",
        "| sscl | Introduction | 4 | 4 | 4 | 1 | 1 |",
        "\n  * is-cse, Table 8: 8 (Skip-thought)\n",
        f"roberta-large, {', '.join(STS_TASKS)}, Avg: dclr+is-cse@official",
    ):
        assert row in written
    rows = coverage_of_numbers(suite, judge(suite))
    assert len(rows) == 981
    row = rows.query("method == 'SimCSE' and table == 'Table 2' and task == 'Avg'").iloc[0]
    assert row[["targets", "n", "value"]].tolist() == [("run000", "run001", "run002"), 3, 76.25]
    verdicts = coverage(rows)[list(VERDICT_SYMBOLS)].sum()
    counts = cells(suite)["verdict"][lambda kind: kind != "not run"].value_counts()
    assert verdicts[counts.index].to_dict() == counts.to_dict()
