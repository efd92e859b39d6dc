"""SimCSE++: its losses against an oracle, mistakes that it must catch, its pass without dropout."""

from dataclasses import dataclass, replace

import pytest

from bench.training.context import RunContext
from bench.utils.errors import UserError
from methods.base import Step
from methods.gs_infonce import GSInfoNCE
from methods.simcse import SimCSE
from methods.simcse_plus_plus import SimCSEPlusPlus
from tests.oracles.edits import Mutation, edits
from tests.oracles.hard_negatives import SimCSEPlusPlusOracle
from tests.support.method_cases import (
    HARD,
    Case,
    assert_equals_oracle,
    caught,
    on_inputs,
)
from tests.support.method_runs import BERT, run_of

pytestmark = pytest.mark.usefixtures("global_state")
NAME = SimCSEPlusPlus.name


@dataclass(frozen=True, eq=False)
class QuietCase(Case):
    """A case whose vectors without dropout are layer 1 of the first view."""

    def build(self):
        method = super().build()
        loss = method.loss
        method.loss = lambda views, step: loss(
            replace(views, quiet={NAME: [views.at_layer(1)[0]]}), step
        )
        return method


def case(name, t=0.05, **hyper):
    part = (SimCSEPlusPlus, {"temperature": t, **hyper})
    return QuietCase(name, (part,), lambda: SimCSEPlusPlusOracle(t, **hyper), t)


CASES = [
    case("simcse++"),
    case("cold", t=0.001),
    case("first-alone", weight=0.0, positive_factor=0.9),
    case("second-alone", off_dropout=False),
    case("heavy", weight=10.0, feature_temperature=0.5),
    QuietCase("simcse+simcse++", ((SimCSE, {}), (SimCSEPlusPlus, {})), SimCSEPlusPlusOracle),
    QuietCase("gs+simcse++", ((GSInfoNCE, {"multiple": 1.6}), (SimCSEPlusPlus, {})),
              lambda: SimCSEPlusPlusOracle(noise=(8, 1.0, 1.0))),
]  # fmt: skip


@on_inputs(
    (CASES, ["random"]),
    # The columns that "heavy" standardises differ by 1e-5 on near duplicates: float32 keeps two
    # digits, and a weight of 10 shows it (4.5e-3 apart under the oldest arithmetic).
    (CASES, [kind for kind in HARD if kind != "near-duplicates"]),
    ([case for case in CASES if case.name != "heavy"], ["near-duplicates"]),
)
def test_equals_oracle(case, kinds):
    assert_equals_oracle(case, kinds)


MUTATIONS: dict[str, Mutation] = {
    **edits("methods.simcse_plus_plus:SimCSEPlusPlus.negatives", {
        "anchors_with_dropout": ("cosine(vectors, vectors)", "cosine(anchors, vectors)"),
    }, case="simcse++"),
    **edits("methods.simcse_plus_plus:SimCSEPlusPlus.weights", {
        "positive_factor_forgotten": ("first-alone", "self.hyper.positive_factor", "1"),
        "negatives_of_the_batch_stay": ("simcse++", "factors.diag()", "None"),
    }),
    **edits("methods.simcse_plus_plus:SimCSEPlusPlus.terms", {
        "variance_divided_by_one_less": (
            "F.batch_norm(anchors, None, None, training=True)",
            "(anchors - anchors.mean(0)) / (anchors.var(0) + 1e-5).sqrt()"),
        "summed_over_the_batch": ("first.T @ second / len(anchors)", "first.T @ second"),
    }, case="heavy"),
}  # fmt: skip


test_a_mutation_is_caught = caught(MUTATIONS, CASES)


def test_the_third_pass_is_made_only_where_it_is_needed(runs, monkeypatch):
    passes, plain = [], RunContext.states

    def states(self, tokens, *inputs, **options):
        passes.append((len(tokens), self.backbone.training))
        return plain(self, tokens, *inputs, **options)

    monkeypatch.setattr(RunContext, "states", states)
    wanted = {"": [(6, True), (3, False)], "[off_dropout=false]": [(6, True)]}
    for text, expected in wanted.items():
        method, context, _ = runs.start(NAME + text)
        passes.clear()
        method.step_loss(context, Step(0, 10, 3, 1, [0, 1, 2])).backward()
        assert passes == expected


def test_it_joins_only_methods_that_encode_as_the_formula_does():
    with pytest.raises(UserError, match="needs a pass without dropout, and 'promptbert'"):
        run_of(f"promptbert+{NAME}").build()


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

VALUES = [
    (f"simcse-plus-plus@{setting}", BERT, {"batch_size": 64, "learning_rate": 3e-5})
    for setting in ("official", "paper")
]
OUT_OF_LIMITS = {
    "simcse-plus-plus": "positive_factor=0 weight=-1 feature_temperature=0",
}
WITHOUT_EFFECT = {
    "feature_temperature": ("weight=0", 5.0, 1.0),
}
