"""A model of the hub, by its id, is a backbone to train: planned, trained, scored, identified."""

import json
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, ModernBertConfig

from bench.__main__ import main
from bench.models.load import load_encoder
from bench.registry import backbones
from bench.registry.backbones import Shape, backbone
from bench.results.records import read_scores
from bench.utils.errors import UserError
from tests.conftest import CLOSE, make_sentences

NAME = "answer/Modern.BERT-tiny"


@pytest.fixture(autouse=True)
def fetched():
    yield
    backbones._fetched_backbone.cache_clear()


@pytest.fixture
def modern(hub, tiny_bert, tmp_path):
    """The folder of a tiny ModernBERT, which has no dropout of its own, and which the hub has."""
    folder = tmp_path / "modern"
    shutil.copytree(tiny_bert, folder, ignore=shutil.ignore_patterns("model*", "config.json"))
    config = ModernBertConfig(
        vocab_size=len(AutoTokenizer.from_pretrained(tiny_bert)) + 8, hidden_size=32,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, initializer_range=0.15,
        max_position_embeddings=64, pad_token_id=0, bos_token_id=2, eos_token_id=3,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        AutoModel.from_config(config).save_pretrained(folder)
    hub.put(NAME, folder)
    return folder


def test_shape_dropout_and_identity_are_those_of_its_files(hub, modern, tmp_path, monkeypatch):
    found = backbone(NAME)
    assert (found.name, found.reference, found.source) == (NAME, NAME, "hub")
    assert (found.shape, found.dropout) == (Shape(32, 2, cased=False), 0)
    assert found.fingerprint == backbone(str(modern)).fingerprint
    assert hub.commit(NAME) in str(found.folder())
    # In BENCH_MODELS it is the same backbone, without a request.
    backbones._fetched_backbone.cache_clear()
    hub.requests.clear()
    shutil.copytree(modern, tmp_path / "own" / NAME)
    monkeypatch.setenv("BENCH_MODELS", str(tmp_path / "own"))
    assert backbone(NAME) == found
    assert not hub.requests


def test_it_is_planned_with_its_dropout_stated(hub, modern, tmp_path, capsys):
    suite = {
        "suite": "modern", "data": "world", "corpus": "world", "tasks": ["STS-B"], "seeds": [1],
        "backbones": {NAME: None}, "methods": ["simcse[dropout=0.1]"],
    }  # fmt: skip
    file = tmp_path / "suite.yaml"
    file.write_text(json.dumps(suite))
    assert main(["plan", "--config", str(file)]) == 0
    assert f"{NAME} has a dropout of 0 unless a run sets another" in capsys.readouterr().out
    file.write_text(json.dumps(suite | {"methods": ["simcse"]}))
    assert main(["plan", "--config", str(file)]) == 2
    assert f"'{NAME}' has no dropout" in (told := capsys.readouterr().err)
    assert "write simcse[dropout=0.1]" in told


def test_it_is_trained_and_scored(hub, modern, tiny_data, tiny_corpus, tmp_path, global_state):
    """The two views of a sentence differ, so the loss is not that of equal ones."""
    words = ["--backbone", NAME, "--corpus", str(tiny_corpus), "--data", str(tiny_data)]
    recipe = ["batch_size=8", "sentences=64", "select_every=4", "max_length=16"]
    text = "simcse[dropout=0.1]@official"
    given = ["job", "--run", text, "--seed", "1", *words, "--recipe", *recipe]
    assert main([*given, "--tasks", "STS-B", "--suite", str(tmp_path / "suite")]) == 0
    (file,) = (tmp_path / "suite" / "scores").glob("*.json")
    provenance, records = read_scores(file)
    assert provenance["backbone_commit"] == hub.commit(NAME)
    assert len(records) == 2
    log = (tmp_path / "suite" / "runs" / file.stem / "log.jsonl").read_text().splitlines()
    assert json.loads(log[0])["loss"] > 0.05
    folder = tmp_path / "suite" / "runs" / file.stem / "encoder"
    encoder, plain = load_encoder(folder), AutoModel.from_pretrained(folder).eval()
    sentences = make_sentences(4, seed=2)
    for vector, tokens in zip(encoder.encode(sentences), encoder.tokenize(sentences), strict=True):
        with torch.no_grad():
            expected = plain(torch.tensor([tokens])).last_hidden_state[0, 0].numpy()
        np.testing.assert_allclose(vector, expected, **CLOSE)


def test_an_unknown_id_is_one_sentence(hub):
    with pytest.raises(UserError, match="cannot fetch a/none: the repository does not exist"):
        backbone("a/none")
    with pytest.raises(UserError, match=r"backbone '\./a/b' is neither a local folder nor"):
        backbone("./a/b")
