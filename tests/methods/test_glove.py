"""GloVe averages equal the rule by the letter; the Encoder is saved, loaded and scored."""

import hashlib

import numpy as np
import pytest

from bench.datasets.word_vectors import read_vectors
from bench.runs.paths import Files
from bench.training.context import RunContext
from bench.utils.errors import UserError
from methods.glove import AverageOfWords, dropped_words
from tests.support.method_runs import run_of, stored

MARKS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
# Words in several forms, stop words among them; "The" and "NASA" are known as written, "U.S." with
# its marks only.
KNOWN = [
    "dog", "cat", "the", "The", "not", "is", "NASA", "nasa", "U.S.", "it's", "caf\u00e9", ",",
    "x\u0085y", "dog-house",
]  # fmt: skip
VECTORS = np.random.default_rng(0).normal(size=(len(KNOWN), 5)).astype(np.float32)
TEXTS = [
    "dog", "The dog is not a cat", "(the) dog", "the dog dog dog", '"Dog," (CAT)!',
    "NASA Nasa nasa U.S. US",
    "It's it's dog-house -- dog-House", "Caf\u00e9 caf\u00e9 , ,", "unheard of ...",
    "x\u0085y dog\u00a0cat", "", " ",
]  # fmt: skip


def by_the_letter(sentence, stop_words):
    """Every word of a sentence in turn, its three forms in turn, in float64."""
    kept = []
    for word in sentence.split():
        start, end = 0, len(word)
        while start < end and word[start] in MARKS:
            start += 1
        while end > start and word[end - 1] in MARKS:
            end -= 1
        for form in (word, word[start:end], word[start:end].lower()):
            if not stop_words and form in dropped_words():
                break
            if form in KNOWN:
                kept.append(KNOWN.index(form))
                break
    total = np.zeros(VECTORS.shape[1])
    for row in kept:
        total += VECTORS[row].astype(np.float64)
    return total / max(1, len(kept))


@pytest.mark.parametrize("stop_words", [False, True])
def test_equals_the_rule(stop_words):
    expected = np.stack([by_the_letter(text, stop_words) for text in TEXTS])
    result = AverageOfWords(KNOWN, VECTORS, stop_words).encode(TEXTS)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-6)


def test_dropped_words_are_the_released_ones():
    """ENGLISH_STOP_WORDS of sentence_transformers/models/tokenizer/WordTokenizer.py:8-395 in
    UKPLab/sentence-transformers@85ec645: how many they are, and the hash of their sorted lines."""
    assert len(dropped_words()) == 386
    digest = hashlib.sha256("\n".join(sorted(dropped_words())).encode()).hexdigest()
    assert digest == "2a35df9d0b008e254d53fd663e495d25f0165c496a7d0bedd162f50905096fb1"


@pytest.mark.parametrize("stop_words", [False, True])
def test_an_encoder_is_saved_and_loaded(stop_words, tmp_path):
    stored(AverageOfWords(KNOWN, VECTORS, stop_words), tmp_path / "encoder", TEXTS)


def test_identity_is_that_of_the_table_and_the_rule():
    encoders = [
        AverageOfWords(KNOWN, VECTORS, False),
        AverageOfWords(KNOWN, VECTORS, True),
        AverageOfWords(KNOWN, VECTORS + np.float32(1e-6), False),
        AverageOfWords([*KNOWN[:-1], "kennel"], VECTORS, False),
    ]
    assert len({encoder.identity for encoder in encoders}) == 4


def test_a_run_has_the_words_of_its_table(tiny_data, tmp_path):
    table = tmp_path / "vectors.txt"
    table.write_text("dog 1 2\nthe 3 4\n")
    run = run_of("glove", table, data=tiny_data)
    assert (run.seed, run.setting, run.backbone) == (None, "official", "vectors")
    encoder = run.build().encoder(RunContext(run, Files(tmp_path, run.data), "cpu"))
    assert encoder.identity == AverageOfWords(*read_vectors(table), stop_words=False).identity


@pytest.mark.parametrize(
    ("text", "backbone", "message"),
    [
        ("glove", "toy-bert", "needs a table of word vectors, but 'toy-bert' is a transformer;"),
        ("simcse", "toy-glove", "needs a transformer, but 'toy-glove' is a table of word vectors;"),
    ],
)
def test_a_backbone_of_the_other_kind_is_refused(text, backbone, message):
    with pytest.raises(UserError, match=message):
        run_of(text, backbone)
