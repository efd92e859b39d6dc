"""The regression test of the smoke suite: intervals, and what makes it fail."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from bench.errors import UserError
from bench.files import read_json, write_json
from bench.records import write_scores
from bench.reference import check, interval, write


def test_known_interval() -> None:
    # Five values 1..5: mean 3, s^2 = 2.5; t(0.9995, 4) = 8.6103 (tables), so 3 -+ 8.6103 * sqrt(2.5 * 1.2).
    low, high = interval([1, 2, 3, 4, 5], floor=0.0)
    assert low == pytest.approx(3 - 8.6103 * math.sqrt(3), abs=1e-3)
    assert high == pytest.approx(3 + 8.6103 * math.sqrt(3), abs=1e-3)
    # One value, nothing drawn: 3.2905 (tables of the normal distribution) times the floor.
    assert interval([70.0], floor=0.25) == pytest.approx((70 - 3.2905 * 0.25, 70 + 3.2905 * 0.25), abs=1e-4)


def test_one_draw_in_a_thousand_leaves_the_interval() -> None:
    draw = random.Random(0)
    trials = 20_000
    left = 0
    for _ in range(trials):
        low, high = interval([draw.gauss(70, 2) for _ in range(20)], floor=0.0, coverage=0.95)
        left += not low <= draw.gauss(70, 2) <= high
    assert left / trials == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / trials))


def suite(folder: Path, values: dict[int, float], status: str = "finished") -> Path:
    run = {"method": "simcse", "setting": "official", "label": "SimCSE", "backbone": "toy"}
    runs = [run | {"id": f"simcse_s{seed}", "seed": seed} for seed in values]
    write_json(folder / "plan.json", {"suite": "mine", "data": "world", "runs": runs})
    for seed, value in values.items():
        record = {"task": "Avg", "split": "test", "metric": "spearman", "aggregation": "all", "value": value}
        provenance = {"outcome": {"status": status}, "code": {"commit": "abc"}}
        write_scores(folder / "scores" / f"simcse_s{seed}.json", provenance, [record])
    return folder


def test_a_score_outside_fails_and_one_inside_passes(tmp_path: Path) -> None:
    reference = tmp_path / "reference.json"
    write(suite(tmp_path / "many", {seed: 70 + seed / 10 for seed in range(20)}), reference)
    assert read_json(reference)["provenance"][0]["code"] == {"commit": "abc"}
    assert "1 scores" in check(suite(tmp_path / "good", {1: 71.0}), reference)
    with pytest.raises(UserError, match=r"1 of 1 scores left .* on toy, Avg spearman: 80\.00 is outside"):
        check(suite(tmp_path / "bad", {1: 80.0}), reference)
    with pytest.raises(UserError, match="did not finish"):
        check(suite(tmp_path / "diverged", {1: 71.0}, status="diverged"), reference)


def test_a_run_without_reference_fails(tmp_path: Path) -> None:
    write_json(tmp_path / "reference.json", {"cells": {}})
    with pytest.raises(UserError, match="has no scores of simcse@official on toy; write it anew with make reference"):
        check(suite(tmp_path / "suite", {1: 71.0}), tmp_path / "reference.json")
