"""Decoders: tiny random ones with a byte-level tokenizer, as plain transformers code computes them
for each sentence alone.

Mutations caught: a last token that is padding; weights of positions from 0; padding on the left of
positions that are counted; a text in a template of chats; a template that is cut.
"""

import shutil
from functools import cache

import numpy as np
import pytest
import torch
import transformers

from bench.models.encoder import TransformerEncoder
from bench.models.library import LibraryEncoder
from bench.models.load import load_encoder, save_encoder
from bench.utils.files import read_json
from tests.oracles.poolers import pooled_alone
from tests.support.model_folders import change, pooling, prompts, write
from tests.support.refusals import refused
from tests.support.tiny_backbones import make_sentences
from tests.support.tiny_decoders import KINDS, PROMPT

POOLERS = ("last", "weighted_mean", "avg")
SENTENCES = [*make_sentences(6, seed=4), 'Ein Café, naïve – 不了 "2" cats', "x", "a, b"]


@cache
def plain(folder, dtype=torch.float32):
    model = transformers.AutoModel.from_pretrained(folder, dtype=dtype).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def expected(folder, pooler, text, dtype=torch.float32):
    """The vector of a text alone; of one without tokens, that of the end of text."""
    model, tokenizer = plain(folder, dtype)
    text = text if tokenizer(text)["input_ids"] else tokenizer.eos_token
    return pooled_alone(model, tokenizer, text, pooler, 2)


def check(vectors, wanted, close=1e-5):  # of the largest value: ten times the rounding of float32
    wanted = np.stack(wanted)
    assert vectors.dtype == np.float32
    assert np.abs(vectors - wanted).max() <= close * np.abs(wanted).max()


def test_what_is_saved_can_be_read_by_transformers_4(decoders, tmp_path):
    """Without the keys that only 5 knows, it is the same encoder."""
    made, saved = shutil.copytree(decoders("llama"), tmp_path / "made"), tmp_path / "saved"
    rotations = {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}
    change(made / "config.json", rope_parameters=rotations)
    change(made / "tokenizer_config.json", extra_special_tokens=["<s>"])
    encoder = TransformerEncoder.load(made, {"pooler": "avg"})
    save_encoder(encoder, saved)
    assert load_encoder(saved).identity == encoder.identity
    tokenizer = read_json(saved / "tokenizer_config.json")
    assert tokenizer["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert "extra_special_tokens" not in tokenizer
    change(saved / "config.json", rope_parameters=None)
    change(saved / "encoder.json", sha256=None)
    assert load_encoder(saved).identity == encoder.identity


@pytest.mark.parametrize("pooler", POOLERS)
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_those_of_each_sentence_alone(kind, pooler, decoders):
    """Of blank sentences, too; the text of a prompt and a template stand around a sentence."""
    texts = [*SENTENCES, ""]
    for options, around in (
        ({}, "<sentence>"),
        ({"template": PROMPT}, PROMPT),
        ({"prompt": "query: "}, "query: <sentence>"),
    ):
        encoder = load_encoder(decoders(kind), pooler=pooler, **options)
        assert isinstance(encoder, LibraryEncoder)
        wanted = [
            expected(decoders(kind), pooler, around.replace("<sentence>", text))
            for text in texts
            if text or options.get("prompt") is None
        ]
        check(encoder.encode(texts[: len(wanted)]), wanted)


def test_a_template_of_chats_is_left_out(decoders, tmp_path):
    folder = shutil.copytree(decoders("qwen3"), tmp_path / "chats")
    chats = "{% for m in messages %}<s>{{ m['role'] }} {{ m['content'] }}{% endfor %}"
    change(folder / "tokenizer_config.json", chat_template=chats, padding_side="left")
    vectors = load_encoder(folder, pooler="last").encode(SENTENCES)
    check(vectors, [expected(decoders("qwen3"), "last", text) for text in SENTENCES])


def test_a_template_whose_end_would_be_cut_is_refused(decoders):
    encoder = load_encoder(decoders("qwen3"), pooler="last", template=PROMPT)
    refused(lambda: encoder.encode([400 * "q"]), "the model takes 160", "end of the template")


def test_options_are_part_of_the_identity(decoders):
    options = [{}, {"template": PROMPT}, {"prompt": "query: "}, {"dtype": "bfloat16"}]
    made = [load_encoder(decoders("llama"), pooler="last", **chosen) for chosen in options]
    assert len({encoder.identity for encoder in made}) == 4


def test_the_first_dimensions_come_before_the_length(decoders):
    first = load_encoder(decoders("qwen3"), pooler="last").encode(SENTENCES)[:, :8]
    encoder = load_encoder(decoders("qwen3"), pooler="last", dims=8, normalize=True)
    lengths = np.linalg.norm(first, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(SENTENCES), first / lengths, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_is_that_of_transformers(kind, decoders, capsys):
    """Weights and buffers are equal bit for bit; products round by batch, without a warning."""
    encoder = load_encoder(decoders(kind), pooler="weighted_mean", dtype="bfloat16")
    assert capsys.readouterr().err == ""
    model, _ = plain(decoders(kind), torch.bfloat16)
    ours, theirs = (dict(m.named_buffers()) | m.state_dict() for m in (encoder.model, model))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    options = decoders(kind), "weighted_mean"
    wanted = [expected(*options, text, torch.bfloat16) for text in SENTENCES]
    check(encoder.encode(SENTENCES), wanted, close=0.02)


@pytest.mark.parametrize(("mode", "pooler"), [("lasttoken", "last"), ("mean", "avg")])
def test_a_folder_of_modules_is_read_by_them(mode, pooler, decoders, tmp_path):
    """As Qwen3-Embedding has them: padded on the left, normalised, with a prompt by name."""
    folder = shutil.copytree(decoders("qwen3"), tmp_path / "modules")
    change(folder / "tokenizer_config.json", padding_side="left")
    prompts(write(folder, pooling(pooling_mode=mode), {"kind": "Normalize"}), query="query: ")
    wanted = [expected(decoders("qwen3"), pooler, f"query: {text}") for text in SENTENCES]
    check(load_encoder(folder, prompt="query").encode(SENTENCES), wanted)
    lengths = np.linalg.norm(wanted, axis=1, keepdims=True)
    normal = load_encoder(folder, prompt="query: ", normalize=True)
    check(normal.encode(SENTENCES), np.stack(wanted) / lengths)
