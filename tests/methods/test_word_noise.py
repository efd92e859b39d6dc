"""SimCSE with word noise: loss and edits equal their oracle; without noise it is the base code."""

import sys
from types import SimpleNamespace

import pytest
import torch

from methods.base import Refusal, Step, stream
from methods.word_noise import WordNoise, edit, segmenter
from tests.oracles.outside import nt_xent
from tests.oracles.word_noise import noised
from tests.support.method_cases import HARD, batch, build, floor_of, unit_of
from tests.support.method_runs import BERT, disagreement, step

# The loss


def difference(kind, dtype, t):
    method = build((WordNoise, {"temperature": t}))
    return disagreement(
        lambda leaves: method.loss(*leaves),
        lambda leaves: nt_xent(*leaves, t),
        batch(kind, 0).views,
        dtype,
        floor_of(dtype, t),
        unit_of(t),
    )


@pytest.mark.parametrize("kind", ["random", "close", *HARD])
@pytest.mark.parametrize("t", [0.05, 0.001])
def test_the_loss_equals_its_oracle(kind, t):
    assert difference(kind, torch.float64, t) < 1e-6
    assert difference(kind, torch.float32, t) < 1e-4


# The edits

SENTENCES = [" ".join(f"w{row}-{place}" for place in range(row % 7)) or " " for row in range(400)]
PLAIN = [sentence.strip() for sentence in SENTENCES]


def views_of(sentences=SENTENCES, seed=3, **hyper):
    """Both views of a corpus, as text; a token is a word between spaces."""

    def tokenize(texts, max_length=None):
        return [text.split()[:max_length] for text in texts]

    method, tokens = build((WordNoise, hyper)), tokenize(sentences)
    context = SimpleNamespace(
        seed=seed, sentences=lambda: sentences, tokens=lambda: tokens, tokenize=tokenize
    )
    method.prepare(context)
    rows = list(reversed(range(len(sentences))))
    views = method.views(context, [tokens[row] for row in rows], Step(4, 9, len(rows), seed, rows))
    return [[" ".join(tokens) for tokens in reversed(view)] for view in views]


def expected_of(sentences=SENTENCES, seed=3, **options):
    return [sentence.strip() for sentence in noised(sentences, seed=seed, **options)]


@pytest.mark.parametrize("noise", ["swap", "delete"])
@pytest.mark.parametrize("probability", [0.1, 0.5, 1.0])
def test_edits_equal_their_oracle(noise, probability):
    expected = expected_of(noise=noise, share=probability)
    hyper = {"noise": noise, "probability": probability}
    assert views_of(**hyper) == [expected, expected]
    assert views_of(**hyper, reading="second") == [PLAIN, expected]


@pytest.mark.parametrize("noise", ["swap", "delete"])
def test_taken_at_its_word_the_listing_edits_all_sentences_or_none(noise):
    sentences, edited = SENTENCES[:20], 0
    for seed in range(60):
        expected = expected_of(sentences, seed, noise=noise, share=0.1, whole=True)
        assert views_of(sentences, seed, noise=noise, reading="corpus") == [expected, expected]
        edited += expected != PLAIN[:20]
    assert 1 <= edited <= 15  # 6 of 60 expected


@pytest.mark.parametrize("off", [{"noise": None}, {"probability": 0.0, "reading": "corpus"}])
def test_without_noise_both_views_are_the_sentence_itself(off):
    assert views_of(**off) == [PLAIN, PLAIN]


# Chinese

CHINESE = "一个戴着安全帽的男人在跳舞。"


def test_chinese_is_cut_into_words_by_jieba():
    words = segmenter().lcut(CHINESE)
    assert "".join(words) == CHINESE
    assert {"安全帽", "男人", "跳舞"} <= set(words)
    for row in range(20):
        swapped, shorter = (
            edit(CHINESE, noise, stream(1, "test", row)) for noise in ("swap", "delete")
        )
        assert swapped != CHINESE
        assert sorted(swapped) == sorted(CHINESE)
        assert any(CHINESE.replace(word, "", 1) == shorter for word in words)
    assert "".join(segmenter().lcut("他用 Python 3 写 code。")) == "他用 Python 3 写 code。"


def test_jieba_is_asked_for_only_where_it_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    segmenter.cache_clear()
    try:
        assert edit("two words", "swap", stream(1, "test")) == "words two"
        with pytest.raises(Refusal, match="need the package jieba"):
            edit(CHINESE, "swap", stream(1, "test"))
    finally:
        segmenter.cache_clear()


# With a backbone


def test_long_sentences_are_cut_to_the_recipes_length(runs):
    method, context, _ = runs.start("word-noise[probability=1]", max_length=6)
    assert max(map(len, context.tokens())) == max(map(len, method.edited.values())) == 6
    edited = noised(context.sentences(), "swap", 1.0, 1)
    assert [method.edited[row] for row in range(44)] == context.tokenize(edited, 6)


def test_a_step_is_the_loss_of_the_edited_sentences(runs):
    method, context = runs.exact("word-noise")
    rows = [4, 9, 0, 17, 30]
    edited = noised(context.sentences(), "swap", 0.1, 1)
    (vectors,) = context.embed([context.tokenize([edited[row] for row in rows])]).vectors
    # Without dropout both views are equal.
    loss = method.step_loss(context, step(0, rows))
    torch.testing.assert_close(loss, nt_xent(vectors, vectors, 0.05), rtol=1e-9, atol=0.0)


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

PUBLISHED = {
    "batch_size": 32, "learning_rate": 3e-5, "schedule": "constant", "weight_decay": 0.01,
    "dropout": 0.15, "max_length": 64, "pooler": "avg_first_last", "precision": "float32",
    "select_every": 5,
}  # fmt: skip
VALUES = [
    ("word-noise", "bert-base-chinese",
     {**PUBLISHED, "corpus": "cnsd", "select_on": "CNSD-STS-B", "pooler": "avg_first_last_64"}),
    ("word-noise", BERT,
     {**PUBLISHED, "corpus": "wiki1m", "select_on": "STS-B",
      "label": "SimCSE+noise (noise=swap)"}),
]  # fmt: skip
OUT_OF_LIMITS = {
    "word-noise": "temperature=0 probability=1.5 probability=-0.1 noise=insert reading=first",
}
WITHOUT_EFFECT = {
    "probability": ("noise=none", 0.1, 0.9),
    "reading": ("noise=none", "shared", "second"),
}
