"""The toy word vectors: a table of the embedded world in GloVe's text format."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.utils.files import atomic_file

# The toy table. Window and weights are GloVe's own (Pennington et al. 2014, section 4.2: ten words to each side, a word
# at distance k counts 1/k); values of a factorised matrix instead of trained ones take a second and need no seed.
WIDTH = 24  # to the toy transformers' 64 about as 300 is to 768

WINDOW = 10

RAREST = 5  # occurrences of a word that gets a vector; GloVe's program takes 5 too


def make_vectors(world: Path, out: Path) -> None:
    """Write word vectors of the embedded world's corpus in GloVe's text format; a function of the corpus alone.

    They are positive pointwise mutual information within a window of a sentence, cut to its leading singular vectors,
    each scaled by the root of its singular value (Levy, Goldberg and Dagan 2015). Words are lower-cased, as in the
    glove.6B tables.

    Args:
        world: folder written by `bench.world.build`.
        out: the file to write.

    Raises:
        UserError: `world` holds no corpus.
    """
    from bench.datasets.corpora import corpus_path, read_sentences

    sentences = [re.findall(r"\w+|[^\w\s]", line.lower()) for line in read_sentences(corpus_path("world", world))]
    counts = Counter(word for sentence in sentences for word in sentence)
    words = sorted((word for word, count in counts.items() if count >= RAREST), key=lambda word: (-counts[word], word))
    vectors = _factorised(sentences, words)
    with atomic_file(out) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        for word, vector in zip(words, vectors, strict=True):
            file.write(f"{word} {' '.join(f'{value:.5f}' for value in vector)}\n")


def _factorised(sentences: Sequence[Sequence[str]], words: Sequence[str]) -> np.ndarray:
    from scipy.sparse import csr_array

    ids = {word: number for number, word in enumerate(words)}
    text = np.array([ids.get(word, -1) for sentence in sentences for word in sentence])
    place = np.repeat(np.arange(len(sentences)), [len(sentence) for sentence in sentences])
    together = np.zeros((len(words), len(words)))
    for distance in range(1, WINDOW + 1):
        left, right = text[:-distance], text[distance:]
        kept = (place[:-distance] == place[distance:]) & (left >= 0) & (right >= 0)
        counted = np.full(kept.sum(), 1 / distance)
        together += csr_array((counted, (left[kept], right[kept])), together.shape).toarray()
    together += together.T
    total = np.maximum(together.sum(axis=1), 1e-9)  # 0 for a word that stands alone
    information = np.log(np.maximum(together * total.sum() / np.outer(total, total), 1.0))
    left, values, _ = np.linalg.svd(information)
    return left[:, :WIDTH] * np.sqrt(values[:WIDTH])
