"""ModernBERT's packed forward pass against transformers' own padded code.

Mutations caught: every layer global, or none; positions turned the other way or with one base for
both kinds of layers; a window that is one token narrower; the last norm left out or added to an
earlier layer; values and gates exchanged; a place of dropout left out; gradients of what is far
that are no numbers.
"""

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from bench.models.packed_forward import Batch, forward, forward_flop, is_packed
from tests.models.test_packed_forward import (
    PAD,
    UNDRAWN,
    Lengths,
    assert_equal_where_real,
    drawn_tokens,
    likeness,
    padded_states,
)

CLOSE = 1e-5  # of the largest state; float32, in which rotary positions are computed in any case
SITES = ("embeddings", "attention", "joined", "inside")


def made(local_attention: int) -> Any:
    """A ModernBERT of 4 layers, the middle two of them local, with all weights moved."""
    from transformers import ModernBertConfig, ModernBertModel

    config = ModernBertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=4, num_attention_heads=4,
        intermediate_size=48, max_position_embeddings=64, local_attention=local_attention,
        pad_token_id=PAD, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3,
        norm_bias=True, attention_bias=True, mlp_bias=True,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(3)
        model = ModernBertModel(config).eval()
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape)
    assert is_packed(model)
    return model


@pytest.fixture(scope="module", params=[4, 128], ids=["a narrow window", "a window over all"])
def model(request: pytest.FixtureRequest) -> Any:
    return made(request.param)


def with_dropout(model: Any, **rates: float) -> Any:
    """A copy in training mode with these rates of `SITES`; 0 where not named."""
    model = copy.deepcopy(model).train()
    model.embeddings.drop.p = rates.get("embeddings", 0.0)
    for layer in model.layers:
        layer.attn.attention_dropout = rates.get("attention", 0.0)
        layer.attn.out_drop = torch.nn.Dropout(rates.get("joined", 0.0))
        layer.mlp.drop.p = rates.get("inside", 0.0)
    return model


@pytest.mark.parametrize("drops", [False, True], ids=["evaluation", "training"])
def test_states_equal_the_padded_model(model: Any, drops: bool) -> None:
    packed = with_dropout(model, **dict.fromkeys(SITES, UNDRAWN)) if drops else model

    @settings(max_examples=12)
    @given(Lengths, st.integers(0, 9))
    @torch.no_grad()
    def check(lengths: list[int], seed: int) -> None:
        batch = Batch.of(drawn_tokens(lengths, seed), PAD)
        theirs = padded_states(model, batch)
        assert_equal_where_real(forward(packed, batch), theirs, batch, CLOSE)
        part = forward(packed, batch, first_only=True)
        assert_equal_where_real(part[:-1], theirs[:-1], batch, CLOSE)
        close = {"rtol": 0.0, "atol": CLOSE * float(theirs[-1].abs().max())}
        torch.testing.assert_close(part.first(-1), theirs[-1][:, 0], **close)

    check()


@pytest.mark.parametrize("drops", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("first_only", [False, True], ids=["whole", "first token"])
def test_gradients_equal_the_padded_model(model: Any, first_only: bool, drops: bool) -> None:
    """Also with padding so far behind the tokens that a local layer sees none of them."""
    batch = Batch.of(drawn_tokens([12, 1, 5]), PAD)
    packed = with_dropout(model, **dict.fromkeys(SITES, UNDRAWN)) if drops else model
    theirs, ours = padded_states(model, batch), forward(packed, batch, first_only=first_only)
    expected = theirs[-1][:, 0] if first_only else theirs[-1][batch.mask.bool()]
    found = ours.first(-1) if first_only else ours[-1][batch.mask.bool()]
    pairs = zip(
        torch.autograd.grad(found.pow(3).sum(), list(packed.parameters())),
        torch.autograd.grad(expected.pow(3).sum(), list(model.parameters())),
        strict=True,
    )
    for mine, own in pairs:
        close = {"rtol": 0.0, "atol": 10 * CLOSE * float(own.abs().max())}
        torch.testing.assert_close(mine, own, **close)


@torch.no_grad()
def test_position_ids_turn_queries_and_keys(model: Any) -> None:
    batch = Batch.of(drawn_tokens([6, 3]), PAD)
    positions = torch.tensor([[9, 4, 7, 1, 0, 30]]).repeat(2, 1)
    theirs = padded_states(model, batch, position_ids=positions)
    assert_equal_where_real(forward(model, batch, position_ids=positions), theirs, batch, CLOSE)
    assert float((theirs[-1] - padded_states(model, batch)[-1]).abs().max()) > 0.01


@pytest.mark.parametrize("sites", [*((site,) for site in SITES), SITES], ids=" ".join)
def test_dropout_has_the_padded_models_distribution(
    global_state: None, sites: tuple[str, ...]
) -> None:
    model = made(128)
    dropping = with_dropout(model, **dict.fromkeys(sites, 0.1))
    assert min(likeness(dropping, False)) > 0.001
    if len(sites) == 1:  # and is noticed if it is left out
        assert min(likeness(dropping, False, with_dropout(model))) < 1e-6


@pytest.mark.parametrize("first_only", [False, True], ids=["whole", "first token"])
def test_work_equals_the_flop_that_torch_counts(first_only: bool) -> None:
    model = with_dropout(made(128), attention=UNDRAWN)  # attention is matrix products then
    with FlopCounterMode(display=False) as counter:
        forward(model, Batch.of(drawn_tokens([7]), PAD), first_only=first_only)
    assert forward_flop(model.config, [7], first_only) == counter.get_total_flops()
