"""Toy word vectors of the embedded world in GloVe's text format."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from bench.utils.files import atomic_file

# Window and weights of GloVe (Pennington et al. 2014, section 4.2): ten words to each side, weight
# 1/k at distance k. Matrix factorisation replaces training: it takes a second and needs no seed.
WIDTH = 24  # relative to the toy transformers' 64 about as 300 to 768
WINDOW = 10
MIN_COUNT = 5  # of a word with a vector, as in GloVe's program


def make_vectors(world: Path, out: Path) -> None:
    """Write word vectors of the corpus in the folder `world` to the file `out`.

    They are the leading singular vectors of the positive pointwise mutual information within a
    window of a sentence, each scaled by the root of its singular value (Levy, Goldberg and Dagan
    2015). Words are lower-cased, as in the glove.6B tables.

    Raises:
        UserError: `world` has no corpus.
    """
    from bench.datasets.corpora import corpus_path, read_sentences

    lines = read_sentences(corpus_path("world", world))
    sentences = [re.findall(r"\w+|[^\w\s]", line.lower()) for line in lines]
    counts = Counter(chain.from_iterable(sentences))
    frequent = [word for word, count in counts.items() if count >= MIN_COUNT]
    words = sorted(frequent, key=lambda word: (-counts[word], word))
    rows = [
        f"{word} {' '.join(f'{value:.5f}' for value in vector)}\n"
        for word, vector in zip(words, _factorised(sentences, words), strict=True)
    ]
    with atomic_file(out) as temporary:
        Path(temporary).write_bytes("".join(rows).encode())


def _factorised(sentences: Sequence[Sequence[str]], words: Sequence[str]) -> np.ndarray:
    from scipy.sparse import csr_array

    ids = {word: number for number, word in enumerate(words)}
    text = np.array([ids.get(word, -1) for word in chain.from_iterable(sentences)])
    place = np.repeat(np.arange(len(sentences)), [len(sentence) for sentence in sentences])
    together = np.zeros((len(words), len(words)))
    for distance in range(1, WINDOW + 1):
        left, right = text[:-distance], text[distance:]
        valid = (place[:-distance] == place[distance:]) & (left >= 0) & (right >= 0)
        counted = np.full(valid.sum(), 1 / distance)
        together += csr_array((counted, (left[valid], right[valid])), together.shape).toarray()
    together += together.T
    total = np.maximum(together.sum(axis=1), 1e-9)  # 0 for a word without neighbours
    information = np.log(np.maximum(together * total.sum() / np.outer(total, total), 1.0))
    left, values, _ = np.linalg.svd(information)
    return left[:, :WIDTH] * np.sqrt(values[:WIDTH])
