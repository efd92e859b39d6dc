"""What a method is given: vectors of a batch's views, a head, second backbones, a corpus and other
Encoders."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from bench.datasets.corpora import read_sentences
from bench.runs.resolve import resolve
from bench.training.context import RunContext
from tests.conftest import CLOSE
from tests.oracles.poolers import FIXED, POOLED

Context = Callable[..., RunContext]


@pytest.fixture
def context_of(tiny_bert: Path, tiny_corpus: Path, tiny_data: Path, tmp_path: Path) -> Context:
    def make(backbone: Path = tiny_bert, corpus: Path = tiny_corpus, **recipe: Any) -> RunContext:
        run = resolve(
            "simcse",
            backbone_name=str(backbone),
            corpus=str(corpus),
            data=str(tiny_data),
            seed=1,
            recipe=recipe,
        )
        context = RunContext(run, tmp_path, "cpu")
        context.backbone.eval()
        return context

    return make


def test_views_are_one_interleaved_forward_pass(
    context_of: Context, tiny_backbone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/methods.md#batches: s1, s1, s2, s2, ... in one tensor, padded to its longest."""
    context = context_of(tiny_backbone)
    tokenizer, model = context.tokenizer, context.backbone
    first = tokenizer(["a man", "the old dog sees two birds", "a cat"])["input_ids"]
    second = tokenizer(["a man sleeps", "the dog", "it is red"])["input_ids"]
    given_ids = []
    plain = model.embeddings.forward
    monkeypatch.setattr(
        model.embeddings,
        "forward",
        lambda **keys: given_ids.append(keys["input_ids"]) or plain(**keys),
    )
    views = context.embed([first, second])
    (ids,) = given_ids
    rows = [[token for token in row.tolist() if token != tokenizer.pad_token_id] for row in ids]
    assert rows == [first[0], second[0], first[1], second[1], first[2], second[2]]
    assert ids.shape[1] == max(map(len, first + second))
    for view, tokens in zip(views.vectors, (first, second), strict=True):
        for vector, row in zip(view, tokens, strict=True):  # padding and neighbours change nothing
            alone = model(input_ids=torch.tensor([row])).last_hidden_state[:, 0]
            torch.testing.assert_close(vector, context.head(alone)[0], **CLOSE)


@pytest.mark.parametrize("pooler", ["cls_mlp", *POOLED])
def test_at_layer_is_the_same_pooling_and_head_of_a_lower_layer(
    context_of: Context, pooler: str
) -> None:
    context = context_of(pooler=pooler)
    texts = ["a man sleeps", "the old dog sees two birds"]
    tokens = context.tokenize(texts)
    views = context.embed([tokens, tokens])
    for place, text in enumerate(texts):
        fixed = {"padding": "max_length", "max_length": FIXED.get(pooler)}
        inputs = context.tokenizer(text, return_tensors="pt", **(fixed if pooler in FIXED else {}))
        states = context.backbone(**inputs, output_hidden_states=True).hidden_states
        assert len(states) == 5
        for layer in (1, 2, 3, 4):
            if pooler == "cls_mlp":
                head = context.training_head.parameters()
                expected = torch.tanh(F.linear(states[layer][0, 0], *head))
            else:
                below = [state[0].tolist() for state in states[: layer + 1]]
                expected = torch.tensor(POOLED[pooler](below))
            for view in views.at_layer(layer):
                torch.testing.assert_close(view[place], expected, **CLOSE)
    assert all(map(torch.equal, views.at_layer(4), views.vectors))


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("pooler", ["cls_pooler", "cls_pooler_mlp"])
def test_a_head_with_the_checkpoints_own_pooler(
    context_of: Context, tiny_bert: Path, tmp_path: Path, pooler: str, stored: bool
) -> None:
    """The stored pooler comes first; one that is not stored has weights N(0, 0.02) and bias 0.

    Source: docs/methods.md#vectors.
    """
    from transformers import AutoTokenizer, BertModel

    torch.manual_seed(5)
    model = BertModel.from_pretrained(tiny_bert, add_pooling_layer=True)
    torch.nn.init.normal_(model.pooler.dense.bias)
    model.save_pretrained(tmp_path / "stored")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path / "stored")
    plain = context_of(pooler="cls_mlp")
    context = context_of(tmp_path / "stored" if stored else tiny_bert, pooler=pooler)
    own, *new = [layer for layer in context.training_head if isinstance(layer, torch.nn.Linear)]
    assert torch.equal(own.weight, model.pooler.dense.weight) == stored
    assert torch.equal(own.bias, model.pooler.dense.bias) == stored
    if not stored:
        assert own.weight.std().item() == pytest.approx(0.02, rel=0.1)
        assert not own.bias.any()
        assert not torch.equal(own.weight, plain.training_head[0].weight)  # type: ignore[index]
    assert len(new) == (pooler == "cls_pooler_mlp")
    assert all(torch.equal(one.weight, plain.training_head[0].weight) for one in new)  # type: ignore[index]
    tokens = context.tokenize(["a man sleeps"])
    expected = context.backbone(torch.tensor(tokens)).last_hidden_state[:, 0]
    for layer in (own, *new):
        expected = torch.tanh(F.linear(expected, layer.weight, layer.bias))
    torch.testing.assert_close(context.embed([tokens]).vectors[0], expected, **CLOSE)


