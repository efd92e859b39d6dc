"""Every shipped method keeps the contract that `check-method` tries on others."""

import inspect

import pytest

from bench.checks import method_contract as contract
from bench.models.defaults import computing
from bench.registry.methods import method_classes

CLAUSES = {name: clause for name, clause in vars(contract).items() if name.startswith("test_")}


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return tmp_path_factory.mktemp("suite")


@pytest.mark.nightly
@pytest.mark.parametrize("clause", CLAUSES)
@pytest.mark.parametrize("name", method_classes())
def test_a_shipped_method_keeps_each_clause(name, clause, suite):
    trial = contract.Trial(method_classes()[name], suite)
    if trial.cls.trained or "trained" not in inspect.signature(CLAUSES[clause]).parameters:
        with computing(1, "error"):
            CLAUSES[clause](trial)
