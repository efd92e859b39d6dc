"""Scores of every kind of task from one set of vectors, and interrupted evaluations."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.__main__ import main
from bench.cli.evaluate import score_tables
from bench.datasets.labelled import LabelledTask, Samples
from bench.datasets.tasks import PROBING_TASKS, STS_TASKS, TRANSFER_TASKS
from bench.evaluation import protocols, scoring
from bench.evaluation.classifier import MODES
from bench.evaluation.scoring import read_tasks, score, score_encoder
from bench.models.encoder import TransformerEncoder
from bench.results.records import Record, read_scores
from bench.utils.progress import Progress
from tests.support.tiny_tasks import Words, look_up, write_tasks


@pytest.fixture(scope="module")
def data(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with all tasks."""
    return write_tasks(tiny_data, tmp_path_factory.mktemp("all") / "data")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classifiers that train for a few passes."""
    for mode, settings in list(MODES.items()):
        changes = {"folds": 2 if mode == "dev" else 3, "batch_size": 8, "max_epoch": 8}
        monkeypatch.setitem(MODES, mode, replace(settings, **changes))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[Progress]:
    """The progress of each scoring."""
    made: list[Progress] = []

    class Watched(Progress):
        def __init__(self, *words: Any, **named: Any) -> None:
            super().__init__(*words, **named)
            made.append(self)

    monkeypatch.setattr(scoring, "Progress", Watched)
    return made


Cells = dict[tuple[str, str, str, str], float]


def cells(records: Sequence[Record]) -> Cells:
    found = {(r["task"], r["split"], r["metric"], r["aggregation"]): r["value"] for r in records}
    assert len(found) == len(records)
    return found


# --- names


def test_tasks_are_read_in_order_and_sts_b_and_sick_with_dev(data: Path) -> None:
    tasks = read_tasks(["TREC", "SICK-R", "STS13", "STS-B"], data)
    found = [f"{task.name} {getattr(task, 'split', '')}" for task in tasks]
    sts = ["SICK-R test", "SICK-R dev", "STS13 test", "STS-B test", "STS-B dev"]
    assert found == ["TREC ", *sts]


# --- scores


@pytest.mark.slow
def test_every_kind_of_task(data: Path, tmp_path: Path, quick: None) -> None:
    encoder = Words()
    tasks = read_tasks(["all"], data)
    found = cells(score_encoder(encoder, tasks, "test", "cpu", tmp_path))
    assert sorted(encoder.encoded) == sorted({text for task in tasks for text in task.sentences()})
    assert {task for task, *_ in found} == {*STS_TASKS, *TRANSFER_TASKS, *PROBING_TASKS, "Avg"}
    assert {cell[1:] for cell in found if cell[0] == "STS-B"} == {
        ("test", "spearman", "all"), ("dev", "spearman", "all"),
    }  # fmt: skip
    assert {cell[3] for cell in found if cell[0] == "STS12"} == {"all", "mean", "wmean"}
    assert {cell[1:3] for cell in found if cell[0] == "MRPC"} == {
        ("test", "accuracy"), ("dev", "accuracy"), ("test", "f1"),
    }  # fmt: skip
    both = ("accuracy", "accuracy_mlp")
    assert {cell[1:3] for cell in found if cell[0] == "Tense"} == {*product(("test", "dev"), both)}
    assert all(-100 <= value <= 100 for value in found.values())
    for group, metric in ((STS_TASKS, "spearman"), (TRANSFER_TASKS, "accuracy")):
        printed = [round(found[task, "test", metric, "all"], 2) for task in group]
        assert found["Avg", "test", metric, "all"] == pytest.approx(sum(printed) / 7, abs=1e-12)
    few = ["TREC", "MRPC", "Tense"]
    one = cells(score(read_tasks(few, data), look_up))
    assert one == {cell: value for cell, value in found.items() if cell[0] in few}


def test_sentences_and_labels_stay_together(data: Path) -> None:
    """Most sentences name their label; were the two out of step, accuracy would be chance."""
    found = cells(score(read_tasks(["TREC", "SST2", "Depth", "MR"], data), look_up, mode="dev"))
    # Of chances 17, 50, 33 and 50.
    for task, least in {"TREC": 40, "SST2": 65, "Depth": 50, "MR": 60}.items():
        assert found[task, "test", "accuracy", "all"] > least


def test_an_average_needs_its_whole_group(data: Path) -> None:
    found = cells(score(read_tasks(["sts"], data), look_up))
    # Of the cells as printed: neither of subsets' means nor of dev sets.
    printed = [round(found[task, "test", "spearman", "all"], 2) for task in STS_TASKS]
    average = found["Avg", "test", "spearman", "all"]
    assert average == pytest.approx(sum(printed) / 7, abs=1e-12)
    fewer = cells(score(read_tasks(list(STS_TASKS[:-1]), data), look_up))
    assert "Avg" not in {task for task, *_ in fewer}


@pytest.mark.parametrize(
    ("labels", "predicted", "f1"),
    [
        ([1, 1, 1, 0, 0, 1], [1, 0, 1, 1, 0, 1], 75.0),  # 3 right of 4 found, 3 of 4 to find
        ([0, 0, 1], [1, 1, 0], 0.0),
    ],
)
def test_f1_of_mrpc_is_that_of_paraphrases(
    labels: list[int], predicted: list[int], f1: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = tuple(map(str, range(len(labels))))
    samples = Samples((texts, texts), np.array(labels, dtype=np.int64))
    task = LabelledTask("MRPC", "kfold", 2, {"train": samples, "test": samples})
    result = protocols.Result(50.0, 60.0, np.array(predicted))
    monkeypatch.setattr(protocols, "kfold", lambda *words: result)
    assert cells(score([task], look_up)) == {
        ("MRPC", "test", "f1", "all"): f1,
        ("MRPC", "test", "accuracy", "all"): 60.0,
        ("MRPC", "dev", "accuracy", "all"): 50.0,
    }


@pytest.mark.parametrize(
    ("mode", "folds", "heads"), [("test", 10, 410 + 41 + 4), ("dev", 5, 105 + 21 + 4)]
)
def test_modes_differ(
    mode: str, folds: int, heads: int, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Guess:
        accuracy = 0.5

        def predict(self, features: Any) -> np.ndarray:
            return np.zeros(len(features), dtype=np.int64)

    def fake_fit(features: Any, labels: Any, folds: Any, settings: Any) -> list[list[Any]]:
        assert settings == MODES[mode]
        asked.append(sum(not head.hidden for fold in folds for head in fold.heads))
        return [[Guess() for _ in fold.heads] for fold in folds]

    monkeypatch.setattr(protocols, "fit", fake_fit)
    found = cells(score(read_tasks(["MR", "TREC", "Tense"], data), look_up, mode=mode))
    assert sum(asked) == heads
    assert MODES[mode].folds == folds
    assert found["MR", "test", "accuracy", "all"] == 50.0  # label 0 for everybody
    assert found["TREC", "test", "accuracy", "all"] == 16.67


def test_a_gpu_trains_all_probing_tasks_of_one_size_together(data: Path) -> None:
    tasks = read_tasks(["Length", "MR", "Depth", "SST2", "Tense"], data)
    length, mr, depth, sst2, tense = tasks
    samples = {name: part for name, part in depth.splits.items() if name != "train"}
    shorter = Samples((depth.splits["train"].columns[0][1:],), depth.splits["train"].labels[1:])
    other = replace(depth, name="BigramShift", splits={"train": shorter, **samples})
    together = scoring._trained_together
    assert together(length, [*tasks, other], "cuda:0") == [length, depth, tense]
    assert together(tense, [tense, sst2], "cuda:0") == [tense]
    for alone in (mr, sst2):
        assert together(alone, tasks, "cuda:0") == [alone]
    assert together(length, tasks, "cpu") == [length]


def test_tasks_that_train_together_are_scored_as_if_alone(
    data: Path,
    tmp_path: Path,
    quick: None,
    monkeypatch: pytest.MonkeyPatch,
    classified: list[str],
    watched: list[Progress],
) -> None:
    """Records, their order, and the files of finished tasks; the second call finds one missing."""
    tasks = read_tasks(["Length", "STS-B", "Depth", "Tense"], data)
    expected = score(tasks, look_up)
    plain = scoring._trained_together
    monkeypatch.setattr(scoring, "_trained_together", lambda *words: plain(*words[:2], "cuda"))
    classified.clear()
    assert score(tasks, look_up, finished=tmp_path) == expected
    assert classified == ["Length", "Depth", "Tense"]
    next(tmp_path.glob("Depth-*")).unlink()
    classified.clear()
    assert score(tasks, look_up, finished=tmp_path) == expected
    assert classified == ["Depth"]
    assert all(progress.done == progress.total for progress in watched)


# --- interruptions


@pytest.fixture
def classified(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the tasks that a classifier was trained for, in order."""
    names: list[str] = []
    original = scoring._score_labelled

    def listed(tasks: Sequence[LabelledTask], *words: Any) -> list[list[Record]]:
        names.extend(task.name for task in tasks)
        return original(tasks, *words)

    monkeypatch.setattr(scoring, "_score_labelled", listed)
    return names


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str, int], None]:
    """Have one call of a function, counted from 1, end as if Ctrl-C was pressed."""

    def arrange(owner: Any, name: str, call: int) -> None:
        calls, original = count(1), getattr(owner, name)

        def interrupted(*words: Any, **named: Any) -> Any:
            if next(calls) == call:
                raise KeyboardInterrupt
            return original(*words, **named)

        monkeypatch.setattr(owner, name, interrupted)

    return arrange


