"""Supervised SimCSE: its loss against loops over scalars, its triples, and its limit SimCSE."""

import csv

import pytest
import torch

from methods.base import Shape, Step, Views
from methods.sup_simcse import SupSimCSE
from tests.oracles.methods import infonce
from tests.support.method_runs import (
    BERT,
    HARD,
    LARGE,
    ROBERTA,
    ROBERTA_LARGE,
    TOLERANCE,
    disagreement,
    step,
    vectors,
)
from tests.support.tiny_backbones import make_sentences

N, WIDTH, T = 4, 3, 0.05


def expected(leaves, own_weight=1.0, contradictions=True):
    """docs/reference/methods.md#supervised-simcse."""
    premises, entailed, contradicted = leaves
    extra = [[] for _ in premises]
    for i in range(len(premises)):
        for j, vector in enumerate(contradicted):
            weight = own_weight if i == j else 1.0
            if contradictions and weight:
                extra[i].append((weight, vector))
    return infonce(premises, entailed, T, extra)


def difference(kind, dtype, n=N, **hyper):
    method = SupSimCSE(SupSimCSE.Hyper(**hyper), Shape(WIDTH, 4))

    def loss(leaves):
        extras = {method.name: leaves[2:]}
        return method.loss(Views(leaves[:2], lambda layer: (), extras), Step(0, 1, N, 1))

    leaves = vectors(kind, 3 * n, WIDTH).chunk(3)
    return disagreement(loss, lambda leaves: expected(leaves, **hyper), leaves, dtype, floor=1e-3)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "hyper", [{}, {"own_weight": 2.5}, {"own_weight": 0.0}, {"contradictions": False}]
)
def test_equals_the_formula(hyper, dtype):
    assert difference("random", dtype, **hyper) < TOLERANCE[dtype]
    assert difference("random", dtype, n=1, **hyper) < TOLERANCE[dtype]


@pytest.mark.parametrize("kind", HARD)
def test_equals_the_formula_on_hard_vectors(kind):
    assert difference(kind, torch.float64, own_weight=2.5) < 1e-6


# Triples of a corpus


@pytest.fixture
def table(tmp_path):
    """A function that writes triples of distinct sentences i + offset, beside plain.txt."""
    sentences = list(dict.fromkeys(make_sentences(60, seed=4)))[:24]
    (tmp_path / "plain.txt").write_text("\n".join(sentences) + "\n")

    def write(*offsets):
        path = tmp_path / "triples.csv"
        rows = [[sentences[(i + offset) % 24] for offset in offsets] for i in range(24)]
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([["sent0", "sent1", "hard_neg"], *rows])
        return str(path)

    return write


def one_loss(runs, text, corpus):
    method, context, _ = runs.start(text, corpus=str(corpus), dimension=32)
    torch.manual_seed(0)
    return method.step_loss(context, step(0, [3, 9, 4, 20]))


def test_a_premise_as_its_own_entailment_is_simcse_bit_for_bit(runs, table, tmp_path):
    result = one_loss(runs, "sup-simcse[contradictions=false]", table(0, 0, 0))
    assert torch.equal(result, one_loss(runs, "simcse", tmp_path / "plain.txt"))


def test_a_step_reads_the_triples_of_its_rows(runs, table):
    """Parts that join see the premises, with the rows of their sentences."""
    method, context = runs.exact("sup-simcse", corpus=table(0, 1, 2), dimension=32)
    assert method.items(context) == 24
    seen, tokens = [], context.tokens()
    method.extras = lambda *inputs: seen.append(inputs) or ()
    method.loss = lambda views, step: [*views.vectors, *views.extras["sup-simcse"]]
    result = method.step_loss(context, step(0, [3, 9]))
    ((_, premises, premise_step),) = seen
    assert (premises, premise_step.rows) == ([tokens[3], tokens[9]], (3, 9))
    for place, rows in enumerate(result):
        wanted = context.embed([[tokens[3 + place], tokens[9 + place]]]).vectors[0]
        torch.testing.assert_close(rows, wanted)


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

SHARED = {"corpus": "nli", "batch_size": 512, "epochs": 3, "select_every": 125}
OF_BASE = {**SHARED, "learning_rate": 5e-5, "dimension": 768}
OF_LARGE = {**SHARED, "learning_rate": 1e-5, "dimension": 1024}
VALUES = []
for name, values in (
    (BERT, OF_BASE),
    (ROBERTA, OF_BASE),
    (LARGE, OF_LARGE),
    (ROBERTA_LARGE, OF_LARGE),
):
    VALUES.append(("sup-simcse@paper", name, {**values, "clip": 1.0}))
    VALUES.append(("sup-simcse@official", name, {**values, "clip": 4.0, "epsilon": 4e-8}))
OUT_OF_LIMITS = {
    "sup-simcse": "own_weight=-1",
}
WITHOUT_EFFECT = {
    "own_weight": ("contradictions=false", 1.0, 2.0),
}
