"""Record the commit in what is built, as provenance names it. The rest is in pyproject.toml."""

import json
import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

# By its path: a build has none of the project's libraries.
BUILT = Path("bench/utils/commit.json")
COMMIT = runpy.run_path("bench/utils/commit.py")["commit"]()


def record(folder):
    file = Path(folder, BUILT)
    if file.parent.is_dir():  # an editable installation builds nothing
        file.write_text(json.dumps(COMMIT))


class BuildPy(build_py):
    def run(self):
        super().run()
        record(self.build_lib)


class Sdist(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        record(base_dir)


setup(cmdclass={"build_py": BuildPy, "sdist": Sdist})
