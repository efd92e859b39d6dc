"""SimCSE++: its losses against an oracle, mistakes that it must catch, its pass without dropout."""

import math
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import methods.simcse_plus_plus as module
from bench.training.context import RunContext
from bench.utils.errors import UserError
from methods.base import Negatives, Step, Views, cosine, info_nce
from methods.gs_infonce import GSInfoNCE
from methods.simcse import SimCSE
from methods.simcse_plus_plus import SimCSEPlusPlus
from tests.methods.cases import DTYPES, HARD, Case, build, disagreement, is_caught, step, tolerance
from tests.methods.outside import BERT, Patch, Runs, run_of, vectors
from tests.oracles.hard_negatives import SimCSEPlusPlusOracle
from tests.oracles.mutations import Mutation, around, hyper, other, override, patched

pytestmark = pytest.mark.usefixtures("global_state")
NAME = SimCSEPlusPlus.name


@dataclass(frozen=True, eq=False)
class QuietCase(Case):
    """Its vectors without dropout are those of layer 1 of the first view."""

    def build(self) -> Any:
        method = super().build()
        plain = type(method).loss

        def loss(self: Any, views: Views, step: Step) -> Tensor:
            return plain(self, replace(views, quiet={NAME: [views.at_layer(1)[0]]}), step)

        override(method, "loss", loss)
        return method


def case(name: str, t: float = 0.05, **own: Any) -> QuietCase:
    names = {"factor": "positive_factor", "features": "feature_temperature"}
    changes = {names.get(key, key): value for key, value in own.items()}
    first = (SimCSEPlusPlus, {"temperature": t, **changes})
    return QuietCase(name, (first,), lambda: SimCSEPlusPlusOracle(t, **own), t)


CASES = [
    case("simcse++"),
    case("cold", t=0.001),
    case("first-alone", weight=0.0, factor=0.9),
    case("second-alone", off_dropout=False),
    case("heavy", weight=10.0, features=0.5),
    QuietCase("simcse+simcse++", ((SimCSE, {}), (SimCSEPlusPlus, {})), SimCSEPlusPlusOracle),
    QuietCase("gs+simcse++", ((GSInfoNCE, {"multiple": 1.6}), (SimCSEPlusPlus, {})),
              lambda: SimCSEPlusPlusOracle(noise=(8, 1.0, 1.0))),
]  # fmt: skip
BY_NAME = {one.name: one for one in CASES}


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
@pytest.mark.parametrize("kind", ["random", *HARD])
def test_equals_oracle(case: Case, kind: str) -> None:
    for dtype, difference in disagreement(case, kind, dtypes=DTYPES).items():
        assert difference < tolerance(kind, dtype), dtype


def quiet_vectors(change: Any) -> Mutation:
    def negatives(plain: Any, self: Any, anchors: Tensor, views: Views, step: Step) -> Any:
        changed = [change(one, views) for one in views.quiet[NAME]]
        return plain(self, anchors, replace(views, quiet={NAME: changed}), step)

    return around("negatives", negatives)


def second_term(change: Any) -> Mutation:
    """Another contrast of dimensions, made of both views and T."""

    def terms(self: Any, anchors: Tensor, positives: Tensor, *rest: Any) -> Any:
        loss = change(anchors, positives, self.hyper.feature_temperature)
        return [(self.hyper.weight, loss)]

    return other("terms", terms)


def contrast(first: Tensor, second: Tensor, t: float) -> Tensor:
    logits = first.T @ second / len(first) / t
    return F.cross_entropy(logits, torch.arange(len(logits)))


def standard(x: Tensor, correction: int = 0) -> Tensor:
    return (x - x.mean(0)) / (x.var(0, correction=correction) + 1e-5).sqrt()


MUTATIONS: dict[str, tuple[str, Mutation]] = {
    "negatives_with_dropout": ("simcse++", quiet_vectors(lambda one, views: views.vectors[0])),
    "negatives_without_gradient": ("simcse++", quiet_vectors(lambda one, views: one.detach())),
    "own_cell_not_removed": (
        "simcse++", around(
            "negatives",
            lambda plain, *given: [replace(one, weights=None) for one in plain(*given)])),
    "negatives_of_the_batch_stay": (
        "simcse++", other("weights", lambda self, *given: None)),
    "anchors_with_dropout": (
        "simcse++", other(
            "negatives", lambda self, anchors, views, step: [
                Negatives(cosines=cosine(anchors, views.quiet[NAME][0]),
                          weights=1 - torch.eye(len(anchors), dtype=anchors.dtype))])),
    "positive_factor_forgotten": ("first-alone", hyper(positive_factor=1.0)),
    "second_term_forgotten": ("simcse++", hyper(weight=0.0)),
    "first_term_forgotten": ("simcse++", hyper(off_dropout=False)),
    "columns_in_place_of_rows": ("heavy", second_term(
        lambda a, p, t: contrast(standard(p), standard(a), t))),
    "variance_divided_by_one_less": ("heavy", second_term(
        lambda a, p, t: contrast(standard(a, 1), standard(p, 1), t))),
    "not_centred": ("heavy", second_term(
        lambda a, p, t: contrast(a / a.std(0, correction=0), p / p.std(0, correction=0), t))),
    "summed_over_the_batch": ("heavy", second_term(
        lambda a, p, t: contrast(standard(a), standard(p), t / len(a)))),
    "temperature_multiplied": ("heavy", hyper(feature_temperature=lambda own: 2.0)),
    "statistics_without_gradient": ("heavy", second_term(
        lambda a, p, t: contrast(
            *((x - x.mean(0).detach()) / (x.var(0, correction=0) + 1e-5).sqrt().detach()
              for x in (a, p)), t))),
    "rows_of_one_view_alone": ("heavy", patched(
        module.F, "batch_norm", lambda plain, x, *given, **named: x)),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: Patch) -> None:
    case, mutate = MUTATIONS[name]
    assert is_caught(BY_NAME[case], mutate, monkeypatch, ("random",))


