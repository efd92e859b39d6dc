"""Vectors whose nearest rows are hard to tell apart."""

import numpy as np

N, WIDTH = 300, 24


# Vectors: copies of each other, in a narrow cone as an untrained backbone's (cosines above 0.9999),
# of lengths 1e-18 to 1e18, partly zero, in fewer directions than float32 could tell apart.
KINDS = ("random", "cone", "copies", "alike", "lengths", "zeros", "clusters")


def rows(kind: str) -> np.ndarray:
    """Float32 (N, WIDTH), the same in each call."""
    draw = np.random.default_rng(len(kind))
    vectors = draw.normal(size=(N, WIDTH))
    match kind:
        case "cone":
            vectors = draw.normal(size=WIDTH) + 0.005 * vectors
        case "copies":
            vectors = vectors[draw.integers(0, N // 10, size=N)]
        case "alike":
            vectors = np.repeat(vectors[:1], N, axis=0)
        case "lengths":
            vectors *= 10.0 ** draw.integers(-18, 18, size=(N, 1))
        case "zeros":
            vectors[::7] = 0
        case "clusters":
            vectors = vectors[draw.integers(0, 3, size=N)] + 3e-7 * vectors
    return vectors.astype(np.float32)
