"""Projections against numpy's singular values, scikit-learn's components and plain loops."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from torch import Tensor

from methods import projection
from methods.base import Shape, compose
from methods.projection import Projection, leading_directions, random_directions
from methods.untrained import Untrained
from tests.methods.fixed import Vectors, affine, correlated
from tests.methods.outside import Patch
from tests.oracles import transforms as oracle

WIDTH = 6


def cosines(vectors: Any) -> np.ndarray:
    rows = np.asarray(vectors, dtype=np.float64)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


class Given:
    """What a map is given: a corpus of all rows but the last five, a seed and a device."""

    seed, device = 5, "cpu"

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def sentences(self, corpus: str) -> list[str]:
        assert corpus == "rows"
        return list(map(str, range(self.rows - 5)))

    def encode(self, encoder: Any, sentences: list[str]) -> np.ndarray:
        return encoder.encode(sentences)


def projected(module: Any, vectors: Tensor, **hyper: Any) -> np.ndarray:
    """All vectors through the map that is fitted on all but the last five."""
    method = module.Projection(
        module.Projection.Hyper(source="rows", **hyper), Shape(vectors.shape[1], 4)
    )
    encoder = method.transform(Vectors(vectors), Given(len(vectors)))
    return encoder.encode(list(map(str, range(len(vectors)))))


def expected(vectors: Tensor, dimensions: int, centred: bool) -> np.ndarray:
    """Cosines after numpy's singular vectors, or after scikit-learn's principal components."""
    rows = vectors.float().double().numpy()
    if centred:
        return cosines(PCA(dimensions, svd_solver="full").fit(rows[:-5]).transform(rows))
    _, _, right = np.linalg.svd(rows[:-5], full_matrices=False)
    return cosines(rows @ right[:dimensions].T)


@pytest.mark.parametrize("dimensions", [2, 4, WIDTH])
@pytest.mark.parametrize("centred", [False, True])
def test_equals_numpy_and_scikit_learn(dimensions: int, centred: bool) -> None:
    for seed in range(3):
        vectors = correlated(40, seed)
        found = projected(projection, vectors, dimensions=dimensions, centred=centred)
        assert found.shape == (40, dimensions)
        np.testing.assert_allclose(
            cosines(found), expected(vectors, dimensions, centred), rtol=0, atol=2e-5
        )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scatter(vectors, centre)", "scatter(vectors, -centre)"),
        (
            "scatter(vectors, centre)",
            "scatter(vectors, centre) + vectors.double().T.square() @ vectors.double()",
        ),
        (".flip(-1).T", ".T"),
        (".eigenvectors.flip(-1).T", ".eigenvectors.flip(-1)"),
        ("-(weight @ centre)", "weight @ centre"),
        ("-(weight @ centre)", "torch.zeros(len(weight)).double()"),
        ("if centred:", "if not centred:"),
    ],
)
def test_mistakes_are_seen(old: str, new: str, tmp_path: Path, monkeypatch: Patch) -> None:
    module = oracle.mutant("projection", old, new, tmp_path)
    monkeypatch.setattr("methods.contract.CHUNK", 7)
    assert largest_error(module) > 1e-3


def test_a_chunk_that_replaces_the_others_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = oracle.mutant("contract", "total += moved", "total = moved", tmp_path)
    shared.CHUNK = 7
    monkeypatch.setattr(projection, "scatter", shared.scatter)
    assert largest_error(projection) > 1e-3


def largest_error(module: Any) -> float:
    vectors = correlated(40)
    return max(
        np.abs(
            cosines(projected(module, vectors, dimensions=2, centred=centred))
            - expected(vectors, 2, centred)
        ).max()
        for centred in (False, True)
    )


def test_the_longest_directions_come_first() -> None:
    """About 0 the axis with the mean is the longest, about the mean the others are."""
    vectors = torch.randn(
        2000, 4, generator=torch.Generator().manual_seed(0)
    ).double() * torch.tensor([1, 9, 3, 5])
    vectors[:, 0] += 50
    for centred, axes in ((False, [0, 1, 3]), (True, [1, 3, 2])):
        directions, centre = leading_directions(vectors, 3, centred)
        assert [int(row.abs().argmax()) for row in directions] == axes
        torch.testing.assert_close(centre, vectors.mean(0) if centred else torch.zeros(4).double())
        assert torch.equal(leading_directions(vectors, 2, centred)[0], directions[:2])


@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 99))
def test_directions_are_orthonormal(width: int, dimensions: int, seed: int) -> None:
    kept = min(width, dimensions)
    vectors = correlated(20, seed, width)
    for rows in (
        random_directions(width, dimensions, seed),
        *(leading_directions(vectors, dimensions, c)[0] for c in (False, True)),
    ):
        assert rows.shape == (kept, width)
        torch.testing.assert_close(rows @ rows.T, torch.eye(kept).double(), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "hyper", [{"kind": "random"}, {"kind": "pca"}, {"kind": "pca", "centred": True}]
)
def test_with_all_dimensions_cosines_stay_what_they_were(hyper: dict[str, Any]) -> None:
    """Unless the mean is taken away: then they are those of centred vectors."""
    vectors = correlated(40)
    centre = vectors[:-5].mean(0) if "centred" in hyper else 0
    found = projected(projection, vectors, dimensions=99, **hyper)
    np.testing.assert_allclose(cosines(found), cosines(vectors - centre), rtol=0, atol=2e-5)


def test_random_directions_are_of_the_seed_and_nowhere_denser() -> None:
    one, again, other = (random_directions(8, 3, seed) for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.allclose(one.T @ one, other.T @ other, atol=0.1)
    # Of a uniformly random subspace of k of d dimensions the mean projector is k/d times the
    # identity.
    mean = torch.stack(
        [rows.T @ rows for rows in (random_directions(8, 3, seed) for seed in range(2000))]
    ).mean(0)
    torch.testing.assert_close(mean, torch.eye(8).double() * 3 / 8, rtol=0, atol=0.03)


def test_random_needs_no_corpus() -> None:
    hyper = Projection.clamp_to_backbone(
        Projection.Hyper(kind="random", centred=True, sentences=9), Shape(4, 2)
    )
    assert hyper == Projection.Hyper(kind="random", source="none", dimensions=4)
    assert Projection.corpora(hyper) == ()
    assert Projection.corpora(Projection.Hyper()) == ("nli",)
    Projection(hyper, Shape(4, 2)).prepare(None)  # type: ignore[arg-type]


def test_chunks_change_nothing(monkeypatch: Patch) -> None:
    vectors = correlated(40)
    whole = projected(projection, vectors, dimensions=3)
    monkeypatch.setattr("methods.contract.CHUNK", 7)
    np.testing.assert_allclose(
        cosines(projected(projection, vectors, dimensions=3)), cosines(whole), atol=1e-6
    )


def test_broken_vectors_stay_broken() -> None:
    broken = correlated(20).index_fill(0, torch.tensor([2]), torch.nan)
    assert np.isnan(projected(projection, broken, dimensions=3)).all()


@pytest.mark.parametrize("tanh", [False, True])
def test_an_affine_map_by_plain_loops(tanh: bool) -> None:
    base = Vectors(correlated(5))
    weight, bias = correlated(3, 7) / 20, correlated(1, 8, 3)[0] / 20
    encoder = affine(base, weight, bias, tanh)
    assert encoder.adapt is None
    found = encoder.encode(["3", "1"])
    assert (found.dtype, found.shape) == (np.float32, (2, 3))
    for row, number in zip(found, (3, 1), strict=True):
        for value, weights, shift in zip(row, weight.tolist(), bias.tolist(), strict=True):
            terms = zip(weights, base.vectors[number].tolist(), strict=True)
            total = shift + sum(w * x for w, x in terms)
            assert value == pytest.approx(np.tanh(total) if tanh else total, abs=1e-6)
    assert encoder.encode([]).shape == (0, 3)


def test_identities_differ_where_vectors_do() -> None:
    base, other = Vectors(correlated(5)), Vectors(correlated(5), "another")
    weight, bias = correlated(3), torch.zeros(3).double()
    encoders = [
        affine(base, weight, bias),
        affine(base, weight, bias, tanh=True),
        affine(base, weight * 2, bias),
        affine(base, weight, bias + 1),
        affine(other, weight, bias),
    ]
    assert len({encoder.identity for encoder in encoders}) == len(encoders)
    assert encoders[0].identity == affine(base, weight.clone(), bias).identity


def test_hyper_parameters() -> None:
    assert (
        Projection.clamp_to_backbone(Projection.Hyper(dimensions=256), Shape(64, 4)).dimensions
        == 64
    )
    assert (
        Projection.clamp_to_backbone(Projection.Hyper(dimensions=256), Shape(0, 0)).dimensions
        == 256
    )
    host = compose(
        [(Untrained, Untrained.Hyper()), (Projection, Projection.Hyper())], Shape(WIDTH, 4)
    )
    assert [type(transform) for transform in host.transforms] == [Projection]


# What the tests of all methods need to know of this one (`outside.of_methods`).

OUT_OF_LIMITS = {
    "untrained+projection": "dimensions=0 kind=svd sentences=1",
}
