"""Commands end to end: files are written completely or not, and what the machine cannot do is one
sentence."""

import errno
import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cli import main
from bench.datasets.tasks import STS_TASKS, average
from bench.results.records import read_scores
from bench.utils.interrupts import Stopped
from methods.simcse import SimCSE
from tests.support.tiny_suite import job_words


@pytest.fixture
def job(tiny_bert, tiny_data, tiny_corpus, tmp_path) -> Callable[..., int]:
    """Train and score a method on the tiny backbone, in two jobs; the suite is tmp_path/suite."""

    def run(method: str) -> int:
        words = job_words(method, tiny_bert, tiny_data, tiny_corpus)
        words += ["--suite", str(tmp_path / "suite"), "--stages"]
        return main([*words, "train"]) or main([*words, "score"])

    return run


@pytest.fixture
def evaluate(tiny_bert, tiny_data) -> Callable[..., int]:
    """Evaluate the tiny backbone."""

    def run(out: Path, *words: str) -> int:
        common = ["--pooler", "avg", "--data", str(tiny_data), "--out", str(out)]
        return main(["evaluate", str(tiny_bert), *common, *words])

    return run


def test_evaluate_prints_a_table_and_writes_records(evaluate, tmp_path, capsys):
    out = tmp_path / "scores.json"
    assert evaluate(out) == 0
    provenance, records = read_scores(out)
    by_cell = {(r["task"], r["split"], r["aggregation"]): r["value"] for r in records}
    assert {task for task, split, _ in by_cell if split == "test"} == {*STS_TASKS, "Avg"}
    assert {task for task, split, _ in by_cell if split == "dev"} == {"STS-B", "SICK-R"}
    assert {a for task, _, a in by_cell if task == "STS12"} == {"all", "mean", "wmean"}
    assert by_cell["Avg", "test", "all"] == average(
        [by_cell[task, "test", "all"] for task in STS_TASKS]
    )
    assert provenance["data"]["name"] == "tiny"
    assert provenance["encoder"].startswith("transformer-")
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == [*STS_TASKS, "Avg"]
    assert printed[1].split()[:2] == ["spearman", "test"]
    values = [f"{by_cell[task, 'test', 'all']:.2f}" for task in (*STS_TASKS, "Avg")]
    assert printed[1].split()[2:] == values


def test_train_then_score_leaves_whole_files(job, tmp_path):
    suite = tmp_path / "suite"
    assert job("gs-infonce+is-cse") == 0
    (trained,), (scores,) = (suite / "trained").iterdir(), (suite / "scores").iterdir()
    assert trained.name == scores.name
    provenance, records = read_scores(scores)
    assert provenance["outcome"]["status"] == "finished"
    assert {record["method"] for record in records} == {"gs-infonce+is-cse"}
    assert {record["seed"] for record in records} == {1}
    assert not list(suite.rglob("*.part"))
    lines = (suite / "runs" / scores.stem / "log.jsonl").read_text().splitlines()
    log = [json.loads(line) for line in lines]
    assert [row["step"] for row in log] == [1, 2, 3, 4, 5, 6]
    assert [bool(row.get("dev")) for row in log] == [False, True] * 3


def test_a_diverged_run_is_recorded_and_scored_as_such(job, tmp_path, monkeypatch):
    def loss(self, views, step):
        return views.vectors[0].sum() * math.nan

    monkeypatch.setattr(SimCSE, "loss", loss)
    assert job("simcse") == 0
    provenance, records = read_scores(next((tmp_path / "suite" / "scores").iterdir()))
    assert records == []
    assert provenance["outcome"]["status"] == "diverged"
    assert provenance["outcome"]["step"] == 1
    assert "nan" in provenance["outcome"]["reason"]
    assert len(provenance["outcome"]["sentences"]) == 8


def test_full_memory_in_a_scoring_is_a_sentence(job, monkeypatch, capsys):
    def full(*_: object) -> None:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has")

    monkeypatch.setattr("bench.stages.jobs.score_encoder", full)
    assert job("word-overlap") == 2
    said = "memory is full (CUDA out of memory); free some or use a larger device, then run"
    assert f"error: {said} the same command again to continue" in capsys.readouterr().err


def test_a_skipped_run_says_why(job, tmp_path):
    assert job("sscl[layer=11]") == 0
    provenance, records = read_scores(next((tmp_path / "suite" / "scores").iterdir()))
    reason = "layer 11 is not an intermediate layer of a backbone with 4 layers"
    assert (records, provenance["outcome"]) == ([], {"status": "skipped", "reason": reason})


def test_the_bare_command_prints_the_help(capsys):
    assert main([]) == 2
    bare = capsys.readouterr()
    assert bare.out == ""
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == bare.err
    assert "COMMAND --help shows the arguments of a command" in bare.err


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_no_permission_is_one_sentence(evaluate, tmp_path, capsys):
    (tmp_path / "locked").mkdir(mode=0o555)
    out = tmp_path / "locked" / "x.json"
    assert evaluate(out) == 2
    assert "ermission denied" in capsys.readouterr().err


def test_a_full_disk_is_one_sentence(evaluate, tmp_path, capsys, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bench.evaluation.scoring.VectorStore._append", full)
    assert evaluate(tmp_path / "scores.json", "--tasks", "STS-B") == 2
    assert capsys.readouterr().err.endswith(
        "No space left on device; free some space and "
        "run the same command again to continue from what is finished\n"
    )


def test_a_model_is_looked_for_before_data_are_fetched(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("SENTBENCH_CACHE", str(tmp_path / "cache"))
    for words, told in (
        (["/nope"], "/nope does not exist"),
        (["x/y", "--pooler", "foo"], "unknown pooler 'foo'"),
    ):
        assert main(["evaluate", *words, "--out", str(tmp_path / "o.json")]) == 2
        assert told in capsys.readouterr().err


@pytest.mark.parametrize(("command", "resumes"), [("job", True), ("render", False)])
def test_an_interrupt_says_whether_work_is_kept(command, resumes, monkeypatch, capsys):
    def stop(words: list[str]) -> None:
        raise Stopped("SIGTERM")

    monkeypatch.setattr("bench.cli.program.run", stop)
    assert main([command]) == 75
    error = capsys.readouterr().err
    assert error.startswith("stopped by SIGTERM; run the same command again")
    assert ("continue from what is finished" in error) == resumes
