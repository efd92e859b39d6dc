"""Folders of sentence-transformers, against a literal interpreter of their files and the library.

Mutations caught: another pooling than the folder's; a prompt that is left out, or counted where the
folder excludes it; a module behind the pooling that is left out; a final Normalize that is kept;
a maximum length or lowercasing that is not the folder's.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from bench.models.encoder import TransformerEncoder
from bench.models.load import ModularEncoder, load_encoder
from tests.conftest import CLOSE
from tests.models.folders import change
from tests.oracles.literal_modules import literal

SENTENCES = ["", "a", "The old DOG sees two birds", " ".join(20 * ["two small birds"])]
SENTENCES += ["unknownword ☃ sleeps"]
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


def static(folder: Path, tensors: dict[str, torch.Tensor], *behind: str) -> Path:
    """A StaticEmbedding of five words, and modules behind it."""
    folder.mkdir()
    listed = [entry(number, "", kind) for number, kind in enumerate(("StaticEmbedding", *behind))]
    (folder / "modules.json").write_text(json.dumps(listed))
    words = {word: number for number, word in enumerate(["[UNK]", "a", "red", "dog", "sees"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(tensors, folder / "model.safetensors")
    return folder


MIXED = {"layer_weights": torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0])}
MIXING = {"word_embedding_dimension": 32, "layer_start": 0, "num_hidden_layers": 4}
NORMALIZE = {"kind": "Normalize"}
# Modules behind a transformer, and whether our forward pass runs it.
STACKS: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "mean": ([pooling(**MEAN)], True),
    "today's mean": ([pooling(pooling_mode="mean", include_prompt=True)], True),
    "cls": ([pooling(pooling_mode="cls")], True),
    "dense": ([pooling(**MEAN), dense(32, 8, 1)], False),
    "dense without bias": ([pooling(**CLS), dense(32, 40, 2, tanh=False, bias=False)], False),
    "normalised between": (
        [pooling(**MEAN), NORMALIZE, dense(32, 8, 3), dense(8, 5, 4, tanh=False)],
        False,
    ),
    "a mean of layers": (
        [{"kind": "WeightedLayerPooling", "config": MIXING, "tensors": MIXED}, pooling(**MEAN)],
        False,
    ),
}


@pytest.fixture
def copy(tiny_bert: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_bert, tmp_path / "model"))


def library(folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def is_ours(encoder: Any) -> bool:
    """Whether our forward pass runs the transformer of an encoder."""
    return isinstance(encoder, TransformerEncoder)


@pytest.mark.parametrize("name", STACKS)
def test_modules_equal_a_literal_interpreter(
    tiny_backbone: Path, tmp_path: Path, name: str
) -> None:
    modules, packed = STACKS[name]
    folder = write(Path(shutil.copytree(tiny_backbone, tmp_path / "model")), modules, longest=12)
    change(folder / "config.json", output_hidden_states=name == "a mean of layers")
    encoder = load_encoder(folder)
    assert is_ours(encoder) == packed
    np.testing.assert_allclose(encoder.encode(SENTENCES), literal(folder, SENTENCES), **CLOSE)
    np.testing.assert_allclose(
        encoder.encode(SENTENCES), library(folder).encode(SENTENCES), **CLOSE
    )


@pytest.mark.parametrize("mode", ["max", "lasttoken", ["mean", "cls"]])
def test_the_library_pools_what_we_do_not(copy: Path, mode: Any) -> None:
    folder = prompts(write(copy, [pooling(pooling_mode=mode), NORMALIZE]), query="a dog ")
    encoder, model = load_encoder(folder, prompt="query"), library(folder)
    assert not is_ours(encoder)
    vectors = encoder.encode(SENTENCES)
    wanted = model.encode(SENTENCES, prompt_name="query")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    assert lengths.min() > 1.1  # the final Normalize is left out
    np.testing.assert_allclose(vectors / lengths, wanted, **CLOSE)
    assert vectors.dtype == np.float32


def test_only_a_final_normalisation_is_dropped(copy: Path) -> None:
    write(copy, [pooling(**MEAN), NORMALIZE, NORMALIZE])
    vectors = load_encoder(copy).encode(SENTENCES)
    assert np.array_equal(vectors, load_encoder(copy, pooler="avg").encode(SENTENCES))
    assert load_encoder(copy, pooler="avg_top2").pooler == "avg_top2"  # type: ignore[attr-defined]


def test_a_plain_folder_is_the_transformer_itself(copy: Path) -> None:
    """So that its identity is that of the same transformer with the same pooler."""
    plain = load_encoder(copy, pooler="avg")
    assert load_encoder(write(copy, [pooling(**MEAN)])).identity == plain.identity


def test_maximum_length_and_lowercasing_are_the_folders(
    copy: Path, tiny_roberta: Path, tmp_path: Path
) -> None:
    encoder: Any = load_encoder(write(copy, [pooling(**MEAN)], longest=5))
    assert len(encoder.tokenize([SENTENCES[3]])[0]) == 5
    cased = Path(shutil.copytree(tiny_roberta, tmp_path / "cased"))
    lowered = load_encoder(write(cased, [pooling(**MEAN)], do_lower_case=True))
    plain, text = load_encoder(tiny_roberta, pooler="avg"), "The old DOG"
    assert np.array_equal(lowered.encode([text]), plain.encode([text.lower()]))
    assert not np.array_equal(plain.encode([text]), plain.encode([text.lower()]))


def test_a_prompt_is_prepended_to_each_sentence(copy: Path) -> None:
    texts = {"query": "a dog sees ", "document": "the car ", "empty": ""}
    prompts(write(copy, [pooling(**MEAN)]), default="query", **texts)
    plain = load_encoder(copy, prompt="")
    for name, text in {None: "a dog sees ", **texts}.items():
        encoder = load_encoder(copy, prompt=name)
        wanted = plain.encode([text + sentence for sentence in SENTENCES])
        np.testing.assert_allclose(encoder.encode(SENTENCES), wanted, **CLOSE)
        np.testing.assert_allclose(wanted, literal(copy, SENTENCES, text), **CLOSE)
    identities = {load_encoder(copy, prompt=name).identity for name in ("query", "document", "")}
    assert len(identities) == 3


def test_a_prompt_excluded_from_pooling(copy: Path) -> None:
    """Its three tokens and [CLS] are seen by the others and left out of the mean."""
    prompts(write(copy, [pooling(**MEAN, include_prompt=False)]), query="a dog sees ")
    encoder, own = load_encoder(copy, prompt="query"), load_encoder(copy)
    assert (is_ours(encoder), is_ours(own)) == (False, True)
    for sentence in ("two birds", "the car"):
        ids = own.tokenizer([f"a dog sees {sentence}"], return_tensors="pt")  # type: ignore[attr-defined]
        with torch.no_grad():
            states = own.model.eval()(**ids).last_hidden_state[0]  # type: ignore[attr-defined]
        np.testing.assert_allclose(encoder.encode([sentence])[0], states[4:].mean(0), **CLOSE)


def test_the_identity_follows_files_that_decide_vectors_and_the_prompt(
    copy: Path, tmp_path: Path
) -> None:
    prompts(write(copy, [pooling(**MEAN), dense(32, 8, 1)]), query="a ")
    first = load_encoder(copy)
    assert isinstance(first, ModularEncoder)
    moved = Path(shutil.copytree(copy, tmp_path / "moved"))
    (moved / "README.md").write_text("of no consequence")
    assert load_encoder(moved).identity == first.identity
    write(moved, [pooling(**MEAN), dense(32, 8, 2)])
    identities = {first.identity, load_encoder(moved).identity}
    assert len(identities | {load_encoder(copy, prompt="query").identity}) == 3


TABLE = torch.randn(5, 6, generator=torch.Generator().manual_seed(3))
TEXTS = {"a red dog": [1, 2, 3], "dog dog a": [3, 3, 1], "": [], "what": [0]}
TEXTS |= {"a dog sees a dog": [1, 3, 4, 1, 3]}
MAPPING, SHARES = torch.tensor([0, 2, 2, 1, 0]), torch.tensor([1.0, 0.5, 2.0, 3.0, 0.0])


@pytest.mark.parametrize(
    ("tensors", "table"),
    [
        ({"embedding.weight": TABLE}, TABLE),
        # As model2vec maps token ids to rows, and weights them.
        (
            {"embeddings": TABLE[:3].clone(), "mapping": MAPPING, "weights": SHARES},
            SHARES[:, None] * TABLE[MAPPING],
        ),
    ],
    ids=["a table", "model2vec"],
)
def test_a_static_model_is_the_mean_of_its_rows(
    tmp_path: Path, tensors: dict[str, torch.Tensor], table: torch.Tensor
) -> None:
    encoder = load_encoder(static(tmp_path / "model", tensors, "Normalize"))
    vectors = encoder.encode(list(TEXTS))
    assert vectors.dtype == np.float32
    for vector, rows in zip(vectors, TEXTS.values(), strict=True):
        wanted = [sum(table[row][k].item() for row in rows) / max(len(rows), 1) for k in range(6)]
        np.testing.assert_allclose(vector, wanted, rtol=1e-6, atol=1e-7)
