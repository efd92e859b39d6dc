"""Poolers with numbers: an earlier layer, contrastive prompting and token prepending, as plain
transformers code computes them for each sentence alone, layer by layer.

Mutations caught: the auxiliary text first; a last token that is padding; a token that is prepended
one place off, or after a layer; a layer, or an output, off by one.
"""

import numpy as np
import pytest
import torch

from bench.models import encoder as encoders
from bench.models.load import load_encoder, save_encoder
from tests.models.folders import refused
from tests.models.test_decoders import PROMPT, SENTENCES, check, plain
from tests.models.test_decoders import folders as folders

AUXILIARY = 'The irrelevant information of this sentence : "<sentence>" means in one word:"'
CONTRAST = f"{PROMPT} <contrast>\n{AUXILIARY}"
PREPEND = 'This sentence : <prepend> "<sentence>" means in one word:"'
TEMPLATES = {"last": PROMPT, "contrast": CONTRAST, "prepend": PREPEND}
POOLERS = [
    "last-0", "last-1", "last-2", "contrast-0-0.5-1", "contrast-0-0.5-2", "contrast-0-norm-2",
    "contrast-1-2-2", "contrast-1-norm-2", "prepend-0-1-2", "prepend-0-2-2", "prepend-1-2-2",
]  # fmt: skip


def heads(model, ids, layer):
    """What the output projection of a layer's attention receives at the last token."""
    seen = []
    projection = model.layers[layer].self_attn.o_proj
    with projection.register_forward_hook(lambda _, received, __: seen.append(received[0])):
        model(torch.tensor([ids]))
    return seen[0][0, -1]


def expected(folder, pooler, sentence, template=None):
    """The vector of a sentence alone, with the layers called one by one."""
    model, tokenizer = plain(folder)
    kind, *numbers = pooler.split("-")
    texts = (template or TEMPLATES[kind]).replace("<sentence>", sentence).split("<contrast>")
    ids, *others = (
        tokenizer(text.strip().replace("<prepend>", tokenizer.eos_token))["input_ids"]
        for text in texts
    )
    with torch.no_grad():
        states = model.embed_tokens(torch.tensor([ids]))
        angles = model.rotary_emb(states, torch.arange(len(ids))[None])
        for index, layer in enumerate(model.layers[: int(numbers[-1])]):
            if kind == "prepend" and int(numbers[0]) <= index < int(numbers[1]):
                states = states.clone()
                states[0, ids.index(tokenizer.eos_token_id)] = states[0, -1]
            before, states = states, layer(states, position_embeddings=angles)
            if kind == "contrast" and index == int(numbers[0]):
                normal, auxiliary = (heads(model, row, index) for row in (ids, *others))
                change = normal - auxiliary
                change *= normal.norm() / change.norm() if "norm" in numbers else float(numbers[1])
                last = before[0, -1] + layer.self_attn.o_proj(change)
                states[0, -1] = last + layer.mlp(layer.post_attention_layernorm(last))
        if int(numbers[-1]) == len(model.layers):
            states = model.norm(states)
    return states[0, -1].double().numpy()


def apart(found, wanted):
    """The largest difference, relative to the largest value."""
    return np.abs(found - np.stack(wanted)).max() / np.abs(wanted).max()


def encoded(folder, pooler, **options):
    template = TEMPLATES[pooler.partition("-")[0]]
    return load_encoder(folder, pooler=pooler, **{"template": template, **options})


@pytest.mark.parametrize("pooler", POOLERS)
@pytest.mark.parametrize("kind", ["qwen3", "llama"])
def test_vectors_are_those_of_each_sentence_alone(kind, pooler, folders, monkeypatch):
    """In several batches, with padding."""
    monkeypatch.setattr(encoders, "ALONE", 200)
    found = encoded(folders(kind), pooler).encode([*SENTENCES, ""])
    wanted = [expected(folders(kind), pooler, text) for text in [*SENTENCES, ""]]
    check(found, wanted)


