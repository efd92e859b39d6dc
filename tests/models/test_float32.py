"""Products of float32 on a GPU: where they are in TF32, and that scores hardly move by it.

A processor has no TF32. It rounds factors to as many bits instead.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import bench.training.context
import bench.training.loop
from bench.checks.verify import tolerances
from bench.datasets import sts
from bench.evaluation.scoring import encoded, read_tasks, score_encoder, score_tasks
from bench.models.encoder import TransformerEncoder
from bench.models.float32 import float32_products
from bench.models.load import load_encoder
from bench.registry.backbones import backbone
from bench.training.loop import train
from methods.is_bert import LocalFeatures
from methods.simcse import SimCSE
from tests.support.tf32 import TF32, products_with
from tests.support.tiny_suite import tiny_run

Patch = pytest.MonkeyPatch
MATMUL, CONV = torch.backends.cuda.matmul, torch.backends.cudnn.conv


def now() -> tuple[str, str]:
    return MATMUL.fp32_precision, CONV.fp32_precision


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = now()
    yield
    assert now() == before


def test_is_set_in_the_block_alone() -> None:
    @float32_products("ieee")
    def fails() -> None:
        assert now() == ("ieee", "ieee")
        raise ZeroDivisionError

    before = now()
    with float32_products("tf32"):
        assert now() == ("tf32", "tf32")
        with pytest.raises(ZeroDivisionError):
            fails()
        assert now() == ("tf32", "tf32")
    assert now() == before


# Where it is used


def noted(patch: Patch, owner: Any, name: str, seen: dict[str, set[tuple[str, str]]]) -> None:
    """Note the setting at each call of a function."""
    plain = getattr(owner, name)

    def noting(*args: Any, **kwargs: Any) -> Any:
        seen.setdefault(name, set()).add(now())
        return plain(*args, **kwargs)

    patch.setattr(owner, name, noting)


TF, IEEE = {("tf32", "tf32")}, {("ieee", "ieee")}


@pytest.fixture
def trained(
    tiny_bert: Path, tiny_data: Path, tiny_corpus: Path, tmp_path: Path, global_state: None
) -> Callable[..., Path]:
    """Train a tiny run, and return the folder of its encoder."""

    def train_run(text: str, precision: str = "float32") -> Path:
        text = text.replace("CORPUS", str(tiny_corpus))
        run = tiny_run(text, tiny_bert, tiny_data, tiny_corpus, precision=precision)
        train(run, tmp_path, tmp_path / "run")
        return tmp_path / "run" / "encoder"

    return train_run


@pytest.mark.parametrize(("precision", "models"), [("float32", TF), ("bfloat16", IEEE)])
def test_a_training(
    precision: str, models: Any, trained: Callable[..., Path], monkeypatch: Patch
) -> None:
    """Models in float32 train in TF32, and selection encodes in it; a loss is as it stands."""
    seen: dict[str, set[tuple[str, str]]] = {}
    noted(monkeypatch, SimCSE, "loss", seen)
    noted(monkeypatch, torch.Tensor, "backward", seen)
    noted(monkeypatch, bench.training.context, "forward", seen)
    noted(monkeypatch, TransformerEncoder, "_pooled", seen)
    noted(monkeypatch, bench.training.loop, "uniformity", seen)
    trained("simcse", precision)
    expected = {"loss": IEEE, "backward": models, "forward": models, "_pooled": TF}
    assert seen == expected | {"uniformity": IEEE}


def test_the_convolutions_of_is_bert(
    trained: Callable[..., Path], tiny_data: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Left alone, torch computes convolutions in TF32."""
    assert CONV.fp32_precision == "tf32"
    seen: dict[str, set[tuple[str, str]]] = {}
    noted(monkeypatch, LocalFeatures, "forward", seen)
    folder = trained("is-bert[corpus=CORPUS]")
    assert seen == {"forward": TF | IEEE}  # selection, and the loss
    seen.clear()
    tasks = read_tasks(["STS12"], tiny_data)
    score_encoder(load_encoder(str(folder)), tasks, "dev", "cpu", tmp_path / "work")
    assert seen == {"forward": IEEE}


# What it does to scores


@pytest.mark.parametrize(
    ("pooler", "bits", "within"),
    [("avg", TF32, True), ("avg", 4, False), ("cls_before_pooler", TF32, False)],
)
def test_scores_move_less_than_verify_allows(
    pooler: str, bits: int, within: bool, world: Path
) -> None:
    """So selection may encode in TF32. Vectors of an untrained [CLS] lie in a narrow cone."""
    tasks = [sts.read(task, world) for task in ("STS12", "STS-B", "SICK-R")]
    encoder = load_encoder(str(backbone("toy-bert").folder()), pooler=pooler)

    def scores() -> dict[Any, float]:
        keys = ("task", "split", "metric", "aggregation")
        records = score_tasks(encoder, tasks, encoded(encoder, tasks))
        return {tuple(record[key] for key in keys): record["value"] for record in records}

    exact, allowed = scores(), tolerances(tasks)
    with products_with(bits):
        short = scores()
    assert short != exact
    moves = {key: abs(short[key] - exact[key]) <= allowed[key] for key in exact}
    assert all(moves.values()) == within, {key: (exact[key], short[key]) for key in exact}
