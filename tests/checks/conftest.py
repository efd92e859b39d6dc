"""A suite with one training, which tests may spoil."""

import shutil

import pytest

from bench.__main__ import main
from tests.support.tiny_suite import train_words


@pytest.fixture(scope="session")
def trained(tiny_bert, tiny_data, tiny_corpus, tmp_path_factory):
    """A suite's folder without a plan, and the identity of its run, which is trained and scored."""
    suite = tmp_path_factory.mktemp("suite") / "mine"
    words = train_words("simcse", tiny_bert, tiny_data, tiny_corpus)
    assert main([*words, "--suite", str(suite), "--tasks", "STS12", "STS-B"]) == 0
    (run,) = (suite / "runs").iterdir()
    return suite, run.name


@pytest.fixture
def suite(trained, tmp_path):
    """A copy that a test may modify."""
    return shutil.copytree(trained[0], tmp_path / "mine")
