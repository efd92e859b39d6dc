"""Encoders: poolers against plain loops, saving and loading, and error messages."""

from __future__ import annotations

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
from safetensors.torch import load_file, save_file

from bench.models.encoder import TransformerEncoder, length_batches
from bench.models.load import load_encoder, save_encoder
from bench.models.poolers import POOLER_NAMES
from bench.models.transformer import load_backbone, longest_input
from bench.utils.errors import UserError
from methods.word_overlap import BagOfWords
from tests.conftest import CLOSE

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
    """The tiny BERT with a stored pooler of its own."""
    folder = tmp_path_factory.mktemp("pooler") / "tiny-bert-pooler"
    shutil.copytree(tiny_bert, folder)
    weights = load_file(folder / "model.safetensors")
    draw = torch.Generator().manual_seed(5)
    weights["pooler.dense.weight"] = torch.randn(32, 32, generator=draw)
    weights["pooler.dense.bias"] = torch.randn(32, generator=draw)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture
def copy(tiny_bert: Path, tmp_path: Path) -> Path:
    """A copy of the tiny BERT to spoil."""
    return Path(shutil.copytree(tiny_bert, tmp_path / "model"))


def encoder(folder: Path, pooler: str = "avg") -> TransformerEncoder:
    return TransformerEncoder.load(folder, {"pooler": pooler})


def mean(rows: list[list[float]]) -> list[float]:
    return [sum(row[k] for row in rows) / len(rows) for k in range(len(rows[0]))]


def half(left: list[list[float]], right: list[list[float]]) -> list[list[float]]:
    return [
        [(a + b) / 2 for a, b in zip(u, v, strict=True)] for u, v in zip(left, right, strict=True)
    ]


# docs/methods.md#vectors: of the hidden states of one sentence alone, [layer][token][dimension],
# special tokens included.
ORACLES: dict[str, Callable[[list[list[list[float]]]], list[float]]] = {
    "cls_before_pooler": lambda layers: layers[-1][0],
    "avg": lambda layers: mean(layers[-1]),
    "avg_top2": lambda layers: mean(half(layers[-1], layers[-2])),
    "avg_first_last": lambda layers: mean(half(layers[1], layers[-1])),
    "avg_embedding_last": lambda layers: mean(half(layers[0], layers[-1])),
}


