"""Scores read by mteb, tables, and the folder that an export replaces."""

import pandas as pd
import pytest

from bench.__main__ import main
from bench.export.runs import export, read_runs
from bench.results.records import COLUMNS, read_scores, write_scores
from bench.runs import paths
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from tests.export.conftest import exported


@pytest.fixture(scope="module")
def scores(trained):
    """The values of the trained run, in shares of 1."""
    records = read_scores(paths.result_file(*trained, "score")).records
    return {(r.task, r.split, r.aggregation): r.value / 100 for r in records}


def table(out, name):
    return pd.read_csv(out / f"{name}.csv", keep_default_na=False, dtype=str)


# mteb


def test_scores_in_mteb_s_shape(trained, scores, tmp_path):
    out = exported(trained[0], tmp_path / "out", "mteb")
    provenance = read_scores(paths.result_file(*trained, "score")).provenance
    (folder,) = (out / "results").glob("*/*")
    assert folder.name == trained[1]
    sets = {"STS-B": ("STS-B", "test"), "STS-B-dev": ("STS-B", "dev"), "STS12": ("STS12", "test")}
    names = {path.stem for path in folder.iterdir()}
    assert names == {"model_meta", *(f"SentBench-{name}" for name in sets)}
    for name, (task, split) in sets.items():
        result = read_json(folder / f"SentBench-{name}.json")
        assert result["task_name"] == f"SentBench-{name}"
        assert result["dataset_revision"] == provenance.tasks[task][split]
        ((found,),) = result["scores"].values()
        assert list(result["scores"]) == [split]
        assert found["main_score"] == found["cosine_spearman"] == scores[task, split, "all"]
        assert found["languages"] == ["eng-Latn"]
        assert "not mteb's task of this name" in found["protocol"]
        assert "not comparable with any paper" in found["protocol"]
    assert found["cosine_spearman_wmean"] == scores["STS12", "test", "wmean"]


@pytest.mark.slow
def test_mteb_reads_them(trained, scores, tmp_path):
    mteb = pytest.importorskip("mteb", reason="mteb is not installed")
    from mteb.cache import ResultCache
    from mteb.results import TaskResult

    out = exported(trained[0], tmp_path / "out", "mteb")
    for path in out.glob("results/*/*/SentBench-*.json"):
        result = TaskResult.from_disk(path)
        task = path.stem.removeprefix("SentBench-").removesuffix("-dev")
        split = "dev" if path.stem.endswith("-dev") else "test"
        assert result.main_score == pytest.approx(scores[task, split, "all"], abs=1e-12)
    (model,) = ResultCache(cache_path=str(out)).load_results().model_results
    assert model.model_revision == trained[1]
    names = {result.task_name for result in model.task_results}
    assert names == {"SentBench-STS12", "SentBench-STS-B", "SentBench-STS-B-dev"}
    assert not names & {task.metadata.name for task in mteb.get_tasks()}


def test_other_tasks_in_mteb_s_shape(suite, trained, tmp_path):
    provenance, records = read_json(paths.result_file(suite, trained[1], "score")).values()
    line = records[0] | {"split": "test", "aggregation": "all"}
    added = [
        line | {"task": "MRPC", "metric": "accuracy", "value": 73.5},
        line | {"task": "MRPC", "metric": "f1", "value": 81.25},
        line | {"task": "CNSD-STS-B", "value": 50.0},
        line | {"task": "sts:mine", "value": 25.0},
        line | {"task": "Avg", "value": 60.0},
    ]
    write_scores(paths.result_file(suite, trained[1], "score"), provenance | {"mode": "dev"}, added)
    (folder,) = (exported(suite, tmp_path / "out", "mteb") / "results").glob("*/*")
    names = ["SentBench-CNSD-STS-B", "SentBench-MRPC", "SentBench-sts-mine"]
    assert sorted(path.stem for path in folder.glob("SentBench*")) == names
    (mrpc,) = read_json(folder / "SentBench-MRPC.json")["scores"]["test"]
    assert (mrpc["main_score"], mrpc["accuracy"], mrpc["f1"]) == (0.735, 0.735, 0.8125)
    assert "classifiers on frozen vectors, trained in mode dev" in mrpc["protocol"]
    results = [read_json(folder / f"{name}.json") for name in names]
    assert results[1]["dataset_revision"] == provenance["data"]["sha256"]
    languages = [result["scores"]["test"][0]["languages"] for result in results]
    assert languages == [["cmn-Hans"], ["eng-Latn"], ["und-Zyyy"]]


