"""The floor of a training: arithmetic by hand, side effects of a measurement, and records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import bench.models.roofline
from bench.models.packed_forward import Work
from bench.models.roofline import floor, peak, record, weight_bytes

PEAK = {"flops": 1e9, "float32_flops": 5e8, "bytes_per_second": 1e6}
amounts = st.floats(0, 1e18)


def test_the_floor_of_a_tiny_case_by_hand() -> None:
    work = Work(forward=6e9, backward=12e9, selection=1e9)
    found = floor(work, weights=1000, steps=10, peak=PEAK)
    # 10 steps x 1000 weights x 9 numbers of 4 bytes: 360,000 bytes.
    parts = {"forward_s": 6, "backward_s": 12, "optimiser_s": 0.36, "selection_s": 2}
    assert found == parts | {"seconds": 20.36}


def test_each_byte_of_an_update_is_counted_once() -> None:
    written_and_read_before = ["gradient written", "gradient read for its norm"]
    reads, writes = ["weight", "gradient"], ["weight"]
    adam = [*written_and_read_before, *reads, "mean", "square", *writes, "mean", "square"]
    rmsprop = [*written_and_read_before, *reads, "square", *writes, "square"]
    assert weight_bytes(1) == 4 * len(adam)
    assert weight_bytes(1, moments=1) == 4 * len(rmsprop)
    assert weight_bytes(109_482_240) == 109_482_240 * 36


@given(amounts, amounts, amounts, st.integers(0, 10**9), st.integers(0, 10**6))
def test_parts_add_up_and_grow_with_the_work(
    forward: float, backward: float, selection: float, weights: int, steps: int
) -> None:
    once = floor(Work(0, 0, forward, backward, selection), weights, steps, PEAK)
    twice = floor(Work(0, 0, 2 * forward, 2 * backward, 2 * selection), weights, 2 * steps, PEAK)
    assert twice == pytest.approx({name: 2 * value for name, value in once.items()})
    parts = {name: value for name, value in once.items() if name != "seconds"}
    assert once["seconds"] == pytest.approx(sum(parts.values()))
    assert min(parts.values()) >= 0


def test_a_record_holds_work_floor_and_ratio() -> None:
    work = Work(sentences=8, tokens=50, forward=6e9, backward=12e9, selection=1e9)
    left = record(work, 1000, 10, seconds=50.9, peak=PEAK)
    assert left == {
        "tokens": 50,
        "sentences": 8,
        "flop": {"forward": 6e9, "backward": 12e9, "selection": 1e9},
        "weight_bytes": 360_000,
        "floor_seconds": 20.36,
        "seconds": 50.9,
        "ratio": 2.5,
        "peak": PEAK,
    }


# Measuring


@pytest.fixture
def unmeasured() -> Iterator[None]:
    """A test that stands in for the clock leaves nothing behind, and finds nothing."""
    bench.models.roofline._measured.cache_clear()
    yield
    bench.models.roofline._measured.cache_clear()


def test_rates_are_work_divided_by_the_fastest_trial(
    monkeypatch: pytest.MonkeyPatch, unmeasured: None
) -> None:
    monkeypatch.setattr(bench.models.roofline, "COPIED", {"cpu": 4000})
    threads, seen = torch.get_num_threads(), set()

    def timed(operation: Callable[[], object], device: str) -> float:
        operation()
        seen.add(torch.get_num_threads())
        return 0.5

    monkeypatch.setattr(bench.models.roofline, "_best_time", timed)
    found = peak("cpu", "bfloat16", threads=threads + 1, width=16)
    assert seen == {threads + 1}
    assert torch.get_num_threads() == threads
    product = 2 * 512 * 16 * 64 / 0.5  # rows x width x 4 x width multiply-adds
    copy = 2 * 4000 / 0.5  # read and written
    assert found == {
        "flops": product, "float32_flops": product, "bytes_per_second": copy, "type": "bfloat16",
        "threads": threads + 1,
    }  # fmt: skip


def test_the_fastest_trial_counts() -> None:
    naps = iter([0.0, 0.03, 0.01, *[0.03] * 100])  # the first, which warms up, is not timed
    found = bench.models.roofline._best_time(lambda: time.sleep(next(naps)), "cpu")
    assert 0.01 <= found < 0.03


def test_a_product_takes_at_least_its_floor_and_a_measurement_disturbs_nothing(
    unmeasured: None,
) -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    found = peak("cpu", "bfloat16", threads=1, width=64)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    again = peak("cpu", "bfloat16", threads=1, width=64)
    assert again == found  # not measured twice
    again["flops"] = 0.0
    assert peak("cpu", "bfloat16", threads=1, width=64) == found
    # Many sizes above what one product can be off by, on a machine that others use.
    left, right = torch.randn(512, 64), torch.randn(64, 256)
    torch.mm(left, right)
    started = time.perf_counter()
    for _ in range(50):
        torch.mm(left, right)
    rate = 50 * 2 * 512 * 64 * 256 / (time.perf_counter() - started)
    assert rate < 20 * threads * found["float32_flops"]


@pytest.mark.parametrize(
    ("precision", "on_cpu", "on_gpu"),
    [
        ("mixed", "float32", "float16"),
        ("bfloat16", "bfloat16", "bfloat16"),
        ("float32", "float32", "float32"),
    ],
)
def test_products_have_the_type_of_the_training(precision: str, on_cpu: str, on_gpu: str) -> None:
    assert str(bench.models.roofline._type_of(precision, "cpu")) == f"torch.{on_cpu}"
    assert str(bench.models.roofline._type_of(precision, "cuda:0")) == f"torch.{on_gpu}"
