"""DCLR in both forms: loss, noise and weights against an oracle; its complementary model; a step
of the released code on the tiny backbones."""

import pytest
import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from methods.base import Shape, Step, Views
from methods.dclr import DCLR, one_vs_rest
from methods.is_cse import ISCSE
from methods.simcse import SimCSE
from tests.oracles.edits import Mutation, edits
from tests.oracles.queues import DCLROracle
from tests.support.method_cases import (
    BATCH_SIZE,
    DTYPES,
    HARD,
    SOFT,
    assert_equals_oracle,
    assert_finite_with_a_zero_vector,
    build,
    by_name,
    caught,
    on_inputs,
)
from tests.support.method_runs import BERT, LARGE, ROBERTA, ROBERTA_LARGE
from tests.support.model_folders import change, change_weights, copy_with_pooler
from tests.support.queue_cases import FakeContext, QueueCase

# 4 noise vectors for a batch of 5.
SETTING = {"phi": 0.3, "noise_times": 0.8, "complement": "backbone"}
FAR = {"ascent_steps": 2, "ascent_size": 0.5}
STILL = {"ascent_steps": 0}
RELEASED = {"false_negatives": "zeroed", "loss_form": "one-vs-rest"}
SMOOTHING = {"alpha": 0.3, "start": None, "length": 10, "k": 3, "beta": 2.0, "official": False}
SMOOTH = (ISCSE, {"alpha": 0.3, "buffer": 10, "neighbours": 3, "beta": 2.0, "current_first": False})


def case(name, *parts, t=0.05, changes=None, **oracle):
    part = (DCLR, {"temperature": t, **SETTING, **(changes or {})})
    return QueueCase(name, (part, *parts), lambda: DCLROracle(t, **oracle), t)


CASES = [
    case("paper"),
    case("paper-cold", t=0.001),
    case("paper-warm", t=0.5),
    case("all-false", changes={"phi": 1e-9}, phi=1e-9),
    case("none-false", changes={"phi": 1.5}, phi=1.5),
    case("far", changes=FAR, steps=2, size=0.5),
    case("released", changes=RELEASED, released=True),
    # Its gradients of noise vectors would be 0 in float32.
    case("released-cold", t=0.001, changes=RELEASED | STILL, released=True, steps=0),
    case("released-far", changes=RELEASED | FAR, steps=2, size=0.5, released=True),
    case("dclr+is-cse", SMOOTH, smoothing=SMOOTHING),
    case("released+is-cse", SMOOTH, changes=RELEASED, released=True, smoothing=SMOOTHING),
    QueueCase("simcse+dclr", ((SimCSE, {}), (DCLR, SETTING)), DCLROracle),
]
BY_NAME = by_name(CASES)


@on_inputs(
    (CASES, SOFT),
    ([BY_NAME[name] for name in ("paper", "paper-cold", "released", "released-cold")], HARD),
    (
        [BY_NAME[name] for name in ("all-false", "far", "released-far", "dclr+is-cse")],
        ["near-duplicates", "one"],
    ),
)
def test_equals_oracle(case, kinds):
    assert_equals_oracle(case, kinds)


# Mistakes that the comparison must catch

