"""Downloads of data and models from a hub on the loopback, and their pins."""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import tenacity.nap
from huggingface_hub import constants

from bench import download
from bench.download import hub as downloads
from bench.download.hub import fetch_file, lock_file
from bench.models.load import load_encoder
from bench.runs.resolve import resolve
from bench.stages.jobs import score_run
from bench.utils.errors import TransientError, UserError
from tests.support.fake_hub import FakeHub, Fault, use_endpoint
from tests.support.hub_contents import BERT, CORPUS, TEXT, tar


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def pin(key: str, **entry: Any) -> None:
    content = json.loads(downloads.PINS.read_text())
    content["repositories"].setdefault(key, {}).update(entry)
    downloads.PINS.write_text(json.dumps(content))


def recorded() -> dict[str, Any]:
    return json.loads(lock_file().read_text())


def fetched(hub: FakeHub) -> list[str]:
    """The names of the files that were transferred."""
    requests = [request for request in hub.requests if request.startswith("GET")]
    return [request.rsplit("/", 1)[-1] for request in requests if "/resolve/" in request]


# --- the data set


def test_first_download_is_recorded_and_cached(hub, cache):
    path = download.fetch_corpus("wiki1m")
    assert path.name == CORPUS
    assert path.read_bytes() == TEXT
    commit = hub.commit(downloads.DATASET)
    entry = {"revision": commit, "files": {CORPUS: sha256(TEXT)}}
    assert json.loads((cache / "pins.lock.json").read_text()) == {downloads.DATASET: entry}
    asked = len(hub.requests)
    assert download.fetch_corpus("wiki1m") == path
    assert len(hub.requests) == asked
    assert not list(Path(download.__file__).parent.glob("*.lock*"))


def test_recorded_commit_is_requested(hub):
    download.fetch_senteval()
    hub.repositories[downloads.DATASET]["new.txt"] = b"the branch moved on"
    with pytest.raises(UserError, match="no such revision"):
        downloads.fetch_backbone(f"{BERT}@{'c' * 40}")
    lock_file().write_text(json.dumps({BERT: {"revision": "c" * 40, "files": {}}}))
    with pytest.raises(UserError, match="no such revision"):
        downloads.fetch_backbone(BERT)


def test_other_bytes_than_listed_are_refused(hub):
    altered = TEXT.replace(b"7", b"8")
    hub.served[CORPUS] = altered
    words = f"{CORPUS} of .* has the SHA-256 {sha256(altered)}, expected {sha256(TEXT)}; fetch it"
    with pytest.raises(UserError, match=words):
        download.fetch_corpus("wiki1m")
    assert not lock_file().exists()
    hub.served.clear()
    assert download.fetch_corpus("wiki1m").read_bytes() == TEXT  # nothing wrong is left


def test_other_bytes_than_pinned_are_refused(hub):
    pin(downloads.DATASET, files={CORPUS: {"sha256": "0" * 64}})
    words = f"{CORPUS} of .* has the SHA-256 {sha256(TEXT)}, expected {'0' * 64}; fetch it"
    with pytest.raises(UserError, match=words):
        download.fetch_corpus("wiki1m")


def test_altered_file_in_the_cache_is_refused_then_downloaded(hub):
    folder = downloads.fetch_backbone(BERT)
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.resolve().write_bytes(content[:-1] + b"?")
    with pytest.raises(UserError, match=r"model\.safetensors of .* has the SHA-256"):
        downloads.fetch_backbone(BERT)
    assert (downloads.fetch_backbone(BERT) / "model.safetensors").read_bytes() == content


# --- faults of the network

GATED = {"status": 403, "headers": {"X-Error-Code": "GatedRepo"}}


