"""Runs of a method on either tiny backbone, and these with a masked-language head."""

from pathlib import Path

import pytest
import torch

from bench.models.transformer import load_backbone
from tests.support.method_runs import Runs


@pytest.fixture
def runs(tiny_backbone: Path, tiny_corpus: Path, tiny_data: Path, tmp_path: Path) -> Runs:
    return Runs(tiny_backbone, tiny_corpus, tiny_data, tmp_path)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors go through maps seven at a time."""
    monkeypatch.setattr("methods.base.transform.VECTORS_AT_ONCE", 7)


@pytest.fixture(scope="session", params=["bert", "roberta"])
def with_head(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Either tiny backbone with a masked-language head of random weights."""
    from transformers import AutoConfig, AutoModelForMaskedLM

    plain = request.getfixturevalue(f"tiny_{request.param}")
    folder = tmp_path_factory.mktemp("heads") / f"{request.param}-with-head"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(plain))
        for name, weight in model.named_parameters():
            if "bias" in name:
                weight.data.normal_(std=0.1)
    model.save_pretrained(folder)
    load_backbone(plain)[1].save_pretrained(folder)
    return folder


@pytest.fixture
def headed_runs(with_head: Path, tiny_corpus: Path, tiny_data: Path, tmp_path: Path) -> Runs:
    """Runs of a method on either of these."""
    return Runs(with_head, tiny_corpus, tiny_data, tmp_path)
