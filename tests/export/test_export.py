"""Scores read by mteb, and the folder that an export replaces."""

import pytest

from bench.__main__ import main
from bench.export.runs import read_runs
from bench.export.suite import export
from bench.results.records import read_scores, write_scores
from bench.runs import paths
from bench.utils.errors import UserError
from bench.utils.files import read_json
from tests.export.conftest import exported


@pytest.fixture(scope="module")
def scores(trained):
    """The values of the trained run, in shares of 1."""
    records = read_scores(paths.result_file(*trained, "score")).records
    return {(r.task, r.split, r.aggregation): r.value / 100 for r in records}


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


# The folder


def test_an_export_replaces_itself_and_nothing_else(suite, tmp_path):
    out = tmp_path / "out"

    def files():
        return {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    export(suite, "mteb", out)
    before = files()
    export(suite, "mteb", out)
    assert files() == before
    with pytest.raises(UserError, match="would be deleted"):
        export(suite, "sentence-transformers", out)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"notes\.txt was not written by this command and would be"):
        export(suite, "mteb", out)
    assert files() == before | {out / "notes.txt": b"mine"}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_folders_that_cannot_be_read_or_written(suite, trained, tmp_path, capsys):
    scores = paths.result_file(suite, trained[1], "score")
    words = ["export", "--suite", str(suite), "--what", "mteb", "--out", str(scores)]
    assert main(words) == 2
    assert "is a file" in capsys.readouterr().err
    with pytest.raises(UserError, match="has no runs; pass the folder of a suite"):
        export(tmp_path / "nothing", "mteb", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    scores.unlink()
    assert read_runs(suite)[0].status == "finished"  # from its training
    scores.write_text("{")
    assert [len(run.records) for run in read_runs(suite)] == [0]
    assert f"note: {scores} is not a readable JSON file" in capsys.readouterr().err
