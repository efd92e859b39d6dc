"""Alignment, uniformity and similarity of tokens by their definitions, in loops."""

import math
from itertools import combinations, permutations


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
    result = [math.exp(-2 * squared_distance(a, b)) for a, b in pairs]
    return math.log(math.fsum(result) / len(result))


def token_similarity_by_loop(tokens):
    result = [cosine(a, b) for a, b in permutations(tokens, 2)]
    return math.fsum(result) / len(result)
