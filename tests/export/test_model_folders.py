"""Model folders against a reference interpreter and the library; their cards."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from sentence_transformers import SentenceTransformer

from bench.__main__ import main
from bench.export.folders import PROBES, card
from bench.export.runs import ExportedRun, export
from bench.models.encoder import TransformerEncoder
from bench.models.load import Normalised, load_encoder, save_encoder
from bench.models.packed_forward import POOLER_NAMES, POSITIONS
from bench.results.records import COLUMNS, read_scores, write_scores
from bench.runs import paths
from bench.runs.run import PlannedRun
from bench.utils.errors import UserError
from bench.utils.files import write_json
from methods.whitening import Whitened
from methods.word_overlap import BagOfWords
from tests.conftest import CLOSE
from tests.export.conftest import exported
from tests.methods.fixed import affine
from tests.models.folders import copy_with_pooler
from tests.oracles.literal_modules import literal

SENTENCES = ["", "a", "The old DOG sees two birds", " ".join(20 * ["the old dog sees"])]
SENTENCES += ["unknownword ☃ sleeps", "a man"]


@pytest.fixture
def with_encoder(suite, trained) -> Callable[[Any], Path]:
    """A function that replaces the run's encoder, as if the new one had been scored."""

    def put(encoder: Any) -> Path:
        folder = paths.run_folder(suite, trained[1]) / "encoder"
        scores = paths.result_file(suite, trained[1], "score")
        save_encoder(encoder, folder)
        provenance, records = read_scores(scores)
        write_scores(scores, provenance | {"encoder": load_encoder(folder).identity}, records)
        return suite

    return put


@pytest.fixture(scope="module")
def with_pooler(tiny_bert, tmp_path_factory) -> Path:
    return copy_with_pooler(tiny_bert, tmp_path_factory.mktemp("pooler") / "model", 1 / 6)


def transformer(folder: Path, pooler: str) -> TransformerEncoder:
    return TransformerEncoder.load(folder, {"pooler": pooler})


def mapped(base: TransformerEncoder, name: str) -> Any:
    draw = torch.Generator().manual_seed(2)
    if name == "affine":
        weight = torch.randn(8, 32, generator=draw, dtype=torch.float64)
        return affine(base, weight, torch.randn(8, generator=draw))
    if name == "tanh":
        weight = torch.randn(40, 32, generator=draw, dtype=torch.float64) / 6
        return affine(base, weight, torch.randn(40, generator=draw), tanh=True)
    if name == "normalised, affine":
        weight = torch.randn(8, 32, generator=draw)
        return affine(Normalised(base), weight, torch.randn(8, generator=draw))
    # Far from the origin, with scales 1 to 100: a map in one step would lose digits.
    vectors = torch.randn(400, 32, generator=draw) * torch.logspace(-1, 1, 32) + 20
    return Whitened(base, {}, dimensions=16).fitted([], lambda texts: vectors.numpy())


@pytest.fixture
def encoder(name, tiny_bert, tiny_roberta, with_pooler) -> Any:
    backbone, _, pooler = name.partition(" ")
    if backbone in ("bert", "roberta"):
        return transformer(with_pooler if backbone == "bert" else tiny_roberta, pooler)
    return mapped(transformer(tiny_bert, "avg"), name)


# A mean over a fixed number of positions is refused, below.
NAMES = [f"bert {pooler}" for pooler in POOLER_NAMES if pooler not in POSITIONS]
NAMES += ["roberta avg", "roberta avg_first_last"]
NAMES += ["affine", "tanh", "normalised, affine", "whitened"]
SLOW = pytest.mark.slow  # a second or two each


# Model folders


QUICK = ("bert avg_first_last", "whitened")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=SLOW) for name in NAMES]
)
def test_a_folders_modules_compute_our_vectors(name, encoder, with_encoder, tmp_path):
    folder = exported(with_encoder(encoder), tmp_path / "out")
    wanted = encoder.encode(SENTENCES)
    np.testing.assert_allclose(literal(folder, SENTENCES), wanted, **CLOSE)
    if name != "whitened":  # load_encoder skips its final Normalize
        np.testing.assert_allclose(load_encoder(folder).encode(SENTENCES), wanted, **CLOSE)
    assert not list(folder.rglob("*.bin"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_library_computes_our_vectors(name, encoder, with_encoder, tmp_path):
    folder = exported(with_encoder(encoder), tmp_path / "out")
    model = SentenceTransformer(str(folder), device="cpu")
    close = {"atol": 1e-5, "rtol": 1e-5}
    np.testing.assert_allclose(model.encode(SENTENCES), encoder.encode(SENTENCES), **close)
    assert model.max_seq_length == 64


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda base: Whitened(base, {}, dimensions=None),
            "has no module for 'whitened', fitted on the sentences of each",
        ),
        (
            lambda base: TransformerEncoder(base.model, base.tokenizer, "avg_first_last_64"),
            "has no module for 'avg_first_last_64'",
        ),
        (lambda base: BagOfWords(64), "sentence-transformers has no module for 'word-overlap'"),
    ],
)
def test_what_the_library_cannot_express_is_refused(
    make, sentence, tiny_bert, with_encoder, tmp_path
):
    folder = with_encoder(make(transformer(tiny_bert, "avg")))
    with pytest.raises(UserError, match=sentence):
        export(folder, "sentence-transformers", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_map_that_float32_cannot_carry_is_refused(tiny_bert, with_encoder, tmp_path):
    """A direction in which all sentences agree, scaled by 1e6, so that only rounding remains."""
    base = transformer(tiny_bert, "avg")
    vectors = torch.from_numpy(base.encode(PROBES)).double()
    weight = 1e6 * torch.linalg.svd(vectors - vectors.mean(0)).Vh[-1:]
    narrow = affine(base, weight, -(weight @ vectors.mean(0)))
    assert np.abs(narrow.encode(PROBES)).max() < 1e-6
    with pytest.raises(UserError, match="as float32 modules its vectors are off by"):
        export(with_encoder(narrow), "sentence-transformers", tmp_path / "out")


def test_an_encoder_that_changed_after_it_was_scored_is_no_export(suite, trained, tmp_path):
    path = paths.run_folder(suite, trained[1]) / "encoder" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="is not the encoder that was scored; score"):
        export(suite, "sentence-transformers", tmp_path / "out", [trained[1]])