@pytest.mark.parametrize("kind", ["qwen3", "llama", "gpt2", "mamba"])
def test_the_last_of_all_layers_is_the_pooler_last(kind, folders):
    for template in (None, PROMPT):
        ours, usual = (
            load_encoder(folders(kind), pooler=name, template=template).encode(SENTENCES)
            for name in ("last-2", "last")
        )
        np.testing.assert_array_equal(ours, usual)


def test_bfloat16_and_dropout_steer_too(folders):
    for pooler in ("contrast-0-0.5-2", "prepend-1-2-2"):
        encoder = encoded(folders("qwen3"), pooler)
        vectors = encoder.encode(SENTENCES)
        half = encoded(folders("qwen3"), pooler, dtype="bfloat16").encode(SENTENCES)
        assert 1e-4 < apart(half, vectors) < 0.05
        assert apart(encoder.encode_with_dropout(SENTENCES, seed=1), vectors) < 1e-5  # rate 0


def test_a_saved_encoder_is_the_same(folders, tmp_path):
    seen = set()
    for pooler in POOLERS:
        encoder = encoded(folders("llama"), pooler)
        save_encoder(encoder, tmp_path / pooler)
        again = load_encoder(tmp_path / pooler)
        assert again.identity == encoder.identity
        np.testing.assert_array_equal(again.encode(SENTENCES), encoder.encode(SENTENCES))
        seen.add(encoder.identity)
    assert len(seen) == len(POOLERS)


def test_a_long_sentence_is_cut_in_both_texts(folders):
    """Both fill the model; the vector is that of the sentence that fits in each."""
    encoder = encoded(folders("qwen3"), "contrast-0-0.5-2")
    tokens, others = encoder._spanned([80 * "the old dog sees "])
    assert {150 < len(row) <= 160 for row in (*tokens, *others)} == {True}
    assert np.isfinite(encoder.encode([80 * "the old dog sees "])).all()


@pytest.mark.parametrize(
    ("pooler", "template"),
    [
        ("contrast-0-0.5-2", None), ("contrast-0-0.5-2", PROMPT), ("contrast-0-0.5-2", PREPEND),
        ("contrast-0-0.5-2", "<sentence> <contrast> none"), ("last", CONTRAST),
        ("contrast-0-0.5-2", f"{CONTRAST} <contrast> {PROMPT}"), ("last-1", PREPEND),
        ("contrast-0-norm-2", f"{PROMPT} <contrast> {PROMPT}"), ("avg", PREPEND),
        ("prepend-0-1-2", "<sentence> <prepend>"), ("prepend-0-1-2", f"<prepend> {PREPEND}"),
        ("avg_first_last_64", PROMPT), ("last", "none"), ("last", ""),
    ],
)  # fmt: skip
def test_marks_that_do_not_fit_a_pooler_are_refused(pooler, template, folders):
    refused(
        lambda: load_encoder(folders("llama"), pooler=pooler, template=template),
        "lacks <sentence>, or does not fit",
    )


@pytest.mark.parametrize(
    ("kind", "pooler"),
    [
        ("llama", "contrast-2-0.5-2"), ("llama", "contrast-0-0.5-3"), ("llama", "last-3"),
        ("llama", "prepend-1-3-2"), ("llama", "prepend-1-1-2"), ("gpt2", "contrast-0-0.5-2"),
        ("gpt2", "prepend-0-1-2"), ("mamba", "contrast-0-0.5-2"), ("llama", "contrast-1-0.5-1"),
        ("llama", "prepend-1-2-1"),
    ],
)  # fmt: skip
def test_layers_that_a_model_lacks_are_refused(kind, pooler, folders):
    refused(lambda: encoded(folders(kind), pooler), "names a layer that the")


@pytest.mark.parametrize("pooler", ["contrast-0-0.5", "contrast-0--1-2", "last-", "prepend-1-2"])
def test_names_with_too_few_numbers_are_refused(pooler):
    refused(lambda: load_encoder("a", pooler=pooler), "with numbers there are last-OUTPUT")
