"""A skip that is not listed is a failure where continuous integration asks for that."""

import os
import re
from pathlib import Path

import pytest

from tests import skips

pytest_plugins = ["pytester"]

TESTS = """
    import pytest

    @pytest.mark.skipif(True, reason="BENCH_DATA is not set")
    def test_listed(): ...

    @pytest.mark.skipif(True, reason="BENCH_DATA is not set, they say")
    def test_listed_in_part(): ...

    def test_unlisted():
        pytest.skip("no fork")

    @pytest.mark.reported
    def test_no_verdict():
        pytest.skip("inconclusive: ...")

    @pytest.mark.xfail
    def test_expected_to_fail():
        raise AssertionError
"""
MODULE = "import pytest; pytest.importorskip('a_package_that_nobody_has', reason='no package')"


@pytest.mark.parametrize(("asked", "failed"), [("listed", 2), ("", 0)])
def test_an_unlisted_skip_fails(pytester, monkeypatch, asked, failed):
    monkeypatch.setenv("SENTBENCH_SKIPS", asked)
    pytester.makepyfile(test_it=TESTS)
    done = pytester.runpytest("-p", "tests.skips", "-p", "no:cacheprovider", "-W", "ignore")
    counts = done.parseoutcomes()
    # pytest counts as an error what fails before the test itself.
    assert counts.get("failed", 0) + counts.get("errors", 0) == failed
    assert counts["skipped"] == 4 - failed
    assert counts["xfailed"] == 1
    said = re.findall(r"does not allow: (.+)", done.stdout.str())
    unlisted = {"no fork", "BENCH_DATA is not set, they say"}
    assert set(said) == (unlisted if failed else set())


@pytest.mark.parametrize(
    ("asked", "status"),
    [("listed", pytest.ExitCode.INTERRUPTED), ("", pytest.ExitCode.NO_TESTS_COLLECTED)],
)
def test_an_unlisted_skip_of_a_module_fails(pytester, monkeypatch, asked, status):
    monkeypatch.setenv("SENTBENCH_SKIPS", asked)
    pytester.makepyfile(test_it=MODULE)
    done = pytester.runpytest("-p", "tests.skips", "-p", "no:cacheprovider")
    assert done.ret == status
    assert ("does not allow: no package" in done.stdout.str()) == (asked == "listed")


@pytest.mark.parametrize(
    ("user", "tool", "may"),
    [(0, "/usr/bin/apt-get", False), (0, None, True), (1000, "/usr/bin/apt-get", True)],
)
def test_a_program_may_be_missing_where_nothing_can_install_it(monkeypatch, user, tool, may):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(skips.shutil, "which", lambda name: tool)
    assert ("pdflatex is not installed" in skips.allowed()) == may
    assert skips.ALLOWED.keys() <= skips.allowed().keys()


def test_every_listed_reason_is_one_that_a_test_gives():
    here = Path(__file__).parents[1]
    others = {*here.rglob("*.py")} - {Path(skips.__file__), Path(__file__)}
    content = "\n".join(path.read_text(encoding="utf-8") for path in others)
    texts = set(re.findall(r'"([^"\n]*)"', content))
    for pattern in skips.ALLOWED | skips.PACKAGES:
        assert any(re.fullmatch(pattern, text) for text in texts), pattern
