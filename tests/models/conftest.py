"""Copies of the tiny BERT."""

import shutil

import pytest

from tests.support.model_folders import copy_with_pooler


@pytest.fixture
def copy(tiny_bert, tmp_path):
    """One that a test may change."""
    return shutil.copytree(tiny_bert, tmp_path / "model")


@pytest.fixture(scope="session")
def with_pooler(tiny_bert, tmp_path_factory):
    """One with a stored pooler of its own."""
    return copy_with_pooler(tiny_bert, tmp_path_factory.mktemp("pooler") / "model")