def test_a_run_with_a_long_text_has_a_short_name(suite, trained, tmp_path, capsys):
    """And one that fails as nobody foresaw stops no other."""
    path = paths.result_file(suite, trained[1], "score")
    provenance, records = read_json(path).values()
    for name, changes in (
        ("long", {"method": f"cot-bert[template={'said ' * 60}]", "backbone": "b" * 110}),
        ("wrong", {}),
    ):
        run = provenance["run"] | {"id": name} | changes
        metric = "nothing" if name == "wrong" else "spearman"
        of_run = [record | {"metric": metric} for record in records]
        write_scores(path.with_name(f"{name}.json"), provenance | {"run": run}, of_run)
    remarks = export(suite, "mteb", tmp_path / "out")
    assert remarks == ["wrong: KeyError('nothing')"]
    folders = list((tmp_path / "out" / "results").glob("*/*"))
    assert {path.name for path in folders} == {trained[1], "long"}
    assert max(len(path.parent.name) for path in folders) < 140


# Tables


def test_every_record_is_a_row_with_its_provenance(suite, trained, tmp_path):
    analysis = {"STS-B": {"all": {"uniformity": -1.5, "pairs": 12}}, "layers": [0.25, None]}
    content = {"analyses": {"alignment": analysis}, "provenance": {}}
    write_json(paths.result_file(suite, trained[1], "analyse"), content)
    out = exported(suite, tmp_path / "out", "table")
    provenance, records = read_json(paths.result_file(suite, trained[1], "score")).values()
    rows = table(out, "records")
    assert [float(value) for value in rows.pop("value")] == [r["value"] for r in records]
    for column in set(COLUMNS) - {"value"}:
        assert list(rows[column]) == [str(record[column]) for record in records]
    named = {"run": trained[1], "commit": provenance["code"]["commit"]}
    named |= {"torch": provenance["versions"]["torch"], "encoder": provenance["encoder"]}
    named |= {"device_name": provenance["device"]["name"]}
    named |= {"data_sha256": provenance["data"]["sha256"]}
    for column, value in named.items():
        assert set(rows[column]) == {value}, column
    (run,) = table(out, "runs").to_dict("records")
    assert (run["status"], run["seed"]) == ("finished", "1")
    assert run["best_step"] == str(provenance["outcome"]["best_step"])
    assert run["recipe_changes"] == "batch_size=8 select_every=2"
    numbers = table(out, "analyses").set_index("path")["value"].map(float).to_dict()
    stem = "STS-B/all"
    assert numbers == {f"{stem}/uniformity": -1.5, f"{stem}/pairs": 12.0, "layers/0": 0.25}


def test_runs_without_scores_are_rows_too(tmp_path):
    entry = {"id": "x", "method": "m", "setting": "paper", "label": "M", "backbone": "b"}
    entry |= {"seed": 4, "trained": True}
    write_json(tmp_path / "suite" / "plan.json", {"suite": "s", "data": "d", "runs": [entry]})
    export(tmp_path / "suite", "table", tmp_path / "out")
    (run,) = table(tmp_path / "out", "runs").to_dict("records")
    assert (run["run"], run["status"], run["seed"], run["commit"]) == ("x", "missing", "4", "")
    assert list(table(tmp_path / "out", "records"))[: len(COLUMNS)] == list(COLUMNS)


# The folder


def test_an_export_replaces_itself_and_nothing_else(suite, tmp_path):
    out = tmp_path / "out"
    export(suite, "table", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    export(suite, "table", out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    with pytest.raises(UserError, match="would be deleted"):
        export(suite, "mteb", out)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"notes\.txt was not written by this command and would be"):
        export(suite, "table", out)
    assert {path.name for path in out.iterdir()} == {*before, "notes.txt"}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_folders_that_cannot_be_read_or_written(suite, trained, tmp_path, capsys):
    scores = paths.result_file(suite, trained[1], "score")
    words = ["export", "--suite", str(suite), "--what", "table", "--out", str(scores)]
    assert main(words) == 2
    assert "is a file" in capsys.readouterr().err
    with pytest.raises(UserError, match="has no runs; pass the folder of a suite"):
        export(tmp_path / "nothing", "table", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    scores.unlink()
    assert read_runs(suite)[0].status == "finished"  # from its training
    scores.write_text("{")
    assert [len(run.records) for run in read_runs(suite)] == [0]
    assert f"note: {scores} is not a readable JSON file" in capsys.readouterr().err
