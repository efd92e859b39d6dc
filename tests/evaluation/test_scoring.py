"""Scores of every kind of task from one set of vectors, and interrupted evaluations."""

from dataclasses import replace
from io import StringIO
from itertools import count

import numpy as np
import pandas as pd
import pytest

from bench.cli.evaluate import score_tables
from bench.datasets.tasks import STS_TASKS
from bench.evaluation import protocols, scoring
from bench.evaluation.scoring import Classifiers, Scorer, read_tasks
from bench.results.records import ScoredEncoder, read_scores
from tests.support.tiny_tasks import look_up


def cells(records):
    result = {(r["task"], r["split"], r["metric"], r["aggregation"]): r["value"] for r in records}
    assert len(result) == len(records)
    return result


# Scores


def test_an_average_needs_its_whole_group(world):
    result = cells(Scorer(read_tasks(["sts"], world), look_up).scores().records)
    # Of the cells as printed: neither of subsets' means nor of dev sets.
    printed = [round(result[task, "test", "spearman", "all"], 2) for task in STS_TASKS]
    average = result["Avg", "test", "spearman", "all"]
    assert average == pytest.approx(sum(printed) / 7, abs=1e-12)
    fewer = cells(Scorer(read_tasks(list(STS_TASKS[:-1]), world), look_up).scores().records)
    assert "Avg" not in {task for task, *_ in fewer}


def test_tasks_that_train_together_are_scored_as_if_alone(
    world, tmp_path, quick, monkeypatch, classified
):
    """As on a GPU. Records, their order, and the files of finished tasks; the second call finds one
    missing."""
    tasks = read_tasks(["Length", "STS-B", "Depth", "Tense", "SST2"], world)
    expected = Scorer(tasks, look_up).scores().records
    plain = scoring._trained_together
    monkeypatch.setattr(scoring, "_trained_together", lambda *words: plain(*words[:2], "cuda"))
    classified.clear()
    assert Scorer(tasks, look_up, folder=tmp_path).scores().records == expected
    assert classified == ["Length", "Depth", "Tense", "SST2"]
    next(tmp_path.glob("Depth-*")).unlink()
    classified.clear()
    assert Scorer(tasks, look_up, folder=tmp_path).scores().records == expected
    assert classified == ["Depth"]


def test_items_say_which_test_samples_are_right(world, tmp_path, quick, classified):
    tasks = read_tasks(["MR", "TREC", "Tense"], world)
    result = Scorer(tasks, look_up, folder=tmp_path).scores()
    by_cell = cells(result.records)
    for task in tasks:
        right = result.items[task.name]["right"]
        assert len(right) == len(task.items())
        # MR's accuracy is the mean over three folds, whose sizes differ by one.
        tolerance = 0.01 if task.name != "MR" else 100 / len(right)
        accuracy = by_cell[task.name, "test", "accuracy", "all"]
        assert 100 * right.mean() == pytest.approx(accuracy, abs=tolerance)
    known = {}
    for task in tasks:
        places = np.arange(len(task.items()))
        known[task.name] = places % 3 == 0, places % 4 == 0  # in a corpus, in the dev set
    by_cell = cells(Scorer(tasks, look_up, folder=tmp_path, contamination=known).scores().records)
    for task in tasks:
        right, (seen, in_dev) = result.items[task.name]["right"], known[task.name]
        for part, others in ("unseen", ~seen), ("rest", ~(seen | in_dev)):
            expected = round(100 * right[others].mean(), 2)
            assert by_cell[task.name, "test", "accuracy", part] == expected


# Interruptions


@pytest.fixture
def interrupt(monkeypatch):
    """Have one call of a function, counted from 1, end as if Ctrl-C was pressed."""

    def arrange(owner, name, call):
        calls, original = count(1), getattr(owner, name)

        def interrupted(*words, **named):
            if next(calls) == call:
                raise KeyboardInterrupt
            return original(*words, **named)

        monkeypatch.setattr(owner, name, interrupted)

    return arrange


