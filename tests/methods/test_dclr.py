"""DCLR in both forms: loss, noise and weights against an oracle; its complementary model; its
trainings."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import methods.dclr as dclr
from bench.datasets import sts
from bench.evaluation.scoring import score_tasks
from bench.models.load import load_encoder
from bench.runs.resolve import resolve
from bench.utils.errors import UserError
from methods.base import Negatives, Refusal, Shape, Step, Views, compose, cosine
from methods.dclr import DCLR, one_vs_rest
from methods.is_cse import ISCSE
from methods.simcse import SimCSE
from tests.methods.cases import (
    BATCH_SIZE,
    DEPTH,
    DTYPES,
    HARD,
    TOTAL,
    WIDTH,
    Case,
    N,
    batch,
    disagreement,
    method_step,
    step,
    tolerance,
)
from tests.methods.queue_cases import FakeContext, QueueCase, Table
from tests.oracles.mutations import Mutation, override, set_hyper
from tests.oracles.queues import DCLROracle
from tests.training.test_loop import assert_same_training, log_of, outcome_of, weights_of

pytestmark = pytest.mark.usefixtures("global_state")

SETTING = {
    "phi": 0.3,
    "noise_times": 0.8,
    "complement": "backbone",
}  # 4 noise vectors for a batch of 5
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
        case("far", changes={"ascent_steps": 2, "ascent_size": 0.5}, steps=2, size=0.5),
        case("released", changes=RELEASED, released=True),
        case("released-cold", t=0.001, changes=RELEASED, released=True),
        case(
            "released-far",
            changes={**RELEASED, "ascent_steps": 2, "ascent_size": 0.5},
            steps=2,
            size=0.5,
            released=True,
        ),
        case("dclr+is-cse", SMOOTH, smoothing=SMOOTHING),
        case("released+is-cse", SMOOTH, changes=RELEASED, released=True, smoothing=SMOOTHING),
        QueueCase("simcse+dclr", ((SimCSE, {}), (DCLR, SETTING)), DCLROracle),
    )
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *itertools.product(CASES, ["random", "close"]),
        *itertools.product(["paper", "paper-cold", "released", "released-cold"], HARD),
        *itertools.product(
            ["all-false", "far", "released-far", "dclr+is-cse"], ["near-duplicates", "one"]
        ),
    ],
)
def test_equals_oracle(name: str, kind: str) -> None:
    for dtype, difference in disagreement(CASES[name], kind, dtypes=DTYPES).items():
        assert difference < tolerance(kind, dtype), dtype


# Mistakes that the comparison must catch

MUTATIONS: dict[str, tuple[str, Mutation]] = {}


def mutation(case_name: str) -> Callable[[Mutation], Mutation]:
    def register(mutate: Mutation) -> Mutation:
        MUTATIONS[mutate.__name__] = (case_name, mutate)
        return mutate

    return register


def marked(method: Any, mark: Callable[[torch.Tensor], torch.Tensor]) -> None:
    override(
        method, "weights", lambda self, anchors, positives, step: (~mark(self.false)).to(anchors)
    )


@mutation("paper")
def true_negatives_left_out(method: Any, patch: Any) -> None:
    marked(method, lambda false: ~false & ~torch.eye(len(false), dtype=torch.bool))


@mutation("paper")
def no_negatives_left_out(method: Any, patch: Any) -> None:
    marked(method, torch.zeros_like)


@mutation("paper")
def own_positive_left_out(method: Any, patch: Any) -> None:
    marked(method, lambda false: false | torch.eye(len(false), dtype=torch.bool))


@mutation("paper")
def of_the_next_sentence(method: Any, patch: Any) -> None:
    marked(method, lambda false: false.roll(1, 1) & ~torch.eye(len(false), dtype=torch.bool))


@mutation("paper")
def false_negatives_of_the_trained_vectors(method: Any, patch: Any) -> None:
    def weights(
        self: Any, anchors: torch.Tensor, positives: torch.Tensor, step: Step
    ) -> torch.Tensor:
        return (
            ~(
                (cosine(anchors, positives) >= self.hyper.phi)
                & ~torch.eye(len(anchors), dtype=torch.bool)
            )
            + 0.0
        )

    override(method, "weights", weights)


@mutation("paper-warm")
def zeroed_in_place_of_removed(method: Any, patch: Any) -> None:
    set_hyper(method, false_negatives="zeroed")


@mutation("released")
def removed_in_place_of_zeroed(method: Any, patch: Any) -> None:
    set_hyper(method, false_negatives="removed")


@mutation("released")
def softmax_in_place_of_one_vs_rest(method: Any, patch: Any) -> None:
    set_hyper(method, loss_form="softmax")


@mutation("paper")
def ascent_downwards(method: Any, patch: Any) -> None:
    set_hyper(method, ascent_size=-method.hyper.ascent_size)


@mutation("released")
def descent_of_the_released_form(method: Any, patch: Any) -> None:
    set_hyper(method, ascent_size=-method.hyper.ascent_size)


@mutation("paper")
def one_step_fewer(method: Any, patch: Any) -> None:
    set_hyper(method, ascent_steps=method.hyper.ascent_steps - 1)


@mutation("paper")
def one_long_step(method: Any, patch: Any) -> None:
    set_hyper(
        method, ascent_steps=1, ascent_size=method.hyper.ascent_size * method.hyper.ascent_steps
    )


@mutation("paper")
def step_of_the_gradients_own_length(method: Any, patch: Any) -> None:
    patch.setattr(dclr.F, "normalize", _unless_small(dclr.F.normalize, lambda gradient: gradient))


@mutation("paper")
def one_length_for_all_gradients(method: Any, patch: Any) -> None:
    patch.setattr(
        dclr.F,
        "normalize",
        _unless_small(dclr.F.normalize, lambda gradient: gradient / gradient.norm()),
    )


def _unless_small(plain: Any, other: Any) -> Any:
    """The gradients are normalised over dimension 1, vectors over the last one: `dim` tells them
    apart."""
    return lambda tensor, dim: other(tensor) if dim == 1 else plain(tensor, dim=dim)


@mutation("released-far")
def noise_rises_along_its_uniformity(method: Any, patch: Any) -> None:
    def to_raise(
        self: Any, anchors: torch.Tensor, views: Any, noise: torch.Tensor, step: Step
    ) -> torch.Tensor:
        return (cosine(anchors, noise) / self.hyper.temperature).logsumexp(dim=1).mean()

    override(method, "_ascent_objective", to_raise)


@mutation("far")
def uniformity_without_temperature(method: Any, patch: Any) -> None:
    override(
        method,
        "_ascent_objective",
        lambda self, anchors, views, noise, step: cosine(anchors, noise).logsumexp(dim=1).mean(),
    )


@mutation("paper")
def another_stream(method: Any, patch: Any) -> None:
    patch.setattr(Step, "generator", lambda self, name: torch.Generator().manual_seed(0))


@mutation("paper")
def noise_counted_by_the_batch_at_hand(method: Any, patch: Any) -> None:
    plain = DCLR.negatives

    def negatives(self: Any, anchors: torch.Tensor, views: Views, step: Step) -> list[Negatives]:
        return plain(self, anchors, views, Step(step.index, step.total, len(anchors), step.seed))

    override(method, "negatives", negatives)


@mutation("paper")
def temperature_multiplied(method: Any, patch: Any) -> None:
    set_hyper(method, temperature=1 / method.hyper.temperature)


@mutation("released")
def mean_over_rows_alone(method: Any, patch: Any) -> None:
    patch.setattr(
        dclr, "one_vs_rest", lambda logits, labels: one_vs_rest(logits, labels) * logits.shape[1]
    )


@mutation("released")
def positives_alone(method: Any, patch: Any) -> None:
    patch.setattr(
        dclr,
        "one_vs_rest",
        lambda logits, labels: F.cross_entropy(logits, labels) * len(logits) / logits.numel(),
    )


@mutation("released")
def sigmoid_in_place_of_softmax(method: Any, patch: Any) -> None:
    def sigmoid(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(
            logits, F.one_hot(labels, logits.shape[1]).to(logits)
        )

    patch.setattr(dclr, "one_vs_rest", sigmoid)


@mutation("dclr+is-cse")
def ingredient_forgotten(method: Any, patch: Any) -> None:
    del method.parts[0]


@mutation("dclr+is-cse")
def noise_in_the_smoothing_term_too(method: Any, patch: Any) -> None:
    import methods.is_cse as is_cse

    plain = is_cse.info_nce
    patch.setattr(
        is_cse,
        "info_nce",
        lambda a, s, t: plain(a, s, t, [Negatives(torch.randn(8, a.shape[1]).to(a))]),
    )


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case_name, mutate = MUTATIONS[name]

    def build() -> Any:
        method = CASES[case_name].build()
        monkeypatch.undo()
        mutate(method, monkeypatch)
        return method

    kinds = ("random", "close")
    assert any(
        disagreement(CASES[case_name], kind, build=build)[torch.float64] > 1e-6 for kind in kinds
    )


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
    start, end = (
        DCLR(DCLR.Hyper(ascent_steps=steps), shape)
        .negatives(anchors, views, Step(0, 1, 128, 1))[0]
        .vectors
        for steps in (0, 4)
    )
    assert start.shape == (128, 768)
    moved = F.normalize(end, dim=1) - F.normalize(start, dim=1)
    assert 5e-5 < moved.norm(dim=1).mean() < 2e-4


def test_noise_is_fresh_each_step() -> None:
    method = built()
    assert torch.equal(noise_of(method), noise_of(method))
    assert not torch.equal(noise_of(method), noise_of(method, index=1))
    assert not torch.equal(noise_of(method), noise_of(method, seed=4))


def test_one_vs_rest_by_hand() -> None:
    """Shares 1/2 and 1/4, 1/4: three cells a row, -log of 1/2, 3/4, 3/4; and a lost row, where 1 -
    p has no digits."""
    logits = torch.tensor([[2.0, 1.0, 1.0]], dtype=torch.float64).log()
    expected = torch.tensor([2.0, 4 / 3, 4 / 3]).log().mean().item()
    assert one_vs_rest(logits, torch.tensor([0])).item() == pytest.approx(expected)
    lost = torch.tensor([[0.0, 1000.0]], requires_grad=True)
    loss = one_vs_rest(lost, torch.tensor([0]))
    loss.backward()
    assert loss.item() == 1000.0
    torch.testing.assert_close(lost.grad, torch.tensor([[-1.0, 1.0]]))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_a_zero_vector_gives_finite_numbers(name: str, dtype: torch.dtype) -> None:
    method = CASES[name].build()
    for index in range(4):
        leaves = batch("random", index).leaves(dtype)
        with torch.no_grad():
            leaves[0][1] = leaves[1][1] = 0
        loss, gradients = method_step(method, leaves, index)
        assert torch.isfinite(loss)
        assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("false_negatives", ["removed", "zeroed"])
@pytest.mark.parametrize("loss_form", ["softmax", "one-vs-rest"])
def test_only_the_positive_left_costs_nothing(false_negatives: str, loss_form: str) -> None:
    """No noise, and all negatives false: the two sentences' losses are 0 where they are removed,
    and finite."""
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


@pytest.mark.parametrize(
    "hyper",
    [
        {"phi": 0.0},
        {"noise_times": -1.0},
        {"ascent_steps": -1},
        {"ascent_size": -1e-3},
        {"false_negatives": "kept"},
        {"loss_form": "hinge"},
        {"temperature": 0.0},
    ],
)
def test_impossible_hyper_parameters_are_refused(hyper: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="dclr"):
        compose([(DCLR, DCLR.Hyper(**hyper))], Shape(WIDTH, DEPTH))


BERT, ROBERTA = (
    "princeton-nlp/unsup-simcse-bert-base-uncased",
    "princeton-nlp/unsup-simcse-roberta-base",
)


@pytest.mark.parametrize(
    (
        "backbone",
        "batch_size",
        "epochs",
        "learning_rate",
        "phi",
        "noise_times",
        "complement",
        "start",
    ),
    [
        ("bert-base-uncased", 128, 3, 3e-5, 0.9, 1.0, BERT, None),
        ("roberta-base", 128, 3, 3e-5, 0.85, 2.5, ROBERTA, None),
        (
            "bert-large-uncased",
            256,
            1,
            3e-5,
            0.9,
            3.0,
            BERT,
            "princeton-nlp/unsup-simcse-bert-large-uncased",
        ),
        (
            "roberta-large",
            256,
            1,
            1e-5,
            0.85,
            5.0,
            ROBERTA,
            "princeton-nlp/unsup-simcse-roberta-large",
        ),
    ],
)
def test_official_values(
    backbone: str,
    batch_size: int,
    epochs: int,
    learning_rate: float,
    phi: float,
    noise_times: float,
    complement: str,
    start: str | None,
) -> None:
    """The tables of docs/methods.md#dclr; 64 sentences on each of four GPUs are one batch of
    256."""
    for setting in ("official", "paper"):
        text = f"dclr+is-cse@{setting}"
        run = resolve(text, backbone_name=backbone, corpus="wiki1m", data="senteval", seed=1)
        hyper, recipe = run.parts[0][2], run.recipe
        assert (hyper["phi"], hyper["noise_times"], hyper["complement"]) == (
            phi,
            noise_times,
            complement,
        )
        assert hyper["start"] == (start if setting == "official" else None)
        assert (recipe.batch_size, recipe.epochs, recipe.learning_rate) == (
            batch_size,
            epochs,
            learning_rate,
        )
        assert (recipe.precision, recipe.select_on) == ("float32", "STS-B+SICK-R")


def test_a_small_backbone_is_its_own_complement(tiny_bert: Path) -> None:
    keys: Any = {"backbone_name": str(tiny_bert), "corpus": "wiki1m", "data": "senteval", "seed": 1}
    assert resolve("dclr", **keys).parts[0][2]["complement"] == "backbone"
    assert (
        resolve("dclr[complement=somewhere/else]", **keys).parts[0][2]["complement"]
        == "somewhere/else"
    )


def test_the_released_loss_cannot_join_another_method(tiny_bert: Path) -> None:
    keys: Any = {"backbone_name": str(tiny_bert), "corpus": "wiki1m", "data": "senteval", "seed": 1}
    with pytest.raises(UserError, match="is set by the method written first"):
        resolve("gs-infonce+dclr@official", **keys)
    (_, _, hyper) = resolve("gs-infonce+dclr@paper", **keys).parts[1]
    assert not {"false_negatives", "loss_form", "start"} & set(hyper)


def test_weighted_negatives_of_other_parts_stand_in_the_released_loss() -> None:
    """A weight is a summand log w of the logit, as in the formula."""
    method = built(**RELEASED, noise_times=0.0)
    anchors, positives = batch("random", 0).views
    vector = batch("random", 1).views[0][:1]
    rows = torch.cat([cosine(anchors, positives), cosine(anchors, vector)], dim=1) / 0.05
    rows[:, N] += torch.tensor(2.0).log()
    expected = one_vs_rest(rows, torch.arange(N))
    for group in (
        Negatives(vector, weight=2.0),
        Negatives(vector, weights=torch.full((N, 1), 2.0).double()),
    ):
        torch.testing.assert_close(method.contrast(anchors, positives, [group], None), expected)


# Trainings


def test_a_training_finishes_and_says_what_its_encoder_scores(
    train_tiny: Callable[..., Path], tiny_data: Path
) -> None:
    for text in ("dclr@official", "dclr@paper"):
        folder = train_tiny(text, epochs=1)
        outcome = outcome_of(folder)
        assert outcome["status"] == "finished"
        dev = [sts.read(task, tiny_data, "dev") for task in ("STS-B", "SICK-R")]
        records = score_tasks(load_encoder(folder / "encoder"), dev)
        values = [record["value"] for record in records if record["aggregation"] == "all"]
        assert sum(values) / 2 == pytest.approx(outcome["best_dev"], abs=1e-12)
        assert_same_training(folder, train_tiny(text, fresh=True, epochs=1))


@pytest.mark.parametrize(
    "text", ["dclr[noise_times=0,phi=1.5]@paper", "simcse+dclr[noise_times=0,phi=1.5]@paper"]
)
def test_switched_off_it_is_simcse_bit_for_bit(train_tiny: Callable[..., Path], text: str) -> None:
    keys: Any = {"epochs": 1, "select_on": "STS-B", "precision": "float32"}
    assert_same_training(train_tiny(text, **keys), train_tiny("simcse", **keys))


def test_is_cse_joins_it(train_tiny: Callable[..., Path]) -> None:
    smoothing = "is-cse[buffer=20,neighbours=3]"
    for setting in ("paper", "official"):
        plain, joined = (
            train_tiny(f"{text}@{setting}", epochs=1) for text in ("dclr", f"dclr+{smoothing}")
        )
        assert outcome_of(joined)["status"] == "finished"
        losses = [[row["loss"] for row in log_of(folder)] for folder in (plain, joined)]
        assert losses[0][0] == losses[1][0]  # the memory is empty
        assert losses[0] != losses[1]


def test_another_model_judges_or_is_gone_on_from(
    train_tiny: Callable[..., Path], tiny_bert: Path, tmp_path: Path
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
