"""Geometry of vectors: equality with plain loops, and known limits."""

import math
from itertools import combinations, permutations

import numpy as np
import pytest
import torch

from bench.evaluation import geometry
from bench.evaluation.geometry import (
    alignment,
    largest_similarities,
    layer_similarities,
    uniformity,
    unit,
)


def draw(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# The definitions, in loops


def norm(vector):
    return math.sqrt(math.fsum(x * x for x in vector))


def squared_distance(left, right):
    """The distance of the two directions."""
    a, b = norm(left), norm(right)
    return math.fsum((x / a - y / b) ** 2 for x, y in zip(left, right, strict=True))


def cosine(left, right):
    return math.fsum(x * y for x, y in zip(left, right, strict=True)) / norm(left) / norm(right)


def alignment_by_loop(first, second, gold):
    rows = zip(first, second, gold, strict=True)
    distances = [squared_distance(a, b) for a, b, score in rows if score > 4]
    return math.fsum(distances) / len(distances)


def uniformity_by_loop(vectors):
    pairs = combinations(vectors, 2)
    found = [math.exp(-2 * squared_distance(a, b)) for a, b in pairs]
    return math.log(math.fsum(found) / len(found))


def token_similarity_by_loop(tokens):
    found = [cosine(a, b) for a, b in permutations(tokens, 2)]
    return math.fsum(found) / len(found)


# Alignment and uniformity


def test_alignment_equals_the_loop():
    first, second = draw(0, 40, 6), draw(100, 40, 6)
    gold = torch.linspace(0, 5, 40, dtype=torch.float64)
    expected = alignment_by_loop(first.tolist(), second.tolist(), gold.tolist())
    assert alignment(first, second, gold) == pytest.approx(expected, abs=1e-13)


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


def test_limits_of_uniformity_and_zero_vectors():
    assert uniformity(draw(1, 1, 9).expand(50, 9)) == pytest.approx(0, abs=1e-14)
    assert uniformity(torch.tensor([[3.0, 4.0], [-3.0, -4.0]])) == pytest.approx(-8, abs=1e-6)
    # A zero vector is at distance 1 of every direction, and at 0 of another one.
    assert uniformity(torch.tensor([[0.0, 0], [0, 2]])) == pytest.approx(-2)
    assert uniformity(torch.zeros(4, 3)) == 0
    assert alignment(torch.zeros(1, 2), torch.tensor([[5.0, 0]]), torch.tensor([5.0])) == 1


# A batch, layers and tokens


def test_largest_similarities_equal_the_loop():
    vectors, candidates = unit(draw(7, 20, 5)), unit(draw(8, 20, 5))
    for side in (vectors, candidates):
        rows, columns = vectors.tolist(), side.tolist()
        ranked = [
            sorted((cosine(a, b) for j, b in enumerate(columns) if j != i), reverse=True)
            for i, a in enumerate(rows)
        ]
        expected = [sum(row[rank] for row in ranked) / 20 for rank in range(4)]
        assert largest_similarities(vectors, side, 4) == pytest.approx(expected, abs=1e-13)


def test_columns_of_layer_similarities():
    """Three layers above the embeddings, sentences of 5 and 3 tokens: each number by a loop."""
    states = [draw(layer, 2, 5, 4).float() for layer in range(4)]
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    found = layer_similarities(states, mask)
    assert found.shape == (2, 14)
    assert found.dtype == torch.float64
    for row, length in enumerate((5, 3)):
        layers = [layer[row, :length].double().tolist() for layer in states]
        means = [np.mean(layer, axis=0).tolist() for layer in layers]
        expected = [
            *(cosine(layers[i][0], layers[i + 1][0]) for i in range(3)),
            *(cosine(means[i], means[i + 1]) for i in range(3)),
            *(token_similarity_by_loop(layer[1:-1]) if length > 3 else 0 for layer in layers),
            *(token_similarity_by_loop(layer) for layer in layers),
        ]
        assert found[row].tolist() == pytest.approx(expected, abs=1e-12)
