"""What exact nearest neighbours cost: seconds against the multiplications alone, and memory.

Vectors are normal around a common direction, as an untrained backbone's are. Of a million rows a
whole search takes hours on a processor, so a sample of queries is searched and scaled.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.training import knn
from bench.training.knn import nearest_rows

WIDTH, COUNT = 384, 64
MILLION, SAMPLE = 1_000_000, knn.QUERIES


@dataclass
class Cost:
    rows: int
    seconds: float
    floor: float
    peak: float  # MB beside the vectors
    measured: bool = True


COSTS: list[Cost] = []


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    yield
    if not COSTS:
        return
    names = ("rows", "seconds", "floor s", "ratio", "MB more", "us a row", "ns a pair")
    print("\n" + "".join(f"{name:>11}" for name in names))
    for cost in COSTS:
        told = (cost.rows, cost.seconds, cost.floor, cost.seconds / cost.floor, cost.peak)
        told += (cost.seconds / cost.rows * 1e6, cost.seconds / cost.rows**2 * 1e9)
        note = "" if cost.measured else f"   of {SAMPLE} queries, scaled"
        print("".join(f"{number:11,.2f}" for number in told) + note)
    print(f"{WIDTH} dimensions, {COUNT} neighbours, threads {torch.get_num_threads()}")
    print("floor: multiplications and additions alone, at this machine's matrix speed")


@pytest.fixture
def speed(benchmark) -> float:
    """Floating-point operations a second of a large product of matrices, now."""
    a, b = torch.randn(2048, WIDTH), torch.randn(16384, WIDTH)
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


class Memory:
    """MB held at most beside what was held at the start; nan where the system does not tell."""

    def __init__(self) -> None:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to what is held
        self.before = self._peak()

    def more(self) -> float:
        return self._peak() - self.before

    @staticmethod
    def _peak() -> float:
        try:
            status = Path("/proc/self/status").read_text()
        except OSError:
            return float("nan")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@pytest.mark.parametrize("rows", [10_000, 30_000, 100_000])
def test_all_rows(benchmark, rows: int, speed: float) -> None:
    given = vectors(rows)
    memory = Memory()
    found = benchmark.pedantic(nearest_rows, (given, COUNT), rounds=1)
    assert found.shape == (rows, COUNT)
    COSTS.append(Cost(rows, benchmark.stats["median"], 2 * rows**2 * WIDTH / speed, memory.more()))
    benchmark.extra_info |= vars(COSTS[-1])


def test_a_sample_of_a_million_rows(benchmark, speed: float) -> None:
    given = vectors(MILLION)
    memory = Memory()
    started = time.perf_counter()
    table = knn._Table(given, "cpu")
    once = time.perf_counter() - started
    certain = benchmark.pedantic(table.search, (torch.arange(SAMPLE), COUNT), rounds=1)[1]
    seconds = once + benchmark.stats["median"] * MILLION / SAMPLE
    floor = 2 * MILLION**2 * WIDTH / speed
    COSTS.append(Cost(MILLION, seconds, floor, memory.more(), measured=False))
    benchmark.extra_info |= vars(COSTS[-1]) | {"undecided": int((~certain).sum())}
