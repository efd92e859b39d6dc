"""Decoders: tiny random ones with a byte-level tokenizer, as plain transformers code computes them
for each sentence alone.

Mutations caught: a last token that is padding; weights of positions from 0; a mean over the
template; a template that is cut; rotations rounded to bfloat16; a layer off by one.
"""

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
from bench.utils.files import read_json
from tests.support.model_folders import change, pooling, refused, write
from tests.support.tiny_backbones import make_sentences

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 320, "initializer_range": 0.15}
SIZES |= {"bos_token_id": 0, "eos_token_id": 1}
HEADS = {"num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 160}
# Kind -> its configuration, and how its tokenizer surrounds a text.
KINDS = {
    "qwen3": ("Qwen3Config", HEADS | {"num_key_value_heads": 2, "head_dim": 8}, "$A </s>"),
    "llama": ("LlamaConfig", HEADS | {"num_key_value_heads": 2}, "<s> $A"),
    "gpt2": ("GPT2Config", {"n_head": 4, "n_positions": 160}, "$A"),
    "mamba": ("MambaConfig", {"state_size": 8}, "$A"),
}
POOLERS = ("last", "last-0", "last-1", "last-2", "weighted_mean", "avg")
SENTENCES = [*make_sentences(6, seed=4), 'Ein Café, naïve – 不了 "2" cats', "x", "a, b"]
PROMPT = 'This sentence : "<sentence>" means in one word:"'  # PromptEOL
ECHO = "Rewrite, please: <sentence>\nrewritten: <sentence> ."


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
        given = {"bos_token": "<s>", "eos_token": "</s>"}
        given |= {"pad_token": "</s>"} if kind == "qwen3" else {}
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, **given)
        tokenizer.save_pretrained(root / kind)
        return root / kind

    return folder


@cache
def plain(folder, dtype=torch.float32):
    model = transformers.AutoModel.from_pretrained(folder, dtype=dtype).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def expected(folder, pooler, text, part, dtype=torch.float32):
    """The vector of a text alone; a mean is of tokens with a letter of `part`, if it has any."""
    model, tokenizer = plain(folder, dtype)
    encoded = tokenizer(text, return_offsets_mapping=True)
    ids, places = encoded["input_ids"] or [tokenizer.eos_token_id], encoded["offset_mapping"]
    with torch.no_grad():
        layers = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
    if pooler.startswith("last"):
        return layers[int(pooler.removeprefix("last-")) if "-" in pooler else -1][0, -1].double()
    states = layers[-1][0].double().numpy()
    letters, is_whole = {*range(*part)}, part == (0, len(text)) or part[0] == part[1]
    seen = [i for i in range(len(ids)) if is_whole or letters & {*range(*places[i])}]
    weights = [i + 1 if pooler == "weighted_mean" else 1 for i in seen]
    return sum(w * states[i] for w, i in zip(weights, seen, strict=True)) / sum(weights)


def check(found, wanted, close=1e-5):  # of the largest value: ten times the rounding of float32
    wanted = np.stack(wanted)
    assert found.dtype == np.float32
    assert np.abs(found - wanted).max() <= close * np.abs(wanted).max()


def around(template, sentence):
    """The text, and where the last sentence begins and ends in it."""
    start = len(template.rpartition("<sentence>")[0].replace("<sentence>", sentence))
    return template.replace("<sentence>", sentence), (start, start + len(sentence))


