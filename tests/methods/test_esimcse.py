"""ESimCSE: its queue against an oracle, its repetitions by what they must leave, its trainings."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch

from methods.base import Negatives, Shape, Step, Views
from methods.esimcse import ESimCSE
from methods.simcse import SimCSE
from tests.methods.cases import BATCH_SIZE, DEPTH, TOTAL, WIDTH, Case, N, is_caught, step
from tests.methods.outside import BERT, LARGE, ROBERTA, ROBERTA_LARGE, Patch, Train
from tests.methods.queue_cases import FakeContext, QueueCase
from tests.oracles.mutations import Mutation, around, each_group, group_vectors, hyper, other
from tests.oracles.queues import ESimCSEOracle
from tests.training.test_loop import log_of, outcome_of, weights_of

pytestmark = pytest.mark.usefixtures("global_state")

QUEUE = {"queue": 6, "momentum": 0.9}


def case(name: str, t: float = 0.05, **changes: Any) -> QueueCase:
    o = {**QUEUE, **changes}
    return QueueCase(
        name,
        ((ESimCSE, {"temperature": t, **o}),),
        lambda: ESimCSEOracle(t, o["queue"], o["momentum"]),
        t,
    )


CASES: dict[str, Case] = {
    one.name: one
    for one in (
        case("esimcse"),
        case("cold", 0.001),
        case("short", queue=1),
        case("long", queue=160),
        case("frozen", momentum=1.0),
        case("no-lag", momentum=0.0),
        QueueCase("simcse+esimcse", ((SimCSE, {}), (ESimCSE, QUEUE)), ESimCSEOracle),
    )
}


# Mistakes that the comparison must catch


def newest_first(self: Any, vectors: torch.Tensor) -> None:
    self.rows = torch.cat([vectors, self.rows.to(vectors)])[-self.hyper.queue :]
    self.filled = min(self.filled + len(vectors), self.hyper.queue)


def before_it_follows(self: Any, context: Any, step: Step) -> None:
    views = context.embed([[[row] for row in step.rows]], model=self.momentum.eval())
    self.append(views.vectors[0])
    self._follow(context.backbone)


MUTATIONS: dict[str, Mutation] = {
    "sign_of_the_queue": group_vectors(torch.neg),
    "one_row_short": group_vectors(lambda rows: rows[1:]),
    "empty_rows_join": other(
        "negatives", lambda self, anchors, *rest: [Negatives(self.rows.to(anchors))]),
    "the_batch_is_its_own_negative": around(
        "negatives",
        lambda plain, self, anchors, *rest:
        [Negatives(anchors.detach()), *plain(self, anchors, *rest)]),
    "oldest_rows_stay": other("append", newest_first),
    "momentum_the_other_way": hyper(momentum=lambda own: 1 - own.momentum),
    "momentum_a_little_off": hyper(momentum=lambda own: own.momentum + 1e-4),
    "encoded_before_it_follows": other("after_loss", before_it_follows),
    "vectors_of_the_encoder_itself": other(
        "_follow", lambda self, backbone: self.momentum.load_state_dict(backbone.state_dict())),
    "temperature_multiplied": hyper(temperature=lambda own: 1 / own.temperature),
    "half_weight": each_group(lambda group, anchors: replace(group, weight=0.5)),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: Patch) -> None:
    assert is_caught(CASES["esimcse"], MUTATIONS[name], monkeypatch, ("random", "close"))


# State


def test_the_second_encoder_is_not_trained_and_starts_as_asked() -> None:
    for random_start, expected in ((True, "momentum"), (False, None)):
        method = ESimCSE(ESimCSE.Hyper(random_start=random_start), Shape(WIDTH, DEPTH))
        context = FakeContext(torch.zeros(N, WIDTH))
        context.fresh = "not asked for"
        method.prepare(context)
        assert context.fresh == expected
        assert not any(weight.requires_grad for weight in method.parameters())


def test_without_a_queue_there_is_no_second_encoder() -> None:
    method = ESimCSE(ESimCSE.Hyper(queue=0), Shape(WIDTH, DEPTH))
    context = FakeContext(torch.zeros(N, WIDTH))
    method.prepare(context)
    method.after_loss(context, step(0))
    assert method.momentum is None
    assert method.negatives(torch.ones(N, WIDTH), Views((), lambda layer: ()), step(0)) == []


# Repetition


def views(
    tokens: list[list[int]], index: int = 0, seed: int = 3, first_row: int = 0, **hyper: Any
) -> list[list[int]]:
    method = ESimCSE(ESimCSE.Hyper(**hyper), Shape(WIDTH, DEPTH))
    rows = range(first_row, first_row + len(tokens))
    first, second = method.views(tokens, Step(index, TOTAL, BATCH_SIZE, seed, rows))
    assert first is tokens
    return list(map(list, second))


def repeats(tokens: list[int], second: list[int]) -> list[int]:
    """Places of `tokens` (all different) that stand twice side by side; nothing else may differ."""
    counts = Counter(second)
    assert second == [token for token in tokens for _ in range(counts[token])]
    assert set(counts) == set(tokens)
    assert set(counts.values()) <= {1, 2}
    return [place for place, token in enumerate(tokens) if counts[token] == 2]


@pytest.mark.parametrize(
    ("length", "rate", "redraw", "most"),
    [
        (32, 0.32, False, 9),  # min(10, int(10.24)) - 1
        (20, 0.32, False, 5),  # int(6.4) - 1
        (64, 0.5, False, 9),  # never more than 9
        (6, 0.32, False, 0),  # int(1.92) - 1
        (3, 0.32, False, 0),  # int(0.96) is 0
        (2, 1.0, False, 0),
        (32, 0.32, True, 9),  # max(2, int(0.32 x 30))
        (34, 0.5, True, 16),  # no bound of 9
        (6, 0.32, True, 2),  # max(2, int(0.32 x 4))
        (3, 0.32, True, 1),  # one word has one place
        (2, 0.32, True, 0),
    ],
)
def test_how_many_pieces_are_repeated(length: int, rate: float, redraw: bool, most: int) -> None:
    """Every number up to the largest is about as likely, and so is every place but both ends.

    Source: docs/methods.md#esimcse.
    """
    tokens, draws = list(range(length)), 1500
    found = [
        repeats(tokens, second) for second in views([tokens] * draws, rate=rate, redraw=redraw)
    ]
    counts = Counter(map(len, found))
    assert sorted(counts) == list(range(most + 1))
    even = draws / (most + 1)
    assert all(abs(count - even) < 6 * even**0.5 for count in counts.values())
    places = Counter(place for row in found for place in row)
    assert set(places) == (set(range(1, length - 1)) if most else set())
    expected = draws * most / 2 / max(1, length - 2)
    assert all(abs(count - expected) < 6 * expected**0.5 for count in places.values())


def test_official_repeats_are_drawn_once_a_sentence() -> None:
    tokens = [list(range(20 * i, 20 * i + 20)) for i in range(6)]
    once = views(tokens, redraw=False)
    assert views(tokens, index=4, redraw=False) == once
    # Whatever else is in the batch.
    assert views(tokens[2:], index=1, first_row=2, redraw=False) == once[2:]
    assert views(tokens, seed=4, redraw=False) != once


def test_paper_repeats_are_drawn_at_each_step() -> None:
    tokens = [list(range(20 * i, 20 * i + 20)) for i in range(6)]
    assert views(tokens) == views(tokens) != views(tokens, index=1)


def test_a_rate_of_0_repeats_nothing() -> None:
    tokens = [list(range(30))] * 50
    assert views(tokens, rate=0.0) == views(tokens, rate=0.0, redraw=False) == tokens


def test_repeating_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    views([list(range(30))] * 5)
    assert torch.equal(torch.rand(3), expected)


# Settings


# Trainings


def test_as_an_ingredient_it_brings_the_queue_alone(train_tiny: Train) -> None:
    plain, joined = (log_of(train_tiny(text)) for text in ("simcse", "simcse+esimcse[queue=12]"))
    assert joined[0]["loss"] == plain[0]["loss"]  # the same views, and no queue yet
    assert joined[1]["loss"] > plain[1]["loss"]


def test_it_joins_is_cse(train_tiny: Train) -> None:
    assert outcome_of(train_tiny("esimcse+is-cse[buffer=20,neighbours=3]"))["status"] == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["official", "paper"])
def test_the_encoder_holds_the_backbone_alone(setting: str, train_tiny: Train) -> None:
    folder = train_tiny(f"esimcse[queue=12]@{setting}")
    assert weights_of(folder).keys() == weights_of(train_tiny("simcse")).keys()


# What the tests of all methods need to know of this one (`outside.of_methods`).

PUBLISHED = {
    "batch_size": 64, "redraw": False, "random_start": True, "rate": 0.32, "queue": 160,
    "learning_rate": 3e-5, "dropout": None,
}  # fmt: skip
VALUES: list[tuple[str, str, dict[str, Any]]] = [
    ("esimcse@official", BERT, PUBLISHED),
    ("esimcse@official", LARGE, {**PUBLISHED, "learning_rate": 1e-5}),
    ("esimcse@official", ROBERTA, {**PUBLISHED, "rate": 0.30, "learning_rate": 1e-5}),
    ("esimcse@official", ROBERTA_LARGE,
     {**PUBLISHED, "rate": 0.28, "queue": 128, "learning_rate": 1e-5, "dropout": 0.15}),
]  # fmt: skip
OUT_OF_LIMITS = {
    "esimcse": "rate=-0.1 rate=1.1 queue=-1 momentum=1.5 momentum=-0.1 temperature=0",
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "redraw": ("rate=0", True, False),
    "momentum": ("queue=0", 0.995, 0.1),
    "random_start": ("queue=0", False, True),
}
TRAININGS: dict[str, tuple[dict[str, Any], int]] = {
    "esimcse[queue=12]@official": ({}, 6),
    "esimcse[queue=12]@paper": ({}, 6),
}
