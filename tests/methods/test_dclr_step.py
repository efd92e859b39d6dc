"""DCLR's released code, a whole step on the tiny backbones: tokens, both models, heads and loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from methods.base import Step
from tests.methods.outside import Runs
from tests.oracles.dclr_step import released_step
from tests.oracles.methods import named_generator

pytestmark = pytest.mark.usefixtures("global_state")

PHI = 0.88  # some pairs of both tiny backbones are above it, and some below


def with_pooler(backbone: Path, folder: Path, seed: int) -> Path:
    """Save a backbone with other weights, a pooler, and no dropout."""
    from transformers import AutoModel, AutoTokenizer

    torch.manual_seed(seed)
    options = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = AutoModel.from_pretrained(backbone, add_pooling_layer=True, **options)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight.mul_(1 + seed)
        model.pooler.dense.weight.normal_()
        model.pooler.dense.bias.normal_()
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(backbone).save_pretrained(folder)
    return folder


def of_the_oracle(method: Any, context: Any, start: Path, judge: Path, rows: list[int]) -> Tensor:
    """The released loss of step 2 in float64, from the same weights."""
    from transformers import AutoModel

    model, judging = (
        AutoModel.from_pretrained(folder, add_pooling_layer=True).double().eval()
        for folder in (start, judge)
    )
    dense = [tuple(model.pooler.dense.parameters())]
    if len(context.training_head) == 4:  # two layers, each with tanh
        dense.append(tuple(context.training_head[2].parameters()))
    width = context.shape.width
    noise = torch.randn(len(rows), width, generator=named_generator(1, "dclr-noise", 2)).double()
    tokens = [context.tokens()[row] for row in rows]
    assert len(set(map(len, tokens))) > 1  # there is padding
    pad = context.tokenizer.pad_token_id
    loss, false = released_step(model, dense, judging, tokens, pad, noise, PHI)
    assert 0 < false < len(rows) * (len(rows) - 1)
    return loss


def test_a_step_of_the_released_code(runs: Runs, tmp_path: Path) -> None:
    """Padding is attended, by both models; the first token passes the checkpoint's own pooler, on
    base models below a new layer.

    Source: tests/oracles/dclr_step.py.
    """
    start, judge = (
        with_pooler(runs.backbone, tmp_path / name, seed)
        for name, seed in (("start", 1), ("judge", 2))
    )
    rows, expected = [3, 5, 8, 13, 20], {}  # number 5 is an empty line
    for pooler, padded in (
        ("cls_pooler_mlp", True),
        ("cls_pooler", True),
        ("cls_pooler_mlp", False),
        ("cls_mlp", True),
    ):
        text = f"dclr[phi={PHI},complement={judge},start={start},padded={padded}]@official"
        method, context, modules = runs.start(text, dropout=0.0, pooler=pooler)
        modules.double()
        loss = method.step_loss(context, Step(2, 10, 8, 1, rows))
        if padded and pooler != "cls_mlp":
            expected[pooler] = of_the_oracle(method, context, start, judge, rows)
            torch.testing.assert_close(loss, expected[pooler], rtol=1e-9, atol=0)
        else:  # as it was before
            assert abs(loss.item() / expected["cls_pooler_mlp"].item() - 1) > 1e-6
