"""Fewer layers and fewer dimensions: fields of the recipe, against plain transformers and plain
loops."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from bench.datasets import sts
from bench.evaluation.scoring import score_tasks
from bench.models.encoder import TransformerEncoder
from bench.models.load import load_encoder
from bench.models.transformer import load_backbone
from bench.runs.resolve import resolve
from bench.training.context import Head, RunContext, first_layers
from bench.training.loop import train
from bench.utils.errors import UserError
from bench.utils.files import read_json
from methods.projection import Affine
from tests.conftest import CLOSE
from tests.oracles.poolers import FIXED, POOLED
from tests.training.test_loop import log_of

pytestmark = pytest.mark.usefixtures("global_state")

Train = Callable[..., Path]
TEXTS = ["a man sleeps", "the old dog sees two birds on the road", "a"]
UPPER = ("encoder.layer.2.", "encoder.layer.3.")
RECIPE: dict[str, Any] = {"batch_size": 8, "learning_rate": 1e-3, "select_every": 2}


def best_dev(folder: Path) -> float:
    return read_json(folder / "outcome.json")["outcome"]["best_dev"]


def dev_score(encoder: Any, data: Path) -> float:
    (record,) = score_tasks(encoder, [sts.read("STS-B", data, "dev")])
    return record["value"]


@cache
def whole_model(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
    return model, AutoTokenizer.from_pretrained(folder)


def pooled_by_hand(folder: Path, layers: int, text: str, pooler: str) -> torch.Tensor:
    """One sentence's vector of the first layers, from the whole model as transformers has it."""
    whole, tokenizer = whole_model(folder)
    fixed = {"padding": "max_length", "max_length": FIXED[pooler]} if pooler in FIXED else {}
    inputs = tokenizer(text, return_tensors="pt", **fixed)
    with torch.no_grad():
        states = whole(**inputs, output_hidden_states=True).hidden_states
    return torch.tensor(POOLED[pooler]([state[0].tolist() for state in states[: layers + 1]]))


