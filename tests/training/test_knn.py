"""Nearest rows are those of one sort of all cosines in float64, whatever the blocks and ties."""

from pathlib import Path

import numpy as np
import pytest

from bench.training import context
from bench.training.context import nearest_rows
from bench.utils.errors import UserError

N, WIDTH = 300, 24
# Vectors: copies of each other, in a narrow cone as an untrained backbone's (cosines above 0.9999),
# of lengths 1e-18 to 1e18, partly zero, in fewer directions than float32 could tell apart.
KINDS = ("random", "cone", "copies", "alike", "lengths", "zeros", "clusters")


def brute_force(vectors: np.ndarray, count: int) -> np.ndarray:
    """A stable sort of all cosines, rounded at 1e-12, leaves the lower row of equal ones first."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    units = exact / np.where(lengths > 0, lengths, 1)
    cosines = np.round(units @ units.T, 12)
    np.fill_diagonal(cosines, -2)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :count]


def rows(kind: str) -> np.ndarray:
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


@pytest.mark.parametrize(
    ("queries", "keys"), [(context.QUERIES, context.KEYS), (64, 64), (7, 41), (1, 1000)]
)
@pytest.mark.parametrize("count", [1, 10, N - 1])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_brute_force(
    kind: str, count: int, queries: int, keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "QUERIES", queries)
    monkeypatch.setattr(context, "KEYS", keys)
    found = nearest_rows(rows(kind), count)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, brute_force(rows(kind), count))


def test_ties_by_hand() -> None:
    vectors = np.array([[1, 0], [0, 1], [2, 0], [1, 0], [0, 0]], dtype=np.float32)
    expected = [[2, 3, 1], [0, 2, 3], [0, 3, 1], [0, 2, 1], [0, 1, 2]]
    assert nearest_rows(vectors, 3).tolist() == expected


def test_ties_in_a_block_of_the_largest_size() -> None:
    """Cosines 1 and 1 - 1e-12, in 8,192 columns."""
    vectors = np.tile([1.0, 0.0], (context.KEYS, 1))
    vectors[::2, 1] = 1.4e-6  # a cosine of 1 - 0.98e-12 with the others
    found = nearest_rows(vectors, 3)
    assert found[4000].tolist() == [0, 2, 4]
    assert found[4001].tolist() == [1, 3, 5]
    assert found[0].tolist() == [2, 4, 6]


def test_vectors_on_disk_and_of_other_types(tmp_path: Path) -> None:
    vectors = rows("cone")
    expected = nearest_rows(vectors, 5)
    stored = np.memmap(tmp_path / "vectors", dtype=np.float32, mode="w+", shape=vectors.shape)
    stored[:] = vectors
    np.testing.assert_array_equal(nearest_rows(stored, 5), expected)
    np.testing.assert_array_equal(nearest_rows(vectors.astype(np.float64), 5), expected)


@pytest.mark.parametrize("count", [0, N])
def test_as_many_neighbours_as_rows_are_refused(count: int) -> None:
    with pytest.raises(UserError, match=f"{count} neighbours of each of {N} rows are not possible"):
        nearest_rows(rows("random"), count)
