"""Cropping: which words are in a crop, its limit SimCSE, and what its documents are."""

from collections import Counter

import pytest
import torch

from methods.base import Refusal, Shape, Step
from methods.cropping import Cropping
from tests.support.method_runs import BERT, step

SENTENCES = [f"a{row} b{row} c{row} d{row} e{row}" for row in range(10)]
DOCUMENTS = [range(0, 3), range(3, 8), range(8, 10)]


def crops(index, rows, sentences=SENTENCES, **hyper):
    method = Cropping(Cropping.Hyper(**hyper), Shape(8, 4))
    method.documents = DOCUMENTS
    return method.crops(sentences, Step(index, 1000, len(rows), 3, rows))


# Of five lines, two from each of the four starts, different ones in both views.
LINES = [f"{SENTENCES[start]} {SENTENCES[start + 1]}" for start in range(3, 7)]
# Of five words at a share of 0.4, three; both views are drawn by themselves.
PARTS = [" ".join(SENTENCES[4].split()[start : start + 3]) for start in range(3)]
CROPS = {
    "document": ({"lines": 2}, 1, 3, {(a, b) for a in LINES for b in LINES if a != b}),
    "sentence": ({"cut": 0.4}, 4, 4, {(a, b) for a in PARTS for b in PARTS}),
}


@pytest.mark.parametrize("unit", CROPS)
def test_crops_are_successive_and_all_are_drawn(unit):
    hyper, item, row, expected = CROPS[unit]
    seen = Counter()
    for index in range(100 * len(expected)):
        (pair,), rows = crops(index, [item], unit=unit, **hyper)
        assert rows == [row]
        seen[pair] += 1
    assert set(seen) == expected
    assert all(60 < count < 140 for count in seen.values())  # 100; standard deviation below 10


@pytest.mark.parametrize(
    ("text", "cut", "crop"), [("one", 0.9, "one"), (" ", 0.5, ""), ("a b", 0.2, "a b")]
)
def test_a_short_sentence_keeps_a_word(text, cut, crop):
    assert crops(0, [0], [text], unit="sentence", cut=cut)[0] == [(crop, crop)]


@pytest.fixture
def corpus(tmp_path):
    """Three documents of 3, 5 and 2 lines of the tiny language."""
    words = ["the", "old", "dog", "sees", "two", "birds", "a", "man", "sleeps", "again"]
    lines = [" ".join(words[(row + i) % 10] for i in range(5)) for row in range(10)]
    (tmp_path / "docs.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "docs.docs.tsv").write_text("first_line\tlines\n1\t3\n4\t5\n9\t2\n")
    return str(tmp_path / "docs.txt")


def test_a_step_encodes_the_crops(runs, corpus):
    method, context = runs.exact("cropping", corpus=corpus)
    assert method.items(context) == 2  # the third document has too few lines
    seen = []
    method.loss = lambda views, step: seen.append(views.vectors) or torch.zeros(())
    method.step_loss(context, step(0, [0, 1]))
    pairs, _ = method.crops(context.sentences(), step(0, [0, 1]))
    for result, texts in zip(seen[0], zip(*pairs, strict=True), strict=True):
        expected = context.encoder("avg").encode(list(texts))
        torch.testing.assert_close(result.float(), torch.from_numpy(expected), rtol=1e-4, atol=1e-5)


def test_a_corpus_of_short_documents_is_refused(runs, corpus):
    with pytest.raises(Refusal, match="finds no document of more than 5 lines"):
        runs.start("cropping[lines=5]", corpus=corpus)


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

PAPER = {"setting": "paper", "pooler": "avg", "warmup": 0.1, "learning_rate": 2e-5}
VALUES = [("cropping", BERT, PAPER)]
OUT_OF_LIMITS = {"cropping": "unit=word lines=0 longest=2 cut=1 cut=-0.1"}
WITHOUT_EFFECT = {
    "lines": ("unit=sentence", 2, 3),
    "longest": ("unit=sentence", 128, 8),
    "cut": ("unit=document", 0.1, 0.5),
}
