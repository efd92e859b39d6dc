"""GloVe averages equal the rule by the letter; the Encoder is saved, loaded and scored."""

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import methods.glove as module
from bench.models.load import load_encoder, save_encoder
from bench.runs import paths
from bench.stages.jobs import score_run
from bench.utils.errors import UserError
from methods.glove import AverageOfWords, dropped_words
from tests.conftest import WORDS, make_sentences
from tests.methods.outside import Patch, run_of
from tests.oracles.mutations import Mutation, inside

MARKS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
# Words in several forms, stop words among them; "The" and "NASA" are known as written, "U.S." with
# its marks only.
KNOWN = [
    "dog", "cat", "the", "The", "not", "is", "NASA", "nasa", "U.S.", "it's", "caf\u00e9", ",",
    "x\u0085y", "dog-house",
]  # fmt: skip
VECTORS = np.random.default_rng(0).normal(size=(len(KNOWN), 5)).astype(np.float32)
TEXTS = [
    "dog",
    "The dog is not a cat",
    "the dog dog dog",
    '"Dog," (CAT)!',
    "NASA Nasa nasa U.S. US",
    "It's it's dog-house -- dog-House",
    "Caf\u00e9 caf\u00e9 , ,",
    "unheard of ...",
    "x\u0085y dog\u00a0cat",
    "",
    " ",
]


def by_the_letter(sentence: str, stop_words: bool) -> np.ndarray:
    """Every word of a sentence in turn, its three forms in turn, in float64."""
    kept: list[int] = []
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


def random_texts() -> list[str]:
    draw = random.Random(0)
    changes = (str, str.upper, str.title, "({}).".format, "'{}".format)
    forms = [change(word) for word in KNOWN for change in changes] + ["unheard", "of", "..."]
    return [" ".join(draw.choices(forms, k=draw.randint(1, 12))) for _ in range(200)]


def disagreement(encoder: AverageOfWords, stop_words: bool) -> float:
    texts = [*TEXTS, *random_texts()]
    expected = np.stack([by_the_letter(text, stop_words) for text in texts])
    found = encoder.encode(texts)
    assert found.dtype == np.float32
    return float(abs(found - expected).max())


@pytest.mark.parametrize("stop_words", [False, True])
def test_equals_the_rule(stop_words: bool) -> None:
    assert disagreement(AverageOfWords(KNOWN, VECTORS, stop_words), stop_words) < 1e-6


def test_one_known_word_is_its_vector_bit_for_bit() -> None:
    encoder = AverageOfWords(KNOWN, VECTORS, False)
    for text in ("dog", "Dog!", "the dog", "unheard dog"):
        assert np.array_equal(encoder.encode([text])[0], VECTORS[0])
    assert not encoder.encode(["the not is", "unheard", ""]).any()
    assert encoder.encode([]).shape == (0, 5)


def summed(plain: Any, texts: list[str]) -> np.ndarray:
    counts = [[len([*plain.__self__.rows(text)])] for text in texts]
    return plain(texts) * np.float32(counts)


def rows(change: Callable[..., Any]) -> Mutation:
    return inside("", "rows", change)


def stop_words_as_written_only(encoder: Any, patch: Patch) -> None:
    patch.setattr(encoder, "_dropped", frozenset())

    def kept(plain: Any, text: str) -> Any:
        return plain(" ".join(word for word in text.split() if word not in dropped_words()))

    rows(kept)(encoder, patch)


