"""SimCSE with word noise: loss and edits equal their oracle; without noise it is the base code."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import methods.word_noise as word_noise
from bench.datasets import sts
from bench.datasets.corpora import read_sentences
from bench.evaluation.scoring import score_tasks
from bench.models.load import load_encoder
from bench.training.context import RunContext
from bench.utils.files import read_json
from methods.base import Refusal, Shape, Step, compose, cosine, stream
from methods.word_noise import WordNoise, edit, segmenter
from tests.methods.cases import HARD, WIDTH, batch, floor_of, unit_of
from tests.methods.outside import BERT, Patch, Train, disagreement, run_of
from tests.oracles.methods import scalars
from tests.oracles.outside import nt_xent
from tests.oracles.word_noise import averaged, noised
from tests.training.test_loop import log_of


def build(**hyper: Any) -> Any:
    return compose([(WordNoise, WordNoise.Hyper(**hyper))], Shape(WIDTH, 4))


# The loss


def difference(kind: str, dtype: torch.dtype, t: float, method: Any = None) -> float:
    own = method or build(temperature=t)
    return disagreement(
        lambda leaves: own.loss(*leaves),
        lambda leaves: nt_xent(*map(scalars, leaves), t),
        batch(kind, 0).views,
        dtype,
        floor_of(dtype, t),
        unit_of(t),
    )


@pytest.mark.parametrize("kind", ["random", "close", *HARD])
@pytest.mark.parametrize("t", [0.05, 0.001])
def test_the_loss_equals_its_oracle(kind: str, t: float) -> None:
    assert difference(kind, torch.float64, t) < 1e-6
    assert difference(kind, torch.float32, t) < 1e-4


def other_loss(method: Any, loss: Callable[[Tensor, Tensor, float], Tensor]) -> None:
    method.loss = lambda first, second: loss(first, second, method.hyper.temperature)


def one_direction(first: Tensor, second: Tensor, t: float) -> Tensor:
    return F.cross_entropy(cosine(first, second) / t, torch.arange(len(first)))


def both_directions_apart(first: Tensor, second: Tensor, t: float) -> Tensor:
    return (one_direction(first, second, t) + one_direction(second, first, t)) / 2


def itself_kept(first: Tensor, second: Tensor, t: float) -> Tensor:
    vectors = torch.cat([first, second])
    return F.cross_entropy(
        cosine(vectors, vectors) / t, torch.arange(len(vectors)).roll(len(first))
    )


def masked(first: Tensor, second: Tensor, t: float, shift: int) -> Tensor:
    vectors = torch.cat([first, second])
    logits = (cosine(vectors, vectors) / t).masked_fill(
        torch.eye(len(vectors), dtype=torch.bool), -torch.inf
    )
    return F.cross_entropy(logits, torch.arange(len(vectors)).roll(shift))


MUTATIONS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "one direction": one_direction,
    "both directions, each with half of the candidates": both_directions_apart,
    "itself kept among the candidates": itself_kept,
    "partner of the next sentence": lambda first, second, t: masked(
        first, second, t, len(first) + 1
    ),
    "sign": lambda first, second, t: masked(first, -second, t, len(first)),
    "temperature multiplied": lambda first, second, t: masked(first, second, 1 / t, len(first)),
    "second view detached": lambda first, second, t: masked(first, second.detach(), t, len(first)),
    "sum in place of mean": lambda first, second, t: (
        masked(first, second, t, len(first)) * len(first)
    ),
    "the mask is zero": lambda first, second, t: F.cross_entropy(
        (cosine(torch.cat([first, second]), torch.cat([first, second])) / t).fill_diagonal_(0),
        torch.arange(2 * len(first)).roll(len(first)),
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mistake_in_the_loss_is_caught(name: str) -> None:
    method = build()
    other_loss(method, MUTATIONS[name])
    assert max(difference(kind, torch.float64, 0.05, method) for kind in ("random", "close")) > 1e-6


# The edits

SENTENCES = [" ".join(f"w{row}-{place}" for place in range(row % 7)) or " " for row in range(400)]


def given(sentences: Sequence[str], seed: int = 3) -> Any:
    """A context of words between spaces: a token is a word."""

    def tokenize(texts: Sequence[str], max_length: int | None = None) -> list[list[str]]:
        return [text.split()[:max_length] for text in texts]

    return SimpleNamespace(
        seed=seed,
        sentences=lambda: sentences,
        tokens=lambda: tokenize(sentences),
        tokenize=tokenize,
    )


def views_of(
    hyper: dict[str, Any], seed: int = 3, sentences: Sequence[str] = SENTENCES
) -> list[list[str]]:
    """Both views of the whole corpus, as text."""
    method = build(**hyper)
    context = given(sentences, seed)
    method.prepare(context)
    rows = list(reversed(range(len(sentences))))
    step = Step(0, 1, len(rows), seed, rows)
    views = method.views([context.tokens()[row] for row in rows], step)
    return [[" ".join(tokens) for tokens in reversed(view)] for view in views]


def plain(sentences: Sequence[str]) -> list[str]:
    return [" ".join(sentence.split()) for sentence in sentences]


@pytest.mark.parametrize("noise", ["swap", "delete"])
@pytest.mark.parametrize("probability", [0.1, 0.5, 1.0])
def test_edits_equal_their_oracle(noise: str, probability: float) -> None:
    expected = plain(noised(SENTENCES, noise, probability, 3))
    first, second = views_of({"noise": noise, "probability": probability})
    assert first == second == expected
    first, second = views_of({"noise": noise, "probability": probability, "reading": "second"})
    assert (first, second) == (plain(SENTENCES), expected)
    changed = sum(own != other for own, other in zip(expected, plain(SENTENCES), strict=True))
    able = sum(len(sentence.split()) > (noise == "swap") for sentence in SENTENCES) / len(SENTENCES)
    assert abs(changed / len(SENTENCES) - able * probability) < 0.06


@pytest.mark.parametrize("noise", ["swap", "delete"])
def test_taken_at_its_word_the_listing_edits_all_sentences_or_none(noise: str) -> None:
    edited = 0
    for seed in range(60):
        first, second = views_of({"noise": noise, "reading": "corpus"}, seed, SENTENCES[:20])
        assert first == second == plain(noised(SENTENCES[:20], noise, 0.1, seed, whole=True))
        changed = [own != other for own, other in zip(first, plain(SENTENCES[:20]), strict=True)]
        able = [len(sentence.split()) > (noise == "swap") for sentence in SENTENCES[:20]]
        assert changed in ([False] * 20, able)
        edited += any(changed)
    assert 1 <= edited <= 15  # 6 of 60 expected


def test_both_noises_touch_the_same_sentences() -> None:
    method = {noise: build(noise=noise) for noise in ("swap", "delete")}
    assert method["swap"].edited_rows(500, 1) == method["delete"].edited_rows(500, 1)
    assert method["swap"].edited_rows(500, 1) != method["swap"].edited_rows(500, 2)


def test_edits_are_made_once() -> None:
    """At load time: another step sees the same sentences, whatever batch they are in."""
    method, context = build(probability=1.0), given(SENTENCES)
    method.prepare(context)
    for rows in ([6, 13, 20], [20, 6, 27]):
        for index in (0, 9):
            first, _ = method.views(
                [context.tokens()[row] for row in rows], Step(index, 10, 3, 3, rows)
            )
            assert [" ".join(tokens) for tokens in first] == [
                noised(SENTENCES, "swap", 1.0, 3)[row] for row in rows
            ]


def drawn(row: int) -> torch.Generator:
    return stream(1, "test", row)


def test_swap_exchanges_two_words_and_delete_leaves_one_out() -> None:
    places, left_out = Counter(), Counter()
    words = ["zero", "one", "two", "three", "four"]
    for row in range(600):
        swapped = edit(" ".join(words), "swap", drawn(row)).split()
        differing = [place for place in range(5) if swapped[place] != words[place]]
        assert sorted(swapped) == sorted(words)
        assert len(differing) == 2
        places[tuple(differing)] += 1
        shorter = edit(" ".join(words), "delete", drawn(row)).split()
        assert len(shorter) == 4
        assert shorter == [word for word in words if word in shorter]
        left_out[next(word for word in words if word not in shorter)] += 1
    assert len(places) == 10  # every pair, as often as another
    assert min(places.values()) > 30
    assert len(left_out) == 5
    assert min(left_out.values()) > 80


def test_short_sentences() -> None:
    assert edit("word", "swap", drawn(0)) == "word"
    assert edit("word", "delete", drawn(0)) == ""
    assert edit(" ", "swap", drawn(0)) == edit(" ", "delete", drawn(0)) == " "


def mistaken(change: Callable[[list[str], torch.Generator], list[str]]) -> Callable[..., str]:
    return lambda sentence, noise, generator: " ".join(change(sentence.split(), generator))


def neighbours_exchanged(words: list[str], generator: torch.Generator) -> list[str]:
    place = int(torch.randint(max(1, len(words) - 1), (), generator=generator))
    return words[:place] + words[place : place + 2][::-1] + words[place + 2 :]


MISTAKES = {
    "no touch": lambda sentence, noise, generator: sentence,
    "neighbours exchanged": mistaken(neighbours_exchanged),
    "two edits": lambda text, *rest: edit(edit(text, *rest), *rest),
    "shuffled": mistaken(
        lambda words, draw: [words[k] for k in torch.randperm(len(words), generator=draw)]
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_an_edit_is_caught(name: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(word_noise, "edit", MISTAKES[name])
    assert views_of({"probability": 1.0})[0] != plain(noised(SENTENCES, "swap", 1.0, 3))


# Chinese

CHINESE = "一个戴着安全帽的男人在跳舞。"


def test_chinese_is_cut_into_words_by_jieba() -> None:
    words = segmenter().lcut(CHINESE)
    assert "".join(words) == CHINESE
    assert {"安全帽", "男人", "跳舞"} <= set(words)
    for row in range(20):
        swapped, shorter = edit(CHINESE, "swap", drawn(row)), edit(CHINESE, "delete", drawn(row))
        assert swapped != CHINESE
        assert sorted(swapped) == sorted(CHINESE)
        assert any(CHINESE.replace(word, "", 1) == shorter for word in words)
    assert "".join(segmenter().lcut("他用 Python 3 写 code。")) == "他用 Python 3 写 code。"


def test_jieba_is_asked_for_only_where_it_is_needed(monkeypatch: Patch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    segmenter.cache_clear()
    try:
        assert edit("two words", "swap", drawn(0)) == "words two"
        with pytest.raises(Refusal, match="need the package jieba"):
            edit(CHINESE, "swap", drawn(0))
    finally:
        segmenter.cache_clear()


# Limits, refusals, settings


@pytest.mark.parametrize("reading", ["shared", "second", "corpus"])
@pytest.mark.parametrize("off", [{"noise": None}, {"probability": 0.0}])
def test_without_noise_both_views_are_the_sentence_itself(
    reading: str, off: dict[str, Any]
) -> None:
    method, context = build(reading=reading, **off), given(SENTENCES)
    method.prepare(context)
    assert not method.edited
    rows = [5, 6, 7]
    tokens = [context.tokens()[row] for row in rows]
    assert method.views(tokens, Step(0, 1, 3, 3, rows)) == (tokens, tokens)


# A training


def test_long_sentences_are_cut_to_the_recipes_length(
    tiny_bert: Path, tiny_corpus: Path, tiny_data: Path
) -> None:
    text = "word-noise[probability=1]"
    run = run_of(text, tiny_bert, tiny_corpus, tiny_data, max_length=6)
    context, method = RunContext(run, tiny_data, "cpu"), run.build()
    method.prepare(context)
    assert max(map(len, context.tokens())) == max(map(len, method.edited.values())) == 6
    edited = noised(read_sentences(tiny_corpus), "swap", 1.0, 1)
    assert [method.edited[row] for row in range(44)] == context.tokenize(edited, 6)


def first_loss(backbone: Path, corpus: Path, data: Path, **mistake: Any) -> tuple[Tensor, Tensor]:
    """The loss of a step with the mean of Chinese BERT, and its oracle's, without dropout."""
    pooler = WordNoise.paper["bert-base-chinese"]["pooler"]
    run = run_of(f"word-noise[pooler={pooler}]", backbone, corpus, data, dropout=0.0)
    context, method = RunContext(run, data, "cpu"), run.build()
    context.backbone.double()
    method.prepare(context)
    rows = [4, 9, 0, 17, 30]
    assert len({len(context.tokens()[row]) for row in rows}) > 1
    tokens = context.tokenize([noised(read_sentences(corpus), "swap", 0.1, 1)[row] for row in rows])
    vectors = averaged(context.backbone, tokens, context.tokenizer.pad_token_id, **mistake)
    # Without dropout both views are equal.
    expected = nt_xent(scalars(vectors), scalars(vectors), 0.05)
    return method.step_loss(context, Step(0, 1, 5, 1, rows)), expected


