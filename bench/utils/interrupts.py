"""SIGTERM and SIGUSR1, by which schedulers announce the end: work stops where it can go on later."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
EXIT_TEMPFAIL = 75  # exit status of work that was stopped and goes on when started again: EX_TEMPFAIL of sysexits.h

_pending: str | None = None  # the signal that came last
_deferred = False


class Stopped(BaseException):
    """A signal ends the work. Like KeyboardInterrupt it is no error, which code on the way might swallow."""

    def __init__(self, name: str, kept: str = "what is finished is kept") -> None:
        super().__init__(f"stopped by {name}: {kept}, start again to go on")


def pending_signal() -> str | None:
    """The name of the signal that has come, or None."""
    return _pending


def _receive(number: int, frame: FrameType | None) -> None:
    global _pending
    _pending = signal.Signals(number).name
    if not _deferred:
        raise Stopped(_pending)


@contextmanager
def handle_signals() -> Iterator[None]:
    """Both signals end the block by `Stopped`; in other threads than the main one nothing changes."""
    global _pending
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _receive) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _pending = None


@contextmanager
def defer_signals() -> Iterator[None]:
    """A signal that comes in the block is only noted; who runs the block asks for `pending` where stopping is safe.

    Raises:
        Stopped: a signal came and was not asked for.
    """
    global _deferred
    _deferred = True
    try:
        yield
    finally:
        _deferred = False
    if _pending:
        raise Stopped(_pending)
