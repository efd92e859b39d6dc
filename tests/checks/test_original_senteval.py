"""The original SentEval beside ours. It is no dependency, so a package of its interface stands in
for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from bench.__main__ import main
from bench.checks.original_senteval import NAMES, table
from bench.datasets.tasks import GROUPS

Capsys = pytest.CaptureFixture[str]

# Reads STS files by itself and ranks cosines of what the batcher gives; other results are made up.
ENGINE = """
import inspect
import numpy as np
from scipy.stats import spearmanr

RESULTS, SEEN, PARAMETERS, REGRESSION, FAILURE = {}, [], {}, False, None


def _pairs(path, first, second, gold, header):
    rows = [line.split("\\t") for line in path.read_text().splitlines()[header:]]
    words = [[row[column].split() for row in rows] for column in (first, second)]
    return *words, [float(row[gold]) for row in rows]


class SE:
    def __init__(self, params, batcher, prepare):
        PARAMETERS.update(params)
        self.params, self.batcher, self.prepare = params, batcher, prepare
        assert inspect.getargspec(self.eval)[0] == ["self", "name"]

    def eval(self, name):
        from pathlib import Path

        SEEN.append(name)
        if FAILURE:
            raise FAILURE
        if name in RESULTS:
            return RESULTS[name]
        sts = Path(self.params["task_path"]) / "downstream" / "STS"
        if name == "STSBenchmark":
            if REGRESSION:
                return {"devpearson": 0.5, "pearson": 0.5, "spearman": 0.5, "ndev": 12, "ntest": 12}
            files = {s: sts / name / f"sts-{s}.csv" for s in ("train", "dev", "test")}
            parts = {s: _pairs(file, 5, 6, 4, 0) for s, file in files.items()}
        else:
            parts = {}
            for file in sorted((sts / f"{name}-en-test").glob("STS.input.*.txt")):
                gold = file.with_name(file.name.replace("input", "gs")).read_text().splitlines()
                lines = [line.split("\\t") for line in file.read_text().splitlines()]
                kept = [(a.split(), b.split(), float(g)) for (a, b), g in zip(lines, gold) if g]
                parts[file.name] = tuple(map(list, zip(*kept)))
        texts = [words for first, second, _ in parts.values() for words in first + second]
        self.prepare(self.params, texts)
        found, similar, golds = {}, [], []
        for part, (first, second, gold) in parts.items():
            u, v = self.batcher(self.params, first), self.batcher(self.params, second)
            cosine = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
            found[part] = {"spearman": spearmanr(cosine, gold), "nsamples": len(gold)}
            similar, golds = [*similar, *cosine], [*golds, *gold]
        mean = float(np.mean([result["spearman"][0] for result in found.values()]))
        whole = spearmanr(similar, golds)[0]
        return found | {"all": {"spearman": {"all": whole, "mean": mean, "wmean": mean + 0.01}}}
