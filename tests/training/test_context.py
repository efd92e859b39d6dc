"""The context of a method: vectors of a batch's views, a head, second backbones, a corpus, and
nearest rows."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bench.datasets.corpora import read_sentences
from bench.runs.paths import Files
from bench.training.context import KEYS, QUERIES, RunContext, nearest_rows
from tests.oracles.poolers import POOLED, pooled_alone
from tests.support import neighbour_rows
from tests.support.neighbour_rows import KINDS, N
from tests.support.tiny_backbones import CLOSE
from tests.support.tiny_suite import tiny_run


@pytest.fixture
def context_of(tiny_bert, tiny_corpus, tiny_data, tmp_path):
    def make(backbone=tiny_bert, **recipe):
        run = tiny_run("simcse", backbone, tiny_data, tiny_corpus, **recipe)
        context = RunContext(run, Files(tmp_path, run.data), "cpu")
        context.backbone.eval()
        return context

    return make


def test_views_are_one_interleaved_forward_pass(context_of, tiny_backbone, monkeypatch):
    """docs/reference/training.md#batches: s1, s1, s2, s2, ... in one tensor, padded to its
    longest."""
    context = context_of(tiny_backbone)
    tokenizer, model = context.tokenizer, context.backbone
    first = tokenizer(["a man", "the old dog sees two birds", "a cat"])["input_ids"]
    second = tokenizer(["a man sleeps", "the dog", "it is red"])["input_ids"]
    given_ids, plain = [], model.embeddings.forward

    def forward(**keys):
        given_ids.append(keys["input_ids"])
        return plain(**keys)

    monkeypatch.setattr(model.embeddings, "forward", forward)
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
def test_at_layer_is_the_same_pooling_and_head_of_a_lower_layer(context_of, pooler):
    context = context_of(pooler=pooler)
    texts = ["a man sleeps", "the old dog sees two birds"]
    tokens = context.tokenize(texts)
    views = context.embed([tokens, tokens])
    for place, text in enumerate(texts):
        for layer in (1, 2, 3, 4):
            plain = "cls_before_pooler" if pooler == "cls_mlp" else pooler
            model = context.backbone, context.tokenizer
            expected = torch.tensor(pooled_alone(*model, text, plain, layer))
            if pooler == "cls_mlp":
                expected = torch.tanh(F.linear(expected, *context.training_head.parameters()))
            for view in views.at_layer(layer):
                torch.testing.assert_close(view[place], expected, **CLOSE)
    assert all(map(torch.equal, views.at_layer(4), views.vectors))


@pytest.mark.parametrize(("pooler", "new"), [("cls_pooler", 0), ("cls_pooler_mlp", 1)])
def test_a_head_with_the_checkpoints_own_pooler(context_of, tiny_bert, tmp_path, pooler, new):
    """The stored pooler comes first. Source: docs/reference/training.md#vectors."""
    from transformers import AutoTokenizer, BertModel

    torch.manual_seed(5)
    model = BertModel.from_pretrained(tiny_bert, add_pooling_layer=True)
    torch.nn.init.normal_(model.pooler.dense.bias)
    model.save_pretrained(tmp_path / "stored")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path / "stored")
    context = context_of(tmp_path / "stored", pooler=pooler)
    layers = [model.pooler.dense, context_of(pooler="cls_mlp").training_head[0]][: 1 + new]
    tokens = context.tokenize(["a man sleeps"])
    expected = context.backbone(torch.tensor(tokens)).last_hidden_state[:, 0]
    for layer in layers:
        expected = layer(expected).tanh()
    torch.testing.assert_close(context.embed([tokens]).vectors[0], expected, **CLOSE)
    assert len([*context.training_head.parameters()]) == 2 + 2 * new


def test_a_pooler_that_the_checkpoint_lacks_is_random(context_of):
    """With other weights than those of the head after it."""
    weight, bias, after, _ = context_of(pooler="cls_pooler_mlp").training_head.parameters()
    assert weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert not bias.any()
    assert not torch.equal(weight, after)


def test_loss_is_computed_in_float32_under_bfloat16(context_of):
    contexts = [context_of(precision=precision) for precision in ("bfloat16", "mixed")]
    tokens = contexts[0].tokenize(["a man sleeps", "the old dog"])
    half, full = (context.embed([tokens, tokens]) for context in contexts)
    for layer in (2, 4):
        for a, b in zip(half.at_layer(layer), full.at_layer(layer), strict=True):
            assert a.dtype == b.dtype == torch.float32
            assert not torch.equal(a, b)
            torch.testing.assert_close(a, b, rtol=0.1, atol=0.01)


