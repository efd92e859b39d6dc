"""Where results come from."""

import json
import subprocess

import pytest

from bench.results import provenance
from bench.utils import commit

UNKNOWN = {"commit": None, "dirty": None}
BUILT = {"commit": "0" * 40, "dirty": True}


@pytest.mark.parametrize("known", [UNKNOWN, BUILT])
def test_the_commit_is_this_projects(known, monkeypatch, tmp_path):
    """A package that is installed within a checkout of another project has that of its build."""
    commands = [["init", "-q"], ["-c", "user.name=a", "-c", "user.email=b", "commit", "-q"]]
    commands[1] += ["--allow-empty", "-m", "theirs"]
    for command in commands:
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    installed = tmp_path / ".venv" / "bench" / "utils" / "commit.py"
    installed.parent.mkdir(parents=True)
    installed.touch()
    monkeypatch.setattr(commit, "_ROOT", installed.parents[2])
    monkeypatch.setattr(commit, "BUILT", installed.with_name("commit.json"))
    monkeypatch.setattr(commit, "__file__", str(installed))
    if known["commit"]:
        commit.BUILT.write_text(json.dumps(known))
    assert commit.commit() == known


def test_versions_of_libraries_that_compute_scores_are_kept():
    versions = provenance.provenance("cpu", 1)["versions"]
    assert versions.keys() >= {"torch", "transformers", "sentence-transformers"}


@pytest.mark.parametrize(
    ("setting", "device", "recorded"),
    [
        ("", "cuda:0", {}),
        ("1", "cuda:0", {}),
        ("3", "cpu", {}),
        ("3", "cuda:0", {"runs_per_gpu": 3}),
    ],
)
def test_seconds_of_a_run_that_shared_its_gpu_say_so(setting, device, recorded, monkeypatch):
    monkeypatch.setenv("SENTBENCH_RUNS_PER_GPU", setting)
    assert provenance.timing(2.5, device) == {"seconds": 2.5} | recorded
