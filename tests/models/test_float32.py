"""Products of float32 on a GPU: where they are in TF32, and that scores hardly move by it.

A processor has no TF32: its products round their factors to as many bits instead.
"""

from functools import partial

import pytest
import torch
from torch.nn import functional as F

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
    note(TransformerEncoder, "_pooled")
    seen = note(bench.training.loop, "uniformity")
    trained("simcse", precision)
    expected = {"loss": IEEE, "backward": models, "forward": models, "_pooled": TF}
    assert seen == expected | {"uniformity": IEEE}


def test_the_convolutions_of_is_bert(trained, tiny_data, tmp_path, note):
    """Left alone, torch computes convolutions in TF32."""
    assert CONV.fp32_precision == "tf32"
    seen = note(LocalFeatures, "forward")
    folder = trained("is-bert[corpus=CORPUS]")
    assert seen == {"forward": TF | IEEE}  # selection, and the loss
    seen.clear()
    tasks = read_tasks(["STS12"], tiny_data)
    score_encoder(load_encoder(str(folder)), tasks, "dev", "cpu", tmp_path / "work")
    assert seen == {"forward": IEEE}


# What it does to scores

TF32, FLOAT32 = 10, 23  # bits of mantissa


def rounded(values, bits):
    """float32 to the nearest with `bits` of mantissa, ties to even."""
    drop = FLOAT32 - bits
    raw = values.contiguous().view(torch.int32)
    raw = raw + ((1 << (drop - 1)) - 1 + ((raw >> drop) & 1))
    return (raw & ~((1 << drop) - 1)).view(torch.float32)


def product(rows, weight, bias=None, *, plain, bits):
    return plain(rounded(rows, bits), rounded(weight, bits), bias)


@pytest.mark.parametrize(
    ("pooler", "bits", "within"),
    [("avg", TF32, True), ("avg", 4, False), ("cls_before_pooler", TF32, False)],
)
def test_scores_move_less_than_verify_allows(pooler, bits, within, world, monkeypatch):
    """So selection may encode in TF32. Vectors of an untrained [CLS] lie in a narrow cone."""
    tasks = [sts.read(task, world) for task in ("STS12", "STS-B", "SICK-R")]
    encoder = load_encoder(str(backbone("toy-bert").folder()), pooler=pooler)

    def scores():
        keys = ("task", "split", "metric", "aggregation")
        records = score_tasks(encoder, tasks, encoded(encoder, tasks))
        return {tuple(record[key] for key in keys): record["value"] for record in records}

    exact, allowed = scores(), tolerances(tasks)
    monkeypatch.setattr(F, "linear", partial(product, plain=F.linear, bits=bits))
    short = scores()
    assert short != exact
    moves = {key: abs(short[key] - exact[key]) <= allowed[key] for key in exact}
    assert all(moves.values()) == within, {key: (exact[key], short[key]) for key in exact}