def test_extras_join_the_same_forward_pass_and_come_back_by_name(context_of):
    context = context_of()
    a, b, c, d = (
        context.tokenize([text, f"{text} again"])
        for text in ("a man", "the dog sleeps", "a cat", "two birds")
    )
    views = context.embed([a, b], {"one": [c], "none": [], "other": [d, a]})
    counts = {name: len(result) for name, result in views.extras.items()}
    assert counts == {"one": 1, "none": 0, "other": 2}
    result = [*views.vectors, *views.extras["one"], *views.extras["other"]]
    for vectors, rows in zip(result, (a, b, c, d, a), strict=True):
        torch.testing.assert_close(vectors, context.embed([rows]).vectors[0], **CLOSE)
    assert len(views.at_layer(2)) == 2


def test_a_pass_without_dropout(context_of):
    """It gives the vectors of eval mode, with gradient, draws no random number, and leaves a model
    in the mode in which it was."""
    context = context_of(dropout=0.3)
    tokens = context.tokenize(["a man sleeps", "the old dog"])
    expected = context.embed([tokens]).vectors[0]  # a loaded backbone is in eval mode
    context.backbone.train()
    before = torch.get_rng_state()
    (result,) = context.embed([], {"one": [tokens]}, dropout=False).extras["one"]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(result, expected)
    assert context.backbone.training
    result.sum().backward()
    assert context.backbone.embeddings.word_embeddings.weight.grad.any()
    assert not torch.allclose(context.embed([tokens]).vectors[0], expected, atol=1e-3)
    context.backbone.eval()
    context.embed([tokens], dropout=False)
    assert not context.backbone.training


def test_a_second_backbone(context_of):
    context = context_of(dropout=0.3)
    same = context.copy_backbone()
    fresh, again = (context.copy_backbone("other") for _ in range(2))
    tokens = context.tokenize(["a man sleeps"])
    with torch.no_grad():
        plain, copied, new = (
            context.embed([tokens], model=model).vectors[0] for model in (None, same, fresh.eval())
        )
    assert torch.equal(copied, plain)
    assert not torch.allclose(new, plain, atol=1e-2)
    assert all(map(torch.equal, fresh.parameters(), again.parameters()))
    assert fresh.config.hidden_dropout_prob == 0.3
    next(same.parameters()).data.zero_()
    assert next(context.backbone.parameters()).any()  # a copy is independent


def test_the_corpus_and_its_tokens(context_of, tiny_corpus):
    context = context_of(sentences=11, max_length=5)
    assert context.sentences() == read_sentences(tiny_corpus, 11)
    assert context.sentences(str(tiny_corpus)) == read_sentences(tiny_corpus)
    distinct = context_of(sentences=11, distinct=3)
    assert distinct.sentences() == read_sentences(tiny_corpus, 11, 3)
    assert distinct.sentences(str(tiny_corpus)) == read_sentences(tiny_corpus)
    assert list(context.tokens()) == context.tokenize(context.sentences(), 5)
    whole = context.tokenize(context.sentences())
    assert max(map(len, context.tokens())) == 5 < max(map(len, whole))


# Nearest rows are those of one sort of all cosines in float64, whatever the blocks and ties


def brute_force(vectors):
    """A stable sort of all cosines, rounded at 1e-12, leaves the lower row of equal ones first;
    each row itself is the last."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    units = exact / np.where(lengths > 0, lengths, 1)
    cosines = np.round(units @ units.T, 12)
    np.fill_diagonal(cosines, -2)
    return np.argsort(-cosines, axis=1, kind="stable")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("queries", "keys"), [(QUERIES, KEYS), (64, 64), (7, 41), (1, 1000)])
def test_nearest_rows_equal_brute_force(queries, keys, kind, monkeypatch):
    monkeypatch.setattr("bench.training.context.QUERIES", queries)
    monkeypatch.setattr("bench.training.context.KEYS", keys)
    expected = brute_force(neighbour_rows.rows(kind))
    for count in (1, 10, N - 1):
        result = nearest_rows(neighbour_rows.rows(kind), count)
        assert result.dtype == np.int64
        np.testing.assert_array_equal(result, expected[:, :count])


def test_ties_in_a_block_of_the_largest_size():
    """Cosines 1 and 1 - 1e-12, in 8,192 columns."""
    vectors = np.tile([1.0, 0.0], (KEYS, 1))
    vectors[::2, 1] = 1.4e-6  # a cosine of 1 - 0.98e-12 with the others
    result = nearest_rows(vectors, 3)
    assert result[4000].tolist() == [0, 2, 4]
    assert result[4001].tolist() == [1, 3, 5]
    assert result[0].tolist() == [2, 4, 6]
