"""Encoders: poolers against plain loops, saving and loading, identities, token ids on disk."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bench.models.encoder import (
    TOKEN_BUDGET,
    TransformerEncoder,
    innermost,
    tokenized,
    tokenizer_state,
)
from bench.models.load import load_encoder, save_encoder
from bench.models.pooling import BY_NAME
from bench.models.transformer import load_backbone, longest_input
from methods.base import POOLERS
from methods.whitening import Whitened
from tests.oracles.poolers import POOLED, pooled_alone
from tests.support.model_folders import change, change_weights
from tests.support.tiny_backbones import CLOSE

SENTENCES = ["a", "The old DOG sees two birds", "it is red and blue", "a man", ""]
SENTENCES += ["unknownword ☃ sleeps", "one small cat runs near the river", "two birds"]
LONG = " ".join(20 * ["the old dog sees two birds"])


def encoder(folder, pooler="avg"):
    return TransformerEncoder.load(folder, {"pooler": pooler})


@pytest.mark.parametrize("pooler", POOLED)
def test_poolers_equal_plain_loops(tiny_backbone, pooler, monkeypatch):
    """Encoded in several padded batches, each sentence has the vector that it has alone."""
    monkeypatch.setitem(TOKEN_BUDGET, "cpu", 32)
    own = encoder(tiny_backbone, pooler)
    vectors = own.encode(SENTENCES)
    assert (vectors.dtype, vectors.shape) == (np.float32, (len(SENTENCES), 32))
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        expected = pooled_alone(own.model, own.tokenizer, sentence, pooler, 4)
        np.testing.assert_allclose(vector, expected, **CLOSE)


def test_a_mean_over_fixed_positions_cuts_longer_sentences(tiny_bert, monkeypatch):
    short = replace(BY_NAME["avg_first_last_64"], positions=8)
    monkeypatch.setitem(BY_NAME, "avg_first_last_64", short)
    own, masked = (encoder(tiny_bert, f"avg_first_last{end}") for end in ("_64", ""))
    cut = masked.tokenizer([LONG], truncation=True, max_length=8)["input_ids"]
    np.testing.assert_allclose(own.encode([LONG]), masked.encode_tokens(cut), **CLOSE)


def test_encoding_with_dropout_draws_masks_from_a_seed_and_leaves_no_trace(tiny_bert):
    """At a rate of 0 the vectors are the plain ones."""
    encoder = load_encoder(tiny_bert, pooler="avg_first_last")
    texts = ["a man sleeps", "two dogs run in the park", "a man sleeps"]
    plain, state = encoder.encode(texts), torch.get_rng_state()
    first, again, second = (encoder.encode_with_dropout(texts, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.allclose(first, second)
    assert not np.array_equal(first[0], first[2])  # every row has masks of its own
    assert torch.equal(torch.get_rng_state(), state)
    still = TransformerEncoder(*load_backbone(tiny_bert, dropout=0.0), "avg_first_last")
    np.testing.assert_allclose(still.encode_with_dropout(texts, 1), plain, **CLOSE)
    encoder.model.train()  # as in a selection
    assert np.array_equal(encoder.encode(texts), plain)
    assert encoder.model.training


@pytest.mark.usefixtures("global_state")
def test_the_number_of_threads_changes_no_bit(tiny_bert, monkeypatch):
    """Batches, several at once, are computed by one thread each. More would sum in another order,
    as seen in the first tokens of the last layer, a product of few rows."""
    monkeypatch.setitem(TOKEN_BUDGET, "cpu", 32)
    own, texts, seen = encoder(tiny_bert, "cls_before_pooler"), 20 * SENTENCES, set()

    def pool(states, mask):
        seen.add(torch.get_num_threads())
        assert mask.numel() <= 32
        return states.first()

    result = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        result.append(own.encode(texts))
        pooled = own.encode_tokens(own.tokenize(texts), pool=pool)
        np.testing.assert_allclose(pooled, result[-1], **CLOSE)
    assert seen == {1}
    assert np.array_equal(*result)


def test_long_sentences_are_cut_at_the_maximum_of_the_backbone(tiny_backbone):
    """64 pieces on both: of RoBERTa's 66 positions, the padding index takes the first two."""
    own = encoder(tiny_backbone)
    assert longest_input(own.model, own.tokenizer) == 64
    (tokens,) = own.tokenize([LONG])
    assert (len(tokens), tokens[-1]) == (64, own.tokenizer.sep_token_id)
    assert np.isfinite(own.encode([LONG, "a man"])).all()


