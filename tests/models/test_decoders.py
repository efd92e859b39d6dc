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
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from bench.models.encoder import TransformerEncoder
from bench.models.library import LibraryEncoder
from bench.models.load import load_encoder, save_encoder
from bench.utils.files import read_json
from tests.support.model_folders import change, change_weights, pooling, prompts, refused, write
from tests.support.tiny_backbones import make_sentences

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 320, "initializer_range": 0.15}
SIZES |= {"bos_token_id": 0, "eos_token_id": 1}
HEADS = {"num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 160}
# States of width 32 between layers, vectors of width 16, as OPT-350M has them.
NARROW = {"num_attention_heads": 4, "ffn_dim": 48, "word_embed_proj_dim": 16}
NARROW |= {"do_layer_norm_before": False, "max_position_embeddings": 160, "init_std": 0.15}
# Kind -> its configuration, and how its tokenizer surrounds a text.
KINDS = {
    "qwen3": ("Qwen3Config", HEADS | {"num_key_value_heads": 2, "head_dim": 8}, "$A </s>"),
    "llama": ("LlamaConfig", HEADS | {"num_key_value_heads": 2}, "<s> $A"),
    "gpt2": ("GPT2Config", {"n_head": 4, "n_positions": 160}, "$A"),
    "mamba": ("MambaConfig", {"state_size": 8}, "$A"),
    "opt": ("OPTConfig", NARROW, "$A"),
}
POOLERS = ("last", "weighted_mean", "avg")
SENTENCES = [*make_sentences(6, seed=4), 'Ein Café, naïve – 不了 "2" cats', "x", "a, b"]
PROMPT = 'This sentence : "<sentence>" means in one word:"'  # PromptEOL


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folder of a tiny decoder of a kind; only Qwen3's tokenizer has a token for padding."""
    root, special = tmp_path_factory.mktemp("decoders"), [("<s>", 0), ("</s>", 1)]
    words, letters = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel.alphabet()
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    options = {"vocab_size": 320, "special_tokens": ["<s>", "</s>"], "initial_alphabet": letters}
    texts = [*make_sentences(200, seed=1), *20 * [PROMPT]]
    words.train_from_iterator(texts, trainers.BpeTrainer(**options))

    @cache
    def folder(kind):
        name, values, single = KINDS[kind]
        config = getattr(transformers, name)(**SIZES, **values)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            transformers.AutoModel.from_config(config).save_pretrained(root / kind)
        words.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
        tokens = {"bos_token": "<s>", "eos_token": "</s>"}
        tokens |= {"pad_token": "</s>"} if kind == "qwen3" else {}
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, **tokens)
        tokenizer.save_pretrained(root / kind)
        return root / kind

    return folder


@cache
def plain(folder, dtype=torch.float32):
    model = transformers.AutoModel.from_pretrained(folder, dtype=dtype).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def expected(folder, pooler, text, dtype=torch.float32):
    """The vector of a text alone."""
    model, tokenizer = plain(folder, dtype)
    ids = tokenizer(text)["input_ids"] or [tokenizer.eos_token_id]
    with torch.no_grad():
        states = model(torch.tensor([ids])).last_hidden_state[0].double()
    if pooler == "last":
        return states[-1].numpy()
    weights = torch.arange(1, len(ids) + 1.0) if pooler == "weighted_mean" else torch.ones(len(ids))
    return ((weights[:, None] * states).sum(0) / weights.sum()).numpy()


def check(vectors, wanted, close=1e-5):  # of the largest value: ten times the rounding of float32
    wanted = np.stack(wanted)
    assert vectors.dtype == np.float32
    assert np.abs(vectors - wanted).max() <= close * np.abs(wanted).max()


def test_what_is_saved_can_be_read_by_transformers_4(folders, tmp_path):
    """Without the keys that only 5 knows, it is the same encoder."""
    made, saved = shutil.copytree(folders("llama"), tmp_path / "made"), tmp_path / "saved"
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
def test_vectors_are_those_of_each_sentence_alone(kind, pooler, folders):
    """Of blank sentences, too; the text of a prompt and a template stand around a sentence."""
    texts = [*SENTENCES, ""]
    for options, around in (
        ({}, "<sentence>"),
        ({"template": PROMPT}, PROMPT),
        ({"prompt": "query: "}, "query: <sentence>"),
    ):
        encoder = load_encoder(folders(kind), pooler=pooler, **options)
        assert isinstance(encoder, LibraryEncoder)
        wanted = [
            expected(folders(kind), pooler, around.replace("<sentence>", text))
            for text in texts
            if text or options.get("prompt") is None
        ]
        check(encoder.encode(texts[: len(wanted)]), wanted)


