"""Real data, where they are."""

import os
from pathlib import Path

import pytest

from bench.datasets.manifest import manifest


@pytest.fixture
def real_data():
    if not os.environ.get("BENCH_DATA"):
        pytest.skip("BENCH_DATA is not set")
    return Path(os.environ["BENCH_DATA"])


@pytest.fixture
def senteval(real_data):
    """SentEval's evaluation sets."""
    if manifest(real_data).name != "senteval":
        pytest.skip("BENCH_DATA holds another data set")
    return real_data
