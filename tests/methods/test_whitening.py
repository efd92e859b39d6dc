"""Whitening against numpy's singular values; flat and broken vectors; its Encoder."""

import numpy as np
import pytest
import torch

from methods.base import Shape
from methods.whitening import Whitened, Whitening, fit_whitening, whiten
from tests.oracles import transforms as oracle
from tests.support.fixed_vectors import Vectors, correlated

WIDTH = 6
HALF = correlated(15, 1)
DATA = {
    "random": correlated(30),
    "near-duplicates": torch.cat([HALF, HALF + 1e-6 * correlated(15, 2)]),
}


def disagreement(vectors, k, dtype):
    """Largest difference of any cosine, of the vectors that it is fitted on and of five others."""
    expected = oracle.whitened(vectors[:-5], vectors, k)
    result = whiten(vectors.to(dtype).double(), *fit_whitening(vectors[:-5].to(dtype), k))
    return float((result @ result.T - expected @ expected.T).abs().max())


@pytest.mark.parametrize("k", [1, 3, WIDTH])
@pytest.mark.parametrize("kind", DATA)
@pytest.mark.usefixtures("small_chunks")
def test_equals_singular_values(kind, k):
    assert disagreement(DATA[kind], k, torch.float64) < 1e-6
    assert disagreement(DATA[kind], k, torch.float32) < 1e-4


def test_directions_without_variance_are_left_out_and_told():
    vectors = correlated(40)
    flat = torch.cat([vectors, vectors[:, :2] @ torch.ones(2, 3).double()], dim=1)
    told = r"40 vectors vary in 6 directions only, so 3 of 9 dimensions are 0"
    with pytest.warns(UserWarning, match=told):
        mean, matrix = fit_whitening(flat)
    assert torch.equal(matrix[:, 6:], torch.zeros(9, 3).double())
    result, expected = whiten(flat, mean, matrix), whiten(vectors, *fit_whitening(vectors))
    torch.testing.assert_close(result @ result.T, expected @ expected.T, rtol=0, atol=1e-8)


def test_equal_vectors_become_zero_and_broken_ones_stay_broken():
    with pytest.warns(UserWarning, match="vary in 0 directions only"):
        assert not whiten(torch.ones(5, 3), *fit_whitening(torch.ones(5, 3))).any()
    broken = correlated(5).index_fill(0, torch.tensor([2]), torch.nan)
    assert whiten(broken, *fit_whitening(broken)).isnan().all()


def test_the_encoder_maps_in_float64_and_per_task_by_what_it_is_given():
    base, texts = Vectors(correlated(60)), [str(row) for row in range(60)]
    per_task = Whitened(base, {}, dimensions=4)
    assert np.array_equal(per_task.encode(texts), base.vectors)
    rows = torch.from_numpy(base.vectors).double()
    for part in (slice(30), slice(30, 60)):
        expected = whiten(rows, *fit_whitening(rows[part], 4)).float().numpy()
        encoder = per_task.fitted(texts[part], base.encode)
        assert encoder.adapt is None
        assert np.array_equal(encoder.encode(texts), expected)
        assert np.array_equal(per_task.adapt(texts[part], base.encode)(texts), expected)


def test_identities_differ_where_vectors_do():
    base, another = Vectors(correlated(30)), Vectors(correlated(30), "another")
    arrays = [dict(zip("ab", fit_whitening(correlated(30, seed)), strict=True)) for seed in (0, 1)]
    encoders = [
        Whitened(base, {}, dimensions=None),
        Whitened(base, {}, dimensions=3),
        Whitened(another, {}, dimensions=None),
        *(Whitened(base, fitted, dimensions=None) for fitted in arrays),
    ]
    assert len({encoder.identity for encoder in encoders}) == len(encoders)


@pytest.mark.parametrize(
    ("hyper", "kept"),
    [
        ({"dimensions": 256}, {"dimensions": 256}),  # the width is not known yet
        ({"source": "target", "sentences": 9}, {"source": "target"}),
    ],
)
def test_without_a_backbone_and_on_each_task(hyper, kept):
    result = Whitening.clamp_to_backbone(Whitening.Hyper(**hyper), Shape(0, 0))
    assert result == Whitening.Hyper(**kept)


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

OUT_OF_LIMITS = {"untrained+whitening": "dimensions=-1 sentences=1"}
