"""Runs of a method on either tiny backbone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.methods.outside import Runs


@pytest.fixture
def runs(tiny_backbone: Path, tiny_corpus: Path, tiny_data: Path, tmp_path: Path) -> Runs:
    return Runs(tiny_backbone, tiny_corpus, tiny_data, tmp_path)
