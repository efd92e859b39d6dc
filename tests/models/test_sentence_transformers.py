"""Folders of sentence-transformers, against a literal interpreter of their files and the library.

Mutations caught: another pooling than the folder's; a prompt that is left out, or counted where the
folder excludes it; a module behind the pooling that is left out; a final Normalize that is kept;
a maximum length or lowercasing that is not the folder's.
"""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers

from bench.models.encoder import TransformerEncoder
from bench.models.load import ModularEncoder, load_encoder
from tests.oracles.literal_modules import literal
from tests.support.model_folders import change, dense, entry, pooling, prompts, write
from tests.support.tiny_backbones import CLOSE

SENTENCES = ["", "a", "The old DOG sees two birds", " ".join(20 * ["two small birds"])]
SENTENCES += ["unknownword ☃ sleeps"]
NORMALIZE = {"kind": "Normalize"}
MIXED = {"layer_weights": torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0])}
MIXING = {"word_embedding_dimension": 32, "layer_start": 0, "num_hidden_layers": 4}
MIXTURE = {"kind": "WeightedLayerPooling", "config": MIXING, "tensors": MIXED}
# Modules behind a transformer, and what encodes.
STACKS = {
    "mean": ([pooling()], TransformerEncoder),
    "today's mean": ([pooling(pooling_mode="mean", include_prompt=True)], TransformerEncoder),
    "cls": ([pooling(pooling_mode="cls")], TransformerEncoder),
    "dense": ([pooling(), dense(32, 8, 1)], ModularEncoder),
    "dense without bias": (
        [pooling(pooling_mode_cls_token=True), dense(32, 40, 2, tanh=False, bias=False)],
        ModularEncoder,
    ),
    "normalised between": (
        [pooling(), NORMALIZE, dense(32, 8, 3), dense(8, 5, 4, tanh=False)],
        ModularEncoder,
    ),
    "a mean of layers": ([MIXTURE, pooling()], ModularEncoder),
}


def library(folder):
    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


@pytest.mark.parametrize("name", STACKS)
def test_modules_equal_a_literal_interpreter(tiny_backbone, tmp_path, name):
    modules, kind = STACKS[name]
    folder = write(shutil.copytree(tiny_backbone, tmp_path / "model"), *modules, longest=12)
    change(folder / "config.json", output_hidden_states=name == "a mean of layers")
    encoder = load_encoder(folder)
    assert isinstance(encoder, kind)
    vectors = encoder.encode(SENTENCES)
    np.testing.assert_allclose(vectors, literal(folder, SENTENCES), **CLOSE)
    np.testing.assert_allclose(vectors, library(folder).encode(SENTENCES), **CLOSE)


@pytest.mark.parametrize("mode", ["max", "lasttoken", ["mean", "cls"]])
def test_the_library_pools_what_we_do_not(copy, mode):
    prompts(write(copy, pooling(pooling_mode=mode), NORMALIZE), query="a dog ")
    encoder = load_encoder(copy, prompt="query")
    assert isinstance(encoder, ModularEncoder)
    vectors = encoder.encode(SENTENCES)
    wanted = library(copy).encode(SENTENCES, prompt_name="query")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    assert lengths.min() > 1.1  # the final Normalize is left out
    pooler = mode if isinstance(mode, str) else "('mean', 'cls')"
    assert encoder.loaded == {"pooler": pooler, "max_length": 64}
    np.testing.assert_allclose(vectors / lengths, wanted, **CLOSE)


def test_a_plain_folder_is_the_transformer_itself(copy):
    """So that its identity is that of the same transformer with the same pooler."""
    plain = load_encoder(copy, pooler="avg")
    write(copy, pooling(), NORMALIZE, NORMALIZE)
    assert load_encoder(copy).identity == plain.identity
    assert load_encoder(copy, pooler="avg_top2").pooler == "avg_top2"