def test_runs_that_cannot_be_exported_are_left_out_unless_asked_for(
    suite, trained, tmp_path, capsys
):
    plan = {"setting": "paper", "label": "U", "backbone": "b", "method": "untrained"}
    entries = [
        plan | {"id": "untrained_x", "trained": False, "seed": None},
        plan | {"id": "simcse_x", "trained": True, "seed": 3},
    ]
    write_json(suite / "plan.json", {"suite": "s", "data": "d", "runs": entries})
    words = ["export", "--suite", str(suite), "--what", "sentence-transformers"]
    words += ["--out", str(tmp_path / "out")]
    assert main(words) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == [trained[1]]
    notes = capsys.readouterr().err
    assert f"note: untrained_x has no encoder in {suite} (not trained)" in notes
    assert f"note: simcse_x has no encoder in {suite} (missing)" in notes
    assert main([*words, "--run", "simcse_x"]) == 2
    assert capsys.readouterr().err.startswith("error: simcse_x has no encoder")
    assert main([*words, "--run", "simcse_y"]) == 2
    assert "has no run 'simcse_y'; did you mean 'simcse_x'?" in capsys.readouterr().err
    shutil.rmtree(suite / "runs")
    assert main(words) == 2
    assert "has nothing to export" in capsys.readouterr().err


# Cards


def test_a_card_says_where_an_encoder_comes_from(trained, tmp_path):
    text = (exported(trained[0], tmp_path / "out") / "README.md").read_text()
    provenance, records = read_scores(paths.result_file(*trained, "score"))
    header = text.split("---\n")[1]
    assert yaml.safe_load(header)["library_name"] == "sentence-transformers"
    assert "base_model" not in header  # the tiny BERT is not on the hub
    for told in ("simcse@official", "seed 1", "tiny-bert", str(provenance["code"]["commit"])):
        assert told in text
    assert provenance["data"]["sha256"] in text
    assert [corpus["name"] for corpus in provenance["corpora"]] == ["tiny"]
    assert provenance["corpora"][0]["sha256"] in text
    for record in records:
        assert f"| {record['task']} | {record['split']} | spearman" in text
        assert f" {record['value']:.2f} |" in text
    assert "Do not compare them with any paper" in text
    assert "reproduc" not in text.lower()


def told(**changes: Any) -> ExportedRun:
    plan = {"id": "simcse_s1", "method": "simcse", "setting": "official", "label": "SimCSE"}
    plan |= dict.fromkeys(("backbone", "reference"), "bert-base-uncased")
    plan |= {"corpus": "wiki1m", "own_corpus": False, "seed": 1, "trained": True}
    plan |= {"recipe_changes": {}}
    record = dict.fromkeys(COLUMNS) | {"task": "STS-B", "split": "test", "metric": "spearman"}
    record |= {"aggregation": "all"}
    data = {"data": {"name": changes.pop("data", "senteval")}}
    run = PlannedRun.model_validate(plan | changes)
    return ExportedRun(run, "finished", data, [record | {"value": 76.25}])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"own_corpus": True, "corpus": "wiki1m_fallback"}, ""),
        ({"backbone": "tiny", "reference": "/nowhere/tiny"}, "on the backbone tiny"),
        ({"corpus": "wiki1m_fallback"}, "trained on wiki1m\\_fallback"),
        ({"recipe_changes": {"epochs": 2}}, "recipe changed (epochs)"),
        ({"data": "world"}, "scored on world"),
    ],
)
def test_a_card_says_with_what_scores_cannot_be_compared(changes, reason):
    text = card(told(**changes), 768, 512)
    assert ("Do not compare them with any paper" in text) == bool(reason)
    assert reason in text
    assert "76.25" in text
    is_known = reason != "on the backbone tiny"
    assert ('base_model: "google-bert/bert-base-uncased"' in text) == is_known
    assert "reproduc" not in text.lower()


def test_a_card_escapes_what_stands_in_it():
    text = card(told(label="<script>|x|\n# Title"), 768, 512)
    assert "<script>" not in text
    assert "\n# Title" not in text
    assert "\\<script\\>\\|x\\| \\# Title" in text
