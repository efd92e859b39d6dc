"""What a hub can do wrong, and what a user sees of it: docs/downloads.md tells it in these very sentences.

Everything happens on the loopback. Beside the faults: going on after a break, offline use, full and unwritable disks,
and proofs that nothing which was downloaded is ever run.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants

from bench import download
from bench.__main__ import main
from bench.datasets import corpora
from bench.download import archive, http, pins
from bench.download.backbones import _fetch_snapshot
from bench.download.hub import list_files
from bench.models.encoder import load_encoder
from bench.utils.errors import UserError
from tests.download.test_fetch import left_behind, member, tar
from tests.support.fake_hub import FakeHub, Fault, fake_hub

DOCS = Path(__file__).parents[2] / "docs" / "downloads.md"
CORPUS = "wiki1m_for_simcse.txt"
TEXT = b"".join(b"Sentence number %d of the corpus.\n" % row for row in range(30))
MODEL = "google-bert/bert-base-uncased"
NO_PINS = json.dumps({"repositories": {}, "corpora": {}})
LIMIT = 0.1  # seconds: the time limit where it is what is tested


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_bert: Path) -> Iterator[FakeHub]:
    """A hub with a data set and a real backbone; cache, pins and lock are the test's own, and no try waits."""
    (tmp_path / "pins.json").write_text(NO_PINS)
    monkeypatch.setattr(pins, "PINS", tmp_path / "pins.json")
    monkeypatch.setattr(corpora, "PINS", tmp_path / "pins.json")
    monkeypatch.setattr(pins, "LOCK", tmp_path / "lock.json")
    monkeypatch.setenv("SENTBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "models"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 10)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(http, "WAITS", (0.0,) * len(http.WAITS))
    for name in ("BENCH_DATA", "BENCH_MODELS", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with fake_hub() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.endpoint)
        running.repositories[download.DATASET] = {
            CORPUS: TEXT,
            "senteval.tar": tar({"STS/STS12-en-test/a.txt": b"one\n", "SICK/b.txt": b"two\n"}),
        }
        running.repositories[MODEL] = {path.name: path.read_bytes() for path in tiny_bert.iterdir() if path.is_file()}
        yield running


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


# --- the table --------------------------------------------------------------------------------------------------------

Setup = Callable[[FakeHub], object]


def at(name: str, **fault: Any) -> Setup:
    return lambda hub: hub.faults.update({name: Fault(**fault)})


def to(where: str) -> Setup:
    """Redirect the corpus to another path or address."""

    def setup(hub: FakeHub) -> None:
        path = f"/datasets/{download.DATASET.removeprefix('datasets/')}/resolve/{hub.commit(download.DATASET)}/{CORPUS}"
        target = where.format(hub=hub.endpoint, port=hub.endpoint.rsplit(":", 1)[1], path=path)
        hub.faults[CORPUS] = Fault(status=302, headers={"Location": target})

    return setup


def listing(**changes: Any) -> Setup:
    """A listing of the data set of another content than the true one."""

    def setup(hub: FakeHub) -> None:
        corpus = {"rfilename": CORPUS, "size": len(TEXT), "lfs": {"sha256": hashlib.sha256(TEXT).hexdigest()}}
        content = {"sha": hub.commit(download.DATASET), "siblings": [corpus | changes.pop("corpus", {})], **changes}
        hub.faults["listing"] = Fault(body=json.dumps(content).encode())

    return setup


def pinned(hub: FakeHub) -> None:
    content = {"repositories": {download.DATASET: {"revision": "c" * 40}}, "corpora": {}}
    pins.PINS.write_text(json.dumps(content))


def other_commit(hub: FakeHub) -> None:
    pinned(hub)
    listing()(hub)


def served(content: bytes) -> Setup:
    return lambda hub: hub.served.update({CORPUS: content})


def both(*setups: Setup) -> Setup:
    return lambda hub: [setup(hub) for setup in setups]


def slow(name: str, **fault: Any) -> Setup:
    """With a short time limit, which the fixture puts back."""

    def setup(hub: FakeHub) -> None:
        constants.HF_HUB_DOWNLOAD_TIMEOUT = LIMIT
        at(name, **fault)(hub)

    return setup


def archived(members: dict[str, Any]) -> Setup:
    return lambda hub: hub.repositories[download.DATASET].update({"senteval.tar": tar(members)})


LINK = member("STS/a.txt", tarfile.SYMTYPE, "/etc/passwd")
ARCHIVES: dict[str, Setup] = {
    "an archive with a path out of its folder": archived({"STS/../../a.txt": b"x"}),
    "an archive with a link": archived({"STS/a.txt": LINK}),
    "an archive with a device": archived({"STS/null": member("STS/null", tarfile.CHRTYPE)}),
    "an archive with a name twice": archived({"STS/a.txt": b"x", "./STS/a.txt": b"y"}),
    "an archive with a name that cannot be printed": archived({"STS/a\x1b[2Jb.txt": b"x"}),
}
FAULTS: dict[str, Setup] = {
    "nobody listens": lambda hub: os.environ.update(HF_ENDPOINT="http://127.0.0.1:9"),
    "HF_ENDPOINT is no web address": lambda hub: os.environ.update(HF_ENDPOINT="ftp://127.0.0.1"),
    "HF_HUB_OFFLINE is set, and the cache is empty": lambda hub: setattr(constants, "HF_HUB_OFFLINE", True),
    "404, no such repository": lambda hub: hub.repositories.pop(download.DATASET),
    "404, no such commit": pinned,
    "no such file in the listing": lambda hub: hub.repositories[download.DATASET].pop(CORPUS),
    "404 for a file that is listed": at(CORPUS, status=404, headers={"X-Error-Code": "EntryNotFound"}),
    "401": at("*", status=401),
    "403": at("*", status=403),
    "403, gated": at(CORPUS, status=403, headers={"X-Error-Code": "GatedRepo"}),
    "429 with Retry-After: 0, once": at("*", status=429, headers={"Retry-After": "0"}, times=1),
    "429 with Retry-After: 3600": at("*", status=429, headers={"Retry-After": "3600"}),
    "429, always": at("*", status=429),
    "500, always": at("*", status=500),
    "503, always": at(CORPUS, status=503),
    "503, four times": at(CORPUS, status=503, times=4),
    "the connection is closed half-way, once": at(CORPUS, sent=400, times=1),
    "the connection is closed half-way, always, and ranges are not heeded": at(CORPUS, sent=400, whole=True),
    "the connection is reset half-way, once": at(CORPUS, sent=400, reset=True, times=1),
    "the connection is reset half-way, always": at(CORPUS, sent=1, reset=True),
    "a listing is cut short, once": at("listing", sent=50, times=1),
    "Content-Length is too long": at(CORPUS, headers={"Content-Length": "9999"}, sent=len(TEXT)),
    "Content-Length is too long, and the file too short": both(
        served(TEXT[:400]), at(CORPUS, headers={"Content-Length": "9999"}, sent=400)
    ),
    "the file is too short": served(TEXT[:400]),
    "the file is too long": served(TEXT + b"and more\n"),
    "other bytes than announced": served(TEXT.replace(b"7", b"8")),
    "nothing is said at all": slow("*", silence=3 * LIMIT),
    "one byte now and then": slow(CORPUS, drip=LIMIT / 20, sent=200),
    "a listing of one byte now and then": slow("listing", drip=LIMIT / 20, sent=200),
    "a redirect to another path": to("/moved{path}"),
    "a redirect to another host": to("http://localhost:{port}/moved{path}"),
    "redirects in a circle": to("{path}"),
    "a redirect to file://": to("file:///etc/passwd"),
    "a redirect to ftp://": to("ftp://127.0.0.1{path}"),
    "HEAD is not answered": lambda hub: setattr(hub, "heads", False),
    "another ETag and commit in the headers": at(CORPUS, headers={"ETag": '"0"', "X-Repo-Commit": "0" * 40}),
    "neither ETag nor commit in the headers": at(CORPUS, headers={"ETag": "", "X-Repo-Commit": ""}),
    "a listing of another commit than was asked for": other_commit,
    "a listing that is a web page": at("listing", body=b"<html>Please log in</html>"),
    "a listing whose commit is a path": listing(sha="../../../tmp"),
    "a listing whose sum is a path": listing(corpus={"lfs": {"sha256": "../" * 21 + "x"}}),
    "a listing of another sum": listing(corpus={"lfs": {"sha256": "0" * 64}}),
}
MODELS: dict[str, Setup] = {
    "a model with pickled weights alone": lambda hub: hub.repositories[MODEL].update(
        {"pytorch_model.bin": hub.repositories[MODEL].pop("model.safetensors")}
    ),
    # Weights of our own making: of those of the backbone, which are drawn, the last bits are the processor's.
    "other weights than announced": both(
        lambda hub: hub.repositories[MODEL].update({"model.safetensors": b"weights"}),
        lambda hub: hub.served.update({"model.safetensors": b"altered"}),
    ),
    "another configuration than announced": lambda hub: hub.served.update(
        {"config.json": hub.repositories[MODEL]["config.json"].replace(b"4", b"5")}
    ),
    "weights are gated": at("model.safetensors", status=401, headers={"X-Error-Code": "GatedRepo"}),
}


def row(what: str, hub: FakeHub, tmp_path: Path, said: str, status: int) -> str:
    """A row of the table in docs/downloads.md: places and sums are another's each time."""
    said = said.strip().removeprefix("error: ")
    said = (
        said.replace(f"{CORPUS} of {download.DATASET}", "FILE")
        .replace(str(tmp_path / "cache"), "CACHE")
        .replace(f"for {LIMIT:g} s, after", "for 10 s, after")
    )
    said = re.sub(r"(s, after|off after) \d+", r"\1 N", said)  # what came within the limit, or before a reset
    # a configuration's own sums are those of the version of transformers that wrote it
    said = re.sub(r"(git blob )[0-9a-f]{40}(, announced )[0-9a-f]{40}", r"\1d2d03f75…\g<2>00ec56ad…", said)
    said = re.sub(r"http://127\.0\.0\.1:\d+", "https://huggingface.co", said)
    said = (
        re.sub(r"\b[0-9a-f]{40,64}\b", lambda found: f"{found[0][:8]}…", said).replace("\\", "\\\\").replace("|", "\\|")
    )
    return f"| {what} | {said or 'nothing: it is fetched'} | {status} |"


def told(what: str, hub: FakeHub, tmp_path: Path, said: str, status: int) -> None:
    line = row(what, hub, tmp_path, said, status)
    assert said.count("\n") <= 1, said  # one sentence on one line
    assert "Traceback" not in said
    assert (status == 0) == (not said)
    assert line in DOCS.read_text().splitlines(), f"docs/downloads.md lacks this row:\n{line}"


@pytest.mark.parametrize("what", FAULTS)
def test_what_a_user_sees_of_a_corpus(
    what: str, hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)  # put back afterwards, whatever a fault sets
    FAULTS[what](hub)
    command = ["fetch", "corpus", "wiki1m", "--suite", str(tmp_path), "--out", str(tmp_path / "corpus.json")]
    status = main(command)
    told(what, hub, tmp_path, capsys.readouterr().err, status)
    final = tmp_path / "cache" / CORPUS
    assert final.exists() == (status == 0)
    assert not final.exists() or final.read_bytes() == TEXT
    assert (tmp_path / "lock.json").exists() == (status == 0)
    # And when the fault is mended, nothing that it left is in the way.
    hub.faults.clear()
    hub.served.clear()
    hub.repositories[download.DATASET] = {CORPUS: TEXT}
    pins.PINS.write_text(NO_PINS)
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 10)
    assert main(command) == 0
    assert final.read_bytes() == TEXT
    assert left_behind(tmp_path / "cache") == [CORPUS]


