"""Exports: model folders against a reference interpreter and the library, scores read by mteb,
tables, event files."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bench.__main__ import main
from bench.export import EXPORT_FORMATS, export
from bench.export.card import card
from bench.export.folders import PROBES
from bench.export.runs import ExportedRun, read_runs
from bench.export.tensorboard import scalars
from bench.models.encoder import TransformerEncoder
from bench.models.load import load_encoder, save_encoder
from bench.models.poolers import POOLER_NAMES
from bench.models.sentence_transformers import Normalised, Prompted
from bench.results.records import COLUMNS, read_scores, write_scores
from bench.runs import paths
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from methods.projection import Affine
from methods.whitening import Whitened, fitted
from methods.word_overlap import BagOfWords
from tests.conftest import CLOSE
from tests.oracles.literal_modules import literal

SENTENCES = [
    "",
    "a",
    "The old DOG sees two birds",
    " ".join(20 * ["the old dog sees"]),
    "unknownword ☃ sleeps",
    "a man",
]
LIBRARY = "sentence-transformers is not installed"


@pytest.fixture(scope="module")
def trained(
    tiny_bert: Path, tiny_data: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A suite's folder without a plan, with one run that was trained and scored, and the run's
    identity."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    suite = tmp_path_factory.mktemp("suite") / "mine"
    words = [
        "--backbone",
        str(tiny_bert),
        "--corpus",
        str(tiny_corpus),
        "--data",
        str(tiny_data),
        "--seed",
        "1",
    ]
    words += ["--recipe", "batch_size=8", "select_every=2", "--suite", str(suite)]
    assert main(["train", "simcse", *words]) == 0
    assert main(["score", "simcse", *words, "--tasks", "STS12", "STS-B"]) == 0
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    (run,) = (suite / "runs").iterdir()
    return suite, run.name


@pytest.fixture
def suite(trained: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy that a test may modify."""
    return Path(shutil.copytree(trained[0], tmp_path / "mine"))


@pytest.fixture
def with_encoder(suite: Path, trained: tuple[Path, str]) -> Callable[[Any], Path]:
    """A function that replaces the run's encoder, as if the new one had been scored."""

    def put(encoder: Any) -> Path:
        folder, scores = (
            paths.run_folder(suite, trained[1]) / "encoder",
            paths.scores_file(suite, trained[1]),
        )
        save_encoder(encoder, folder)
        provenance, records = read_scores(scores)
        write_scores(scores, provenance | {"encoder": load_encoder(folder).identity}, records)
        return suite

    return put


