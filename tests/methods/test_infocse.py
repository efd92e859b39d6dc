"""InfoCSE: a step's loss and gradient are those of the released code; its limits, its models."""

import pytest
import torch

from tests.oracles.edits import Mutation, each, edits
from tests.support.method_cases import gradients
from tests.support.method_runs import BERT, LARGE, ROBERTA, ROWS, step, weights_of

# caskcsg/sentemb@5eeec55, InfoCSE/infocse/models_cls_mlm.py: cl_forward in float64 on this model,
# with these weights and masks; the norms of the gradients of the backbone, and of all new layers.
LOSS, NORMS = 2.5720495141118853, [144.10698672202815, 47.461418628117244]
IN_BERT = pytest.mark.parametrize("with_head", ["bert"], indirect=True)


def fill(weights):
    """Set weights by a formula; those of norms, and biases, around one half."""
    for number, weight in enumerate(weights, start=1):
        cells = torch.arange(weight.numel(), dtype=torch.float64) * number
        centre = 0.5 if weight.dim() == 1 else 0.0
        weight.detach().copy_((0.3 * cells.sin() + centre).view(weight.shape))


def masks(tokens, *_):
    """Predict every third piece between the special ones, in the manner of `masked_pieces`."""
    masked, predicted = [], []
    for place, row in enumerate(tokens):
        chosen = [j for j in range(1, len(row) - 1) if (j + place) % 3 == 0]
        predicted += [(place, j, row[j]) for j in chosen]
        masked.append([7 if j in chosen and j % 2 else piece for j, piece in enumerate(row)])
    return masked, *torch.tensor(predicted).unbind(1)


def started(headed_runs, monkeypatch):
    method, context = headed_runs.exact("infocse[weight=0.5,skip=1]")
    method.projector.train()  # the statistics of the batch
    frozen = method.frozen.model.double()
    fill([*weights_of(context), *method.parameters()])
    fill(reversed([*frozen.parameters()]))
    monkeypatch.setattr("methods.infocse.masked_pieces", masks)
    return method, context


def disagreement(method, context):
    backbone = weights_of(context)
    own = [weight for weight in method.parameters() if weight.requires_grad]
    assert len({*backbone, *own}) == len(backbone) + len(own)  # the language head is a copy
    loss, taken = gradients(method.step_loss(context, step(0, ROWS)), [*backbone, *own])
    norms = [torch.cat([gradient.flatten() for gradient in part]).norm().item()
             for part in (taken[: len(backbone)], taken[len(backbone) :])]  # fmt: skip
    pairs = zip([loss.item(), *norms], [LOSS, *NORMS], strict=True)
    return max(abs(value / wanted - 1) for value, wanted in pairs)


@IN_BERT
def test_a_step_is_the_released_codes(headed_runs, monkeypatch):
    method, context = started(headed_runs, monkeypatch)
    assert disagreement(method, context) < 1e-8
    assert not any(weight.requires_grad for weight in method.frozen.model.parameters())


MUTATIONS: dict[str, Mutation] = {
    **edits("methods.infocse:InfoCSE.reader_loss", {
        "sentences without gradient": ("torch.cat([*encoded.vectors]).unsqueeze(1)",
                                       "torch.cat([*encoded.vectors]).unsqueeze(1).detach()"),
        "another layer": ("states[self.hyper.skip][:, 1:]", "states[-1][:, 1:]"),
        "masked pieces as targets": ("context.states(masked, self.frozen.model)",
                                     "context.states(tokens, self.frozen.model)"),
    }),
}  # fmt: skip


@each(MUTATIONS)
@IN_BERT
def test_a_mutation_is_caught(mutation, headed_runs, monkeypatch):
    mutation.apply(monkeypatch)
    assert disagreement(*started(headed_runs, monkeypatch)) > 1e-6


def test_without_predicted_pieces_its_loss_is_the_contrast(headed_runs, monkeypatch):
    method, context = started(headed_runs, monkeypatch)

    def nothing(tokens, *_):
        masked, *predicted = masks(tokens)
        return masked, *(numbers[:0] for numbers in predicted)

    monkeypatch.setattr("methods.infocse.masked_pieces", nothing)
    loss = method.step_loss(context, step(0, ROWS))
    method.hyper = method.hyper.model_copy(update={"weight": 0})
    assert torch.equal(loss, method.step_loss(context, step(0, ROWS)))


@pytest.mark.parametrize("steady", [True, False])
def test_the_frozen_copy_draws_dropout_if_asked(headed_runs, steady):
    method, context, modules = headed_runs.start(f"infocse[steady={str(steady).lower()}]")
    modules.train()
    tokens = [context.tokens()[row] for row in ROWS]
    first, second = (context.states(tokens, method.frozen.model)[0][-1][:, 0] for _ in range(2))
    assert torch.equal(first, second) == steady


def test_the_layer_is_one_of_the_backbones(headed_runs):
    assert headed_runs.resolve("infocse[skip=9]").parts[0][2]["skip"] == 4


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

SHARED = {
    "batch_size": 64, "epochs": 2, "learning_rate": 7e-6, "evaluation_pooler": "cls_before_pooler",
    "weight": 1e-5, "skip": 6,
}  # fmt: skip
VALUES = []
for setting in ("official", "paper"):
    for backbone in (BERT, ROBERTA):
        VALUES.append((f"infocse@{setting}", backbone, {**SHARED, "masked": 0.4, "steady": True}))
    VALUES.append((f"infocse@{setting}", LARGE, {**SHARED, "masked": 0.3, "steady": False}))
OUT_OF_LIMITS = {"infocse": "masked=0 masked=1 weight=-1 skip=0"}
WITHOUT_EFFECT = {
    "masked": ("weight=0", 0.3, 0.6),
    "skip": ("weight=0", 1, 2),
    "steady": ("weight=0", False, True),
}
