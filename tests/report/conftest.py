"""Fixtures of all tests of tables, figures and the page: no fsync, and the suite of
`synthetic_figures.py`."""

from tests.support.no_fsync import no_fsync
from tests.support.synthetic_figures import folder, suite

__all__ = ["folder", "no_fsync", "suite"]
