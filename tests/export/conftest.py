"""Exports are written without fsync."""

from tests.support.no_fsync import no_fsync

__all__ = ["no_fsync"]
