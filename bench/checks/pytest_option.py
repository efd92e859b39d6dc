"""The option `--method` of pytest, which bench.checks.method_contract reads."""

from typing import Any


def pytest_addoption(parser: Any) -> None:
    parser.addoption(
        "--method", action="append", default=[], metavar="FILE.py",
        help="a file with methods, for --pyargs bench.checks.method_contract",
    )  # fmt: skip
