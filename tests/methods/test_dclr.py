"""DCLR in both forms: loss, noise and weights against an oracle; its complementary model."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import methods.dclr as dclr
from bench.utils.errors import UserError
from methods.base import Negatives, Refusal, Shape, Step, Views, cosine
from methods.dclr import DCLR, one_vs_rest
from methods.is_cse import ISCSE
from methods.simcse import SimCSE
from tests.methods.cases import BATCH_SIZE, DEPTH, TOTAL, WIDTH, Case, N, batch, is_caught, step
from tests.methods.outside import BERT, LARGE, ROBERTA, ROBERTA_LARGE, Patch, Train, run_of
from tests.methods.queue_cases import FakeContext, QueueCase, Table
from tests.oracles.mutations import Mutation, at_step, hyper, other, patched
from tests.oracles.mutations_is_cse import ingredient_forgotten, noisy, smoothing_term
from tests.oracles.queues import DCLROracle
from tests.training.test_loop import log_of, outcome_of

pytestmark = pytest.mark.usefixtures("global_state")

# 4 noise vectors for a batch of 5.
SETTING = {"phi": 0.3, "noise_times": 0.8, "complement": "backbone"}
FAR = {"ascent_steps": 2, "ascent_size": 0.5}
STILL = {"ascent_steps": 0}
RELEASED = {"false_negatives": "zeroed", "loss_form": "one-vs-rest"}
SMOOTHING = {"alpha": 0.3, "start": None, "length": 10, "k": 3, "beta": 2.0, "official": False}
SMOOTH = (ISCSE, {"alpha": 0.3, "buffer": 10, "neighbours": 3, "beta": 2.0, "current_first": False})


def case(
    name: str, *parts: Any, t: float = 0.05, changes: dict[str, Any] | None = None, **oracle: Any
) -> QueueCase:
    own = (DCLR, {"temperature": t, **SETTING, **(changes or {})})
    return QueueCase(name, (own, *parts), lambda: DCLROracle(t, **oracle), t)


CASES: dict[str, Case] = {
    one.name: one
    for one in (
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
    )
}


# Mistakes that the comparison must catch


def marked(mark: Callable[[Tensor, Tensor], Tensor]) -> Mutation:
    """Other false negatives, made of the true ones and of the diagonal."""

    def weights(self: Any, anchors: Tensor, positives: Tensor, step: Step) -> Tensor:
        return (~mark(self.false, torch.eye(len(anchors), dtype=torch.bool))).to(anchors)

    return other("weights", weights)


def of_the_trained_vectors(self: Any, anchors: Tensor, positives: Tensor, step: Step) -> Tensor:
    false = cosine(anchors, positives) >= self.hyper.phi
    return (~(false & ~torch.eye(len(anchors), dtype=torch.bool))).to(anchors)


def gradients(change: Callable[[Tensor], Tensor]) -> Mutation:
    return patched(dclr, "directions", lambda plain, gradient: change(gradient))


def uniformity(scale: Callable[[Any], float]) -> Mutation:
    def objective(self: Any, anchors: Tensor, views: Any, noise: Tensor) -> Tensor:
        return (cosine(anchors, noise) / scale(self.hyper)).logsumexp(dim=1).mean()

    return other("_ascent_objective", objective)


def the_whole_loss(self: Any, anchors: Tensor, views: Any, noise: Tensor) -> Tensor:
    positives, weights = self.pairs(views)[1].detach(), (~self.false).to(anchors)
    return self.contrast(anchors, positives, [Negatives(noise)], weights)


def weighted_cross_entropy(self: Any, anchors: Tensor, views: Any, noise: Tensor) -> Tensor:
    known = cosine(anchors, self.pairs(views)[1].detach()) * (~self.false)
    logits = torch.cat([known, cosine(anchors, noise)], dim=1) / self.hyper.temperature
    return F.cross_entropy(logits, torch.arange(len(anchors)))


def another_stream(method: Any, patch: Any) -> None:
    patch.setattr(Step, "generator", lambda self, *draw: torch.Generator().manual_seed(0))


def counted_by_the_full_batch(method: Any, patch: Any) -> None:
    times = method.hyper.noise_times * BATCH_SIZE / N
    method.hyper = method.hyper.model_copy(update={"noise_times": times})


def sigmoid(plain: Any, logits: Tensor, labels: Tensor) -> Tensor:
    targets = F.one_hot(labels, logits.shape[1]).to(logits)
    return F.binary_cross_entropy_with_logits(logits, targets)


def one_vs_rest_is(change: Callable[..., Tensor]) -> Mutation:
    return patched(dclr, "one_vs_rest", change)


MUTATIONS: dict[str, tuple[str, Mutation]] = {
    "true_negatives_left_out": ("paper", marked(lambda false, same: ~false & ~same)),
    "no_negatives_left_out": ("paper", marked(lambda false, same: torch.zeros_like(false))),
    "own_positive_left_out": ("paper", marked(lambda false, same: false | same)),
    "of_the_next_sentence": ("paper", marked(lambda false, same: false.roll(1, 1) & ~same)),
    "false_negatives_of_the_trained_vectors": ("paper", other("weights", of_the_trained_vectors)),
    "zeroed_in_place_of_removed": ("paper-warm", hyper(false_negatives="zeroed")),
    "removed_in_place_of_zeroed": ("released", hyper(false_negatives="removed")),
    "softmax_in_place_of_one_vs_rest": ("released", hyper(loss_form="softmax")),
    "ascent_downwards": ("paper", hyper(ascent_size=lambda own: -own.ascent_size)),
    "descent_of_the_released_form": ("released", hyper(ascent_size=lambda own: -own.ascent_size)),
    "one_step_fewer": ("paper", hyper(ascent_steps=lambda own: own.ascent_steps - 1)),
    "one_long_step": (
        "paper",
        hyper(ascent_steps=1, ascent_size=lambda own: own.ascent_size * own.ascent_steps)),
    "step_of_the_gradients_own_length": ("paper", gradients(lambda gradient: gradient)),
    "one_length_for_all_gradients": (
        "paper", gradients(lambda gradient: gradient / gradient.norm())),
    "noise_rises_along_its_uniformity": ("released-far", uniformity(lambda own: own.temperature)),
    "noise_rises_along_the_whole_loss": (
        "released-far", other("_ascent_objective", the_whole_loss)),
    "noise_rises_without_false_negatives": (
        "released-far", other("_ascent_objective", weighted_cross_entropy)),
    "uniformity_without_temperature": ("far", uniformity(lambda own: 1.0)),
    "another_stream": ("paper", another_stream),
    "noise_counted_by_the_batch_at_hand": (
        "paper", at_step(batch_size=lambda step, anchors: len(anchors))),
    "released_noise_counted_by_the_full_batch": ("released", counted_by_the_full_batch),
    "released_noise_counted_by_rounding_up": ("released", hyper(noise_times=1.0)),
    "temperature_multiplied": ("paper", hyper(temperature=lambda own: 1 / own.temperature)),
    "mean_over_rows_alone": (
        "released",
        one_vs_rest_is(lambda plain, logits, labels: plain(logits, labels) * logits.shape[1])),
    "positives_alone": (
        "released",
        one_vs_rest_is(lambda plain, logits, labels:
                       F.cross_entropy(logits, labels) * len(logits) / logits.numel())),
    "sigmoid_in_place_of_softmax": ("released", one_vs_rest_is(sigmoid)),
    "ingredient_forgotten": ("dclr+is-cse", ingredient_forgotten),
    "noise_in_the_smoothing_term_too": ("dclr+is-cse", smoothing_term(noisy)),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: Patch) -> None:
    case, mutate = MUTATIONS[name]
    assert is_caught(CASES[case], mutate, monkeypatch, ("random", "close"))


# Noise and loss


def built(**hyper: Any) -> DCLR:
    return DCLR(DCLR.Hyper(**{**SETTING, **hyper}), Shape(WIDTH, DEPTH))


def noise_of(method: DCLR, index: int = 0, seed: int = 3) -> torch.Tensor:
    anchors = batch("random", index).views[0]
    views = Views((anchors, anchors), lambda layer: ())
    (group,) = method.negatives(anchors, views, Step(index, TOTAL, BATCH_SIZE, seed))
    assert not group.vectors.requires_grad
    return group.vectors


def test_noise_rises_by_steps_of_the_given_length() -> None:
    start, one, four = (noise_of(built(ascent_steps=steps)) for steps in (0, 1, 4))
    torch.testing.assert_close(
        (one - start).norm(dim=1), torch.full((4,), 1e-3, dtype=torch.float64)
    )
    assert ((four - start).norm(dim=1) <= 4.0001e-3).all()
    anchors = batch("random", 0).views[0]
    uniformity = [
        (cosine(anchors, noise) / 0.05).logsumexp(1).mean().item() for noise in (start, one, four)
    ]
    assert uniformity == sorted(uniformity)


def test_in_768_dimensions_the_direction_hardly_moves() -> None:
    """Four steps of 1e-3 change vectors of norm 28 by about 1e-4: in effect plain Gaussian noise.

    Source: docs/methods.md#dclr.
    """
    shape, anchors = Shape(768, 12), torch.randn(4, 768, generator=torch.Generator().manual_seed(0))
    views = Views((anchors, anchors), lambda layer: ())
    methods = [DCLR(DCLR.Hyper(ascent_steps=steps), shape) for steps in (0, 4)]
    step = Step(0, 1, 128, 1)
    start, end = (one.negatives(anchors, views, step)[0].vectors for one in methods)
    assert start.shape == (128, 768)
    moved = F.normalize(end, dim=1) - F.normalize(start, dim=1)
    assert 5e-5 < moved.norm(dim=1).mean() < 2e-4


def test_noise_is_fresh_each_step() -> None:
    method = built()
    assert torch.equal(noise_of(method), noise_of(method))
    assert not torch.equal(noise_of(method), noise_of(method, index=1))
    assert not torch.equal(noise_of(method), noise_of(method, seed=4))


def test_one_vs_rest_by_hand() -> None:
    """Shares 1/2, 1/4, 1/4: -log of 1/2, 3/4, 3/4; and a lost row, where 1 - p has no digits."""
    logits = torch.tensor([[2.0, 1.0, 1.0]], dtype=torch.float64).log()
    expected = torch.tensor([2.0, 4 / 3, 4 / 3]).log().mean().item()
    assert one_vs_rest(logits, torch.tensor([0])).item() == pytest.approx(expected)
    lost = torch.tensor([[0.0, 1000.0]], requires_grad=True)
    loss = one_vs_rest(lost, torch.tensor([0]))
    loss.backward()
    assert loss.item() == 1000.0
    torch.testing.assert_close(lost.grad, torch.tensor([[-1.0, 1.0]]))


@pytest.mark.parametrize("false_negatives", ["removed", "zeroed"])
@pytest.mark.parametrize("loss_form", ["softmax", "one-vs-rest"])
def test_only_the_positive_left_costs_nothing(false_negatives: str, loss_form: str) -> None:
    """No noise, all negatives false: both losses are 0 where they are removed, and finite."""
    method = built(noise_times=0.0, false_negatives=false_negatives, loss_form=loss_form)
    method.false = ~torch.eye(2, dtype=torch.bool)
    leaves = batch("two", 0).leaves(torch.float64)
    loss = method.loss(Views(leaves[:2], lambda layer: ()), step(0))
    gradients = torch.autograd.grad(loss, leaves[:2])
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    assert (loss.item() == 0) == (false_negatives == "removed")


# The complementary model


class Dropping(FakeContext):
    """Its complementary model has dropout, as a transformer has."""

    def states(self, tokens: Any, model: Any) -> Any:
        (states,), mask = super().states(tokens, model)
        return [F.dropout(states, 0.5, model.training)], mask


def false_of(method: DCLR, context: FakeContext, index: int = 0) -> torch.Tensor:
    method.prepare(context)
    method.train()
    assert method.extras(context.tokens(), Step(index, TOTAL, BATCH_SIZE, 3, range(64))) == ()
    assert method.false is not None
    return method.false


def test_false_negatives_are_those_of_phi_or_more() -> None:
    points = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.6, 0.8], [-1.0, 0.0]], dtype=torch.float64)
    expected = torch.zeros(4, 4, dtype=torch.bool)
    expected[0, 1] = expected[1, 0] = True
    assert torch.equal(false_of(built(phi=0.9), FakeContext(points)), expected)
    expected[0, 2] = expected[1, 2] = expected[2, 0] = expected[2, 1] = True
    assert torch.equal(false_of(built(phi=0.6 - 1e-9), FakeContext(points)), expected)


def test_its_dropout_is_as_asked_and_draws_from_a_stream_of_its_own() -> None:
    points = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    still = false_of(built(), Dropping(points))
    assert torch.equal(still, false_of(built(), FakeContext(points)))
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    first = false_of(built(complement_dropout=True), Dropping(points))
    assert torch.equal(torch.rand(3), expected)
    assert not torch.equal(first, still)
    assert torch.equal(first, false_of(built(complement_dropout=True), Dropping(points)))
    assert not torch.equal(
        first, false_of(built(complement_dropout=True), Dropping(points), index=1)
    )


def test_with_dropout_it_encodes_both_views() -> None:
    """Two draws of dropout (RUCAIBox/DCLR@e2c3430:simcse/models.py:617,643,681): whether i and j
    are similar is asked of i's first and j's second vector, so both orders may differ."""
    points = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    false = false_of(built(complement_dropout=True), Dropping(points))
    assert not torch.equal(false, false.T)
    same = false_of(built(), Dropping(points))
    assert torch.equal(same, same.T)


def test_the_complementary_model_is_not_trained() -> None:
    method = built()
    method.prepare(FakeContext(torch.zeros(N, WIDTH)))
    assert not any(weight.requires_grad for weight in method.parameters())
    assert list(method.parameters())


def test_without_weights_there_is_no_complementary_model() -> None:
    method = built(phi=1.5)
    method.prepare(FakeContext(torch.zeros(N, WIDTH)))
    assert method.complement is None
    assert method.extras([[0]], step(0)) == ()
    assert method.weights(torch.ones(1, WIDTH), torch.ones(1, WIDTH), step(0)) is None


def test_a_complementary_model_of_another_vocabulary_is_refused() -> None:
    """It reads the batch's word pieces, as the released code has it."""

    def encoder(*words: str) -> Any:
        return SimpleNamespace(
            tokenizer=SimpleNamespace(get_vocab=lambda: words), model=Table(torch.zeros(N, WIDTH))
        )

    context = FakeContext(torch.zeros(N, WIDTH))
    context.tokenizer = encoder("a", "b").tokenizer
    for words in (("a", "b"), ("a", "c")):
        context.load_encoder = lambda model, pooler, words=words: encoder(*words)
        if words == ("a", "b"):
            built(complement="a/model").prepare(context)
        else:
            with pytest.raises(Refusal, match="another vocabulary"):
                built(complement="a/model").prepare(context)


