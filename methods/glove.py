"""GloVe: the mean of word vectors, by default without stop words
(docs/reference/methods.md#glove)."""

import hashlib
import string
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
import torch

from methods.base import Context, HyperParameters, Method, text_list

# Besides scikit-learn's list: parts of contractions after a split at the apostrophe, and forms that
# it lacks of words that it has.
_ADDED = """
    s t d m o y ll ma ve ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan
    shouldn wasn weren won wouldn
    did does doing having just theirs"""


@cache
def dropped_words() -> frozenset[str]:
    """Return what Sentence-Transformers' word model drops (docs/reference/methods.md#glove)."""
    # Imported here, since every command of the suite imports this module.
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    marks = [*string.punctuation, "``", "''"]
    return ENGLISH_STOP_WORDS.union(marks, _ADDED.split())


class AverageOfWords:
    """An Encoder: the mean of the vectors of a sentence's known words, zero if it has none."""

    kind = "words"

    def __init__(self, words: Sequence[str], vectors: np.ndarray, stop_words: bool) -> None:
        self.words, self.vectors, self.stop_words = words, vectors, stop_words
        self.arrays = {"vectors": torch.from_numpy(vectors)}
        self._dropped = frozenset() if stop_words else dropped_words()
        self._rows = {word: row for row, word in enumerate(words)}

    @cached_property
    def identity(self) -> str:
        digest = hashlib.sha256("\n".join([*sorted(self._dropped), "", *self.words]).encode())
        digest.update(np.ascontiguousarray(self.vectors).data)
        return f"{self.kind}-{digest.hexdigest()[:16]}"

    def rows(self, sentence: str) -> Iterator[int]:
        """Yield the row of each known word."""
        # It is looked up as written, then without punctuation at both ends, then in lower case, and
        # dropped if a stop word is the first of these forms.
        for word in sentence.split():
            bare = word.strip(string.punctuation)
            for form in (word, bare, bare.lower()):
                if form in self._dropped:
                    break
                if form in self._rows:
                    yield self._rows[form]
                    break

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        sentences = text_list(sentences)
        means = np.zeros((len(sentences), self.vectors.shape[1]), dtype=np.float32)
        for vector, sentence in zip(means, sentences, strict=True):
            rows = list(self.rows(sentence))
            if rows:
                vector[:] = self.vectors[rows].mean(axis=0)
        return means

    def save(self, folder: Any) -> dict[str, Any]:
        (folder / "words.txt").write_bytes("\n".join(self.words).encode())
        return {"stop_words": self.stop_words}

    @classmethod
    def load(cls, folder: Any, stored: Any, *, arrays: Any, **_: Any) -> Self:
        words = (folder / "words.txt").read_bytes().decode().split("\n")
        return cls(words, arrays["vectors"].numpy(), stored["stop_words"])


class GloVe(Method):
    """The mean of word vectors."""

    name = "glove"
    title = "GloVe"
    reference = (
        "Reimers and Gurevych 2019, Table 1; Pennington et al. 2014; "
        "code UKPLab/sentence-transformers@85ec645"
    )
    version = 2  # drops the 386 words of Sentence-Transformers

    class Hyper(HyperParameters):
        # Sentence-Transformers' word model drops them.
        stop_words: bool = False
        """whether stop words count"""

    official = {}
    trained = False
    backbone_kind = "words"

    def encoder(self, context: Context) -> AverageOfWords:
        table = context.backbone
        return AverageOfWords(table.words, table.vectors, self.hyper.stop_words)