def test_vectors_of_chinese_bert_average_64_positions_as_the_base_code(
    tiny_backbone: Path, tiny_corpus: Path, tiny_data: Path
) -> None:
    own, expected = first_loss(tiny_backbone, tiny_corpus, tiny_data)
    torch.testing.assert_close(own, expected, rtol=1e-9, atol=0.0)
    own.backward()  # padding has gradient, too


@pytest.mark.parametrize(
    "mistake",
    [{"masked": True}, {"attended": True}, {"layers": (0, -1)}, {"positions": 40}],
    ids=["sentence alone", "padding attended", "embedding layer", "shorter"],
)
def test_a_mistake_in_the_mean_is_caught(
    tiny_bert: Path, tiny_corpus: Path, tiny_data: Path, mistake: dict[str, Any]
) -> None:
    own, other = first_loss(tiny_bert, tiny_corpus, tiny_data, **mistake)
    assert float((own - other).detach().abs()) > 1e-4


def test_a_training_scores_what_it_trains(train_tiny: Train, tiny_data: Path) -> None:
    """The encoder is saved with the pooler, and selection used its vectors."""
    folder = train_tiny("word-noise[pooler=avg_first_last_64]")
    found = load_encoder(folder / "encoder")
    assert found.pooler == "avg_first_last_64"
    (record,) = score_tasks(found, [sts.read("STS-B", tiny_data, "dev")])
    assert record["value"] == read_json(folder / "outcome.json")["outcome"]["best_dev"]


