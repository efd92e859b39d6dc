"""Data of every task."""

import pytest

from tests.support.tiny_tasks import write_tasks


@pytest.fixture(scope="session")
def data_folder(tiny_data, tmp_path_factory):
    """Every task of SentEval, to be read only."""
    return write_tasks(tiny_data, tmp_path_factory.mktemp("all") / "data")
