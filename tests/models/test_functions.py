"""Functions and objects that encode: what is scored is a function of the text."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import sentbench
from bench.models.load import Model
from tests.models.folders import refused

# The longest first, as texts are scored.
TEXTS = [f"{'cat ' * row}dog" for row in reversed(range(40))]


def plain(texts):
    """Counts of letters; texts of other letters have zero vectors."""
    return np.array([[text.count(letter) for letter in "catdog"] for text in texts], np.float32)


def noisy(size):
    draw = np.random.default_rng(3)
    return lambda texts: plain(texts) + size * draw.standard_normal((len(texts), 6))


def padded(texts):
    return np.roll(plain(texts), max(map(len, texts)) // 4 % 5, axis=1)


def placed(texts):
    return plain(texts) + np.float32([9, 0, 0, 0, 0, 0]) * np.arange(len(texts))[:, None]


@pytest.mark.parametrize("encode", [noisy(1.0), padded, placed], ids=["random", "padded", "placed"])
def test_vectors_that_depend_on_more_than_the_text_are_refused(encode):
    encoder = Model(encode).load("cpu")
    refused(lambda: encoder.encode(TEXTS), "different vectors (a cosine of 1 - ", "model.eval()")


@pytest.mark.parametrize(("size", "said"), [(0.0, False), (3e-3, True)])
def test_small_differences_are_said_and_rounding_is_not(size, said, capsys):
    texts = TEXTS if size else [*TEXTS, "", "xyz"]  # zero vectors have no direction
    vectors = Model(noisy(size)).load("cpu").encode(texts)
    np.testing.assert_allclose(vectors, plain(texts), atol=5 * size)
    assert ("gives a text different vectors (a cosine of 1 - " in capsys.readouterr().err) == said


def test_an_object_with_a_method_encode_is_scored_by_it(tiny_bert, tiny_data):
    library = SentenceTransformer(str(tiny_bert)).eval()
    scores = [
        sentbench.score(model, tasks=["STS-B"], data=str(tiny_data))
        for model in (library, library.encode)
    ]
    values = [[record["value"] for record in records] for records in scores]
    assert values[0] == values[1]


def test_a_module_without_encode_is_refused():
    refused(lambda: Model(torch.nn.Linear(2, 2)).load("cpu"), "has no method encode; pass a funct")