@pytest.mark.parametrize(
    ("name", "values", "message", "transient"),
    [
        ("*", {"status": 503}, "no answer from .*503", True),
        (CORPUS, {"sent": 400, "reset": True}, "no answer from", True),
        ("*", {"status": 403}, "answers with status 403", False),
        (CORPUS, GATED, "is gated; accept its terms", False),
        ("", {"served": {CORPUS: TEXT + b"more"}}, "another size than announced; fetch it", False),
        ("", {"repositories": {}}, "the repository does not exist or is private; check", False),
        ("", {"endpoint": "http://127.0.0.1:9"}, "no answer from http://127.0.0.1:9", True),
        ("", {"offline": True}, "not in the cache and HF_HUB_OFFLINE is set", False),
    ],
)
def test_faults_are_one_sentence(name, values, message, transient, hub, monkeypatch):
    """Without the fault, the next call succeeds: nothing wrong is left."""
    with monkeypatch.context() as patch:
        if name:
            patch.setitem(hub.faults, name, Fault(**values))
        elif "endpoint" in values:
            use_endpoint(patch, values["endpoint"])
        elif "offline" in values:
            patch.setattr(constants, "HF_HUB_OFFLINE", True)
        else:
            ((field, content),) = values.items()
            patch.setattr(hub, field, content)
        with pytest.raises(UserError) as caught:
            download.fetch_corpus("wiki1m")
    text = str(caught.value)
    assert re.match(f"cannot fetch {downloads.DATASET}: .*{message}", text), text
    assert text.endswith("or set BENCH_DATA to a folder that holds it")
    assert "\n" not in text
    assert isinstance(caught.value, TransientError) == transient
    assert download.fetch_corpus("wiki1m").read_bytes() == TEXT


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("listing", {"status": 503, "times": 2}),
        (CORPUS, {"status": 503, "times": 4}),
        (CORPUS, {"sent": 400, "reset": True, "times": 1}),
    ],
)
def test_connections_and_server_errors_are_retried(name, values, hub):
    hub.faults[name] = Fault(**values)
    assert download.fetch_corpus("wiki1m").read_bytes() == TEXT


def test_waits_before_retries(hub, monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr(tenacity.nap.time, "sleep", waits.append)
    hub.faults["listing"] = Fault(status=503)
    with pytest.raises(UserError, match="503"):
        download.fetch_corpus("wiki1m")
    assert waits == [1, 2, 4, 8]
    hub.faults["listing"] = Fault(status=404)
    requests = len(hub.requests)
    with pytest.raises(UserError, match="status 404"):
        download.fetch_corpus("wiki1m")
    assert (len(hub.requests), waits) == (requests + 1, [1, 2, 4, 8])


CODE = """
import sys; from pathlib import Path; from bench import download; from bench.download import hub
hub.PINS = Path(sys.argv[1]); print(download.fetch_senteval())
"""


def test_concurrent_processes_download_once(hub):
    command = [sys.executable, "-c", CODE, str(downloads.PINS)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    folders = {process.communicate(timeout=120)[0].strip() for process in processes}
    assert len(folders) == 1
    assert (Path(folders.pop()) / "downstream" / "SICK" / "b.txt").is_file()
    assert fetched(hub) == ["senteval.tar"]


# --- archives


@pytest.mark.parametrize("prefix", ["", "downstream/", "./data/downstream/"])
def test_archive_becomes_a_data_folder(prefix, hub, cache):
    files = {"STS/STS12-en-test/a.txt": b"one\n", "SICK/b.txt": b"two\n"}
    packed = {f"{prefix}{name}": content for name, content in files.items()}
    hub.repositories[downloads.DATASET]["senteval.tar"] = tar(packed)
    left = cache / ".senteval-0.part"  # of a killed process
    left.mkdir(parents=True)
    folder = download.fetch_senteval()
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*.txt")]
    assert sorted(names) == sorted(f"downstream/{name}" for name in files)
    assert all((folder / "downstream" / name).read_bytes() == files[name] for name in files)
    assert [path.name for path in folder.iterdir()] == ["downstream"]
    assert not left.exists()
    assert download.fetch_senteval() == folder


def test_table_of_an_archive(hub):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("glove.300d.txt", b"dog 1 2\n")
    hub.repositories["a/vectors"] = {"all.zip": stream.getvalue()}
    path = download.fetch_words("all.zip", "a/vectors", "glove.300d.txt")
    assert path.read_bytes() == b"dog 1 2\n"
    asked = len(hub.requests)
    assert download.fetch_words("all.zip", "a/vectors", "glove.300d.txt") == path
    assert len(hub.requests) == asked


# --- the local folder


def test_local_folder_takes_precedence(hub, monkeypatch, tmp_path):
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "own"))
    with pytest.raises(UserError, match="which is not a folder"):
        download.fetch_senteval()
    (tmp_path / "own").mkdir()
    with pytest.raises(UserError, match="has no folder downstream/"):
        download.fetch_senteval()
    (tmp_path / "own" / "downstream").mkdir()
    (tmp_path / "own" / CORPUS).write_bytes(TEXT)
    assert download.fetch_senteval() == tmp_path / "own"
    assert download.fetch_corpus("wiki1m") == tmp_path / "own" / CORPUS
    with pytest.raises(UserError, match=r"'wiki1n' is not in .*did you mean 'wiki1m'"):
        download.fetch_corpus("wiki1n")
    assert not hub.requests


