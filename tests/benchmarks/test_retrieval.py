"""What exact nearest neighbours cost: seconds against the multiplications alone.

Vectors are normal around a common direction, as an untrained backbone's are.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from bench.training.context import nearest_rows

WIDTH, COUNT = 384, 64


@dataclass
class Cost:
    rows: int
    seconds: float
    floor: float


COSTS: list[Cost] = []


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    yield
    if not COSTS:
        return
    names = ("rows", "seconds", "floor s", "ratio", "us a row", "ns a pair")
    print("\n" + "".join(f"{name:>11}" for name in names))
    for cost in COSTS:
        told = (cost.rows, cost.seconds, cost.floor, cost.seconds / cost.floor)
        told += (cost.seconds / cost.rows * 1e6, cost.seconds / cost.rows**2 * 1e9)
        print("".join(f"{number:11,.2f}" for number in told))
    print(f"{WIDTH} dimensions, {COUNT} neighbours, threads {torch.get_num_threads()}")
    print("floor: multiplications and additions alone, at this machine's matrix speed")


@pytest.fixture
def speed(benchmark) -> float:
    """Floating-point operations a second of a large product of matrices, now."""
    a, b = (torch.randn(rows, WIDTH, dtype=torch.float64) for rows in (2048, 16384))
    a @ b.T
    times = []
    for _ in range(5):
        started = time.perf_counter()
        a @ b.T
        times.append(time.perf_counter() - started)
    return 2 * len(a) * len(b) * WIDTH / min(times)


def vectors(rows: int) -> np.ndarray:
    draw = np.random.default_rng(0)
    common = draw.normal(size=WIDTH).astype(np.float32)
    found = draw.standard_normal(size=(rows, WIDTH), dtype=np.float32)
    found *= 0.5
    found += common
    return found


@pytest.mark.parametrize("rows", [10_000, 30_000])
def test_all_rows(benchmark, rows: int, speed: float) -> None:
    given = vectors(rows)
    found = benchmark.pedantic(nearest_rows, (given, COUNT), rounds=1)
    assert found.shape == (rows, COUNT)
    COSTS.append(Cost(rows, benchmark.stats["median"], 2 * rows**2 * WIDTH / speed))
    benchmark.extra_info |= vars(COSTS[-1])