def term_of(first: Tensor, second: Tensor) -> float:
    ((weight, term),) = build((SimCSEPlusPlus, {})).terms(first, second, 0.05, step(0))
    assert weight == 0.1
    return term.item()


def test_views_alike_without_correlated_dimensions() -> None:
    """C is the identity divided by T: -1/T + log(d - 1 + e^{1/T}) (up to the epsilon)."""
    found = vectors("random", 64, 8)
    found = 9 * torch.linalg.qr(found - found.mean(0))[0]
    expected = -0.2 + math.log(7 + math.exp(0.2))
    assert term_of(found, found) == pytest.approx(expected, abs=1e-5)


def test_the_second_term_sees_neither_place_nor_scale_of_a_feature() -> None:
    first, second = vectors("random", 2, 6, 5)
    scale, shift = torch.tensor([1.0, 2, 3, 40, 5]), torch.arange(5.0)
    assert term_of(scale * first + shift, second) == pytest.approx(term_of(first, second), rel=1e-4)


def loss_of(first: Tensor, second: Tensor, quiet: Tensor, **hyper: Any) -> Tensor:
    views = Views((first, second), lambda layer: (), quiet={NAME: [quiet]})
    return build((SimCSEPlusPlus, hyper)).loss(views, step(0))


def test_without_any_dropout_the_first_term_is_infonce_of_a_view_against_itself() -> None:
    found = vectors("random", 6, 5)
    loss = loss_of(found, found, found, weight=0.0)
    torch.testing.assert_close(loss, info_nce(found, found, 0.05), rtol=1e-12, atol=0)


def test_a_batch_of_one_costs_nothing() -> None:
    first, second, quiet = vectors("random", 3, 1, 5)
    assert build((SimCSEPlusPlus, {})).terms(first, second, 0.05, step(0)) == []
    assert loss_of(first, second, quiet).item() == 0


def test_of_two_sentences_each_correlation_is_1_or_minus_1() -> None:
    """A dimension of two values has -1 and 1 after standardising: C_kl = -1/T or 1/T."""
    first, second = 1e3 * vectors("random", 2, 2, 5)
    signs = torch.outer((first[0] - first[1]).sign(), (second[0] - second[1]).sign())
    expected = F.cross_entropy(signs / 5, torch.arange(5))
    assert term_of(first, second) == pytest.approx(expected.item(), rel=1e-6)
    assert abs(expected.item() - math.log(5)) <= 2 / 5


def test_the_third_pass_is_made_only_where_it_is_needed(runs: Runs, monkeypatch: Patch) -> None:
    passes, plain = [], RunContext.states

    def states(self: RunContext, tokens: Any, *given: Any, **named: Any) -> Any:
        passes.append((len(tokens), self.backbone.training))
        return plain(self, tokens, *given, **named)

    monkeypatch.setattr(RunContext, "states", states)
    wanted = {"": [(6, True), (3, False)], "[off_dropout=false]": [(6, True)]}
    for text, expected in wanted.items():
        method, context, modules = runs.start(NAME + text)
        passes.clear()
        method.step_loss(context, Step(0, 10, 3, 1, [0, 1, 2])).backward()
        assert passes == expected
        assert all(one.training for one in modules.modules())


def test_it_joins_only_methods_that_encode_as_the_formula_does() -> None:
    run_of(f"gs-infonce+{NAME}").build()
    with pytest.raises(UserError, match="needs a pass without dropout, and 'promptbert'"):
        run_of(f"promptbert+{NAME}").build()


# What the tests of all methods need to know of this one (`outside.of_methods`).

VALUES: list[tuple[str, str, dict[str, Any]]] = [
    *((f"simcse-plus-plus@{setting}", BERT,
       {"batch_size": 64, "learning_rate": 3e-5, "positive_factor": 1.0, "weight": 0.1,
        "feature_temperature": 5.0}) for setting in ("official", "paper")),
]  # fmt: skip
OUT_OF_LIMITS = {
    "simcse-plus-plus": "positive_factor=0 weight=-1 feature_temperature=0",
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "feature_temperature": ("weight=0", 5.0, 1.0),
}
TRAININGS: dict[str, tuple[dict[str, Any], int]] = {
    "gs-infonce+simcse-plus-plus": ({}, 6),
    "simcse-plus-plus": ({}, 6),
}
