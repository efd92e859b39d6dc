"""Lower bound on the duration of a training: what the device's peak rates allow.

Counted are matrix products at the rate of a plain product, and the memory traffic of the optimiser
at the rate of a plain copy. Activations, softmax, tokenization, files and kernel launches count as
free, so a training always takes longer than this floor. The ratio says how much longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch

from bench.models.float32 import TRAINING, float32_products
from bench.models.packed_forward import Work

COPIED = {"cpu": 2**26, "cuda": 2**29}  # bytes of the copied tensor, larger than the caches
ROWS = {"cpu": 512, "cuda": 16_384}  # of the product's left side: a batch's tokens, about
TRIAL = 0.05  # seconds over which the fastest trial is searched
FEWEST = 3  # minimum number of trials
FLOAT = 4  # bytes of a float32


def peak(device: str, precision: str, threads: int, width: int = 768) -> dict[str, Any]:
    """Measure the peak rates of a device, once per process, in about 0.3 s.

    Args:
        device: "cpu" or "cuda[:n]".
        precision: of the recipe: "mixed", "bfloat16" or "float32".
        threads: of the CPU.
        width: of the backbone; its first feed-forward layer is measured, width to 4 x width.

    Returns:
        "flops" (FLOP/s in the dtype of the training), "float32_flops" (of encoders),
        "bytes_per_second" (read and written by a copy), "type" (the training's dtype), "threads".
    """
    return dict(_measured(device, _type_of(precision, device), threads, width))


def _type_of(precision: str, device: str) -> torch.dtype:
    """The dtype of matrix products for a recipe's precision, as in `RunContext.autocast`."""
    if precision == "bfloat16":
        return torch.bfloat16
    return torch.float16 if precision == "mixed" and device != "cpu" else torch.float32


@cache
def _measured(device: str, kind: torch.dtype, threads: int, width: int) -> dict[str, Any]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with float32_products(TRAINING):  # and of selection
            single = _product_rate(device, torch.float32, width)
        return {
            "flops": single if kind == torch.float32 else _product_rate(device, kind, width),
            "float32_flops": single,
            "bytes_per_second": _copy_rate(device),
            "type": str(kind).removeprefix("torch."),
            "threads": threads,
        }
    finally:
        torch.set_num_threads(before)


def _product_rate(device: str, kind: torch.dtype, width: int) -> float:
    # A separate generator, so that the measurement does not advance the training's random streams.
    # Random numbers, because with zeros a GPU draws less power and clocks higher.
    drawn, rows = torch.Generator().manual_seed(0), ROWS[device.partition(":")[0]]
    states = torch.randn(rows, width, generator=drawn).to(device, kind)
    weight = torch.randn(width, 4 * width, generator=drawn).to(device, kind)
    out = states @ weight
    flop = 2 * rows * width * 4 * width
    return flop / _best_time(lambda: torch.mm(states, weight, out=out), device)


def _copy_rate(device: str) -> float:
    copied = COPIED[device.partition(":")[0]]
    source = torch.ones(copied // FLOAT, device=device)
    target = torch.ones_like(source)
    return 2 * copied / _best_time(lambda: target.copy_(source), device)


@torch.no_grad()
def _best_time(operation: Callable[[], object], device: str) -> float:
    """Seconds of the fastest trial."""
    # On a GPU several operations are queued, so that launches are not timed.
    repeats = 1 if device == "cpu" else 16

    def finish() -> None:
        if device != "cpu":
            torch.cuda.synchronize(device)

    operation()
    finish()
    best, trials, started = float("inf"), 0, time.perf_counter()
    while trials < FEWEST or time.perf_counter() - started < TRIAL:
        begun = time.perf_counter()
        for _ in range(repeats):
            operation()
        finish()
        best, trials = min(best, (time.perf_counter() - begun) / repeats), trials + 1
    return best


def weight_bytes(weights: int, moments: int = 2) -> int:
    """Bytes that one optimiser step must move in float32 if everything is fused.

    For each weight, the backward pass writes the gradient (1 number), the gradient norm for
    clipping reads it (1), and the update reads weight, gradient and moments and writes weight and
    moments (3 + 2 x moments). Scaling by the norm, undoing a loss scale, zeroing, and copies in
    half precision are free: each can be fused with one of these.

    `moments` are those per weight: 2 of AdamW, 1 of RMSProp.
    """
    return weights * FLOAT * (5 + 2 * moments)


def floor(
    work: Work, weights: int, steps: int, peak: Mapping[str, Any], moments: int = 2
) -> dict[str, float]:
    """Lower bound on the seconds of each part of a training, and their sum "seconds".

    Args:
        work: of the training.
        weights: number of trained weights.
        steps: of the optimiser.
        peak: rates, as returned by `peak`.
        moments: as in `weight_bytes`.
    """
    parts = {
        "forward_s": work.forward / peak["flops"],
        "backward_s": work.backward / peak["flops"],
        "optimiser_s": steps * weight_bytes(weights, moments) / peak["bytes_per_second"],
        "selection_s": work.selection / peak["float32_flops"],
    }
    return parts | {"seconds": sum(parts.values())}


def record(
    work: Work, weights: int, steps: int, seconds: float, peak: Mapping[str, Any], moments: int = 2
) -> dict[str, Any]:
    """The entry "work" in the outcome of a training that took `seconds`, selections included."""
    least = floor(work, weights, steps, peak, moments)
    return {
        "tokens": work.tokens,
        "sentences": work.sentences,
        "flop": {"forward": work.forward, "backward": work.backward, "selection": work.selection},
        "weight_bytes": steps * weight_bytes(weights, moments),
        "floor_seconds": least["seconds"],
        "seconds": seconds,
        "ratio": seconds / least["seconds"],
        "peak": dict(peak),
    }
