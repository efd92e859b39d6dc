"""An exported folder in mteb, and its own way of sending results, as docs/exports.md shows both."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.export.conftest import exported
from tests.support.programs import ROOT

REPOSITORY = "https://github.com/embeddings-benchmark/results"  # mteb's
DOCUMENT = (ROOT / "docs" / "exports.md").read_text(encoding="utf-8")


def git(*words):
    subprocess.run(["git", *words], check=True, capture_output=True)


@pytest.fixture
def results_repository(tmp_path, monkeypatch):
    """A repository on this machine in place of mteb's."""
    place, work = tmp_path / "results.git", tmp_path / "first"
    settings = {
        f"url.{place.as_uri()}.insteadOf": REPOSITORY,
        "user.name": "a",
        "user.email": "a@b",
        "init.defaultBranch": "main",
    }
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(settings)))
    for number, (key, value) in enumerate(settings.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    git("init", "--bare", place)
    git("clone", place, work)
    git("-C", work, "commit", "--allow-empty", "-m", "first")
    git("-C", work, "push", "origin", "HEAD:main")


@pytest.mark.slow
def test_a_run_is_scored_by_mteb_and_its_results_are_ready_to_be_sent(
    suite, tmp_path, monkeypatch, results_repository
):
    """On a task of mteb's that needs no download."""
    from mteb.mocks.mock_tasks import MockSTSTask

    monkeypatch.chdir(tmp_path)
    folder = exported(suite, tmp_path / "FOLDER")
    blocks = re.findall(r"^    \S.+?(?=\n\n\S)", DOCUMENT, re.MULTILINE | re.DOTALL)
    python, command = (
        dedent(text).replace("<run>", folder.name) for text in blocks if "mteb" in text
    )
    task = 'mteb.get_tasks(tasks=["NFCorpus"])'
    exec(python.replace(task, "[task]"), {"task": MockSTSTask()})
    program, *words = shlex.split(command)
    subprocess.run([Path(sys.executable).parent / program, *words], check=True)
    (branch,) = Path("mteb-results/remote/.git/refs/heads").glob("mteb-results-*")
    sent = subprocess.run(
        ["git", "-C", "mteb-results/remote", "show", "--name-only", "--format=", branch.name],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert "MockSTSTask.json" in sent
