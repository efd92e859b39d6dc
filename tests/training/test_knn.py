"""Nearest rows are those of brute force in float64, whatever the blocks, ties and float32's
rounding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bench.training import knn
from bench.training.knn import nearest_rows
from bench.utils.errors import UserError

N, WIDTH = 300, 24


def brute_force(vectors: np.ndarray, count: int) -> np.ndarray:
    """All cosines at once in float64, rounded at 1e-12; a stable sort leaves the lower row
    first."""
    exact = vectors.astype(np.float64)
    lengths = np.sqrt((exact * exact).sum(axis=1))
    cosines = (
        exact
        @ exact.T
        / np.where(lengths > 0, lengths, 1)
        / np.where(lengths > 0, lengths, 1)[:, None]
    )
    cosines = np.round(cosines, 12)
    np.fill_diagonal(cosines, -2)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :count]


def rows(kind: str, n: int = N) -> np.ndarray:
    draw = np.random.default_rng(len(kind))
    vectors = draw.normal(size=(n, WIDTH))
    if kind in (
        "cone",
        "narrow cone",
    ):  # as an untrained backbone's: cosines above 0.9, and above 0.9999
        vectors = draw.normal(size=WIDTH) + {"cone": 0.2, "narrow cone": 0.005}[kind] * vectors
    if kind == "copies":
        vectors = vectors[draw.integers(0, n // 10, size=n)]
    if kind == "alike":
        vectors = np.repeat(vectors[:1], n, axis=0)
    if kind == "lengths":
        vectors *= 10.0 ** draw.integers(-18, 18, size=(n, 1))
    if kind == "zeros":
        vectors[::7] = 0
    if kind == "plane":
        vectors[:, 2:] = 0
    if kind == "clusters":  # far fewer directions than rows, apart by less than float32 sees
        vectors = vectors[draw.integers(0, 3, size=n)] + 3e-7 * vectors
    return vectors.astype(np.float32)


KINDS = [
    "random",
    "cone",
    "narrow cone",
    "copies",
    "alike",
    "lengths",
    "zeros",
    "plane",
    "clusters",
]


@pytest.mark.parametrize("count", [1, 10, N - 1])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_brute_force(kind: str, count: int) -> None:
    vectors = rows(kind)
    found = nearest_rows(vectors, count)
    assert found.shape == (N, count)
    assert found.dtype == np.int64
    assert (found != np.arange(N)[:, None]).all()
    np.testing.assert_array_equal(found, brute_force(vectors, count))


@pytest.mark.parametrize(("queries", "keys"), [(64, 64), (100, 37), (7, 300), (1000, 5)])
@pytest.mark.parametrize("kind", ["random", "narrow cone", "copies", "zeros"])
def test_blocks_change_nothing(
    kind: str, queries: int, keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = rows(kind)
    expected = nearest_rows(vectors, 20)
    monkeypatch.setattr(knn, "QUERIES", queries)
    monkeypatch.setattr(knn, "KEYS", keys)
    monkeypatch.setattr(knn, "PAIRS", 11)
    np.testing.assert_array_equal(nearest_rows(vectors, 20), expected)


def test_what_float32_cannot_decide_is_searched_in_float64(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without that, neighbours would be among those that float32 happens to put first."""
    vectors = rows("clusters")
    np.testing.assert_array_equal(nearest_rows(vectors, 5), brute_force(vectors, 5))
    assert "too close for float32" in capsys.readouterr().err
    plain = knn._Table.search
    monkeypatch.setattr(
        knn._Table,
        "search",
        lambda self, queries, count: (
            plain(self, queries, count)[0],
            torch.ones(len(queries), dtype=torch.bool),
        ),
    )
    assert (nearest_rows(vectors, 5) != brute_force(vectors, 5)).any()


@pytest.mark.parametrize("kind", ["random", "cone", "narrow cone"])
def test_float32_decides_the_usual(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    nearest_rows(rows(kind, 2000), 10)
    assert "too close" not in capsys.readouterr().err


def test_the_bound_holds_for_every_product() -> None:
    """No float32 score is farther from its float64 value than the error that decides."""
    for kind in KINDS:
        vectors = rows(kind)
        table = knn._Table(vectors, "cpu")
        unit = table.unit(slice(0, N))
        scores = torch.addmm(table.bias, table.centred, table.centred.T).double()
        exact = unit @ unit.T - (unit @ table.mean)[:, None]
        allowed = (WIDTH + 4) * 2**-24 * (
            table.lengths[:, None] * table.lengths.max() + table.bias.abs().max()
        ) + 1e-15
        assert ((scores - exact).abs() <= allowed).all(), kind


def test_equal_vectors_come_in_the_order_of_their_rows() -> None:
    vectors = np.array([[1, 0], [0, 1], [2, 0], [1, 0], [3, 0]], dtype=np.float32)
    assert nearest_rows(vectors, 3).tolist() == [
        [2, 3, 4],
        [0, 2, 3],
        [0, 3, 4],
        [0, 2, 4],
        [0, 2, 3],
    ]


def test_a_row_of_zeros_is_orthogonal_to_all() -> None:
    vectors = np.array([[0, 0], [1, 0], [-1, 0], [0, 0]], dtype=np.float32)
    assert nearest_rows(vectors, 3).tolist() == [[1, 2, 3], [0, 3, 2], [0, 3, 1], [0, 1, 2]]


def test_vectors_on_disk_and_of_other_types(tmp_path: Path) -> None:
    vectors = rows("cone")
    expected = nearest_rows(vectors, 5)
    stored = np.memmap(tmp_path / "vectors", dtype=np.float32, mode="w+", shape=vectors.shape)
    stored[:] = vectors
    stored.flush()
    on_disk = np.memmap(tmp_path / "vectors", dtype=np.float32, mode="r", shape=vectors.shape)
    np.testing.assert_array_equal(nearest_rows(on_disk, 5), expected)
    np.testing.assert_array_equal(nearest_rows(vectors.astype(np.float64), 5), expected)
    np.testing.assert_array_equal(on_disk, vectors)


@pytest.mark.parametrize("count", [0, 4, 9])
def test_as_many_neighbours_as_rows_are_refused(count: int) -> None:
    with pytest.raises(
        UserError, match=f"{count} neighbours of each of 4 rows are not possible; ask for 1 to 3"
    ):
        nearest_rows(np.eye(4, dtype=np.float32), count)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_vectors_that_are_not_finite_are_refused(value: float) -> None:
    vectors = rows("random")
    vectors[17, 3] = value
    with pytest.raises(UserError, match="row 17 of the vectors is not finite"):
        nearest_rows(vectors, 2)


def test_progress_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    nearest_rows(rows("random"), 2)
    assert f"neighbours: {N}/{N} rows, 0 s left" in capsys.readouterr().err
