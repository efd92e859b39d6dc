"""Random streams by name: a further draw changes no other (docs/project/architecture.md)."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["seed_torch", "seeded", "stream", "stream_seed"]


def stream_seed(seed: int, *names: object) -> int:
    """Return the first 63 bits of the SHA-256 of "seed/name/...", the same on every machine."""
    text = "/".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *names: object, device: str | torch.device = "cpu") -> torch.Generator:
    """Return a new generator for the stream `names`; another kind of device draws others."""
    return torch.Generator(device).manual_seed(stream_seed(seed, *names))


def seed_torch(seed: int, device: str | torch.device = "cpu") -> None:
    """Seed torch's global generator of the CPU, and of `device` if it is a CUDA device."""
    # Not by `torch.manual_seed`, which seeds every other accelerator, too. While CUDA is not
    # initialised, it stores that call with a stack trace (`torch.cuda._lazy_call`), which costs 0.3
    # to 1 ms. A training on the CPU seeds dropout at every step.
    torch.default_generator.manual_seed(seed)
    if torch.device(device).type == "cuda":
        with torch.cuda.device(torch.device(device)):
            torch.cuda.manual_seed(seed)


@contextmanager
def seeded(seed: int, device: str | torch.device = "cpu") -> Iterator[None]:
    """Within the block, seed the generators of `seed_torch`; afterwards they are as before."""
    device = torch.device(device)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        seed_torch(seed, device)
        yield
