"""Faults of servers and disks: messages (as in docs/downloads.md), and what is left in caches."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants

from bench import download
from bench.download import archive, http, pins
from bench.models.load import load_encoder
from bench.utils.errors import TransientError, UserError
from tests.support.fake_hub import FakeHub, Fault, use_endpoint
from tests.support.hub_contents import BERT, CORPUS, NO_PINS, TEXT, fetch, left_behind, member, tar

DOCS = Path(__file__).parents[2] / "docs" / "downloads.md"
TIMEOUT = 0.3  # seconds, in the tests of timeouts


# --- the table

Setup = Callable[[FakeHub, pytest.MonkeyPatch], object]


def fault(name: str, **values: Any) -> Setup:
    return lambda hub, patch: hub.faults.update({name: Fault(**values)})


def serve(content: bytes) -> Setup:
    return lambda hub, patch: hub.served.update({CORPUS: content})


def redirect(target: str) -> Setup:
    """Redirect the corpus to another address."""

    def setup(hub: FakeHub, patch: pytest.MonkeyPatch) -> None:
        path = f"/{download.DATASET}/resolve/{hub.commit(download.DATASET)}/{CORPUS}"
        location = target.format(port=hub.endpoint.rsplit(":", 1)[1], path=path)
        hub.faults[CORPUS] = Fault(status=302, headers={"Location": location})

    return setup


def silent(hub: FakeHub, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", TIMEOUT)
    hub.faults["*"] = Fault(silence=2 * TIMEOUT)


def archived(members: dict[str, Any]) -> Setup:
    content = {"senteval.tar": tar(members)}
    return lambda hub, patch: hub.repositories[download.DATASET].update(content)


def only_pickles(hub: FakeHub, patch: pytest.MonkeyPatch) -> None:
    files = hub.repositories[BERT]
    files["pytorch_model.bin"] = files.pop("model.safetensors")


def other_weights(hub: FakeHub, patch: pytest.MonkeyPatch) -> None:
    hub.repositories[BERT]["model.safetensors"] = b"weights"
    hub.served["model.safetensors"] = b"altered"


def absent_commit(hub: FakeHub, patch: pytest.MonkeyPatch) -> None:
    pins.PINS.write_text(
        json.dumps({"repositories": {download.DATASET: {"revision": "c" * 40}}, "corpora": {}})
    )


FAULTS: dict[str, Setup] = {
    "no server": lambda hub, patch: use_endpoint(patch, "http://127.0.0.1:9"),
    "HF_ENDPOINT is not a web address": lambda hub, patch: use_endpoint(patch, "ftp://127.0.0.1"),
    "HF_HUB_OFFLINE is set, and the cache is empty": lambda hub, patch: patch.setattr(
        constants, "HF_HUB_OFFLINE", True
    ),
    "404, no such repository": lambda hub, patch: hub.repositories.pop(download.DATASET),
    "404, no such commit": absent_commit,
    "404, no such file": lambda hub, patch: hub.repositories[download.DATASET].pop(CORPUS),
    "401": fault("*", status=401),
    "403, gated": fault(CORPUS, status=403, headers={"X-Error-Code": "GatedRepo"}),
    "503, always": fault("*", status=503),
    "503 to a listing, twice": fault("listing", status=503, times=2),
    "503 to a file, four times": fault(CORPUS, status=503, times=4),
    "429 with Retry-After, once": fault(CORPUS, status=429, headers={"Retry-After": "1"}, times=1),
    "the connection closes half-way, once": fault(CORPUS, sent=400, times=1),
    "the connection is reset half-way, once": fault(CORPUS, sent=400, reset=True, times=1),
    "the connection is reset half-way, always": fault(CORPUS, sent=400, reset=True),
    "the server hangs": silent,
    "the file is too short": serve(TEXT[:400]),
    "the file has other bytes": serve(TEXT.replace(b"7", b"8")),
    "a redirect to another host": redirect("http://localhost:{port}/moved{path}"),
    "redirects in a circle": redirect("{path}"),
    "a redirect to file://": redirect("file:///etc/passwd"),
    "a listing that is a web page": fault("listing", body=b"<html>Please log in</html>"),
    "a listing with a commit that is a path": fault(
        "listing", body=b'{"id": "a/b", "sha": "../..", "siblings": []}'
    ),
}
LINK = member("STS/a.txt", tarfile.SYMTYPE, "/etc/passwd")
ARCHIVES: dict[str, Setup] = {
    "an archive with a path out of its folder": archived({"STS/../../a.txt": b"x"}),
    "an archive with a link": archived({"STS/a.txt": LINK}),
    "an archive with a name twice": archived({"STS/a.txt": b"x", "./STS/a.txt": b"y"}),
    "an archive with a name that cannot be printed": archived({"STS/a\x1b[2Jb.txt": b"x"}),
}
MODELS: dict[str, Setup] = {
    "a model with pickled weights only": only_pickles,
    "other weights than listed": other_weights,
    "weights are gated": fault(
        "model.safetensors", status=401, headers={"X-Error-Code": "GatedRepo"}
    ),
}
DISKS = ["the disk is full", "the cache is read-only", "the cache is read-only, and holds the file"]


def check_message(name: str, tmp_path: Path, message: str, status: int) -> None:
    """Compare a message with its row in docs/downloads.md, with paths and digests abbreviated."""
    assert message.count("\n") <= 1, message  # one line
    assert (status == 0) == (not message)
    text = message.strip().removeprefix("error: ")
    for found, written in (
        (f"{CORPUS} of {download.DATASET}", "FILE"),
        (str(tmp_path / "cache"), "CACHE"),
        (f"{TIMEOUT} s", "10 s"),
        ("\\", "\\\\"),
    ):
        text = text.replace(found, written)
    text = re.sub(r"http://127\.0\.0\.1:\d+", "https://huggingface.co", text)
    text = re.sub(r"\b([0-9a-f]{8})[0-9a-f]{32,56}\b", r"\1…", text)
    row = f"| {name} | {text or 'nothing: it is downloaded'} | {status} |"
    assert row in DOCS.read_text().splitlines(), f"docs/downloads.md lacks this row:\n{row}"


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_a_corpus(
    name: str,
    hub: FakeHub,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint, final = hub.endpoint, tmp_path / "cache" / CORPUS
    with monkeypatch.context() as patch:
        FAULTS[name](hub, patch)
        status = fetch(tmp_path, "corpus", "wiki1m")
    check_message(name, tmp_path, capsys.readouterr().err, status)
    assert final.exists() == (status == 0)
    assert (tmp_path / "lock.json").exists() == (status == 0)
    # Without the fault, the next call succeeds: nothing wrong is left.
    hub.faults.clear()
    hub.served.clear()
    hub.repositories[download.DATASET] = {CORPUS: TEXT}
    pins.PINS.write_text(NO_PINS)
    use_endpoint(monkeypatch, endpoint)
    assert fetch(tmp_path, "corpus", "wiki1m") == 0
    assert final.read_bytes() == TEXT
    assert left_behind(tmp_path / "cache") == [CORPUS]


@pytest.mark.parametrize(
    ("name", "transient"),
    [
        ("no server", True),
        ("503, always", True),
        ("the connection is reset half-way, always", True),
        ("the file is too short", True),
        ("404, no such repository", False),
        ("401", False),
        ("403, gated", False),
        ("HF_ENDPOINT is not a web address", False),
        ("HF_HUB_OFFLINE is set, and the cache is empty", False),
    ],
)
def test_faults_that_another_attempt_may_not_meet(
    name: str, transient: bool, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    FAULTS[name](hub, monkeypatch)
    with pytest.raises(UserError) as caught:
        download.fetch_corpus("wiki1m")
    assert isinstance(caught.value, TransientError) == transient


@pytest.mark.parametrize("name", [*ARCHIVES, *MODELS])
def test_faults_of_an_archive_or_a_model(
    name: str,
    hub: FakeHub,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (ARCHIVES | MODELS)[name](hub, monkeypatch)
    what = ["data", "senteval"] if name in ARCHIVES else ["backbone", "bert-base-uncased"]
    status = fetch(tmp_path, *what)
    check_message(name, tmp_path, capsys.readouterr().err, status)
    left = [path.name for path in (tmp_path / "models").rglob("snapshots/*/*")]
    assert not {"config.json", "model.safetensors"} & set(left)
    assert left_behind(tmp_path / "cache") == ["senteval.tar"] * (name in ARCHIVES)
    assert not (tmp_path / "fetched.json").exists()


def test_table_has_no_other_rows() -> None:
    lines = [line for line in DOCS.read_text().splitlines() if line.startswith("| ")]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in lines]
    assert sorted(rows[1:]) == sorted([*FAULTS, *ARCHIVES, *MODELS, *DISKS])


def test_limits_in_the_documentation() -> None:
    text = " ".join(DOCS.read_text().split())
    assert http.WAITS == (1, 2, 4, 8)
    assert "after 1, 2, 4 and 8 seconds" in text
    size = f"{archive.LARGEST_ARCHIVE >> 30} GiB"
    assert f"more than {size} or {archive.MOST_MEMBERS:,} members" in text
    assert f"`HF_HUB_DOWNLOAD_TIMEOUT` seconds ({constants.DEFAULT_DOWNLOAD_TIMEOUT})" in text


def test_waits_before_retries(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(http, "time", SimpleNamespace(sleep=waits.append))
    hub.faults["listing"] = Fault(status=503)
    with pytest.raises(UserError, match="status 503"):
        download.fetch_corpus("wiki1m")
    assert waits == [1, 2, 4, 8]
    hub.faults["listing"] = Fault(status=403)
    requests = len(hub.requests)
    with pytest.raises(UserError, match="status 403"):
        download.fetch_corpus("wiki1m")
    assert len(hub.requests) == requests + 1


# --- disks


def test_full_disk(
    hub: FakeHub, disk: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    large = TEXT * 300
    hub.repositories[download.DATASET][CORPUS] = large
    status = fetch(tmp_path, "corpus", "wiki1m")
    check_message(DISKS[0], tmp_path, capsys.readouterr().err, status)
    assert left_behind(tmp_path / "cache") == []
    disk("remount,size=1m")
    assert fetch(tmp_path, "corpus", "wiki1m") == 0
    assert (tmp_path / "cache" / CORPUS).read_bytes() == large


def test_read_only_cache(
    hub: FakeHub, disk: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert disk("remount,ro")
    status = fetch(tmp_path, "corpus", "wiki1m")
    check_message(DISKS[1], tmp_path, capsys.readouterr().err, status)
    assert disk("remount,rw")
    assert fetch(tmp_path, "corpus", "wiki1m") == 0
    capsys.readouterr()
    assert disk("remount,ro")
    requests = len(hub.requests)
    status = fetch(tmp_path, "corpus", "wiki1m")
    check_message(DISKS[2], tmp_path, capsys.readouterr().err, status)
    assert len(hub.requests) == requests


# --- interrupted and concurrent downloads

FETCH = """
import sys; from pathlib import Path; from huggingface_hub import constants
from bench import download; from bench.download import pins; constants.DOWNLOAD_CHUNK_SIZE = 10_000
pins.PINS, pins.LOCK = Path(sys.argv[1]), Path(sys.argv[2]); print(eval(sys.argv[3]))
"""


def start(tmp_path: Path, expression: str, **environment: str) -> subprocess.Popen[str]:
    """Start a process that downloads; the environment says where from."""
    files = [str(tmp_path / "pins.json"), str(tmp_path / "lock.json")]
    command = [sys.executable, "-c", FETCH, *files, expression]
    environment = {**os.environ, **environment}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["corpus", "model"])
def test_killed_download_starts_again(kind: str, hub: FakeHub, tmp_path: Path) -> None:
    name, key = (CORPUS, download.DATASET) if kind == "corpus" else ("model.safetensors", BERT)
    call = "fetch_corpus('wiki1m')" if kind == "corpus" else f"fetch_backbone('{BERT}')"
    content = hub.repositories[key][name] = os.urandom(100_000).replace(b"\r", b"\n")
    hub.faults[name] = Fault(pause=0.01)
    process = start(tmp_path, f"download.{call}")
    while hub.sent[name] < 50_000:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    assert not [path for path in tmp_path.rglob(name) if path.exists()]
    assert not (tmp_path / "lock.json").exists()
    hub.faults.clear()
    found = download.fetch_corpus("wiki1m") if kind == "corpus" else download.fetch_backbone(BERT)
    path = found if kind == "corpus" else found / name
    assert path.read_bytes() == content


def test_processes_with_their_own_data_caches_share_the_hub_cache(
    hub: FakeHub, tmp_path: Path
) -> None:
    call, caches = f"download.fetch_backbone('{BERT}')", [str(tmp_path / name) for name in "ab"]
    processes = [start(tmp_path, call, SENTBENCH_CACHE=cache) for cache in caches]
    folders = {process.communicate(timeout=120)[0].strip() for process in processes}
    storage = tmp_path / "models" / "models--google-bert--bert-base-uncased"
    assert folders == {str(storage / "snapshots" / hub.commit(BERT))}
    assert hub.sent["model.safetensors"] == len(hub.repositories[BERT]["model.safetensors"])


# --- tokens, caches and revisions


def test_token_is_sent_to_the_hub_only(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    redirect("http://localhost:{port}/moved{path}")(hub, monkeypatch)
    download.fetch_corpus("wiki1m")
    own = hub.endpoint.removeprefix("http://")
    other = own.replace("127.0.0.1", "localhost")
    assert set(hub.tokens) == {(own, "Bearer hf_secret"), (other, "")}
    # Nor to GitHub.
    hub.tokens.clear()
    monkeypatch.setenv("GITHUB_RAW_ENDPOINT", hub.endpoint)
    (tmp_path / "text").write_bytes(b"one\n")
    blob = pins.git_blob(tmp_path / "text")
    pin = {"revision": "c" * 40, "files": {"data/probing/tree_depth.txt": {"blob": blob}}}
    repositories = {"github.com/facebookresearch/SentEval": pin}
    pins.PINS.write_text(json.dumps({"repositories": repositories, "corpora": {}}))
    hub.raw = {f"/facebookresearch/SentEval/{'c' * 40}/data/probing/tree_depth.txt": b"one\n"}
    folder = tmp_path / "cache" / "senteval-0123456789ab"
    folder.mkdir(parents=True)
    assert download.probing_file("tree_depth", folder).read_bytes() == b"one\n"
    assert [token for _, token in hub.tokens] == [""]


def test_offline_with_a_filled_cache(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def everything() -> list[Path]:
        data = [download.fetch_corpus("wiki1m"), download.fetch_senteval()]
        return [*data, download.fetch_backbone(BERT)]

    paths = everything()
    requests = len(hub.requests)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert everything() == paths
    assert load_encoder(BERT, pooler="avg").encode(["a dog"]).shape == (1, 32)
    assert len(hub.requests) == requests
    # Other programs find the model, too.
    commit = hub.commit(BERT)
    options = {"revision": commit, "cache_dir": tmp_path / "models"}
    assert huggingface_hub.snapshot_download(BERT, **options) == str(paths[2])
    scanned = huggingface_hub.scan_cache_dir(tmp_path / "models")
    assert not scanned.warnings
    (revision,) = (revision for repo in scanned.repos for revision in repo.revisions)
    names = {file.file_name for file in revision.files}
    assert names == {path.name for path in paths[2].iterdir()}


def test_offline_with_a_model_of_another_program(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = hub.commit(BERT)
    pins.PINS.write_text(json.dumps({"repositories": {BERT: {"revision": commit}}, "corpora": {}}))
    folder = huggingface_hub.snapshot_download(BERT, revision=commit, endpoint=hub.endpoint)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert download.fetch_backbone(BERT) == Path(folder)


def test_weights_of_a_moved_revision(hub: FakeHub, tmp_path: Path) -> None:
    """Only a pull request has safetensors; its commit is recorded and kept when it moves."""
    hub.revisions[BERT, "refs/pr/1"] = hub.repositories[BERT]
    hub.repositories[BERT] = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
    words = r"model.safetensors \(google-bert/bert-base-uncased@REVISION\)"
    with pytest.raises(UserError, match=words):
        download.fetch_backbone(BERT)
    commit = hub.commit(BERT, "refs/pr/1")
    folder = download.fetch_backbone(f"{BERT}@refs/pr/1")
    assert folder.name == commit
    assert (folder / "model.safetensors").is_file()
    assert download.fetch_backbone(BERT, "refs/pr/1") == folder
    assert download.fetch_backbone(BERT, commit) == folder
    recorded = sorted(json.loads((tmp_path / "lock.json").read_text()))
    assert recorded == [f"{BERT}@{commit}", f"{BERT}@refs/pr/1"]
    hub.revisions[BERT, "refs/pr/1"] = {**hub.revisions[BERT, "refs/pr/1"], "vocab.txt": b"new"}
    requests = len(hub.requests)
    assert download.fetch_backbone(f"{BERT}@refs/pr/1") == folder
    assert len(hub.requests) == requests


def test_a_pinned_pull_request_is_followed_once(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pins.json` names the pull request; the commit of the first download is kept."""
    hub.revisions[BERT, "refs/pr/4"] = hub.repositories[BERT]
    hub.repositories[BERT] = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
    pin = {BERT: {"revision": "refs/pr/4"}}
    pins.PINS.write_text(json.dumps({"repositories": pin, "corpora": {}}))
    folder = download.fetch_backbone(BERT)
    assert folder.name == pins.pinned(BERT)["revision"] == hub.commit(BERT, "refs/pr/4")
    hub.revisions[BERT, "refs/pr/4"] = {**hub.revisions[BERT, "refs/pr/4"], "vocab.txt": b"new"}
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert download.fetch_backbone(BERT) == folder


def test_listed_names_cannot_lead_out(hub: FakeHub, tmp_path: Path) -> None:
    names = ["../config.json", "model-/../../../../evil.safetensors", "model-\n.safetensors"]
    names.append("/tmp/model.safetensors")
    hub.repositories[BERT] |= dict.fromkeys(names, b"evil")
    folder = download.fetch_backbone(BERT)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if path.read_bytes() == b"evil"]
    assert not [request for request in hub.requests if ".." in request or "\n" in request]
    assert (folder / "model.safetensors").is_file()