def test_what_is_saved_can_be_read_by_transformers_4(folders, tmp_path):
    """Without the keys that only 5 knows, it is the same encoder."""
    made, saved = shutil.copytree(folders("llama"), tmp_path / "made"), tmp_path / "saved"
    rotations = {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}
    change(made / "config.json", rope_parameters=rotations)
    change(made / "tokenizer_config.json", extra_special_tokens=["<s>"])
    encoder = load_encoder(made, pooler="avg")
    save_encoder(encoder, saved)
    assert load_encoder(saved).identity == encoder.identity
    tokenizer = read_json(saved / "tokenizer_config.json")
    assert tokenizer["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert "extra_special_tokens" not in tokenizer
    change(saved / "config.json", rope_parameters=None)
    change(saved / "encoder.json", sha256=None)
    assert load_encoder(saved).identity == encoder.identity


@pytest.mark.parametrize("pooler", POOLERS)
@pytest.mark.parametrize("template", [None, PROMPT, ECHO])
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_those_of_each_sentence_alone(kind, template, pooler, folders, monkeypatch):
    """In several batches; of PromptEOL, and of echo, whose mean sees the second sentence alone."""
    monkeypatch.setattr(encoders, "ALONE", 200)
    found = load_encoder(folders(kind), pooler=pooler, template=template).encode([*SENTENCES, ""])
    texts = [around(template or "<sentence>", text) for text in [*SENTENCES, ""]]
    check(found, [expected(folders(kind), pooler, text, part) for text, part in texts])


@pytest.mark.parametrize("sentence", [60 * "the old dog sees ", 80 * "不了", 400 * "q"])
def test_a_long_sentence_is_cut_and_its_template_stays_whole(sentence, folders):
    encoder = load_encoder(folders("qwen3"), pooler="avg", template=ECHO)
    tokens = encoder.tokenize([sentence])[0]
    text = encoder.tokenizer.decode(tokens)
    cut = text.removeprefix("Rewrite, please: ").partition("\n")[0]
    assert sentence.startswith(cut)
    assert text == ECHO.replace("<sentence>", cut) + "</s>"
    assert 150 < len(tokens) <= 160
    long = load_encoder(folders("qwen3"), pooler="avg", template=200 * "q " + "<sentence>")
    refused(lambda: long.encode(["a"]), "alone has", "the model takes 160; shorten it")


def test_template_and_type_are_part_of_the_identity_and_kept(folders, tmp_path):
    options, seen = [{}, {"template": PROMPT}, {"template": ECHO}, {"dtype": "bfloat16"}], set()
    for index, chosen in enumerate(options):
        encoder = load_encoder(folders("llama"), pooler="last", **chosen)
        save_encoder(encoder, tmp_path / str(index))
        again = load_encoder(tmp_path / str(index))
        again.read_tokens(SENTENCES, tmp_path)  # of this tokenizer with another template
        assert again.identity == encoder.identity
        np.testing.assert_array_equal(again.encode(SENTENCES), encoder.encode(SENTENCES))
        seen.add(encoder.identity)
    assert len(seen) == len(options)
    refused(lambda: load_encoder(tmp_path / "0", dtype="bfloat16"), "omit template and dtype")


def test_a_template_in_brackets_may_have_commas_and_brackets():
    assert Model.read(f"a[template={PROMPT},pooler=last]") == Model("a", "last", template=PROMPT)
    for template in (
        ECHO,
        "Well, then, <sentence>",
        "[INST] Hi, you: <sentence> [/INST]",
        " <sentence>, in short, it is ",
    ):
        model = Model("a/b", "last", template=template, dims=8, dtype="bfloat16", normalize=True)
        assert Model.read(model.label) == Model.stored(model.describe()) == model
    model = Model("a/b", "last-27", template=f"{PROMPT}\n{ECHO}")
    assert Model.read(model.label) == model
    for options, words in (
        ("template=x=1, y=<sentence>", "unknown option 'y'"),
        ("template=[INST] <sentence> [/INST", "an unmatched bracket"),
        ("dims=few", "dims 'few'"),
        ("dims=4,dims=5", "'dims' is given twice"),
    ):
        refused(lambda options=options: Model.read(f"a[{options}]"), words)


def test_the_first_dimensions_come_before_the_length(folders):
    first = load_encoder(folders("qwen3"), pooler="last").encode(SENTENCES)[:, :8]
    encoder = load_encoder(folders("qwen3"), pooler="last", dims=8, normalize=True)
    lengths = np.linalg.norm(first, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(SENTENCES), first / lengths, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_is_that_of_transformers(kind, folders):
    """Weights and buffers are equal bit for bit; products round by batch."""
    encoder = load_encoder(folders(kind), pooler="weighted_mean", dtype="bfloat16")
    model, _ = plain(folders(kind), torch.bfloat16)
    ours, theirs = (dict(m.named_buffers()) | m.state_dict() for m in (encoder.model, model))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    given = folders(kind), "weighted_mean"
    wanted = [expected(*given, text, (0, 0), torch.bfloat16) for text in SENTENCES]
    check(encoder.encode(SENTENCES), wanted, close=0.02)


@pytest.mark.parametrize("mode", ["lasttoken", "weightedmean"])
def test_modules_are_those_of_the_library(mode, folders, tmp_path):
    """As Qwen3-Embedding and e5-mistral have them; padded on the left by the library."""
    from sentence_transformers import SentenceTransformer

    folder, texts = shutil.copytree(folders("qwen3"), tmp_path / "modules"), [*SENTENCES, ""]
    change(folder / "tokenizer_config.json", padding_side="left")
    write(folder, pooling(pooling_mode=mode), {"kind": "Normalize"})
    for name, kind, close in (
        ("float32", TransformerEncoder, 1e-5), ("bfloat16", ModularEncoder, 0.02),
    ):  # fmt: skip
        encoder = load_encoder(folder, normalize=True, dtype=name)
        assert isinstance(encoder.base, kind)
        options = {"model_kwargs": {"dtype": getattr(torch, name)}, "device": "cpu"}
        check(
            encoder.encode(texts), SentenceTransformer(str(folder), **options).encode(texts), close
        )


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_of_all_layers_is_the_pooler_last(kind, folders):
    for template in (None, PROMPT):
        ours, usual = (
            load_encoder(folders(kind), pooler=name, template=template).encode(SENTENCES)
            for name in ("last-2", "last")
        )
        np.testing.assert_array_equal(ours, usual)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_that_a_model_lacks_is_refused(kind, folders):
    refused(lambda: load_encoder(folders(kind), pooler="last-3"), "lacks; name one up to last-2")


@pytest.mark.parametrize("pooler", ["last-", "last--1", "avg-1", "contrast-0-0.5-1"])
def test_only_last_takes_a_number(pooler):
    refused(lambda: load_encoder("a", pooler=pooler), f"unknown pooler '{pooler}'", "last-N")
