"""Word overlap: the cosine of word counts, without a backbone; a lower bound for encoders."""

import hashlib
import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from methods.base import Context, Count, HyperParameters, Method, text_list


class BagOfWords:
    """An Encoder: the mean over lower-cased words of a unit vector of random signs of the word."""

    # Vectors of different words are nearly orthogonal, so the cosine of two means approximates that
    # of the word counts. Vectors have length 1 because the first step of RMSProp changes a weight
    # by 0.1 whatever its gradient: sums of signs would saturate the units of a network, and
    # rounding would determine its accuracy.
    kind = "word-overlap"

    def __init__(self, width: int) -> None:
        self.width = width

    @property
    def identity(self) -> str:
        return f"{self.kind}-mean-{self.width}"

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        signs: dict[str, np.ndarray] = {}
        sentences = text_list(sentences)
        vectors = np.zeros((len(sentences), self.width), dtype=np.float32)
        for vector, sentence in zip(vectors, sentences, strict=True):
            words = sentence.lower().split()
            for word in words:
                if word not in signs:
                    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
                    bits = np.random.default_rng(seed).integers(0, 2, self.width)
                    signs[word] = bits.astype(np.float32) * 2 - 1
                vector += signs[word]  # exact, since sums of integers
            vector /= np.float32(max(1, len(words)) * math.sqrt(self.width))
        return vectors

    def save(self, folder: Any) -> dict[str, Any]:
        return {"width": self.width}

    @classmethod
    def load(cls, folder: Any, stored: dict[str, Any], **_: Any) -> Self:
        return cls(stored["width"])


class WordOverlap(Method):
    """The cosine of word counts, a lower bound."""

    name = "word-overlap"
    title = "Word overlap"
    version = 2  # means of unit vectors instead of sums of signs
    reference = "a control"

    class Hyper(HyperParameters):
        # The cosine's error is about 1 / sqrt(width) = 0.02.
        width: Count = 2048
        """random signs per word"""

    trained = False
    backbone_free = True

    def encoder(self, context: Context) -> BagOfWords:
        return BagOfWords(self.hyper.width)
