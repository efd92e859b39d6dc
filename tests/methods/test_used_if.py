"""Hyper-parameters without effect (`Method.used_if`) change no weight and make no other run."""

import pytest
import torch

from bench.checks.method_contract import STEPS, Trial
from bench.models.defaults import computing
from bench.registry.methods import method_class, method_classes
from tests.support.method_runs import of_methods

# What switches a hyper-parameter off, and two of its values.
CASES = {
    (name, key): case for name, cases in of_methods("WITHOUT_EFFECT") for key, case in cases.items()
}


class Forced(Trial):
    """A trial whose runs have one hyper-parameter with a value that planning would drop."""

    def __init__(self, name, suite, text, key, value):
        super().__init__(method_class(name), suite)
        self.forced, self.key, self.value = text, key, value

    def resolve(self, text, seed=1):
        run = super().resolve(self.forced, seed)
        ((name, version, hyper),) = run.parts
        parts = ((name, version, {**hyper, self.key: self.value}),)
        return run.model_copy(update={"parts": parts})


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return tmp_path_factory.mktemp("trial")


def test_every_entry_has_its_case():
    entries = {(name, key) for name, cls in method_classes().items() for key in cls.used_if}
    assert entries == CASES.keys()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "key"), CASES)
def test_without_effect_it_changes_no_weight(name, key, inputs):
    off, *values = CASES[name, key]
    trials = [Forced(name, inputs, f"{name}[{off}]", key, value) for value in values]
    with computing(1, "error"):
        first, second = (trial.training(steps=STEPS).modules.state_dict() for trial in trials)
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize(("name", "key"), CASES)
def test_without_effect_it_makes_no_other_run(name, key, inputs):
    off, *values = CASES[name, key]
    trial = Trial(method_class(name), inputs)
    words = {"none" if value is None else str(value).lower() for value in values}
    texts = [f"{name}[{off},{key}={word}]" for word in words if f"{key}=" not in off]
    assert {trial.resolve(text).id for text in texts} == {trial.resolve(f"{name}[{off}]").id}
