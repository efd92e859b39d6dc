"""Reading the results of a suite: damaged files, and those of another run, are reported."""

from dataclasses import replace

import pytest

from bench.datasets.metrics import REST, UNSEEN, Cell
from bench.datasets.tasks import LEADERBOARDS, STS_TASKS
from bench.results.suite_results import SuiteResults, read_results
from bench.runs.plan import Plan
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from tests.support.compared_runs import scored, suite
from tests.support.refusals import refused
from tests.support.rows import systems_of
from tests.support.synthetic_suite import write_suite

ROWS = dict.fromkeys(STS_TASKS, 70.0)
CURVE = [{"step": 125, "loss": 0.5, "dev": 70.0, "alignment": None, "uniformity": -2.0}]
ALIGNMENT = {"STS-B": {"all": {"alignment": 0.2, "uniformity": -2.5}}}


def finished(folder, **more):
    entry = {
        "method": "simcse", "seed": 1, "scores": ROWS, "identity": {"recipe": {"epochs": 1}},
        "outcome": {"curve": CURVE, "best_step": 125}, "analyses": {"alignment": ALIGNMENT},
    }  # fmt: skip
    return write_suite(folder, [entry | more])


def test_valid_results_are_read(tmp_path):
    (run,) = read_results(finished(tmp_path)).runs
    assert (run.status, run.analyses["alignment"]) == ("finished", ALIGNMENT)
    assert [point.as_written() for point in run.provenance.outcome.curve] == CURVE
    assert run.scores[Cell("STS12", "test", "spearman")] == 70.0
    assert run.scores[Cell("STS-B", "dev", "best_step")] == 125
    assert run.scores[Cell("uniformity", "", "uniformity")] == -2.5


def test_means_over_subsets_stand_beside_the_scores_over_all_pairs(tmp_path):
    """STS-B and SICK-R have no subsets, so they enter these averages with their only score."""
    common = {"split": "test", "metric": "spearman", "aggregation": "wmean"}
    weighted = [common | {"task": task, "value": 77.0} for task in STS_TASKS[:5]]
    (run,) = read_results(finished(tmp_path, records=weighted)).runs
    for name, values in {"all": (70, 70), "wmean": (77, 75)}.items():
        cells = [Cell(task, "test", "spearman", name) for task in ("STS12", "Avg")]
        assert tuple(run.scores[cell] for cell in cells) == values
    (run,) = read_results(finished(tmp_path, scores={"STS-B": 70.0})).runs
    assert Cell("Avg", "test", "spearman", "wmean") not in run.scores


def on_part(aggregation, task, value):
    of_task = {"task": task, "split": "test", "metric": "spearman", "value": value}
    return of_task | {"aggregation": aggregation}


def test_scores_on_items_that_were_not_read_before(tmp_path):
    """Half of the items of STS12 are seen, two of the more numerous ones of STS13, and none of the
    others; 30 of STS13 and 40 of STS15 stand in the dev set. A share is one of items, and no mean
    over tasks."""
    counts = {task: {"items": 200, "seen": 0, "in_dev": 0} for task in STS_TASKS}
    counts["STS12"] |= {"seen": 100}
    counts["STS13"] = {"items": 600, "seen": 2, "in_dev": 30}
    counts["STS15"] |= {"in_dev": 40}
    records = [on_part("unseen", "STS12", 63.0), on_part("unseen", "STS13", 70.7)]
    records += [on_part("rest", *x) for x in (("STS12", 63.0), ("STS13", 64.0), ("STS15", 61.0))]
    suite = read_results(finished(tmp_path, contamination=counts, records=records))
    (run,) = suite.runs
    tasks = ("STS12", "STS13", "STS14", "STS15", "Avg")
    result = {
        x: [run.points(LEADERBOARDS["sts"], task, x) for task in tasks] for x in (UNSEEN, REST)
    }
    assert result[UNSEEN] == pytest.approx([63, 70.7, 70, 70, (63 + 70.7 + 5 * 70) / 7])
    assert result[REST] == pytest.approx([63, 64, 70, 61, (63 + 64 + 61 + 4 * 70) / 7])
    assert run.contaminated(STS_TASKS) == ["STS12"]
    (row,) = systems_of(suite)
    assert row.name == "simcse, official (has seen test sentences)"
    assert row.remark == "test items in its corpus: STS12 50% (63.00 on the other items)"
    assert (row.seen, row.on_unseen) == pytest.approx((100 * 102 / 1800, 69.1))
    assert (row.in_dev, row.on_rest) == pytest.approx((100 * 70 / 1800, 468 / 7))


