"""Fewer layers and fewer dimensions: fields of the recipe, against plain transformers and plain
loops."""

import math
from operator import mul

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from bench.models.load import load_encoder
from bench.models.transformer import load_backbone
from bench.training.loop import train
from bench.utils.errors import UserError
from methods.projection import Affine
from tests.oracles.poolers import pooled_alone
from tests.support.outcomes import assert_same_training, dev_score, log_of, outcome_of, weights_of
from tests.support.tiny_backbones import CLOSE
from tests.support.tiny_suite import tiny_run

pytestmark = pytest.mark.usefixtures("global_state")

TEXTS = ["a man sleeps", "the old dog sees two birds on the road", "a"]
UPPER = ("encoder.layer.2.", "encoder.layer.3.")


# Layers


@pytest.fixture(scope="module")
def shallow(tiny_bert, tmp_path_factory):
    """The tiny BERT's first two layers, saved as a checkpoint of its own by transformers alone."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("shallow") / "shallow-bert"
    config = BertConfig.from_pretrained(tiny_bert)
    config.num_hidden_layers = 2
    model = BertModel(config, add_pooling_layer=False)
    weights = load_file(tiny_bert / "model.safetensors")
    model.load_state_dict({name: weights[name] for name in weights if not name.startswith(UPPER)})
    model.save_pretrained(folder)
    load_backbone(tiny_bert)[1].save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    "text",
    ["esimcse", "gs-infonce+is-cse[buffer=20,neighbours=3]+sscl", "sscl[pooler=avg]"],
)
def test_cut_before_the_training_it_trains_as_a_shallower_checkpoint(
    text, tiny_bert, shallow, tiny_corpus, tiny_data, tmp_path
):
    """Bit for bit; what depends on the depth (SSCL's layers) is that of the shallow one."""
    cut, own = tmp_path / "cut", tmp_path / "own"
    for folder, backbone, fields in ((cut, tiny_bert, {"layers": 2}), (own, shallow, {})):
        run = tiny_run(text, backbone, tiny_data, tiny_corpus, **fields)
        train(run, folder, folder)
    assert_same_training(cut, own)
    assert load_encoder(cut).identity == load_encoder(own).identity


def test_cut_when_scored_the_training_goes_through_all_layers(train_tiny, tiny_data):
    """One selection at the end, so both runs keep the same weights; what is saved is the first
    layers of them."""
    whole, cut = (
        train_tiny("simcse", select_every=100, **fields) for fields in ({}, {"scored_layers": 2})
    )
    losses = [[row["loss"] for row in log_of(folder)] for folder in (whole, cut)]
    assert losses[0] == losses[1]
    weights, expected = weights_of(cut), weights_of(whole)
    assert weights.keys() == {name for name in expected if not name.startswith(UPPER)}
    assert all(torch.equal(weights[name], expected[name]) for name in weights)
    encoder, plain = load_encoder(cut), load_backbone(whole / "encoder")
    for text, vector in zip(TEXTS, encoder.encode(TEXTS), strict=True):
        expected = pooled_alone(*plain, text, "cls_before_pooler", 2)
        np.testing.assert_allclose(vector, expected, **CLOSE)
    best, of_whole = (outcome_of(folder)["best_dev"] for folder in (cut, whole))
    assert dev_score(encoder, tiny_data) == best != of_whole


def test_a_start_of_other_layers_is_refused(train_tiny, tiny_bert):
    with pytest.raises(UserError, match="has other layers than the backbone; name another start"):
        train_tiny(f"dclr[start={tiny_bert},pooler=cls_mlp]", layers=2, fresh=True)


# Dimensions


@pytest.mark.parametrize(
    "fields", [{"dimension": 6}, {"dimension": 32}, {"dimension": 40, "scored_layers": 3}]
)
def test_scored_with_the_head(fields, train_tiny, tiny_data):
    """tanh(W [CLS] + b) by plain loops in float64, of the head that was trained."""
    folder = train_tiny("simcse", **fields)
    encoder = load_encoder(folder)
    assert isinstance(encoder, Affine)
    assert encoder.options == {"tanh": True}
    assert dev_score(encoder, tiny_data) == outcome_of(folder)["best_dev"]
    weight, bias = (encoder.arrays[name].double().tolist() for name in ("weight", "bias"))
    result = encoder.encode(TEXTS)
    assert (result.dtype, result.shape) == (np.float32, (3, fields["dimension"]))
    for vector, cls in zip(result, encoder.base.encode(TEXTS).tolist(), strict=True):
        sums = [sum(map(mul, row, cls)) + shift for row, shift in zip(weight, bias, strict=True)]
        assert vector == pytest.approx([*map(math.tanh, sums)], abs=1e-6)


@pytest.mark.parametrize(
    "text",
    ["is-cse[buffer=20,clusters=3,group=both,neighbours=3]", "esimcse[queue=20]", "dclr@paper"],
)
def test_what_a_method_remembers_has_the_dimension(text, train_tiny):
    folder = train_tiny(text, dimension=6, layers=3)
    assert load_encoder(folder).encode(TEXTS).shape == (3, 6)