MUTATIONS: dict[str, Mutation] = {
    "sum_in_place_of_mean": inside("", "encode", summed),
    "each_word_once": rows(lambda plain, text: list(dict.fromkeys(plain(text)))),
    "row_off_by_one": lambda encoder, patch: patch.setattr(
        encoder, "vectors", np.roll(encoder.vectors, 1, axis=0)),
    "stop_words_kept": lambda encoder, patch: patch.setattr(encoder, "_dropped", frozenset()),
    "stop_words_as_written_only": stop_words_as_written_only,
    "lower_case_first": rows(lambda plain, text: plain(text.lower())),
    "marks_not_stripped": lambda encoder, patch: patch.setattr(module.string, "punctuation", ""),
    "marks_always_stripped": rows(
        lambda plain, text: plain(" ".join(word.strip(MARKS) for word in text.split()))),
    "split_at_single_spaces": rows(lambda plain, text: plain(text.replace("\u00a0", "_"))),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mistake_is_caught(name: str, monkeypatch: Patch) -> None:
    encoder = AverageOfWords(KNOWN, VECTORS, False)
    MUTATIONS[name](encoder, monkeypatch)
    assert disagreement(encoder, False) > 1e-3


def test_dropped_words_are_the_released_ones() -> None:
    """ENGLISH_STOP_WORDS of sentence_transformers/models/tokenizer/WordTokenizer.py:8-395 in
    UKPLab/sentence-transformers@85ec645: how many they are, and the hash of their sorted lines."""
    assert len(dropped_words()) == 386
    digest = hashlib.sha256("\n".join(sorted(dropped_words())).encode()).hexdigest()
    assert digest == "2a35df9d0b008e254d53fd663e495d25f0165c496a7d0bedd162f50905096fb1"


@pytest.mark.parametrize("stop_words", [False, True])
def test_an_encoder_is_saved_and_loaded(stop_words: bool, tmp_path: Path) -> None:
    encoder = AverageOfWords(KNOWN, VECTORS, stop_words)
    save_encoder(encoder, tmp_path / "encoder")
    loaded = load_encoder(tmp_path / "encoder")
    assert loaded.identity == encoder.identity
    assert np.array_equal(loaded.encode(TEXTS), encoder.encode(TEXTS))


def test_identity_is_that_of_the_table_and_the_rule() -> None:
    other = VECTORS.copy()
    other[3, 2] += 1e-6
    encoders = [
        AverageOfWords(KNOWN, VECTORS, False),
        AverageOfWords(KNOWN, VECTORS, True),
        AverageOfWords(KNOWN, other, False),
        AverageOfWords([*KNOWN[:-1], "kennel"], VECTORS, False),
    ]
    assert len({encoder.identity for encoder in encoders}) == 4
    assert AverageOfWords(KNOWN, VECTORS.copy(), False).identity == encoders[0].identity


# Scored


@pytest.fixture
def table(tmp_path: Path) -> Path:
    draw = np.random.default_rng(1)
    path = tmp_path / "vectors.txt"
    rows = [[word, *(f"{value:.4f}" for value in draw.normal(size=6))] for word in WORDS]
    path.write_text("".join(f"{' '.join(row)}\n" for row in rows))
    return path


def test_a_table_is_scored(table: Path, tiny_data: Path, tmp_path: Path) -> None:
    run = run_of("glove", table, data=tiny_data)
    assert (run.seed, run.setting) == (None, "official")
    assert (run.pretrained.shape.width, run.backbone) == (6, "vectors")
    out = [tmp_path / "scores" / f"{number}.json" for number in range(2)]
    for path in out:
        score_run(run, tmp_path, ["sts"], "test", path, "cpu")
    first, second = (json.loads(path.read_text()) for path in out)
    assert first["records"] == second["records"]
    assert {record["task"] for record in first["records"]} >= {"STS12", "STS-B", "SICK-R", "Avg"}
    from bench.datasets.word_vectors import read_vectors

    encoder = AverageOfWords(*read_vectors(table), stop_words=False)
    assert first["provenance"]["encoder"] == encoder.identity
    assert encoder.encode(make_sentences(3, seed=0)).any()
    described = paths.describe_input("backbone", str(table), tmp_path)
    assert list(described["weights"]) == ["vectors.txt"]


@pytest.mark.parametrize(
    ("text", "backbone", "message"),
    [
        ("glove", "toy-bert", "needs a table of word vectors, but 'toy-bert' is a transformer;"),
        ("simcse", "toy-glove", "needs a transformer, but 'toy-glove' is a table of word vectors;"),
        ("glove", "none", "needs a table of word vectors, but 'none' is no backbone; choose"),
        ("glove[stop_words=perhaps]", "toy-glove", "'stop_words' should be a valid boolean"),
        ("glove+is-cse", "toy-glove", "'glove' is not trained, so nothing can be added to it"),
    ],
)
def test_what_it_cannot_be(text: str, backbone: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        run_of(text, backbone)
    assert message in str(caught.value)
