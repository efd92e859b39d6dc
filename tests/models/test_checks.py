"""What no library checks of a model that was not trained here: silently other vectors are refused.

Mutations caught: no comparison of token ids, of settings, of vocabulary, of a batch of one, of the
first state; an adapter that is left out.
"""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from bench.models.checks import check_text
from bench.models.load import load_encoder
from bench.models.model import Model
from bench.models.options import Options
from bench.registry.backbones import backbone
from bench.utils.errors import UserError
from tests.support.method_runs import run_of
from tests.support.model_folders import change, pooling, write
from tests.support.refusals import refused
from tests.support.tiny_backbones import CLOSE


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace('"lowercase": true', '"lowercase": false'),
        lambda text: text.replace('"BertPreTokenizer"', '"WhitespaceSplit"'),
        lambda text: json.dumps(json.loads(text) | {"post_processor": None}),
    ],
    ids=["case", "pre-tokenizer", "template"],
)
def test_token_ids_are_those_of_the_file(copy, edit):
    """Libraries rebuild the tokenizer of a class that tokenizer_config.json names."""
    change(copy / "tokenizer_config.json", tokenizer_class="BertTokenizer")
    load_encoder(copy, pooler="avg")
    file = copy / "tokenizer.json"
    file.write_text(edit(file.read_text()))
    refused(lambda: load_encoder(copy, pooler="avg"), "other token ids", str(copy))


def test_a_vocabulary_of_another_script_is_no_fault():
    """toy-chinese has no Latin letter and no digit."""
    assert load_encoder("toy-chinese", pooler="cls_before_pooler").encode(["a", "b"]).std() > 0


@pytest.mark.parametrize("pooler", ["last", None])
@pytest.mark.parametrize(
    ("key", "value"),
    [("add_eos_token", True), ("add_bos_token", False), ("add_prefix_space", True)],
)
def test_settings_that_are_not_carried_out_are_refused(decoders, tmp_path, key, value, pooler):
    """A transformer with a pooler, and a folder of modules."""
    folder = write(
        shutil.copytree(decoders("llama"), tmp_path / "model"), pooling(pooling_mode="lasttoken")
    )
    settings = {"add_eos_token": False, "add_bos_token": True, "add_prefix_space": False}
    change(folder / "tokenizer_config.json", **settings)
    load_encoder(folder, pooler=pooler)
    change(folder / "tokenizer_config.json", **{key: value})
    words = f"does not carry out '{key}': {str(value).lower()}"
    refused(lambda: load_encoder(folder, pooler=pooler), str(folder), words)


@pytest.mark.parametrize("key", ["do_lower_case", "strip_accents"])
def test_settings_of_words_are_those_of_the_ids(copy, key):
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": True}
    change(copy / "tokenizer_config.json", **settings)
    load_encoder(copy, pooler="avg")
    change(copy / "tokenizer_config.json", **{key: False})
    refused(lambda: load_encoder(copy, pooler="avg"), f"does not carry out '{key}': false")


def bare(folder, **words):
    """A folder with its vocabulary in vocab.txt alone, and some of its words replaced."""
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    listed = [words.get(word, word) for word in sorted(vocabulary, key=vocabulary.get)]
    (folder / "vocab.txt").write_text("\n".join(listed), encoding="utf-8")
    (folder / "tokenizer.json").unlink()
    return folder


@pytest.mark.parametrize("word", ["Woman", "möchte"])
def test_a_word_that_the_tokenizer_changes_is_refused(copy, word):
    bare(copy, woman=word)
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (copy / "tokenizer_config.json").write_text(json.dumps(settings))
    refused(lambda: load_encoder(copy, pooler="avg"), f"its vocabulary, as '{word}' to", "as in")
    change(copy / "tokenizer_config.json", do_lower_case=False)
    load_encoder(copy, pooler="avg")


