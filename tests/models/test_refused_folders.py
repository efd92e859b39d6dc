"""Folders and names that cannot be loaded: one sentence says why, and nothing in them is run."""

import ast
import json
import pickle
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.models.encoder import TransformerEncoder
from bench.models.load import load_encoder, save_encoder
from tests.methods.fixed import affine
from tests.models.folders import change, change_weights, refused
from tests.models.test_sentence_transformers import (
    CLS,
    MEAN,
    dense,
    entry,
    pooling,
    prompts,
    static,
    write,
)


@pytest.fixture
def copy(tiny_bert: Path, tmp_path: Path) -> Path:
    """A copy of the tiny BERT to spoil."""
    return Path(shutil.copytree(tiny_bert, tmp_path / "model"))


def pickled(folder: Path, name: str = "pytorch_model.bin") -> None:
    (folder / "model.safetensors").rename(folder / name)


def truncated(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def configured(**values: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder / "config.json", **values)


def shorter_table(folder: Path) -> None:
    """A row is missing: only sentences with the last token would fail, while encoding."""
    name = "embeddings.word_embeddings.weight"
    change_weights(folder, lambda weights: weights | {name: weights[name][:-1].clone()})
    change(folder / "config.json", vocab_size=102)


def renamed_pickle(folder: Path) -> None:
    payload = pickle.dumps({"a": 1})
    (folder / "model.safetensors").write_bytes(payload)


def index_of_pickles(folder: Path) -> None:
    index = {"weight_map": {"a": "pytorch_model.bin"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def without_padding(folder: Path) -> None:
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / name).is_file():
            change(folder / name, pad_token=None)


OWN_CODE = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}
# What is done to a folder of transformers, and what the message says.
TRANSFORMERS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "only pickled weights": (pickled, "holds only pickled weights (pytorch_model.bin), which can"),
    "a pickle under another name": (renamed_pickle, "cannot load the model"),
    "an index of pickles": (index_of_pickles, "holds no pytorch_model.bin; give a folder in"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "holds no model.s"),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "holds no tokenizer"),
    "half of the weights": (truncated, "cannot load the model"),
    "an unknown type": (configured(model_type="no-such-model"), "cannot load the model"),
    "another width": (
        configured(intermediate_size=64),
        "dense.bias has shape [48] in the weights and [64] by config",
    ),
    "fewer layers": (
        configured(num_hidden_layers=2),
        "no place for the weights encoder.layer.2.attention.output.LayerNorm.bias; correct",
    ),
    "more layers": (configured(num_hidden_layers=5), "lack encoder.layer.4."),
    "another prefix": (
        partial(
            change_weights,
            edit=lambda weights: {f"roberta.{name}": weights[name] for name in weights},
        ),
        "no place for the weights roberta.encoder.layer.0.",
    ),
    "code of its own": (configured(auto_map=OWN_CODE), "names code of the model's own (auto_map)"),
    "a tokenizer with code": (
        lambda folder: change(folder / "tokenizer_config.json", auto_map=OWN_CODE),
        "names code of the model's own (auto_map)",
    ),
    "no padding": (without_padding, "no padding token"),
    "a short table": (shorter_table, "ids up to 102, but the weights embed only 102;"),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_spoilt_transformers(copy: Path, name: str) -> None:
    spoil, words = TRANSFORMERS[name]
    spoil(copy)
    refused(lambda: load_encoder(copy, pooler="avg"), str(copy), words)
    write(copy, [pooling(**MEAN)])  # nor inside a folder of sentence-transformers
    refused(lambda: load_encoder(copy), str(copy))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pooler": "avg_frist_last"}, "did you mean 'avg_first_last'?"),
        ({"pooler": "cls_mlp"}, "unknown pooler 'cls_mlp'"),
        ({"pooler": "cls"}, "stores no pooler weights, and pooler 'cls' would be random"),
        ({}, "stores no pooler; choose one with --pooler (cls, "),
        ({"pooler": "avg", "prompt": "query"}, "or --pooler leaves them out; omit --prompt"),
    ],
)
def test_options_that_a_folder_does_not_have(
    tiny_bert: Path, options: dict[str, str], words: str
) -> None:
    refused(lambda: load_encoder(tiny_bert, **options), words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "holds no config.json"),
        ("./nowhere", "model folder ./nowhere does not exist; give a Hugging Face folder or a hub"),
        (__file__, f"model folder {__file__} does not exist"),
        ("simcse", "'simcse' is neither a folder, a model of the hub nor run:METHOD"),
        ("glove.6B.300d", "is a table of word vectors"),
    ],
)
def test_names_of_no_model(name: str, words: str) -> None:
    refused(lambda: load_encoder(name, pooler="avg"), words)


# Folders of sentence-transformers


def with_modules(*modules: dict[str, Any], **changes: str) -> Callable[[Path], None]:
    """Write these modules, and change the entry of the last one."""

    def spoil(folder: Path) -> None:
        write(folder, list(modules))
        entries = json.loads((folder / "modules.json").read_text())
        entries[-1] |= changes
        (folder / "modules.json").write_text(json.dumps(entries))

    return spoil


def pickled_dense(folder: Path) -> None:
    write(folder, [pooling(**MEAN), dense(32, 8, 1)])
    pickled(folder / "2_Dense")


