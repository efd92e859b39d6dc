"""Handling of SIGTERM and SIGUSR1, which schedulers send before they stop a job, and of Ctrl-C."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
EXIT_TEMPFAIL = 75  # exit status of a stopped job that can be resumed; from sysexits.h

_pending: str | None = None  # name of the last signal received
_deferred = False


class Stopped(BaseException):
    """A signal stops the work; as KeyboardInterrupt no `Exception`, so that no handler swallows
    it."""

    def __init__(self, name: str, kept: str = "") -> None:
        self.is_interrupt = name == "SIGINT"
        how = "interrupted" if self.is_interrupt else f"stopped by {name}"
        super().__init__(how + (kept and f": {kept}"))


def pending_signal() -> str | None:
    """Return the name of the last signal received, or None."""
    return _pending


def _receive(number: int, frame: FrameType | None) -> None:
    global _pending
    before, _pending = _pending, signal.Signals(number).name
    # A second Ctrl-C does not wait for the end of a step.
    if number == signal.SIGINT and (before == _pending or not _deferred):
        raise KeyboardInterrupt
    # What the first one stops may have to end something, which a second one would cut short.
    if not (_deferred or before):
        raise Stopped(_pending)


@contextmanager
def handle_signals() -> Iterator[None]:
    """Raise `Stopped`, of Ctrl-C KeyboardInterrupt, when one of `SIGNALS` arrives in the block."""
    global _pending
    before = {number: signal.signal(number, _receive) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _pending = None


@contextmanager
def defer_signals() -> Iterator[None]:
    """Only record signals in the block, where the caller polls `pending_signal`; raise `Stopped` at
    its end."""
    global _deferred
    _deferred = True
    try:
        yield
    finally:
        _deferred = False
    if _pending:
        raise Stopped(_pending)
