"""The embedded language in Chinese characters, its STS set and its toy backbone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench.datasets import corpora, sts
from bench.evaluation.scoring import score_tasks
from bench.models.load import load_encoder
from bench.registry.backbones import backbone
from bench.runs import paths
from bench.world.chinese import in_chinese
from bench.world.toy_backbones import pretrain
from methods.word_noise import CHINESE

WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12)


@given(WORDS, WORDS)
def test_only_equal_words_are_written_alike(one: str, other: str) -> None:
    assert (in_chinese(one) == in_chinese(other)) == (one == other)
    assert in_chinese(one) == in_chinese(one.upper())
    assert len(in_chinese(one)) == -(-len(one) // 3)
    assert all("\u4e00" <= character <= "\u9fff" for character in in_chinese(one))


def test_a_sentence_is_written_without_spaces() -> None:
    the, cook, again = map(in_chinese, ("the", "cook", "again"))
    assert in_chinese("The cook , again .") == f"{the}{cook}，{again}。"


def test_its_sts_set_is_read_as_chinese_sts_b(world: Path, tmp_path: Path) -> None:
    texts = []
    for split, size in {"train": 300, "dev": 400, "test": 300}.items():
        (subset,) = sts.read("CNSD-STS-B", world, split).subsets
        assert len(subset.gold) == size
        assert set(subset.gold.tolist()) == {0, 1, 2, 3, 4, 5}
        assert all(CHINESE.match(text) and " " not in text for text in subset.first + subset.second)
        texts.append({*zip(subset.first, subset.second, strict=True)})
    assert not texts[0] & texts[2]
    corpus = corpora.read_sentences(paths.corpus_file("cnsd", tmp_path, str(world)))
    assert len(corpus) == 600


def test_its_toy_backbone_reads_characters(world: Path, short_world: Path, tmp_path: Path) -> None:
    pretrain(short_world, "chinese", tmp_path / "toy", steps=2)
    encoder = load_encoder(str(tmp_path / "toy"), pooler="avg")
    known = backbone("toy-chinese")
    assert (known.shape.width, known.shape.depth) == (64, encoder.model.config.num_hidden_layers)  # type: ignore[attr-defined]
    tokenizer = encoder.tokenizer  # type: ignore[attr-defined]
    text = "".join(corpora.cnsd_sentences(world)[:200])
    pieces = tokenizer.tokenize(text)
    assert len(pieces) == len(text)  # a character a piece
    assert pieces.count("[UNK]") < 0.01 * len(pieces)
    (record,) = score_tasks(encoder, [sts.read("CNSD-STS-B", world, "dev")])
    assert np.isfinite(record["value"])
