"""CT-BERT against its oracle: loss, drawn pairs, a whole step; mutations; both copies."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import bench.training.loop
from bench.models.load import load_encoder
from bench.runs.run import Recipe
from bench.training.optimiser import learning_rate
from methods.base import Shape
from methods.ct_bert import CTBERT
from tests.methods.outside import (
    HARD,
    TOLERANCE,
    Patch,
    Runs,
    Train,
    disagreement,
    run_of,
    step,
    vectors,
)
from tests.oracles.methods import scalars
from tests.oracles.mutations import Mutation, patched
from tests.oracles.outside import tension, tension_rate, tension_rows
from tests.training.test_loop import log_of, outcome_of

GROUPS, NEGATIVES, WIDTH, SENTENCES = 3, 2, 4, 11
METHOD = CTBERT(CTBERT.Hyper(), Shape(WIDTH, 2))
STEPS = 5000  # 10 epochs of 500 batches, Training.py:55-56
GIVEN = {"batch_size": 2, "learning_rate": 1e-4}


def oracle(leaves: Sequence[Tensor]) -> Tensor:
    return tension(*([scalars(group) for group in leaf] for leaf in leaves))


def difference(kind: str, dtype: torch.dtype) -> float:
    leaves = [vectors(kind, GROUPS, NEGATIVES + 1, WIDTH, seed=seed) for seed in range(2)]
    floor = 1e-6 * {"large": 10.0, "tiny": 1e-4}.get(kind, 1.0)
    return disagreement(lambda found: METHOD.loss(*found), oracle, leaves, dtype, floor)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", ["random", *HARD])
def test_equals_oracle(kind: str, dtype: torch.dtype) -> None:
    assert difference(kind, dtype) < TOLERANCE[dtype]


def drawn(method: Any, index: int, sentences: int = SENTENCES) -> list[list[tuple[int, int]]]:
    left, right = method.pairs(sentences, step(index, range(GROUPS)))
    return [
        list(zip(*rows, strict=True)) for rows in zip(left.tolist(), right.tolist(), strict=True)
    ]


def unequal_draws(method: Any) -> bool:
    own = (GROUPS, method.hyper.negatives, SENTENCES, method.hyper.anchored)
    expected = [tension_rows(1, index, *own) for index in range(3)]
    return [drawn(method, index) for index in range(3)] != expected


@pytest.mark.parametrize("anchored", [True, False])
def test_pairs_are_those_of_the_oracle(anchored: bool) -> None:
    method = CTBERT(CTBERT.Hyper(negatives=NEGATIVES, anchored=anchored), Shape(WIDTH, 2))
    assert not unequal_draws(method)


def test_the_first_pair_is_equal_and_anchored_no_other() -> None:
    """Freely drawn pairs are equal by chance: one of three, of three sentences."""
    for anchored in (True, False):
        method, seen, equal = CTBERT(CTBERT.Hyper(anchored=anchored), Shape(WIDTH, 2)), set(), 0
        for index in range(100):
            for pairs in drawn(method, index, sentences=3):
                assert len(pairs) == 8
                assert pairs[0][0] == pairs[0][1]
                assert not anchored or len({a for a, _ in pairs}) == 1
                equal += sum(a == b for a, b in pairs[1:])
                seen.update(pairs)
        assert len(seen) == 9  # every pair of the three is drawn
        assert equal == 0 if anchored else abs(equal / (100 * GROUPS * 7) - 1 / 3) < 0.03


# Mutations


def loss(change: Callable[..., Tensor]) -> Mutation:
    return patched(CTBERT, "loss", change)


MUTATIONS: dict[str, Mutation] = {
    "sign_of_the_logit": loss(lambda plain, self, a, b: plain(self, -a, b)),
    "cosine_for_product": loss(
        lambda plain, self, a, b: plain(self, F.normalize(a, dim=-1), F.normalize(b, dim=-1))),
    "first_copy_detached": loss(lambda plain, self, a, b: plain(self, a.detach(), b)),
    "second_copy_detached": loss(lambda plain, self, a, b: plain(self, a, b.detach())),
    "positive_pair_last": loss(lambda plain, self, a, b: plain(self, a.flip(1), b.flip(1))),
    "sum_in_place_of_mean": loss(
        lambda plain, self, a, b: a.shape[0] * a.shape[1] * plain(self, a, b)),
    "mean_over_groups_alone": loss(lambda plain, self, a, b: a.shape[1] * plain(self, a, b)),
    "a_temperature": loss(lambda plain, self, a, b: plain(self, a * 1.00001, b)),
    "computed_in_float32": loss(
        lambda plain, self, a, b: plain(self, a.float(), b.float()).double()),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: Patch) -> None:
    MUTATIONS[name](None, monkeypatch)
    assert difference("random", torch.float64) > TOLERANCE[torch.float64]


@pytest.mark.parametrize("anchored", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda plain, n, s: plain(n, replace(s, index=s.index + 1)),
        lambda plain, n, s: plain(n, replace(s, index=0)),
        lambda plain, n, s: plain(n, s)[::-1],
        lambda plain, n, s: plain(n - 1, s),
        lambda plain, n, s: (plain(n, s)[0], plain(n, s)[1].roll(1, 1)),
    ],
    ids=["next step", "same step", "copies swapped", "last left out", "positive misplaced"],
)
def test_another_draw_is_caught(
    change: Callable[..., Any], anchored: bool, monkeypatch: Patch
) -> None:
    method = CTBERT(CTBERT.Hyper(negatives=NEGATIVES, anchored=anchored), Shape(WIDTH, 2))
    plain = method.pairs
    monkeypatch.setattr(method, "pairs", lambda sentences, at: change(plain, sentences, at))
    assert unequal_draws(method)


# The method


@pytest.mark.parametrize("setting", ["paper", "official"])
def test_a_step_is_the_loss_of_its_pairs(runs: Runs, setting: str) -> None:
    """The step encodes each distinct sentence once; here every pair is encoded by itself."""
    method, context, modules = runs.start(f"ct-bert[negatives=3]@{setting}")
    modules.double()
    with torch.no_grad():
        for weight in method.second.parameters():
            weight += 0.01
    corpus = context.tokens()
    rows = tension_rows(1, 4, 2, 3, len(corpus), setting == "paper")

    def vector(model: Any, row: int) -> Tensor:
        return model(input_ids=torch.tensor([corpus[row]])).last_hidden_state[0].mean(0).detach()

    left, right = (
        [scalars(torch.stack([vector(model, pair[side]) for pair in group])) for group in rows]
        for side, model in enumerate((context.backbone, method.second))
    )
    loss = method.step_loss(context, step(4, [7, 8]))
    assert loss.item() == pytest.approx(tension(left, right).item(), rel=1e-6)


def test_both_copies_learn_and_begin_as_the_backbone(runs: Runs) -> None:
    method, context, modules = runs.start("ct-bert")
    first, second = method.encoders(context)
    texts = ["a man sleeps", "the old dog"]
    assert np.array_equal(first.encode(texts), second.encode(texts))
    assert np.array_equal(first.encode(texts), context.encoder("avg").encode(texts))
    assert first.identity == second.identity
    method.step_loss(context, step(0, [0, 1])).backward()
    for model in (context.backbone, method.second):
        weights = [weight for weight in model.encoder.parameters() if weight.dim() > 1]
        assert all(weight.grad is not None and weight.grad.any() for weight in weights)
    assert (
        context.backbone.config.hidden_dropout_prob == method.second.config.hidden_dropout_prob == 0
    )
    assert second.model is method.second
    assert len([*modules.parameters()]) == 2 * len([*context.backbone.parameters()])


def test_what_the_sources_say() -> None:
    official, paper = (run_of(f"ct-bert@{setting}") for setting in ("official", "paper"))
    recipe, hyper = official.recipe, official.parts[0][2]
    assert paper.recipe == recipe
    assert recipe.batch_size * (hyper["negatives"] + 1) == 16
    assert hyper["drawn"] == STEPS * recipe.batch_size
    assert (hyper["anchored"], paper.parts[0][2]["anchored"]) == (False, True)
    assert (recipe.optimiser, recipe.epsilon, recipe.weight_decay) == ("rmsprop", 1e-7, 0)
    assert (recipe.dropout, recipe.max_length, recipe.select_every) == (0, 75, 500)


def rates_differ(recipe: Recipe) -> bool:
    found = [learning_rate(index, STEPS, recipe) for index in range(STEPS)]
    return found != pytest.approx([tension_rate(index) for index in range(STEPS)], rel=1e-9)


def test_rates_are_those_of_the_oracle() -> None:
    recipe = run_of("ct-bert").recipe
    assert not rates_differ(recipe)
    for schedule in ("0.2+0.4+0.6+0.8", "0.0998+0.2+0.3+0.4", "0.1+0.2+0.3", "constant", "linear"):
        assert rates_differ(recipe.changed(schedule=schedule)), schedule


def test_boundaries_scale_with_a_shorter_training(train_tiny: Train) -> None:
    """Ten steps have the boundaries 1, 2, 3, 4."""
    rates = [row["learning_rate"] for row in log_of(train_tiny("ct-bert[drawn=20]", **GIVEN))]
    factors = [1, 1, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2, 0.2, 0.2]
    assert rates == pytest.approx([1e-4 * factor for factor in factors], rel=1e-9)


@pytest.mark.parametrize(("scores", "place"), [([3, 4, 1, 1], 1), ([5, 4, 5, 5], 0)])
def test_the_better_copy_is_kept(
    train_tiny: Train, monkeypatch: Patch, scores: list[float], place: int
) -> None:
    states: list[dict[str, Tensor]] = []
    left = list(scores)

    def score(encoder: Any, *_: Any) -> list[dict[str, Any]]:
        states.append({name: tensor.clone() for name, tensor in encoder.model.state_dict().items()})
        return [{"task": "STS-B", "aggregation": "all", "value": left.pop(0)}]

    monkeypatch.setattr(bench.training.loop, "score_tasks", score)
    folder = train_tiny("ct-bert[drawn=8]", fresh=True, **GIVEN)
    kept = load_encoder(folder / "encoder").model.state_dict()  # type: ignore[attr-defined]
    assert all(torch.equal(kept[name], states[place][name]) for name in kept)
    assert not all(torch.equal(kept[name], states[1 - place][name]) for name in kept)


def test_without_learning_it_is_mean_pooling_bit_for_bit(
    train_tiny: Train, tiny_bert: Path
) -> None:
    folder = train_tiny("ct-bert[drawn=4]", batch_size=2, learning_rate=0.0)
    texts = ["a man sleeps", "the old dog sees two birds"]
    expected = load_encoder(tiny_bert, pooler="avg").encode(texts)
    assert np.array_equal(load_encoder(folder / "encoder").encode(texts), expected)


@pytest.mark.slow
def test_the_dev_score_is_that_of_the_better_copy(train_tiny: Train) -> None:
    ((text, (given, _)),) = TRAININGS.items()
    folder = train_tiny(text, **given)
    rows = [row for row in log_of(folder) if "dev" in row]
    scores = [row[key]["STS-B"] for row in rows for key in ("dev", "dev_2")]
    assert outcome_of(folder)["best_dev"] == max(scores)
    assert any(row["dev"] != row["dev_2"] for row in rows)


# What the tests of all methods need to know of this one (`outside.of_methods`).

OUT_OF_LIMITS = {
    "ct-bert": "negatives=-1 drawn=0",
}
TRAININGS: dict[str, tuple[dict[str, Any], int]] = {
    "ct-bert[drawn=15]": ({"batch_size": 2, "learning_rate": 1e-4}, 8),
}
