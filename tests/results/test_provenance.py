"""Where results come from."""

import subprocess

import pytest

from bench.results import provenance


def test_the_commit_is_this_projects(monkeypatch, tmp_path):
    """A package that is installed within a checkout of another project has none."""
    commands = [["init", "-q"], ["-c", "user.name=a", "-c", "user.email=b", "commit", "-q"]]
    commands[1] += ["--allow-empty", "-m", "theirs"]
    for command in commands:
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    installed = tmp_path / ".venv" / "bench" / "results" / "provenance.py"
    installed.parent.mkdir(parents=True)
    installed.touch()
    monkeypatch.setattr(provenance, "_ROOT", installed.parents[2])
    monkeypatch.setattr(provenance, "__file__", str(installed))
    code = provenance.code.__wrapped__()
    assert (code["commit"], code["dirty"]) == (None, None)


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
