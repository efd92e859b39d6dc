"""The suite of `tests/support/synthetic_figures.py` for every test of figures."""

from tests.support.synthetic_figures import folder, suite

__all__ = ["folder", "suite"]
