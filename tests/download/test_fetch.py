"""Downloads of data and models from a hub on the loopback, and their pins."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tenacity.nap
from huggingface_hub import constants
from huggingface_hub.utils import _http

from bench import download
from bench.download import hub as downloads
from bench.download.hub import fetch_backbone, lock_file
from bench.models.load import find_model, load_encoder
from bench.registry.backbones import TOY_FOLDER, backbone
from bench.runs.resolve import resolve
from bench.stages.jobs import score_run
from bench.utils.errors import TransientError, UserError
from bench.utils.files import sha256_file
from tests.support.archives import BERT, CORPUS, DATA, TEXT, tar
from tests.support.fake_hub import Fault
from tests.support.model_folders import dense, pooling, prompts, write
from tests.support.refusals import refused


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def pin(**entry):
    content = json.loads(downloads.PINS.read_text())
    content["repositories"][BERT] = entry
    downloads.PINS.write_text(json.dumps(content))


def recorded():
    return json.loads(lock_file().read_text())


# --- the data set


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_other_bytes_than_listed_or_recorded_are_refused(name, hub):
    """Of a file outside LFS, such as JSON, the hub lists the id in git."""
    content = hub.repositories[BERT][name]
    altered = content[:-1] + b"?"
    told = f"{name} of {BERT} has the checksum {{}}, expected {{}}; fetch it .* '{BERT}' from .*"
    sums = map(downloads.git_blob if name == "config.json" else sha256, (altered, content))
    hub.served[name] = altered
    with pytest.raises(UserError, match=told.format(*sums) + re.escape(str(lock_file()))):
        fetch_backbone(BERT)
    assert not lock_file().exists()
    hub.served.clear()
    path = fetch_backbone(BERT) / name  # nothing wrong is left
    path.resolve().write_bytes(altered)
    with pytest.raises(UserError, match=told.format(sha256(altered), sha256(content))):
        fetch_backbone(BERT)
    assert (fetch_backbone(BERT) / name).read_bytes() == content


def test_a_listed_name_outside_the_folder_is_one_sentence(hub):
    hub.repositories["a/b"] = {**hub.repositories[BERT], "1_a/../../config.json": b"{}"}
    refused(lambda: fetch_backbone("a/b"), "a/b: a file of it has a name that leads out")


# --- faults of the network

GATED = {"status": 403, "headers": {"X-Error-Code": "GatedRepo"}}


@pytest.mark.parametrize(
    ("name", "values", "message", "transient"),
    [
        ("*", {"status": 503}, "no answer from .*503", True),
        (CORPUS, {"sent": 400}, "no answer from", True),
        (CORPUS, GATED, "is gated; accept its terms", False),
        ("", {"served": {CORPUS: TEXT + b"more"}}, "another size than announced; fetch it", False),
        ("", {"repositories": {}}, "the repository does not exist or is private; check", False),
        (
            "",
            {"offline": True},
            "lacks it or a part of it, and HF_HUB_OFFLINE is set",
            False,
        ),
    ],
)
def test_faults_are_one_sentence(name, values, message, transient, hub, monkeypatch):
    """Without the fault, the next call succeeds: nothing wrong is left."""
    with monkeypatch.context() as patch:
        if name:
            patch.setitem(hub.faults, name, Fault(**values))
        elif "offline" in values:
            patch.setattr(constants, "HF_HUB_OFFLINE", True)
        else:
            ((field, content),) = values.items()
            patch.setattr(hub, field, content)
        with pytest.raises(UserError) as caught:
            download.fetch_corpus("wiki1m")
    text = str(caught.value)
    assert re.match(f"cannot fetch {CORPUS} of {downloads.DATASET}: .*{message}", text), text
    assert text.endswith(f"or set BENCH_DATA to a folder with {CORPUS}")
    assert "\n" not in text
    assert isinstance(caught.value, TransientError) == transient
    assert download.fetch_corpus("wiki1m").read_bytes() == TEXT


@pytest.mark.parametrize(
    ("name", "values"),
    [("listing", {"status": 503, "times": 4}), (CORPUS, {"sent": 400, "times": 1})],
)
def test_connections_and_server_errors_are_retried(name, values, hub):
    hub.faults[name] = Fault(**values)
    assert download.fetch_corpus("wiki1m").read_bytes() == TEXT


# --- archives


@pytest.mark.parametrize("prefix", ["", "downstream/", "./data/downstream/"])
def test_archive_becomes_a_data_folder(prefix, hub):
    packed = {f"{prefix}{name}": content for name, content in DATA.items()}
    hub.repositories[downloads.DATASET]["senteval.tar"] = tar(packed)
    folder = download.fetch_senteval()
    files = [path for path in folder.rglob("*") if path.is_file()]
    read = {path.relative_to(folder / "downstream").as_posix(): path.read_bytes() for path in files}
    assert read == DATA
    assert download.fetch_senteval() == folder


def zipped(name, content=b""):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("archive", "problem"),
    [
        (b"no archive", "(ReadError|BadZipFile): [Ff]ile "),
        (tar(DATA)[:700], "ReadError: unexpected end of data|BadZipFile"),
        (tar({"STS": b""}), "LookupError: it has no folder STS/|BadZipFile"),
        (tar({"STS/a": b""}, type=tarfile.SYMTYPE, linkname="/a"), "AbsoluteLinkError|BadZipFile"),
        (zipped("a.txt"), "ReadError|KeyError: \"There is no item named 'glove.300d.txt'"),
    ],
)
def test_an_archive_that_cannot_be_unpacked_is_not_pinned(archive, problem, hub, cache):
    hub.repositories[downloads.DATASET] = {"all.zip": archive, "senteval.tar": archive}
    told = f"{downloads.DATASET} cannot be unpacked .({problem}).*; .* entry '.*' from {cache}/pins"
    with pytest.raises(UserError, match=told):
        download.fetch_senteval()
    with pytest.raises(UserError, match=told):
        download.fetch_words("all.zip", downloads.DATASET, "glove.300d.txt")
    assert not lock_file().exists()


def test_table_of_an_archive(hub):
    hub.repositories["a/vectors"] = {"all.zip": zipped("glove.300d.txt", b"dog 1 2\n")}
    path = download.fetch_words("all.zip", "a/vectors", "glove.300d.txt")
    assert path.read_bytes() == b"dog 1 2\n"
    assert download.fetch_words("all.zip", "a/vectors", "glove.300d.txt") == path


# --- folders


def test_local_folder_takes_precedence(hub, monkeypatch, tmp_path):
    own = tmp_path / "own"
    monkeypatch.setenv("BENCH_DATA", str(own))
    refused(download.fetch_senteval, "which is not a folder")
    own.mkdir()
    refused(download.fetch_senteval, "has no folder downstream/")
    (own / "downstream").mkdir()
    (own / CORPUS).write_bytes(TEXT)
    assert download.fetch_senteval() == own
    assert download.fetch_corpus("wiki1m") == own / CORPUS
    assert not hub.requests


# --- models


def test_a_model_with_modules_has_no_pickles_and_no_code(hub, tiny_bert, tmp_path):
    """Every module is downloaded, recorded and verified."""
    local = shutil.copytree(tiny_bert, tmp_path / "local")
    prompts(write(local, pooling(), dense(32, 8, 1)), query="a dog ")
    wanted = {path.name for path in local.rglob("*")}
    for name in ("pytorch_model.bin", "model.ckpt", "modeling_evil.py", "2_Dense/evil.py"):
        (local / name).write_text("raise SystemExit")
    hub.put("a/b", local)
    texts = ["a", "the dog sees"]
    expected = load_encoder(local, prompt="query").encode(texts)
    assert np.array_equal(load_encoder("a/b", prompt="query").encode(texts), expected)
    folder = fetch_backbone("a/b")
    assert {path.name for path in folder.rglob("*")} == wanted
    assert recorded()["a/b"]["revision"] == hub.commit("a/b") == folder.name
    module = folder / "2_Dense" / "model.safetensors"
    assert recorded()["a/b"]["files"]["2_Dense/model.safetensors"] == sha256(module.read_bytes())
    (folder / "tokenizer.json").unlink()  # an incomplete snapshot is completed
    assert (fetch_backbone("a/b") / "tokenizer.json").is_file()


@pytest.mark.parametrize(
    ("text", "backbone", "commits"),
    [
        ("untrained[pooler=avg]", "bert-base-uncased", {"backbone_commit": "COMMIT"}),
        (f"published[model={BERT},pooler=avg]", "none", {"encoder_commits": {BERT: "COMMIT"}}),
    ],
)
def test_scores_name_the_commits_of_encoders(text, backbone, commits, hub, tiny_data, tmp_path):
    run = resolve(text, backbone_name=backbone, corpus="none", data=str(tiny_data), seed=None)
    score_run(run, tmp_path, ["STS12"], "test", tmp_path / "scores.json", "cpu")
    expected = json.loads(json.dumps(commits).replace("COMMIT", hub.commit(BERT)))
    result = json.loads((tmp_path / "scores.json").read_text())["provenance"]
    assert {key: result[key] for key in result if key.endswith(("commit", "commits"))} == expected


@pytest.mark.parametrize("place", [BERT, "bert-base-uncased"])
def test_a_copy_in_the_folder_of_models_serves_a_known_one(place, hub, tmp_path, monkeypatch):
    copy = shutil.copytree(fetch_backbone(BERT), tmp_path / "own" / place)
    pin(files={"model.safetensors": {"sha256": sha256_file(copy / "model.safetensors")}})
    monkeypatch.setenv("BENCH_MODELS", str(tmp_path / "own"))
    hub.repositories.clear()
    requests = len(hub.requests)
    assert backbone("bert-base-uncased").folder() == find_model(BERT) == copy
    assert backbone("bert-base-uncased").fingerprint == BERT  # as that of the hub
    assert len(hub.requests) == requests
    (copy / "model.safetensors").write_bytes(b"other")
    refused(lambda: fetch_backbone(BERT), f"{place}/model.safetensors of {BERT} has the checksum")
    (copy / "model.safetensors").unlink()  # the copy of a user, which is never removed before
    refused(lambda: fetch_backbone(BERT), f"{place}/model.safetensors does not exist; copy it")


def test_only_the_full_name_of_another_model_serves_it(hub, tmp_path, monkeypatch):
    """`BENCH_MODELS/b` may be anything."""
    hub.put("a/b", TOY_FOLDER / "toy-bert")
    monkeypatch.setenv("BENCH_MODELS", str(tmp_path / "own"))
    (tmp_path / "own" / "b").mkdir(parents=True)
    assert hub.commit("a/b") in str(fetch_backbone("a/b"))
    copy = shutil.copytree(TOY_FOLDER / "toy-bert", tmp_path / "own" / "a" / "b")
    assert fetch_backbone("a/b") == copy


def test_an_adapter_alone_is_refused(hub):
    hub.repositories["a/b"] = {"adapter_config.json": b"{}", "adapter_model.safetensors": b""}
    refused(lambda: load_encoder("a/b", pooler="last"), "holds an adapter", "merge_and_unload")


def test_only_pickles_and_no_name_of_a_repository_are_refused(hub):
    hub.repositories[BERT] = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
    refused(lambda: fetch_backbone(BERT), "only pickled weights,", "(google-bert/", "@REVISION)")
    told = "cannot fetch a/b/c: this is not a repository name"
    refused(lambda: fetch_backbone("a/b/c"), told, "copy the model to BENCH_MODELS/a/b/c")


def test_a_revision_is_followed_once(hub):
    """Only a pull request has safetensors; its commit is recorded and kept when it moves, whether a
    user or `pins.json` names it."""
    hub.revisions[BERT, "refs/pr/1"] = hub.repositories[BERT]
    hub.repositories[BERT] = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
    commit = hub.commit(BERT, "refs/pr/1")
    folder = fetch_backbone(f"{BERT}@refs/pr/1")
    assert folder.name == commit
    assert list(recorded()) == [f"{BERT}@refs/pr/1"]
    pin(revision="refs/pr/1")
    assert fetch_backbone(BERT) == folder
    assert downloads.pinned(BERT)[0] == commit
    hub.revisions[BERT, "refs/pr/1"] = {**hub.revisions[BERT, "refs/pr/1"], "vocab.txt": b"new"}
    requests = len(hub.requests)
    assert fetch_backbone(f"{BERT}@refs/pr/1") == fetch_backbone(BERT) == folder
    assert len(hub.requests) == requests


def test_offline_with_a_filled_cache(hub, tmp_path, cache, monkeypatch):
    def everything():
        return download.fetch_corpus("wiki1m"), download.fetch_senteval(), fetch_backbone(BERT)

    paths = everything()
    assert sorted(recorded()[downloads.DATASET]["files"]) == ["senteval.tar", CORPUS]
    requests = len(hub.requests)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert everything() == paths
    assert len(hub.requests) == requests
    # A cache that is read-only serves what it holds.
    if os.geteuid():
        cache.chmod(0o555)
        assert everything() == paths


@pytest.mark.parametrize("revision", [None, "0" * 40])
def test_without_a_connection_no_retries_take_long(revision, monkeypatch):
    """For a listing at a commit, huggingface_hub would wait 23 seconds in each of five attempts."""
    slept = []
    for module in (tenacity.nap, _http):
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=slept.append))
    if revision:
        pin(revision=revision)
    with pytest.raises(TransientError, match="no answer from"):
        fetch_backbone(BERT)
    assert sum(slept) <= 2


CODE = """
import sys; from pathlib import Path; from bench import download; from bench.download import hub
hub.PINS = Path(sys.argv[1]); print(download.fetch_senteval())
"""


def test_concurrent_processes_download_once(hub):
    command = [sys.executable, "-c", CODE, str(downloads.PINS)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    (folder,) = {process.communicate(timeout=120)[0].strip() for process in processes}
    assert (Path(folder) / "downstream" / "SICK" / "b.txt").is_file()
    assert len([request for request in hub.requests if re.search("GET.*/resolve/", request)]) == 1
