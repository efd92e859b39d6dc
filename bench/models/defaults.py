"""Settings of torch where nothing is given, as a fresh process has them.

A program, or a library that it imports, may have changed them. Whatever trains, loads, encodes
and scores therefore runs in `torch_defaults`. Functions of users run as their program has it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


@contextmanager
def torch_defaults() -> Iterator[None]:
    """Take float32, the processor, gradients, no autocast and all kernels of attention and of
    oneDNN by default within the block. Threads, deterministic kernels and generators stay."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with (
            # A device that is set, even this one, costs time at each call.
            nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu"),
            torch.inference_mode(False),  # which has gradients
            torch.autocast("cpu", enabled=False),
            torch.autocast("cuda", enabled=False),
            torch.backends.mkldnn.flags(True, None, None, None),  # its other flags stay
            sdpa_kernel(
                [
                    SDPBackend.FLASH_ATTENTION,
                    SDPBackend.EFFICIENT_ATTENTION,
                    SDPBackend.CUDNN_ATTENTION,
                    SDPBackend.MATH,
                ]
            ),
        ):
            yield
    finally:
        torch.set_default_dtype(dtype)


@contextmanager
def computing(threads: int, kernels: str) -> Iterator[None]:
    """Set torch's threads and its mode of kernels that are not deterministic ("default", "warn" or
    "error"), and restore them afterwards."""
    before, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    torch.set_num_threads(threads)
    # Equals `use_deterministic_algorithms`, which also imports torch's compiler: 2 s per process.
    torch.set_deterministic_debug_mode(kernels)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_deterministic_debug_mode(mode)