# Layers


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("pooler", POOLED)
def test_the_first_layers_are_those_of_the_whole_model(
    tiny_backbone: Path, layers: int, pooler: str
) -> None:
    model, tokenizer = load_backbone(tiny_backbone)
    before = TransformerEncoder(model, tokenizer, pooler).encode(TEXTS)
    cut = first_layers(model, layers)
    found = TransformerEncoder(cut, tokenizer, pooler).encode(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        expected = pooled_by_hand(tiny_backbone, layers, text, pooler)
        torch.testing.assert_close(torch.from_numpy(vector), expected, **CLOSE)
    # The whole one stays whole, and shares its weights.
    assert np.array_equal(TransformerEncoder(model, tokenizer, pooler).encode(TEXTS), before)
    weights = dict(model.named_parameters())
    assert all(tensor is weights[name] for name, tensor in cut.named_parameters())


@pytest.fixture(scope="module")
def shallow(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    [
        "simcse",
        "sscl",
        "esimcse",
        "gs-infonce+is-cse[buffer=20,neighbours=3]+sscl",
        "sscl[pooler=avg]",
    ],
)
def test_cut_before_the_training_it_is_the_training_of_a_shallower_checkpoint(
    text: str, tiny_bert: Path, shallow: Path, tiny_corpus: Path, tiny_data: Path, tmp_path: Path
) -> None:
    """Bit for bit; what depends on the depth (SSCL's layers) is that of the shallow one."""
    for name, backbone, cut in (("cut", tiny_bert, {"layers": 2}), ("own", shallow, {})):
        run = resolve(
            text,
            backbone_name=str(backbone),
            corpus=str(tiny_corpus),
            data=str(tiny_data),
            seed=1,
            recipe=RECIPE | cut,
        )
        assert run.shape.depth == 2
        train(run, tmp_path / name, tmp_path / name)
    cut_weights, own_weights = (
        load_file(tmp_path / name / "encoder" / "model.safetensors") for name in ("cut", "own")
    )
    assert cut_weights.keys() == own_weights.keys()
    assert all(torch.equal(cut_weights[name], own_weights[name]) for name in own_weights)
    assert log_of(tmp_path / "cut") == log_of(tmp_path / "own")
    loaded = load_encoder(tmp_path / "cut")
    assert loaded.identity == load_encoder(tmp_path / "own").identity
    assert read_json(tmp_path / "cut" / "encoder" / "config.json")["num_hidden_layers"] == 2


def test_cut_when_scored_the_training_goes_through_all_layers(
    train_tiny: Train, tiny_data: Path
) -> None:
    """One selection at the end, so both runs keep the same weights; what is saved is the first
    layers of them."""
    whole, cut = (
        train_tiny("simcse", select_every=100, **fields) for fields in ({}, {"scored_layers": 2})
    )
    losses = [[row["loss"] for row in log_of(folder)] for folder in (whole, cut)]
    assert losses[0] == losses[1]
    own, theirs = (load_file(folder / "encoder" / "model.safetensors") for folder in (cut, whole))
    assert own.keys() == {name for name in theirs if not name.startswith(UPPER)}
    assert all(torch.equal(own[name], theirs[name]) for name in own)
    encoder = load_encoder(cut)
    for text, vector in zip(TEXTS, encoder.encode(TEXTS), strict=True):
        expected = pooled_by_hand(whole / "encoder", 2, text, "cls_before_pooler")
        torch.testing.assert_close(torch.from_numpy(vector), expected, **CLOSE)
    assert dev_score(encoder, tiny_data) == best_dev(cut) != best_dev(whole)


def test_a_start_of_other_layers_is_refused(train_tiny: Train, tiny_bert: Path) -> None:
    with pytest.raises(UserError, match="has other layers than the backbone; name another start"):
        train_tiny(f"dclr[start={tiny_bert},pooler=cls_mlp]", layers=2, fresh=True)
    with pytest.raises(UserError, match="stores no pooler"):  # which the training head would be
        train_tiny(f"dclr[start={tiny_bert}]", fresh=True)


# Dimensions


@pytest.mark.parametrize(
    "fields", [{"dimension": 6}, {"dimension": 32}, {"dimension": 40, "scored_layers": 3}]
)
def test_scored_with_the_head(fields: dict[str, int], train_tiny: Train, tiny_data: Path) -> None:
    """tanh(W [CLS] + b) by plain loops in float64; the head that was trained, not the one it began
    with."""
    folder = train_tiny("simcse", **fields)
    encoder = load_encoder(folder)
    assert isinstance(encoder, Affine)
    assert encoder.options == {"tanh": True}
    assert dev_score(encoder, tiny_data) == best_dev(folder)
    weight, bias = (encoder.arrays[name].double().tolist() for name in ("weight", "bias"))
    found = encoder.encode(TEXTS)
    assert (found.dtype, found.shape) == (np.float32, (3, fields["dimension"]))
    for vector, cls in zip(found, encoder.base.encode(TEXTS), strict=True):
        for value, row, shift in zip(vector, weight, bias, strict=True):
            expected = math.tanh(sum(w * float(x) for w, x in zip(row, cls, strict=True)) + shift)
            assert value == pytest.approx(expected, abs=1e-6)
    start, _ = Head(32, 1, fields["dimension"]).parameters()
    assert not torch.equal(encoder.arrays["weight"], start)


def test_lower_layers_go_through_the_same_head(
    tiny_bert: Path, tiny_corpus: Path, tiny_data: Path
) -> None:
    run = resolve(
        "sscl[dimension=6]",
        backbone_name=str(tiny_bert),
        corpus=str(tiny_corpus),
        data=str(tiny_data),
        seed=1,
    )
    context = RunContext(run, tiny_bert, "cpu")
    assert (context.shape.width, context.shape.depth) == (6, 4)
    context.backbone.eval()
    tokens = context.tokenize(TEXTS)
    with torch.no_grad():
        views = context.embed([tokens, tokens])
        for layer in (2, 3, 4):
            states = [pooled_by_hand(tiny_bert, layer, text, "cls_before_pooler") for text in TEXTS]
            expected = torch.tanh(torch.stack(states) @ context.training_head[0].weight.T)  # type: ignore[index]
            for found in views.at_layer(layer):
                assert found.shape == (3, 6)
                torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize(
    "text",
    ["is-cse[buffer=20,clusters=3,group=both,neighbours=3]", "esimcse[queue=20]", "dclr@paper"],
)
def test_what_a_method_remembers_has_the_dimension(text: str, train_tiny: Train) -> None:
    folder = train_tiny(text, dimension=6, layers=3)
    assert load_encoder(folder).encode(TEXTS).shape == (3, 6)
