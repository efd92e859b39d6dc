"""Nothing that is downloaded is run: neither pickles nor code, whatever a model's files say."""

from __future__ import annotations

import ast
import json
import pickle
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from bench.download.hub import BACKBONE_FILES
from bench.models.load import load_encoder
from bench.utils.errors import UserError
from tests.support.fake_hub import FakeHub
from tests.support.hub_contents import BERT

PICKLES = ["pytorch_model.bin", "pytorch_model-00001-of-00001.bin", "model.bin", "model.pkl"]
PICKLES += ["adapter_model.bin", "training_args.bin", "optimizer.pt", "tokenizer.pkl", "model.ckpt"]
PICKLES += ["arrays.npy"]
CODE = ["modeling_evil.py", "configuration_evil.py", "tokenization_evil.py", "handler.py"]
CODE += ["custom_generate/generate.py"]


@pytest.fixture
def planted(hub: FakeHub, tmp_path: Path) -> Path:
    """A model with hostile pickles and code; gives the file that they would create."""
    mark = tmp_path / "it-ran"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (mark,)

    payload = pickle.dumps(Evil())
    code = f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"
    for runs in (lambda: pickle.loads(payload), lambda: exec(code)):  # the payloads work
        runs()
        mark.unlink()
    files = hub.repositories[BERT]
    files |= dict.fromkeys(PICKLES, payload) | dict.fromkeys(CODE, code.encode())
    index = {"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}}
    files["pytorch_model.bin.index.json"] = json.dumps(index).encode()
    files["adapter_config.json"] = b'{"peft_type": "LORA", "base_model_name_or_path": "."}'
    files["modules.json"] = (
        b'[{"idx": 0, "name": "0", "path": "", "type": "modeling_evil.EvilModel"}]'
    )
    for name in ("config.json", "tokenizer_config.json"):
        change(files, name, trust_remote_code=True)
    return mark


def change(files: dict[str, bytes], name: str, **values: Any) -> None:
    files[name] = json.dumps(json.loads(files[name]) | values).encode()


LOADERS = ("AutoConfig", "AutoModel", "AutoModelForMaskedLM")
REMOTE: dict[str, Any] = dict.fromkeys(LOADERS, "modeling_evil.Evil")
REMOTE["AutoTokenizer"] = ["tokenization_evil.Evil"] * 2


def local_copy(hub: FakeHub, folder: Path) -> Path:
    """A folder with all files of the model."""
    for name, content in hub.repositories[BERT].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_nothing_planted_is_fetched_or_run(hub: FakeHub, planted: Path) -> None:
    encoder = load_encoder(BERT, pooler="avg")
    assert encoder.encode(["a dog", "a cat"]).shape == (2, 32)
    assert not planted.exists()
    fetched = {request.rsplit("/", 1)[-1] for request in hub.requests if "/resolve/" in request}
    assert fetched <= set(BACKBONE_FILES)
    assert not fetched & {*PICKLES, *(Path(name).name for name in CODE)}


def test_nothing_planted_in_a_local_folder_is_run(
    hub: FakeHub, planted: Path, tmp_path: Path
) -> None:
    folder = local_copy(hub, tmp_path / "own")
    assert load_encoder(folder, pooler="avg").encode(["a dog"]).shape == (1, 32)
    assert not planted.exists()
    with pytest.raises(UserError, match=r"has a module 'EvilModel', which is not supported"):
        load_encoder(folder)
    assert not planted.exists()


@pytest.mark.parametrize("local", [False, True], ids=["hub", "folder"])
@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("config.json", {"auto_map": REMOTE}, r"names code of the model's own \(auto_map\)"),
        ("tokenizer_config.json", {"auto_map": REMOTE}, r"code of the model's own \(auto_map\)"),
        ("config.json", {"model_type": "evil"}, "cannot load the model"),
    ],
)
def test_model_of_code_is_refused(
    name: str,
    values: dict[str, Any],
    message: str,
    local: bool,
    hub: FakeHub,
    planted: Path,
    tmp_path: Path,
) -> None:
    change(hub.repositories[BERT], name, **values)
    with pytest.raises(UserError, match=message):
        load_encoder(local_copy(hub, tmp_path / "own") if local else BERT, pooler="avg")
    assert not planted.exists()


@pytest.mark.parametrize("local", [False, True], ids=["hub", "folder"])
@pytest.mark.parametrize("how", ["weights", "shards", "index"])
def test_renamed_pickles_are_refused(
    how: str, local: bool, hub: FakeHub, planted: Path, tmp_path: Path
) -> None:
    files = hub.repositories[BERT]
    payload = files["pytorch_model.bin"]
    weights = files.pop("model.safetensors")
    if how == "weights":
        files["model.safetensors"] = payload
    else:
        shard = "model-00001-of-00001.safetensors"
        files[shard] = payload if how == "shards" else weights
        mapped = shard if how == "shards" else "pytorch_model.bin"
        weight_map = {"embeddings.word_embeddings.weight": mapped}
        index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
        files["model.safetensors.index.json"] = json.dumps(index).encode()
    words = r"truncated or broken|names weights in 'pytorch_model\.bin'|cannot load"
    with pytest.raises(UserError, match=words):
        load_encoder(local_copy(hub, tmp_path / "own") if local else BERT, pooler="avg")
    assert not planted.exists()


def test_index_that_names_pickles_of_another_program(hub: FakeHub, planted: Path) -> None:
    files = hub.repositories[BERT]
    files["model-00001-of-00001.safetensors"] = files.pop("model.safetensors")
    files["model.safetensors.index.json"] = b'{"weight_map": {"a": "pytorch_model.bin"}}'
    api = huggingface_hub.HfApi(endpoint=hub.endpoint)
    api.hf_hub_download(BERT, "pytorch_model.bin", revision=hub.commit(BERT))
    with pytest.raises(UserError):
        load_encoder(BERT, pooler="avg")
    assert not planted.exists()


def test_loaders_refuse_remote_code_and_pickles() -> None:
    """Every loader refuses remote code and takes safetensors only; nothing unpickles."""
    root = Path(__file__).parents[2]
    loaders = 0
    for path in [*(root / "bench").rglob("*.py"), *(root / "methods").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                assert not {"pickle", "joblib", "dill", "cloudpickle"} & set(names), path
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            keywords = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
            if node.func.attr == "from_pretrained":
                loaders += 1
                assert keywords.get("trust_remote_code") is False, (path, node.lineno)
                assert keywords.get("local_files_only") is True, (path, node.lineno)
                if "AutoModel" in ast.unparse(node.func):
                    assert keywords.get("use_safetensors") is True, (path, node.lineno)
            if node.func.attr == "load" and ast.unparse(node.func) == "torch.load":
                assert keywords.get("weights_only") is True, (path, node.lineno)
            assert not keywords.get("allow_pickle"), (path, node.lineno)
    assert loaders >= 4
