"""Folders and names that cannot be loaded: one sentence says why, and nothing in them is run."""

import ast
import json
import pickle
import shutil
from pathlib import Path

import pytest
import torch

from bench.models.encoder import TransformerEncoder
from bench.models.load import load_encoder, save_encoder
from bench.models.transformer import LOCAL, load_masked_language_model
from tests.support.fixed_vectors import affine
from tests.support.kinds import headed_bert
from tests.support.model_folders import change, change_weights, dense, pooling, write
from tests.support.refusals import refused

OWN_CODE = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def truncated(folder):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def configured(**values):
    return lambda folder: change(folder / "config.json", **values)


def shorter_table(folder):
    """A row is missing: only sentences with the last token would fail, while encoding."""
    name = "embeddings.word_embeddings.weight"
    change_weights(folder, lambda weights: weights | {name: weights[name][:-1].clone()})
    change(folder / "config.json", vocab_size=102)


def elsewhere(folder):
    (folder / "model.safetensors").rename(folder.parent / "x.safetensors")
    index = {"weight_map": {"a": "../x.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


# What is done to a folder of transformers, and what the message says.
TRANSFORMERS = {
    "only pickled weights": (pickled, "holds only pickled weights (pytorch_model.bin), which can"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "holds no model.s"),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "holds no tokenizer"),
    "half of the weights": (truncated, "(SafetensorError: "),
    "another width": (configured(intermediate_size=64), "shape [48] in the weights and [64] by"),
    "fewer layers": (configured(num_hidden_layers=2), "no place for the weights encoder.layer.2."),
    "more layers": (configured(num_hidden_layers=5), "lack encoder.layer.4."),
    "code of its own": (configured(auto_map=OWN_CODE), "names code of the model's own (auto_map)"),
    "a tokenizer with code": (
        lambda folder: change(folder / "tokenizer_config.json", auto_map=OWN_CODE),
        "names code of the model's own (auto_map)",
    ),
    "no padding": (
        lambda folder: change(folder / "tokenizer_config.json", pad_token=None),
        "names no pad_token",
    ),
    "a short table": (shorter_table, "ids up to 102, but the weights embed only 102;"),
    "shards elsewhere": (elsewhere, "'weight_map.a' should match pattern"),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_spoilt_transformers(copy, name):
    spoil, words = TRANSFORMERS[name]
    spoil(copy)
    refused(lambda: load_encoder(copy, pooler="avg"), str(copy), words)
    write(copy, pooling())  # nor inside a folder of sentence-transformers
    refused(lambda: load_encoder(copy), str(copy), words)


def test_weights_of_a_masked_language_model_that_do_not_fit(tiny_bert, tmp_path):
    folder = headed_bert(tiny_bert, tmp_path)
    load_masked_language_model(folder)
    change(folder / "config.json", num_hidden_layers=2)
    words = "no place for the weights bert.encoder.layer.2."
    refused(lambda: load_masked_language_model(folder), str(folder), words)


def test_no_room_for_a_word(copy, tmp_path):
    modules = write(shutil.copytree(copy, tmp_path / "modules"), pooling(), longest=2)
    refused(lambda: load_encoder(modules), "takes 2 tokens", "or the maximum length of its modules")
    change(copy / "tokenizer_config.json", model_max_length=2)
    words = "takes 2 tokens of a text, which has no room for a word; correct model_max_length"
    refused(lambda: load_encoder(copy, pooler="avg"), words)


def test_a_tokenizer_that_panics_is_an_error(copy):
    """Its regular expression takes exponential time, at which its library in Rust gives up."""
    pattern = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Removed"}
    change(copy / "tokenizer.json", pre_tokenizer=pattern | {"invert": False})
    encoder = TransformerEncoder.load(copy, {"pooler": "avg"})
    refused(lambda: encoder.encode(["a" * 60 + "b"]), "PanicException", "choose another model")


def test_another_kind_of_model_is_no_encoder_of_sentences(copy):
    write(copy, pooling())
    kind = {"model_type": "CrossEncoder"}
    (copy / "config_sentence_transformers.json").write_text(json.dumps(kind))
    refused(lambda: load_encoder(copy), "is a CrossEncoder, not an encoder of sentences; name a")
    assert load_encoder(copy, pooler="avg").loaded["pooler"] == "avg"


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (None, {"pooler": "cls"}, "stores no pooler weights, and pooler 'cls' would be random"),
        (None, {}, "stores no pooler; name one of cls, "),
        (None, {"pooler": "avg", "template": "none"}, "the template 'none' lacks <sentence>"),
        (
            None,
            {"pooler": "avg_first_last", "template": "<sentence>"},
            "is there for BERT and RoBERTa in float32, without prompt and template",
        ),
        (None, {"pooler": "avg", "dtype": "float8"}, "unknown dtype 'float8'"),
        (None, {"pooler": "avg", "dims": 33}, "have 32 dimensions; choose dims from 1 to 32"),
        (None, {"pooler": "avg", "prompt": "query"}, "has no prompt 'query'; write its text"),
        ("", {}, "holds no config.json"),
        ("glove.6B.300d", {}, "is a table of word vectors"),
    ],
)
def test_names_and_options_of_no_model(tiny_bert, model, options, words):
    refused(lambda: load_encoder(tiny_bert if model is None else model, **options), words)


