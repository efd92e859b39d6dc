"""The site of the documents."""

import sys

import pytest

from tests.support.programs import ROOT, ended

pytestmark = pytest.mark.slow


def test_it_is_built_without_a_warning(tmp_path):
    pytest.importorskip("myst_parser")  # `make extras` installs it
    sphinx = ("-m", "sphinx", "-W", "--keep-going", "-q", "-c", "tools/site", "docs")
    ended(sys.executable, *sphinx, tmp_path, cwd=ROOT)
    python = (tmp_path / "reference" / "python.html").read_text(encoding="utf-8")
    assert "pd.DataFrame" in python  # types as they are written, not Any
