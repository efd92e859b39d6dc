"""PCL: the released code's losses on the same vectors, its augmentations, its limits."""

from random import Random

import pytest
import torch
from transformers import BertConfig, BertModel
from transformers.models.bert.modeling_bert import BertPooler

from methods.base import Shape, info_nce
from methods.pcl import LONGEST, PCL, augmented, delete, repeat
from tests.oracles.edits import Mutation, each, edits
from tests.support.method_cases import gradients
from tests.support.method_runs import BERT, ROBERTA, ROWS, Runs, step, weights_of
from tests.support.tiny_backbones import bert_tokenizer

# qiyuw/PeerCL@5e40ea5: get_sym_kl_loss, get_cross_denoise_loss, get_simcse_loss and get_bce_loss of
# pcl/models.py, run on `groups()` in float64, the last two of both networks; and the norm of the
# gradient of their sum with respect to each network's vectors.
SYMMETRIC, CROSSED = 1.1472333880996997, 2.0899197036341595
CONTRASTS = [10.99670191020636, 8.895160495077857]
GROUPS = [0.788255342306115, 0.7497490702091171]
NORMS = [12.08503666521614, 13.004470176183139]


def groups(dtype=torch.float64):
    """Vectors of two networks: four of each of three sentences, of width 5."""
    cells = torch.arange(2 * 4 * 3 * 5, dtype=torch.float64).view(2, 4, 3, 5)
    return (cells**2).sin().to(dtype).requires_grad_()


def disagreement(dtype=torch.float64):
    method, vectors = PCL(PCL.Hyper(), Shape(5, 4)), groups(dtype)
    own, peers = ([*network] for network in vectors)
    terms = [info_nce(own[0], own[1], 0.05), *method.group_terms(own, peers)]
    loss, (gradient,) = gradients(sum(terms), [vectors])
    wanted = SYMMETRIC + CROSSED + sum(CONTRASTS) + sum(GROUPS)
    norms = [part.norm().item() / norm for part, norm in zip(gradient, NORMS, strict=True)]
    return max(abs(value - 1) for value in (loss.item() / wanted, *norms))


def test_losses_are_the_released_codes():
    assert disagreement() < 1e-9
    assert disagreement(torch.float32) < 1e-4


MUTATIONS: dict[str, Mutation] = {
    **edits("methods.pcl:group_logits", {
        "itself among the others": ("others.flatten()[1:]", "others.flatten()[:-1]"),
        "no temperature": ("torch.cat([positives, others], dim=1) / temperature",
                           "torch.cat([positives, others], dim=1)"),
    }),
    **edits("methods.pcl:group_contrast", {
        "no softmax": ("logits.softmax(dim=1)", "logits"),
    }),
    **edits("methods.pcl:disagreement", {
        "the other direction": ("F.kl_div(first, second, reduction='none', log_target=True)",
                                "F.kl_div(second, first, reduction='none', log_target=True)"),
    }),
    **edits("methods.pcl:PCL.group_terms", {
        "within one network": ("group_logits(peers, own, temperature)", "first"),
        "the second has no contrast": ("info_nce(peers[0], peers[1], temperature)",
                                       "info_nce(own[0], own[1], temperature)"),
    }),
}  # fmt: skip


@each(MUTATIONS)
def test_a_mutation_is_caught(mutation, monkeypatch):
    mutation.apply(monkeypatch)
    assert disagreement() > 1e-6


def test_augmentations():
    """Two rounds of: all pieces in another order, reversed, a fifth fewer, a fifth more."""
    row = [101, *range(10, 20), 102]
    (shuffled,), (reverse,), (fewer,), (more,), *second = augmented([row], 2, step(0, [0]))
    assert [len(again) for (again,) in second] == [12, 12, 10, 14]
    assert second[0] != [shuffled]
    for pieces in (shuffled, reverse, fewer, more):
        assert (pieces[0], pieces[-1]) == (101, 102)
    assert sorted(shuffled) == sorted(row) != shuffled
    assert reverse[1:-1] == row[-2:0:-1]
    assert len(fewer) == 10
    assert [piece for piece in row if piece in fewer] == fewer
    assert len(more) == 14
    assert set(more) == set(row)


