"""The cost of exact nearest neighbours, of vectors around a common direction, as an untrained
backbone's are."""

import numpy as np
import pytest
import torch

from bench.training.context import nearest_rows

WIDTH, COUNT = 384, 64


@pytest.mark.parametrize("rows", [10_000, 30_000])
def test_all_rows(benchmark, rows):
    draw = np.random.default_rng(0)
    common = draw.normal(size=WIDTH).astype(np.float32)
    vectors = common + 0.5 * draw.standard_normal(size=(rows, WIDTH), dtype=np.float32)
    result = benchmark.pedantic(nearest_rows, (vectors, COUNT), rounds=1)
    assert result.shape == (rows, COUNT)
    seconds = benchmark.stats["median"]
    print(f"\n{rows} rows: {seconds:.1f} s on {torch.get_num_threads()} threads")
