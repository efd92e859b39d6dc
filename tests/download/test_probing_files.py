"""SentEval's probing files: in a data folder, or downloaded from a server on the loopback."""

import hashlib
import json
from pathlib import Path

import pytest

from bench import download
from bench.__main__ import main
from bench.datasets import labelled
from bench.datasets.tasks import PROBING_TASKS, STS_TASKS, TASKS
from bench.download.hub import SENTEVAL, git_blob
from bench.runs import paths
from bench.utils.files import sha256_file, sha256_text
from tests.support.fake_hub import fake_hub
from tests.support.refusals import refused

FILES = [Path(TASKS[name].path).stem for name in PROBING_TASKS]
COMMIT = "5d6dc117d1ac30357ddaeb7347fb5684e9b87015"
ROWS = [(split, row % 2, split, row) for split in (b"tr", b"va", b"te") for row in range(4)]
TEXT = b"".join(b"%s\tP%d\tWords of %s %d .\n" % row for row in ROWS)
SIZES = {"train": 4, "dev": 4, "test": 4}


def path_of(name):
    return f"/facebookresearch/SentEval/{COMMIT}/data/probing/{name}.txt"


def asked(server):
    """The files that were asked for; a HEAD only asks whether there is a server."""
    return [request for request in server.requests if request.startswith("GET ")]


@pytest.fixture
def server(monkeypatch):
    """A server with all ten files, which have the same content."""
    with fake_hub() as running:
        running.raw = {path_of(name): TEXT for name in FILES}
        monkeypatch.setenv("GITHUB_RAW_ENDPOINT", running.endpoint)
        yield running


@pytest.fixture(autouse=True)
def fetched(monkeypatch, tmp_path):
    """A data folder in the cache as after a download, with pins of the test's own and no server."""
    files = {f"data/probing/{name}.txt": {"blob": git_blob(TEXT)} for name in FILES}
    content = {"repositories": {SENTEVAL: {"revision": COMMIT, "files": files}}}
    (tmp_path / "pins.json").write_text(json.dumps(content))
    monkeypatch.setenv("GITHUB_RAW_ENDPOINT", "http://127.0.0.1:9")
    folder = tmp_path / "cache" / "senteval-0123456789ab"
    (folder / "downstream").mkdir(parents=True)
    (folder / "downstream" / "a.txt").write_text("a\n")
    counts = {"sts": {task: {"test": 2} for task in STS_TASKS}, "transfer": {"MR": {"mr.txt": 2}}}
    listed = {"name": "few", "probing": dict.fromkeys(PROBING_TASKS, SIZES)} | counts
    (folder / "manifest.json").write_text(json.dumps(listed))
    return folder


def test_reading_a_task_fetches_its_file_once(server, fetched):
    task = labelled.read("Depth", fetched)
    assert task.splits["test"].columns == (tuple(f"Words of te {row} ." for row in (0, 2, 1, 3)),)
    assert task.splits["test"].labels.tolist() == [0, 0, 1, 1]
    assert asked(server) == [f"GET {path_of('tree_depth')}"]
    assert (fetched / "probing" / "tree_depth.txt").read_bytes() == TEXT
    labelled.read("Depth", fetched)
    assert len(asked(server)) == 1
    (fetched / "probing" / "tree_depth.txt").write_bytes(TEXT[:-1])  # damaged: fetched again
    labelled.read("Depth", fetched)
    assert (fetched / "probing" / "tree_depth.txt").read_bytes() == TEXT
    assert len(asked(server)) == 2


def test_fetching_an_input_fetches_what_its_tasks_need(server, fetched, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "fetch_senteval", lambda: fetched)

    def described(*tasks):
        out = tmp_path / "download.json"
        words = ["fetch", "data", "senteval", "--tasks", *tasks, "--suite", str(tmp_path)]
        assert main([*words, "--out", str(out)]) == 0
        content = json.loads(out.read_text())
        assert (content.pop("kind"), content.pop("name")) == ("data", "few")
        return content

    sums = [f"{sha256_file(fetched / 'downstream' / 'a.txt')}  downstream/a.txt"]
    assert described() == described("sts", "MR") == {"files": 1, "sha256": sha256_text(sums[0])}
    assert not server.requests
    digest, names = hashlib.sha256(TEXT).hexdigest(), sorted(FILES)
    sums += [f"{digest}  probing/{name}.txt" for name in names]
    assert described("sts", "probing") == {"files": 11, "sha256": sha256_text("\n".join(sums))}
    assert sorted(asked(server)) == sorted(f"GET {path_of(name)}" for name in names)
    assert described() == described("Depth,Tense")  # the digest is that of all files that are there


def test_wrong_or_no_content_is_refused(server, fetched):
    altered = TEXT.replace(b"P1", b"P0")
    server.raw[path_of("tree_depth")] = altered
    words = f"tree_depth.txt has the git blob id {git_blob(altered)}, but {git_blob(TEXT)} is"
    refused(lambda: labelled.read("Depth", fetched), words)
    del server.raw[path_of("tree_depth")]
    told = "cannot fetch http", "tree_depth.txt: the server answers with status 404", " BENCH_DATA"
    refused(lambda: labelled.read("Depth", fetched), *told)
    assert list(fetched.glob("probing/*")) == []


def test_local_folder_is_never_changed(server, fetched, tmp_path):
    folder = fetched.rename(tmp_path / "own")
    path = folder / "probing" / "tree_depth.txt"
    told = f"{path} does not exist; copy data/probing/tree_depth.txt of "
    told += "github.com/facebookresearch/SentEval there, or choose other tasks"
    refused(lambda: labelled.read("Depth", folder), told)
    refused(lambda: paths.describe_input("data", str(folder), tmp_path, ["Depth"]), told)
    path.parent.mkdir()
    path.write_bytes(TEXT)
    assert labelled.read("Depth", folder).classes == 2
    assert not server.requests