def dense_with(**config: Any) -> dict[str, Any]:
    module = dense(32, 8, 1)
    return module | {"config": module["config"] | config}


MODULAR: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a module of code": (
        with_modules(pooling(**MEAN), type="modeling_evil.Evil"),
        "needs 'modeling_evil.Evil', code of the model's own, which is not run; choose a pooler",
    ),
    "an activation of code": (
        with_modules(pooling(**MEAN), dense_with(activation_function="os.system")),
        "needs 'os.system', code of the model's own",
    ),
    "a pickled module": (pickled_dense, "2_Dense holds only pickled weights (pytorch_model.bin)"),
    "a module that is not there": (
        with_modules(pooling(**MEAN), {"kind": "NoSuch"}),
        "are damaged or do not fit (",
    ),
    "a dense layer of another width": (
        with_modules(pooling(**MEAN), dense(48, 8, 1)),
        "are damaged or do not fit (",
    ),
}


@pytest.mark.parametrize("name", MODULAR)
def test_spoilt_folders_of_sentence_transformers(copy: Path, name: str) -> None:
    spoil, words = MODULAR[name]
    spoil(copy)
    refused(lambda: load_encoder(copy), str(copy), words)
    assert load_encoder(copy, pooler="avg").encode(["a"]).shape == (1, 32)


def test_unknown_prompts(copy: Path) -> None:
    prompts(write(copy, [pooling(**CLS)]), query="a dog ")
    words = "has no prompt 'quary'; did you mean 'query'? (known: query); an empty --prompt uses"
    refused(lambda: load_encoder(copy, prompt="quary"), words)


def test_a_static_table_of_another_vocabulary(tmp_path: Path) -> None:
    table = torch.zeros(3, 6)
    folder = static(tmp_path / "model", {"embeddings": table, "mapping": torch.tensor([0, 99])})
    refused(lambda: load_encoder(folder), str(folder), "are damaged or do not fit (")


# Saved encoders


def test_another_pooler_than_stored(tiny_bert: Path, tmp_path: Path) -> None:
    save_encoder(load_encoder(tiny_bert, pooler="avg"), tmp_path / "saved")
    words = "was saved with pooler 'avg', not with pooler 'avg_top2'; omit --pooler"
    refused(lambda: load_encoder(tmp_path / "saved", pooler="avg_top2"), words)
    refused(lambda: load_encoder(tmp_path / "saved", prompt="query"), "has no prompts")
    change(tmp_path / "saved" / "encoder.json", kind="mine")
    refused(lambda: load_encoder(tmp_path / "saved"), "kind 'mine', which no installed method")


def test_saved_parts_that_do_not_fit(tiny_bert: Path, tmp_path: Path) -> None:
    base = load_encoder(tiny_bert, pooler="avg")
    save_encoder(affine(base, torch.ones(4, 48), torch.zeros(4)), tmp_path / "saved")
    refused(lambda: load_encoder(tmp_path / "saved"), str(tmp_path / "saved"), "do not fit")
    (tmp_path / "saved" / "arrays.safetensors").write_bytes(b"12345678")
    refused(lambda: load_encoder(tmp_path / "saved"), str(tmp_path / "saved"), "damaged")


def test_full_memory_while_loading_is_no_fault_of_the_folder(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9")

    monkeypatch.setattr("bench.models.transformer.load_tokenizer", full)
    for pooler in ("avg", None):
        write(copy, [pooling(**MEAN)])
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            load_encoder(copy, pooler=pooler)


# Code


class Touch:
    """A pickle that creates a file when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def test_nothing_planted_is_run(copy: Path, tmp_path: Path) -> None:
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
    write(copy, [pooling(**MEAN)], model_args={"trust_remote_code": True, "dtype": "float16"})
    assert load_encoder(copy).encode(["a"]).shape == (1, 32)
    evil = entry(0, "", "modeling_evil.EvilModel") | {"type": "modeling_evil.EvilModel"}
    (copy / "modules.json").write_text(json.dumps([evil]))
    refused(lambda: load_encoder(copy), "code of the model's own")
    change(copy / "config.json", auto_map={"AutoModel": "modeling_evil.EvilModel"})
    refused(lambda: load_encoder(copy, pooler="avg"), "code of the model's own")
    assert not mark.exists()


def test_loaders_refuse_remote_code_and_pickles() -> None:
    """Every loader refuses remote code and takes safetensors only; nothing unpickles."""
    root = Path(__file__).parents[2]
    loaders = 0
    for path in [*(root / "bench").rglob("*.py"), *(root / "methods").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                assert not {"pickle", "joblib", "dill", "cloudpickle"} & set(names), path
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            keywords = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
            from_folder = called == "SentenceTransformer" and bool(node.args)
            if called.endswith(".from_pretrained") or from_folder:
                loaders += 1
                assert keywords.get("trust_remote_code") is False, (path, node.lineno)
                assert keywords.get("local_files_only") is True, (path, node.lineno)
                if "AutoModel" in called:
                    assert keywords.get("use_safetensors") is True, (path, node.lineno)
            if called == "torch.load":
                assert keywords.get("weights_only") is True, (path, node.lineno)
            assert not keywords.get("allow_pickle"), (path, node.lineno)
    assert loaders >= 5
