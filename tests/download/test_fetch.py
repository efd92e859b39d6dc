"""Downloads of data and models from a hub on the loopback, and pins."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import huggingface_hub
import huggingface_hub.constants
import pytest

from bench import download
from bench.download import pins
from bench.download.hub import fetch_file
from bench.download.local import locked
from bench.utils.errors import UserError
from tests.support.fake_hub import FakeHub
from tests.support.hub_contents import SMALL, WIKI, left_behind


def pin(tmp_path: Path, key: str, **entry: Any) -> None:
    content = json.loads((tmp_path / "pins.json").read_text())
    content["repositories"].setdefault(key, {}).update(entry)
    (tmp_path / "pins.json").write_text(json.dumps(content))


# --- the data set


def test_first_download_is_recorded_and_cached(
    online: FakeHub, cache: Path, tmp_path: Path
) -> None:
    path = download.fetch_corpus("wiki1m")
    assert path == cache / "wiki1m_for_simcse.txt"
    assert path.read_bytes() == WIKI
    assert json.loads((tmp_path / "lock.json").read_text()) == {
        download.DATASET: {
            "revision": online.commit(download.DATASET),
            "files": {"wiki1m_for_simcse.txt": hashlib.sha256(WIKI).hexdigest()},
        }
    }
    asked = len(online.requests)
    assert download.fetch_corpus("wiki1m") == path
    assert len(online.requests) == asked
    path.write_bytes(b"something else")
    assert download.fetch_corpus("wiki1m").read_bytes() == WIKI
    assert left_behind(cache) == ["wiki1m_for_simcse.txt"]


def test_recorded_commit_is_requested(online: FakeHub, cache: Path) -> None:
    fetch_file("nli_for_simcse.csv")
    online.repositories[download.DATASET]["new.txt"] = b"the branch moved on"
    with pytest.raises(UserError, match="no such revision"):
        fetch_file("wiki1m_for_simcse.txt")


def test_other_bytes_than_listed_are_refused(online: FakeHub, cache: Path, tmp_path: Path) -> None:
    online.served["wiki1m_for_simcse.txt"] = WIKI.replace(b"3", b"4")
    with pytest.raises(UserError, match="is corrupt"):
        download.fetch_corpus("wiki1m")
    assert left_behind(cache) == []
    assert not (tmp_path / "lock.json").exists()
    online.served.clear()
    assert download.fetch_corpus("wiki1m").read_bytes() == WIKI  # no partial file is left


def test_other_bytes_than_pinned_are_refused(online: FakeHub, cache: Path, tmp_path: Path) -> None:
    pin(tmp_path, download.DATASET, files={"wiki1m_for_simcse.txt": {"sha256": "0" * 64}})
    with pytest.raises(UserError, match=r"wiki1m_for_simcse.txt .*0{64} is pinned"):
        download.fetch_corpus("wiki1m")
    assert left_behind(cache) == []


def test_replaced_file_is_refused(online: FakeHub, cache: Path, tmp_path: Path) -> None:
    path = download.fetch_corpus("wiki1m")
    path.unlink()
    online.repositories[download.DATASET]["wiki1m_for_simcse.txt"] = WIKI + b"one more\n"
    lock = json.loads((tmp_path / "lock.json").read_text())
    lock[download.DATASET]["revision"] = online.commit(download.DATASET)
    (tmp_path / "lock.json").write_text(json.dumps(lock))
    with pytest.raises(UserError, match=r"is pinned.*remove its entry from lock.json"):
        download.fetch_corpus("wiki1m")
    assert left_behind(cache) == []


def test_wrong_number_of_rows_is_refused(online: FakeHub, cache: Path) -> None:
    online.repositories[download.DATASET]["wiki1m_for_simcse.txt"] = WIKI[: WIKI.index(b"4")]
    with pytest.raises(UserError, match="5 rows, expected 7 or 8"):
        download.fetch_corpus("wiki1m")
    assert left_behind(cache) == []


def test_missing_file_and_missing_repository(online: FakeHub, cache: Path) -> None:
    del online.repositories[download.DATASET]["senteval.tar"]
    with pytest.raises(UserError, match="no such file; check HF_ENDPOINT, or set BENCH_DATA"):
        download.fetch_senteval()
    del online.repositories[download.DATASET]
    with pytest.raises(UserError, match=r"repository does not exist or is private.*set BENCH_DATA"):
        download.fetch_senteval()
    assert left_behind(cache) == []


def test_no_network(cache: Path) -> None:
    with pytest.raises(UserError) as raised:
        download.fetch_senteval()
    assert str(raised.value) == (
        f"cannot fetch senteval.tar of {download.DATASET}: no connection to http://127.0.0.1:9; "
        f"check the network and try again, or set BENCH_DATA to a local data folder"
    )
    assert left_behind(cache) == []


def test_offline_is_respected(online: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for fetch in (download.fetch_senteval, lambda: download.fetch_backbone(SMALL)):
        with pytest.raises(UserError, match="not in the cache and HF_HUB_OFFLINE is set"):
            fetch()
    assert not online.requests


CODE = """
import sys; from pathlib import Path; from bench import download; from bench.download import pins
pins.PINS, pins.LOCK = Path(sys.argv[1]), Path(sys.argv[2]); print(download.fetch_senteval())
"""


def test_concurrent_processes_download_once(online: FakeHub, cache: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CODE, str(tmp_path / "pins.json"), str(tmp_path / "lock.json")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    folders = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert len(folders) == 1
    assert (Path(folders.pop()) / "downstream" / "SICK" / "b.txt").is_file()
    assert sum("GET" in request and "resolve" in request for request in online.requests) == 1


def test_records_of_threads_are_not_lost(cache: Path) -> None:
    def one(number: int) -> None:
        with locked():
            pins.record(f"someone/model-{number}", "c" * 40, {"a": str(number)})

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads(pins.LOCK.read_text())) == 8


# --- the local folder


def test_local_folder_takes_precedence(
    online: FakeHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "own"))
    with pytest.raises(UserError, match="which is not a folder"):
        download.fetch_senteval()
    (tmp_path / "own").mkdir()
    with pytest.raises(UserError, match="has no folder downstream/"):
        download.fetch_senteval()
    (tmp_path / "own" / "downstream").mkdir()
    (tmp_path / "own" / "wiki1m_for_simcse.txt").write_bytes(WIKI)
    assert download.fetch_senteval() == tmp_path / "own"
    assert download.fetch_corpus("wiki1m") == tmp_path / "own" / "wiki1m_for_simcse.txt"
    with pytest.raises(UserError, match=r"'wiki1n' is not in .*did you mean 'wiki1m'"):
        download.fetch_corpus("wiki1n")
    assert not online.requests


def test_unknown_corpus_needs_no_request(online: FakeHub) -> None:
    with pytest.raises(UserError, match="'wiki2m' is not on the hub; did you mean 'wiki1m'"):
        download.fetch_corpus("wiki2m")
    assert not online.requests


def test_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SENTBENCH_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UserError, match=r"cannot write .*SENTBENCH_CACHE"):
        download.fetch_senteval()


# --- models


def test_backbone_has_no_pickles_and_no_code(online: FakeHub, tmp_path: Path) -> None:
    folder = download.fetch_backbone(SMALL)
    names = {"config.json", "model.safetensors", "tokenizer.json"}
    assert {path.name for path in folder.iterdir()} == names
    fetched = {request.rsplit("/", 1)[-1] for request in online.requests if "resolve" in request}
    assert fetched == names
    lock = json.loads((tmp_path / "lock.json").read_text())[SMALL]
    assert lock["revision"] == online.commit(SMALL)
    assert lock["files"]["model.safetensors"] == hashlib.sha256(b"weights" * 100).hexdigest()
    asked = len(online.requests)
    assert download.fetch_backbone(SMALL) == folder
    assert len(online.requests) == asked


def test_pinned_commit_is_requested(online: FakeHub, tmp_path: Path) -> None:
    pin(tmp_path, SMALL, revision=online.commit(SMALL))
    online.repositories["other/model"] = online.repositories[SMALL]
    download.fetch_backbone(SMALL)
    pin(tmp_path, "other/model", revision="a" * 40)
    with pytest.raises(UserError, match="no such revision"):
        download.fetch_backbone("other/model")


def test_other_weights_than_listed_are_refused_and_removed(online: FakeHub, tmp_path: Path) -> None:
    digest = hashlib.sha256(b"weights" * 100).hexdigest()
    pin(tmp_path, SMALL, files={"model.safetensors": {"sha256": digest}})
    online.served["model.safetensors"] = b"WEIGHTS" * 100
    with pytest.raises(UserError, match=r"model.safetensors of someone/small-bert is corrupt"):
        download.fetch_backbone(SMALL)
    online.served.clear()
    assert (download.fetch_backbone(SMALL) / "model.safetensors").read_bytes() == b"weights" * 100


def test_altered_weights_in_the_cache_are_refused_then_downloaded(online: FakeHub) -> None:
    folder = download.fetch_backbone(SMALL)
    (folder / "model.safetensors").resolve().write_bytes(b"WEIGHTS" * 100)
    with pytest.raises(UserError, match="is pinned"):
        download.fetch_backbone(SMALL)
    assert (download.fetch_backbone(SMALL) / "model.safetensors").read_bytes() == b"weights" * 100


def test_incomplete_snapshot_is_completed(online: FakeHub) -> None:
    folder = download.fetch_backbone(SMALL)
    (folder / "tokenizer.json").unlink()
    assert (download.fetch_backbone(SMALL) / "tokenizer.json").is_file()


def test_snapshot_of_another_program_is_completed(online: FakeHub, tmp_path: Path) -> None:
    """Its pickled weights are neither used nor recorded nor removed."""
    pin(tmp_path, SMALL, revision=online.commit(SMALL))
    api = huggingface_hub.HfApi(endpoint=online.endpoint)
    folder = Path(api.hf_hub_download(SMALL, "pytorch_model.bin")).parent
    (folder / "config.json").write_bytes(online.repositories[SMALL]["config.json"])
    assert download.fetch_backbone(SMALL) == folder
    assert (folder / "model.safetensors").is_file()
    assert (folder / "pytorch_model.bin").read_bytes() == b"pickle"
    lock = json.loads((tmp_path / "lock.json").read_text())[SMALL]
    assert sorted(lock["files"]) == ["config.json", "model.safetensors", "tokenizer.json"]


def test_named_revision_has_its_own_pin(online: FakeHub, tmp_path: Path) -> None:
    commit = online.commit(SMALL)
    download.fetch_backbone(SMALL, commit)
    assert list(json.loads((tmp_path / "lock.json").read_text())) == [f"{SMALL}@{commit}"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("someone/else", "repository does not exist"), ("a/b/c", "not a repository name")],
)
def test_missing_models(name: str, reason: str, online: FakeHub) -> None:
    with pytest.raises(UserError, match=f"cannot fetch {name}: .*{reason}.*name a local folder"):
        download.fetch_backbone(name)


# --- the pins that are shipped


def test_shipped_pins_are_well_formed_and_carry_their_source() -> None:
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
