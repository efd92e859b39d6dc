"""Benchmarks are collected only where they run (`make bench`): a speed needs a quiet machine."""

import bench.cli  # noqa: F401 - before torch, as every command: threads wait asleep


def pytest_ignore_collect(collection_path, config):
    return True if config.getoption("benchmark_disable") else None
