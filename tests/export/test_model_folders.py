"""Model folders against a reference interpreter and the library; their cards."""

import numpy as np
import pytest
import torch
import yaml
from sentence_transformers import SentenceTransformer

from bench.__main__ import main
from bench.export import folders
from bench.export.folders import PROBE_SENTENCES, export
from bench.models.encoder import TransformerEncoder
from bench.models.load import Normalised, load_encoder, save_encoder
from bench.models.packed_forward import POSITIONS
from bench.runs import paths
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from methods.base import POOLERS
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
def with_encoder(suite, trained):
    """A function that replaces the run's encoder, as if the new one had been trained."""

    def put(encoder):
        folder = paths.run_folder(suite, trained[1]) / "encoder"
        outcome = folder.parent / "outcome.json"
        ended = read_json(outcome)
        ended["outcome"]["encoder_sha256"] = save_encoder(encoder, folder)
        write_json(outcome, ended)
        return suite

    return put


def transformer(folder, pooler="avg"):
    return TransformerEncoder.load(folder, {"pooler": pooler})


def mapped(base, name):
    draw = torch.Generator().manual_seed(2)
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
def encoder(name, tiny_bert, tiny_roberta, tmp_path):
    backbone, _, pooler = name.partition(" ")
    if backbone == "bert":
        return transformer(copy_with_pooler(tiny_bert, tmp_path / "pooler", 1 / 6), pooler)
    if backbone == "roberta":
        return transformer(tiny_roberta, pooler)
    return mapped(transformer(tiny_bert), name)


# A mean over a fixed number of positions is refused, below.
NAMES = [f"bert {pooler}" for pooler in POOLERS if pooler not in POSITIONS]
NAMES += ["roberta avg", "roberta avg_first_last"]
NAMES += ["tanh", "normalised, affine", "whitened"]
QUICK = ("bert avg_first_last", "whitened")
SLOW = pytest.mark.slow  # a second or two each


# Model folders


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=SLOW) for name in NAMES]
)
def test_a_folders_modules_compute_our_vectors(name, encoder, with_encoder, tmp_path):
    folder = exported(with_encoder(encoder), tmp_path / "out")
    wanted = encoder.encode(SENTENCES)
    np.testing.assert_allclose(literal(folder, SENTENCES), wanted, **CLOSE)
    if name != "whitened":  # load_encoder skips its final Normalize
        np.testing.assert_allclose(load_encoder(folder).encode(SENTENCES), wanted, **CLOSE)
    library = SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(library.encode(SENTENCES), wanted, rtol=1e-5, atol=1e-5)
    assert library.max_seq_length == 64
    assert not list(folder.rglob("*.bin"))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda base: Whitened(base, {}, dimensions=None), "'whitened', fitted on the sentences"),
        (lambda base: transformer(base, "avg_first_last_64"), "no module for 'avg_first_last_64'"),
        (lambda base: BagOfWords(64), "sentence-transformers has no module for 'word-overlap'"),
    ],
)
def test_what_has_no_module_is_refused(make, sentence, tiny_bert, with_encoder, tmp_path):
    base = tiny_bert if "64" in sentence else transformer(tiny_bert)
    with pytest.raises(UserError, match=sentence):
        export(with_encoder(make(base)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_map_that_float32_cannot_carry_is_refused(tiny_bert, with_encoder, tmp_path):
    """A direction in which all sentences agree, scaled by 1e6, so that only rounding remains."""
    base = transformer(tiny_bert)
    vectors = torch.from_numpy(base.encode(PROBE_SENTENCES)).double()
    weight = 1e6 * torch.linalg.svd(vectors - vectors.mean(0)).Vh[-1:]
    narrow = affine(base, weight, -(weight @ vectors.mean(0)))
    assert np.abs(narrow.encode(PROBE_SENTENCES)).max() < 1e-6
    with pytest.raises(UserError, match="as float32 modules its vectors are off by"):
        export(with_encoder(narrow), tmp_path / "out")


def test_runs_without_an_encoder_are_left_out(suite, trained, tmp_path, capsys):
    plan = {"setting": "paper", "label": "U", "backbone": "b", "method": "m"}
    entries = [
        plan | {"id": "a", "trained": False, "seed": None},
        plan | {"id": "b", "trained": True, "seed": 3},
    ]
    write_json(suite / "plan.json", {"suite": "s", "data": "d", "runs": entries})
    command = ["export", "--suite", str(suite), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    notes = [f"note: {run} has no encoder in {suite} ({status}); leave it out"
             for run, status in (("a", "not trained"), ("b", "missing"))]  # fmt: skip
    assert capsys.readouterr().err.splitlines() == notes
    assert [path.name for path in (tmp_path / "out").iterdir()] == [trained[1]]
    assert main([*command, "--run", "b"]) == 2
    assert capsys.readouterr().err.startswith("error: b has no encoder")


@pytest.mark.parametrize("error", [UserError("as nobody wishes"), KeyError("of a library")])
def test_a_run_that_fails_stops_no_other(error, suite, trained, tmp_path, monkeypatch):
    ended = read_json(suite / "runs" / trained[1] / "outcome.json")
    write_json(suite / "runs" / "a" / "outcome.json", ended | {"run": ended["run"] | {"id": "a"}})
    write = folders._write

    def failing(suite_dir, run, folder):
        if run.id == "a":
            (folder / "a").mkdir()
            raise error
        write(suite_dir, run, folder)

    monkeypatch.setattr(folders, "_write", failing)
    expected = {UserError: "as nobody wishes", KeyError: "a: KeyError('of a library')"}
    assert export(suite, tmp_path / "out") == [expected[type(error)]]
    assert [path.name for path in (tmp_path / "out").iterdir()] == [trained[1]]


def test_an_export_replaces_itself_and_nothing_else(trained, tmp_path):
    out = tmp_path / "out"

    def files():
        return {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    export(trained[0], out)
    before = files()
    export(trained[0], out)
    assert files() == before
    (out / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"notes\.txt was not written by this command and would be"):
        export(trained[0], out)
    assert files() == before | {out / "notes.txt": b"mine"}


def test_places_that_cannot_be_read_or_written(suite, trained, tmp_path, capsys):
    scores = paths.result_file(suite, trained[1], "score")
    assert main(["export", "--suite", str(suite), "--out", str(scores)]) == 2
    assert "is a file" in capsys.readouterr().err
    with pytest.raises(UserError, match="has no runs; pass the folder of a suite"):
        export(tmp_path / "nothing", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (paths.run_folder(suite, trained[1]) / "outcome.json").write_text("{")
    with pytest.raises(UserError, match="json is not a readable JSON file"):
        export(suite, tmp_path / "out")


# Cards


def test_a_card_says_where_an_encoder_comes_from(trained, tmp_path):
    text = (exported(trained[0], tmp_path / "out") / "README.md").read_text()
    provenance = read_json(paths.run_folder(*trained) / "outcome.json")["provenance"]
    header = yaml.safe_load(text.split("---\n")[1])
    assert header["library_name"] == "sentence-transformers"
    assert "base_model" not in header  # the tiny BERT is not on the hub
    told = ["simcse@official", "seed 1", "tiny-bert", str(provenance["code"]["commit"])]
    told += [provenance["corpora"][0]["sha256"], provenance["date"], "32 dimensions"]
    assert [part for part in told if part not in text] == []
