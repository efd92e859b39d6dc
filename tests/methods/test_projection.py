"""Projections against numpy's singular values, scikit-learn's components and plain loops."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from methods.base import Shape
from methods.projection import Projection, random_directions
from tests.support.fixed_vectors import Vectors, correlated

WIDTH = 6


def cosines(rows):
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


class Given:
    """The context of a map: a corpus of all rows but the last five, a seed and a device."""

    seed, device = 5, "cpu"

    def __init__(self, rows):
        self.corpus = list(map(str, range(rows - 5)))

    def sentences(self, corpus):
        return self.corpus

    def encode(self, encoder, sentences):
        return encoder.encode(sentences)


def projected(vectors, **hyper):
    """All vectors through the map that is fitted on all but the last five."""
    method = Projection(Projection.Hyper(**hyper), Shape(WIDTH, 4))
    encoder = method.transform(Vectors(vectors), Given(len(vectors)))
    return encoder.encode(list(map(str, range(len(vectors)))))


@pytest.mark.parametrize("dimensions", [2, 4, WIDTH])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.usefixtures("small_chunks")
def test_equals_numpy_and_scikit_learn(dimensions, centred):
    """By cosines: numpy's singular vectors, or principal components."""
    vectors = correlated(40)
    rows = vectors.float().double().numpy()
    if centred:
        expected = PCA(dimensions, svd_solver="full").fit(rows[:-5]).transform(rows)
    else:
        expected = rows @ np.linalg.svd(rows[:-5], full_matrices=False)[2][:dimensions].T
    result = projected(vectors, dimensions=dimensions, centred=centred)
    np.testing.assert_allclose(cosines(result), cosines(expected), rtol=0, atol=2e-5)


def test_random_directions_are_orthonormal_of_the_seed_and_nowhere_denser():
    drawn = [random_directions(8, 3, seed) for seed in range(2000)]
    assert torch.equal(random_directions(8, 3, 1), drawn[1])
    assert not torch.allclose(drawn[1].T @ drawn[1], drawn[2].T @ drawn[2], atol=0.1)
    torch.testing.assert_close(drawn[1] @ drawn[1].T, torch.eye(3).double(), rtol=0, atol=1e-9)
    # Of a uniformly random subspace of k of d dimensions the mean projector is k/d times the
    # identity.
    mean = torch.stack([rows.T @ rows for rows in drawn]).mean(0)
    torch.testing.assert_close(mean, torch.eye(8).double() * 3 / 8, rtol=0, atol=0.03)


def test_random_needs_no_corpus_and_no_more_dimensions_than_there_are():
    hyper = Projection.Hyper(kind="random", centred=True, sentences=9)
    hyper = Projection.clamp_to_backbone(hyper, Shape(4, 2))
    assert hyper == Projection.Hyper(kind="random", source="none", dimensions=4)
    Projection(hyper, Shape(4, 2)).prepare(None)
    vectors = correlated(40)
    result = projected(vectors, kind="random", dimensions=99)  # preserves all cosines
    np.testing.assert_allclose(cosines(result), cosines(vectors.numpy()), rtol=0, atol=2e-5)


def test_broken_vectors_stay_broken():
    broken = correlated(20).index_fill(0, torch.tensor([2]), torch.nan)
    assert np.isnan(projected(broken, dimensions=3)).all()


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

OUT_OF_LIMITS = {"untrained+projection": "dimensions=0 kind=svd sentences=1"}
