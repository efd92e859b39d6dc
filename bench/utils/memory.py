"""Errors that mean that memory is full."""


def is_memory_full(error: Exception) -> bool:
    """Return whether the message is that of the CPU allocator, CUDA or cuBLAS on full memory."""
    words = ("can't allocate memory", "out of memory", "ALLOC_FAILED")
    return isinstance(error, MemoryError) or any(part in str(error) for part in words)
