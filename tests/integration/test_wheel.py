"""The wheel outside the checkout, in an environment that has what it asks for and nothing else.

That environment is not installed from an index. It links to the packages of the running one that
the wheel's own requirements lead to, so a missing requirement shows, and no network is needed.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from bench.results.records import read_scores
from bench.utils.version import __version__

ROOT = Path(__file__).parents[2]
SOURCES = ("bench", "methods", "config", "pyproject.toml", "README.md", "LICENSE")
BUILD = "import sys, setuptools.build_meta as build; print(build.build_{}(sys.argv[1]))"

pytestmark = pytest.mark.slow


def done(*command: object, cwd: Path, **environment: str) -> str:
    """What a command prints, without what tells Python where the project is."""
    told = ("PYTHON", "BENCH_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(told)}
    words, environment = [str(word) for word in command], inherited | environment
    found = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel that is built from the source distribution, as package indexes get both."""
    folder = tmp_path_factory.mktemp("build")
    source, out = folder / "source", folder / "dist"
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    source.mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        more = {"symlinks": True, "ignore": ignored} if (ROOT / name).is_dir() else {}
        copy(ROOT / name, source / name, **more)
    done(sys.executable, "-c", BUILD.format("sdist"), out, cwd=source)
    (archive,) = out.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder, filter="data")
    unpacked = folder / archive.name.removesuffix(".tar.gz")
    done(sys.executable, "-c", BUILD.format("wheel"), out, cwd=unpacked)
    (found,) = out.glob("*.whl")
    return found


def needed(requirements: list[str]) -> set[str]:
    """The installed distributions that requirements lead to."""
    found: set[str] = set()
    left = [(requirement, "") for requirement in map(Requirement, requirements)]
    while left:
        requirement, extra = left.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        known = f"{requirement.name}{sorted(requirement.extras)}"
        if known not in found:
            found.add(known)
            inner = map(Requirement, distribution(requirement.name).requires or [])
            left += [(each, name) for each in inner for name in ("", *requirement.extras)]
    return {name.partition("[")[0] for name in found}


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory) -> Path:
    """The folder of programs of an environment with the wheel."""
    base = tmp_path_factory.mktemp("environment")
    done(sys.executable, "-m", "venv", "--without-pip", base, cwd=base)
    scheme = {"base": str(base), "platbase": str(base)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=scheme))
    with zipfile.ZipFile(wheel) as content:
        (metadata,) = [name for name in content.namelist() if name.endswith("/METADATA")]
        lines = content.read(metadata).decode().splitlines()
    asked = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: ")]
    for name in needed(asked):
        package = distribution(name)
        tops = {file.parts[0] for file in package.files or []} - {"..", "__pycache__"}
        for top in tops - {path.name for path in site.iterdir()}:
            (site / top).symlink_to(package.locate_file(top))
    # Offline, so it fails if a requirement is not met by what is there.
    pip = [sys.executable, "-m", "pip", "--python", base / "bin" / "python"]
    done(*pip, "install", "--quiet", "--no-index", wheel, cwd=base)
    done(*pip, "check", cwd=base)
    return base / "bin"


def test_the_environment_holds_the_wheel_and_no_tool_of_development(programs):
    code = "import bench, importlib.util as u; print(bench.__file__, u.find_spec('hypothesis'))"
    found = done(programs / "python", "-c", code, cwd=programs)
    assert Path(found.split()[0]).is_relative_to(programs.parent)
    assert found.split()[1] == "None"
    assert (Path(found.split()[0]).parent / "py.typed").is_file()
    assert done(programs / "sentbench", "--version", cwd=programs) == f"{__version__}\n"


def test_it_scores_as_the_checkout_does(programs, tiny_bert, tiny_data, tmp_path):
    words = ["evaluate", tiny_bert, "--pooler", "avg", "--data", tiny_data, "--out"]
    threads = {"OMP_NUM_THREADS": "1"}
    # Folders of these names are found first where Python is not told otherwise.
    for name in ("bench", "methods"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not the package')")
    done(programs / "sentbench", *words, "wheel.json", cwd=tmp_path, **threads)
    checkout = [sys.executable, "-m", "bench", *words, tmp_path / "checkout.json"]
    done(*checkout, cwd=ROOT, **threads)
    theirs, ours = (read_scores(tmp_path / f"{name}.json") for name in ("wheel", "checkout"))
    assert theirs[1] == ours[1]
    assert {row["task"] for row in theirs[1]} >= {"STS12", "STS-B", "SICK-R"}


def test_it_checks_a_method(programs, tmp_path):
    shutil.copy(ROOT / "examples" / "spread_out.py", tmp_path)
    said = done(programs / "sentbench", "check-method", "spread_out.py", cwd=tmp_path)
    assert said.splitlines()[-1] == "all hold"


def test_it_knows_the_printed_numbers_and_the_suites(programs, tmp_path):
    """The data files of the packages."""
    shown = done(programs / "sentbench", "show", "gs-infonce-v2", "Table 2", cwd=tmp_path)
    assert "GS-InfoNCE" in shown
    done(programs / "sentbench", "plan", "--config", ROOT / "config/smoke.yaml", "--out", "p.json",
         cwd=tmp_path)  # fmt: skip
    assert len(json.loads((tmp_path / "p.json").read_text())["runs"]) > 10
