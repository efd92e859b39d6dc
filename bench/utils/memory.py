"""Errors that mean that memory is full."""

# Parts of the messages of the CPU allocator, CUDA and cuBLAS when memory runs out.
OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "ALLOC_FAILED")


def is_memory_full(error: Exception) -> bool:
    """Return whether an error means that memory is full; torch.OutOfMemoryError is a
    RuntimeError."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)
