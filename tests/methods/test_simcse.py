"""SimCSE's second view without a word: what is left out, what is encoded."""

from collections import Counter

import pytest

from bench.datasets.corpora import read_sentences
from methods.simcse import without_a_word
from tests.support.method_runs import step


def test_every_word_is_left_out_as_often():
    left = Counter(without_a_word("0 1 2 3 4", 1, row) for row in range(5000))
    assert set(left) == {"1 2 3 4", "0 2 3 4", "0 1 3 4", "0 1 2 4", "0 1 2 3"}
    assert all(abs(count - 1000) < 4 * (5000 * 0.2 * 0.8) ** 0.5 for count in left.values())
    by_seed = [[without_a_word("0 1 2 3 4", seed, row) for row in range(20)] for seed in (1, 2)]
    assert by_seed[0] != by_seed[1]


@pytest.mark.parametrize(("sentence", "left"), [("", ""), (" dog ", "dog")])
def test_a_word_alone_stays(sentence, left):
    assert without_a_word(sentence, 1, 0) == left


def test_the_second_view_is_a_word_shorter_and_the_same_in_each_epoch(runs, tiny_corpus):
    method, context, _ = runs.start("simcse[delete_word=true]", max_length=7)
    texts = read_sentences(tiny_corpus)
    shorter = [without_a_word(text, 1, row) for row, text in enumerate(texts)]
    cut = {"truncation": True, "max_length": 7}
    expected = [context.tokenizer(views, **cut)["input_ids"] for views in (texts, shorter)]
    for index in range(2):
        whole = step(index, range(len(texts)))
        assert list(method.views(context, whole.take(context.tokens()), whole)) == expected
