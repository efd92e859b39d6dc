"""The planned runs have the identities that they had before modules moved; to be deleted when all
have moved."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.runs import config

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["paper", "smoke", "wiki-mini", "chinese"])
def test_identities_are_those_before_the_moves(name: str) -> None:
    if name == "wiki-mini" and not os.environ.get("BENCH_MODELS"):
        pytest.skip("BENCH_MODELS is not set")
    planned = sorted(
        found.run.id for found in config.planned(config.read(ROOT / "config" / f"{name}.yaml"))
    )
    assert planned == (ROOT / "tests" / "identities" / f"{name}.txt").read_text().splitlines()