def test_unknown_corpus_needs_no_request(hub):
    with pytest.raises(UserError, match="'wiki2m' is not on the hub; did you mean 'wiki1m'"):
        download.fetch_corpus("wiki2m")
    assert not hub.requests


def test_cache_that_cannot_be_written(hub, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SENTBENCH_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UserError, match=r"cannot write .*SENTBENCH_CACHE"):
        download.fetch_senteval()


# --- models


def test_backbone_has_no_pickles_and_no_code(hub):
    expected = set(hub.repositories[BERT])
    hub.repositories[BERT] |= {"pytorch_model.bin": b"pickle", "modeling_evil.py": b"raise"}
    folder = downloads.fetch_backbone(BERT)
    assert {path.name for path in folder.iterdir()} == expected == set(fetched(hub))
    assert recorded()[BERT]["revision"] == hub.commit(BERT) == folder.name
    weights = hub.repositories[BERT]["model.safetensors"]
    assert recorded()[BERT]["files"]["model.safetensors"] == sha256(weights)
    (folder / "tokenizer.json").unlink()  # an incomplete snapshot is completed
    assert (downloads.fetch_backbone(BERT) / "tokenizer.json").is_file()


@pytest.mark.parametrize(
    ("text", "backbone", "commits"),
    [
        ("untrained[pooler=avg]", "bert-base-uncased", {"backbone_commit": "COMMIT"}),
        (f"published[model={BERT},pooler=avg]", "none", {"encoder_commits": {BERT: "COMMIT"}}),
    ],
)
def test_scores_name_the_commits_of_downloaded_encoders(
    text, backbone, commits, hub, tiny_data, tmp_path
):
    run = resolve(text, backbone_name=backbone, corpus="none", data=str(tiny_data), seed=None)
    score_run(run, tmp_path, ["STS12"], "test", tmp_path / "scores.json", "cpu")
    described = (tmp_path / "scores.json").read_text()
    expected = json.loads(json.dumps(commits).replace("COMMIT", hub.commit(BERT)))
    found = json.loads(described)["provenance"]
    assert {key: found[key] for key in found if key.endswith(("commit", "commits"))} == expected


def test_only_pickles_are_refused(hub):
    hub.repositories[BERT] = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
    with pytest.raises(UserError, match=r"only pickled weights, .*\(google-bert/.*@REVISION\)"):
        downloads.fetch_backbone(BERT)


def test_snapshot_of_another_program_is_completed(hub):
    """Its pickled weights are neither used nor recorded nor removed."""
    hub.repositories[BERT]["pytorch_model.bin"] = b"pickle"
    pin(BERT, revision=hub.commit(BERT))
    api = huggingface_hub.HfApi(endpoint=hub.endpoint)
    folder = Path(api.hf_hub_download(BERT, "pytorch_model.bin")).parent
    assert downloads.fetch_backbone(BERT) == folder
    assert (folder / "pytorch_model.bin").read_bytes() == b"pickle"
    assert "model.safetensors" in recorded()[BERT]["files"]
    assert "pytorch_model.bin" not in recorded()[BERT]["files"]