MUTATIONS: dict[str, Mutation] = {
    **edits("methods.dclr:DCLR.weights", {
        "false_negatives_of_the_trained_vectors": (
            "paper", "~self.false",
            "(cosine(anchors, positives) < self.hyper.phi) | torch.eye(len(anchors)).bool()"),
    }),
    **edits("methods.dclr:DCLR.before_loss", {
        "own_positive_left_out": (
            "paper", "(cosines >= self.hyper.phi) & ~on_diagonal(cosines)",
            "cosines >= self.hyper.phi"),
    }),
    **edits("methods.dclr:DCLR.negatives", {
        "step_of_the_gradients_own_length": ("directions(gradient)", "gradient"),
        "released_noise_counted_by_the_full_batch": ("released", "len(anchors)", "step.batch_size"),
    }, case="paper"),
    **edits("methods.dclr:DCLR._ascent_objective", {
        "noise_rises_along_the_whole_loss": (
            "released-far",
            "logits = torch.cat([cosine(anchors, positives) / self.hyper.temperature, logits], "
            "dim=1)",
            "return self.contrast(anchors, positives, [Negatives(noise)], ~self.false)\n"
            "logits = torch.cat([logits], dim=1)"),
        "noise_rises_without_false_negatives": (
            "released-far", "[cosine(anchors, positives) / self.hyper.temperature, logits]",
            "[cosine(anchors, positives) * ~self.false / self.hyper.temperature, logits]"),
    }),
    **edits("methods.dclr:one_vs_rest", {
        "mean_over_rows_alone": (
            "released", "torch.where(is_pair, shares, torch.where(near_1, sums, complements))",
            "torch.where(is_pair, shares, torch.where(near_1, sums, complements)).sum(1)"),
    }),
    **edits("methods.dclr:DCLR.contrast", {
        "zeroed_in_place_of_removed": (
            "paper-warm", "self.hyper.false_negatives == 'zeroed'", "True"),
        "softmax_in_place_of_one_vs_rest": (
            "released", "self.hyper.loss_form == 'softmax'", "True"),
    }),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_zero_vector_gives_finite_numbers(dtype):
    for case in CASES:
        assert_finite_with_a_zero_vector(case, dtype)


test_a_mutation_is_caught = caught(MUTATIONS, CASES)


# Noise and loss


def test_in_768_dimensions_the_direction_hardly_moves():
    """Four steps of 1e-3 change vectors of norm 28 by about 1e-4: in effect plain Gaussian noise.

    Source: docs/reference/methods.md#dclr.
    """
    anchors = torch.randn(4, 768, generator=torch.Generator().manual_seed(0))
    views = Views((anchors, anchors), lambda layer: ())
    start, end = (
        build((DCLR, {"ascent_steps": steps}), shape=Shape(768, 12))
        .negatives(anchors, views, Step(0, 1, 128, 1))[0]
        .vectors
        for steps in (0, 4)
    )
    assert start.shape == (128, 768)
    moved = F.normalize(end, dim=1) - F.normalize(start, dim=1)
    assert 5e-5 < moved.norm(dim=1).mean() < 2e-4


def test_one_vs_rest_of_a_share_near_1():
    """A lost row, where 1 - p has no digits."""
    lost = torch.tensor([[0.0, 1000.0]], requires_grad=True)
    loss = one_vs_rest(lost)
    loss.backward()
    assert loss.item() == 1000.0
    torch.testing.assert_close(lost.grad, torch.tensor([[-1.0, 1.0]]))


# The complementary model


class Dropping(FakeContext):
    """A context whose complementary model has dropout, as a transformer has."""

    def states(self, tokens, model):
        (states,), mask = super().states(tokens, model)
        return [F.dropout(states, 0.5, model.training)], mask


def false_of(context, index=0, **hyper):
    method = build((DCLR, {**SETTING, **hyper}))
    method.prepare(context)
    assert not any(weight.requires_grad for weight in method.complement.model.parameters())
    method.train()
    method.before_loss(context, context.tokens(), Step(index, 6, BATCH_SIZE, 3, range(64)))
    return method.false


def test_its_dropout_is_as_asked_and_draws_from_a_stream_of_its_own():
    """Two draws of dropout (RUCAIBox/DCLR@e2c3430:simcse/models.py:617,643,681): whether i and j
    are similar is asked of i's first and j's second vector, so both orders may differ."""
    context = Dropping(torch.randn(64, 8, generator=torch.Generator().manual_seed(0)))
    still = false_of(context)
    assert torch.equal(still, false_of(FakeContext(context.backbone.vectors)))
    state = torch.get_rng_state()
    first, again, next_step = (
        false_of(context, index, complement_dropout=True) for index in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, again)
    assert not torch.equal(first, next_step)
    assert not torch.equal(first, first.T)


# A step of the released code

PHI = 0.81  # some pairs of both tiny backbones are above it, and some below


def with_pooler(backbone, folder, scale):
    """A backbone with larger embeddings, a pooler, and no dropout."""
    copy_with_pooler(backbone, folder)
    change(folder / "config.json", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    name = "embeddings.word_embeddings.weight"
    change_weights(folder, lambda weights: weights | {name: scale * weights[name]})
    return folder


def of_the_oracle(context, start, judge, rows):
    """The released loss of step 2 in float64, from the same weights; nothing masks padding
    (simcse/models.py:561-567, 571, 588-589)."""
    from transformers import AutoModel

    tokens = [torch.tensor(context.tokens()[row]) for row in rows]
    pad = context.tokenizer.pad_token_id
    ids = pad_sequence(tokens, batch_first=True, padding_value=pad)
    assert (ids == pad).any()
    first, judged = (
        AutoModel.from_pretrained(folder, add_pooling_layer=True)
        .double()
        .eval()(input_ids=ids, attention_mask=torch.ones_like(ids))
        .pooler_output
        for folder in (start, judge)
    )
    if len(context.training_head) == 4:  # two layers, each with tanh
        first = context.training_head[2](first).tanh()
    oracle = DCLROracle(phi=PHI, share=1.0, released=True, judged=judged)
    return oracle(first, first, None, index=2, total=10, seed=1)


@pytest.mark.usefixtures("global_state")
def test_a_step_of_the_released_code(runs, tmp_path):
    """Padding is attended, by both models; the first token passes the checkpoint's own pooler, on
    base models below a new layer."""
    start, judge = (
        with_pooler(runs.backbone, tmp_path / name, scale)
        for name, scale in (("start", 2), ("judge", 3))
    )
    rows = [3, 5, 8, 13, 20]  # number 5 is an empty line

    def step_of(pooler, padded=True):
        text = f"dclr[phi={PHI},complement={judge},start={start},padded={padded}]@official"
        method, context, modules = runs.start(text, dropout=0.0, pooler=pooler)
        modules.double()
        loss = method.step_loss(context, Step(2, 10, 8, 1, rows))
        assert 0 < method.false.sum() < 20
        return loss, context

    for pooler in ("cls_pooler", "cls_pooler_mlp"):
        loss, context = step_of(pooler)
        expected = of_the_oracle(context, start, judge, rows)
        torch.testing.assert_close(loss, expected, rtol=1e-9, atol=0)
    for result in (step_of("cls_pooler_mlp", padded=False), step_of("cls_mlp")):
        assert abs(result[0] / expected - 1) > 1e-6


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

PLAIN = {"pooler": "cls_mlp", "early_epsilon": False, "epsilon": 1e-8, "clip": 1.0}
RELEASED_FORM = {**PLAIN, "pooler": "cls_pooler_mlp", "early_epsilon": True}
# Gradients of the large models are averaged over four processes.
QUARTER = {"pooler": "cls_pooler", "early_epsilon": True, "epsilon": 4 * 1e-8, "clip": 4 * 1.0}
BASE = {"batch_size": 128, "epochs": 3, "learning_rate": 3e-5}
FOUR_GPUS = {"batch_size": 256, "epochs": 1}  # 64 sentences on each are one batch of 256
ALL = {"precision": "float32", "select_on": "STS-B+SICK-R"}
VALUES = [("dclr", "toy-bert", {"complement": "backbone"})]
for backbone, published, released in (
    (BERT, BASE, RELEASED_FORM),
    (ROBERTA, BASE, RELEASED_FORM),
    (LARGE, {**FOUR_GPUS, "learning_rate": 3e-5}, QUARTER),
    (ROBERTA_LARGE, {**FOUR_GPUS, "learning_rate": 1e-5}, QUARTER),
):
    VALUES.append(("dclr+is-cse@paper", backbone, {**ALL, **published, **PLAIN}))
    VALUES.append(("dclr+is-cse@official", backbone, {**ALL, **published, **released}))
OUT_OF_LIMITS = {
    "dclr": (
        "phi=0 noise_times=-1 ascent_steps=-1 ascent_size=-0.001 false_negatives=kept "
        "loss_form=hinge temperature=0"
    ),
}
WITHOUT_EFFECT = {
    "complement": ("phi=2", "backbone", "toy-bert"),
    "complement_dropout": ("phi=2", False, True),
    "ascent_steps": ("noise_times=0", 4, 1),
    "ascent_size": ("ascent_steps=0", 1e-3, 1.0),
}