def test_state_is_stored_and_restored() -> None:
    """It remembers the complementary model alone."""
    method, copy = built(), built()
    context = FakeContext(batch("random", 0).views[0])
    method.prepare(context)
    copy.prepare(FakeContext(batch("random", 1).views[0]))
    copy.load_state_dict(method.state_dict())
    losses = []
    for one in (method, copy):
        one.extras(context.tokens(), step(2))
        losses.append(one.loss(Views(batch("random", 2).views, lambda layer: ()), step(2)))
    assert torch.equal(*losses)


# Settings


def test_a_small_backbone_is_its_own_complement(tiny_bert: Path) -> None:
    for text, found in {"": "backbone", "[complement=somewhere/else]": "somewhere/else"}.items():
        assert run_of(f"dclr{text}", tiny_bert).parts[0][2]["complement"] == found


def test_the_released_loss_cannot_join_another_method(tiny_bert: Path) -> None:
    with pytest.raises(UserError, match="is set by the method written first"):
        run_of("gs-infonce+dclr@official", tiny_bert)
    (_, _, hyper) = run_of("gs-infonce+dclr@paper", tiny_bert).parts[1]
    assert not {"false_negatives", "loss_form", "start"} & set(hyper)


def test_weighted_negatives_of_other_parts_stand_in_the_released_loss() -> None:
    """A weight is a summand log w of the logit, as in the formula."""
    method = built(**RELEASED, noise_times=0.0)
    anchors, positives = batch("random", 0).views
    vector = batch("random", 1).views[0][:1]
    rows = torch.cat([cosine(anchors, positives), cosine(anchors, vector)], dim=1) / 0.05
    rows[:, N] += torch.tensor(2.0).log()
    expected = one_vs_rest(rows, torch.arange(N))
    twice = torch.full((N, 1), 2.0).double()
    for group in (Negatives(vector, weight=2.0), Negatives(vector, weights=twice)):
        torch.testing.assert_close(method.contrast(anchors, positives, [group], None), expected)