# Folders of sentence-transformers


def with_module(**values):
    def spoil(folder):
        write(folder, pooling())
        first, second = json.loads((folder / "modules.json").read_text())
        (folder / "modules.json").write_text(json.dumps([first, second | values]))

    return spoil


own_module = with_module(type="modeling_evil.Evil")


def own_activation(folder):
    write(folder, pooling(), dense(32, 8, 1))
    change(folder / "2_Dense" / "config.json", activation_function="os.system")


def other_width(folder):
    write(folder, pooling(), dense(48, 8, 1))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (own_module, "needs 'modeling_evil.Evil', code of the model's own, which is not run; name"),
        (with_module(path="../a"), "'../a' leads out of "),
        (own_activation, "needs 'os.system', code of the model's own"),
        (other_width, "cannot be run (RuntimeError: mat1 and mat2 shapes"),
    ],
)
def test_spoilt_folders_of_sentence_transformers(copy, spoil, words):
    spoil(copy)
    refused(lambda: load_encoder(copy), str(copy), words)
    assert load_encoder(copy, pooler="avg").encode(["a"]).shape == (1, 32)


# Saved encoders


def test_saved_encoders_that_do_not_fit(tiny_bert, tmp_path):
    base, saved, parts = load_encoder(tiny_bert, pooler="avg"), tmp_path / "a", tmp_path / "b"
    save_encoder(base, saved)
    words = "was saved with pooler 'avg', not with pooler 'avg_top2'; omit the pooler"
    refused(lambda: load_encoder(saved, pooler="avg_top2"), words)
    refused(lambda: load_encoder(saved, prompt="query: "), "omit prompt, template and dtype")
    change(saved / "encoder.json", template="<sentence>")
    refused(lambda: load_encoder(saved), "of an older version, with a template")
    change(saved / "encoder.json", kind="mine")
    refused(lambda: load_encoder(saved), "kind 'mine', which no installed method")
    save_encoder(affine(base, torch.ones(4, 48), torch.zeros(4)), parts)
    refused(lambda: load_encoder(parts), str(parts), "do not fit")
    (parts / "arrays.safetensors").write_bytes(b"12345678")
    refused(lambda: load_encoder(parts), str(parts), "are not those that were saved")


# Code


class Touch:
    """A pickle that creates a file when it is read."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_nothing_planted_is_run(copy, tmp_path):
    mark = tmp_path / "it-ran"
    payload, code = pickle.dumps(Touch(mark)), f"open({str(mark)!r}, 'w')\n"
    for run in (lambda: pickle.loads(payload), lambda: exec(code)):  # the payloads work
        run()
        mark.unlink()
    for name in ("pytorch_model.bin", "training_args.bin", "model.pkl", "arrays.npy"):
        (copy / name).write_bytes(payload)
    for name in ("modeling_evil.py", "configuration_evil.py", "handler.py"):
        (copy / name).write_text(code)
    change(copy / "config.json", trust_remote_code=True)
    assert isinstance(load_encoder(copy, pooler="avg"), TransformerEncoder)
    write(copy, pooling(), model_args={"trust_remote_code": True, "dtype": "float16"})
    assert load_encoder(copy).encode(["a"]).shape == (1, 32)
    own_module(copy)
    refused(lambda: load_encoder(copy), "code of the model's own")
    change(copy / "config.json", auto_map={"AutoModel": "modeling_evil.EvilModel"})
    refused(lambda: load_encoder(copy, pooler="avg"), "code of the model's own")
    assert not mark.exists()


def test_loaders_refuse_remote_code_and_pickles():
    """Every loader of a folder."""
    assert LOCAL == {"local_files_only": True, "trust_remote_code": False}
    root, loaders = Path(__file__).parents[2], 0
    for path in [*(root / "bench").rglob("*.py"), *(root / "methods").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args:
                called, words = ast.unparse(node.func), {*map(ast.unparse, node.keywords)}
                if called.endswith(".from_pretrained") or called == "SentenceTransformer":
                    loaders += 1
                    assert "**LOCAL" in words, (path, node.lineno)
                assert called not in ("torch.load", "pickle.load", "pickle.loads"), path
    assert loaders >= 4
