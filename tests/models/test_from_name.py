"""Models by name: functions, options, and several models in one table."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bench
from bench.__main__ import main
from bench.models.load import FunctionEncoder, Model, files, load_encoder
from bench.results.records import read_scores
from bench.utils.errors import UserError
from bench.utils.files import slug
from methods.word_overlap import BagOfWords
from tests.models.folders import refused

MODULE = """
import numpy as np
import torch

def letters(texts):
    return np.array([[text.count(letter) for letter in "abcdeilorst"] + [1] for text in texts])

def tensor(texts):
    return torch.from_numpy(letters(texts)).double().requires_grad_()

def few(texts):
    return letters(texts)[1:]

def words(texts):
    return [text.split() for text in texts]

def broken(texts):
    return letters(texts) / {}[0]

class Held:
    def encode(self, texts):
        return letters(texts)

held = Held()
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module of a user's own, in the present folder."""
    (tmp_path / "my_encoders_of_a_test.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "my_encoders_of_a_test"
    sys.modules.pop("my_encoders_of_a_test", None)


def cells(records: list[dict[str, Any]]) -> dict[tuple[str, str, str], float]:
    return {(r["task"], r["split"], r["aggregation"]): r["value"] for r in records}


def evaluated(data: Path, out: Path, *words: str) -> int:
    words += ("--data", str(data), "--out", str(out))
    return main(["evaluate", *words, "--tasks", "STS12", "STS-B"])


# Functions


@pytest.mark.parametrize("name", ["letters", "tensor", "held.encode"])
def test_scores_of_a_function_equal_plain_loops(
    mine: str, name: str, tiny_data: Path, tmp_path: Path
) -> None:
    """Cosines by plain loops over the file, and their rank correlation by scipy."""
    from scipy.stats import spearmanr

    out = tmp_path / "scores.json"
    assert evaluated(tiny_data, out, f"{mine}:{name}") == 0
    provenance, records = read_scores(out)
    path = tiny_data / "downstream" / "STS" / "STSBenchmark" / "sts-test.csv"
    rows = [line.split("\t") for line in path.read_text().splitlines()]

    def cosine(first: str, second: str) -> float:
        u, v = ([text.count(letter) for letter in "abcdeilorst"] + [1] for text in (first, second))
        return float(np.dot(u, v) / (np.dot(u, u) * np.dot(v, v)) ** 0.5)

    cosines, gold = [cosine(row[5], row[6]) for row in rows], [float(row[4]) for row in rows]
    wanted = spearmanr(cosines, gold).statistic
    assert cells(records)["STS-B", "test", "all"] == pytest.approx(100 * wanted, abs=1e-6)
    assert provenance["model"] == f"{mine}:{name}"
    assert provenance["function"] is True
    assert {record["method"] for record in records} == {"encoder[function]"}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("few", "the encoder gave an array of shape ("),
        ("words", "failed on"),
        ("broken", "my_encoders_of_a_test.py, line 18: 0"),
        ("leters", "has no attribute 'leters'"),
    ],
)
def test_errors_of_functions_are_one_sentence(
    mine: str, name: str, sentence: str, tiny_data: Path, tmp_path: Path, capsys: Any
) -> None:
    assert evaluated(tiny_data, tmp_path / "scores.json", f"{mine}:{name}") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert not list(tmp_path.glob("scores.json*"))  # without identity nothing can be resumed
    assert sentence in error


def test_modules_that_cannot_be_imported_are_one_sentence(mine: str, tmp_path: Path) -> None:
    (tmp_path / "raises_of_a_test.py").write_text("x = 1\nraise RuntimeError('no\\nluck')\n")
    for name, words in {
        "nowhere_of_a_test": ("No module named 'nowhere_of_a_test'", "run in its folder"),
        "raises_of_a_test": ("RuntimeError in", "raises_of_a_test.py, line 2: no luck"),
    }.items():
        refused(lambda name=name: Model(f"{name}:encode").load("cpu"), *words)


