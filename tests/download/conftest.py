"""Every test has pins and caches of its own, and no server but a hub on the loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.download import hub as downloads
from tests.support.fake_hub import FakeHub, fake_hub, isolate, use_endpoint
from tests.support.hub_contents import BERT, CORPUS, NO_PINS, TEXT, tar


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    """The cache of data; `tmp_path / "pins.json"` holds the pins, of which there are none."""
    (tmp_path / "pins.json").write_text(NO_PINS)
    monkeypatch.setattr(downloads, "PINS", tmp_path / "pins.json")
    isolate(monkeypatch, tmp_path)
    return tmp_path / "cache"


@pytest.fixture
def hub(monkeypatch, tiny_bert) -> Iterator[FakeHub]:
    """A hub with a data set and a backbone that can be loaded."""
    with fake_hub() as running:
        use_endpoint(monkeypatch, running.endpoint)
        running.repositories[downloads.DATASET] = {
            CORPUS: TEXT,
            "senteval.tar": tar({"STS/STS12-en-test/a.txt": b"one\n", "SICK/b.txt": b"two\n"}),
        }
        running.repositories[BERT] = {
            path.name: path.read_bytes() for path in tiny_bert.iterdir() if path.is_file()
        }
        yield running
