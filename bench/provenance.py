"""Where a number comes from: code, versions, machine."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import bench

_ROOT = Path(bench.__file__).parent.parent
_LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "scipy")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(_ROOT), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


@cache
def code() -> dict[str, Any]:
    """Version of the suite, and its commit where it runs from a checkout; `dirty` if files differ from it."""
    status = _git("status", "--porcelain", "--untracked-files=no")
    return {
        "version": bench.__version__,
        "commit": _git("rev-parse", "HEAD"),
        "dirty": None if status is None else bool(status),
    }


def provenance(device: str, threads: int) -> dict[str, Any]:
    """What every result carries beside its run, data sums and outcome."""
    import torch

    name = (
        torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.processor() or platform.machine()
    )
    return {
        "code": code(),
        "versions": {"python": platform.python_version()}
        | {library: importlib.metadata.version(library) for library in _LIBRARIES},
        "device": {"kind": device.partition(":")[0], "name": name, "threads": threads},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
