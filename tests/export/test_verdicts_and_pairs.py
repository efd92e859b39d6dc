"""Verdicts as JSON, predictions of pairs, evaluation results of the hub."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import yaml
from huggingface_hub import parse_eval_result_entries
from scipy.stats import spearmanr

from bench.comparison.reproduction import cells
from bench.datasets.tasks import STS_TASKS
from bench.export import export
from bench.reported.address import address
from bench.results.records import read_scores, write_scores
from bench.results.suite_results import read_suite
from bench.runs import paths
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from tests.support.synthetic_suite import seeds, write_suite


def test_verdicts_have_the_addresses_of_the_page(tmp_path: Path) -> None:
    rows = [dict.fromkeys(STS_TASKS, value) for value in (76.1, 76.2, 76.3)]
    missing = {"method": "sscl", "seed": 0, "trained": True}
    suite = write_suite(tmp_path / "s", [*seeds("simcse", rows, trained=True), missing])
    export(suite, "verdicts", tmp_path / "out")
    content = read_json(tmp_path / "out" / "verdicts.json")
    assert content["remarks"] == ["Partial: 3 of 4 runs have been made."]
    found = {number["address"]: number for number in content["numbers"]}
    frame = cells(read_suite(suite))
    assert list(found) == [address(cell) for cell in frame.itertuples()]
    assert [one["verdict"] for one in found.values()] == frame["verdict"].tolist()
    place = "gs-infonce-v2/table-2/simcse/bert-base-uncased/avg/test/spearman"
    one = found[place]
    assert (one["paper"], one["table"], one["row"]) == ("gs-infonce-v2", "Table 2", "SimCSE")
    assert (one["printed"], one["n"]) == (76.25, 3)
    assert one["ours"] == pytest.approx([76.1, 76.2, 76.3])
    assert one["mean"] == pytest.approx(76.2)
    assert one["command"].endswith("--row SimCSE --backbone bert-base-uncased")
    unmeasured = found[place.replace("simcse", "gs-infonce/m-3x")]
    assert (unmeasured["mean"], unmeasured["verdict"]) == (None, "not run")
    with pytest.raises(UserError, match="leave --run out"):
        export(suite, "verdicts", tmp_path / "one", ["run000"])


def test_predictions_of_pairs_give_the_scores(trained: tuple[Path, str], tmp_path: Path) -> None:
    """The rank correlation of the written cosines is the stored score, for each split."""
    suite, name = trained
    export(suite, "predictions", tmp_path / "out", [name])
    _, records = read_scores(paths.scores_file(suite, name))
    stored = {
        (record["task"], record["split"]): record["value"]
        for record in records
        if record["aggregation"] == "all"
    }
    names = {("STS12", "test"): "STS12", ("STS-B", "test"): "STS-B", ("STS-B", "dev"): "STS-B-dev"}
    assert {path.stem for path in (tmp_path / "out" / name).iterdir()} == {*names.values()}
    for place, stem in names.items():
        with open(tmp_path / "out" / name / f"{stem}.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == ["subset", "pair", "gold", "cosine"]
        gold, cosine = (np.array([float(row[key]) for row in rows]) for key in ("gold", "cosine"))
        assert 100 * spearmanr(gold, cosine).statistic == pytest.approx(stored[place], abs=1e-9)
        subsets = [row["subset"] for row in rows]
        first = subsets.count(subsets[0])
        assert [int(row["pair"]) for row in rows[:first]] == list(range(first))


def test_predictions_of_another_encoder_or_other_data_are_refused(
    suite: Path, trained: tuple[Path, str], tmp_path: Path
) -> None:
    file = paths.scores_file(suite, trained[1])
    provenance, records = read_scores(file)
    sums = provenance["tasks"] | {"STS12": {"test": "other"}}
    write_scores(file, provenance | {"tasks": sums}, records)
    with pytest.raises(UserError, match="was scored on another STS12"):
        export(suite, "predictions", tmp_path / "out", [trained[1]])
    write_scores(file, provenance | {"encoder": "transformer-other"}, records)
    with pytest.raises(UserError, match="is not the one that was scored"):
        export(suite, "predictions", tmp_path / "out", [trained[1]])
    assert not (tmp_path / "out").exists()


def test_results_for_the_hub_are_what_it_parses(trained: tuple[Path, str], tmp_path: Path) -> None:
    suite, name = trained
    with pytest.raises(UserError, match="name it with --benchmark OWNER/NAME"):
        export(suite, "eval-results", tmp_path / "out")
    with pytest.raises(UserError, match="--benchmark is for eval-results, and --what is table"):
        export(suite, "table", tmp_path / "out", benchmark="me/sts")
    export(suite, "eval-results", tmp_path / "out", benchmark="me/sts")
    provenance, records = read_scores(paths.scores_file(suite, name))
    stored = {
        record["task"].lower(): record["value"]
        for record in records
        if (record["split"], record["aggregation"]) == ("test", "all")
    }
    text = (tmp_path / "out" / name / ".eval_results" / "sentbench.yaml").read_text()
    entries = parse_eval_result_entries(yaml.safe_load(text))
    assert {entry.task_id: entry.value for entry in entries} == stored
    assert {entry.dataset_id for entry in entries} == {"me/sts"}
    assert {entry.date for entry in entries} == {provenance["date"]}
    assert all(str(entry.notes).endswith("not comparable with any paper") for entry in entries)
    tasks = yaml.safe_load((tmp_path / "out" / "eval.yaml").read_text())["tasks"]
    assert {task["id"] for task in tasks} == stored.keys()


def test_a_whole_group_has_its_average(
    suite: Path, trained: tuple[Path, str], tmp_path: Path
) -> None:
    file = paths.scores_file(suite, trained[1])
    content = read_json(file)
    line = content["records"][0] | {"split": "test", "aggregation": "all", "task": "MR"}
    for metric, task, value in (("accuracy", "Avg", 80.5), ("f1", "MRPC", 70.25)):
        content["records"].append(line | {"metric": metric, "task": task, "value": value})
    write_json(file, content)
    export(suite, "eval-results", tmp_path / "out", benchmark="me/sts")
    text = (tmp_path / "out" / trained[1] / ".eval_results" / "sentbench.yaml").read_text()
    values = {entry["dataset"]["task_id"]: entry["value"] for entry in yaml.safe_load(text)}
    assert values["avg-accuracy"] == 80.5
    assert "mrpc" not in values  # a task has one value, and F1 is not its main one