def test_without_noise_a_training_is_the_same_whatever_the_switch(train_tiny: Train) -> None:
    noisy, plain, never = (
        [row["loss"] for row in log_of(train_tiny(f"word-noise[{keys}]"))]
        for keys in ("noise=delete,probability=0.5", "noise=none", "probability=0")
    )
    assert noisy != plain == never


# What the tests of all methods need to know of this one (`outside.of_methods`).

PUBLISHED = {
    "batch_size": 32, "learning_rate": 3e-5, "schedule": "constant", "weight_decay": 0.01,
    "dropout": 0.15, "max_length": 64, "pooler": "avg_first_last", "precision": "float32",
    "select_every": 5,
}  # fmt: skip
VALUES: list[tuple[str, str, dict[str, Any]]] = [
    ("word-noise", "bert-base-chinese",
     {**PUBLISHED, "corpus": "cnsd", "select_on": "CNSD-STS-B", "pooler": "avg_first_last_64"}),
    ("word-noise", BERT,
     {**PUBLISHED, "corpus": "wiki1m", "select_on": "STS-B",
      "label": "SimCSE+noise (noise=swap)"}),
]  # fmt: skip
OUT_OF_LIMITS = {
    "word-noise": "temperature=0 probability=1.5 probability=-0.1 noise=insert reading=first",
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "probability": ("noise=none", 0.1, 0.9),
    "reading": ("noise=none", "shared", "second"),
}
TRAININGS: dict[str, tuple[dict[str, Any], int]] = {
    "word-noise[noise=delete,probability=0.5]": ({}, 6),
}
