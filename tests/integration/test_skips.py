"""A skip that is not listed is a failure where continuous integration asks for that."""

import re

import pytest

pytest_plugins = ["pytester"]

TESTS = """
    import pytest

    @pytest.mark.skipif(True, reason="BENCH_DATA is not set")
    def test_listed(): ...

    @pytest.mark.skipif(True, reason="BENCH_DATA is not set, they say")
    def test_listed_in_part(): ...

    @pytest.mark.reported
    def test_no_verdict():
        pytest.skip("open: ...")

    @pytest.mark.xfail
    def test_expected_to_fail():
        raise AssertionError
"""
MODULE = "import pytest; pytest.importorskip('a_package_that_nobody_has', reason='no package')"


def test_an_unlisted_skip_fails(pytester, monkeypatch):
    """It may be of a test or of a module."""
    monkeypatch.setenv("SENTBENCH_SKIPS", "listed")
    options = "-p", "tests.skips", "-p", "no:cacheprovider", "-W", "ignore"
    pytester.makepyfile(test_it=TESTS)
    done = pytester.runpytest(*options)
    said = re.findall(r"does not allow: (.+)", done.stdout.str())
    assert set(said) == {"BENCH_DATA is not set, they say"}
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    assert done.parseoutcomes()["skipped"] == 2
    pytester.makepyfile(test_it=MODULE)
    done = pytester.runpytest(*options)
    assert "does not allow: no package" in done.stdout.str()
    assert done.ret == pytest.ExitCode.INTERRUPTED
