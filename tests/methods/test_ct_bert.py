"""CT-BERT against its oracle: loss, drawn pairs, a whole step; both copies."""

import numpy as np
import pytest
import torch

from bench.models.load import load_encoder
from bench.training.optimiser import learning_rate
from methods.base import Shape
from methods.ct_bert import CTBERT
from tests.oracles.outside import tension, tension_rate, tension_rows
from tests.support.method_runs import BERT, HARD, TOLERANCE, disagreement, run_of, step, vectors
from tests.support.outcomes import script_dev

GROUPS, NEGATIVES, WIDTH, SENTENCES = 3, 2, 4, 11
STEPS = 5000  # 10 epochs of 500 batches, Training.py:55-56


def build(**hyper):
    return CTBERT(CTBERT.Hyper(negatives=NEGATIVES, **hyper), Shape(WIDTH, 2))


def difference(kind, dtype):
    return disagreement(
        lambda leaves: build().loss(*leaves),
        lambda leaves: tension(*leaves),
        [vectors(kind, GROUPS, NEGATIVES + 1, WIDTH, seed=seed) for seed in range(2)],
        dtype,
        floor=1e-6 * {"large": 10.0, "tiny": 1e-4}.get(kind, 1.0),
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", ["random", *HARD])
def test_equals_oracle(kind, dtype):
    assert difference(kind, dtype) < TOLERANCE[dtype]


@pytest.mark.parametrize("anchored", [True, False])
def test_pairs_are_those_of_the_oracle(anchored):
    for index in range(3):
        drawn = build(anchored=anchored).pairs(SENTENCES, step(index, range(GROUPS)))
        expected = tension_rows(1, index, GROUPS, NEGATIVES, SENTENCES, anchored)
        assert torch.equal(torch.stack(drawn, dim=2), torch.tensor(expected))


# The method


@pytest.mark.parametrize("setting", ["paper", "official"])
def test_a_step_is_the_loss_of_its_pairs(runs, setting):
    """The step encodes each distinct sentence once; here every pair is encoded by itself."""
    method, context, modules = runs.start(f"ct-bert[negatives=3]@{setting}")
    modules.double()
    with torch.no_grad():
        for weight in method.second.parameters():
            weight += 0.01
    corpus, vectors = context.tokens(), []
    pairs = torch.tensor(tension_rows(1, 4, 2, 3, len(corpus), setting == "paper"))
    for rows, model in zip(pairs.unbind(2), (context.backbone, method.second), strict=True):
        tokens = [corpus[row] for row in rows.flatten().tolist()]
        vectors.append(context.embed([tokens], model=model).vectors[0].unflatten(0, rows.shape))
    loss = method.step_loss(context, step(4, [7, 8]))
    torch.testing.assert_close(loss, tension(*vectors))


def test_both_copies_learn_and_begin_as_the_backbone(runs):
    method, context, _ = runs.start("ct-bert")
    vectors = [encoder.encode(["the old dog"]) for encoder in method.encoders(context)]
    assert np.array_equal(*vectors)
    method.step_loss(context, step(0, [0, 1])).backward()
    for model in (context.backbone, method.second):
        weights = [weight for weight in model.encoder.parameters() if weight.dim() > 1]
        assert all(weight.grad.any() for weight in weights)
        assert model.config.hidden_dropout_prob == 0


def test_rates_are_those_of_the_oracle():
    recipe = run_of("ct-bert").recipe
    result = [learning_rate(index, STEPS, recipe) for index in range(STEPS)]
    assert result == pytest.approx([tension_rate(index) for index in range(STEPS)], rel=1e-9)


@pytest.mark.parametrize(("scores", "place"), [([3, 4, 1, 1], 1), ([5, 4, 5, 5], 0)])
def test_the_better_copy_is_kept(train_tiny, monkeypatch, scores, place):
    states = []
    script_dev(monkeypatch, scores, states)
    folder = train_tiny("ct-bert[drawn=8]", fresh=True, batch_size=2, learning_rate=1e-4)
    kept = load_encoder(folder / "encoder").model.state_dict()
    assert all(torch.equal(kept[name], states[place][name]) for name in kept)
    assert not all(torch.equal(kept[name], states[1 - place][name]) for name in kept)


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

PUBLISHED = {
    "batch_size": 2, "optimiser": "rmsprop", "epsilon": 1e-7,
    "weight_decay": 0, "dropout": 0, "max_length": 75, "select_every": 500,
}  # fmt: skip
VALUES = [
    ("ct-bert@official", BERT, PUBLISHED),
    ("ct-bert@paper", BERT, PUBLISHED),
]
OUT_OF_LIMITS = {
    "ct-bert": "negatives=-1 drawn=0",
}