def test_functions_reject_pooler_and_prompt(mine: str) -> None:
    for model in (Model(f"{mine}:letters", pooler="avg"), Model(f"{mine}:letters", prompt="query")):
        with pytest.raises(UserError, match="omit both"):
            model.load("cpu")
    vectors = Model(f"{mine}:letters", normalize=True).load("cpu").encode(["a sea", "bread"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)


def test_the_identity_of_a_function_is_its_attribute() -> None:
    def own(texts: list[str]) -> Any:
        return np.ones((len(texts), 2))

    def identities() -> list[str]:
        return [FunctionEncoder(own, "m:f").identity for _ in range(2)]

    assert len(set(identities())) == 2
    own.identity = "second version"  # type: ignore[attr-defined]
    assert len({*(known := identities())}) == 1
    own.identity = "third version"  # type: ignore[attr-defined]
    assert not {*identities()} & {*known}


def test_functions_named_in_files_are_not_run(mine: str, tiny_data: Path, tmp_path: Path) -> None:
    """`load_encoder` and `Model.stored`, which read configurations and results, import nothing."""
    (tmp_path / "leaves_a_trace.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    with pytest.raises(UserError):
        load_encoder("leaves_a_trace:encode", pooler="avg")
    options = {"pooler": None, "prompt": None, "normalize": False}
    for is_function in (True, False):
        described = {"model": "leaves_a_trace:encode", **options, "function": is_function}
        with pytest.raises(UserError, match="not run only because a file names it"):
            Model.stored(described)
    assert not (tmp_path / "ran").exists()


def test_from_python(tiny_bert: Path, tiny_data: Path, tmp_path: Path) -> None:
    own, out = BagOfWords(256), tmp_path / "scores.json"
    options: dict[str, Any] = {"out": out, "normalize": True}
    records = bench.score(own.encode, ["STS-B"], str(tiny_data), **options)
    assert set(cells(records)) == {("STS-B", "test", "all"), ("STS-B", "dev", "all")}
    provenance, written = read_scores(out)
    assert written == records
    assert provenance["model"].endswith(":BagOfWords.encode")
    assert evaluated(tiny_data, out, str(tiny_bert), "--pooler", "avg_top2") == 0
    records = bench.score(str(tiny_bert), ["STS12", "STS-B"], str(tiny_data), pooler="avg_top2")
    assert records == read_scores(out)[1]


# Words of the command line


def test_options_are_parsed_from_brackets() -> None:
    common = Model("", pooler="avg", normalize=True)
    query = "a/b[prompt=query,normalize]"
    for word, found in {
        "a/b": Model("a/b", pooler="avg", normalize=True),
        "a/b[pooler=cls]": Model("a/b", pooler="cls", normalize=True),
        "a/b[prompt=, normalize=false]": Model("a/b", pooler="avg", prompt=""),
    }.items():
        assert Model.read(word, common) == found
    assert Model.read("a/b") == Model("a/b")
    assert Model.read(query) == Model("a/b", prompt="query", normalize=True)
    assert Model.read(query).label == query
    for word, message in {
        "a[poler=avg]": "did you mean 'pooler'?",
        "a[]": "has an unknown option ''",
    }.items():
        refused(lambda word=word: Model.read(word), message)


# Several models


@pytest.fixture
def several(tiny_bert: Path, tiny_roberta: Path, mine: str) -> list[str]:
    return [f"{tiny_bert}[pooler=avg]", f"{tiny_bert}[pooler=cls_before_pooler]", f"{mine}:letters"]


def test_several_models_give_one_table_and_one_file_each(
    several: list[str], tiny_bert: Path, tiny_data: Path, tmp_path: Path, capsys: Any
) -> None:
    assert evaluated(tiny_data, tmp_path / "out", *several) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["spearman", "test", "STS12", "STS-B"]
    files = [slug(word).lstrip(".-") for word in several]
    written = sorted(path.stem for path in (tmp_path / "out").glob("*.json"))
    assert written == sorted(files)
    for row, word, name in zip(table[1:], several, files, strict=True):
        found = cells(read_scores(tmp_path / "out" / f"{name}.json")[1])
        values = [f"{found[task, 'test', 'all']:.2f}" for task in ("STS12", "STS-B")]
        assert row.split() == [word, *values]
    alone = tmp_path / "alone.json"
    assert evaluated(tiny_data, alone, str(tiny_bert), "--pooler", "avg") == 0
    assert read_scores(alone)[1] == read_scores(tmp_path / "out" / f"{files[0]}.json")[1]


def test_a_failing_model_does_not_stop_the_others(
    several: list[str],
    tiny_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    """Neither one that is not there nor one that fails as nobody foresaw."""
    plain = bench.stages.jobs.score_encoder  # type: ignore[attr-defined]

    def score(encoder: Any, *rest: Any) -> Any:
        return plain(encoder, *rest) if isinstance(encoder, FunctionEncoder) else 1 / 0

    monkeypatch.setattr("bench.stages.jobs.score_encoder", score)
    words = "/nowhere/model", several[0], several[2]
    assert evaluated(tiny_data, tmp_path / "out", *words) == 2
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0].split() == ["STS12", "STS-B"]  # as of one model
    assert "error: /nowhere/model: model folder /nowhere/model does not exist" in printed.err
    assert f"{several[0]}: ZeroDivisionError" in printed.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == [f"{slug(several[2])}.json"]


def test_existing_results_are_not_computed_again(
    several: list[str], tiny_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert evaluated(tiny_data, tmp_path / "out", *several[:2]) == 0
    first, second = sorted((tmp_path / "out").iterdir())
    before = first.read_bytes()
    changed = json.loads(second.read_text())
    changed["provenance"]["versions"]["torch"] = "1.0"
    second.write_text(json.dumps(changed))
    scored: list[str] = []
    original = bench.stages.jobs.score_encoder  # type: ignore[attr-defined]

    def noted(encoder: Any, *rest: Any) -> Any:
        scored.append(encoder.pooler)
        return original(encoder, *rest)

    monkeypatch.setattr("bench.stages.jobs.score_encoder", noted)
    assert evaluated(tiny_data, tmp_path / "out", *several[:2]) == 0
    assert scored == ["cls_before_pooler"]
    assert first.read_bytes() == before
    assert read_scores(second)[0]["versions"]["torch"] == torch.__version__


def test_file_names_are_those_of_the_models() -> None:
    words = ["a/x/encoder", "a/x/encoder[pooler=avg,normalize]", "./b", "m:f"]
    names = ["a-x-encoder", "a-x-encoder-pooler-avg-normalize", "b", "m-f"]
    assert list(files([Model.read(word) for word in words])) == [f"{name}.json" for name in names]


def test_models_that_share_a_file(
    tiny_bert: Path, tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(tiny_bert), "--pooler", "avg"]
    for out, again, said in (
        ("out", str(tiny_bert), "would both be written to"),
        ("x.json", "a/b", "x.json is a file; of several models, name a folder"),
    ):
        assert evaluated(tiny_data, tmp_path / out, again, *words) == 2
        assert said in capsys.readouterr().err
        assert not (tmp_path / out).exists()