@pytest.fixture(scope="module")
def with_pooler(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny BERT with a stored pooler of its own."""
    folder = Path(shutil.copytree(tiny_bert, tmp_path_factory.mktemp("pooler") / "model"))
    weights = load_file(folder / "model.safetensors")
    draw = torch.Generator().manual_seed(5)
    weights["pooler.dense.weight"] = torch.randn(32, 32, generator=draw) / 6
    weights["pooler.dense.bias"] = torch.randn(32, generator=draw)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def exported(suite: Path, out: Path, what: str = "sentence-transformers", *runs: str) -> Path:
    export(suite, what, out, runs)
    folders = [path for path in out.iterdir() if path.is_dir()]
    return folders[0] if what == "sentence-transformers" else out


def transformer(folder: Path, pooler: str) -> TransformerEncoder:
    return TransformerEncoder.load(folder, {"pooler": pooler})


def mapped(base: TransformerEncoder, name: str) -> Any:
    draw = torch.Generator().manual_seed(2)
    if name == "affine":
        return Affine(
            base,
            torch.randn(8, 32, generator=draw, dtype=torch.float64),
            torch.randn(8, generator=draw),
        )
    if name == "tanh":
        weight = torch.randn(40, 32, generator=draw, dtype=torch.float64) / 6
        return Affine(base, weight, torch.randn(40, generator=draw), tanh=True)
    if name == "normalised, affine":
        return Affine(
            Normalised(base), torch.randn(8, 32, generator=draw), torch.randn(8, generator=draw)
        )
    # Vectors far from the origin, with scales that differ by a factor of 100: a map in one step
    # would lose digits.
    vectors = torch.randn(400, 32, generator=draw) * torch.logspace(-1, 1, 32) + 20
    return Whitened(base, 16, fitted(vectors.numpy(), 16))


def encoder_of(name: str, tiny_bert: Path, tiny_roberta: Path, with_pooler: Path) -> Any:
    backbone, _, pooler = name.partition(" ")
    folders = {"bert": with_pooler, "roberta": tiny_roberta}
    return (
        transformer(folders[backbone], pooler)
        if backbone in folders
        else mapped(transformer(tiny_bert, "avg"), name)
    )


NAMES = [f"bert {pooler}" for pooler in POOLER_NAMES] + ["roberta avg", "roberta avg_first_last"]
NAMES += ["affine", "tanh", "normalised, affine", "whitened"]
SLOW = pytest.mark.slow  # a second or two each


# Model folders


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("bert avg_first_last", "whitened") else pytest.param(name, marks=SLOW)
        for name in NAMES
    ],
)
def test_a_folders_modules_compute_our_vectors(
    name: str,
    tiny_bert: Path,
    tiny_roberta: Path,
    with_pooler: Path,
    with_encoder: Any,
    tmp_path: Path,
) -> None:
    encoder = encoder_of(name, tiny_bert, tiny_roberta, with_pooler)
    folder = exported(with_encoder(encoder), tmp_path / "out")
    wanted = encoder.encode(SENTENCES)
    np.testing.assert_allclose(literal(folder, SENTENCES), wanted, **CLOSE)
    if name != "whitened":  # load_encoder skips its final Normalize
        np.testing.assert_allclose(load_encoder(folder).encode(SENTENCES), wanted, **CLOSE)
    assert not list(folder.rglob("*.bin"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_library_computes_our_vectors(
    name: str,
    tiny_bert: Path,
    tiny_roberta: Path,
    with_pooler: Path,
    with_encoder: Any,
    tmp_path: Path,
) -> None:
    library = pytest.importorskip("sentence_transformers", reason=LIBRARY)
    encoder = encoder_of(name, tiny_bert, tiny_roberta, with_pooler)
    folder = exported(with_encoder(encoder), tmp_path / "out")
    model = library.SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(
        model.encode(SENTENCES), encoder.encode(SENTENCES), atol=1e-5, rtol=1e-5
    )
    assert model.max_seq_length == 64


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda base: Whitened(base, None, {}),
            "its whitening is fitted on the sentences of each task",
        ),
        (
            lambda base: Prompted(base, "a dog "),
            "sentence-transformers has no module for 'prompted'",
        ),
        (lambda base: BagOfWords(64), "sentence-transformers has no module for 'word-overlap'"),
    ],
)
def test_what_the_library_cannot_express_is_refused(
    make: Callable[[Any], Any], sentence: str, tiny_bert: Path, with_encoder: Any, tmp_path: Path
) -> None:
    folder = with_encoder(make(transformer(tiny_bert, "avg")))
    with pytest.raises(UserError, match=sentence):
        export(folder, "sentence-transformers", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_map_that_float32_cannot_carry_is_refused(
    tiny_bert: Path, with_encoder: Any, tmp_path: Path
) -> None:
    """A direction in which all sentences agree, scaled by 1e6, so that only the rounding of weights
    remains."""
    base = transformer(tiny_bert, "avg")
    vectors = torch.from_numpy(base.encode(PROBES)).double()
    weight = 1e6 * torch.linalg.svd(vectors - vectors.mean(0)).Vh[-1:]
    narrow = Affine(base, weight, -(weight @ vectors.mean(0)))
    assert np.abs(narrow.encode(PROBES)).max() < 1e-6
    with pytest.raises(UserError, match="as float32 modules its vectors are off by"):
        export(with_encoder(narrow), "sentence-transformers", tmp_path / "out")


def test_an_encoder_that_changed_after_it_was_scored_is_no_export(
    suite: Path, trained: tuple[Path, str], tmp_path: Path
) -> None:
    path = paths.run_folder(suite, trained[1]) / "encoder" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="is not the encoder that was scored; score"):
        export(suite, "sentence-transformers", tmp_path / "out", [trained[1]])


def test_runs_that_cannot_be_exported_are_left_out_unless_asked_for(
    suite: Path, trained: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = {
        "id": "untrained_x",
        "method": "untrained",
        "setting": "paper",
        "label": "U",
        "backbone": "b",
        "seed": None,
    }
    entries = [plan | {"trained": False}, plan | {"id": "simcse_x", "trained": True, "seed": 3}]
    write_json(suite / "plan.json", {"suite": "s", "data": "d", "runs": entries})
    words = [
        "export",
        "--suite",
        str(suite),
        "--what",
        "sentence-transformers",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(words) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["export.json", trained[1]]
    notes = capsys.readouterr().err
    assert "note: untrained_x is not trained" in notes
    assert "note: simcse_x is missing" in notes
    assert main([*words, "--run", "simcse_x"]) == 2
    assert capsys.readouterr().err.startswith("error: simcse_x is missing")
    assert main([*words, "--run", "simcse_y"]) == 2
    assert "has no run 'simcse_y'; did you mean 'simcse_x'?" in capsys.readouterr().err
    shutil.rmtree(suite / "runs")
    assert main(words) == 2
    assert "has no encoder to export" in capsys.readouterr().err


# Cards


def test_a_card_says_where_an_encoder_comes_from(trained: tuple[Path, str], tmp_path: Path) -> None:
    text = (exported(trained[0], tmp_path / "out") / "README.md").read_text()
    provenance, records = read_scores(paths.scores_file(*trained))
    header = text.split("---\n")[1]
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(header)["library_name"] == "sentence-transformers"
    assert "base_model" not in header  # the tiny BERT is not on the hub
    for told in ("simcse@official", "| Seed | 1 |", "tiny-bert", str(provenance["code"]["commit"])):
        assert told in text
    assert provenance["data"]["sha256"] in text
    assert [corpus["name"] for corpus in provenance["corpora"]] == ["tiny"]
    assert provenance["corpora"][0]["sha256"] in text
    for record in records:
        assert f"| {record['task']} | {record['split']} | spearman" in text
        assert f" {record['value']:.2f} |" in text
    assert "comparable with each other, with no paper" in text
    assert "reproduc" not in text.lower()


def told(**changes: Any) -> ExportedRun:
    plan = {
        "id": "simcse_s1",
        "method": "simcse",
        "setting": "official",
        "label": "SimCSE",
        "backbone": "bert-base-uncased",
        "reference": "bert-base-uncased",
        "corpus": "wiki1m",
        "own_corpus": False,
        "seed": 1,
        "trained": True,
        "recipe_changes": {},
    }
    record = dict.fromkeys(COLUMNS) | {
        "task": "STS-B",
        "split": "test",
        "metric": "spearman",
        "aggregation": "all",
    }
    data = {"data": {"name": changes.pop("data", "senteval")}}
    return ExportedRun(plan | changes, "finished", data, [record | {"value": 76.25}])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"recipe_changes": {"precision": "bfloat16"}}, ""),
        ({"own_corpus": True, "corpus": "wiki1m_fallback"}, ""),
        ({"backbone": "tiny", "reference": "/nowhere/tiny"}, "on the backbone tiny"),
        ({"corpus": "wiki1m_fallback"}, "trained on wiki1m\\_fallback"),
        ({"recipe_changes": {"epochs": 2}}, "with a changed recipe (epochs)"),
        ({"data": "world"}, "scored on world"),
    ],
)
def test_a_card_says_with_what_scores_cannot_be_compared(
    changes: dict[str, Any], reason: str
) -> None:
    text = card(told(**changes), 768, 512)
    assert ("comparable with each other, with no paper" in text) == bool(reason)
    assert reason in text
    assert "76.25" in text
    assert ('base_model: "google-bert/bert-base-uncased"' in text) == (
        reason != "on the backbone tiny"
    )
    assert "reproduc" not in text.lower()


def test_a_card_escapes_what_stands_in_it() -> None:
    text = card(told(label="<script>|x|\n# Title"), 768, 512)
    assert "<script>" not in text
    assert "\n# Title" not in text
    assert "\\<script\\>\\|x\\| \\# Title" in text


# mteb


def test_scores_in_mteb_s_shape(trained: tuple[Path, str], tmp_path: Path) -> None:
    out = exported(trained[0], tmp_path / "out", "mteb")
    provenance, records = read_scores(paths.scores_file(*trained))
    values = {(r["task"], r["split"], r["aggregation"]): r["value"] for r in records}
    (folder,) = (out / "results").glob("*/*")
    assert folder.name == trained[1]
    names = ["SentBench-STS-B", "SentBench-STS-B-dev", "SentBench-STS12"]
    assert sorted(path.stem for path in folder.iterdir()) == [*names, "model_meta"]
    for name, (task, split) in zip(
        names, [("STS-B", "test"), ("STS-B", "dev"), ("STS12", "test")], strict=True
    ):
        result = read_json(folder / f"{name}.json")
        assert result["task_name"] == name
        assert result["dataset_revision"] == provenance["tasks"][task][split]
        ((found,),) = result["scores"].values()
        assert list(result["scores"]) == [split]
        assert found["main_score"] == found["cosine_spearman"] == values[task, split, "all"] / 100
        assert found["languages"] == ["eng-Latn"]
        assert "not mteb's task of this name" in found["protocol"]
        assert "comparable with no paper" in found["protocol"]
    assert found["cosine_spearman_wmean"] == values["STS12", "test", "wmean"] / 100


@pytest.mark.slow
def test_mteb_reads_them(trained: tuple[Path, str], tmp_path: Path) -> None:
    mteb = pytest.importorskip("mteb", reason="mteb is not installed")
    from mteb.cache import ResultCache
    from mteb.results import TaskResult

    out = exported(trained[0], tmp_path / "out", "mteb")
    values = {
        (r["task"], r["split"], r["aggregation"]): r["value"]
        for r in read_scores(paths.scores_file(*trained))[1]
    }
    for path in out.glob("results/*/*/SentBench-*.json"):
        result = TaskResult.from_disk(path)
        task, split = (
            ("STS-B", "dev")
            if path.stem.endswith("-dev")
            else (path.stem.removeprefix("SentBench-"), "test")
        )
        assert result.main_score == pytest.approx(values[task, split, "all"] / 100, abs=1e-12)
    (model,) = ResultCache(cache_path=str(out)).load_results().model_results
    assert model.model_revision == trained[1]
    assert {result.task_name for result in model.task_results} == {
        "SentBench-STS12",
        "SentBench-STS-B",
        "SentBench-STS-B-dev",
    }
    assert not {result.task_name for result in model.task_results} & {
        task.metadata.name for task in mteb.get_tasks()
    }


def test_other_tasks_in_mteb_s_shape(
    suite: Path, trained: tuple[Path, str], tmp_path: Path
) -> None:
    provenance, records = read_scores(paths.scores_file(suite, trained[1]))
    line = records[0] | {"split": "test", "aggregation": "all"}
    added = [
        line | {"task": "MRPC", "metric": "accuracy", "value": 73.5},
        line | {"task": "MRPC", "metric": "f1", "value": 81.25},
        line | {"task": "CNSD-STS-B", "value": 50.0},
        line | {"task": "sts:mine", "value": 25.0},
        line | {"task": "Avg", "value": 60.0},
    ]
    write_scores(paths.scores_file(suite, trained[1]), provenance | {"mode": "dev"}, added)
    (folder,) = (exported(suite, tmp_path / "out", "mteb") / "results").glob("*/*")
    names = ["SentBench-CNSD-STS-B", "SentBench-MRPC", "SentBench-sts-mine"]
    assert sorted(path.stem for path in folder.glob("SentBench*")) == names
    (mrpc,) = read_json(folder / "SentBench-MRPC.json")["scores"]["test"]
    assert (mrpc["main_score"], mrpc["accuracy"], mrpc["f1"]) == (0.735, 0.735, 0.8125)
    assert "classifiers on frozen vectors, trained in mode dev" in mrpc["protocol"]
    assert (
        read_json(folder / "SentBench-MRPC.json")["dataset_revision"]
        == provenance["data"]["sha256"]
    )
    languages = [
        read_json(folder / f"{name}.json")["scores"]["test"][0]["languages"] for name in names
    ]
    assert languages == [["cmn-Hans"], ["eng-Latn"], ["und-Zyyy"]]


# Tables


def test_every_record_is_a_row_with_its_provenance(
    suite: Path, trained: tuple[Path, str], tmp_path: Path
) -> None:
    found = {
        "alignment": {"STS-B": {"all": {"uniformity": -1.5, "pairs": 12}}, "ok": True},
        "layers": [0.25, None],
    }
    write_json(
        paths.analyses_file(suite, trained[1]), {"analyses": {"alignment": found}, "provenance": {}}
    )
    out = exported(suite, tmp_path / "out", "table")
    provenance, records = read_scores(paths.scores_file(suite, trained[1]))
    with open(out / "records.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        assert float(row["value"]) == record["value"]  # every digit
        assert {key: row[key] for key in COLUMNS if key != "value"} == {
            key: str(record[key]) for key in COLUMNS if key != "value"
        }
        assert row["run"] == trained[1]
        assert row["commit"] == provenance["code"]["commit"]
        assert row["torch"] == provenance["versions"]["torch"]
        assert row["device_name"] == provenance["device"]["name"]
        assert row["data_sha256"] == provenance["data"]["sha256"]
        assert row["encoder"] == provenance["encoder"]
    with open(out / "runs.csv", newline="") as file:
        (run,) = csv.DictReader(file)
    assert (run["status"], run["seed"], run["best_step"]) == (
        "finished",
        "1",
        str(provenance["outcome"]["best_step"]),
    )
    assert run["recipe_changes"] == "batch_size=8 select_every=2"
    with open(out / "analyses.csv", newline="") as file:
        numbers = {row["path"]: float(row["value"]) for row in csv.DictReader(file)}
    assert numbers == {
        "alignment/STS-B/all/uniformity": -1.5,
        "alignment/STS-B/all/pairs": 12.0,
        "layers/0": 0.25,
    }


def test_parquet_holds_what_the_csv_holds(
    suite: Path, trained: tuple[Path, str], tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pandas = pytest.importorskip("pandas")
    table = pandas.read_parquet(exported(suite, tmp_path / "out", "table") / "records.parquet")
    records = read_scores(paths.scores_file(suite, trained[1]))[1]
    assert table["value"].tolist() == [record["value"] for record in records]
    assert str(table["seed"].dtype) == "Int64"


def test_without_pyarrow_one_sentence_says_so(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.export.table.find_spec", lambda name: None)
    remarks = export(suite, "table", tmp_path / "out")
    assert remarks == [
        "no Parquet was written because pyarrow is not installed; pip install pyarrow"
    ]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "records.csv",
        "runs.csv",
        "export.json",
    }


def test_runs_without_scores_are_rows_too(tmp_path: Path) -> None:
    entry = {
        "id": "x",
        "method": "m",
        "setting": "paper",
        "label": "M",
        "backbone": "b",
        "seed": 4,
        "trained": True,
    }
    write_json(tmp_path / "suite" / "plan.json", {"suite": "s", "data": "d", "runs": [entry]})
    export(tmp_path / "suite", "table", tmp_path / "out")
    with open(tmp_path / "out" / "runs.csv", newline="") as file:
        (run,) = csv.DictReader(file)
    assert (run["run"], run["status"], run["seed"], run["commit"]) == ("x", "missing", "4", "")
    with open(tmp_path / "out" / "records.csv", newline="") as file:
        header = next(csv.reader(file))
    assert header[: len(COLUMNS)] == list(COLUMNS)


# TensorBoard


def test_scalars_are_the_logs_numbers(trained: tuple[Path, str]) -> None:
    log = paths.run_folder(*trained) / "log.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    found = list(scalars(log))
    for tag, key in {"train/loss": "loss", "train/learning_rate": "learning_rate"}.items():
        assert [(step, value) for step, name, value in found if name == tag] == [
            (r["step"], r[key]) for r in rows
        ]
    selected = [row for row in rows if "dev" in row]
    assert [(s, v) for s, name, v in found if name == "dev/STS-B"] == [
        (r["step"], r["dev"]["STS-B"]) for r in selected
    ]
    assert [v for _, name, v in found if name == "geometry/uniformity"] == [
        r["uniformity"] for r in selected
    ]
    assert len(found) == 2 * len(rows) + 3 * len(selected)
    assert len(selected) == 3


def test_event_files_hold_the_log(trained: tuple[Path, str], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    out = exported(trained[0], tmp_path / "out", "tensorboard")
    events = EventAccumulator(str(out / trained[1])).Reload()
    wanted = list(scalars(paths.run_folder(*trained) / "log.jsonl"))
    assert set(events.Tags()["scalars"]) == {tag for _, tag, _ in wanted}
    for tag in events.Tags()["scalars"]:
        points = [(event.step, event.value) for event in events.Scalars(tag)]
        own = [(step, float(np.float32(value))) for step, name, value in wanted if name == tag]
        assert points == own
    export(trained[0], "tensorboard", tmp_path / "out")  # may replace its own files


def test_without_tensorboard_one_sentence_says_so(
    trained: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError, match="pip install tensorboard"):
        export(trained[0], "tensorboard", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"loss": 1}', '{"step": 1, "loss": "x"}', '{"step": 1, "dev": 3}']
)
def test_a_damaged_log_names_its_line(line: str, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(
        '{"step": 1, "loss": 0.5, "learning_rate": 1e-5}\n' + line + "\n"
    )
    with pytest.raises(UserError, match="line 2: not a row"):
        list(scalars(tmp_path / "log.jsonl"))


# The folder


def test_an_export_replaces_itself_and_nothing_else(suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(suite, "table", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    export(suite, "table", out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    (out / "notes.txt").write_text("mine")
    with pytest.raises(
        UserError, match=r"notes\.txt is not part of the export and would be deleted"
    ):
        export(suite, "table", out)
    (out / "notes.txt").unlink()
    (out / "runs.csv").write_text("mine")
    with pytest.raises(UserError, match=r"runs\.csv was changed since it was exported"):
        export(suite, "table", out)
    assert (out / "runs.csv").read_text() == "mine"
    (out / "export.json").write_text('{"files"')
    with pytest.raises(
        UserError, match=r"no valid export\.json, so it is not an export; pass another folder"
    ):
        export(suite, "table", out)
    assert (out / "runs.csv").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_another_kind_of_export_is_not_replaced(suite: Path, tmp_path: Path) -> None:
    export(suite, "table", tmp_path / "out")
    with pytest.raises(UserError, match="would be deleted"):
        export(suite, "mteb", tmp_path / "out")
    assert (tmp_path / "out" / "records.csv").is_file()


def test_foreign_folders_and_files_are_refused(suite: Path, tmp_path: Path) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "foreign")
    for name, words in {
        "foreign": "no valid export.json",
        "file": "is not a folder",
        "link": "is not a folder",
    }.items():
        with pytest.raises(UserError, match=words):
            export(suite, "table", tmp_path / name)
    assert (tmp_path / "foreign" / "thesis.txt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    export(suite, "table", tmp_path / "empty")


def test_damaged_suites_are_one_sentence(
    suite: Path, trained: tuple[Path, str], tmp_path: Path
) -> None:
    scores = paths.scores_file(suite, trained[1])
    provenance, records = read_scores(scores)
    for content in (
        {"provenance": {}, "records": []},
        {"provenance": provenance | {"run": 3}, "records": records},
        {"provenance": provenance | {"run": {"id": "other"}}, "records": records},
    ):
        write_json(scores, content)
        with pytest.raises(UserError, match="is damaged"):
            read_runs(suite)
    scores.unlink()
    assert read_runs(suite)[0].status == "finished"  # from its training
    write_json(suite / "plan.json", {"runs": [{"id": 3}]})
    with pytest.raises(UserError, match="is not a plan"):
        read_runs(suite)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UserError, match="has no runs"):
        read_runs(tmp_path / "nothing")


@pytest.mark.parametrize("what", EXPORT_FORMATS)
def test_the_command_line_knows_every_kind(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["export", "--suite", str(tmp_path), "--what", what, "--out", str(tmp_path / "out")])
        == 2
    )
    assert "has no runs; pass the folder of a suite" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("BENCH_MODELS"), reason="BENCH_MODELS is not set")
def test_a_real_backbone_as_modules(with_encoder: Any, tmp_path: Path) -> None:
    """The first folder of BENCH_MODELS, with every pooler that it stores weights for."""
    backbone = next(
        path.parent for path in sorted(Path(os.environ["BENCH_MODELS"]).glob("*/config.json"))
    )
    for pooler in ("cls_before_pooler", "avg", "avg_first_last"):
        encoder = transformer(backbone, pooler)
        folder = exported(with_encoder(encoder), tmp_path / pooler)
        np.testing.assert_allclose(
            literal(folder, SENTENCES), encoder.encode(SENTENCES), atol=1e-5, rtol=1e-5
        )
