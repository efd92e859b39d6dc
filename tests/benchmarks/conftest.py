"""Benchmarks run where they are asked for alone: a speed needs a quiet machine."""

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.config.getoption("benchmark_disable"):
        pytest.skip("benchmarks are off; make bench runs them")
