"""The floor of a training: the seconds below which no program could do its work on this device.

Matrix products at the rate of a product that does nothing else, and the traffic of the weights' update at the rate of a
plain copy. Everything else (activations, attention's softmax, tokens, files, the time to start an operation) counts
nothing, so a training takes longer than its floor, and the ratio says how much longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch

from bench.models.packed_forward import Work

COPIED = {"cpu": 2**26, "cuda": 2**29}  # bytes of a copy's source, larger than the device's caches
ROWS = {"cpu": 512, "cuda": 16_384}  # of the product's left side: a batch's tokens, and enough to fill the device
TRIAL = 0.05  # seconds in which the best trial of a measurement is looked for
FEWEST = 3  # trials, however long they take
FLOAT = 4  # bytes


def peak(device: str, precision: str, threads: int, width: int = 768) -> dict[str, Any]:
    """What this device reaches, measured once a process in about 0.3 s.

    Args:
        device: "cpu" or "cuda[:n]".
        precision: the recipe's, which names the type of the trained products: "mixed", "bfloat16" or "float32".
        threads: of the processor.
        width: of the backbone: the product is that of a layer's first feed-forward map, width to 4 x width.

    Returns:
        `{"flops", "float32_flops", "bytes_per_second", "type", "threads"}`: FLOP/s of products in the training's type,
        and in float32, in which Encoders compute; bytes read and written a second by a copy; that type's name.
    """
    return dict(_measured(device, _type_of(precision, device), threads, width))


def _type_of(precision: str, device: str) -> torch.dtype:
    """The type of matrix products under a recipe's precision, as `RunContext.autocast` chooses it."""
    if precision == "bfloat16":
        return torch.bfloat16
    return torch.float16 if precision == "mixed" and device != "cpu" else torch.float32


@cache
def _measured(device: str, kind: torch.dtype, threads: int, width: int) -> dict[str, Any]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
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
    # A generator of its own: a measurement draws nothing from a training's streams. Zeros would heat a GPU less, and so
    # let it run faster, than the numbers of a training do.
    drawn, rows = torch.Generator().manual_seed(0), ROWS[device.partition(":")[0]]
    states = torch.randn(rows, width, generator=drawn).to(device, kind)
    weight = torch.randn(width, 4 * width, generator=drawn).to(device, kind)
    out = states @ weight
    return 2 * rows * width * 4 * width / _best_time(lambda: torch.mm(states, weight, out=out), device)


def _copy_rate(device: str) -> float:
    copied = COPIED[device.partition(":")[0]]
    source = torch.ones(copied // FLOAT, device=device)
    target = torch.ones_like(source)
    return 2 * copied / _best_time(lambda: target.copy_(source), device)


@torch.no_grad()
def _best_time(operation: Callable[[], object], device: str) -> float:
    """Seconds of an operation at its fastest; on a GPU several are queued, so that starting them is not timed."""
    repeats = 1 if device == "cpu" else 16
    finish: Callable[[], object] = (lambda: None) if device == "cpu" else (lambda: torch.cuda.synchronize(device))
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
    """Bytes that one optimiser step must move, in float32, with every other step fused away.

    For each weight: the backward pass writes the gradient (1 number); its norm, which clipping needs before any weight
    may change, reads it (1); the update reads weight, gradient and moments and writes weight and moments (3 + 2 x
    moments). Nothing for scaling by the norm, for undoing a loss scale, for zeroing (gradients are overwritten) or for
    copies in half precision: each could be done in one of the passes that are counted.

    Args:
        moments: that the optimiser keeps of each weight: 2 of AdamW, 1 of RMSProp.
    """
    return weights * FLOAT * (5 + 2 * moments)


def floor(work: Work, weights: int, steps: int, peak: Mapping[str, Any], moments: int = 2) -> dict[str, float]:
    """The floor of some work, in seconds, by its parts.

    Args:
        work: what was asked of the device.
        weights: how many numbers are trained.
        steps: of the optimiser.
        peak: as `peak` gives it.
        moments: of the optimiser, see `weight_bytes`.

    Returns:
        `{"forward_s", "backward_s", "optimiser_s", "selection_s", "seconds"}`, the last the sum of the others.
    """
    return _floor(work.forward, work.backward, work.selection, steps * weight_bytes(weights, moments), peak)


def floor_of_record(left: Mapping[str, Any], peak: Mapping[str, Any]) -> float:
    """Seconds of the floor of what `record` left, on a device of this peak."""
    return _floor(**left["flop"], moved=left["weight_bytes"], peak=peak)["seconds"]


def _floor(
    forward: float, backward: float, selection: float, moved: float, peak: Mapping[str, Any]
) -> dict[str, float]:
    parts = {
        "forward_s": forward / peak["flops"],
        "backward_s": backward / peak["flops"],
        "optimiser_s": moved / peak["bytes_per_second"],
        "selection_s": selection / peak["float32_flops"],
    }
    return parts | {"seconds": sum(parts.values())}


def record(
    work: Work, weights: int, steps: int, seconds: float, peak: Mapping[str, Any], moments: int = 2
) -> dict[str, Any]:
    """What a training leaves about its speed: its work, the floor of that work, and how it compares.

    Args:
        seconds: that the training took, selections included.
        work, weights, steps, peak, moments: as in `floor`.
    """
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