@pytest.mark.parametrize("what", ARCHIVES)
def test_what_a_user_sees_of_an_archive(
    what: str, hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ARCHIVES[what](hub)
    status = main(["fetch", "data", "senteval", "--suite", str(tmp_path), "--out", str(tmp_path / "download.json")])
    told(what, hub, tmp_path, capsys.readouterr().err, status)
    assert left_behind(tmp_path / "cache") == ["senteval.tar"]


@pytest.mark.parametrize("what", MODELS)
def test_what_a_user_sees_of_a_model(
    what: str, hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    MODELS[what](hub)
    out = tmp_path / "backbone.json"
    status = main(["fetch", "backbone", "bert-base-uncased", "--suite", str(tmp_path), "--out", str(out)])
    told(what, hub, tmp_path, capsys.readouterr().err, status)
    assert not list((tmp_path / "models").rglob("snapshots/*/config.json"))
    assert not out.exists()


def test_the_table_has_no_other_rows() -> None:
    rows = [line.split(" | ")[0].removeprefix("| ") for line in DOCS.read_text().splitlines() if line.startswith("| ")]
    assert sorted(rows[1:]) == sorted([*FAULTS, *ARCHIVES, *MODELS, *DISKS])


def test_the_limits_that_are_written_down_are_those_of_the_code() -> None:
    text = " ".join(DOCS.read_text().split())
    assert http.WAITS == (1, 2, 4, 8)
    assert "again after 1, 2, 4 and 8 seconds, or when the server says (`Retry-After`, up to a minute)" in text
    assert (http.LONGEST_WAIT, http.GAIN, http.SLOWEST) == (60, 1 << 20, 1 << 10)
    assert f"more than {archive.LARGEST_ARCHIVE >> 30} GiB or {archive.MOST_MEMBERS:,} members" in text
    assert f"`HF_HUB_DOWNLOAD_TIMEOUT` seconds ({constants.DEFAULT_DOWNLOAD_TIMEOUT})" in text


# --- disks ------------------------------------------------------------------------------------------------------------

DISKS = ["the disk is full", "the cache cannot be written", "the cache cannot be written, and holds the file"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """A disk of 128 KiB where the cache lies; gives what mounts it once more with other options."""
    place = tmp_path / "cache"
    place.mkdir()

    def mount(options: str) -> bool:
        return not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True
        ).returncode

    if os.geteuid() or not mount("size=128k"):
        pytest.skip("no right to mount a disk")
    try:
        yield mount
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_full_disk(hub: FakeHub, disk: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    large = TEXT * 300
    hub.repositories[download.DATASET][CORPUS] = large
    command = ["fetch", "corpus", "wiki1m", "--suite", str(tmp_path), "--out", str(tmp_path / "corpus.json")]
    told(DISKS[0], hub, tmp_path, "" if (status := main(command)) == 0 else capsys.readouterr().err, status)
    assert not (tmp_path / "cache" / CORPUS).exists()
    kept = (tmp_path / "cache" / f".{CORPUS}.fetching").stat().st_size
    assert kept > 64 << 10
    disk("remount,size=1m")
    assert main(command) == 0
    assert (tmp_path / "cache" / CORPUS).read_bytes() == large
    assert hub.ranges[-1] == f"bytes={kept}-"  # what had room is not fetched again


def test_a_cache_that_cannot_be_written(
    hub: FakeHub, disk: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fetch", "corpus", "wiki1m", "--suite", str(tmp_path), "--out", str(tmp_path / "corpus.json")]
    assert disk("remount,ro")
    told(DISKS[1], hub, tmp_path, "" if (status := main(command)) == 0 else capsys.readouterr().err, status)
    assert disk("remount,rw")
    assert main(command) == 0
    capsys.readouterr()
    assert disk("remount,ro")
    asked = len(hub.requests)
    status = main(command)
    told(DISKS[2], hub, tmp_path, capsys.readouterr().err, status)
    assert len(hub.requests) == asked


# --- going on ---------------------------------------------------------------------------------------------------------

FETCH = (
    "import sys; from pathlib import Path; from bench import download; from bench.download import pins; "
    "pins.PINS, pins.LOCK = Path(sys.argv[1]), Path(sys.argv[2]); print(eval(sys.argv[3]))"
)


def started(tmp_path: Path, expression: str, **environment: str) -> subprocess.Popen[str]:
    files = [str(tmp_path / "pins.json"), str(tmp_path / "lock.json")]
    settings = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_HUB_CACHE": str(tmp_path / "models"), **environment}
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, *files, expression], env=settings, stdout=subprocess.PIPE, text=True
    )


def test_a_killed_process_is_gone_on_from(hub: FakeHub, tmp_path: Path) -> None:
    hub.faults[CORPUS] = Fault(drip=0.005)
    process = started(tmp_path, "download.fetch_corpus('wiki1m')")
    while hub.sent[CORPUS] < 100:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    part = tmp_path / "cache" / f".{CORPUS}.fetching"
    kept = part.read_bytes()
    assert len(kept) >= 90
    assert TEXT.startswith(kept)
    assert left_behind(tmp_path / "cache") == [part.name]
    hub.faults.clear()
    before = 0
    while before < hub.sent[CORPUS]:  # until the server has noticed, too
        before = hub.sent[CORPUS]
        time.sleep(0.05)
    assert download.fetch_corpus("wiki1m").read_bytes() == TEXT
    assert hub.sent[CORPUS] - before == len(TEXT) - len(kept)
    assert left_behind(tmp_path / "cache") == [CORPUS]


@pytest.mark.parametrize(
    ("left", "sent"),
    [
        (TEXT[:100], len(TEXT) - 100),
        (TEXT, 0),
        (TEXT[:-1] + b"?", len(TEXT)),
        (TEXT + b"more", len(TEXT)),
        (b"of something else", len(TEXT) - 17 + len(TEXT)),  # the rest, and when that is wrong, all
    ],
)
def test_what_an_earlier_call_left_is_verified(left: bytes, sent: int, hub: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f".{CORPUS}.fetching").write_bytes(left)
    assert download.fetch_corpus("wiki1m").read_bytes() == TEXT
    assert hub.sent[CORPUS] == sent
    assert left_behind(tmp_path / "cache") == [CORPUS]


def test_another_range_than_asked_for_is_not_appended(hub: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f".{CORPUS}.fetching").write_bytes(TEXT[:100])
    hub.faults[CORPUS] = Fault(first=True)
    assert download.fetch_corpus("wiki1m").read_bytes() == TEXT
    assert hub.ranges == ["bytes=100-", ""]


def test_tries_are_counted_anew_after_much_has_come(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "GAIN", 100)
    hub.faults[CORPUS] = Fault(sent=100)
    assert download.fetch_corpus("wiki1m").read_bytes() == TEXT
    assert sum("resolve" in request for request in hub.requests) == -(-len(TEXT) // 100) > len(http.WAITS) + 1


def test_waits_double_and_heed_the_server(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(http, "WAITS", (1.0, 2.0, 4.0, 8.0))
    monkeypatch.setattr(http.time, "sleep", slept.append)
    hub.faults["listing"] = Fault(status=503)
    with pytest.raises(UserError, match="status 503"):
        download.fetch_corpus("wiki1m")
    assert slept == [1, 2, 4, 8]
    slept.clear()
    hub.faults["listing"] = Fault(status=429, headers={"Retry-After": "7"}, times=1)
    download.fetch_corpus("wiki1m")
    assert slept == [7]


def test_what_will_not_change_is_not_waited_for(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(http.time, "sleep", slept.append)
    hub.faults["*"] = Fault(status=403)
    with pytest.raises(UserError, match="status 403"):
        download.fetch_corpus("wiki1m")
    assert len(hub.requests) == 1
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UserError, match="no connection"):
        download.fetch_corpus("wiki1m")
    assert not slept


def test_a_date_says_when_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.time, "time", lambda: 1_000_000_000.0)
    assert http._seconds("Sun, 09 Sep 2001 01:47:10 GMT") == 30
    assert http._seconds("Sun, 09 Sep 2001 01:46:10 GMT") == 0
    assert http._seconds("12") == 12
    assert http._seconds("soon") == http._seconds("") == 0


def test_a_token_is_shown_to_the_hub_alone(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    to("http://localhost:{port}/moved{path}")(hub)
    download.fetch_corpus("wiki1m")
    own = hub.endpoint.removeprefix("http://")
    assert {host for host, _ in hub.tokens} == {own, own.replace("127.0.0.1", "localhost")}
    for host, token in hub.tokens:
        assert token == ("Bearer hf_secret" if host == own else "")


def test_a_token_is_never_shown_to_other_servers(hub: FakeHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("GITHUB_RAW_ENDPOINT", hub.endpoint)
    text = tmp_path / "text"
    text.write_bytes(b"one\n")
    pin = {"revision": "c" * 40, "files": {"data/probing/tree_depth.txt": {"blob": pins.git_blob(text)}}}
    pins.PINS.write_text(json.dumps({"repositories": {"github.com/facebookresearch/SentEval": pin}, "corpora": {}}))
    hub.raw = {f"/facebookresearch/SentEval/{'c' * 40}/data/probing/tree_depth.txt": b"one\n"}
    folder = tmp_path / "cache" / "senteval-0123456789ab"
    folder.mkdir(parents=True)
    assert download.probing_file("tree_depth", folder).read_bytes() == b"one\n"
    assert [token for _, token in hub.tokens] == [""]


@pytest.mark.parametrize("key", [download.DATASET, MODEL])
def test_a_listing_is_read_as_the_hubs_own_client_reads_it(key: str, hub: FakeHub) -> None:
    kind = "dataset" if key.startswith("datasets/") else "model"
    api = huggingface_hub.HfApi(endpoint=hub.endpoint)
    theirs = api.repo_info(key.removeprefix("datasets/"), repo_type=kind, files_metadata=True)
    ours = list_files(key, None)
    assert ours.commit == theirs.sha == list_files(key, hub.commit(key)).commit
    assert ours.files == {
        file.rfilename: (file.size, file.lfs.sha256 if file.lfs else None, None if file.lfs else file.blob_id)
        for file in theirs.siblings
    }


# --- models in the hub's own cache ------------------------------------------------------------------------------------


def test_the_hubs_own_client_finds_the_model(hub: FakeHub, tmp_path: Path, offline: Callable[[], None]) -> None:
    folder = download.fetch_backbone(MODEL)
    scanned = huggingface_hub.scan_cache_dir(tmp_path / "models")
    assert not scanned.warnings
    (repository,) = scanned.repos
    (revision,) = repository.revisions
    assert (repository.repo_id, revision.commit_hash) == (MODEL, hub.commit(MODEL))
    assert {file.file_name for file in revision.files} == {path.name for path in folder.iterdir()}
    offline()
    assert huggingface_hub.snapshot_download(MODEL, revision=hub.commit(MODEL), cache_dir=tmp_path / "models") == str(
        folder
    )
    assert download.fetch_backbone(MODEL) == folder


def test_a_filled_cache_needs_no_server(hub: FakeHub, offline: Callable[[], None]) -> None:
    def everything() -> list[Path]:
        return [download.fetch_corpus("wiki1m"), download.fetch_senteval(), download.fetch_backbone(MODEL)]

    paths = everything()
    asked = len(hub.requests)
    offline()
    assert everything() == paths
    assert load_encoder(MODEL, pooler="avg").encode(["a dog"]).shape == (1, 32)
    assert len(hub.requests) == asked


def test_weights_are_gone_on_from(hub: FakeHub, tmp_path: Path) -> None:
    weights = hub.repositories[MODEL]["model.safetensors"]
    hub.faults["model.safetensors"] = Fault(sent=1000)
    with pytest.raises(UserError, match=r"broke off after 5000 of \d+ bytes; start again to go on from there"):
        download.fetch_backbone(MODEL)
    hub.faults.clear()
    assert (download.fetch_backbone(MODEL) / "model.safetensors").read_bytes() == weights
    assert hub.sent["model.safetensors"] == len(weights)


def test_weights_of_a_named_revision(hub: FakeHub, tmp_path: Path) -> None:
    """Main has only pickled weights; a conversion in a pull request has the others."""
    hub.revisions[MODEL, "refs/pr/1"] = hub.repositories[MODEL]
    hub.repositories[MODEL] = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
    with pytest.raises(
        UserError, match=r"name a revision that holds model.safetensors \(google-bert/bert-base-uncased@REVISION\)"
    ):
        download.fetch_backbone(MODEL)
    commit = hub.commit(MODEL, "refs/pr/1")
    folder = download.fetch_backbone(f"{MODEL}@refs/pr/1")
    assert folder.name == commit
    assert (folder / "model.safetensors").is_file()
    assert download.fetch_backbone(MODEL, "refs/pr/1") == download.fetch_backbone(MODEL, commit) == folder
    assert sorted(json.loads((tmp_path / "lock.json").read_text())) == [f"{MODEL}@{commit}", f"{MODEL}@refs/pr/1"]
    hub.revisions[MODEL, "refs/pr/1"] = {**hub.revisions[MODEL, "refs/pr/1"], "vocab.txt": b"new"}
    asked = len(hub.requests)
    assert download.fetch_backbone(f"{MODEL}@refs/pr/1") == folder  # the commit is recorded, whatever is pushed there
    assert len(hub.requests) == asked


def test_processes_with_caches_of_their_own_share_the_hubs(hub: FakeHub, tmp_path: Path) -> None:
    processes = [
        started(tmp_path, f"download.fetch_backbone('{MODEL}')", SENTBENCH_CACHE=str(tmp_path / f"cache-{number}"))
        for number in range(2)
    ]
    folders = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert folders == {
        str(tmp_path / "models" / "models--google-bert--bert-base-uncased" / "snapshots" / hub.commit(MODEL))
    }
    assert hub.sent["model.safetensors"] == len(hub.repositories[MODEL]["model.safetensors"])


def test_who_comes_second_finds_the_model_done(hub: FakeHub) -> None:
    hub.faults["*"] = Fault(silence=0.1)
    listing = list_files(MODEL, None)
    threads = [threading.Thread(target=_fetch_snapshot, args=(MODEL, MODEL, listing)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum("/resolve/" in request for request in hub.requests) == len(hub.repositories[MODEL])


def test_names_of_a_listing_cannot_lead_out(hub: FakeHub, tmp_path: Path) -> None:
    names = ["../config.json", "model-/../../../../evil.safetensors", "model-\n.safetensors", "/tmp/model.safetensors"]
    hub.repositories[MODEL] |= dict.fromkeys(names, b"evil")
    folder = download.fetch_backbone(MODEL)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes() == b"evil"]
    assert not [request for request in hub.requests if ".." in request or "\n" in request]
    assert (folder / "model.safetensors").is_file()


# --- archives ---------------------------------------------------------------------------------------------------------


def test_an_archive_without_end_is_left_at_the_first_member_too_many(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(archive, "MOST_MEMBERS", 3)
    hub.repositories[download.DATASET]["senteval.tar"] = tar({f"STS/{number}": b"x" for number in range(5)})
    with pytest.raises(UserError, match="more than 3 members"):
        download.fetch_senteval()
    huge = member("STS/a", tarfile.REGTYPE)
    huge.size = archive.LARGEST_ARCHIVE + 1  # announced, with nothing behind it
    stream = huge.tobuf() + b"\0" * 1024
    (tmp_path / "huge.tar").write_bytes(stream)
    with pytest.raises(UserError, match="unpacks to more than 4 GiB"):
        download.unpack(tmp_path / "huge.tar", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_room_to_unpack_is_no_fault_of_the_archive(
    hub: FakeHub, disk: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.repositories[download.DATASET]["senteval.tar"] = tar({"STS/a.txt": b"x" * (80 << 10)})
    command = ["fetch", "data", "senteval", "--suite", str(tmp_path), "--out", str(tmp_path / "download.json")]
    assert main(command) == 2
    assert re.search(r"no space left on the device for .*/senteval-\w+; free some and start", capsys.readouterr().err)
    assert left_behind(tmp_path / "cache") == ["senteval.tar"]
    disk("remount,size=1m")
    assert main(command) == 0


def test_what_a_killed_process_unpacked_is_removed(hub: FakeHub, tmp_path: Path) -> None:
    content = hub.repositories[download.DATASET]["senteval.tar"]
    left = tmp_path / "cache" / f".senteval-{hashlib.sha256(content).hexdigest()[:12]}.abc.part"
    (left / "unpacked").mkdir(parents=True)
    (left / "unpacked" / "half.txt").write_text("")
    other = tmp_path / "cache" / ".mine.part"
    other.write_text("")
    folder = download.fetch_senteval()
    assert not left.exists()
    assert other.exists()
    assert (folder / "downstream" / "SICK" / "b.txt").is_file()


# --- nothing that was downloaded is run -------------------------------------------------------------------------------

PICKLES = [
    "pytorch_model.bin",
    "pytorch_model-00001-of-00001.bin",
    "model.bin",
    "adapter_model.bin",
    "training_args.bin",
    "optimizer.pt",
    "model.pkl",
    "tokenizer.pkl",
    "model.ckpt",
    "arrays.npy",
]
CODE = [
    "modeling_evil.py",
    "configuration_evil.py",
    "tokenization_evil.py",
    "handler.py",
    "custom_generate/generate.py",
]


@pytest.fixture
def planted(hub: FakeHub, tmp_path: Path) -> Path:
    """A model that has something that would run wherever one might look for it; gives the file that running makes."""
    mark = tmp_path / "it-ran"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (mark,)

    payload = pickle.dumps(Evil())
    code = f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"
    for runs in (lambda: pickle.loads(payload), lambda: exec(code)):  # each would, if it were run
        runs()
        mark.unlink()
    files = hub.repositories[MODEL]
    files |= dict.fromkeys(PICKLES, payload) | dict.fromkeys(CODE, code.encode())
    files["pytorch_model.bin.index.json"] = json.dumps(
        {"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}}
    ).encode()
    files["adapter_config.json"] = b'{"peft_type": "LORA", "base_model_name_or_path": "."}'
    files["modules.json"] = b'[{"idx": 0, "name": "0", "path": "", "type": "modeling_evil.EvilModel"}]'
    remote = {f"Auto{kind}": "modeling_evil.Evil" for kind in ("Config", "Model", "ModelForMaskedLM")}
    for name in ("config.json", "tokenizer_config.json"):
        content = json.loads(files[name])
        content["auto_map"] = remote | {"AutoTokenizer": ["tokenization_evil.Evil", "tokenization_evil.Evil"]}
        content["trust_remote_code"] = True
        files[name] = json.dumps(content).encode()
    return mark


def local_copy(hub: FakeHub, folder: Path) -> Path:
    """All files of the model, as whoever downloads by other means has them."""
    for name, content in hub.repositories[MODEL].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_nothing_planted_is_fetched_or_run(hub: FakeHub, planted: Path) -> None:
    encoder = load_encoder(MODEL, pooler="avg")
    assert encoder.encode(["a dog", "a cat"]).shape == (2, 32)
    assert not planted.exists()
    fetched = {request.rsplit("/", 1)[-1] for request in hub.requests if "/resolve/" in request}
    assert fetched <= set(download.BACKBONE_FILES)
    assert not fetched & {*PICKLES, *(Path(name).name for name in CODE)}


def test_nothing_planted_in_a_local_folder_is_run(hub: FakeHub, planted: Path, tmp_path: Path) -> None:
    folder = local_copy(hub, tmp_path / "own")
    assert load_encoder(folder, pooler="avg").encode(["a dog"]).shape == (1, 32)
    assert not planted.exists()
    with pytest.raises(UserError, match=r"has a module 'EvilModel', which is not built here"):
        load_encoder(folder)
    assert not planted.exists()


@pytest.mark.parametrize("local", [False, True], ids=["hub", "folder"])
def test_a_model_that_is_only_code_is_refused(local: bool, hub: FakeHub, planted: Path, tmp_path: Path) -> None:
    files = hub.repositories[MODEL]
    files["config.json"] = json.dumps(json.loads(files["config.json"]) | {"model_type": "evil"}).encode()
    with pytest.raises(UserError, match="cannot load the model"):
        load_encoder(local_copy(hub, tmp_path / "own") if local else MODEL, pooler="avg")
    assert not planted.exists()


@pytest.mark.parametrize("local", [False, True], ids=["hub", "folder"])
@pytest.mark.parametrize("how", ["weights", "shards", "index"])
def test_pickles_by_another_name_are_refused(
    how: str, local: bool, hub: FakeHub, planted: Path, tmp_path: Path
) -> None:
    files = hub.repositories[MODEL]
    payload = files["pytorch_model.bin"]
    weights = files.pop("model.safetensors")
    if how == "weights":
        files["model.safetensors"] = payload
    else:
        shard = "model-00001-of-00001.safetensors"
        files[shard] = payload if how == "shards" else weights
        mapped = shard if how == "shards" else "pytorch_model.bin"
        names = ["embeddings.word_embeddings.weight"]
        files["model.safetensors.index.json"] = json.dumps(
            {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(names, mapped)}
        ).encode()
    with pytest.raises(UserError, match=r"truncated or broken|names weights in 'pytorch_model\.bin'|cannot load"):
        load_encoder(local_copy(hub, tmp_path / "own") if local else MODEL, pooler="avg")
    assert not planted.exists()


def test_an_index_does_not_lead_to_pickles_that_another_program_fetched(hub: FakeHub, planted: Path) -> None:
    files = hub.repositories[MODEL]
    files["model.safetensors.index.json"] = b'{"weight_map": {"a": "pytorch_model.bin"}}'
    huggingface_hub.HfApi(endpoint=hub.endpoint).hf_hub_download(MODEL, "pytorch_model.bin", revision=hub.commit(MODEL))
    for _ in range(2):
        with pytest.raises(UserError, match=r"names weights in 'pytorch_model.bin', which is no safetensors file"):
            download.fetch_backbone(MODEL)
    assert not planted.exists()


def test_a_snapshot_without_one_of_its_shards_is_completed(hub: FakeHub, tmp_path: Path) -> None:
    files = hub.repositories[MODEL]
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    files |= dict.fromkeys(names, files.pop("model.safetensors"))
    files["model.safetensors.index.json"] = json.dumps({"weight_map": dict(zip("ab", names, strict=True))}).encode()
    folder = download.fetch_backbone(MODEL)
    pins.LOCK.write_text(json.dumps({MODEL: {"revision": hub.commit(MODEL), "files": {}}}))
    (folder / names[1]).unlink()
    assert (download.fetch_backbone(MODEL) / names[1]).is_file()


def test_the_project_never_asks_for_remote_code_or_pickles() -> None:
    """Every loader says that it trusts no remote code and takes safetensors, and nobody unpickles."""
    root = Path(__file__).parents[2]
    loaders = 0
    for path in [*(root / "bench").rglob("*.py"), *(root / "methods").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                assert not {"pickle", "joblib", "dill", "cloudpickle"} & set(names), path
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            said = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
            if node.func.attr == "from_pretrained":
                loaders += 1
                assert said.get("trust_remote_code") is False, (path, node.lineno)
                assert said.get("local_files_only") is True, (path, node.lineno)
                if "AutoModel" in ast.unparse(node.func):
                    assert said.get("use_safetensors") is True, (path, node.lineno)
            if node.func.attr == "load" and ast.unparse(node.func) == "torch.load":
                assert said.get("weights_only") is True, (path, node.lineno)
            assert not said.get("allow_pickle"), (path, node.lineno)
    assert loaders >= 4