# Trainings


def test_is_cse_joins_it(train_tiny: Train) -> None:
    smoothing = "is-cse[buffer=20,neighbours=3]"
    for setting in ("paper", "official"):
        plain, joined = (
            train_tiny(f"{text}@{setting}", epochs=1) for text in ("dclr", f"dclr+{smoothing}")
        )
        assert outcome_of(joined)["status"] == "finished"
        losses = [[row["loss"] for row in log_of(folder)] for folder in (plain, joined)]
        assert losses[0][0] == losses[1][0]  # the memory is empty
        assert losses[0] != losses[1]


# What the tests of all methods need to know of this one (`outside.of_methods`).

PLAIN = {
    "start": None, "padded": False, "complement_dropout": False, "loss_form": "softmax",
    "pooler": "cls_mlp", "early_epsilon": False, "epsilon": 1e-8, "clip": 1.0,
}  # fmt: skip
PRINCETON = "princeton-nlp/unsup-simcse-"
PUBLISHED = {
    "batch_size": 128, "epochs": 3, "learning_rate": 3e-5, "phi": 0.9, "noise_times": 1.0,
    "complement": PRINCETON + BERT, "precision": "float32", "select_on": "STS-B+SICK-R",
}  # fmt: skip
PUBLISHED_ROBERTA = {
    **PUBLISHED,
    "phi": 0.85,
    "noise_times": 2.5,
    "complement": PRINCETON + ROBERTA,
}
RELEASED_FORM = {
    **PLAIN, "padded": True, "complement_dropout": True, "loss_form": "one-vs-rest",
    "pooler": "cls_pooler_mlp", "early_epsilon": True,
}  # fmt: skip
FOUR_GPUS = {"batch_size": 256, "epochs": 1}  # 64 sentences on each are one batch of 256
# Gradients of the large models are averaged over four processes.
QUARTER = {"pooler": "cls_pooler", "epsilon": 4 * 1e-8, "clip": 4 * 1.0}
VALUES: list[tuple[str, str, dict[str, Any]]] = [
    *((f"dclr+is-cse@{setting}", backbone,
       values | (RELEASED_FORM | released if setting == "official" else PLAIN))
      for setting in ("official", "paper")
      for backbone, values, released in (
          (BERT, PUBLISHED, {}),
          (ROBERTA, PUBLISHED_ROBERTA, {}),
          (LARGE, {**PUBLISHED, **FOUR_GPUS, "noise_times": 3.0},
           {**QUARTER, "start": PRINCETON + LARGE}),
          (ROBERTA_LARGE,
           {**PUBLISHED_ROBERTA, **FOUR_GPUS, "learning_rate": 1e-5, "noise_times": 5.0},
           {**QUARTER, "start": PRINCETON + ROBERTA_LARGE}),
      )),
]  # fmt: skip
OUT_OF_LIMITS = {
    "dclr": (
        "phi=0 noise_times=-1 ascent_steps=-1 ascent_size=-0.001 false_negatives=kept "
        "loss_form=hinge temperature=0"
    ),
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "complement": ("phi=2", "backbone", "toy-bert"),
    "complement_dropout": ("phi=2", False, True),
    "ascent_steps": ("noise_times=0", 4, 1),
    "ascent_size": ("ascent_steps=0", 1e-3, 1.0),
}
TRAININGS: dict[str, tuple[dict[str, Any], int]] = {
    "dclr@official": ({"epochs": 1}, 6),
    "dclr@paper": ({"epochs": 1}, 6),
}
