"""Folders of sentence-transformers, against the library and, for poolers and prompts, transformers.

Mutations caught: another pooling than the folder's; a prompt that is left out, or counted where the
folder excludes it; a module behind the pooling that is left out; a maximum length or lowercasing
that is not the folder's.
"""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModel, AutoTokenizer

from bench.models.encoder import TransformerEncoder
from bench.models.library import LibraryEncoder
from bench.models.load import load_encoder
from tests.support.model_folders import (
    change,
    change_weights,
    dense,
    entry,
    pooling,
    prompts,
    write,
)
from tests.support.refusals import refused
from tests.support.tiny_backbones import CLOSE

SENTENCES = ["", "a", "The old DOG sees two birds", " ".join(20 * ["two small birds"])]
SENTENCES += ["unknownword ☃ sleeps"]
NORMALIZE = {"kind": "Normalize"}
# Modules behind a transformer.
STACKS = {
    "mean": [pooling()],
    "dense, normalised": [pooling(), dense(32, 8, 1), NORMALIZE],
    "normalised between": [pooling(pooling_mode="cls"), NORMALIZE, dense(32, 8, 3, bias=False)],
}


def library(folder):
    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


@pytest.mark.parametrize("name", STACKS)
def test_modules_are_those_of_the_library(tiny_backbone, tmp_path, name):
    folder = write(shutil.copytree(tiny_backbone, tmp_path / "model"), *STACKS[name], longest=12)
    encoder = load_encoder(folder, normalize="Normalize" in STACKS[name][-1]["kind"])
    expected = library(folder).encode(SENTENCES)
    np.testing.assert_allclose(encoder.encode(SENTENCES), expected, **CLOSE)


def test_prompts_and_dimensions_are_the_folders(copy):
    """A final Normalize is left out."""
    prompts(write(copy, pooling(pooling_mode="max"), NORMALIZE), query="a dog ")
    change(copy / "config_sentence_transformers.json", truncate_dim=16)
    encoder = load_encoder(copy, prompt="query")
    assert isinstance(encoder, LibraryEncoder)
    assert encoder.loaded["pooler"] == "max"
    vectors = encoder.encode(SENTENCES)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    assert lengths.min() > 1.1
    expected = library(copy).encode(SENTENCES, prompt_name="query", truncate_dim=32)[:, :16]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors / lengths, expected, **CLOSE)


def test_a_pooler_takes_the_transformer_alone(copy):
    """A plain transformer of the BERT family, in float32, which our forward pass runs."""
    plain = load_encoder(copy, pooler="avg")
    write(copy, pooling(pooling_mode="max"), NORMALIZE)
    again = load_encoder(copy, pooler="avg")
    assert isinstance(again, TransformerEncoder)
    assert again.identity == plain.identity
    for options, close in (
        ({"template": "<sentence>"}, CLOSE), ({"dtype": "bfloat16"}, {"rtol": 0.1, "atol": 0.1}),
    ):  # fmt: skip
        other, texts = load_encoder(copy, pooler="avg", **options), SENTENCES[:3]
        assert isinstance(other, LibraryEncoder)
        np.testing.assert_allclose(other.encode(texts), plain.encode(texts), **close)


def test_maximum_length_and_lowercasing_are_the_folders(copy, tiny_roberta, tmp_path):
    encoder = load_encoder(write(copy, pooling(), longest=5))
    assert encoder.loaded.items() >= {"pooler": "mean", "max_length": 5}.items()
    assert load_encoder(copy, normalize=True).loaded == encoder.loaded
    long, cut = encoder.encode([SENTENCES[3], "two small birds"])
    np.testing.assert_allclose(long, cut, **CLOSE)
    cased = shutil.copytree(tiny_roberta, tmp_path / "cased")
    lowered = load_encoder(write(cased, pooling(), do_lower_case=True))
    plain, text = load_encoder(tiny_roberta, pooler="avg"), "The old DOG"
    np.testing.assert_allclose(lowered.encode([text]), plain.encode([text.lower()]), **CLOSE)
    assert not np.array_equal(plain.encode([text]), plain.encode([text.lower()]))


