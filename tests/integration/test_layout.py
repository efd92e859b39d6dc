"""The repository as other tools read it: installers, make, the workflow catalogue."""

import json
import re
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.programs import ROOT, ended

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()
LOCKS = "requirements.lock", "requirements-extras.lock"
CUDA = ("cuda-", "nvidia-", "triton")


def pins(lock):
    lines = [Requirement(line) for line in (ROOT / lock).read_text().splitlines()]
    return {canonicalize_name(line.name): line for line in lines}


def locked(lock):
    """The versions of a lock, each of which is exact."""
    exact = re.compile(r"==([\w.]+)")
    found = pins(lock).items()
    return {name: Version(exact.fullmatch(str(pin.specifier))[1]) for name, pin in found}


# --- versions


def test_pip_uv_and_make_install_the_same_versions():
    """From the index that everybody has; without those of CUDA."""
    assert pins(LOCKS[0]).items() <= pins(LOCKS[1]).items()
    for lock in LOCKS:
        assert len(pins(lock)) == len((ROOT / lock).read_text().splitlines())
        assert not any(name.startswith(CUDA) for name in pins(lock))
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    packages = [package for package in lock["package"] if package["name"] != "sentbench"]
    found = {p["name"]: Version(p["version"]) for p in packages if not p["name"].startswith(CUDA)}
    assert found == locked(LOCKS[1])
    assert {package["source"]["registry"] for package in packages} == {"https://pypi.org/simple"}
    (torch,) = re.findall(r"torch==(\S+)", MAKEFILE)
    assert PROJECT["tool"]["uv"]["constraint-dependencies"] == [f"torch=={torch}"]
    assert Version(torch) == locked(LOCKS[0])["torch"]


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
    assert len(root) == 8
    assert packages == [root, root]
    words = ["results/tiny/inputs/data.json", "--configfile", "tiny.yaml"]
    workflow(*catalogue, *words, cwd=tmp_path)
    plan = json.loads((tmp_path / "results" / "tiny" / "plan.json").read_text())
    assert [run["method"] for run in plan["runs"]] == ["word-overlap", "simcse"]
