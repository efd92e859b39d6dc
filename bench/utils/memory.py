"""Errors that mean that memory is full."""

from __future__ import annotations

import os

# Parts of the messages of the CPU allocator, CUDA and cuBLAS when memory runs out.
OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "ALLOC_FAILED")
TOGETHER = "SENTBENCH_TOGETHER"  # set in processes that share a device: their number


def is_memory_full(error: Exception) -> bool:
    """Return whether an error means that memory is full; torch.OutOfMemoryError is a
    RuntimeError."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)


def fewer_together() -> str:
    """Return the first remedy of a message, for a process that shares its device; else ""."""
    count = os.environ.get(TOGETHER)
    return f"let fewer than {count} runs share the device (runs_together), " if count else ""
