"""Copies of the tiny BERT, and decoders."""

import shutil

import pytest

from tests.support import tiny_decoders
from tests.support.model_folders import copy_with_pooler


@pytest.fixture
def copy(tiny_bert, tmp_path):
    """One that a test may change."""
    return shutil.copytree(tiny_bert, tmp_path / "model")


@pytest.fixture(scope="session")
def with_pooler(tiny_bert, tmp_path_factory):
    """One with a stored pooler of its own."""
    return copy_with_pooler(tiny_bert, tmp_path_factory.mktemp("pooler") / "model")


@pytest.fixture(scope="session")
def decoders(tmp_path_factory):
    """The folder of a tiny decoder of a kind."""
    return tiny_decoders.writer(tmp_path_factory.mktemp("decoders"))
