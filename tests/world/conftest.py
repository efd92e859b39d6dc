"""Fixtures of the tests of the embedded world."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def short_world(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the first 1200 sentences of the world's corpus."""
    folder = tmp_path_factory.mktemp("short")
    lines = (world / "world.txt").read_text().splitlines(keepends=True)
    (folder / "world.txt").write_text("".join(lines[:1200]))
    return folder