NAMES = ["MR", "Tense", "STS-B", "CR", "TREC"]


def test_finished_tasks_are_not_computed_again(
    data: Path,
    tmp_path: Path,
    quick: None,
    classified: list[str],
    watched: list[Progress],
    interrupt: Callable[[Any, str, int], None],
) -> None:
    tasks = read_tasks(NAMES, data)
    expected = score(tasks, look_up)
    classified.clear()
    interrupt(protocols, "nested", 2)
    with pytest.raises(KeyboardInterrupt):
        score(tasks, look_up, finished=tmp_path)
    assert classified == ["MR", "Tense", "CR"]
    assert len(list(tmp_path.iterdir())) == 2
    classified.clear()
    assert score(tasks, look_up, finished=tmp_path) == expected
    assert classified == ["CR", "TREC"]
    classified.clear()
    assert score(tasks, look_up, finished=tmp_path) == expected
    assert classified == []
    assert [progress.done == progress.total for progress in watched] == [True, False, True, True]


def test_finished_tasks_depend_on_mode_and_sentences(
    data: Path, tmp_path: Path, quick: None, classified: list[str]
) -> None:
    tasks = read_tasks(["MR", "TREC"], data)
    test = score(tasks, look_up, finished=tmp_path)
    dev = score(tasks, look_up, mode="dev", finished=tmp_path)
    assert classified == ["MR", "TREC"] * 2
    assert score(tasks, look_up, mode="dev") == dev != test
    classified.clear()
    samples = tasks[0].splits["all"]
    other = replace(samples, columns=((*samples.columns[0][:-1], "another sentence"),))
    flipped = replace(samples, labels=1 - samples.labels)
    for changed in (other, flipped):
        score([replace(tasks[0], splits={"all": changed})], look_up, finished=tmp_path)
    assert classified == ["MR", "MR"]


