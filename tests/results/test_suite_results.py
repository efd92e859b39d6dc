"""Reading the results of a suite: damaged files are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.datasets.tasks import STS_TASKS
from bench.results.readers import DAMAGE, describe_damage
from bench.results.suite_results import read_suite
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from tests.support.synthetic_suite import write_suite

ROWS = dict.fromkeys(STS_TASKS, 70.0)
CURVE = [{"step": 125, "loss": 0.5, "dev": 70.0, "alignment": None, "uniformity": -2.0}]
ALIGNMENT = {"STS-B": {"all": {"alignment": 0.2, "uniformity": -2.5}}}


def finished(folder: Path, **more: Any) -> Path:
    entry = {"method": "simcse", "seed": 1, "scores": ROWS}
    entry |= {"outcome": {"curve": CURVE, "best_step": 125}, "analyses": {"alignment": ALIGNMENT}}
    return write_suite(folder, [entry | more])


def test_valid_results_are_read(tmp_path):
    (run,) = read_suite(finished(tmp_path)).runs
    assert (run.status, run.analyses["alignment"]) == ("finished", ALIGNMENT)
    assert run.provenance["outcome"]["curve"] == CURVE
    assert run.scores["STS12", "test", "spearman"] == 70.0
    assert run.scores["STS-B", "dev", "best_step"] == 125
    assert run.scores["uniformity", "", "uniformity"] == -2.5


def test_means_over_subsets_stand_beside_the_scores_over_all_pairs(tmp_path):
    """STS-B and SICK-R have no subsets, so they enter these averages with their only score."""
    common = {"split": "test", "metric": "spearman", "aggregation": "wmean"}
    weighted = [common | {"task": task, "value": 77.0} for task in STS_TASKS[:5]]
    (run,) = read_suite(finished(tmp_path, records=weighted)).runs
    for metric, values in {"spearman": (70, 70), "spearman_wmean": (77, 75)}.items():
        assert tuple(run.scores[task, "test", metric] for task in ("STS12", "Avg")) == values
    (run,) = read_suite(finished(tmp_path, scores={"STS-B": 70.0})).runs
    assert ("Avg", "test", "spearman_wmean") not in run.scores


def test_a_failed_analysis_gives_no_score(tmp_path):
    failed = {"alignment": {"reason": "the data has no STS-B"}}
    (run,) = read_suite(finished(tmp_path, analyses=failed)).runs
    assert ("uniformity", "", "uniformity") not in run.scores


DAMAGED = "not a scores file"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p, r: p.update(outcome=None), DAMAGED),
        (lambda p, r: p.update(outcome=[]), DAMAGED),
        (lambda p, r: p["outcome"].update(status="done"), "'status' is 'done'"),
        (lambda p, r: p["outcome"].update(status=["finished"]), DAMAGED),
        (lambda p, r: p["outcome"].update(curve=[1]), DAMAGED),
        (lambda p, r: p["outcome"].update(curve=[{"loss": 1}]), "it lacks 'step'"),
        (
            lambda p, r: p["outcome"].update(curve=[{"step": 1, "dev": {}}]),
            "'dev' has another form",
        ),
        (lambda p, r: p.update(data="world"), DAMAGED),
        (lambda p, r: p["run"].update(id="run001"), "holds those of run001"),
        (lambda p, r: p["run"].update(seed=77), "its seed is 77, which is 1 in the plan"),
        (lambda p, r: p["run"].update(method="sscl"), "it says that its method is 'sscl'"),
        (lambda p, r: p["run"].update(corpus="nli"), "says that its corpus is 'nli'"),
        (lambda p, r: p["run"].update(recipe_changes={"epochs": 9}), "its recipe_changes is"),
        (lambda p, r: r[7].update(value=76.25), r"Avg .* is 76.25, but its tasks average 70.0"),
        (lambda p, r: r.pop(0), "it has Avg test spearman all without its tasks"),
        (lambda p, r: r[7].update(aggregation="mean"), "it has Avg test spearman mean without"),
        (lambda p, r: r.append(r[0]), "STS12 test spearman all is in it twice"),
        (lambda p, r: r[0].update(value=101), "outside -100 to 100"),
        (lambda p, r: r[0].update(value="many"), DAMAGED),
        (lambda p, r: r[0].update(value=None), DAMAGED),
        (lambda p, r: r.append(3), DAMAGED),
    ],
)
def test_damaged_scores_are_reported(tmp_path, change, message):
    path = finished(tmp_path) / "scores" / "run000.json"
    content = read_json(path)
    change(content["provenance"], content["records"])
    write_json(path, content)
    with pytest.raises(UserError, match=message) as caught:
        read_suite(tmp_path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("metric", ["accuracy", "accuracy_mlp", "f1", "spearman"])
def test_classifiers_of_another_mode_are_reported(tmp_path, metric):
    """STS scores do not depend on the mode."""
    path = finished(tmp_path) / "scores" / "run000.json"
    plan, content = read_json(tmp_path / "plan.json"), read_json(path)
    write_json(tmp_path / "plan.json", plan | {"mode": "dev"})
    content["records"].append(content["records"][0] | {"task": "MRPC", "metric": metric})
    for mode in ("dev", "test"):
        content["provenance"]["mode"] = mode
        write_json(path, content)
        if mode == "dev" or metric == "spearman":
            assert read_suite(tmp_path).runs[0].status == "finished"
        else:
            with pytest.raises(UserError, match="have mode 'test', which is 'dev' in the plan"):
                read_suite(tmp_path)


@pytest.mark.parametrize("content", ["{", '{"outcome": {"status": "foo"}}'])
def test_a_damaged_training_is_reported(tmp_path, content):
    path = finished(tmp_path) / "trained" / "run000.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(UserError, match=r"run000.json is not ") as caught:
        read_suite(tmp_path)
    assert str(path) in str(caught.value)


def test_scores_of_another_identity_are_reported(tmp_path):
    """A file without one, of an earlier version, is read."""
    path = finished(tmp_path) / "scores" / "run000.json"
    plan, content = read_json(tmp_path / "plan.json"), read_json(path)
    plan["runs"][0]["identity"] = {"recipe": {"epochs": 1}}
    write_json(tmp_path / "plan.json", plan)
    assert read_suite(tmp_path).runs[0].status == "finished"
    for epochs, told in ((1, None), (9, r"its identity \(method, recipe, corpus, data\) is not")):
        content["provenance"]["run"]["identity"] = {"recipe": {"epochs": epochs}}
        write_json(path, content)
        if told:
            with pytest.raises(UserError, match=told):
                read_suite(tmp_path)
        else:
            assert read_suite(tmp_path).runs[0].status == "finished"


@pytest.mark.parametrize("kind", ["scores", "analyses"])
def test_a_folder_is_not_a_missing_file(tmp_path, kind):
    path = finished(tmp_path) / kind / "run000.json"
    path.unlink()
    assert read_suite(tmp_path).runs[0].plan["id"] == "run000"
    path.mkdir()
    with pytest.raises(UserError, match=r"is not a readable JSON file .Is a directory.") as caught:
        read_suite(tmp_path)
    assert str(path) in str(caught.value)


def test_a_seed_counts_once(tmp_path):
    run = {"method": "simcse", "seed": 1, "scores": ROWS}
    others = [{"corpus": "nli"}, {"recipe_changes": {"epochs": 2}}, {"seed": 2}]
    assert len(read_suite(write_suite(tmp_path, [run, *(run | more for more in others)])).runs) == 4
    with pytest.raises(
        UserError, match="'run000' and 'run001' are one experiment with one seed, 1"
    ):
        read_suite(write_suite(tmp_path, [run, run]))


@pytest.mark.parametrize("part", ["provenance", "records"])
def test_scores_without_a_part_are_reported(tmp_path, part):
    path = finished(tmp_path) / "scores" / "run000.json"
    write_json(path, read_json(path) | {part: None})
    with pytest.raises(UserError, match=DAMAGED):
        read_suite(tmp_path)


def test_nan_is_rejected(tmp_path):
    path = finished(tmp_path) / "scores" / "run000.json"
    path.write_text(path.read_text().replace("70.0", "NaN", 1))
    assert json.loads(path.read_text())  # Python's own reader takes it
    with pytest.raises(UserError, match="NaN is not valid JSON"):
        read_suite(tmp_path)


@pytest.mark.parametrize(
    "content",
    [[], *({"analyses": damaged} for damaged in (None, {"a": None}, {"alignment": {"STS-B": []}}))],
)
def test_damaged_analyses_are_reported_with_their_file(tmp_path, content):
    path = finished(tmp_path) / "analyses" / "run000.json"
    write_json(path, content)
    with pytest.raises(UserError, match="move it away and analyse again") as caught:
        read_suite(tmp_path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan.update(runs=None),
        lambda plan: plan["runs"][0].pop("label"),
        lambda plan: plan["runs"][0].update(id=3),
        lambda plan: plan["runs"][0].update(seed="1"),
        lambda plan: plan["runs"][0].update(tasks=[3]),
        lambda plan: plan["runs"][0].update(recipe_changes=[1]),
        lambda plan: plan["runs"][0].update(seed=True),
        lambda plan: plan["runs"][0].update(id="../../x"),
        lambda plan: plan["runs"].append(plan["runs"][0]),
        lambda plan: plan.update(stand_ins=["toy-bert"]),
        lambda plan: plan.update(stand_ins={"bert-base-uncased": 3}),
    ],
)
def test_damaged_plans_are_reported(tmp_path, change):
    plan = read_json(finished(tmp_path) / "plan.json")
    change(plan)
    write_json(tmp_path / "plan.json", plan)
    with pytest.raises(UserError, match="is not a plan") as caught:
        read_suite(tmp_path)
    path = tmp_path / "plan.json"
    assert f"again with: python -m bench plan --config FILE --out {path}" in str(caught.value)


def test_an_unknown_task_is_reported_with_the_plan(tmp_path):
    plan = read_json(finished(tmp_path) / "plan.json")
    plan["runs"][0]["tasks"] = ["FOO"]
    write_json(tmp_path / "plan.json", plan)
    with pytest.raises(UserError, match="unknown task 'FOO'") as caught:
        read_suite(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'plan.json'}: ")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("label"), "it lacks 'label'"),
        (ValueError("it holds those of run001"), "it holds those of run001"),
        (TypeError("'NoneType' object is not subscriptable"), "a part of it has another form"),
        (AttributeError("'list' object has no attribute 'get'"), "a part of it has another form"),
        (IndexError("list index out of range"), "a part of it has another form"),
    ],
)
def test_damage_is_described(error, words):
    assert isinstance(error, DAMAGE)
    assert describe_damage(error) == words
