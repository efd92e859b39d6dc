"""DCLR: a step of the released code (tokens, both models, heads, loss) on the tiny backbones,
and trainings with checkpoints other than the backbone's."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bench.utils.errors import UserError
from methods.base import Step
from tests.methods.outside import Runs, Train
from tests.oracles.dclr_step import released_step
from tests.oracles.methods import named_generator
from tests.training.test_loop import log_of, weights_of

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


def test_another_model_judges_or_is_gone_on_from(
    train_tiny: Train, tiny_bert: Path, tmp_path: Path
) -> None:
    """`start` replaces the backbone's weights; a complement from a folder needs a stored pooler."""
    from transformers import AutoTokenizer, BertModel

    torch.manual_seed(5)
    model = BertModel.from_pretrained(tiny_bert, add_pooling_layer=True)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight.mul_(2)
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path)
    keys: Any = {"epochs": 1, "select_every": 6}
    plain = train_tiny("dclr[phi=1.5]@paper", **keys)
    started = train_tiny(f"dclr[phi=1.5,start={tmp_path}]@paper", **keys)
    assert log_of(plain)[0]["loss"] != log_of(started)[0]["loss"]
    judged = train_tiny(f"dclr[phi=0.2,complement={tmp_path}]@paper", **keys)
    assert log_of(judged)[0]["loss"] < log_of(plain)[0]["loss"]  # fewer candidates
    assert weights_of(judged).keys() == weights_of(plain).keys()
    with pytest.raises(UserError, match="stores no pooler"):
        train_tiny(f"dclr[complement={tiny_bert}]@paper", **keys)
