"""ConSERT against its oracle: loss, augmented embeddings, a whole step; mutations; its corpus."""

import os
from pathlib import Path

import pytest
import torch

from bench.datasets import sts
from bench.datasets.corpora import read_sentences, sts_sentences
from bench.datasets.tasks import STS_TASKS
from bench.models.packed_forward import Batch, forward
from bench.runs import paths
from methods.base import Refusal, Shape
from methods.consert import ConSERT, augmented
from tests.oracles.edits import Mutation, each, edits
from tests.oracles.methods import named_generator
from tests.oracles.outside import cut_elements, nt_xent, permuted
from tests.support.method_cases import floor_of, unit_of
from tests.support.method_runs import (
    BERT,
    HARD,
    LARGE,
    ROBERTA,
    ROBERTA_LARGE,
    TOLERANCE,
    disagreement,
    step,
    vectors,
)


def difference(kind, dtype, t=0.1):
    method = ConSERT(ConSERT.Hyper(temperature=t), Shape(5, 2))
    leaves = [vectors(kind, 4, 5, seed=seed) for seed in range(2)]
    if kind in ("near-duplicates", "duplicates"):  # of each other, not only within a view
        leaves[1] = (leaves[0] + 1e-5 * leaves[1]).float().double()
    return disagreement(
        lambda result: method.loss(*result),
        lambda result: nt_xent(*result, t),
        leaves,
        dtype,
        floor_of(dtype, t),
        unit_of(t),
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("t", [0.1, 0.001])
@pytest.mark.parametrize("kind", ["random", *HARD])
def test_equals_oracle(kind, t, dtype):
    assert difference(kind, dtype, t) < TOLERANCE[dtype]


LOSSES: dict[str, Mutation] = {
    **edits("methods.base.contrastive:nt_xent", {
        "one_direction": (
            "F.cross_entropy(logits, partners, reduction=reduction)",
            "F.cross_entropy(logits[:len(first)], partners[:len(first)], reduction=reduction)"),
        "other_view_alone": (
            "on_diagonal(logits)",
            "torch.block_diag(*torch.ones(2, len(first), len(first))).bool()"),
        "itself_a_candidate": ("logits.masked_fill(on_diagonal(logits), -torch.inf)", "logits"),
    }),
}  # fmt: skip


@each(LOSSES)
def test_a_mutation_of_the_loss_is_caught(mutation, monkeypatch):
    mutation.apply(monkeypatch)
    assert difference("random", torch.float64) > TOLERANCE[torch.float64]


# Augmentations


def embedded(context, tokens, order, gone):
    """The embedding layer's output for one sentence; elements `gone` are zero."""
    roberta = context.backbone.config.model_type == "roberta"
    start = context.tokenizer.pad_token_id + 1 if roberta else 0
    positions = torch.tensor([[start + place for place in order]])
    output = context.backbone.embeddings(torch.tensor([tokens]), position_ids=positions)[0].clone()
    for place, k in gone:
        output[place, k] = 0
    return output


def disagreeing_embeddings(context, names, rate=0.2):
    """The largest difference between what the hooks make of a batch's embeddings and the oracle."""
    tokens = [context.tokens()[row] for row in (0, 7, 3)]
    batch = Batch.of([row for row in tokens for _ in range(2)], context.tokenizer.pad_token_id)
    views = [(name, named_generator(1, f"consert-{i}", 2)) for i, name in enumerate(names)]
    with augmented(context.backbone, [len(row) for row in tokens], views, rate):
        result = forward(context.backbone, batch)[0]
    worst = 0.0
    for place, name in enumerate(names):
        draw = named_generator(1, f"consert-{place}", 2)
        for i, row in enumerate(tokens):
            order, gone = list(range(len(row))), set()
            if name == "shuffle":
                order = permuted(len(row), draw)
            elif name != "plain":
                gone = cut_elements(name, len(row), result.shape[-1], rate, draw)
            expected = embedded(context, row, order, gone)
            worst = max(worst, (result[2 * i + place, : len(row)] - expected).abs().max().item())
    return worst


@pytest.mark.parametrize(
    "names",
    [("feature_cutoff", "shuffle"), ("token_cutoff", "dropout"), ("shuffle", "shuffle")],
)
def test_embeddings_are_augmented_as_the_oracle_says(runs, names):
    _, context = runs.exact("consert")
    assert disagreeing_embeddings(context, names) < 1e-12
    assert disagreeing_embeddings(context, names, rate=0.55) < 1e-12


@pytest.mark.parametrize(("setting", "scale"), [("paper", 1), ("official", 0.3)])
def test_a_step_is_the_loss_of_both_views(runs, setting, scale):
    text = f"consert[first=token_cutoff,second=shuffle,rate=0.4]@{setting}"
    method, context = runs.exact(text)
    rows = [0, 7, 3]
    tokens = [context.tokens()[row] for row in rows]
    noises = [
        ("token_cutoff", named_generator(1, "consert-0", 5)),
        ("shuffle", named_generator(1, "consert-1", 5)),
    ]
    with augmented(context.backbone, [len(row) for row in tokens], noises, 0.4):
        views = context.embed([tokens, tokens]).vectors
    expected = scale * nt_xent(*views, 0.1)
    torch.testing.assert_close(method.step_loss(context, step(5, rows)), expected)


def test_a_backbone_with_other_embeddings_is_refused(runs):
    method, context, _ = runs.start("consert")
    del context.backbone.embeddings.position_embeddings
    with pytest.raises(Refusal, match="the embeddings of BERT and RoBERTa"):
        method.prepare(context)


# Its corpus


def test_the_corpus_has_the_sentences_of_all_sts_sets(tiny_data, tmp_path):
    result = sts_sentences(tiny_data)
    # Five years of two subsets and three splits of two sets, 12 pairs each; an unscored pair in
    # each of the subsets.
    assert len(result) == 2 * (5 * 2 * 13 + 2 * 3 * 12)
    assert result.count("blank") == 20
    for task in STS_TASKS:
        for split in sts.SPLITS if task in ("STS-B", "SICK-R") else ("test",):
            assert set(sts.read(task, tiny_data, split).sentences()) <= set(result)
    path = paths.Files(tmp_path, str(tiny_data)).corpus("sts")
    path.write_text("stale\n")
    assert read_sentences(paths.Files(tmp_path, str(tiny_data)).corpus("sts")) == result


@pytest.mark.slow
@pytest.mark.skipif("BENCH_DATA" not in os.environ, reason="BENCH_DATA is not set")
def test_the_real_corpus_has_as_many_sentences_as_the_released_code_reads():
    assert len(sts_sentences(Path(os.environ["BENCH_DATA"]))) == 89_192


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

PUBLISHED = {
    "corpus": "sts", "batch_size": 96, "learning_rate": 5e-7, "patience": 10, "decay_biases": False,
    "epochs": 10, "select_every": 200, "dropout": 0.0,
}  # fmt: skip
PUBLISHED_LARGE = {"epochs": 25, "select_every": 100}
VALUES = []
for base in (BERT, ROBERTA):
    VALUES.append(("consert@official", base, {**PUBLISHED, "pooler": "avg", "max_length": 67}))
    VALUES.append(("consert@paper", base, {**PUBLISHED, "pooler": "avg_top2", "max_length": 64}))
for large in (LARGE, ROBERTA_LARGE):
    VALUES.append(("consert@official", large, {**PUBLISHED_LARGE, "dropout": None}))
    VALUES.append(("consert@paper", large, {**PUBLISHED_LARGE, "dropout": 0.0}))
OUT_OF_LIMITS = {
    "consert": "temperature=0 rate=1.0 rate=-0.1 scale=0 first=cutoff second=noise",
}
