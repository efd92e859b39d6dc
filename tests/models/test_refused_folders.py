"""Folders of transformers and of encoders that cannot be loaded: one sentence says why."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.models.encoder import TransformerEncoder
from bench.models.load import load_encoder, save_encoder
from methods.projection import Affine
from tests.models.folders import change, change_weights, copy_with_pooler, refused


@pytest.fixture
def copy(tiny_bert: Path, tmp_path: Path) -> Path:
    """A copy of the tiny BERT to spoil."""
    return Path(shutil.copytree(tiny_bert, tmp_path / "model"))


def encoder(folder: Path, pooler: str = "avg") -> TransformerEncoder:
    return TransformerEncoder.load(folder, {"pooler": pooler})


def test_pickled_weights_are_refused(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    (copy / "pytorch_model.bin").write_bytes(b"\x80\x04never read")
    words = ("pytorch_model.bin", "which can run code", "safetensors")
    refused(lambda: encoder(copy), str(copy), *words)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (["model.safetensors"], "holds no model.safetensors"),
        (["config.json"], "holds no config.json"),
        (["tokenizer.json", "tokenizer_config.json"], "holds no tokenizer"),
    ],
)
def test_missing_files_are_reported(copy: Path, missing: list[str], words: str) -> None:
    for name in missing:
        (copy / name).unlink()
    refused(lambda: encoder(copy), str(copy), words)


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
        ("tokenizer.json", "null"),
        ("tokenizer_config.json", "[]"),
    ],
)
def test_broken_configs_are_one_sentence(copy: Path, name: str, content: str) -> None:
    (copy / name).write_text(content)
    in_full = content in ("{", "[]", "null")  # of other content, a library says what is wrong
    refused(lambda: encoder(copy), str(copy / name if in_full else copy))


def test_a_tokenizer_without_a_vocabulary_is_refused(copy: Path) -> None:
    content = json.loads((copy / "tokenizer.json").read_text())
    content["model"]["vocab"] = {}
    (copy / "tokenizer.json").write_text(json.dumps(content))
    refused(lambda: encoder(copy), str(copy), "cannot be run", "[UNK]")


@pytest.mark.parametrize(
    ("change_to", "words"),
    [
        ({"intermediate_size": 64}, "dense.bias has shape [48] in the weights and [64] by config"),
        ({"vocab_size": 99}, "weight has shape [103, 32] in the weights and [99, 32]"),
        ({"max_position_embeddings": 65}, "weight has shape [64, 32] in the weights and [65"),
        ({"hidden_size": 10**7}, "config.json describes a model of 1600005"),
        ({"vocab_size": 10**10}, "correct its sizes"),
        ({"num_hidden_layers": 10**7}, "10000000 layers, but 69 tensors are stored"),
        ({"num_attention_heads": -4}, "cannot be run (invalid shape dimension -4"),
        ({"hidden_size": "x"}, "'hidden_size' expected int"),
        ({"model_type": "t5"}, "'classifier_dropout' with value None"),
        ({"pad_token_id": 10**6}, "pad_token_id must be within"),
        (
            {"num_attention_heads": 5},
            "(32) is not a multiple of the number of attention heads (5);",
        ),
        ({"hidden_act": "no-such"}, "KeyError 'no-such'"),
        ({"model_type": "gpt2"}, "no place for the weights encoder.layer.0."),
        ({"model_type": "gpt2"}, "they are of different models"),
        ({"num_hidden_layers": 2}, "no place for the weights encoder.layer.2"),
        ({"num_hidden_layers": 2}, "correct its number of layers"),
    ],
)
def test_a_config_of_another_model_is_one_sentence(
    change_to: dict[str, Any], words: str, copy: Path
) -> None:
    change(copy / "config.json", **change_to)
    refused(lambda: encoder(copy), str(copy), words)


def test_weights_of_another_prefix_are_refused(copy: Path) -> None:
    change_weights(copy, lambda all: {f"roberta.{name}": weight for name, weight in all.items()})
    words = ("no place for the weights roberta.encoder.layer.0.", "they are of different models")
    refused(lambda: encoder(copy), *words)


def test_weights_that_lack_a_layer_are_refused(copy: Path) -> None:
    """transformers would initialise the missing weights randomly and only warn."""
    change_weights(copy, lambda all: {name: all[name] for name in all if ".layer.2." not in name})
    refused(lambda: encoder(copy), str(copy))


def test_a_truncated_file_is_one_sentence_whatever_the_pooler(copy: Path) -> None:
    content = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(content[: len(content) // 2])
    for pooler in ("avg", "cls"):
        action = partial(load_encoder, copy, pooler=pooler)
        refused(action, str(copy), "truncated or broken")


@pytest.mark.parametrize("longest", ["64", 2, -3])
def test_an_invalid_maximum_length_is_one_sentence(copy: Path, longest: object) -> None:
    change(copy / "tokenizer_config.json", model_max_length=longest)
    refused(lambda: encoder(copy), str(copy), "model_max_length")


def test_too_few_positions_are_one_sentence(copy: Path) -> None:
    name = "embeddings.position_embeddings.weight"
    change_weights(copy, lambda weights: weights | {name: weights[name][:2].clone()})
    change(copy / "config.json", max_position_embeddings=2)
    refused(lambda: encoder(copy), str(copy), "has 2 positions")


def test_full_memory_while_loading_is_no_fault_of_the_folder(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9")

    monkeypatch.setattr("bench.models.transformer.load_tokenizer", full)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        encoder(copy)


def test_code_of_a_model_folder_never_runs(copy: Path) -> None:
    (copy / "evil.py").write_text(f"open({str(copy / 'ran')!r}, 'w')\n")
    own = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}
    change(copy / "config.json", auto_map=own)
    refused(lambda: encoder(copy), str(copy), "names code of the model's own (auto_map)")
    change(copy / "config.json", model_type="mine", auto_map=None)
    refused(lambda: encoder(copy), str(copy))
    assert not (copy / "ran").exists()


def test_a_tokenizer_that_cannot_pad_is_refused(copy: Path) -> None:
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (copy / name).is_file():
            change(copy / name, pad_token=None)
    refused(lambda: encoder(copy), "no padding token")


def test_a_random_pooler_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    refused(lambda: encoder(tiny_bert, "cls"), "stores no pooler weights", "random")
    stored = copy_with_pooler(tiny_bert, tmp_path / "model")
    assert encoder(stored, "cls").encode(["a"]).shape == (1, 32)


def test_unknown_poolers_are_reported(tiny_bert: Path) -> None:
    load = partial(load_encoder, tiny_bert)
    refused(partial(load, pooler="avg_frist_last"), "did you mean 'avg_first_last'?")
    refused(partial(load, pooler="cls_mlp"), "training head", "cls_before_pooler")
    refused(lambda: load_encoder(tiny_bert), "stores no pooler", "--pooler", "avg_top2")


def test_another_pooler_than_stored_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    save_encoder(encoder(tiny_bert, "avg"), tmp_path / "saved")
    words = "was saved with pooler 'avg', not with pooler 'avg_top2'"
    refused(lambda: load_encoder(tmp_path / "saved", pooler="avg_top2"), words)


def test_saved_parts_that_do_not_fit_are_refused(tiny_bert: Path, tmp_path: Path) -> None:
    affine = Affine(encoder(tiny_bert), torch.ones(4, 48), torch.zeros(4))
    save_encoder(affine, tmp_path / "saved")
    refused(lambda: load_encoder(tmp_path / "saved"), str(tmp_path / "saved"), "do not fit")


BROKEN = [
    "[]",
    "{}",
    '{"kind": "transformer"}',
    '{"kind": "transformer", "pooler": "avgg"}',
    '{"kind": "transformer", "pooler": ["avg"]}',
    '{"kind": ["transformer"]}',
    '{"kind": "word-overlap"}',
    '{"kind": "glove"}',
]


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_encoder_file_is_one_sentence(
    tiny_bert: Path, tmp_path: Path, content: str
) -> None:
    save_encoder(encoder(tiny_bert, "avg"), tmp_path / "saved")
    (tmp_path / "saved" / "encoder.json").write_text(content)
    words = "kind 'glove'" if "glove" in content else str(tmp_path / "saved" / "encoder.json")
    refused(lambda: load_encoder(tmp_path / "saved"), words)


@pytest.mark.parametrize("content", ["[]", '{"weight_map": ["a"]}', '{"weight_map": {"a": 3}}'])
def test_invalid_weight_lists_are_one_sentence(copy: Path, content: str) -> None:
    (copy / "model.safetensors.index.json").write_text(content)
    refused(lambda: encoder(copy), "model.safetensors.index.json lists no weight files")


def test_a_vocabulary_beyond_the_embeddings_is_refused(copy: Path) -> None:
    """A row is missing: only sentences with the last token would fail, while encoding."""
    largest = max(encoder(copy).tokenizer.get_vocab().values())
    name = "embeddings.word_embeddings.weight"
    change_weights(copy, lambda weights: weights | {name: weights[name][:largest].clone()})
    change(copy / "config.json", vocab_size=largest)
    words = f"token ids up to {largest}, but the weights embed only {largest} tokens"
    refused(lambda: encoder(copy), words)
