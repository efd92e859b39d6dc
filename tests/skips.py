"""Which tests may be skipped where `SENTBENCH_SKIPS=listed` is set, as in `.ci/run`.

Any other skip is a failure there: no test stays silent because nothing installed what it needs.
"""

import os
import re
import shutil
from collections.abc import Generator, Mapping

import pytest

# Patterns that a skip's whole reason must match, and why it is allowed.
ALLOWED = {
    r"BENCH_DATA is not set|BENCH_MODELS is not set": "no real data are part of the project",
    r"BENCH_(DATA|MODELS) holds (none|no|another) .+": "real data are used as far as they exist",
    r"SENTBENCH_SLURM=1 starts a SLURM cluster": "`make slurm` takes minutes and two whole cores",
    r"this processor has no products in bfloat16": "a property of the processor",
    r"needs /proc": "Linux alone has it",
    r"needs Linux and a C compiler": "a library in C, loaded by Linux, makes calls fail",
    r"no GPU is here": "`make test-gpu` runs on a machine with one",
}
# Of what `.ci/run` installs where it may.
PACKAGES = {
    r"no chromium and chromedriver .+": "only root may install Debian packages",
    r"pdflatex is not installed": "only root may install Debian packages",
}


def allowed() -> dict[str, str]:
    installs = os.geteuid() == 0 and shutil.which("apt-get")
    return ALLOWED if installs else ALLOWED | PACKAGES


def _refuse(report: pytest.TestReport | pytest.CollectReport, reasons: Mapping[str, str]) -> None:
    """Turn a skip that no pattern allows into a failure."""
    # Of an expected failure longrepr is no tuple.
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not any(re.fullmatch(pattern, reason) for pattern in reasons):
            report.outcome = "failed"
            report.longrepr = f"skipped, which tests/skips.py does not allow: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # A printed number without a verdict is skipped too, for which nothing is missing.
    if os.environ.get("SENTBENCH_SKIPS") == "listed" and not item.get_closest_marker("reported"):
        _refuse(report, allowed())
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if os.environ.get("SENTBENCH_SKIPS") == "listed":
        _refuse(report, allowed())
    return report