def same_scores(out: Path, other: Path) -> None:
    (provenance, records), (others, expected) = read_scores(out), read_scores(other)
    assert records == expected
    assert len(records) > 2
    assert provenance["encoder"] == others["encoder"]


def run(model: Path, data: Path, out: Path, *names: str, pooler: str = "avg") -> int:
    options = ["--pooler", pooler, "--data", str(data), "--out", str(out)]
    return main(["evaluate", str(model), *options, "--tasks", *names])


@pytest.mark.parametrize("call", [1, 3])
def test_an_evaluation_interrupted_between_tasks_is_resumed(
    call: int,
    data: Path,
    tiny_bert: Path,
    tmp_path: Path,
    quick: None,
    classified: list[str],
    interrupt: Callable[[Any, str, int], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ["MR", "CR,MPQA", "STS-B"]
    whole, out = tmp_path / "whole" / "scores.json", tmp_path / "cut" / "scores.json"
    assert run(tiny_bert, data, whole, *names) == 0
    printed = capsys.readouterr().out
    interrupt(protocols, "nested", call)
    assert run(tiny_bert, data, out, *names) == 130
    said = "interrupted; run the same command again to continue from what is finished"
    assert capsys.readouterr().err.splitlines()[-1] == said
    assert [path.name for path in out.parent.iterdir()] == ["scores.json.part"]
    classified.clear()
    interrupt(TransformerEncoder, "encode", 1)  # nothing is left to encode
    assert run(tiny_bert, data, out, *names) == 0
    assert classified == ["MR", "CR", "MPQA"][call - 1 :]
    assert capsys.readouterr().out == printed
    same_scores(out, whole)
    assert list(out.parent.iterdir()) == [out]


def test_finished_tasks_of_another_encoder_are_not_used(
    data: Path,
    tiny_bert: Path,
    tmp_path: Path,
    quick: None,
    interrupt: Callable[[Any, str, int], None],
) -> None:
    out, whole = tmp_path / "x.json", tmp_path / "whole.json"
    interrupt(protocols, "kfold", 1)
    assert run(tiny_bert, data, out, "MR", "TREC") == 130
    for file in (out, whole):
        assert run(tiny_bert, data, file, "MR", "TREC", pooler="avg_first_last") == 0
    same_scores(out, whole)
    assert not out.with_name("x.json.part").exists()


def test_scores_record_the_checksums_of_their_data(
    data: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    """Data without a manifest of its own is held to SentEval's counts, not to its bytes: the sum
    tells them apart."""
    sums = []
    for round in range(2):
        out = tmp_path / f"{round}.json"
        assert run(tiny_bert, data, out, "STS-B") == 0
        sums.append(json.loads(out.read_text())["provenance"]["data"])
        path = tmp_path / "data" / "downstream" / "STS" / "STSBenchmark" / "sts-test.csv"
        if round == 0:
            shutil.copytree(data, tmp_path / "data")
            path.write_text(path.read_text().replace("a", "b", 1))
            data = tmp_path / "data"
    assert sums[0]["files"] == sums[1]["files"] > 0
    assert sums[0]["sha256"] != sums[1]["sha256"]


# --- tables for the terminal


SPLITS = ("test", "dev")
TABLES = """\
                 STS-B
spearman test    70.00

                    MR    MRPC
accuracy test    80.13   71.00
accuracy dev     80.13   71.00
f1 test                  81.00

                     Tense
accuracy test        60.00
accuracy dev         60.00
accuracy_mlp test    61.00

                sts:mine
spearman test      12.50
"""


def test_a_table_of_each_group_by_metric_and_split() -> None:
    def cell(task: str, metric: str, split: str, value: float) -> dict[str, Any]:
        common = {"aggregation": "all", "task": task, "metric": metric}
        return common | {"split": split, "value": value}

    accuracies = (("MRPC", 71.0), ("MR", 80.126), ("Tense", 60.0))
    records = [
        cell("STS-B", "spearman", "test", 70.0),
        cell("sts:mine", "spearman", "test", 12.5),
        *(cell(task, "accuracy", split, value) for task, value in accuracies for split in SPLITS),
        cell("MRPC", "f1", "test", 81.0),
        cell("Tense", "accuracy_mlp", "test", 61.0),
    ]
    shown = score_tables({"a": records})  # type: ignore[dict-item]
    assert "".join(f"{line.rstrip()}\n" for line in shown.splitlines()) == TABLES
    both = score_tables({"a": records, "b": records})  # type: ignore[dict-item]
    assert next(block.split()[-2:] for block in both.split("\n\n")) == ["b", "70.00"]