# Saving and loading


@pytest.mark.parametrize("pooler", POOLERS)
def test_saved_and_loaded_encoders_give_equal_bits(with_pooler, tmp_path, pooler):
    own = encoder(with_pooler, pooler)
    save_encoder(own, tmp_path / "saved")
    loaded = load_encoder(tmp_path / "saved")
    assert np.array_equal(loaded.encode(SENTENCES), own.encode(SENTENCES))
    assert loaded.identity == own.identity
    assert load_encoder(tmp_path / "saved", pooler=pooler).identity == own.identity
    assert not list((tmp_path / "saved").glob("*.bin"))


def one_bit(folder):
    def edit(weights):
        weight = weights["encoder.layer.3.output.dense.weight"]
        weight[3, 5] = torch.nextafter(weight[3, 5], torch.tensor(9.0))
        return weights

    change_weights(folder, edit)


def other_words(folder):
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    vocabulary = model["vocab"]
    vocabulary["dog"], vocabulary["cat"] = vocabulary["cat"], vocabulary["dog"]
    change(folder / "tokenizer.json", model=model)


def other_heads(folder):
    change(folder / "config.json", num_attention_heads=1)


@pytest.mark.parametrize("edit", [one_bit, other_words, other_heads])
def test_identity_follows_the_vectors(tiny_bert, copy, edit):
    own = encoder(tiny_bert)
    assert encoder(copy).identity == own.identity  # the folder does not matter
    edit(copy)
    assert encoder(copy).identity != own.identity


def test_each_pooler_has_an_oracle_and_an_identity(tiny_bert):
    assert {*POOLED, "cls"} == set(POOLERS)
    assert len({encoder(tiny_bert, pooler).identity for pooler in POOLED}) == len(POOLED)


# Token ids


def test_truncation_and_padding_of_a_tokenizer_file_do_not_leak(tiny_bert, copy):
    cut = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    pad = {"strategy": {"Fixed": 16}, "direction": "Left", "pad_to_multiple_of": None}
    pad |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    change(copy / "tokenizer.json", truncation=cut, padding=pad)
    plain, texts = encoder(tiny_bert), [*SENTENCES, LONG]
    assert encoder(copy).tokenize(texts) == plain.tokenize(texts)
    assert np.array_equal(encoder(copy).encode(texts), plain.encode(texts))
    assert tokenizer_state(encoder(copy).tokenizer) == tokenizer_state(plain.tokenizer)


def test_a_file_holds_the_tokens_of_sentences_by_a_tokenizer(tiny_bert, tiny_roberta, tmp_path):
    bert, roberta = (load_backbone(folder)[1] for folder in (tiny_bert, tiny_roberta))
    expected = bert(SENTENCES, truncation=True, max_length=4)["input_ids"]
    # The second time the tokenizer is asked for nothing but its description.
    silent = SimpleNamespace(backend_tokenizer=bert.backend_tokenizer)
    for tokenizer in (bert, silent):
        rows = tokenized(SENTENCES, tokenizer, 4, tmp_path)
        assert list(rows) == rows[:] == expected
    (file,) = tmp_path.iterdir()
    other = np.load(file)
    other[-1] += 1
    np.save(file, other)
    assert list(tokenized(SENTENCES, bert, 4, tmp_path)) == expected  # made again
    assert list(tmp_path.iterdir()) == [file]
    tokenized(SENTENCES[:3], bert, 4, tmp_path)
    tokenized(["".join(SENTENCES[:2]), *SENTENCES[2:]], bert, 4, tmp_path)
    tokenized(SENTENCES, bert, 5, tmp_path)
    tokenized(SENTENCES, roberta, 4, tmp_path)
    assert len(list(tmp_path.iterdir())) == 5


def test_an_encoder_takes_token_ids_from_the_shared_file(tiny_bert, tmp_path, monkeypatch):
    """An encoder that wraps another one too; sentences that are not in the file are tokenized."""
    plain, first, second = (load_encoder(tiny_bert, pooler="avg") for _ in range(3))
    first.read_tokens(SENTENCES, tmp_path)
    innermost(Whitened(second, {}, dimensions=None)).read_tokens(SENTENCES, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    texts = [*SENTENCES, "a bird"]
    assert np.array_equal(second.encode(texts), plain.encode(texts))
    expected = plain.encode(SENTENCES[::-1])
    monkeypatch.setattr(second, "tokenizer", SimpleNamespace(pad_token_id=0))  # cannot be called
    assert np.array_equal(second.encode(SENTENCES[::-1]), expected)
