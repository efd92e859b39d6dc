"""Products of float32 on a GPU: where they are in TF32."""

import pytest
import torch

import bench.training.context
import bench.training.loop
from bench.evaluation.scoring import Classifiers, read_tasks, score_encoder
from bench.models.float32 import float32_products
from bench.models.load import load_encoder
from bench.models.pooling import Pooler
from bench.training.loop import train
from methods.is_bert import LocalFeatures
from methods.simcse import SimCSE
from tests.support.tiny_suite import tiny_run

MATMUL, CONV = torch.backends.cuda.matmul, torch.backends.cudnn.conv
TF, IEEE = {("tf32", "tf32")}, {("ieee", "ieee")}


def now():
    return MATMUL.fp32_precision, CONV.fp32_precision


def test_is_set_in_the_block_alone():
    @float32_products("ieee")
    def fails():
        assert {now()} == IEEE
        raise ZeroDivisionError

    before = now()
    with float32_products("tf32"):
        assert {now()} == TF
        with pytest.raises(ZeroDivisionError):
            fails()
        assert {now()} == TF
    assert now() == before


# Where it is used


@pytest.fixture
def note(monkeypatch):
    """A function that has the settings noted at each call of another one, by its name."""
    seen = {}

    def note(owner, name):
        plain = getattr(owner, name)

        def noting(*args, **kwargs):
            seen.setdefault(name, set()).add(now())
            return plain(*args, **kwargs)

        monkeypatch.setattr(owner, name, noting)
        return seen

    return note


@pytest.fixture
def trained(tiny_bert, tiny_data, tiny_corpus, tmp_path, global_state):
    """Train a tiny run, and return the folder of its encoder."""

    def train_run(text, precision="float32"):
        text = text.replace("CORPUS", str(tiny_corpus))
        run = tiny_run(text, tiny_bert, tiny_data, tiny_corpus, precision=precision)
        train(run, tmp_path, tmp_path / "run")
        return tmp_path / "run" / "encoder"

    return train_run


@pytest.mark.parametrize(("precision", "models"), [("float32", TF), ("bfloat16", IEEE)])
def test_a_training(precision, models, trained, note):
    """Models in float32 train in TF32, and selection encodes in it; a loss is as it stands."""
    note(SimCSE, "loss")
    note(torch.Tensor, "backward")
    note(bench.training.context, "forward")
    note(Pooler, "pool")
    seen = note(bench.training.loop, "uniformity")
    trained("simcse", precision)
    expected = {"loss": IEEE, "backward": models, "forward": models}
    expected["pool"] = IEEE | TF  # the checks of a backbone, and selection
    assert seen == expected | {"uniformity": IEEE}


def test_the_convolutions_of_is_bert(trained, tiny_data, tmp_path, note):
    """Left alone, torch computes convolutions in TF32."""
    assert CONV.fp32_precision == "tf32"
    seen = note(LocalFeatures, "forward")
    folder = trained("is-bert[corpus=CORPUS]")
    assert seen == {"forward": TF | IEEE}  # selection, and the loss
    seen.clear()
    tasks = read_tasks(["STS12"], tiny_data)
    score_encoder(load_encoder(str(folder)), tasks, Classifiers("dev"), tmp_path / "work")
    assert seen == {"forward": IEEE}