@pytest.mark.parametrize("pooler", ORACLES)
def test_poolers_equal_plain_loops(tiny_backbone: Path, pooler: str) -> None:
    """Encoded together with padding, each sentence has the vector that it has alone without."""
    own = encoder(tiny_backbone, pooler)
    vectors = own.encode(SENTENCES)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(SENTENCES), 32)
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        ids = own.tokenizer(sentence, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            states = own.model.eval()(input_ids=ids, output_hidden_states=True).hidden_states
        assert len(states) == 5
        expected = ORACLES[pooler]([state[0].tolist() for state in states])
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


def test_poolers_differ_and_each_has_an_oracle(tiny_bert: Path) -> None:
    assert set(ORACLES) | {"cls"} == set(POOLER_NAMES)
    vectors = [encoder(tiny_bert, pooler).encode(SENTENCES) for pooler in ORACLES]
    for i, one in enumerate(vectors):
        assert all(np.abs(one - other).max() > 0.01 for other in vectors[:i])


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
    np.testing.assert_allclose(
        shared.encode([SENTENCES[i] for i in chosen]), expected[chosen], **CLOSE
    )


def test_encoding_restores_the_mode_of_the_model(shared: TransformerEncoder) -> None:
    expected = shared.encode(SENTENCES)
    shared.model.train()
    try:
        assert np.array_equal(shared.encode(SENTENCES), expected)
        assert shared.model.training
    finally:
        shared.model.eval()


def test_encoding_no_sentences_gives_no_rows(shared: TransformerEncoder) -> None:
    assert shared.encode([]).shape == (0, 32)


def test_progress_counts_every_sentence(shared: TransformerEncoder) -> None:
    done: list[int] = []
    shared.encode_tokens(shared.tokenize(SENTENCES), progress=done.append)
    assert sum(done) == len(SENTENCES)


def test_long_sentences_are_cut_at_the_maximum_of_the_backbone(tiny_backbone: Path) -> None:
    """64 pieces on both: RoBERTa has 66 positions, but its first two are taken by the padding
    index."""
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


def test_roberta_is_saved_and_loaded(tiny_roberta: Path, tmp_path: Path) -> None:
    own = encoder(tiny_roberta, "avg")
    save_encoder(own, tmp_path / "saved")
    assert np.array_equal(load_encoder(tmp_path / "saved").encode(SENTENCES), own.encode(SENTENCES))


def test_saving_again_replaces_the_folder(tiny_bert: Path, tmp_path: Path) -> None:
    save_encoder(encoder(tiny_bert, "avg"), tmp_path / "saved")
    save_encoder(encoder(tiny_bert, "avg_top2"), tmp_path / "saved")
    assert load_encoder(tmp_path / "saved").identity == encoder(tiny_bert, "avg_top2").identity
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_word_overlap_is_saved_and_loaded(tmp_path: Path) -> None:
    """Its cosines are those of the word counts, within a few times 1 / sqrt(width); a word alone
    has length 1."""
    own = BagOfWords(2048)
    save_encoder(own, tmp_path / "saved")
    loaded = load_encoder(tmp_path / "saved")
    texts = ["a red dog", "A red cat", "two birds", "dog dog a"]
    vectors = loaded.encode(texts).astype(float)
    assert np.array_equal(vectors, own.encode(texts))
    cosines = vectors @ vectors.T / np.outer(*[np.linalg.norm(vectors, axis=1)] * 2)
    expected = np.array(
        [
            [1, 2 / 3, 0, 3 / 15**0.5],
            [2 / 3, 1, 0, 1 / 15**0.5],
            [0, 0, 1, 0],
            [3 / 15**0.5, 1 / 15**0.5, 0, 1],
        ]
    )
    np.testing.assert_allclose(cosines, expected, atol=0.1)
    np.testing.assert_allclose(
        np.linalg.norm(own.encode(["red", "dog dog dog"]).astype(float), axis=1), 1, rtol=1e-6
    )


def test_identity_follows_the_vectors(tiny_bert: Path, copy: Path) -> None:
    own = encoder(tiny_bert)
    assert encoder(copy).identity == own.identity  # the folder does not matter
    assert len({encoder(tiny_bert, pooler).identity for pooler in ORACLES}) == len(ORACLES)
    weights = load_file(copy / "model.safetensors")
    name = "encoder.layer.3.output.dense.weight"
    weights[name][3, 5] = torch.nextafter(weights[name][3, 5], torch.tensor(9.0))
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    assert encoder(copy).identity != own.identity


def test_identity_depends_on_the_tokenizer(tiny_bert: Path, copy: Path) -> None:
    content = json.loads((copy / "tokenizer.json").read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary["dog"], vocabulary["cat"] = vocabulary["cat"], vocabulary["dog"]
    (copy / "tokenizer.json").write_text(json.dumps(content))
    own, other = encoder(tiny_bert), encoder(copy)
    assert not np.array_equal(own.encode(["a dog"]), other.encode(["a dog"]))
    assert own.identity != other.identity


def test_truncation_and_padding_of_a_tokenizer_file_do_not_leak(
    tiny_bert: Path, copy: Path
) -> None:
    content = json.loads((copy / "tokenizer.json").read_text())
    content["truncation"] = {
        "direction": "Right",
        "max_length": 4,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    content["padding"] = {
        "strategy": {"Fixed": 16},
        "direction": "Left",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    (copy / "tokenizer.json").write_text(json.dumps(content))
    texts = [*SENTENCES, LONG]
    assert encoder(copy).tokenize(texts) == encoder(tiny_bert).tokenize(texts)
    assert np.array_equal(encoder(copy).encode(texts), encoder(tiny_bert).encode(texts))


def test_dropout_is_set_on_hidden_states_and_attention(tiny_bert: Path) -> None:
    own, _ = load_backbone(tiny_bert)
    other, _ = load_backbone(tiny_bert, dropout=0.25)
    rates = [
        {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)}
        for model in (own, other)
    ]
    assert rates == [{0.1}, {0.25}]
    assert other.config.attention_probs_dropout_prob == 0.25


# Refusals


def refused(action: Callable[[], Any], *words: str) -> None:
    """Check that the action fails with a one-line error that contains these words."""
    with pytest.raises(UserError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600
    for word in words:
        assert word in message


def test_pickled_weights_are_refused(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    (copy / "pytorch_model.bin").write_bytes(b"\x80\x04never read")
    refused(
        lambda: encoder(copy), str(copy), "pytorch_model.bin", "which can run code", "safetensors"
    )


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (["model.safetensors"], ("holds no model.safetensors",)),
        (["config.json"], ("holds no config.json",)),
        (["tokenizer.json", "tokenizer_config.json"], ("holds no tokenizer",)),
    ],
)
def test_missing_files_are_reported(copy: Path, missing: list[str], words: tuple[str, ...]) -> None:
    for name in missing:
        (copy / name).unlink()
    refused(lambda: encoder(copy), str(copy), *words)


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    refused(lambda: load_encoder(tmp_path / "nowhere", pooler="avg"), "nowhere", "does not exist")


@pytest.mark.parametrize("keep", [0, 4, 100, 0.5, 0.999])
def test_truncated_weights_are_one_sentence(copy: Path, keep: float) -> None:
    path = copy / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if keep < 1 else int(keep)])
    refused(lambda: encoder(copy), str(copy))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "{"),
        ("config.json", "[]"),
        ("config.json", '{"model_type": "no-such-model"}'),
        ("config.json", '{"hidden_size": 32}'),
        ("tokenizer.json", "{"),
        ("tokenizer.json", "{}"),
    ],
)
def test_broken_configs_are_one_sentence(copy: Path, name: str, content: str) -> None:
    (copy / name).write_text(content)
    refused(lambda: encoder(copy), str(copy))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"intermediate_size": 64},
            ("intermediate.dense.bias has shape [48] in the weights and [64] by config",),
        ),
        (
            {"vocab_size": 99},
            ("word_embeddings.weight has shape [103, 32] in the weights and [99, 32]",),
        ),
        (
            {"max_position_embeddings": 65},
            ("position_embeddings.weight has shape [64, 32] in the weights and [65",),
        ),
        ({"hidden_size": "x"}, ("'hidden_size' expected int",)),
        ({"model_type": "t5"}, ("'classifier_dropout' with value None",)),
        ({"pad_token_id": 10**6}, ("pad_token_id must be within",)),
        (
            {"num_attention_heads": 5},
            ("hidden size (32) is not a multiple of the number of attention heads (5);",),
        ),
        ({"hidden_act": "no-such"}, ("KeyError 'no-such'",)),
        (
            {"model_type": "gpt2"},
            ("no place for the weights encoder.layer.0.", "they are of different models"),
        ),
    ],
)
def test_a_config_of_another_model_is_one_sentence(
    change: dict[str, Any], words: tuple[str, ...], copy: Path
) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | change))
    refused(lambda: encoder(copy), str(copy), *words)