def test_a_model_of_no_repositorys_name_is_refused(hub):
    told = "cannot fetch a/b/c: this is not a repository name.*name a local folder"
    with pytest.raises(UserError, match=told):
        downloads.fetch_backbone("a/b/c")


def test_a_revision_is_followed_once(hub):
    """Only a pull request has safetensors; its commit is recorded and kept when it moves, whether a
    user or `pins.json` names it."""
    hub.revisions[BERT, "refs/pr/1"] = hub.repositories[BERT]
    hub.repositories[BERT] = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
    commit = hub.commit(BERT, "refs/pr/1")
    folder = downloads.fetch_backbone(f"{BERT}@refs/pr/1")
    assert folder.name == commit
    assert list(recorded()) == [f"{BERT}@refs/pr/1"]
    pin(BERT, revision="refs/pr/1")
    assert downloads.fetch_backbone(BERT) == folder
    assert downloads.pinned(BERT)[0] == commit
    hub.revisions[BERT, "refs/pr/1"] = {**hub.revisions[BERT, "refs/pr/1"], "vocab.txt": b"new"}
    requests = len(hub.requests)
    assert downloads.fetch_backbone(f"{BERT}@refs/pr/1") == downloads.fetch_backbone(BERT) == folder
    assert len(hub.requests) == requests


def test_offline_with_a_filled_cache(hub, tmp_path, cache, monkeypatch):
    def everything() -> list[Path]:
        data = [download.fetch_corpus("wiki1m"), download.fetch_senteval()]
        return [*data, downloads.fetch_backbone(BERT)]

    paths = everything()
    requests = len(hub.requests)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert everything() == paths
    assert load_encoder(BERT, pooler="avg").encode(["a dog"]).shape == (1, 32)
    assert len(hub.requests) == requests
    # Other programs find the model, too.
    options = {"revision": hub.commit(BERT), "cache_dir": tmp_path / "models"}
    assert huggingface_hub.snapshot_download(BERT, **options) == str(paths[2])
    assert not huggingface_hub.scan_cache_dir(tmp_path / "models").warnings
    # A cache that is read-only serves what it holds.
    if os.geteuid():
        cache.chmod(0o555)
        assert everything() == paths


def test_token_is_sent_to_the_hub_only(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    path = f"/{downloads.DATASET}/resolve/{hub.commit(downloads.DATASET)}/{CORPUS}"
    elsewhere = hub.endpoint.replace("127.0.0.1", "localhost")
    location = f"{elsewhere}/moved{path}"
    hub.faults[CORPUS] = Fault(status=302, headers={"Location": location})
    fetch_file(CORPUS)
    hosts = [url.removeprefix("http://") for url in (hub.endpoint, elsewhere)]
    assert set(hub.tokens) == {(hosts[0], "Bearer hf_secret"), (hosts[1], "")}


# --- the pins that are shipped


def test_shipped_pins_are_well_formed_and_carry_their_source():
    content = json.loads(Path(download.__file__).with_name("pins.json").read_text())
    for key, entry in content["repositories"].items():
        assert entry["source"], key
        revision = entry["revision"] or "0" * 40
        assert re.fullmatch(r"[0-9a-f]{40}|refs/pr/\d+", revision), key
        for file in entry["files"].values():
            if "blob" in file:
                assert len(bytes.fromhex(file["blob"])) == 20, key
            else:
                assert file["sha256"] is None or len(bytes.fromhex(file["sha256"])) == 32, key
    for name, entry in content["corpora"].items():
        assert entry["source"], name
        assert entry["rows"], name
        assert all(len(bytes.fromhex(digest)) == 32 for digest in entry.get("sha256", [])), name