def test_loss_is_computed_in_float32_under_bfloat16(context_of: Context) -> None:
    contexts = [context_of(precision=precision) for precision in ("bfloat16", "mixed")]
    tokens = contexts[0].tokenize(["a man sleeps", "the old dog"])
    half, full = (context.embed([tokens, tokens]) for context in contexts)
    for layer in (2, 4):
        for a, b in zip(half.at_layer(layer), full.at_layer(layer), strict=True):
            assert a.dtype == b.dtype == torch.float32
            assert not torch.equal(a, b)
            torch.testing.assert_close(a, b, rtol=0.1, atol=0.01)


def test_extras_join_the_same_forward_pass_and_come_back_by_name(context_of: Context) -> None:
    context = context_of()
    a, b, c, d = (
        context.tokenize([text, f"{text} again"])
        for text in ("a man", "the dog sleeps", "a cat", "two birds")
    )
    views = context.embed([a, b], {"one": [c], "none": [], "other": [d, a]})
    assert {name: len(found) for name, found in views.extras.items()} == {
        "one": 1, "none": 0, "other": 2,
    }  # fmt: skip
    found = [*views.vectors, *views.extras["one"], *views.extras["other"]]
    for vectors, rows in zip(found, (a, b, c, d, a), strict=True):
        torch.testing.assert_close(vectors, context.embed([rows]).vectors[0], **CLOSE)
    assert len(views.at_layer(2)) == 2


def test_a_pass_without_dropout(context_of: Context) -> None:
    """It gives the vectors of eval mode, with gradient, draws no random number, and leaves a model
    in the mode in which it was."""
    context = context_of(dropout=0.3)
    tokens = context.tokenize(["a man sleeps", "the old dog"])
    expected = context.embed([tokens]).vectors[0]  # a loaded backbone is in eval mode
    context.backbone.train()
    before = torch.get_rng_state()
    (found,) = context.embed([], {"one": [tokens]}, dropout=False).extras["one"]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(found, expected)
    assert context.backbone.training
    found.sum().backward()
    assert context.backbone.embeddings.word_embeddings.weight.grad.any()
    assert not torch.allclose(context.embed([tokens]).vectors[0], expected, atol=1e-3)
    context.backbone.eval()
    context.embed([tokens], dropout=False)
    assert not context.backbone.training


def test_a_second_backbone(context_of: Context) -> None:
    context = context_of(dropout=0.3)
    same = context.copy_backbone()
    fresh, again = (context.copy_backbone("other") for _ in range(2))
    tokens = context.tokenize(["a man sleeps"])
    with torch.no_grad():
        plain, copied, other = (
            context.embed([tokens], model=model).vectors[0] for model in (None, same, fresh.eval())
        )
    assert torch.equal(copied, plain)
    assert not torch.allclose(other, plain, atol=1e-2)
    assert all(map(torch.equal, fresh.parameters(), again.parameters()))
    assert fresh.config.hidden_dropout_prob == 0.3
    next(same.parameters()).data.zero_()
    assert next(context.backbone.parameters()).any()  # a copy is independent


def test_the_corpus_and_its_tokens(context_of: Context, tiny_corpus: Path) -> None:
    context = context_of(sentences=11, max_length=5)
    assert context.sentences() == read_sentences(tiny_corpus, 11)
    assert context.sentences(str(tiny_corpus)) == read_sentences(tiny_corpus)
    assert list(context.tokens()) == context.tokenize(context.sentences(), 5)
    assert (
        max(map(len, context.tokens())) == 5 < max(map(len, context.tokenize(context.sentences())))
    )
