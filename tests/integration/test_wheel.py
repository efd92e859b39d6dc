"""The wheel outside the checkout, in an environment that has what it asks for and nothing else.

That environment is not installed from an index. It links to the packages of the running one that
the wheel's own requirements lead to, so a missing requirement shows, and no network is needed.
"""

import json
import re
import shutil
import sys
import sysconfig
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from bench.results.records import read_scores
from bench.utils.version import __version__
from tests.support.programs import ROOT, ended
from tests.support.tiny_suite import tiny_configuration

BUILD = "import sys, setuptools.build_meta as build; print(build.build_{}(sys.argv[1]))"

pytestmark = pytest.mark.slow


def done(*command, cwd):
    """The output of a command, without what tells Python where the project is."""
    return ended(*command, cwd=cwd, PYTHONPATH="").stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel that is built from the source distribution, as package indexes get both."""
    folder = tmp_path_factory.mktemp("build")
    source, out = folder / "source", folder / "dist"
    source.mkdir()
    for name in ("bench", "docs", "methods", "config", "rules", "profiles"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "Snakefile", "sentbench.py"):
        shutil.copy(ROOT / name, source)
    done("git", "init", "--quiet", cwd=source)
    done("git", "add", ".", cwd=source)
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
    done("git", *who, "commit", "--quiet", "--message", "all of it", cwd=source)
    done(sys.executable, "-c", BUILD.format("sdist"), out, cwd=source)
    (archive,) = out.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder, filter="data")
    unpacked = folder / archive.name.removesuffix(".tar.gz")
    done(sys.executable, "-c", BUILD.format("wheel"), out, cwd=unpacked)
    (result,) = out.glob("*.whl")
    return result


def needed(requirements):
    """The installed distributions that requirements lead to."""
    result, left = {}, [(requirement, "") for requirement in map(Requirement, requirements)]
    while left:
        requirement, extra = left.pop()
        known = requirement.name, *sorted(requirement.extras)
        applies = not requirement.marker or requirement.marker.evaluate({"extra": extra})
        if applies and known not in result:
            result[known] = distribution(requirement.name)
            inner = map(Requirement, result[known].requires or [])
            left += [(need, name) for need in inner for name in ("", *requirement.extras)]
    return result.values()


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory):
    """The folder of programs of an environment with the wheel."""
    base = tmp_path_factory.mktemp("environment")
    done(sys.executable, "-m", "venv", "--without-pip", base, cwd=base)
    scheme = {"base": str(base), "platbase": str(base)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=scheme))
    with zipfile.ZipFile(wheel) as content:
        (metadata,) = [name for name in content.namelist() if name.endswith("/METADATA")]
        asked = re.findall("^Requires-Dist: (.+)$", content.read(metadata).decode(), re.MULTILINE)
    for package in needed(asked):
        for top in {file.parts[0] for file in package.files or []} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(package.locate_file(top))
    # Offline, so it fails if a requirement is not met by what is there.
    pip = [sys.executable, "-m", "pip", "--python", base / "bin" / "python"]
    done(*pip, "install", "--quiet", "--no-index", wheel, cwd=base)
    done(*pip, "check", cwd=base)
    return base / "bin"


def test_the_wheel_holds_every_file(wheel):
    files = [path for top in ("bench", "methods") for path in (ROOT / top).rglob("*")]
    ours = {str(path.relative_to(ROOT)) for path in files if path.is_file()} | {"sentbench.py"}
    # A link to a folder, of whose documents messages speak.
    ours |= {f"bench/{path.relative_to(ROOT)}" for path in (ROOT / "docs").rglob("*.md")}
    with zipfile.ZipFile(wheel) as content:
        missing = ours - {*content.namelist()}
    assert [name for name in missing if "__pycache__" not in name] == []


def test_the_environment_holds_the_wheel_and_no_tool_of_development(programs):
    code = (
        "import sentbench as s, importlib.util as u; print(s.__file__, u.find_spec('hypothesis'))"
    )
    file, development = done(programs / "python", "-c", code, cwd=programs).split()
    assert Path(file).is_relative_to(programs.parent)
    assert development == "None"
    assert done(programs / "sentbench", "--version", cwd=programs) == f"{__version__}\n"


def test_it_names_the_commit_of_its_checkout(wheel, programs, tmp_path):
    source = wheel.parents[1] / "source"
    head = done("git", "rev-parse", "HEAD", cwd=source).strip()
    code = "import json, bench.results.provenance as p; print(json.dumps(p.code()))"
    told = json.loads(done(programs / "python", "-c", code, cwd=tmp_path))
    assert told == {"version": __version__, "commit": head, "dirty": False}
    (source / "methods" / "another.py").touch()
    done(sys.executable, "-c", BUILD.format("wheel"), tmp_path, cwd=source)
    (changed,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(changed) as content:
        told = json.loads(content.read("bench/utils/commit.json"))
    assert told == {"commit": head, "dirty": True}


def test_it_scores_as_the_checkout_does(programs, tiny_bert, tiny_data, tmp_path):
    words = ["evaluate", tiny_bert, "--pooler", "avg", "--data", tiny_data, "--out"]
    done(programs / "sentbench", *words, "wheel.json", cwd=tmp_path)
    checkout = [sys.executable, "-m", "bench", *words, tmp_path / "checkout.json"]
    done(*checkout, cwd=ROOT)
    files = tmp_path / "wheel.json", tmp_path / "checkout.json"
    theirs, ours = (read_scores(file).records for file in files)
    assert theirs == ours
    assert {row.task for row in theirs} >= {"STS12", "STS-B", "SICK-R"}


def test_it_leaves_the_tests_of_another_project_alone(programs, tmp_path):
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").write_text("own = 1\n")
    (tmp_path / "test_own.py").write_text("from bench import own\n\n\ndef test_own(): own\n")
    assert "1 passed" in done(programs / "python", "-m", "pytest", cwd=tmp_path)


def test_it_checks_a_method_and_knows_the_printed_numbers_and_the_suites(programs, tmp_path):
    shutil.copy(ROOT / "examples" / "spread_out.py", tmp_path)
    said = done(programs / "sentbench", "check-method", "spread_out.py", cwd=tmp_path)
    assert " 12 passed in " in said
    text = done(programs / "sentbench", "show", "gs-infonce-v2", "Table 2", cwd=tmp_path)
    assert "GS-InfoNCE" in text
    done(programs / "sentbench", "plan", "smoke", "--out", "p.json", cwd=tmp_path)
    assert len(json.loads((tmp_path / "p.json").read_text())["runs"]) > 10


def test_it_runs_a_suite_in_an_empty_folder(programs, tmp_path):
    recipe = {"batch_size": 8, "sentences": 64, "select_every": 4}
    own = {"suite": "mine", "methods": ["word-overlap", "simcse"], "recipe": recipe}
    content = tiny_configuration("toy-bert", "world", "world", **own)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    command = [programs / "sentbench", "run", "mine.yaml", "--cores", "2"]
    done(*command, cwd=tmp_path)
    assert "SimCSE" in (tmp_path / "results" / "mine" / "tables" / "sts.md").read_text()
    assert (tmp_path / "results" / "mine" / "report" / "index.html").is_file()
    # Snakemake has read its options and the profile of the package, and finds everything done.
    assert "Nothing to be done" in done(*command, "--dry-run", cwd=tmp_path)
