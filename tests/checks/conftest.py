"""A suite with one training, which tests may spoil."""

from tests.export.conftest import suite, trained

__all__ = ["suite", "trained"]