def test_finished_tasks_depend_on_mode_and_sentences(world, tmp_path, quick, classified):
    tasks = read_tasks(["MR", "TREC"], world)
    test = Scorer(tasks, look_up, folder=tmp_path).scores().records
    dev = Scorer(tasks, look_up, None, Classifiers("dev"), folder=tmp_path).scores().records
    assert classified == ["MR", "TREC"] * 2
    assert Scorer(tasks, look_up, None, Classifiers("dev")).scores().records == dev != test
    classified.clear()
    samples = tasks[0].splits["all"]
    reworded = replace(samples, columns=((*samples.columns[0][:-1], "another sentence"),))
    flipped = replace(samples, labels=1 - samples.labels)
    for changed in (reworded, flipped):
        Scorer([replace(tasks[0], splits={"all": changed})], look_up, folder=tmp_path).scores()
    assert classified == ["MR", "MR"]


@pytest.fixture
def evaluate(said, world, tiny_bert):
    """The command, on some tasks."""

    def run(out, *names, pooler="avg", status=0):
        options = ["--pooler", pooler, "--data", world, "--out", out]
        return said("evaluate", tiny_bert, *options, "--tasks", *names, status=status)

    return run


def same_scores(out, wanted):
    ours, expected = read_scores(out), read_scores(wanted)
    assert ours.records == expected.records
    assert len(ours.records) > 2
    assert ours.provenance.encoder == expected.provenance.encoder


@pytest.mark.parametrize("call", [1, 3])
def test_an_evaluation_interrupted_between_tasks_is_resumed(
    call, evaluate, tmp_path, quick, classified, interrupt
):
    names = ["MR", "CR,MPQA", "STS-B"]
    whole, out = tmp_path / "whole" / "scores.json", tmp_path / "cut" / "scores.json"
    printed = evaluate(whole, *names).out
    interrupt(protocols, "nested", call)
    message = "interrupted; run the same command again to continue from what is finished"
    assert evaluate(out, *names, status=130).err.splitlines()[-1] == message
    assert [path.name for path in out.parent.iterdir()] == ["scores.json.part"]
    classified.clear()
    interrupt(scoring, "check_vectors", 1)  # nothing is left to encode
    assert evaluate(out, *names).out == printed
    assert classified == ["MR", "CR", "MPQA"][call - 1 :]
    same_scores(out, whole)
    assert list(out.parent.iterdir()) == [out]


def test_finished_tasks_of_another_encoder_are_not_used(evaluate, tmp_path, quick, interrupt):
    out, whole = tmp_path / "x.json", tmp_path / "whole.json"
    interrupt(protocols, "kfold", 1)
    evaluate(out, "MR", "TREC", status=130)
    for file in (out, whole):
        evaluate(file, "MR", "TREC", pooler="avg_first_last")
    same_scores(out, whole)
    assert not out.with_name("x.json.part").exists()


# Tables

CELLS = [
    ("STS-B", "spearman", "test", 70.0),
    ("sts:mine", "spearman", "test", 12.5),
    ("MRPC", "accuracy", "test", 71.0),
    ("MR", "accuracy", "test", 80.126),
    ("Tense", "accuracy", "test", 60.0),
    ("Tense", "accuracy", "dev", 60.0),
    ("MRPC", "f1", "test", 81.0),
    ("Tense", "accuracy_mlp", "test", 61.0),
    ("Avg", "accuracy", "test", 75.5),
]
SCORES = [
    dict(zip(("task", "metric", "split", "value"), cell, strict=True), aggregation="all")
    for cell in CELLS
]


def test_an_evaluation_has_the_leaderboards_of_a_suite():
    """One of each group of tasks with a score; a user's own tasks are the last."""
    shown = score_tables([ScoredEncoder(name, SCORES) for name in ("a_b/c", "d")])
    tables = [[line.split() for line in block.splitlines()] for block in shown.split("\n\n")][1::2]
    assert [(table[0], table[2]) for table in tables] == [
        (["Method", "STS-B"], ["a_b/c", "70.00"]),
        (["Method", "MR", "MRPC"], ["a_b/c", "80.13", "71.00"]),
        (["Method", "Tense"], ["a_b/c", "60.00"]),
        (["Method", "Tense"], ["a_b/c", "61.00"]),
        (["Method", "sts:mine"], ["a_b/c", "12.50"]),
    ]
    assert [len(table) for table in tables] == [4] * 5


def test_every_score_is_a_line_of_csv():
    text = score_tables([ScoredEncoder(name, SCORES) for name in "ab"], "csv")
    table = pd.read_csv(StringIO(text))
    assert list(table["model"]) == ["a"] * len(CELLS) + ["b"] * len(CELLS)
    cells = table[["task", "metric", "split", "value"]].itertuples(index=False, name=None)
    assert list(cells) == CELLS * 2
