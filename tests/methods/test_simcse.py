"""SimCSE's second view without a word: what is left out, what is encoded."""

from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bench.datasets.corpora import read_sentences
from bench.models.transformer import load_backbone
from bench.training.context import RunContext
from bench.training.loop import train
from methods.simcse import without_a_word
from tests.methods.outside import Patch, Train, run_of
from tests.training.test_loop import assert_same_training

words = st.lists(st.sampled_from(["a", "the", "dog", "sees", "two", "red", "birds"]), max_size=9)


@given(words, st.integers(0, 99), st.integers(0, 99))
def test_one_word_is_left_out(sentence: list[str], seed: int, row: int) -> None:
    left = without_a_word(" ".join(sentence), seed, row).split()
    shorter = [sentence[:i] + sentence[i + 1 :] for i in range(len(sentence))]
    assert left in (shorter if len(sentence) > 1 else [sentence])
    assert without_a_word(" ".join(sentence), seed, row).split() == left


def test_every_word_is_left_out_as_often() -> None:
    sentence = "0 1 2 3 4"
    left = [without_a_word(sentence, 1, row).split() for row in range(5000)]
    missing = Counter(word for words in left for word in sentence.split() if word not in words)
    assert sorted(missing) == sentence.split()
    assert all(abs(count - 1000) < 4 * (5000 * 0.2 * 0.8) ** 0.5 for count in missing.values())
    by_seed = [[without_a_word(sentence, seed, row) for row in range(20)] for seed in (1, 2)]
    assert by_seed[0] != by_seed[1]


def test_what_is_encoded(
    train_tiny: Train, tiny_bert: Path, tiny_corpus: Path, monkeypatch: Patch
) -> None:
    """The first view is the corpus, the second a word shorter and the same in each epoch."""
    seen: list[Any] = []
    plain = RunContext.embed

    def embed(context: RunContext, views: Any, *others: Any) -> Any:
        seen.extend(zip(*views, strict=True))
        return plain(context, views, *others)

    monkeypatch.setattr(RunContext, "embed", embed)
    train_tiny("simcse[delete_word=true]", fresh=True, epochs=2, max_length=7)
    rows = read_sentences(tiny_corpus)
    _, tokenizer = load_backbone(tiny_bert)

    def cut(text: str) -> tuple[int, ...]:
        return tuple(tokenizer(text, truncation=True, max_length=7)["input_ids"])

    expected = Counter(
        (cut(text), cut(without_a_word(text, 1, row))) for row, text in enumerate(rows)
    )
    assert Counter((tuple(one), tuple(other)) for one, other in seen) == Counter(
        {k: 2 * n for k, n in expected.items()}
    )
    assert sum(one != other for one, other in expected) > len(expected) / 2


def test_where_nothing_can_be_left_out_it_is_simcse_bit_for_bit(
    tiny_bert: Path, tiny_data: Path, tmp_path: Path
) -> None:
    (tmp_path / "corpus.txt").write_text("a\nman\ndog\ncat\nbird\ntree\nroad\ntwo\n")
    for text in ("simcse", "simcse[delete_word=true]"):
        recipe = {"batch_size": 4, "learning_rate": 1e-3}
        run = run_of(text, tiny_bert, tmp_path / "corpus.txt", tiny_data, **recipe)
        train(run, tmp_path / text, tmp_path / text)
    assert_same_training(tmp_path / "simcse", tmp_path / run.method)
