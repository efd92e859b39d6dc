"""Settings of torch where nothing is given, as a fresh process has them.

A program, or a library that it imports, may have changed them. Whatever trains, loads, encodes
and scores therefore runs in `torch_defaults`. Functions of users run as their program has it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from bench.models.float32 import ELSEWHERE, float32_products

DEVICES = ("cpu", "cuda")  # that the suite computes on
_inside = ContextVar("_inside", default=False)  # whether a block of `torch_defaults` is open


@contextmanager
def torch_defaults() -> Iterator[None]:
    """Take float32, exact products, the processor, gradients, no autocast and all kernels of
    attention and of oneDNN by default within the block. Threads, deterministic kernels and
    generators stay. A block within another one changes nothing, since the code of the outer block
    may have chosen other products, as a training does."""
    if _inside.get():
        yield
        return
    dtype, token = torch.get_default_dtype(), _inside.set(True)
    torch.set_default_dtype(torch.float32)
    try:
        with (
            # A device that is set, even this one, costs time at each call.
            nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu"),
            torch.inference_mode(False),  # which has gradients
            _no_autocast(),
            float32_products(ELSEWHERE),
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
        _inside.reset(token)


@contextmanager
def _no_autocast() -> Iterator[None]:
    """Turn autocast off, and the cache of weights that it has cast.

    Not by `torch.autocast(enabled=False)`. torch empties that cache when the outermost autocast
    context ends. Within a context that stays open, ours or a program's, each later step of a
    training would compute with the weights that its first step has cast.
    """
    enabled = {device: torch.is_autocast_enabled(device) for device in DEVICES}
    cached = torch.is_autocast_cache_enabled()
    for device in DEVICES:
        torch.set_autocast_enabled(device, False)
    torch.set_autocast_cache_enabled(False)  # the default of contexts that a method opens
    try:
        yield
    finally:
        for device in DEVICES:
            torch.set_autocast_enabled(device, enabled[device])
        torch.set_autocast_cache_enabled(cached)


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
