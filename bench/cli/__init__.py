"""The command line: `python -m bench COMMAND` or `sentbench COMMAND`."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from bench.utils import interrupts
from bench.utils.errors import UserError
from bench.utils.version import __version__

os.environ.setdefault(
    "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
)  # cuBLAS is deterministic only with this setting


def main(words: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        words: the command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 on success, 1 if the command found a fault, 2 for a user's mistake, 75 if
        SIGTERM or SIGUSR1 stopped it (the same command continues the work), 130 if it was
        interrupted.
    """
    words = list(sys.argv[1:] if words is None else words)
    if words == ["--version"]:  # without loading the parser
        print(__version__)
        return 0
    try:
        from bench.cli.program import run

        with interrupts.handle_signals():
            return run(words)
    except interrupts.Stopped as stopped:
        print(stopped, file=sys.stderr)
        return interrupts.EXIT_TEMPFAIL
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "interrupted; run the same command again to continue from what is finished",
            file=sys.stderr,
        )
        return 130
    except PermissionError as error:
        print(
            f"error: cannot write {error.filename}: permission denied; choose a folder that can be written",
            file=sys.stderr,
        )
        return 2
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        where = f"{error.filename}: " if error.filename else ""
        remedy = (
            "free some space and run the same command again; finished work is kept"
            if full
            else "name another file or folder"
        )
        print(f"error: {where}{error.strerror or error}; {remedy}", file=sys.stderr)
        return 2
