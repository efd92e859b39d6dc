"""Other architectures than BERT and RoBERTa: tiny random models are encoded as by transformers,
trained, or refused in one sentence.

Mutations caught: a T5 loaded with its decoder; positions of MPNet counted as BERT's; a rate of
dropout that is not set; a random pooler; a first token that sees no other one; vectors that depend
on padding.
"""

import math
import shutil
from functools import cache

import numpy as np
import pytest
import torch

from bench.models.encoder import TransformerEncoder
from bench.models.library import LibraryEncoder
from bench.models.load import load_encoder, save_encoder
from bench.models.transformer import load_backbone
from bench.stages.jobs import train_run
from tests.oracles.poolers import pooled_alone
from tests.support.model_folders import change, change_weights
from tests.support.refusals import refused
from tests.support.tiny_architectures import KINDS, write_architecture
from tests.support.tiny_backbones import CLOSE, LAYERS, make_sentences
from tests.support.tiny_suite import tiny_run

SCORED = [kind for kind in KINDS if kind != "bart"]
DECODERS = ("gpt2", "qwen3")
SENTENCES = make_sentences(6, seed=4)


@pytest.fixture(scope="module")
def folders(tiny_bert, tmp_path_factory):
    """The folder of a tiny model of each kind."""
    root = tmp_path_factory.mktemp("architectures")
    return cache(lambda kind: write_architecture(kind, tiny_bert, root / kind))


@cache
def plain_model(folder):
    """The encoder as transformers loads it."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder).eval()
    return getattr(model, "encoder", model) if folder.name == "t5" else model


@pytest.mark.parametrize(
    ("kind", "pooler"),
    [
        *((kind, "avg") for kind in SCORED),
        *((kind, "cls_before_pooler") for kind in SCORED if kind not in DECODERS),
    ],
)
def test_vectors_of_a_model_by_name_are_those_of_transformers(kind, pooler, folders):
    encoder = load_encoder(folders(kind), pooler=pooler)
    assert isinstance(encoder, LibraryEncoder)
    for vector, text in zip(encoder.encode(SENTENCES), SENTENCES, strict=True):
        expected = pooled_alone(plain_model(folders(kind)), encoder.tokenizer, text, pooler, LAYERS)
        np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", SCORED)
def test_vectors_of_a_backbone_are_those_of_transformers(kind, folders, tmp_path):
    encoder = TransformerEncoder.load(folders(kind), {"pooler": "avg_first_last"})
    vectors = encoder.encode(SENTENCES)  # several lengths in one batch
    save_encoder(encoder, tmp_path / "encoder")
    np.testing.assert_array_equal(load_encoder(tmp_path / "encoder").encode(SENTENCES), vectors)
    for vector, text in zip(vectors, SENTENCES, strict=True):
        model = plain_model(folders(kind))
        expected = pooled_alone(model, encoder.tokenizer, text, encoder.pooler, LAYERS)
        np.testing.assert_allclose(vector, expected, **CLOSE)


@pytest.mark.parametrize("kind", SCORED)
def test_a_long_sentence_is_cut_where_the_model_ends(kind, folders, tmp_path):
    folder = shutil.copytree(folders(kind), tmp_path / "model")
    change(folder / "tokenizer_config.json", model_max_length=int(1e30))  # none, in transformers
    long, encoder = ["dog " * 100], TransformerEncoder.load(folder, {"pooler": "avg"})
    (tokens,) = encoder.tokenize(long)
    assert len(tokens) == (102 if kind == "t5" else 64)  # T5's positions are relative
    vectors = encoder.encode(long)
    np.testing.assert_allclose(load_encoder(folder, pooler="avg").encode(long), vectors, **CLOSE)


@pytest.mark.parametrize("kind", SCORED)
def test_dropout_is_set_everywhere(kind, folders):
    def states(rate, training=True):
        model, tokenizer = load_backbone(folders(kind), dropout=rate)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(1)
            output = model.train(training)(**tokenizer(SENTENCES[0], return_tensors="pt"))
        return output.last_hidden_state

    torch.testing.assert_close(states(0.0), states(0.0, training=False), rtol=0, atol=1e-6)
    assert (states(0.5) - states(0.0)).abs().max() > 0.01


@pytest.mark.usefixtures("global_state")
@pytest.mark.parametrize("kind", SCORED)
def test_it_trains(kind, folders, tiny_data, tiny_corpus, tmp_path):
    def trained(text):
        run = tiny_run(text, folders(kind), tiny_data, tiny_corpus, dropout=0.2)
        assert (run.shape.width, run.shape.depth) == (32, 4)
        return train_run(run, tmp_path, "cpu")["outcome"]

    if kind in DECODERS:  # SimCSE's own pooler takes [CLS]
        words = "does not depend on the end of a text", "choose pooler avg, last"
        refused(lambda: trained("simcse"), *words)
    outcome = trained("simcse[pooler=avg]" if kind in DECODERS else "simcse")
    assert (outcome["status"], outcome["steps"]) == ("finished", 4)
    assert all(math.isfinite(point["loss"]) for point in outcome["curve"])


def test_an_albert_has_a_pooler_of_its_own(folders, tmp_path):
    folder = shutil.copytree(folders("albert"), tmp_path / "albert")
    change_weights(folder, lambda weights: weights | {"pooler.bias": torch.linspace(-1, 1, 32)})
    encoder = TransformerEncoder.load(folder, {"pooler": "cls"})
    for vector, tokens in zip(encoder.encode(SENTENCES), encoder.tokenize(SENTENCES), strict=True):
        with torch.no_grad():
            expected = plain_model(folder)(torch.tensor([tokens])).pooler_output[0]
        np.testing.assert_allclose(vector, expected, **CLOSE)


def test_an_encoder_with_a_decoder_is_refused(folders):
    folder = folders("bart")
    refused(lambda: load_encoder(folder, pooler="avg"), str(folder), "would be its decoder's")