@pytest.mark.parametrize("is_cased", [False, True])
def test_plan_and_tokenizer_agree_on_the_case_of_a_bare_vocabulary(copy, is_cased):
    bare(copy, **{"woman": "Woman"} if is_cased else {})
    (copy / "tokenizer_config.json").unlink()
    if is_cased:
        (copy / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    vectors = load_encoder(copy, pooler="avg").encode(["a woman", "a Woman"])
    assert bool(np.ptp(vectors, axis=0).any()) == is_cased == backbone(str(copy)).shape.cased


def with_types(folder):
    """Its tokenizer gives tokens of a text the type 1."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    special = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:1 $A:1 [SEP]:1", special_tokens=special
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    settings |= {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    change(folder / "tokenizer_config.json", **settings)


def test_types_of_tokens_are_passed_on_or_refused(copy):
    with_types(copy)
    refused(lambda: load_encoder(copy, pooler="avg"), "a type other than 0", "function")
    encoder = load_encoder(write(copy, pooling()))
    model = transformers.AutoModel.from_pretrained(copy).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(copy)
    for text in ("a dog", "two small birds see the car"):
        inputs = tokenizer(text, return_tensors="pt")
        assert inputs["token_type_ids"].all()
        with torch.no_grad():
            expected = model(**inputs).last_hidden_state[0].mean(0)
        np.testing.assert_allclose(encoder.encode([text])[0], expected, **CLOSE)


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    "read",
    [
        lambda folder: load_encoder(folder, pooler="avg"),
        lambda folder: backbone(str(folder)),
        lambda folder: Model(folder, Options("avg")).check(),
    ],
    ids=["load", "backbone", "check"],
)
def test_an_adapter_is_refused(copy, alone, read):
    """Beside the weights that it changes, and alone, as of a language model by peft."""
    (copy / "adapter_config.json").write_text('{"peft_type": "LORA", "task_type": "CAUSAL_LM"}')
    if alone:
        (copy / "config.json").unlink()
        (copy / "model.safetensors").rename(copy / "adapter_model.safetensors")
    refused(lambda: read(copy), f"{copy} holds an adapter", "merge_and_unload")


def test_the_first_token_has_to_be_the_tokenizers_cls(copy):
    change(copy / "tokenizer_config.json", cls_token="[SEP]")
    refused(lambda: load_encoder(copy, pooler="cls_before_pooler"), "is not [CLS]", "avg")
    load_encoder(copy, pooler="avg")


def test_a_tokenizer_that_knows_no_word_is_refused(copy):
    nothing = Tokenizer(models.WordLevel({"[UNK]": 0, "[PAD]": 1}, unk_token="[UNK]"))
    nothing.normalizer, nothing.pre_tokenizer = normalizers.NFC(), pre_tokenizers.Whitespace()
    nothing.save(str(copy / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    settings |= {"unk_token": "[UNK]", "pad_token": "[PAD]"}
    (copy / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match=r"its tokenizer knows no word; correct the tokenizer$"):
        load_encoder(copy, pooler="avg")


def test_what_depends_on_the_order_is_refused(tmp_path):
    def encode(texts):
        return np.float32([[len(text), row] for row, text in enumerate(texts)])

    refused(lambda: check_text(tmp_path, encode), "by the order, the padding or the size")


def test_a_blank_sentence_without_special_tokens_is_the_end_of_text(copy):
    change(copy / "tokenizer.json", post_processor=None)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "[SEP]"}
    change(copy / "tokenizer_config.json", **settings)
    for folder, pooler in ((copy, "avg"), (write(copy, pooling()), None)):
        blank, end, text = load_encoder(folder, pooler=pooler).encode(["", "[SEP]", "a cat"])
        np.testing.assert_allclose(blank, end, rtol=1e-5, atol=1e-6)
        assert np.isfinite(text).all()


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("simcse", True),
        ("simcse[dropout=0.1]", False),
        ("simcse[dropout=0]", False),  # a control
        ("gs-infonce", False),  # its released runs set one
    ],
)
def test_a_backbone_without_dropout_needs_a_rate(copy, text, is_refused):
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    change(copy / "config.json", **rates)
    if is_refused:
        refused(lambda: run_of(text, copy), "has no dropout", "[dropout=0.1], or set it")
    else:
        run_of(text, copy)
