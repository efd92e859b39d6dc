"""Benchmarks are collected only where they run (`make bench`): a speed needs a quiet machine."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("benchmark_disable") else None
