"""Geometry of vectors: equality with plain loops, and known limits."""

import pytest
import torch

from bench.evaluation import geometry
from bench.evaluation.geometry import alignment, layer_similarities, uniformity
from tests.oracles.geometry import uniformity_by_loop


def draw(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# Alignment and uniformity


def test_a_gold_score_of_four_is_not_positive():
    first = torch.tensor([[1.0, 0], [1, 0], [1, 0]])
    second = torch.tensor([[1.0, 0], [0, 1], [-1, 0]])  # squared distances 0, 2, 4
    assert alignment(first, second, torch.tensor([4.2, 4.0, 3.9])) == 0
    assert alignment(first, second, torch.tensor([4.0, 4, 4])) is None


@pytest.mark.parametrize("rows", [1, 7, 256])
def test_uniformity_equals_the_loop_for_any_block_size(rows, monkeypatch):
    monkeypatch.setattr(geometry, "ROWS", rows)
    vectors = draw(1, 30, 5) * 1e-17  # their length does not
    vectors[7] = vectors[3]  # repeated sentences count
    assert uniformity(vectors) == pytest.approx(uniformity_by_loop(vectors.tolist()), abs=1e-13)


def test_zero_vectors():
    # A zero vector is at distance 1 of every direction, and at 0 of another one.
    assert uniformity(torch.tensor([[0.0, 0], [0, 2]])) == pytest.approx(-2)
    assert uniformity(torch.zeros(4, 3)) == 0
    assert alignment(torch.zeros(1, 2), torch.tensor([[5.0, 0]]), torch.tensor([5.0])) == 1


# Layers and tokens: their numbers are held by tests/stages/test_analyse.py.


def test_layers_in_float32_are_compared_in_float64():
    states, mask = [draw(layer, 2, 5, 4).float() for layer in range(3)], torch.ones(2, 5).long()
    exact = layer_similarities([layer.double() for layer in states], mask)
    assert torch.equal(layer_similarities(states, mask), exact)
