"""Folders of sentence-transformers, against a literal interpreter of their files and, if installed,
the library."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from bench.models.load import load_encoder, save_encoder
from tests.conftest import CLOSE
from tests.models.folders import change, refused
from tests.oracles.literal_modules import literal

SENTENCES = ["", "a", "The old DOG sees two birds", " ".join(20 * ["two small birds"])]
SENTENCES += ["unknownword ☃ sleeps"]
LIBRARY = "sentence-transformers is not installed"
MEAN, CLS = {"pooling_mode_mean_tokens": True}, {"pooling_mode_cls_token": True}


def dense(inner: int, outer: int, seed: int, tanh: bool = True, bias: bool = True) -> Any:
    draw = torch.Generator().manual_seed(seed)
    tensors = {"linear.weight": torch.randn(outer, inner, generator=draw) / inner**0.5}
    if bias:
        tensors["linear.bias"] = torch.randn(outer, generator=draw)
    kind = "torch.nn.modules.activation.Tanh" if tanh else "torch.nn.modules.linear.Identity"
    config = {"in_features": inner, "out_features": outer, "bias": bias}
    config |= {"activation_function": kind}
    return {"kind": "Dense", "config": config, "tensors": tensors}


def entry(index: int, path: str, kind: str) -> dict[str, Any]:
    kind = f"sentence_transformers.models.{kind}"
    return {"idx": index, "name": str(index), "path": path, "type": kind}


def write(folder: Path, modules: list[dict[str, Any]], longest: int = 64, **settings: Any) -> Path:
    """Add modules behind the transformer in `folder`."""
    listed = [entry(0, "", "Transformer")]
    for index, module in enumerate(modules, 1):
        place = f"{index}_{module['kind']}"
        (folder / place).mkdir(exist_ok=True)
        (folder / place / "config.json").write_text(json.dumps(module.get("config", {})))
        if "tensors" in module:
            save_file(module["tensors"], folder / place / "model.safetensors")
        listed.append(entry(index, place, module["kind"]))
    (folder / "modules.json").write_text(json.dumps(listed))
    settings |= {"max_seq_length": longest}
    (folder / "sentence_bert_config.json").write_text(json.dumps(settings))
    return folder


def pooling(**config: Any) -> dict[str, Any]:
    return {"kind": "Pooling", "config": {"word_embedding_dimension": 32} | config}


def prompts(folder: Path, default: str | None = None, **texts: str) -> Path:
    described = {"prompts": texts, "default_prompt_name": default}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(described))
    return folder


STACKS: dict[str, list[dict[str, Any]]] = {
    "mean": [pooling(**MEAN)],
    "today's mean": [pooling(pooling_mode="mean", include_prompt=True)],
    "cls": [pooling(pooling_mode="cls")],
    "dense": [pooling(**MEAN), dense(32, 8, 1)],
    "dense without bias": [pooling(**CLS), dense(32, 40, 2, tanh=False, bias=False)],
    "normalised between": [
        pooling(**MEAN),
        {"kind": "Normalize"},
        dense(32, 8, 3),
        dense(8, 5, 4, tanh=False),
    ],
}


@pytest.fixture
def copy(tiny_bert: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_bert, tmp_path / "model"))


@pytest.mark.parametrize("name", STACKS)
def test_modules_equal_a_literal_interpreter(
    tiny_backbone: Path, tmp_path: Path, name: str
) -> None:
    copy = Path(shutil.copytree(tiny_backbone, tmp_path / "model"))
    folder = write(copy, STACKS[name], longest=12)
    encoder = load_encoder(folder)
    np.testing.assert_allclose(encoder.encode(SENTENCES), literal(folder, SENTENCES), **CLOSE)
    save_encoder(encoder, tmp_path / "saved")
    loaded = load_encoder(tmp_path / "saved")
    assert loaded.identity == encoder.identity
    assert np.array_equal(loaded.encode(SENTENCES), encoder.encode(SENTENCES))


@pytest.mark.parametrize("name", STACKS)
def test_modules_equal_the_library(tiny_backbone: Path, tmp_path: Path, name: str) -> None:
    library = pytest.importorskip("sentence_transformers", reason=LIBRARY)
    copy = Path(shutil.copytree(tiny_backbone, tmp_path / "model"))
    folder = write(copy, STACKS[name], longest=12)
    prompts(folder, default="short", short="a dog: ", other="two ")
    model = library.SentenceTransformer(str(folder), device="cpu")
    for name, prompt in (("short", None), ("other", "other")):
        ours = load_encoder(folder, prompt=prompt).encode(SENTENCES)
        np.testing.assert_allclose(ours, model.encode(SENTENCES, prompt_name=name), **CLOSE)


def test_only_a_final_normalisation_is_dropped(copy: Path, tmp_path: Path) -> None:
    other = write(Path(shutil.copytree(copy, tmp_path / "other")), [pooling(**MEAN)])
    write(copy, [pooling(**MEAN), {"kind": "Normalize"}, {"kind": "Normalize"}])
    vectors = load_encoder(copy).encode(SENTENCES)
    assert np.array_equal(vectors, load_encoder(other).encode(SENTENCES))
    assert np.array_equal(vectors, load_encoder(copy, pooler="avg").encode(SENTENCES))
    assert load_encoder(copy, pooler="avg_top2").pooler == "avg_top2"  # type: ignore[attr-defined]


def test_the_pooling_is_read_from_the_modules(copy: Path) -> None:
    write(copy, [pooling(**CLS)])
    (copy / "1_Pooling").rename(copy / "3_Pooling")
    write(copy, [pooling(**MEAN)])
    assert load_encoder(copy).pooler == "avg"  # type: ignore[attr-defined]
    listed = [entry(0, "", "Transformer"), entry(1, "3_Pooling", "Pooling")]
    (copy / "modules.json").write_text(json.dumps(listed))
    assert load_encoder(copy).pooler == "cls_before_pooler"  # type: ignore[attr-defined]


def test_the_maximum_length_of_the_folder_is_used(copy: Path) -> None:
    write(copy, [pooling(**MEAN)], longest=5)
    encoder = load_encoder(copy)
    assert len(encoder.tokenize([SENTENCES[3]])[0]) == 5  # type: ignore[attr-defined]
    # Each by itself: a row's last bits may depend on its place in a product.
    short = encoder.encode(["two small birds"])
    assert np.array_equal(encoder.encode(["two small birds two small"]), short)
    assert not np.array_equal(short, load_encoder(copy, pooler="avg").encode([SENTENCES[3]]))


def test_lowercasing_of_the_folder_is_used(tiny_roberta: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny_roberta, tmp_path / "model"))
    folder = write(copy, [pooling(**MEAN)], do_lower_case=True)
    plain = load_encoder(tiny_roberta, pooler="avg")
    text = "The old DOG"
    assert np.array_equal(load_encoder(folder).encode([text]), plain.encode([text.lower()]))
    assert not np.array_equal(plain.encode([text]), plain.encode([text.lower()]))


# Prompts


def test_a_prompt_is_prepended_to_each_sentence(copy: Path, tmp_path: Path) -> None:
    texts = {"query": "a dog sees ", "document": "the car ", "empty": ""}
    prompts(write(copy, [pooling(**MEAN)]), default="query", **texts)
    plain = load_encoder(copy, prompt="")
    for name, text in {None: "a dog sees ", **texts}.items():
        encoder = load_encoder(copy, prompt=name)
        wanted = plain.encode([text + sentence for sentence in SENTENCES])
        assert np.array_equal(encoder.encode(SENTENCES), wanted)
        np.testing.assert_allclose(wanted, literal(copy, SENTENCES, text), **CLOSE)
    identities = {load_encoder(copy, prompt=name).identity for name in ("query", "document", "")}
    assert len(identities) == 3
    save_encoder(load_encoder(copy), tmp_path / "saved")
    saved = load_encoder(tmp_path / "saved").encode(SENTENCES)
    assert np.array_equal(saved, load_encoder(copy).encode(SENTENCES))


def test_a_prompt_excluded_from_pooling(copy: Path) -> None:
    """Its three tokens and [CLS] are seen by the others and left out of the mean."""
    prompts(write(copy, [pooling(**MEAN, include_prompt=False)]), query="a dog sees ")
    encoder = load_encoder(copy, prompt="query")
    model, tokenizer = encoder.base.model, encoder.base.tokenizer  # type: ignore[attr-defined]
    for sentence in ("two birds", "the car"):
        ids = tokenizer([f"a dog sees {sentence}"], return_tensors="pt")
        assert ids["input_ids"][0, :4].tolist() == tokenizer("a dog sees")["input_ids"][:4]
        with torch.no_grad():
            states = model.eval()(**ids).last_hidden_state[0]
        np.testing.assert_allclose(encoder.encode([sentence])[0], states[4:].mean(0), **CLOSE)
    both = encoder.encode(["two birds", SENTENCES[3]])  # padded beside a long one
    np.testing.assert_allclose(both[0], encoder.encode(["two birds"])[0], **CLOSE)


def test_a_prompt_excluded_from_pooling_equals_the_library(copy: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason=LIBRARY)
    prompts(write(copy, [pooling(**MEAN, include_prompt=False)]), query="a dog sees ")
    model = library.SentenceTransformer(str(copy), device="cpu")
    ours = load_encoder(copy, prompt="query").encode(SENTENCES)
    np.testing.assert_allclose(ours, model.encode(SENTENCES, prompt_name="query"), **CLOSE)


# Static models


def word_tokenizer() -> Tokenizer:
    words = {word: number for number, word in enumerate(["[UNK]", "a", "red", "dog", "sees"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def static(folder: Path, tensors: dict[str, torch.Tensor], *behind: str) -> Path:
    folder.mkdir()
    listed = [entry(number, "", kind) for number, kind in enumerate(("StaticEmbedding", *behind))]
    (folder / "modules.json").write_text(json.dumps(listed))
    word_tokenizer().save(str(folder / "tokenizer.json"))
    save_file(tensors, folder / "model.safetensors")
    return folder


TABLE = torch.randn(5, 6, generator=torch.Generator().manual_seed(3))
TEXTS = {"a red dog": [1, 2, 3], "dog dog a": [3, 3, 1], "": [], "what": [0]}
TEXTS |= {"a dog sees a dog": [1, 3, 4, 1, 3]}


def test_a_static_model_is_the_mean_of_its_rows(tmp_path: Path) -> None:
    encoder = load_encoder(static(tmp_path / "model", {"embedding.weight": TABLE}, "Normalize"))
    found = encoder.encode(list(TEXTS))
    assert found.dtype == np.float32
    for vector, rows in zip(found, TEXTS.values(), strict=True):
        wanted = [sum(TABLE[row][k].item() for row in rows) / max(len(rows), 1) for k in range(6)]
        np.testing.assert_allclose(vector, wanted, rtol=1e-6, atol=1e-7)
    assert encoder.encode([]).shape == (0, 6)
    save_encoder(encoder, tmp_path / "saved")
    loaded = load_encoder(tmp_path / "saved")
    assert loaded.identity == encoder.identity
    assert np.array_equal(loaded.encode(list(TEXTS)), found)


def test_model2vec_tables_may_map_and_weight_rows(tmp_path: Path) -> None:
    mapping, weights = torch.tensor([0, 2, 2, 1, 0]), torch.tensor([1.0, 0.5, 2.0, 3.0, 0.0])
    tensors = {"embeddings": TABLE[:3].clone(), "mapping": mapping, "weights": weights}
    found = load_encoder(static(tmp_path / "model", tensors)).encode(list(TEXTS))
    for vector, rows in zip(found, TEXTS.values(), strict=True):
        total = sum((weights[row] * TABLE[mapping[row]] for row in rows), torch.zeros(6))
        np.testing.assert_allclose(vector, total / max(len(rows), 1), rtol=1e-6, atol=1e-7)


def test_static_models_equal_the_library(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason=LIBRARY)
    folder = static(tmp_path / "model", {"embedding.weight": TABLE})
    theirs = library.SentenceTransformer(str(folder), device="cpu").encode(list(TEXTS))
    ours = load_encoder(folder).encode(list(TEXTS))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


# Refusals


@pytest.mark.parametrize("kind", ["CNN", "LSTM", "BoW", "Router", "WordEmbeddings", "evil"])
def test_unknown_modules_are_reported(copy: Path, kind: str) -> None:
    write(copy, [pooling(**MEAN), {"kind": kind}])
    words = f"has a module '{kind}', which is not supported"
    refused(partial(load_encoder, copy), words, "--pooler")


@pytest.mark.parametrize("path", ["../elsewhere", "/etc", "1_Pooling/../.."])
def test_modules_outside_the_folder_are_rejected(copy: Path, path: str) -> None:
    write(copy, [pooling(**MEAN)])
    modules = json.loads((copy / "modules.json").read_text())
    modules[1]["path"] = path
    (copy / "modules.json").write_text(json.dumps(modules))
    refused(partial(load_encoder, copy), path, "outside the model's folder")


UNSUPPORTED = {
    "pooling_mode_max_tokens": [pooling(pooling_mode_max_tokens=True)],
    "pooling_mode_max_tokens, mean": [pooling(pooling_mode_max_tokens=True, **MEAN)],
    "mean, cls": [pooling(**MEAN, **CLS)],
    "lasttoken": [pooling(pooling_mode="lasttoken")],
    "none": [pooling()],
    "none ": [dense(32, 32, 1), pooling(**MEAN)],  # another order
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_poolings_are_reported(copy: Path, name: str) -> None:
    write(copy, UNSUPPORTED[name])
    words = f"has the pooling {name.strip()}, which is not supported"
    refused(partial(load_encoder, copy), words, "choose a pooler with --pooler")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("modules.json", '{"0": {"type": "Transformer"}}'),
        ("modules.json", '["Transformer"]'),
        ("modules.json", "3"),
        ("modules.json", "[]"),
        ("modules.json", '[{"path": ""}]'),
        ("modules.json", '[{"path": "", "type": null}]'),
        ("modules.json", '[{"type": "Transformer"}]'),
        ("1_Pooling/config.json", '["pooling_mode_mean_tokens"]'),
        ("1_Pooling/config.json", "null"),
        ("1_Pooling/config.json", '{"pooling_mode_mean_tokens": "yes"}'),
        ("sentence_bert_config.json", "[]"),
        ("config_sentence_transformers.json", "[]"),
    ],
)
def test_invalid_files_are_one_sentence(copy: Path, name: str, content: str) -> None:
    prompts(write(copy, [pooling(**MEAN)]))
    (copy / name).write_text(content)
    refused(partial(load_encoder, copy), str(copy), "choose a pooler with --pooler")
    assert load_encoder(copy, pooler="avg").encode(["a"]).shape == (1, 32)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"activation_function": "os.system"}, "activation system"),
        ({"activation_function": "torch.nn.modules.activation.GELU"}, "activation GELU"),
        ({"use_residual": True}, "settings"),
        ({"module_input_name": "token_embeddings"}, "settings"),
    ],
)
def test_other_dense_modules_are_refused(copy: Path, settings: dict[str, Any], words: str) -> None:
    module = dense(32, 8, 1)
    module["config"] |= settings
    write(copy, [pooling(**MEAN), module])
    refused(partial(load_encoder, copy), f"'Dense' with unsupported {words}", "--pooler")


def test_modules_of_other_widths_are_refused(copy: Path) -> None:
    write(copy, [pooling(**MEAN), dense(48, 8, 1)])
    refused(partial(load_encoder, copy), str(copy), "do not fit", "48")
    write(copy, [pooling(**MEAN, word_embedding_dimension=48)])
    words = ("has word_embedding_dimension 48, but the transformer has 32", "--pooler")
    refused(partial(load_encoder, copy), str(copy), *words)
    shutil.rmtree(copy / "1_Pooling")
    refused(partial(load_encoder, copy), "1_Pooling/config.json does not exist", "--pooler")


@pytest.mark.parametrize("name", ["mapping", "weights"])
def test_a_static_table_and_rows_that_do_not_fit_are_refused(name: str, tmp_path: Path) -> None:
    folder = static(tmp_path / "model", {"embeddings": TABLE, name: torch.tensor([0, 99])})
    refused(partial(load_encoder, folder), str(folder), "do not fit", "save or download it again")


def test_pickled_weights_of_a_module_are_refused(copy: Path) -> None:
    write(copy, [pooling(**MEAN), dense(32, 8, 1)])
    (copy / "2_Dense" / "model.safetensors").rename(copy / "2_Dense" / "pytorch_model.bin")
    refused(partial(load_encoder, copy), "'Dense'", "its weights are pickled")
    (copy / "2_Dense" / "pytorch_model.bin").unlink()
    refused(partial(load_encoder, copy), "'Dense'", "holds no model.safetensors")
    (copy / "2_Dense" / "model.safetensors").write_bytes(b"12345678")
    refused(partial(load_encoder, copy), "truncated or broken")


@pytest.mark.parametrize("rows", [{}, {"linear.weight": torch.zeros(8, 32)}])
def test_a_dense_module_without_its_tensors_is_refused(copy: Path, rows: dict[str, Any]) -> None:
    tensors = {"linear.bias": torch.zeros(7)} | rows
    write(copy, [pooling(**MEAN), dense(32, 8, 1) | {"tensors": tensors}])
    refused(partial(load_encoder, copy), "holds no linear layer")


def test_unknown_prompts_are_reported(copy: Path) -> None:
    prompts(write(copy, [pooling(**MEAN)]), query="a ", document="b ")
    meant = "no prompt 'querry'; did you mean 'query'?"
    refused(partial(load_encoder, copy, prompt="querry"), meant, "an empty --prompt uses none")
    refused(partial(load_encoder, copy, prompt="query", pooler="avg"), "omit --prompt")
    prompts(copy, default="gone", query="a ")
    refused(partial(load_encoder, copy), "no prompt 'gone'")
    change(copy / "config_sentence_transformers.json", default_prompt_name=["query"])
    refused(partial(load_encoder, copy), "no prompt '['query']'")
    (copy / "config_sentence_transformers.json").write_text('{"prompts": ["a"]}')
    refused(partial(load_encoder, copy), "does not map names to prompts")
    (copy / "modules.json").unlink()
    refused(partial(load_encoder, copy, prompt="query"), "has no prompts")


def test_a_prompt_excluded_from_another_pooling_is_refused(copy: Path) -> None:
    prompts(write(copy, [pooling(**CLS, include_prompt=False)]), query="a ")
    refused(partial(load_encoder, copy, prompt="query"), "excludes its prompt from a pooling")
    assert load_encoder(copy).encode(["a"]).shape == (1, 32)


@pytest.mark.parametrize("longest", [2, "64", 0, [64]])
def test_an_invalid_maximum_length_is_one_sentence(copy: Path, longest: Any) -> None:
    write(copy, [pooling(**MEAN)], longest=longest)
    refused(partial(load_encoder, copy), "max_seq_length")


def test_unsupported_layer_weights_are_rejected(copy: Path) -> None:
    config = {"word_embedding_dimension": 32, "layer_start": 0, "num_hidden_layers": 4}
    tensors = {"layer_weights": torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0])}
    mixing = {"kind": "WeightedLayerPooling", "config": config, "tensors": tensors}
    write(copy, [mixing, pooling(**MEAN)])
    refused(partial(load_encoder, copy), "has layer weights that no supported pooler has")
    tensors = {"layer_weights": torch.tensor([0.0, 0.0, 0.0, 0.5, 0.5])}
    save_file(tensors, copy / "1_WeightedLayerPooling/model.safetensors")
    change(copy / "config.json", output_hidden_states=True)
    assert load_encoder(copy).pooler == "avg_top2"  # type: ignore[attr-defined]
    vectors = load_encoder(copy).encode(SENTENCES)
    np.testing.assert_allclose(vectors, literal(copy, SENTENCES), **CLOSE)


def test_a_static_table_shorter_than_its_vocabulary_is_refused(tmp_path: Path) -> None:
    folder = static(tmp_path / "a", {"embedding.weight": TABLE[:4].clone()})
    refused(partial(load_encoder, folder), "ids up to 4", "4 rows")
    folder = static(tmp_path / "b", {"else": TABLE})
    refused(partial(load_encoder, folder), "holds no embedding table")
    folder = static(tmp_path / "c", {"embedding.weight": TABLE})
    (folder / "tokenizer.json").write_text("{}")
    refused(partial(load_encoder, folder), "is not a tokenizer")