def test_a_template_of_chats_is_left_out(folders, tmp_path):
    folder = shutil.copytree(folders("qwen3"), tmp_path / "chats")
    chats = "{% for m in messages %}<s>{{ m['role'] }} {{ m['content'] }}{% endfor %}"
    change(folder / "tokenizer_config.json", chat_template=chats, padding_side="left")
    vectors = load_encoder(folder, pooler="last").encode(SENTENCES)
    check(vectors, [expected(folders("qwen3"), "last", text) for text in SENTENCES])


def test_a_template_whose_end_would_be_cut_is_refused(folders):
    encoder = load_encoder(folders("qwen3"), pooler="last", template=PROMPT)
    refused(lambda: encoder.encode([400 * "q"]), "the model takes 160", "end of the template")


def test_options_are_part_of_the_identity(folders):
    options = [{}, {"template": PROMPT}, {"prompt": "query: "}, {"dtype": "bfloat16"}]
    made = [load_encoder(folders("llama"), pooler="last", **chosen) for chosen in options]
    assert len({encoder.identity for encoder in made}) == 4


def test_the_first_dimensions_come_before_the_length(folders):
    first = load_encoder(folders("qwen3"), pooler="last").encode(SENTENCES)[:, :8]
    encoder = load_encoder(folders("qwen3"), pooler="last", dims=8, normalize=True)
    lengths = np.linalg.norm(first, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(SENTENCES), first / lengths, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_is_that_of_transformers(kind, folders, capsys):
    """Weights and buffers are equal bit for bit; products round by batch, without a warning."""
    encoder = load_encoder(folders(kind), pooler="weighted_mean", dtype="bfloat16")
    assert capsys.readouterr().err == ""
    model, _ = plain(folders(kind), torch.bfloat16)
    ours, theirs = (dict(m.named_buffers()) | m.state_dict() for m in (encoder.model, model))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    options = folders(kind), "weighted_mean"
    wanted = [expected(*options, text, torch.bfloat16) for text in SENTENCES]
    check(encoder.encode(SENTENCES), wanted, close=0.02)


@pytest.mark.parametrize(("mode", "pooler"), [("lasttoken", "last"), ("mean", "avg")])
def test_a_folder_of_modules_is_read_by_them(mode, pooler, folders, tmp_path):
    """As Qwen3-Embedding has them: padded on the left, normalised, with a prompt by name."""
    folder = shutil.copytree(folders("qwen3"), tmp_path / "modules")
    change(folder / "tokenizer_config.json", padding_side="left")
    prompts(write(folder, pooling(pooling_mode=mode), {"kind": "Normalize"}), query="query: ")
    wanted = [expected(folders("qwen3"), pooler, f"query: {text}") for text in SENTENCES]
    check(load_encoder(folder, prompt="query").encode(SENTENCES), wanted)
    lengths = np.linalg.norm(wanted, axis=1, keepdims=True)
    normal = load_encoder(folder, prompt="query: ", normalize=True)
    check(normal.encode(SENTENCES), np.stack(wanted) / lengths)


@pytest.mark.parametrize("pooler", ["avg_top2", "avg_first_last_64", "cls"])
def test_a_pooler_that_the_library_lacks_is_refused(pooler, folders):
    words = f"pooler '{pooler}' is there for BERT and RoBERTa", "which has avg, cls_before_pooler"
    refused(lambda: load_encoder(folders("gpt2"), pooler=pooler), *words)


def test_the_first_token_of_a_decoder_is_refused(folders):
    refused(lambda: load_encoder(folders("gpt2"), pooler="cls_before_pooler"), "is not [CLS]")


def test_weights_that_the_library_would_draw_are_refused(folders, tmp_path):
    folder, name = shutil.copytree(folders("gpt2"), tmp_path / "model"), "h.1.ln_1.weight"
    change_weights(folder, lambda weights: {key: weights[key] for key in weights if key != name})
    refused(lambda: load_encoder(folder, pooler="avg"), f"lack {name}, which would be random")
