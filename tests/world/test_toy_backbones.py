"""The shipped toy backbones: checksums, loading, and masked-token loss on unseen sentences."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from bench.datasets.word_vectors import read_vectors
from bench.registry import backbones
from bench.registry.backbones import TOY_FOLDER, backbone, check_toy
from bench.runs.paths import describe_input
from bench.utils.errors import UserError
from bench.world.chinese import in_chinese
from bench.world.corpus import sample_document
from bench.world.toy_backbones import SIZE
from bench.world.toy_word_vectors import WIDTH
from tests.world.masked import masked_loss

TRANSFORMERS = ("toy-bert", "toy-roberta", "toy-chinese")
TOYS = (*TRANSFORMERS, "toy-glove")


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """About a thousand sentences that no backbone was trained on."""
    rng = random.Random(5)
    return [sentence for _ in range(110) for sentence in sample_document(rng)]


@pytest.mark.parametrize("name", TOYS)
def test_every_file_has_its_sum(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_toy(name)
    listed = {line.split("  ")[1] for line in (TOY_FOLDER / "SHA256SUMS").read_text().splitlines()}
    assert {path.relative_to(TOY_FOLDER).as_posix() for path in TOY_FOLDER.glob("*/*")} == listed
    assert describe_input("backbone", name, tmp_path)["weights"]

    shutil.copytree(TOY_FOLDER, tmp_path / "toys")
    monkeypatch.setattr(backbones, "TOY_FOLDER", tmp_path / "toys")
    check_toy(name)
    altered = max((tmp_path / "toys" / name).iterdir())
    altered.write_bytes(altered.read_bytes()[:-1])
    expected = f"{altered.name} is not the file that sentbench ships; install sentbench"
    with pytest.raises(UserError, match=expected):
        describe_input("backbone", name, tmp_path)


def test_they_are_small() -> None:
    sizes = [path.stat().st_size for path in TOY_FOLDER.rglob("*")]
    assert sum(sizes) < 6e6
    assert max(sizes) < 1.5e6


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_they_fill_gaps_in_sentences_they_have_not_seen(name: str, lines: list[str]) -> None:
    """The loss of a masked token is far below ln(vocabulary), that of a uniform prediction."""
    folder = backbone(name).folder()
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (model.config.hidden_size, model.config.num_hidden_layers) == (SIZE.width, SIZE.layers)
    if name == "toy-chinese":
        lines = [in_chinese(line) for line in lines]
    draw, losses, unknown = torch.Generator().manual_seed(0), [], 0
    for line in lines[:300]:
        ids = tokenizer(line, return_tensors="pt")["input_ids"]
        unknown += (ids == tokenizer.unk_token_id).sum().item()
        place = int(torch.randint(1, ids.shape[1] - 1, (), generator=draw))
        losses.append(masked_loss(model, tokenizer, ids, place))
    assert unknown == 0
    assert np.mean(losses) < np.log(model.config.vocab_size) / 3


def test_the_table_knows_the_words_of_the_world(lines: list[str]) -> None:
    table = read_vectors(backbone("toy-glove").table())
    assert table.vectors.shape[1] == WIDTH == backbone("toy-glove").shape.width
    words = [word for line in lines for word in line.lower().split()]
    assert np.mean([word in set(table.words) for word in words]) > 0.98
