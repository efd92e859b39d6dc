"""Every test has pins and caches of its own, and no server but a hub on the loopback."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench import download
from bench.datasets import corpora
from bench.download import pins
from tests.support.fake_hub import FakeHub, fake_hub, isolate, use_endpoint
from tests.support.hub_contents import BERT, CORPUS, NO_PINS, SMALL, TEXT, WIKI, tar


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The cache of data; `tmp_path / "pins.json"` holds the pins."""
    content = {
        "repositories": {download.DATASET: {"files": {"wiki1m_for_simcse.txt": {"rows": [7, 8]}}}},
        "corpora": {},
    }
    (tmp_path / "pins.json").write_text(json.dumps(content))
    monkeypatch.setattr(pins, "PINS", tmp_path / "pins.json")
    isolate(monkeypatch, tmp_path)
    return tmp_path / "cache"


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A hub with a data set and a model whose files are a few bytes each."""
    with fake_hub() as running:
        use_endpoint(monkeypatch, running.endpoint)
        running.repositories[download.DATASET] = {
            "wiki1m_for_simcse.txt": WIKI,
            "nli_for_simcse.csv": b"sent0,sent1,hard_neg\na,b,c\n",
            "senteval.tar": tar({"STS/STS12-en-test/a.txt": b"one\n", "SICK/b.txt": b"two\n"}),
        }
        running.repositories[SMALL] = {
            "config.json": b'{"model_type": "bert"}',
            "model.safetensors": b"weights" * 100,
            "pytorch_model.bin": b"pickle",
            "tokenizer.json": b"{}",
            "modeling_evil.py": b"raise SystemExit",
        }
        yield running


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_bert: Path) -> Iterator[FakeHub]:
    """A hub with a data set and a backbone that can be loaded, without pins."""
    (tmp_path / "pins.json").write_text(NO_PINS)
    monkeypatch.setattr(corpora, "PINS", tmp_path / "pins.json")
    with fake_hub() as running:
        use_endpoint(monkeypatch, running.endpoint)
        running.repositories[download.DATASET] = {
            CORPUS: TEXT,
            "senteval.tar": tar({"STS/STS12-en-test/a.txt": b"one\n", "SICK/b.txt": b"two\n"}),
        }
        running.repositories[BERT] = {
            path.name: path.read_bytes() for path in tiny_bert.iterdir() if path.is_file()
        }
        yield running


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """A disk of 128 KiB at the cache; gives a function that mounts it with other options."""
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
