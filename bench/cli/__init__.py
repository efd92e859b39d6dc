"""The command line: `sentbench COMMAND`, which rules call as `python -m bench COMMAND`."""

import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any

from bench.utils import interrupts
from bench.utils.errors import UserError, is_memory_full, printable, warn
from bench.utils.files import DISK_FULL
from bench.utils.version import __version__

# Variables by which libraries are told what to compute, draw and print, for a notebook or another
# program: a job would fail by them, late where it renders, or multiply in TF32. Libraries read them
# when they are loaded. Those of processors, threads, memory and caches stay.
_TELLING = (
    "DNNL_DEFAULT_", "MATPLOTLIBRC", "MPLBACKEND", "NUMPY_", "NVIDIA_TF32_", "ONEDNN_DEFAULT_",
    "PANDAS_", "PYTORCH_", "SCIPY_", "SKLEARN_", "TORCH", "USE_HUB_KERNELS",
)  # fmt: skip
_KEPT = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "TORCH_HOME"}
for _name in {*os.environ} - _KEPT:
    if _name.startswith(_TELLING):
        del os.environ[_name]
os.environ["MATPLOTLIBRC"] = os.devnull  # the user's may be broken

# cuBLAS is deterministic only with this setting.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
# OpenMP's threads wait asleep. Spinning, they keep a thread that shares their core with another
# process from finishing what they wait for. OpenMP reads this when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

EXIT_INTERRUPTED = 128 + 2

# Commands whose finished parts another start does not repeat.
RESUMABLE = {"run", "train", "job", "evaluate", "compare", "reproduce"}


class Terminal:
    """A stream of text through which commands print: foreign text cannot move the cursor."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> Any:
        if isinstance(text, bytes):  # click asks so whether the stream is of bytes
            raise TypeError("a stream of text takes no bytes")
        return self._stream.write(printable(text, "\n\t"))

    def isatty(self) -> bool:
        return False  # for libraries, which would send colours

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def main(words: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        words: the command line without the program's name; by default this process's.

    Returns:
        The exit status: 0 on success, 1 if the command found a fault or its workflow failed, 2 for
        a user's mistake, 3 if nobody agreed to a long workflow, 75 if a signal stopped it, 130 if
        it was interrupted, 141 if its output was closed.
    """
    words = list(sys.argv[1:] if words is None else words)
    if words[:1] == ["--version"]:  # without loading the parser
        print(__version__)
        return 0
    for stream in (sys.stdout, sys.stderr):  # of an encoding that may lack dashes and marks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    again = "run the same command again"
    if RESUMABLE & {*words[:1]}:
        again += " to continue from what is finished"
    try:
        from bench.cli.program import run

        with redirect_stdout(Terminal(sys.stdout)), interrupts.handle_signals():
            status = run(words)
            sys.stdout.flush()
            return status
    except interrupts.Stopped as stopped:
        warn(f"{stopped}; {again}")
        return EXIT_INTERRUPTED if stopped.is_interrupt else interrupts.EXIT_TEMPFAIL
    except KeyboardInterrupt as interrupt:
        where = f" {interrupt}" if str(interrupt) else ""
        warn(f"interrupted{where}; {again}")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # who read the output has ended, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13  # as shells report a program that SIGPIPE ended
    except UserError as error:
        message = str(error)
    except OSError as error:
        remedy = "name another file or folder"
        if error.errno in DISK_FULL:
            remedy = f"free some space and {again}"
        message = f"{error.strerror or error}; {remedy}"
        if error.filename:  # of a rename, the new name
            message = f"{error.filename2 or error.filename}: {message}"
    except (ImportError, MemoryError, RuntimeError) as error:
        if not is_memory_full(error):
            raise
        reason = str(error).partition(". ")[0]  # torch adds advice on its allocator
        full = f"memory is full ({reason})" if reason else "memory is full"
        message = f"{full}; free some or use a larger device, then {again}"
    warn(f"error: {message}")
    return 2
