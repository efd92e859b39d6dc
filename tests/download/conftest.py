"""Every test has pins and caches of its own, and no server but a hub on the loopback."""

import json

import pytest

from bench.download import hub as downloads
from tests.support.archives import BERT, CORPUS, DATA, TEXT, tar
from tests.support.fake_hub import fake_hub, isolate, use_endpoint


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
