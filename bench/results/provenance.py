"""Provenance of results: code, library versions, device, arithmetic, and checksums of tasks."""

import datetime
import importlib.metadata
import os
import platform
import re
from functools import cache
from pathlib import Path
from typing import Any

import torch

from bench.models.float32 import ELSEWHERE, SELECTION, TRAINING
from bench.utils.commit import commit
from bench.utils.errors import UserError
from bench.utils.version import __version__

# Libraries whose versions can change scores.
_LIBRARIES = (
    "transformers", "sentence-transformers", "tokenizers", "safetensors", "numpy", "scipy",
    "scikit-learn",
)  # fmt: skip


@cache
def code() -> dict[str, Any]:
    """Version of the suite, its commit, and whether the code differs."""
    return {"version": __version__, **commit()}


def _processor() -> str:
    """Model name of the processor on Linux; elsewhere its architecture."""
    file = Path("/proc/cpuinfo")
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    line = re.search(r"^model name\s*: *(.+)$", text, re.MULTILINE)
    return line[1].strip() if line else platform.processor() or platform.machine()


def _arithmetic(device: str) -> dict[str, Any]:
    """Settings of torch that affect the last bits of results, besides versions and device."""
    settings: dict[str, Any] = {
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        # Of a processor, which always multiplies in float32 (`bench.models.float32`).
        "matmul_precision": "highest",
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
    if device.startswith("cuda"):
        settings |= {
            "float32_products": {
                "training": TRAINING,
                "selection": SELECTION,
                "elsewhere": ELSEWHERE,
            },
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "cublas_workspace": os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
        }
    return settings


def provenance(device: str, threads: int) -> dict[str, Any]:
    """The part of a result's provenance that does not depend on its run and data.

    `device` is "cpu" or "cuda[:n]", `threads` torch's number of CPU threads.
    """
    hardware = torch.cuda.get_device_name(device) if device.startswith("cuda") else _processor()
    versions = {"python": platform.python_version(), "torch": str(torch.__version__)}  # its build
    return {
        "code": code(),
        "versions": versions | {name: importlib.metadata.version(name) for name in _LIBRARIES},
        "device": {"kind": device.partition(":")[0], "name": hardware, "threads": threads},
        "arithmetic": _arithmetic(device),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def runs_per_gpu() -> int:
    """How many runs share a GPU (docs/how-to/clusters.md#several-runs-on-a-gpu)."""
    text = os.environ.get("SENTBENCH_RUNS_PER_GPU") or "1"
    if not re.fullmatch("[1-9][0-9]?", text):
        raise UserError(
            f"SENTBENCH_RUNS_PER_GPU is '{text}'; set how many runs share a GPU, from 1 to 99"
        )
    return int(text)


def timing(seconds: float, device: str) -> dict[str, Any]:
    """Wall seconds on a device, and by how many runs it was shared if not by one alone."""
    timed: dict[str, Any] = {"seconds": seconds}
    # Runs that share a GPU take longer, so predicted hours divide their seconds by this number.
    if device != "cpu" and runs_per_gpu() > 1:
        timed["runs_per_gpu"] = runs_per_gpu()
    return timed