def test_a_prompt_is_prepended_to_each_sentence(copy):
    """By its name, or its text."""
    texts = {"query": "a dog sees ", "document": "the car ", "empty": ""}
    prompts(write(copy, pooling()), default="query", **texts)
    identities = set()
    for name, text in {None: "a dog sees ", "": "", "a man: ": "a man: ", **texts}.items():
        encoder = load_encoder(copy, prompt=name)
        identities.add(encoder.identity)
        expected = library(copy).encode(SENTENCES, prompt=text)
        np.testing.assert_allclose(encoder.encode(SENTENCES), expected, **CLOSE)
    assert len(identities) == 4


@pytest.mark.parametrize("prompt", ["query", "query ", " query"])
def test_spaces_around_the_name_of_a_prompt_are_no_part_of_it(copy, prompt):
    prompts(write(copy, pooling()), query="a dog sees ", **{"two words": "the car "})
    expected = load_encoder(copy, prompt="query").identity
    assert load_encoder(copy, prompt=prompt).identity == expected
    assert load_encoder(copy, prompt=prompt.replace("query", "two words")).identity != expected
    assert load_encoder(copy, prompt=" ").identity == load_encoder(copy, prompt="").identity
    words = f"a pooler uses only the transformer of {copy}, without its prompt 'query'; write the"
    refused(lambda: load_encoder(copy, pooler="avg", prompt=prompt), words)


def test_a_prompt_excluded_from_pooling(copy):
    """Its three tokens and [CLS] are seen by the others and left out of the mean."""
    prompts(write(copy, pooling(include_prompt=False)), query="a dog sees ")
    by_name, by_text = (load_encoder(copy, prompt=prompt) for prompt in ("query", "a dog sees "))
    model = AutoModel.from_pretrained(copy).eval()
    tokenizer = AutoTokenizer.from_pretrained(copy)
    for sentence in ("two birds", "the car"):
        ids = tokenizer([f"a dog sees {sentence}"], return_tensors="pt")
        with torch.no_grad():
            states = model(**ids).last_hidden_state[0]
        for encoder in (by_name, by_text):
            np.testing.assert_allclose(encoder.encode([sentence])[0], states[4:].mean(0), **CLOSE)


def test_the_identity_follows_what_decides_vectors(copy, tmp_path, monkeypatch):
    prompts(write(copy, pooling(), dense(32, 8, 1)), query="a ")
    first, moved = load_encoder(copy).identity, shutil.copytree(copy, tmp_path / "moved")
    identities = {first}
    (moved / "README.md").write_text("of no consequence")
    assert load_encoder(moved).identity == first
    for other in ("sentence-transformers", "transformers"):
        with monkeypatch.context() as patch:
            versions = {"sentence-transformers": "6", "transformers": "5"} | {other: "0"}
            patch.setattr("bench.models.library.version", versions.__getitem__)
            identities.add(load_encoder(moved).identity)
    assert len(identities) == 3
    write(moved, pooling(), dense(32, 8, 2))
    changed, prompted = load_encoder(moved), load_encoder(copy, prompt="query")
    assert len({first, changed.identity, prompted.identity}) == 3


def test_weights_are_copied_from_their_file(copy):
    """Their places in it would change the last bits of products."""
    change_weights(copy, lambda weights: {"aa": torch.zeros(1), **weights})
    for options in ({"pooler": "avg"}, {"pooler": "avg", "template": "<sentence>"}):
        for weights in load_encoder(copy, **options).model.parameters():
            assert weights.data_ptr() % 64 == 0


def test_our_poolers_take_states_in_float32(copy):
    """In bfloat16 a vector would have 8 bits a number."""
    vectors = load_encoder(copy, pooler="avg", dtype="bfloat16").encode(SENTENCES)
    assert not torch.equal(torch.tensor(vectors).bfloat16().float(), torch.tensor(vectors))


def test_a_static_model_is_that_of_the_library(tmp_path):
    (tmp_path / "modules.json").write_text(json.dumps([entry(0, "", "StaticEmbedding")]))
    words = {word: number for number, word in enumerate(["[UNK]", "a", "red", "dog", "sees"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    table = torch.randn(5, 6, generator=torch.Generator().manual_seed(3))
    save_file({"embedding.weight": table}, tmp_path / "model.safetensors")
    texts = ["a red dog", "", "what", "a dog sees a dog"]
    vectors = load_encoder(tmp_path).encode(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, library(tmp_path).encode(texts), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(vectors[0], table[1:4].mean(0), rtol=1e-6, atol=1e-7)
