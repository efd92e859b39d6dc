"""The repository as other tools read it: the workflow catalogue, pre-commit, installers."""

import json
import os
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from itertools import product
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SNAKEFILES = ["Snakefile", "workflow/Snakefile"]
SNAKEFILES += [f"rules/{path.name}" for path in (ROOT / "rules").glob("*.smk")]
LOCKS = "requirements.lock", "requirements-extras.lock"
GROUPS = PROJECT["project"]["optional-dependencies"] | PROJECT["dependency-groups"]


def pins(lock: str) -> dict[str, Requirement]:
    lines = [Requirement(line) for line in (ROOT / lock).read_text().splitlines()]
    return {canonicalize_name(line.name): line for line in lines}


def locked(lock: str = "requirements.lock") -> dict[str, Version]:
    """The versions of a lock, each of which is exact."""
    exact = re.compile(r"==([\w.]+)")
    found = pins(lock).items()
    return {name: Version(exact.fullmatch(str(pin.specifier))[1]) for name, pin in found}


def bounded(*groups: str) -> list[Requirement]:
    lines = sum((GROUPS[group] for group in groups), PROJECT["project"]["dependencies"])
    return [Requirement(line) for line in lines]


# --- versions


@pytest.mark.parametrize(("lock", "groups"), [(LOCKS[0], ["dev"]), (LOCKS[1], list(GROUPS))])
def test_a_lock_is_not_below_the_lowest_versions(lock, groups):
    for requirement in bounded(*groups):
        # A lowest version, and nothing that forbids; of torch, only what was tested.
        upper = ["<"] if requirement.name == "torch" else []
        operators = sorted(bound.operator for bound in requirement.specifier)
        assert operators == [*upper, ">="], requirement
        version = locked(lock)[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, requirement


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_on_every_platform(lock):
    """All that is asked for is installed everywhere, in one version, and no build for a machine."""
    found = pins(lock)
    platforms = ("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")
    for python, (system, machine) in product(("3.11", "3.12", "3.13"), platforms):
        place = {"python_full_version": f"{python}.0", "python_version": python}
        place |= {"sys_platform": system, "platform_machine": machine}
        markers = {name: pin.marker for name, pin in found.items() if pin.marker}
        missing = {name for name, marker in markers.items() if not marker.evaluate(place)}
        # For Windows, for browsers; and greenlet, which only asynchronous databases need.
        assert missing <= {"colorama", "httpx2-jsfetch", "pyreadline3", "greenlet"}, place
    assert len(found) == len((ROOT / lock).read_text().splitlines())
    assert not [name for name in found if name.startswith(("cuda-", "nvidia-", "triton"))]


def test_the_extras_change_no_version_of_the_lock():
    assert pins(LOCKS[0]).items() <= pins(LOCKS[1]).items()


def test_uvs_lock_is_what_pip_installs():
    """The same versions, those of CUDA apart, of what pyproject.toml asks for, from the index that
    everybody has."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    (ours,) = [package for package in lock["package"] if package["name"] == "sentbench"]
    others = [package for package in lock["package"] if package is not ours]
    cuda = ("cuda-", "nvidia-", "triton")
    found = {p["name"]: Version(p["version"]) for p in others if not p["name"].startswith(cuda)}
    assert len(others) == len({package["name"] for package in others})
    assert found == locked(LOCKS[1])
    assert {package["source"]["registry"] for package in others} == {"https://pypi.org/simple"}
    files = [file for p in others for file in (*p.get("wheels", []), p.get("sdist")) if file]
    assert all(file["url"].startswith("https://files.pythonhosted.org/") for file in files)
    # As uv states them, which is how it notices that the lock is old.
    required = [entry for entry in ours["metadata"]["requires-dist"] if "marker" not in entry]
    stated = ours["metadata"]["requires-dev"] | {"": required}
    asked = PROJECT["dependency-groups"] | {"": PROJECT["project"]["dependencies"]}
    for name, lines in asked.items():
        plain = {(canonicalize_name(each.name), each.specifier) for each in map(Requirement, lines)}
        assert {(e["name"], SpecifierSet(e["specifier"])) for e in stated[name]} == plain


def test_make_installs_the_torch_of_the_lock():
    (version,) = re.findall(r"torch==(\S+)", (ROOT / "Makefile").read_text())
    assert PROJECT["tool"]["uv"]["constraint-dependencies"] == [f"torch=={version}"]
    assert Version(version) == locked()["torch"]


def test_make_smoke_uses_no_gpu():
    """Its reference is of the CPU. What make would run prints what it sees instead."""
    prints = """SNAKEMAKE=printf '<%s>' "$$CUDA_VISIBLE_DEVICES" #"""
    command = ["make", "--silent", "--old-file=.venv/.ready", "smoke", prints, "BIN=/nowhere"]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "3"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout == "<>"


# --- what is installed


def test_every_package_and_every_data_file_is_in_the_wheel():
    setup = PROJECT["tool"]["setuptools"]
    paths = [path for top in ("bench", "methods") for path in (ROOT / top).rglob("*")]
    files = [path.relative_to(ROOT) for path in paths if path.is_file()]
    files = [path for path in files if "__pycache__" not in path.parts]
    packages = {".".join(path.parent.parts) for path in files if path.name == "__init__.py"}
    assert packages == {".".join(path.parent.parts) for path in files if path.suffix == ".py"}
    included = setup["packages"]["find"]["include"]
    assert all(any(fnmatch(name, glob) for glob in included) for name in packages)
    for file in files:
        if file.suffix != ".py":
            package = next(parent for parent in file.parents if ".".join(parent.parts) in packages)
            globs = setup["package-data"][".".join(package.parts)]
            matched = (path for glob in globs for path in (ROOT / package).glob(glob))
            assert ROOT / file in matched, file


# --- pre-commit


def test_pre_commit_runs_the_tools_of_make_check_and_fetches_nothing():
    content = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in content["repos"]] == ["local"]
    hooks = content["repos"][0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    check = (ROOT / "Makefile").read_text().split("\ncheck:")[1].split("\n\n")[0]
    wanted = re.findall(r"\$\(BIN\)/(ruff \w+|python [\w/.]+|[\w-]+)", check)
    run = [hook["entry"].removeprefix(".venv/bin/") for hook in hooks]
    assert [entry.removesuffix(" --force-exclude") for entry in run] == wanted


# --- the workflow catalogue


def test_the_catalogues_layout_holds_no_second_copy():
    # Snakemake looks for them beside the Snakefile.
    assert (ROOT / "workflow" / "profiles").samefile(ROOT / "profiles")
    assert sorted(path.name for path in (ROOT / "workflow").iterdir()) == ["Snakefile", "profiles"]


def snakemake(*words: str, cwd: Path) -> str:
    """What Snakemake says that only its Snakefile tells where the project is."""
    told = ("PYTHONPATH", "BENCH_METHODS")
    environment = {key: value for key, value in os.environ.items() if key not in told}
    options = {"env": environment, "capture_output": True, "text": True, "timeout": 600}
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *words]
    done = subprocess.run(command, cwd=cwd, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def jobs(said: str) -> list[str]:
    """The commands that a dry run prints, in an order of their own."""
    found = sorted(re.findall(r"python -m bench .*", said))
    (total,) = set(re.findall(r"^total +(\d+)$", said, re.MULTILINE))
    assert len(found) == int(total) - 1  # the target itself has no command
    return found


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


@pytest.mark.slow
def test_the_catalogues_layout_plans_the_same_jobs(tmp_path):
    (tmp_path / "tiny.yaml").write_text(SUITE)
    (tmp_path / "Snakefile").write_text(MODULE)
    dry = ["--dry-run", "--printshellcmds", "--configfile", str(tmp_path / "tiny.yaml")]
    root = jobs(snakemake("--snakefile", str(ROOT / "Snakefile"), *dry, cwd=tmp_path))
    assert len(root) == 7
    words = ["--snakefile", "workflow/Snakefile", "--directory", str(tmp_path)]
    assert jobs(snakemake(*words, *dry, cwd=ROOT)) == root
    assert not (tmp_path / "results" / "tiny" / "plan.json").exists()
    assert jobs(snakemake(*dry, cwd=tmp_path)) == root, "another workflow's module"
    assert (tmp_path / "results" / "tiny" / "plan.json").is_file()


@pytest.mark.slow
def test_jobs_of_the_catalogues_layout_find_the_project(tmp_path):
    (tmp_path / "tiny.yaml").write_text(SUITE)
    words = ["results/tiny/inputs/data.json", "--configfile", "tiny.yaml"]
    snakemake("--snakefile", str(ROOT / "workflow" / "Snakefile"), *words, cwd=tmp_path)
    plan = json.loads((tmp_path / "results" / "tiny" / "plan.json").read_text())
    assert [run["method"] for run in plan["runs"]] == ["word-overlap", "simcse"]
