"""Folders of saved encoders in sentence-transformers.

Mutations caught: `cls` without its dense layer; the embedding layer in place of the first; a map
before that of its base; modules of a transformer whose first token has a type.
"""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from bench.models.encoder import TransformerEncoder
from bench.models.load import save_encoder
from bench.models.options import POSITIONS
from methods.base import POOLERS
from methods.whitening import Whitened
from methods.word_overlap import BagOfWords
from tests.support.fixed_vectors import affine
from tests.support.model_folders import copy_with_pooler

SENTENCES = ["", "a", "The old DOG sees two birds", " ".join(20 * ["the old dog sees"])]
SENTENCES += ["unknownword ☃ sleeps", "a man"]


def transformer(folder, pooler="avg"):
    return TransformerEncoder.load(folder, {"pooler": pooler})


def head(base, inner, outer, seed, tanh):
    """A dense layer, with a weight as a projection has it, in float64."""
    draw = torch.Generator().manual_seed(seed)
    weight = torch.randn(outer, inner, generator=draw, dtype=torch.float64) / 6
    return affine(base, weight, torch.randn(outer, generator=draw), tanh)


@pytest.fixture
def encoder(name, tiny_bert, tiny_roberta, tmp_path):
    backbone, pooler = name.split()
    if backbone == "roberta":
        return transformer(tiny_roberta, pooler)
    base = transformer(copy_with_pooler(tiny_bert, tmp_path / "pooler", 1 / 6), pooler)
    return head(head(base, 32, 40, 1, True), 40, 8, 2, False) if backbone == "heads" else base


NAMES = [f"bert {pooler}" for pooler in POOLERS if pooler not in POSITIONS]
NAMES += ["roberta avg", "roberta avg_first_last", "heads cls", "heads avg_top2"]


@pytest.mark.parametrize("name", NAMES)
def test_sentence_transformers_opens_a_saved_encoder(name, encoder, tmp_path):
    folder, vectors = tmp_path / "saved", encoder.encode(SENTENCES)
    save_encoder(encoder, folder)
    library = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    np.testing.assert_allclose(library.encode(SENTENCES), vectors, rtol=1e-5, atol=1e-5)
    assert library.max_seq_length == 64


@pytest.mark.parametrize(
    "make",
    {
        "fitted on each task": lambda folder: Whitened(transformer(folder), {}, dimensions=None),
        "a head of that": lambda folder: head(
            Whitened(transformer(folder), {}, dimensions=None), 32, 8, 1, True
        ),
        "a fixed number of positions": lambda folder: transformer(folder, "avg_first_last_64"),
        "no transformer": lambda folder: BagOfWords(64),
    }.items(),
    ids=lambda item: item[0],
)
def test_what_the_library_cannot_compute_has_no_modules(make, tiny_bert, tmp_path):
    save_encoder(make[1](tiny_bert), tmp_path / "saved")
    assert not (tmp_path / "saved" / "modules.json").exists()


@pytest.mark.parametrize(
    "setting",
    [{"padding_side": "left"}, {"token_type_ids": [0, 1]}, {"input_ids": []}],
)
def test_token_ids_that_the_library_reads_otherwise_have_no_modules(setting, tiny_bert, tmp_path):
    encoder = transformer(tiny_bert)

    class Tokenizer(type(encoder.tokenizer)):
        def __call__(self, text, **options):
            return {**super().__call__(text, **options), **setting}

    encoder.tokenizer.__class__ = Tokenizer
    encoder.tokenizer.padding_side = setting.get("padding_side", "right")
    save_encoder(encoder, tmp_path / "saved")
    assert not (tmp_path / "saved" / "modules.json").exists()
