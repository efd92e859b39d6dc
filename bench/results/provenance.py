"""Where a number comes from: code, versions, machine."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.labelled import LabelledTask
from bench.datasets.sts import StsTask
from bench.utils.version import __version__

_ROOT = Path(__file__).parents[2]
_LIBRARIES = ("transformers", "tokenizers", "safetensors", "numpy", "scipy", "scikit-learn")


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
    """Version of the suite, and its commit where it runs from a checkout; `dirty` if its code differs from it.

    A file that git does not know counts: a method is found because its file is there.
    """
    status = _git("status", "--porcelain", "--untracked-files=normal", "--", "bench", "methods")
    return {
        "version": __version__,
        "commit": _git("rev-parse", "HEAD"),
        "dirty": None if status is None else bool(status),
    }


def _processor() -> str:
    """The processor by its maker's name, which Linux alone tells; elsewhere its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _arithmetic(device: str) -> dict[str, Any]:
    """What decides the last bits beside the versions and the device: code paths that torch takes."""
    import torch

    chosen: dict[str, Any] = {
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
    if device.startswith("cuda"):
        chosen |= {
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "cublas_workspace": os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
        }
    return chosen


def provenance(device: str, threads: int) -> dict[str, Any]:
    """What every result carries beside its run, data sums, outcome and duration.

    Args:
        threads: of torch's operations on the processor, as they were set.
    """
    import torch

    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else _processor()
    return {
        "code": code(),
        "versions": {"python": platform.python_version(), "torch": str(torch.__version__)}  # which names its build
        | {library: importlib.metadata.version(library) for library in _LIBRARIES},
        "device": {"kind": device.partition(":")[0], "name": name, "threads": threads},
        "arithmetic": _arithmetic(device),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def task_sums(tasks: Iterable[StsTask | LabelledTask]) -> dict[str, dict[str, str]]:
    """Sums of what was read of each task, by its name and split: sentences with their gold scores or labels, in order.

    The sum of a data folder says which files lay there; this one, whether those that were scored are the same.
    """
    sums: dict[str, dict[str, str]] = {}
    for task in tasks:
        of_task = sums.setdefault(task.name, {})
        if isinstance(task, StsTask):
            digest = hashlib.sha256()
            for subset in task.subsets:
                _add(digest, subset.name, (subset.first, subset.second), subset.gold)
            of_task[task.split] = digest.hexdigest()[:16]
        else:
            for split, samples in task.splits.items():
                digest = hashlib.sha256()
                _add(digest, split, samples.columns, samples.labels)
                of_task[split] = digest.hexdigest()[:16]
    return sums


def _add(digest: Any, name: str, columns: Sequence[Sequence[str]], numbers: np.ndarray) -> None:
    for column in columns:
        digest.update("\n".join((name, *column)).encode())
    digest.update(numbers.tobytes())
