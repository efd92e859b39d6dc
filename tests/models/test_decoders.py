"""Decoders: tiny random ones with a byte-level tokenizer of their own, as plain transformers code
computes them for each sentence alone.

Mutations caught: a last token that is padding; weights of positions from 0; a mean over the
template; a template that is cut; a bfloat16 model whose rotations are rounded, too; an adapter that
is not merged, or merged twice.
"""

import json
import shutil
from functools import cache

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from bench.models import encoder as encoders
from bench.models.encoder import TransformerEncoder
from bench.models.load import Model, ModularEncoder, load_encoder, save_encoder
from bench.registry.backbones import fingerprint
from tests.conftest import make_sentences
from tests.models.folders import change, pooling, refused, write

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 320, "initializer_range": 0.15}
HEADS = {"num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 64}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 320}
KINDS = {
    "qwen3": ("Qwen3Config", SIZES | HEADS | {"num_key_value_heads": 2, "head_dim": 8}),
    "llama": ("LlamaConfig", SIZES | HEADS | {"num_key_value_heads": 2}),
    "gpt2": ("GPT2Config", GPT2 | {"initializer_range": 0.15}),
    "mamba": ("MambaConfig", SIZES | {"state_size": 8}),
}
POOLERS = ("last", "weighted_mean", "avg", "avg_first_last")
SENTENCES = [*make_sentences(6, seed=4), 'Ein Café, naïve – 不了 "2" cats', "x", "a, b"]
PROMPT = 'This sentence : "<sentence>" means in one word:"'  # PromptEOL
ECHO = "Rewrite, please: <sentence>\nrewritten: <sentence> ."
# Of float32, relative to the largest value: ten times what was measured.
CLOSE = 1e-5


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folder of a tiny decoder of a kind; Llama's and GPT-2's tokenizers have no padding."""
    root = tmp_path_factory.mktemp("decoders")
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    words.train_from_iterator(
        make_sentences(200, seed=1),
        trainers.BpeTrainer(
            vocab_size=320, special_tokens=["<s>", "</s>"], initial_alphabet=letters
        ),
    )

    @cache
    def folder(kind):
        name, values = KINDS[kind]
        config = getattr(transformers, name)(**values, bos_token_id=0, eos_token_id=1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            transformers.AutoModel.from_config(config).save_pretrained(root / kind)
        around = {"qwen3": "$A </s>", "llama": "<s> $A"}.get(kind)
        special = [("<s>", 0), ("</s>", 1)]
        words.post_processor = (
            processors.TemplateProcessing(single=around, special_tokens=special)
            if around
            else processors.ByteLevel(trim_offsets=False)
        )
        padding = {"pad_token": "</s>"} if kind in ("qwen3", "mamba") else {}
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=words, bos_token="<s>", eos_token="</s>", **padding
        ).save_pretrained(root / kind)
        return root / kind

    return folder


@cache
def plain(folder, dtype=torch.float32):
    model = transformers.AutoModel.from_pretrained(folder, dtype=dtype).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def expected(folder, pooler, text, letters=None, dtype=torch.float32):
    """The vector of a text alone; of the tokens with any of its `letters`, from and up to."""
    model, tokenizer = plain(folder, dtype)
    encoded = tokenizer(text, return_offsets_mapping=True)
    ids, places = encoded["input_ids"] or [tokenizer.eos_token_id], encoded["offset_mapping"]
    with torch.no_grad():
        output = model(torch.tensor([ids]), output_hidden_states=True)
    layers = [layer[0].double() for layer in output.hidden_states]
    states = (layers[1] + layers[-1]) / 2 if pooler == "avg_first_last" else layers[-1]
    if pooler == "last":
        return states[-1].numpy()
    total, weights = torch.zeros(32, dtype=torch.float64), 0
    for index, state in enumerate(states):
        if letters is None or set(range(*letters)) & set(range(*places[index])):
            weight = index + 1 if pooler == "weighted_mean" else 1
            total, weights = total + weight * state, weights + weight
    return (total / weights).numpy()


def check(found, wanted, close=CLOSE):
    wanted = np.stack(wanted)
    assert found.dtype == np.float32
    assert np.abs(found - wanted).max() <= close * np.abs(wanted).max()


@pytest.mark.parametrize("pooler", POOLERS)
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_those_of_each_sentence_alone(kind, pooler, folders, monkeypatch):
    """In several batches, with padding and without."""
    monkeypatch.setattr(encoders, "ALONE", 64)
    texts = [*SENTENCES, ""]
    found = load_encoder(folders(kind), pooler=pooler).encode(texts)
    check(found, [expected(folders(kind), pooler, text) for text in texts])
