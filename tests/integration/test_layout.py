"""The repository as other tools read it: make and the workflow catalogue; and what tests share."""

import json
import re
import sys

import pytest

from tests.support.programs import ROOT, ended


def test_make_smoke_uses_no_gpu():
    """Its reference is of the CPU. What make would run prints what it sees instead."""
    prints = """SNAKEMAKE=printf '<%s>' "$$CUDA_VISIBLE_DEVICES" #"""
    command = ["make", "--silent", "--old-file=.venv/.ready", "smoke", prints, "BIN=/nowhere"]
    done = ended(*command, cwd=ROOT, status=None, CUDA_VISIBLE_DEVICES="3")
    assert done.stdout == "<>"


# --- the workflow catalogue

SUITE = """
suite: tiny
data: world
corpus: world
tasks: [sts]
seeds: [1]
backbones: {toy-bert: }
methods: [word-overlap, simcse]
"""
MODULE = f"""
module sentbench:
    snakefile: "{ROOT}/workflow/Snakefile"
    config: config

use rule * from sentbench
"""


def workflow(*words, cwd):
    """The output of a Snakemake that only its Snakefile tells where the project is."""
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *words]
    done = ended(*command, cwd=cwd, PYTHONPATH="")
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_catalogues_layout_plans_and_runs_the_same_jobs(tmp_path):
    """From the root, from workflow/, and as another workflow's module."""
    (tmp_path / "tiny.yaml").write_text(SUITE)
    (tmp_path / "Snakefile").write_text(MODULE)
    catalogue = ["--snakefile", ROOT / "workflow" / "Snakefile"]
    dry = ["--dry-run", "--printshellcmds", "--configfile", "tiny.yaml"]
    root, *packages = (
        sorted(re.findall(r"python -m bench .*", workflow(*place, *dry, cwd=tmp_path)))
        for place in (["--snakefile", ROOT / "Snakefile"], catalogue, [])
    )
    assert len(root) == 7
    assert packages == [root, root]
    words = ["results/tiny/inputs/data.json", "--configfile", "tiny.yaml"]
    workflow(*catalogue, *words, cwd=tmp_path)
    plan = json.loads((tmp_path / "results" / "tiny" / "plan.json").read_text())
    assert [run["method"] for run in plan["runs"]] == ["word-overlap", "simcse"]


# --- helpers of tests


def test_no_test_imports_from_another_test():
    """A test that is removed or renamed takes no other with it: what two share is in support/."""
    imported = r"^ *(?:from|import) tests\..*\b(?:test_|conftest\b)"
    for path in (ROOT / "tests").rglob("*.py"):
        found = re.findall(imported, path.read_text(encoding="utf-8"), re.MULTILINE)
        assert not found, f"{path}: move what it imports to tests/support/"
