"""A model is asked when it is loaded: what would give silently other vectors is refused or read.

Mutations caught: no comparison of token ids, of a batch of one, of the first state; an adapter that
is left out; a setting of sentence-transformers that our forward pass does not know.
"""

import json

import numpy as np
import pytest
import torch

from bench.models.load import Model, ModularEncoder, load_encoder
from bench.registry.backbones import backbone
from tests.support.method_runs import run_of
from tests.support.model_folders import change, refused


def edit(path, **values):
    content = json.loads(path.read_text())
    for key, value in values.items():
        content[key] = value if content.get(key) is None else content[key] | value
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("named", ["BertTokenizer", "ElectraTokenizer"])
@pytest.mark.parametrize(
    "change_file",
    [
        lambda file: edit(file, normalizer={"lowercase": False}),
        lambda file: file.write_text(
            file.read_text().replace('"BertPreTokenizer"', '"WhitespaceSplit"')
        ),
        lambda file: file.write_text(
            json.dumps(json.loads(file.read_text()) | {"post_processor": None})
        ),
    ],
    ids=["case", "pre-tokenizer", "template"],
)
def test_token_ids_are_those_of_the_file(copy, named, change_file):
    """Libraries rebuild the tokenizer of a class that tokenizer_config.json names."""
    change(copy / "tokenizer_config.json", tokenizer_class=named)
    load_encoder(copy, pooler="avg")
    change_file(copy / "tokenizer.json")
    refused(lambda: load_encoder(copy, pooler="avg"), "other token ids", str(copy))
    change(copy / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    load_encoder(copy, pooler="avg")


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    "read",
    [
        lambda folder: load_encoder(folder, pooler="avg"),
        lambda folder: backbone(str(folder)),
        lambda folder: Model(folder, "avg").check(),
    ],
    ids=["load", "backbone", "check"],
)
def test_an_adapter_is_refused(copy, alone, read):
    """Beside the weights that it changes, and alone."""
    (copy / "adapter_config.json").write_text("{}")
    if alone:
        (copy / "config.json").unlink()
        (copy / "model.safetensors").rename(copy / "adapter_model.safetensors")
    refused(lambda: read(copy), f"{copy} holds an adapter", "merge_and_unload")


def test_the_first_token_has_to_be_the_tokenizers_cls(copy):
    change(copy / "tokenizer_config.json", cls_token="[SEP]")
    refused(lambda: load_encoder(copy, pooler="cls_before_pooler"), "is not [CLS]", "avg")
    load_encoder(copy, pooler="avg")


def test_vectors_that_the_library_cuts_are_cut(copy):
    """A setting that our forward pass does not know."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    modules = [Transformer(str(copy)), Pooling(32, pooling_mode="mean")]
    made = copy.parent / "modules"
    SentenceTransformer(modules=modules, truncate_dim=16).save(str(made))
    encoder, sentences = load_encoder(made), ["The old DOG sleeps", "two birds see a cat " * 20]
    expected = SentenceTransformer(str(made)).encode(sentences)
    assert isinstance(encoder, ModularEncoder)
    np.testing.assert_allclose(encoder.encode(sentences), expected, atol=1e-5)


def test_a_blank_sentence_without_special_tokens_is_the_end_of_text(copy):
    content = json.loads((copy / "tokenizer.json").read_text())
    (copy / "tokenizer.json").write_text(json.dumps(content | {"post_processor": None}))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "[SEP]"}
    change(copy / "tokenizer_config.json", **settings)
    encoder = load_encoder(copy, pooler="avg")
    blank, end, text = encoder.encode(["", "[SEP]", "a cat"])
    np.testing.assert_array_equal(blank, end)
    assert np.isfinite(text).all()
    assert torch.tensor(encoder.tokenize([""])).tolist() == [[encoder.tokenizer.sep_token_id]]


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("simcse", True),
        ("sscl+is-cse", True),
        ("cards[switch=0]", True),
        ("simcse[dropout=0.1]", False),
        ("simcse[dropout=0]", False),  # a control
        ("simcse[delete_word=true]", False),
        ("gs-infonce", False),  # its released runs set one
        ("esimcse", False),
        ("promptbert", False),
        ("ct-bert", False),
    ],
)
def test_a_backbone_without_dropout_needs_a_rate(copy, text, is_refused):
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    change(copy / "config.json", **rates)
    if is_refused:
        refused(lambda: run_of(text, copy), "has no dropout", "[dropout=0.1], or set it")
    else:
        run_of(text, copy)
