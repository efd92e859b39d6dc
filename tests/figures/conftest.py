"""One suite that has everything, for all tests of figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_figures import write_everything

from bench.compare import Suite, read_suite


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return write_everything(tmp_path_factory.mktemp("everything"), seeds=(42, 43))


@pytest.fixture(scope="session")
def suite(folder) -> Suite:
    return read_suite(folder)