def test_no_score_is_left_where_all_items_are_seen(tmp_path):
    counts = {task: {"items": 200, "seen": 200, "in_dev": 0} for task in STS_TASKS}
    suite = read_results(finished(tmp_path, contamination=counts))
    assert suite.runs[0].points(LEADERBOARDS["sts"], "Avg", UNSEEN) is None
    (row,) = systems_of(suite)
    assert row.remark.startswith("test items in its corpus: STS12 100%, STS13 100%, STS14")


def test_what_was_not_counted_is_unknown(tmp_path):
    suite = read_results(finished(tmp_path))
    assert suite.runs[0].points(LEADERBOARDS["sts"], "STS12", UNSEEN) is None
    (row,) = systems_of(suite)
    assert (row.remark, row.seen, row.in_dev, row.on_rest) == ("", None, None, None)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("scores", lambda c: c["provenance"]["outcome"].update(status="done"), "not 'done'"),
        ("scores", lambda c: c["records"][0].update(value=101), "'records.0.value' should be less"),
        ("scores", lambda c: c["provenance"].pop("run"), "the scores of a model outside the suite"),
        ("scores", lambda c: c["provenance"]["run"].update(id="run001"), "the scores of run001"),
        ("scores", lambda c: c["provenance"]["run"].update(method="sscl"), "the method of its run"),
        ("scores", lambda c: c["provenance"]["run"]["identity"]["recipe"].update(epochs=9),
         "the identity of its run is another; move it away and run"),
        ("analyses", lambda c: c.update(alignment=c.pop("analyses")), "move it away and run"),
    ],
)  # fmt: skip
def test_results_that_do_not_fit_are_reported(tmp_path, file, change, message):
    path = finished(tmp_path) / file / "run000.json"
    content = read_json(path)
    change(content)
    write_json(path, content)
    with pytest.raises(UserError, match=rf"^{path} .*{message}"):
        read_results(tmp_path)


def test_classifiers_of_another_mode_are_reported(tmp_path):
    """STS scores do not depend on the mode."""
    path = finished(tmp_path) / "scores" / "run000.json"
    plan, content = read_json(tmp_path / "plan.json"), read_json(path)
    write_json(tmp_path / "plan.json", plan | {"mode": "dev"})
    content["provenance"]["mode"] = "test"
    write_json(path, content)
    assert read_results(tmp_path).runs[0].status == "finished"
    content["records"].append(content["records"][0] | {"task": "MRPC", "metric": "accuracy"})
    write_json(path, content)
    refused(lambda: read_results(tmp_path), "have mode 'test', which is 'dev' in the plan")


def test_a_seed_counts_once(tmp_path):
    run = {"method": "simcse", "seed": 1, "scores": ROWS}
    changes = [{"corpus": "nli"}, {"recipe_changes": {"epochs": 2}}, {"seed": 2}]
    runs = [run, *(run | change for change in changes)]
    assert len(read_results(write_suite(tmp_path, runs)).runs) == 4
    told = "'run000' and 'run001' are one experiment with one seed, 1"
    refused(lambda: read_results(write_suite(tmp_path, [run, run])), told)


def test_nan_is_rejected(tmp_path):
    """Python's own reader takes it."""
    path = finished(tmp_path) / "scores" / "run000.json"
    path.write_text(path.read_text().replace("70.0", "NaN", 1))
    refused(lambda: read_results(tmp_path), "not nan")