def test_weights_of_another_prefix_are_refused(copy: Path) -> None:
    weights = {
        f"roberta.{name}": tensor for name, tensor in load_file(copy / "model.safetensors").items()
    }
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    refused(
        lambda: encoder(copy),
        "no place for the weights roberta.encoder.layer.0.",
        "they are of different models",
    )


def test_weights_that_lack_a_layer_are_refused(copy: Path) -> None:
    """transformers would initialise the missing weights randomly and only warn."""
    weights = {
        name: tensor
        for name, tensor in load_file(copy / "model.safetensors").items()
        if ".layer.2." not in name
    }
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    refused(lambda: encoder(copy), str(copy))


def test_weights_of_more_layers_than_configured_are_refused(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2}))
    refused(lambda: encoder(copy), str(copy), "no place for the weights", "number of layers")


def test_a_truncated_file_is_one_sentence_whatever_the_pooler(copy: Path) -> None:
    content = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(content[: len(content) // 2])
    for pooler in ("avg", "cls"):
        refused(
            lambda pooler=pooler: load_encoder(copy, pooler=pooler),
            str(copy),
            "truncated or broken",
        )  # type: ignore[misc]


@pytest.mark.parametrize("longest", ["64", 2, -3])
def test_an_invalid_maximum_length_is_one_sentence(copy: Path, longest: object) -> None:
    config = json.loads((copy / "tokenizer_config.json").read_text())
    (copy / "tokenizer_config.json").write_text(json.dumps(config | {"model_max_length": longest}))
    refused(lambda: encoder(copy), str(copy), "model_max_length")


def test_code_of_a_model_folder_never_runs(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    config |= {
        "model_type": "mine",
        "auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"},
    }
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "evil.py").write_text(f"open({str(copy / 'ran')!r}, 'w')\n")
    refused(lambda: encoder(copy), str(copy))
    assert not (copy / "ran").exists()


def test_a_tokenizer_that_cannot_pad_is_refused(copy: Path) -> None:
    config = json.loads((copy / "tokenizer_config.json").read_text())
    config.pop("pad_token")
    (copy / "tokenizer_config.json").write_text(json.dumps(config))
    special = copy / "special_tokens_map.json"
    if special.is_file():
        special.write_text(
            json.dumps(
                {k: v for k, v in json.loads(special.read_text()).items() if k != "pad_token"}
            )
        )
    refused(lambda: encoder(copy), "no padding token")


def test_a_random_pooler_is_refused(tiny_bert: Path, with_pooler: Path) -> None:
    refused(lambda: encoder(tiny_bert, "cls"), "stores no pooler weights", "random")
    assert encoder(with_pooler, "cls").encode(["a"]).shape == (1, 32)


def test_unknown_poolers_are_reported(tiny_bert: Path) -> None:
    refused(
        lambda: load_encoder(tiny_bert, pooler="avg_frist_last"), "did you mean 'avg_first_last'?"
    )
    refused(lambda: load_encoder(tiny_bert, pooler="cls_mlp"), "training head", "cls_before_pooler")
    refused(lambda: load_encoder(tiny_bert), "stores no pooler", "--pooler", "avg_top2")


def test_another_pooler_than_stored_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    save_encoder(encoder(tiny_bert, "avg"), tmp_path / "saved")
    refused(
        lambda: load_encoder(tmp_path / "saved", pooler="avg_top2"),
        "was saved with pooler 'avg', not with pooler 'avg_top2'",
    )


def test_an_unknown_kind_of_encoder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "encoder.json").write_text('{"kind": "glove"}')
    refused(lambda: load_encoder(tmp_path), "kind 'glove'")


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"kind": "transformer"}', '{"kind": "transformer", "pooler": "avgg"}']
)
def test_a_broken_encoder_file_is_one_sentence(
    tiny_bert: Path, tmp_path: Path, content: str
) -> None:
    save_encoder(encoder(tiny_bert, "avg"), tmp_path / "saved")
    (tmp_path / "saved" / "encoder.json").write_text(content)
    refused(lambda: load_encoder(tmp_path / "saved"))