"""


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The engine's module, and a cache of the test's own."""
    package = tmp_path / "clone" / "senteval"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "engine.py").write_text(ENGINE)
    forget(monkeypatch)
    monkeypatch.syspath_prepend(str(package.parent))
    import senteval.engine

    yield senteval.engine
    for name in ("senteval", "senteval.engine"):
        sys.modules.pop(name, None)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("senteval", "senteval.engine"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SENTBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def check(model: Path, data: Path, *tasks: str) -> int:
    options = ["--pooler", "avg", "--data", str(data), "--tasks", *tasks]
    return main(["crosscheck", str(model), *options])


def cells(printed: str) -> dict[tuple[str, ...], list[float]]:
    """The table: task, split, metric and aggregation to ours, theirs and the difference."""
    rows = [line.split() for line in printed.splitlines()]
    assert rows[0] == ["task", "split", "metric", "aggregation", "ours", "SentEval", "difference"]
    return {
        tuple(row[:4]): [float(word) for word in row[4:]]
        for row in rows[1:]
        if len(row) == 7 and row[0].isupper()
    }


def test_both_rank_the_same_vectors_alike(stub, tiny_bert, tiny_data, cache, capsys):
    assert check(tiny_bert, tiny_data, "STS12", "STS-B") == 0
    printed = capsys.readouterr().out
    found = cells(printed)
    assert [" ".join(cell) for cell in found] == [
        *(f"STS12 test spearman {aggregation}" for aggregation in ("all", "mean", "wmean")),
        *(f"STS-B {split} spearman all" for split in ("test", "dev")),
    ]
    for cell, (ours, theirs, difference) in found.items():
        wrong = 1.0 if cell[3] == "wmean" else 0.0  # as the stand-in gives it
        assert theirs - ours == pytest.approx(wrong, abs=2e-4), cell
        assert difference == pytest.approx(-wrong, abs=2e-4), cell
    assert printed.splitlines()[-1] == "largest difference: 1.0000"
    assert stub.SEEN == ["STS12", "STSBenchmark"]
    classifier = {"nhid": 0, "optim": "adam", "batch_size": 64, "tenacity": 5, "epoch_size": 4}
    expected = {"task_path": str(tiny_data), "usepytorch": True, "kfold": 10}
    expected["classifier"] = classifier
    assert expected == stub.PARAMETERS
    assert not (cache / "crosscheck").exists()


def test_a_regression_is_not_compared(stub, tiny_bert, tiny_data, capsys):
    stub.REGRESSION = True
    assert check(tiny_bert, tiny_data, "STS-B") == 0
    header, note = capsys.readouterr().out.splitlines()
    assert header.split()[0] == "task"
    assert note.startswith("not compared: STS-B; ")


def test_accuracies_and_f1_meet_ours(stub, tiny_bert, tmp_path, capsys):
    folder = tmp_path / "data" / "downstream" / "MRPC"
    folder.mkdir(parents=True)
    for split, count in (("train", 24), ("test", 10)):
        rows = [
            f"{i % 2}\t1\t2\ta dog number {i} runs\t{'a dog' if i % 2 else 'the river'} runs"
            for i in range(count)
        ]
        text = "\n".join(["header\t\t\t\t", *rows, ""])
        (folder / f"msr_paraphrase_{split}.txt").write_text(text)
    sizes = {"name": "few", "transfer": {"MRPC": {"train": 24, "test": 10}}}
    (tmp_path / "data" / "manifest.json").write_text(json.dumps(sizes))
    stub.RESULTS["MRPC"] = {"devacc": 12.5, "acc": 40.0, "f1": 33.25, "ndev": 24, "ntest": 10}
    assert check(tiny_bert, tmp_path / "data", "MRPC") == 0
    found = cells(capsys.readouterr().out)
    assert {cell[1:]: theirs for cell, (_, theirs, _) in found.items()} == {
        ("test", "accuracy", "all"): 40.0,
        ("dev", "accuracy", "all"): 12.5,
        ("test", "f1", "all"): 33.25,
    }
    for ours, theirs, difference in found.values():
        assert 0 <= ours <= 100
        assert difference == pytest.approx(ours - theirs, abs=1e-4)


NO_GPU = "runs STS12 on a GPU only, and none can be used"


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (AssertionError("Torch not compiled with CUDA enabled"), NO_GPU),
        (RuntimeError("Found no NVIDIA driver on your system."), NO_GPU),
        (ValueError("odd shape\nand so on"), "failed on STS12 (ValueError: odd shape); fix"),
        (AssertionError(), "failed on STS12 (AssertionError); fix"),
    ],
)
def test_what_breaks_in_it_is_one_sentence(failure, sentence, stub, tiny_bert, tiny_data, capsys):
    stub.FAILURE = failure
    assert check(tiny_bert, tiny_data, "STS12") == 2
    (last,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert last.startswith(f"error: SentEval {sentence}")
    stub.FAILURE = None
    assert check(tiny_bert, tiny_data, "STS12") == 0


def test_a_task_that_it_does_not_have(stub, tiny_bert, tiny_data, capsys):
    assert check(tiny_bert, tiny_data, "STS12", "xprobe-Depth") == 2
    assert capsys.readouterr().err == "error: SentEval has no task 'xprobe-Depth'; leave it out\n"
    assert not stub.SEEN


def test_without_it(tiny_bert, tiny_data, monkeypatch, capsys):
    forget(monkeypatch)
    assert check(tiny_bert, tiny_data, "STS12") == 2
    assert capsys.readouterr().err == (
        "error: the original SentEval cannot be imported; clone "
        "https://github.com/princeton-nlp/SimCSE and put its folder SentEval on PYTHONPATH\n"
    )


def test_with_half_of_it(stub, tiny_bert, tiny_data, monkeypatch, capsys):
    engine = Path(str(stub.__file__))
    broken = "the copy of SentEval on PYTHONPATH cannot be imported"
    for content, sentence in {
        "import no_such_package\n": "SentEval needs the package no_such_package; install it",
        "from numpy import no_such_thing\n": f"{broken} (cannot import",
        "something = 'else, and of another size'\n": f"{broken} (module",
    }.items():
        engine.write_text(content)
        forget(monkeypatch)
        assert check(tiny_bert, tiny_data, "STS12") == 2
        assert capsys.readouterr().err.startswith(f"error: {sentence}")


def test_all_24_tasks_have_its_names():
    """The names that its engine lists, but for those that no paper here reports."""
    named = {NAMES.get(task, task) for task in GROUPS["all"]}
    listed = (
        "CR MR MPQA SUBJ SST2 TREC MRPC SICKRelatedness STSBenchmark STS12 STS13 STS14 STS15 STS16 "
        "Length WordContent Depth TopConstituents BigramShift Tense SubjNumber ObjNumber "
        "OddManOut CoordinationInversion"
    )
    assert sorted(named) == sorted(listed.split())


def test_the_table_leaves_out_what_one_side_lacks():
    ours = {("MR", "test", "accuracy", "all"): 80.5, ("Depth", "test", "accuracy_mlp", "all"): 1.0}
    ours |= {("Depth", "test", "accuracy", "all"): 30.0, ("Avg", "test", "accuracy", "all"): 1.0}
    theirs = {("MR", "test", "accuracy", "all"): 80.25, ("Depth", "test", "accuracy", "all"): 30.0}
    assert table(ours, theirs).splitlines() == [
        "task   split  metric    aggregation     ours  SentEval  difference",
        "MR     test   accuracy  all          80.5000   80.2500     +0.2500",
        "Depth  test   accuracy  all          30.0000   30.0000     +0.0000",
        "largest difference: 0.2500",
    ]
