"""Supervised SimCSE: its loss against loops over scalars, its triples, and its limit SimCSE."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from bench.utils.errors import UserError
from methods.base import Negatives, Shape, Step, Views
from methods.sup_simcse import SupSimCSE
from tests.methods.outside import (
    BERT,
    HARD,
    LARGE,
    ROBERTA,
    ROBERTA_LARGE,
    TOLERANCE,
    Patch,
    Runs,
    disagreement,
    run_of,
    step,
    vectors,
)
from tests.oracles.spans import log_sum, similarity

N, WIDTH = 4, 3
Make = Callable[[], Any]


def expected(
    leaves: Sequence[Tensor], own: float = 1.0, contradictions: bool = True, t: float = 0.05
) -> Tensor:
    """docs/methods.md#supervised-simcse."""
    premises, entailed, contradicted = leaves
    total = premises.new_zeros(())
    for i in range(len(premises)):
        candidates = [similarity(premises[i], entailed[j]) / t for j in range(len(premises))]
        total = total - candidates[i]
        for j in range(len(premises)):
            weight = own if i == j else 1.0
            if contradictions and weight:
                more = torch.tensor(weight, dtype=torch.float64).log()
                candidates.append(similarity(premises[i], contradicted[j]) / t + more)
        total = total + log_sum(candidates)
    return total / len(premises)


def loss_of(**hyper: Any) -> Callable[[Sequence[Tensor]], Tensor]:
    method = SupSimCSE(SupSimCSE.Hyper(**hyper), Shape(WIDTH, 4))

    def loss(leaves: Sequence[Tensor]) -> Tensor:
        extras = {method.name: leaves[2:]}
        return method.loss(Views(leaves[:2], lambda layer: (), extras), Step(0, 1, N, 1))

    return loss


def difference(kind: str, dtype: torch.dtype, own: float, contradictions: bool) -> float:
    return disagreement(
        loss_of(own_weight=own, contradictions=contradictions),
        lambda leaves: expected(leaves, own, contradictions),
        vectors(kind, 3 * N, WIDTH).chunk(3),
        dtype,
        floor=1e-3,
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("own", "contradictions"), [(1.0, True), (2.5, True), (0.0, True), (1.0, False)]
)
def test_equals_the_formula(own: float, contradictions: bool, dtype: torch.dtype) -> None:
    assert difference("random", dtype, own, contradictions) < TOLERANCE[dtype]


@pytest.mark.parametrize("kind", HARD)
def test_equals_the_formula_on_hard_vectors(kind: str) -> None:
    assert difference(kind, torch.float64, 2.5, True) < 1e-6


def _negatives(change: Callable[[Negatives, Views], Any]) -> Callable[[Patch], None]:
    plain = SupSimCSE.negatives

    def negatives(self: Any, anchors: Tensor, views: Views, step: Step) -> list[Negatives]:
        return [change(group, views) for group in plain(self, anchors, views, step)]

    return lambda patch: patch.setattr(SupSimCSE, "negatives", negatives)


def _pairs(change: Callable[[Views], Any]) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(SupSimCSE, "pairs", lambda self, views: change(views))


MUTATIONS: dict[str, Callable[[Patch], None]] = {
    "only the own contradiction": _negatives(
        lambda group, views: Negatives(group.vectors.unsqueeze(1), weights=None)),
    "no weight": _negatives(lambda group, views: Negatives(group.vectors)),
    "weight of the others": _negatives(
        lambda group, views: Negatives(group.vectors, weights=3.5 - group.weights)),
    "weight of all": _negatives(lambda group, views: Negatives(group.vectors, weight=2.5)),
    "contradictions without gradient": _negatives(
        lambda group, views: Negatives(group.vectors.detach(), weights=group.weights)),
    "entailments as negatives": _negatives(
        lambda group, views: Negatives(views.vectors[1], weights=group.weights)),
    "the premise in the entailment's place": _pairs(
        lambda views: (views.vectors[0], views.vectors[0])),
    "premise and entailment exchanged": _pairs(lambda views: views.vectors[::-1]),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: Patch) -> None:
    MUTATIONS[name](monkeypatch)
    assert difference("random", torch.float64, 2.5, True) > 1e-6