@pytest.mark.parametrize(
    "content",
    [
        '{"kind": ["transformer"]}',
        '{"kind": "word-overlap"}',
        '{"kind": "transformer", "pooler": ["avg"]}',
    ],
)
def test_invalid_values_in_an_encoder_file_are_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "encoder.json").write_text(content)
    refused(lambda: load_encoder(tmp_path), str(tmp_path / "encoder.json"))


@pytest.mark.parametrize("content", ["[]", '{"weight_map": ["a"]}', '{"weight_map": {"a": 3}}'])
def test_invalid_weight_lists_are_one_sentence(copy: Path, content: str) -> None:
    (copy / "model.safetensors.index.json").write_text(content)
    refused(lambda: encoder(copy), "model.safetensors.index.json lists no weight files")


def test_a_vocabulary_beyond_the_embeddings_is_refused(copy: Path) -> None:
    """One row fewer than the tokenizer has tokens: only a sentence with the last one would fail,
    while encoding."""
    largest = max(encoder(copy).tokenizer.get_vocab().values())
    weights = load_file(copy / "model.safetensors")
    weights["embeddings.word_embeddings.weight"] = weights["embeddings.word_embeddings.weight"][
        :largest
    ].clone()
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"vocab_size": largest}))
    refused(
        lambda: encoder(copy),
        f"token ids up to {largest}, but the weights embed only {largest} tokens",
    )


