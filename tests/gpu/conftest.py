"""A pretended device, and inputs that every method of the registry can train on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.datasets.corpora import NLI_COLUMNS
from bench.models import roofline
from bench.runs.run import Run
from tests.conftest import WORDS, make_sentences
from tests.gpu.cases import RECIPE, TRIPLES
from tests.methods.outside import run_of
from tests.support.pretended_device import PretendedDevice, pretended_device

Patch = pytest.MonkeyPatch
Make = Callable[..., Run]


@pytest.fixture
def device(monkeypatch: Patch, global_state: None) -> Iterator[PretendedDevice]:
    """The pretended device, as the command line starts a process with a real one."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    monkeypatch.setattr(roofline, "COPIED", dict.fromkeys(roofline.COPIED, 64))
    monkeypatch.setattr(roofline, "ROWS", dict.fromkeys(roofline.ROWS, 1))
    monkeypatch.setattr(roofline, "TRIAL", 0.0)
    with pretended_device() as device:
        yield device


@pytest.fixture(scope="session")
def backbone(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers of the tiny BERT's shape, with a masked-language head, which DeCLUTR trains."""
    import torch
    from transformers import AutoConfig, AutoModelForMaskedLM

    from bench.models.transformer import load_backbone

    folder = tmp_path_factory.mktemp("models") / "tiny-bert-with-head"
    # No dropout: a device draws other masks.
    rates = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
    config = AutoConfig.from_pretrained(tiny_bert, num_hidden_layers=2, **rates)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        AutoModelForMaskedLM.from_config(config).save_pretrained(folder)
    load_backbone(tiny_bert)[1].save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """16 sentences in documents of four."""
    path = tmp_path_factory.mktemp("corpus") / "tiny.txt"
    path.write_text("".join(f"{row}\n" for row in make_sentences(16, seed=4, lengths=(3, 9))))
    documents = "".join(f"{1 + 4 * row}\t4\n" for row in range(4))
    path.with_name("tiny.docs.tsv").write_text(f"first\tlines\n{documents}")
    return path


@pytest.fixture
def equal_lengths(tmp_path: Path) -> Path:
    """Sentences of six words, each a single token."""
    path = tmp_path / "equal.txt"
    rows = [[WORDS[(7 * row + place) % len(WORDS)] for place in range(6)] for row in range(64)]
    path.write_text("".join(f"{' '.join(row)}\n" for row in rows))
    documents = "".join(f"{1 + 4 * row}\t4\n" for row in range(16))
    path.with_name("equal.docs.tsv").write_text(f"first\tlines\n{documents}")
    return path


@pytest.fixture(scope="session")
def triples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """16 labelled triples of sentences with six words."""
    path = tmp_path_factory.mktemp("triples") / "triples.csv"
    rows = make_sentences(48, seed=5, lengths=(6, 6))
    lines = [",".join(rows[place : place + 3]) for place in range(0, 48, 3)]
    path.write_text("\n".join([",".join(NLI_COLUMNS), *lines, ""]))
    return path


@pytest.fixture
def make(backbone: Path, corpus: Path, triples: Path, tiny_data: Path) -> Make:
    """A run of a method on these inputs."""

    def run(text: str, **recipe: object) -> Run:
        recipe = {key: value for key, value in (RECIPE | recipe).items() if f"{key}=" not in text}
        text = text.replace(TRIPLES, str(triples))
        if "corpus=" not in text:
            recipe.setdefault("corpus", str(corpus))
        return run_of(text, backbone, corpus, tiny_data, **recipe)

    return run
