"""Every test has pins and caches of its own, and no server but a hub on the loopback."""

import io
import json
import tarfile

import pytest

from bench.download import hub as downloads
from tests.support.fake_hub import fake_hub, isolate, use_endpoint

CORPUS = "wiki1m_for_simcse.txt"
TEXT = b"".join(b"Sentence number %d of the corpus.\n" % row for row in range(30))
BERT = "google-bert/bert-base-uncased"
DATA = {"STS/STS12-en-test/a.txt": b"one\n", "SICK/b.txt": b"two\n"}


def tar(files, **fields):
    """An archive of files, or of what fields say."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for field, value in fields.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """The cache of data; `tmp_path / "pins.json"` holds the pins, of which there are none."""
    (tmp_path / "pins.json").write_text(json.dumps({"repositories": {}, "corpora": {}}))
    monkeypatch.setattr(downloads, "PINS", tmp_path / "pins.json")
    isolate(monkeypatch, tmp_path)
    return tmp_path / "cache"


@pytest.fixture
def hub(monkeypatch, tiny_bert):
    """A hub with a data set and a backbone that can be loaded."""
    with fake_hub() as running:
        use_endpoint(monkeypatch, running.endpoint)
        running.repositories[downloads.DATASET] = {CORPUS: TEXT, "senteval.tar": tar(DATA)}
        running.put(BERT, tiny_bert)
        yield running
