"""Real data, where they are."""

import pytest

from bench.datasets.manifest import manifest


@pytest.fixture
def senteval(real_data):
    """SentEval's evaluation sets."""
    if manifest(real_data).name != "senteval":
        pytest.skip("BENCH_DATA holds another data set")
    return real_data
