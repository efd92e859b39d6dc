"""Models on the hub: every module is downloaded, verified and pinned; pickles and code are not."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bench.download.hub import fetch_backbone
from bench.models.load import load_encoder
from bench.utils.errors import UserError
from tests.models.test_sentence_transformers import (
    MEAN,
    SENTENCES,
    dense,
    pooling,
    prompts,
    write,
)
from tests.support.fake_hub import FakeHub, fake_hub, isolate, use_endpoint

NAME = "someone/encoder"
PLANTED = ["pytorch_model.bin", "training_args.bin", "model.ckpt", "modeling_evil.py", "handler.py"]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A hub without pins."""
    isolate(monkeypatch, tmp_path)
    with fake_hub() as running:
        use_endpoint(monkeypatch, running.endpoint)
        yield running


def put(hub: FakeHub, folder: Path) -> None:
    hub.repositories[NAME] = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_modules_and_prompts_of_a_hub_model(hub: FakeHub, tiny_bert: Path, tmp_path: Path) -> None:
    folder = write(
        Path(shutil.copytree(tiny_bert, tmp_path / "local")), [pooling(**MEAN), dense(32, 8, 1)]
    )
    prompts(folder, query="a dog ")
    (folder / "2_Dense" / "evil.py").write_text("raise SystemExit")
    for name in PLANTED:
        (folder / name).write_text("raise SystemExit")
    put(hub, folder)
    expected = load_encoder(folder, prompt="query").encode(SENTENCES)
    for _ in range(2):
        assert np.array_equal(load_encoder(NAME, prompt="query").encode(SENTENCES), expected)
    folder = fetch_backbone(NAME)
    assert (folder / "2_Dense" / "model.safetensors").is_file()
    assert not {path.name for path in folder.rglob("*")} & {*PLANTED, "evil.py"}
    path = folder / "2_Dense" / "model.safetensors"
    content = path.read_bytes()
    path.resolve().write_bytes(content[:-4] + b"\0\0\0\1")
    with pytest.raises(UserError, match=r"2_Dense/model\.safetensors"):
        load_encoder(NAME)
