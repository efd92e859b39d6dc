"""A corpus as token ids on disk."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.models.encoder import (
    TokenFile,
    read_tokens,
    tokenized,
    tokenizer_identity,
)
from bench.models.load import load_encoder
from bench.models.transformer import load_backbone
from methods.whitening import Whitened

SENTENCES = ["a man sleeps", "the old dog sees two birds", "", "a cat"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=6), max_size=6))
def test_token_files_round_trip(tmp_path: Path, rows: list[list[int]]) -> None:
    TokenFile.write(tmp_path / "rows.npy", rows)
    found = TokenFile(tmp_path / "rows.npy")
    assert list(found) == rows
    assert found[1:] == rows[1:]
    if rows:
        assert found[-1] == rows[-1]
        assert all(type(token) is int for token in found[0])
    with pytest.raises(IndexError):
        found[len(rows)]


@pytest.mark.parametrize("longest", [4, 32])
def test_tokens_equal_the_tokenizer_and_are_cached(
    tiny_bert: Path, tmp_path: Path, longest: int
) -> None:
    _, tokenizer = load_backbone(tiny_bert)
    expected = tokenizer(SENTENCES, truncation=True, max_length=longest)["input_ids"]
    assert list(tokenized(SENTENCES, tokenizer, longest, tmp_path)) == expected

    class Silent:
        backend_tokenizer = tokenizer.backend_tokenizer

    # The second time the tokenizer is asked for nothing but its description.
    assert list(tokenized(SENTENCES, Silent(), longest, tmp_path)) == expected
    assert len(list(tmp_path.iterdir())) == 1


def test_sentences_length_and_tokenizer_determine_the_file(
    tiny_bert: Path, tiny_roberta: Path, tmp_path: Path
) -> None:
    _, bert = load_backbone(tiny_bert)
    _, roberta = load_backbone(tiny_roberta)
    for sentences, tokenizer, longest in (
        (SENTENCES, bert, 32),
        (SENTENCES[:3], bert, 32),
        (["a man", "sleeps", *SENTENCES[1:]], bert, 32),
        (SENTENCES, bert, 31),
        (SENTENCES, roberta, 32),
    ):
        tokenized(sentences, tokenizer, longest, tmp_path)
    assert len(list(tmp_path.iterdir())) == 5


def test_truncation_and_padding_are_not_part_of_the_identity(tiny_bert: Path) -> None:
    _, tokenizer = load_backbone(tiny_bert)
    before = tokenizer_identity(tokenizer)
    tokenizer(SENTENCES, truncation=True, max_length=5, padding=True)
    assert tokenizer_identity(tokenizer) == before


def test_an_encoder_takes_token_ids_from_the_shared_file(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encoder that wraps another one too; sentences that are not in the file are tokenized."""
    distinct = list(dict.fromkeys(SENTENCES))
    plain, first, second = (load_encoder(tiny_bert, pooler="avg") for _ in range(3))
    other = load_encoder(tiny_bert, pooler="avg_first_last_64")
    read_tokens(first, distinct, tmp_path)
    read_tokens(Whitened(second, {}, dimensions=None), distinct, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    assert np.array_equal(second.encode([*distinct, "a bird"]), plain.encode([*distinct, "a bird"]))
    read_tokens(other, distinct, tmp_path / "cut elsewhere")
    expected = plain.encode(distinct[::-1])
    monkeypatch.setattr(second, "tokenizer", SimpleNamespace(pad_token_id=0))  # cannot be called
    assert np.array_equal(second.encode(distinct[::-1]), expected)
    with pytest.raises(TypeError):
        second.encode(["a bird"])