def test_a_plan_that_does_not_fit_is_reported(tmp_path):
    path = finished(tmp_path) / "plan.json"
    plan = read_json(path)
    plan["runs"][0]["id"] = "../../x"
    write_json(path, plan)
    told = rf"is not a plan \('runs.0.id' should match .* plan FILE.yaml --out {path} --lost$"
    with pytest.raises(UserError, match=told):
        read_results(tmp_path)


# By draw

OF_MR = {Cell("MR", "test", "accuracy"): 70.0, Cell("CR", "test", "accuracy"): 80.0}
FIFTH = {Cell("MR", "test", "accuracy", "probe seed 1115"): 71.0}


def drawn(draw, scores, cells):
    """The points by draw of a run with a seed, a template or neither."""
    is_seed = isinstance(draw, int)
    run = scored("simcse", draw if is_seed else None, 0, template="" if is_seed else draw or "")
    return replace(run, scores=scores).draws([*cells])


@pytest.mark.parametrize("draw", [0, "in a word"])
def test_what_is_drawn_elsewhere_keeps_the_first_seed_of_classifiers(draw):
    assert drawn(draw, OF_MR | FIFTH, OF_MR) == {draw: 75.0}


def test_without_another_draw_the_seeds_of_classifiers_are_the_draws():
    further = FIFTH | {Cell("CR", "test", "accuracy", "probe seed 1115"): 77.0}
    other = {Cell("MR", "test", "accuracy", "probe seed 1"): 1.0}  # of `--probe-seeds`
    assert drawn(None, OF_MR | further | other, OF_MR) == {1111: 75.0, 1115: 74.0}
    assert drawn(None, OF_MR | FIFTH, OF_MR) == {1111: 75.0}  # CR has one seed


@pytest.mark.parametrize("metric", ["spearman", "best_step"])
def test_nothing_is_drawn_without_classifiers(metric):
    cell = Cell("STS12", "test", metric)
    assert drawn(None, {cell: 70.0}, [cell]) == {None: 70.0}


# Systems


@pytest.mark.parametrize(
    ("name", "baseline"),
    [("", ""), ("simcse", "simcse@official"), ("simcse@paper", "simcse@paper"),
     ("dclr", "dclr@paper")],
)  # fmt: skip
def test_the_baseline_of_earlier_plans_has_no_setting(name, baseline):
    runs = [scored("simcse", 1, 70.0), scored("simcse", 1, 70.0, setting="paper")]
    runs.append(scored("dclr", 1, 70.0, setting="paper"))
    assert suite(*runs, baseline=name).baseline == baseline


def test_a_baseline_that_is_no_run_says_how_to_write_the_plan_again():
    told = "the baseline 'sscl' of suite paper is no run of its plan; write it again with: "
    refused(lambda: suite(scored("simcse", 1, 70.0), baseline="sscl").baseline, told)


def test_runs_that_differ_in_their_seeds_alone_are_a_system():
    """In a row, whatever stands between them; dropped runs keep counting as planned."""
    runs = [
        scored("simcse", 1, 70.0), scored("sscl", 1, 70.0), scored("simcse", 2, 71.0),
        scored("simcse", 3, 72.0, corpus="other"), scored("simcse", 4, 72.0, label="Renamed"),
    ]  # fmt: skip
    plan = Plan(suite="s", data="senteval", runs=[], dropped=[scored("simcse", 9, 70.0).run])
    systems = SuiteResults(plan, runs).systems
    assert [[run.run.seed for run in system.runs] for system in systems] == [[1, 2, 4], [1], [3]]
    scores = systems[0].scores(LEADERBOARDS["sts"].cells("Avg"))
    assert scores.values == {1: 70.0, 2: 71.0, 4: 72.0}
    assert scores.additions == dict.fromkeys((1, 2, 4, 9), 0)