def test_a_triple_alone_has_two_candidates() -> None:
    leaves = vectors("random", 3, WIDTH).chunk(3)
    assert loss_of()(leaves).item() > 0
    assert loss_of(contradictions=False)(leaves).item() == 0


# Triples of a corpus

HEADER = "sent0,sent1,hard_neg\n"


@pytest.fixture
def table(tiny_corpus: Path, tmp_path: Path) -> Callable[[Callable[..., Any]], Path]:
    """A table of triples made of successive distinct sentences of the tiny corpus."""
    lines = map(str.strip, tiny_corpus.read_text().split("\n"))
    sentences = list(dict.fromkeys(filter(None, lines)))[:24]
    (tmp_path / "plain.txt").write_text("\n".join(sentences) + "\n")

    def write(triple: Callable[[int], Sequence[int]]) -> Path:
        rows = [[sentences[k % 24] for k in triple(i)] for i in range(24)]
        path = tmp_path / "triples.csv"
        path.write_text(HEADER + "".join(",".join(f'"{s}"' for s in row) + "\n" for row in rows))
        return path

    return write


def one_loss(runs: Runs, text: str, corpus: Path) -> Tensor:
    method, context, _ = runs.start(text, corpus=str(corpus), dimension=32)
    torch.manual_seed(0)
    return method.step_loss(context, step(0, [3, 9, 4, 20]))


def test_a_premise_as_its_own_entailment_is_simcse_bit_for_bit(
    runs: Runs, table: Any, tmp_path: Path
) -> None:
    same = table(lambda i: (i, i, i))
    found = one_loss(runs, "sup-simcse[contradictions=false]", same)
    assert torch.equal(found, one_loss(runs, "simcse", tmp_path / "plain.txt"))


def test_a_step_reads_the_triples_of_its_rows(runs: Runs, table: Any) -> None:
    """Parts that join see the premises, with the rows of their sentences."""
    path = table(lambda i: (i, i + 1, i + 2))
    method, context, modules = runs.start("sup-simcse", corpus=str(path), dimension=32)
    modules.double().eval()
    assert method.items(context) == 24
    seen: list[Any] = []
    part = SimpleNamespace(name="other", extras=lambda *given: seen.append(given) or ())
    method.__class__ = type("Joined", (SupSimCSE,), {"slots": property(lambda self: [self, part])})
    views: list[Views] = []
    method.loss = lambda found, step: views.append(found) or torch.zeros(())
    method.step_loss(context, step(0, [3, 9]))
    tokens = context.tokens()
    assert seen[0][0] == [tokens[3], tokens[9]]
    assert seen[0][1].rows == [3, 9]
    for place, found in enumerate([*views[0].vectors, *views[0].extras["sup-simcse"]]):
        wanted = context.embed([[tokens[3 + place], tokens[9 + place]]]).vectors[0]
        torch.testing.assert_close(found, wanted)


def test_a_corpus_without_triples_is_refused(runs: Runs) -> None:
    with pytest.raises(UserError, match="has no labelled triples; use the corpus nli"):
        runs.start("sup-simcse", dimension=32)


def test_what_joins_it_and_what_it_joins() -> None:
    run_of("sup-simcse+gs-infonce@paper")
    with pytest.raises(UserError, match="with labelled pairs has none"):
        run_of("sup-simcse+is-cse@paper")
    with pytest.raises(UserError, match="with labelled pairs defines its own positive"):
        run_of("simcse+sup-simcse")


# What the tests of all methods need to know of this one (`outside.of_methods`).

VALUES: list[tuple[str, str, dict[str, Any]]] = [
    *((f"sup-simcse@{setting}", name,
       {"corpus": "nli", "batch_size": 512, "epochs": 3, "learning_rate": rate, "dimension": width,
        "select_every": 125, "own_weight": 1.0, **quarter})
      for setting, quarter in (
          ("paper", {"clip": 1.0}), ("official", {"clip": 4.0, "epsilon": 4e-8}))
      for name, rate, width in ((BERT, 5e-5, 768), (ROBERTA, 5e-5, 768), (LARGE, 1e-5, 1024),
                                (ROBERTA_LARGE, 1e-5, 1024))),
]  # fmt: skip
OUT_OF_LIMITS = {
    "sup-simcse": "own_weight=-1",
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "own_weight": ("contradictions=false", 1.0, 2.0),
}
