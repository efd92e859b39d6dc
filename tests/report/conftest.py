"""Fixtures of all tests of tables, figures and the page: no fsync, the folder of
`synthetic_figures.py`, and the suite of `table_suite.py`, which is judged once."""

import pytest

from bench.judge.stage import read_suite
from tests.support.no_fsync import no_fsync
from tests.support.synthetic_figures import folder
from tests.support.synthetic_suite import write_suite
from tests.support.table_suite import CLAIMS, ENTRIES

__all__ = ["folder", "no_fsync"]


@pytest.fixture(scope="session")
def table_suite(tmp_path_factory):
    return read_suite(write_suite(tmp_path_factory.mktemp("tables"), ENTRIES, claims=CLAIMS))


@pytest.fixture(scope="session")
def compared_suite(tmp_path_factory):
    """The same with a baseline."""
    folder = tmp_path_factory.mktemp("compared")
    return read_suite(write_suite(folder, ENTRIES, baseline="simcse", claims=CLAIMS))