def as_sentence_transformers(
    folder: Path, pooling: dict[str, bool], kinds: tuple[str, ...] = ("Transformer", "Pooling")
) -> None:
    modules = [
        {
            "idx": i,
            "name": str(i),
            "path": "1_Pooling" * (kind == "Pooling"),
            "type": f"sentence_transformers.models.{kind}",
        }
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 16} | pooling)
    )


@pytest.mark.parametrize(
    ("mode", "pooler"),
    [("pooling_mode_mean_tokens", "avg"), ("pooling_mode_cls_token", "cls_before_pooler")],
)
def test_the_pooler_of_a_sentence_transformers_folder_is_used(
    copy: Path, mode: str, pooler: str
) -> None:
    """A last normalisation is not applied, so vectors are those of the plain pooler."""
    wanted = load_encoder(copy, pooler=pooler).encode(["the sea is blue", "a"])
    as_sentence_transformers(
        copy,
        {mode: True, "pooling_mode_max_tokens": False},
        ("Transformer", "Pooling", "Normalize"),
    )
    np.testing.assert_array_equal(load_encoder(copy).encode(["the sea is blue", "a"]), wanted)
    other = load_encoder(copy, pooler="avg_top2")
    assert isinstance(other, TransformerEncoder)
    assert other.pooler == "avg_top2"


def test_the_pooling_is_read_from_the_modules(copy: Path) -> None:
    as_sentence_transformers(copy, {"pooling_mode_cls_token": True})
    modules = json.loads((copy / "modules.json").read_text())
    modules[1]["path"] = "2_Pooling"
    (copy / "modules.json").write_text(json.dumps(modules))
    (copy / "2_Pooling").mkdir()
    (copy / "2_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    assert load_encoder(copy).pooler == "avg"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("pooling", "kinds", "message"),
    [
        (
            {"pooling_mode_max_tokens": True},
            ("Transformer", "Pooling"),
            "has the pooling pooling_mode_max_tokens",
        ),
        (
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
            ("Transformer", "Pooling"),
            "has the pooling",
        ),
        ({}, ("Transformer", "Pooling"), "has the pooling none, which is not supported"),
        (
            {"pooling_mode_mean_tokens": True},
            ("Transformer", "Pooling", "Dense"),
            "has a module 'Dense'",
        ),
    ],
)
def test_unsupported_sentence_transformers_folders_need_a_pooler(
    copy: Path, pooling: dict[str, bool], kinds: tuple[str, ...], message: str
) -> None:
    as_sentence_transformers(copy, pooling, kinds)
    with pytest.raises(UserError, match=message):
        load_encoder(copy)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("modules.json", '{"0": {"type": "Transformer"}}'),
        ("modules.json", '["Transformer"]'),
        ("modules.json", "3"),
        ("1_Pooling/config.json", '["pooling_mode_mean_tokens"]'),
        ("1_Pooling/config.json", "null"),
        ("1_Pooling/config.json", '{"pooling_mode_mean_tokens": "yes"}'),
    ],
)
def test_invalid_sentence_transformers_files_are_one_sentence(
    copy: Path, name: str, content: str
) -> None:
    as_sentence_transformers(copy, {"pooling_mode_mean_tokens": True})
    (copy / name).write_text(content)
    refused(lambda: load_encoder(copy), str(copy), "choose a pooler with --pooler")
    assert load_encoder(copy, pooler="avg").encode(["a"]).shape == (1, 32)


def test_the_identity_depends_on_the_config(copy: Path, tiny_bert: Path) -> None:
    """Another number of heads gives other vectors from the same weights."""
    content = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(content | {"num_attention_heads": 1}))
    one, other = encoder(tiny_bert), encoder(copy)
    assert not np.array_equal(one.encode(SENTENCES), other.encode(SENTENCES))
    assert one.identity != other.identity
    assert encoder(tiny_bert).identity == one.identity


def test_the_folder_of_a_run_can_be_loaded(tiny_bert: Path, tmp_path: Path) -> None:
    save_encoder(encoder(tiny_bert), tmp_path / "run" / "encoder")
    np.testing.assert_array_equal(
        load_encoder(tmp_path / "run").encode(SENTENCES), encoder(tiny_bert).encode(SENTENCES)
    )
