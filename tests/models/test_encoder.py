"""Encoders: poolers against plain loops, saving and loading, and error messages."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from bench.models.encoder import TOKEN_BUDGET, TransformerEncoder, length_batches
from bench.models.load import load_encoder, save_encoder
from bench.models.packed_forward import POOLER_NAMES, POSITIONS
from bench.models.transformer import load_backbone, longest_input
from methods.word_overlap import BagOfWords
from tests.conftest import CLOSE
from tests.models.folders import change, change_weights, copy_with_pooler
from tests.oracles.poolers import FIXED, POOLED

SENTENCES = [
    "a",
    "The old DOG sees two birds",
    "it is red and blue",
    "a man",
    "",
    "unknownword ☃ sleeps",
    "one small cat runs near the river",
    "two birds",
    "the child takes a boat on the river today",
]
LONG = " ".join(20 * ["the old dog sees two birds"])


@pytest.fixture(scope="module")
def with_pooler(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_with_pooler(tiny_bert, tmp_path_factory.mktemp("pooler") / "model")


@pytest.fixture
def copy(tiny_bert: Path, tmp_path: Path) -> Path:
    """A copy of the tiny BERT to spoil."""
    return Path(shutil.copytree(tiny_bert, tmp_path / "model"))


def encoder(folder: Path, pooler: str = "avg") -> TransformerEncoder:
    return TransformerEncoder.load(folder, {"pooler": pooler})


@pytest.mark.parametrize("pooler", POOLED)
def test_poolers_equal_plain_loops(tiny_backbone: Path, pooler: str) -> None:
    """Encoded together with padding, each sentence has the vector that it has alone without."""
    own = encoder(tiny_backbone, pooler)
    vectors = own.encode(SENTENCES)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(SENTENCES), 32)
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        fixed = {"padding": "max_length", "max_length": FIXED.get(pooler), "truncation": True}
        inputs = own.tokenizer(sentence, return_tensors="pt", **(fixed if pooler in FIXED else {}))
        with torch.no_grad():
            states = own.model.eval()(**inputs, output_hidden_states=True).hidden_states
        expected = POOLED[pooler]([state[0].tolist() for state in states])
        np.testing.assert_allclose(vector, expected, **CLOSE)


def test_the_stored_pooler_is_a_dense_layer_with_tanh(with_pooler: Path) -> None:
    vectors = encoder(with_pooler, "cls").encode(SENTENCES)
    first = encoder(with_pooler, "cls_before_pooler").encode(SENTENCES)
    weights = load_file(with_pooler / "model.safetensors")
    dense, bias = weights["pooler.dense.weight"].tolist(), weights["pooler.dense.bias"].tolist()
    for vector, token in zip(vectors, first.tolist(), strict=True):
        expected = [
            math.tanh(sum(w * x for w, x in zip(row, token, strict=True)) + b)
            for row, b in zip(dense, bias, strict=True)
        ]
        np.testing.assert_allclose(vector, expected, **CLOSE)


def test_padding_weighs_in_a_mean_over_fixed_positions(
    tiny_backbone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 8 positions: a longer sentence is cut and has no padding, of a shorter one the mean over
    all positions is that over tokens only where padding is left out."""
    monkeypatch.setitem(POSITIONS, "avg_first_last_64", 8)
    own, masked = (encoder(tiny_backbone, f"avg_first_last{end}") for end in ("_64", ""))
    cut = masked.tokenizer([LONG], truncation=True, max_length=8)["input_ids"]
    assert own.tokenize([LONG]) == cut
    np.testing.assert_allclose(own.encode([LONG]), masked.encode_tokens(cut), **CLOSE)
    assert np.abs(own.encode(["a man"]) - masked.encode(["a man"])).max() > 0.01
    with pytest.raises(ValueError, match="cannot assign 9 input values to the 8"):
        own.encode_tokens([list(range(5, 14))])


@pytest.fixture(scope="module")
def shared(tiny_bert: Path) -> TransformerEncoder:
    return encoder(tiny_bert)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(range(len(SENTENCES))), st.integers(1, len(SENTENCES)))
def test_vectors_do_not_depend_on_order_or_batch(
    shared: TransformerEncoder, order: list[int], count: int
) -> None:
    expected = shared.encode(SENTENCES)
    chosen = order[:count]
    found = shared.encode([SENTENCES[i] for i in chosen])
    np.testing.assert_allclose(found, expected[chosen], **CLOSE)


def test_encoding_restores_the_mode_of_the_model(shared: TransformerEncoder) -> None:
    expected = shared.encode(SENTENCES)
    shared.model.train()
    try:
        assert np.array_equal(shared.encode(SENTENCES), expected)
        assert shared.model.training
    finally:
        shared.model.eval()