@pytest.mark.parametrize("change", [delete, repeat])
def test_short_and_long_sentences_are_augmented(change):
    for size in (0, 1, 2):  # a fifth of two pieces is rounded to none
        pieces = list(range(size))
        change(Random(0), pieces)
        assert len(pieces) == size
    for size in (LONGEST - 4, LONGEST - 2, LONGEST):
        pieces = list(range(size))
        change(Random(0), pieces)
        assert len(pieces) <= max(size, LONGEST - 2)


def prepared(runs, text):
    method, context = runs.exact(text)
    with torch.no_grad():
        next(method.peer.encoder.layer[0].parameters()).mul_(1.5)
    tokens = [context.tokens()[row] for row in ROWS]
    return method, context, [tokens, tokens, *augmented(tokens, 1, step(0, ROWS))]


def test_a_step_adds_the_terms_of_both_networks(runs):
    method, context, lists = prepared(runs, "pcl[rounds=1]@paper")
    own = [context.embed([rows]).vectors[0] for rows in lists]
    peers = [context.embed([rows], model=method.peer).vectors[0] for rows in lists]
    expected = info_nce(own[0], own[1], 0.05) + sum(method.group_terms(own, peers))
    loss = method.step_loss(context, step(0, ROWS))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-9)
    trained = [*method.parameters(), *weights_of(context)]
    assert len({*trained}) == len(trained)  # the second network is a copy
    assert all(gradient.any() for gradient in gradients(loss, [*method.parameters()])[1])


@pytest.mark.parametrize("pooled", [True, False])
def test_as_released_the_second_reads_padding_and_has_a_pooler(runs, pooled):
    """transformers' own pass without a mask, of which no padding is left out."""
    method, context, lists = prepared(runs, "pcl[padded=true,rounds=1]@paper")
    if pooled:  # as below 12 layers it has none
        method.hyper = method.hyper.model_copy(update={"peer_pooler": True})
        method.pooler = BertPooler(context.backbone.config).double()
    rows = [row for tokens in lists for row in tokens]
    longest, pad = max(map(len, rows)), context.tokenizer.pad_token_id
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
    states = method.peer(input_ids=ids).last_hidden_state
    first = method.pooler(states) if pooled else states[:, 0]
    result = torch.cat([*method.peer_vectors(context, lists)])
    torch.testing.assert_close(result, context.head(first), rtol=1e-9, atol=1e-9)


def test_the_pooler_is_the_checkpoints(runs, tmp_path):
    """A backbone of 12 layers that stores one."""
    folder = tmp_path / "pooled"
    config = BertConfig(vocab_size=200, hidden_size=8, num_attention_heads=2, intermediate_size=8)
    model = BertModel(config)
    model.save_pretrained(folder)
    bert_tokenizer().save_pretrained(folder)
    runs = Runs(folder, runs.corpus, runs.data, tmp_path)
    method, _, _ = runs.start("pcl")
    assert torch.equal(method.pooler.dense.weight, model.pooler.dense.weight)
    assert {*method.pooler.parameters()} < {*method.parameters()}


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

SHARED = {"learning_rate": 3e-5, "epochs": 1, "max_length": 32, "temperature": 0.05, "rounds": 2}
VALUES = [
    (f"pcl@{setting}", backbone,
     {**SHARED, "batch_size": size, "padded": padded, "peer_pooler": pooled})
    for setting, backbone, size, padded, pooled in (
        ("official", BERT, 256, True, True), ("official", ROBERTA, 256, True, False),
        ("paper", BERT, 64, False, False), ("paper", ROBERTA, 64, False, False),
    )
]  # fmt: skip
OUT_OF_LIMITS = {"pcl": "rounds=-1 peer=2"}
WITHOUT_EFFECT = {
    "peer_pooler": ("peer=false", False, True),
    "padded": ("peer=false", False, True),
}
