"""Whitening against plain loops and Jacobi's rotations; its properties, limits, refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import methods.whitening as whitening
from methods.base import Refusal, Shape, compose
from methods.simcse import SimCSE
from methods.untrained import Untrained
from methods.whitening import Whitened, Whitening, fit_whitening, whiten
from tests.methods.fixed import Vectors, correlated
from tests.methods.outside import Patch
from tests.oracles import transforms as oracle

WIDTH = 6


def close_pairs(count: int) -> Tensor:
    """Near-duplicates: pairs that differ by a millionth."""
    half = correlated(count // 2, 1)
    return torch.cat([half, half + 1e-6 * correlated(count // 2, 2)])


DATA = {"random": correlated(30), "near-duplicates": close_pairs(30)}


def disagreement(module: Any, vectors: Tensor, k: int, dtype: torch.dtype) -> float:
    """Largest difference of any cosine, of the vectors that it is fitted on and of five others."""
    train, rows = vectors[:-5].to(dtype), vectors.to(dtype)
    expected = oracle.cosines(oracle.whitened(vectors[:-5].tolist(), vectors.tolist(), k))
    mean, matrix = module.fit_whitening(train, k)
    found = module.whiten(rows.double(), mean, matrix)
    return float((found @ found.T - torch.tensor(expected, dtype=torch.float64)).abs().max())


@pytest.mark.parametrize("k", [1, 3, WIDTH])
@pytest.mark.parametrize("kind", DATA)
def test_equals_plain_loops(kind: str, k: int) -> None:
    assert disagreement(whitening, DATA[kind], k, torch.float64) < 1e-6
    assert disagreement(whitening, DATA[kind], k, torch.float32) < 1e-4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".rsqrt()", ".sqrt()"),
        ("(vectors - mean) @", "vectors @"),
        ("(vectors - mean) @", "(vectors + mean) @"),
        ("@ matrix, dim=-1", "@ matrix.square(), dim=-1"),
        ("scatter(vectors, mean)", "scatter(vectors, 0 * mean)"),
        ("[:, :kept]", "[:, -kept:]"),
        ("part.flip(-1) for part", "part for part"),
        ("directions * scales", "directions"),
        ("directions * scales", "directions.T * scales"),
        ("directions * scales", "directions * scales.square()"),
        ("scatter(vectors, mean)", "(scatter(vectors, mean) + mean.diag())"),
    ],
)
def test_mistakes_are_seen(old: str, new: str, tmp_path: Path) -> None:
    module = oracle.mutant("whitening", old, new, tmp_path)
    assert disagreement(module, DATA["random"], 3, torch.float64) > 1e-3


@pytest.mark.parametrize("k", [None, 2])
def test_the_covariance_becomes_the_identity(k: int | None) -> None:
    vectors = correlated(400)
    mean, matrix = fit_whitening(vectors, k)
    turned = (vectors - mean) @ matrix
    assert turned.shape[1] == (k or WIDTH)
    torch.testing.assert_close(turned.mean(0), torch.zeros_like(turned[0]), rtol=0, atol=1e-10)
    torch.testing.assert_close(turned.T.cov(), torch.eye(k or WIDTH).double(), rtol=0, atol=1e-6)
    if k is None:  # W W^T is the inverse of the covariance
        torch.testing.assert_close(
            matrix @ matrix.T, torch.linalg.inv(vectors.T.cov()), rtol=1e-6, atol=1e-9
        )


def test_the_first_columns_have_the_most_variance() -> None:
    vectors = torch.randn(
        500, 4, generator=torch.Generator().manual_seed(0)
    ).double() * torch.tensor([1, 9, 3, 5])
    _, matrix = fit_whitening(vectors, 2)
    assert [int(column.abs().argmax()) for column in matrix.T] == [1, 3]
    assert torch.equal(fit_whitening(vectors)[1][:, :2], matrix)


def test_white_vectors_keep_their_cosines() -> None:
    vectors = correlated(50)
    mean, matrix = fit_whitening(vectors)
    white = (vectors - mean) @ matrix
    again = whiten(white, *fit_whitening(white))
    plain = torch.nn.functional.normalize(white, dim=1)
    torch.testing.assert_close(again @ again.T, plain @ plain.T, rtol=0, atol=1e-8)


def test_a_rotation_a_scale_and_a_shift_of_the_vectors_are_no_matter() -> None:
    vectors = correlated(50)
    rotation = torch.linalg.qr(
        torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(3)).double()
    )[0]
    one, other = (whiten(x, *fit_whitening(x, 4)) for x in (vectors, 0.1 * vectors @ rotation - 7))
    torch.testing.assert_close(one @ one.T, other @ other.T, rtol=0, atol=1e-8)


def test_the_divisor_is_no_matter_and_lengths_are_1() -> None:
    vectors = correlated(20)
    mean, matrix = fit_whitening(vectors)
    found = whiten(vectors, mean, matrix)
    torch.testing.assert_close(
        found, whiten(vectors, mean, matrix * (19 / 20) ** 0.5), rtol=0, atol=1e-13
    )
    torch.testing.assert_close(found.norm(dim=1), torch.ones(20).double())


def test_chunks_change_nothing(monkeypatch: Patch) -> None:
    vectors = correlated(40)
    mean, matrix = fit_whitening(vectors)
    monkeypatch.setattr("methods.contract.CHUNK", 7)
    again = fit_whitening(vectors)
    torch.testing.assert_close(
        whiten(vectors, *again), whiten(vectors, mean, matrix), rtol=0, atol=1e-10
    )


def test_directions_without_variance_are_left_out_and_told() -> None:
    vectors = correlated(40)
    flat = torch.cat([vectors, vectors[:, :2] @ torch.ones(2, 3).double()], dim=1)
    with pytest.warns(
        UserWarning, match=r"40 vectors vary in 6 directions only, so 3 of 9 dimensions are 0"
    ):
        mean, matrix = fit_whitening(flat)
    assert torch.equal(matrix[:, 6:], torch.zeros(9, 3).double())
    one, other = whiten(flat, mean, matrix), whiten(vectors, *fit_whitening(vectors))
    torch.testing.assert_close(one @ one.T, other @ other.T, rtol=0, atol=1e-8)


def test_fewer_vectors_than_dimensions() -> None:
    with pytest.warns(UserWarning, match=r"4 vectors vary in 3 directions only"):
        mean, matrix = fit_whitening(correlated(4))
    found = whiten(correlated(4), mean, matrix)
    # Any 4 points in general position become a regular simplex.
    torch.testing.assert_close(
        found @ found.T, (4 * torch.eye(4).double() - 1) / 3, rtol=0, atol=1e-8
    )


def test_equal_vectors_become_zero_and_broken_ones_stay_broken() -> None:
    with pytest.warns(UserWarning, match="vary in 0 directions only"):
        assert not whiten(torch.ones(5, 3), *fit_whitening(torch.ones(5, 3))).any()
    broken = correlated(5).index_fill(0, torch.tensor([2]), torch.nan)
    assert whiten(broken, *fit_whitening(broken)).isnan().all()


def fitted(base: Vectors, dimensions: int | None, rows: slice = slice(None)) -> Whitened:
    texts = [str(row) for row in range(len(base.vectors))][rows]
    return Whitened(base, {}, dimensions=dimensions).fitted(texts, base.encode)


def test_the_encoder_maps_in_float64_and_gives_float32() -> None:
    base = Vectors(correlated(30))
    encoder = fitted(base, 4)
    assert encoder.adapt is None
    found = encoder.encode(["3", "1"])
    assert found.dtype == np.float32
    assert found.shape == (2, 4)
    rows = torch.from_numpy(base.vectors).double()
    assert np.array_equal(found, whiten(rows[[3, 1]], *fit_whitening(rows, 4)).float().numpy())
    assert encoder.encode([]).shape == (0, 4)


def test_per_task_is_fitted_on_what_it_is_given() -> None:
    base = Vectors(correlated(60))
    per_task = Whitened(base, {}, dimensions=None)
    assert np.array_equal(per_task.encode(["3", "1"]), base.vectors[[3, 1]])
    assert per_task.adapt
    texts = [str(row) for row in range(60)]
    for rows in (slice(30), slice(30, 60)):
        found = per_task.adapt(texts[rows], per_task.encode)
        fixed = fitted(base, None, rows)
        assert np.array_equal(found(["3", "40"]), fixed.encode(["3", "40"]))
    whole = per_task.adapt(texts, per_task.encode)
    assert not np.array_equal(whole(["3"]), per_task.adapt(texts[:30], per_task.encode)(["3"]))


def test_identities_differ_where_vectors_do() -> None:
    base, other = Vectors(correlated(30)), Vectors(correlated(30, 1))
    encoders = [
        Whitened(base, {}, dimensions=None),
        Whitened(base, {}, dimensions=3),
        fitted(base, None),
        fitted(base, 3),
        Whitened(base, fitted(other, None).arrays, dimensions=None),
    ]
    encoders.append(Whitened(Vectors(correlated(30), "another"), {}, dimensions=None))
    assert len({encoder.identity for encoder in encoders}) == len(encoders)
    assert encoders[2].identity == fitted(base, None).identity


def test_hyper_parameters() -> None:
    shape = Shape(64, 4)
    assert Whitening.clamp_to_backbone(Whitening.Hyper(dimensions=0), shape) == Whitening.Hyper()
    assert Whitening.clamp_to_backbone(Whitening.Hyper(dimensions=256), shape).dimensions == 64
    assert (
        Whitening.clamp_to_backbone(Whitening.Hyper(dimensions=256), Shape(0, 0)).dimensions == 256
    )
    assert Whitening.clamp_to_backbone(
        Whitening.Hyper(source="target", sentences=9), shape
    ) == Whitening.Hyper(source="target")
    assert Whitening.corpora(Whitening.Hyper()) == ("nli",)
    assert Whitening.corpora(Whitening.Hyper(source="target")) == ()


def test_it_stands_behind_any_method_and_never_first() -> None:
    shape = Shape(WIDTH, 4)
    for cls in (SimCSE, Untrained):
        host = compose([(cls, cls.Hyper()), (Whitening, Whitening.Hyper())], shape)
        assert [type(transform) for transform in host.transforms] == [Whitening]
    with pytest.raises(Refusal, match=r"write it after a method, as in 'simcse\+whitening'"):
        compose([(Whitening, Whitening.Hyper())], shape)


# What the tests of all methods need to know of this one (`outside.of_methods`).

OUT_OF_LIMITS = {
    "untrained+whitening": "dimensions=-1 sentences=1",
}