def test_maximum_length_and_lowercasing_are_the_folders(copy, tiny_roberta, tmp_path):
    encoder = load_encoder(write(copy, pooling(), longest=5))
    assert len(encoder.tokenize([SENTENCES[3]])[0]) == 5
    assert encoder.loaded == {"pooler": "avg", "max_length": 5}
    assert load_encoder(copy, normalize=True).loaded == encoder.loaded
    cased = shutil.copytree(tiny_roberta, tmp_path / "cased")
    lowered = load_encoder(write(cased, pooling(), do_lower_case=True))
    plain, text = load_encoder(tiny_roberta, pooler="avg"), "The old DOG"
    assert np.array_equal(lowered.encode([text]), plain.encode([text.lower()]))
    assert not np.array_equal(plain.encode([text]), plain.encode([text.lower()]))


def test_a_prompt_is_prepended_to_each_sentence(copy):
    texts = {"query": "a dog sees ", "document": "the car ", "empty": ""}
    prompts(write(copy, pooling()), default="query", **texts)
    identities = set()
    for name, text in {None: "a dog sees ", "": "", **texts}.items():
        encoder = load_encoder(copy, prompt=name)
        identities.add(encoder.identity)
        wanted = literal(copy, SENTENCES, text)
        np.testing.assert_allclose(encoder.encode(SENTENCES), wanted, **CLOSE)
    assert len(identities) == 3


def test_a_prompt_excluded_from_pooling(copy):
    """Its three tokens and [CLS] are seen by the others and left out of the mean."""
    prompts(write(copy, pooling(include_prompt=False)), query="a dog sees ")
    encoder, own = load_encoder(copy, prompt="query"), load_encoder(copy)
    assert isinstance(encoder, ModularEncoder)
    assert isinstance(own, TransformerEncoder)
    for sentence in ("two birds", "the car"):
        ids = own.tokenizer([f"a dog sees {sentence}"], return_tensors="pt")
        with torch.no_grad():
            states = own.model.eval()(**ids).last_hidden_state[0]
        np.testing.assert_allclose(encoder.encode([sentence])[0], states[4:].mean(0), **CLOSE)


def test_the_identity_follows_files_that_decide_vectors_and_the_prompt(copy, tmp_path):
    prompts(write(copy, pooling(), dense(32, 8, 1)), query="a ")
    first, moved = load_encoder(copy).identity, shutil.copytree(copy, tmp_path / "moved")
    (moved / "README.md").write_text("of no consequence")
    assert load_encoder(moved).identity == first
    write(moved, pooling(), dense(32, 8, 2))
    changed, prompted = load_encoder(moved), load_encoder(copy, prompt="query")
    assert len({first, changed.identity, prompted.identity}) == 3


TABLE = torch.randn(5, 6, generator=torch.Generator().manual_seed(3))
TEXTS = {"a red dog": [1, 2, 3], "dog dog a": [3, 3, 1], "": [], "what": [0]}
TEXTS |= {"a dog sees a dog": [1, 3, 4, 1, 3]}
MAPPING, SHARES = torch.tensor([0, 2, 2, 1, 0]), torch.tensor([1.0, 0.5, 2.0, 3.0, 0.0])
# As model2vec maps token ids to rows, and weights them.
MODEL2VEC = {"embeddings": TABLE[:3].clone(), "mapping": MAPPING, "weights": SHARES}


@pytest.mark.parametrize(
    ("tensors", "table"),
    [({"embedding.weight": TABLE}, TABLE), (MODEL2VEC, SHARES[:, None] * TABLE[MAPPING])],
    ids=["a table", "model2vec"],
)
def test_a_static_model_is_the_mean_of_its_rows(tmp_path, tensors, table):
    listed = [entry(0, "", "StaticEmbedding"), entry(1, "", "Normalize")]
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    words = {word: number for number, word in enumerate(["[UNK]", "a", "red", "dog", "sees"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    save_file(tensors, tmp_path / "model.safetensors")
    vectors = load_encoder(tmp_path).encode(list(TEXTS))
    assert vectors.dtype == np.float32
    for vector, rows in zip(vectors, TEXTS.values(), strict=True):
        wanted = sum(table[row] for row in rows) / max(len(rows), 1) + torch.zeros(6)
        np.testing.assert_allclose(vector, wanted, rtol=1e-6, atol=1e-7)