def test_encoding_with_dropout_draws_masks_from_a_seed_and_leaves_no_trace(
    tiny_bert: Path,
) -> None:
    """The vectors have the plain ones as their mean, nearly; at a rate of 0 they are equal."""
    encoder = load_encoder(tiny_bert, pooler="avg_first_last")
    texts = ["a man sleeps", "two dogs run in the park", "a man sleeps"]
    state = torch.get_rng_state()
    one, again, other = (encoder.encode_with_dropout(texts, seed) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.allclose(one, other)
    assert not np.array_equal(one[0], one[2])  # every row has masks of its own
    assert torch.equal(torch.get_rng_state(), state)
    assert not encoder.model.training
    many = np.mean([encoder.encode_with_dropout(texts, seed) for seed in range(200)], axis=0)
    assert np.corrcoef(many.ravel(), encoder.encode(texts).ravel())[0, 1] > 0.9
    still = TransformerEncoder(*load_backbone(tiny_bert, dropout=0.0), "avg_first_last")
    np.testing.assert_allclose(still.encode_with_dropout(texts, 1), encoder.encode(texts), **CLOSE)


@pytest.mark.usefixtures("global_state")
def test_the_number_of_threads_changes_no_bit(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches, several at once, are computed by one thread each. More would sum in another order,
    as seen in the first tokens of the last layer, a product of few rows."""
    monkeypatch.setitem(TOKEN_BUDGET, "cpu", 32)
    own, texts, seen = encoder(tiny_bert, "cls_before_pooler"), 20 * SENTENCES, set()

    def pool(states: Any, mask: torch.Tensor) -> torch.Tensor:
        seen.add(torch.get_num_threads())
        return states.first(-1)

    found = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        found.append(own.encode(texts))
        pooled = own.encode_tokens(own.tokenize(texts), pool=pool)
        np.testing.assert_allclose(pooled, found[-1], **CLOSE)
    assert seen == {1}
    assert np.array_equal(*found)


def test_long_sentences_are_cut_at_the_maximum_of_the_backbone(tiny_backbone: Path) -> None:
    """64 pieces on both: of RoBERTa's 66 positions, the padding index takes the first two."""
    own = encoder(tiny_backbone)
    assert longest_input(own.model, own.tokenizer) == 64
    (tokens,) = own.tokenize([LONG])
    assert len(tokens) == 64
    assert tokens[-1] == own.tokenizer.sep_token_id
    assert np.isfinite(own.encode([LONG, "a man"])).all()


@given(st.lists(st.integers(1, 40), max_size=40), st.integers(1, 100))
def test_length_batches_cover_every_sentence_once_within_the_budget(
    lengths: list[int], budget: int
) -> None:
    found = list(length_batches(lengths, budget))
    assert sorted(index for batch in found for index in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= budget
    flat = [lengths[index] for batch in found for index in batch]
    assert flat == sorted(flat)


# Saving and loading


@pytest.mark.parametrize("pooler", POOLER_NAMES)
def test_saved_and_loaded_encoders_give_equal_bits(
    with_pooler: Path, tmp_path: Path, pooler: str
) -> None:
    own = encoder(with_pooler, pooler)
    save_encoder(own, tmp_path / "saved")
    loaded = load_encoder(tmp_path / "saved")
    assert np.array_equal(loaded.encode(SENTENCES), own.encode(SENTENCES))
    assert loaded.identity == own.identity
    assert load_encoder(tmp_path / "saved", pooler=pooler).identity == own.identity
    assert not list((tmp_path / "saved").glob("*.bin"))


def test_word_overlap_is_saved_and_loaded(tmp_path: Path) -> None:
    """Cosines are those of word counts within a few 1 / sqrt(width); a word alone has length 1."""
    own = BagOfWords(2048)
    save_encoder(own, tmp_path / "saved")
    loaded = load_encoder(tmp_path / "saved")
    texts = ["a red dog", "A red cat", "two birds", "dog dog a"]
    vectors = loaded.encode(texts).astype(float)
    assert np.array_equal(vectors, own.encode(texts))
    cosines = vectors @ vectors.T / np.outer(*[np.linalg.norm(vectors, axis=1)] * 2)
    near, far = 3 / 15**0.5, 1 / 15**0.5
    expected = [[1, 2 / 3, 0, near], [2 / 3, 1, 0, far], [0, 0, 1, 0], [near, far, 0, 1]]
    np.testing.assert_allclose(cosines, expected, atol=0.1)
    lengths = np.linalg.norm(own.encode(["red", "dog dog dog"]).astype(float), axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-6)


def one_bit(folder: Path) -> None:
    name = "encoder.layer.3.output.dense.weight"

    def edit(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        weights[name][3, 5] = torch.nextafter(weights[name][3, 5], torch.tensor(9.0))
        return weights

    change_weights(folder, edit)


def other_words(folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary["dog"], vocabulary["cat"] = vocabulary["cat"], vocabulary["dog"]
    (folder / "tokenizer.json").write_text(json.dumps(content))


def other_heads(folder: Path) -> None:
    change(folder / "config.json", num_attention_heads=1)


@pytest.mark.parametrize("edit", [one_bit, other_words, other_heads])
def test_identity_follows_the_vectors(
    tiny_bert: Path, copy: Path, edit: Callable[[Path], None]
) -> None:
    own = encoder(tiny_bert)
    assert encoder(copy).identity == own.identity  # the folder does not matter
    edit(copy)
    assert encoder(copy).identity != own.identity


def test_each_pooler_has_an_oracle_and_an_identity(tiny_bert: Path) -> None:
    assert {*POOLED, "cls"} == set(POOLER_NAMES)
    assert len({encoder(tiny_bert, pooler).identity for pooler in POOLED}) == len(POOLED)


def test_truncation_and_padding_of_a_tokenizer_file_do_not_leak(
    tiny_bert: Path, copy: Path
) -> None:
    cut = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    pad = {"strategy": {"Fixed": 16}, "direction": "Left", "pad_to_multiple_of": None}
    pad |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    change(copy / "tokenizer.json", truncation=cut, padding=pad)
    texts = [*SENTENCES, LONG]
    assert encoder(copy).tokenize(texts) == encoder(tiny_bert).tokenize(texts)
    assert np.array_equal(encoder(copy).encode(texts), encoder(tiny_bert).encode(texts))
