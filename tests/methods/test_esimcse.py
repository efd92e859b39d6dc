"""ESimCSE: its queue against an oracle, its repetitions by what they must leave."""

from collections import Counter

import pytest
import torch

from methods.base import Step
from methods.esimcse import ESimCSE
from methods.simcse import SimCSE
from tests.oracles.edits import Mutation, edits
from tests.oracles.queues import ESimCSEOracle
from tests.support.method_cases import (
    BATCH_SIZE,
    HARD,
    SOFT,
    WIDTH,
    N,
    assert_equals_oracle,
    build,
    by_name,
    caught,
    on_inputs,
)
from tests.support.method_runs import BERT, LARGE, ROBERTA, ROBERTA_LARGE
from tests.support.queue_cases import FakeContext, QueueCase

QUEUE = {"queue": 6, "momentum": 0.9}


def case(name, t=0.05, **changes):
    changed = {**QUEUE, **changes}
    part = (ESimCSE, {"temperature": t, **changed})
    return QueueCase(
        name, (part,), lambda: ESimCSEOracle(t, changed["queue"], changed["momentum"]), t
    )


CASES = [
    case("esimcse"),
    case("cold", 0.001),
    case("short", queue=1),
    case("long", queue=160),
    case("frozen", momentum=1.0),
    case("no-lag", momentum=0.0),
    QueueCase("simcse+esimcse", ((SimCSE, {}), (ESimCSE, QUEUE)), ESimCSEOracle),
]
BY_NAME = by_name(CASES)


@on_inputs((CASES, SOFT), ([BY_NAME[name] for name in ("esimcse", "cold", "short")], HARD))
def test_equals_oracle(case, kinds):
    assert_equals_oracle(case, kinds)


# Mistakes that the comparison must catch

MUTATIONS: dict[str, Mutation] = {
    **edits("methods.esimcse:ESimCSE.negatives", {
        "empty_rows_join": ("self.rows[len(self.rows) - self.filled:]", "self.rows"),
        "the_batch_is_its_own_negative": (
            "[Negatives(self.rows[len(self.rows) - self.filled:].to(anchors))]",
            "[Negatives(anchors.detach()), Negatives(self.rows[len(self.rows) - "
            "self.filled:].to(anchors))]"),
    }, case="esimcse"),
    **edits("methods.esimcse:ESimCSE._follow", {
        "momentum_a_little_off": (
            "esimcse", "1 - self.hyper.momentum", "1 - self.hyper.momentum - 0.0001"),
    }),
    **edits("methods.esimcse:ESimCSE.after_loss", {
        "encoded_before_it_follows": (
            "esimcse", "self._follow(context.backbone)\n"
            "tokens = step.take(context.tokens())\n"
            "self.append(context.embed([tokens], model=self.momentum.eval()).vectors[0])",
            "tokens = step.take(context.tokens())\n"
            "self.append(context.embed([tokens], model=self.momentum.eval()).vectors[0])\n"
            "self._follow(context.backbone)"),
    }),
}  # fmt: skip


test_a_mutation_is_caught = caught(MUTATIONS, CASES)


@pytest.mark.parametrize(("random_start", "fresh"), [(True, "momentum"), (False, None)])
def test_the_second_encoder_is_not_trained_and_starts_as_asked(random_start, fresh):
    method = build((ESimCSE, {"random_start": random_start}))
    context = FakeContext(torch.zeros(N, WIDTH))
    context.fresh = "not asked for"
    method.prepare(context)
    assert context.fresh == fresh
    assert not any(weight.requires_grad for weight in method.parameters())


# Repetition


def views(tokens, index=0, seed=3, first_row=0, **hyper):
    rows = range(first_row, first_row + len(tokens))
    step = Step(index, 6, BATCH_SIZE, seed, rows)
    first, second = build((ESimCSE, hyper)).views(None, tokens, step)
    assert first is tokens
    return list(map(list, second))


def repeats(tokens, second):
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
        (3, 0.32, False, 0),  # int(0.96) is 0
        (2, 1.0, False, 0),
        (32, 0.32, True, 9),  # max(2, int(0.32 x 30))
        (34, 0.5, True, 16),  # no bound of 9
        (6, 0.32, True, 2),  # max(2, int(0.32 x 4))
        (3, 0.32, True, 1),  # one word has one place
        (2, 0.32, True, 0),
    ],
)
def test_how_many_pieces_are_repeated(length, rate, redraw, most):
    """Every number up to the largest is about as likely, and so is every place but both ends.

    Source: docs/reference/methods.md#esimcse.
    """
    tokens, draws = list(range(length)), 1500
    result = [
        repeats(tokens, second) for second in views([tokens] * draws, rate=rate, redraw=redraw)
    ]
    counts = Counter(map(len, result))
    assert sorted(counts) == list(range(most + 1))
    even = draws / (most + 1)
    assert all(abs(count - even) < 6 * even**0.5 for count in counts.values())
    places = Counter(place for row in result for place in row)
    assert set(places) == (set(range(1, length - 1)) if most else set())
    expected = draws * most / 2 / max(1, length - 2)
    assert all(abs(count - expected) < 6 * expected**0.5 for count in places.values())


def test_repeats_are_drawn_once_a_sentence_or_at_each_step():
    """The released code does the former, whatever else is in the batch; the paper the latter."""
    tokens = [list(range(20 * i, 20 * i + 20)) for i in range(6)]
    once = views(tokens, redraw=False)
    assert views(tokens[2:], index=4, first_row=2, redraw=False) == once[2:]
    assert views(tokens, seed=4, redraw=False) != once
    assert views(tokens) == views(tokens) != views(tokens, index=1)


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

PUBLISHED = {"batch_size": 64, "learning_rate": 1e-5, "dropout": None}
VALUES = [
    ("esimcse@official", BERT, {**PUBLISHED, "learning_rate": 3e-5}),
    ("esimcse@official", LARGE, PUBLISHED),
    ("esimcse@official", ROBERTA, PUBLISHED),
    ("esimcse@official", ROBERTA_LARGE, {**PUBLISHED, "dropout": 0.15}),
]
OUT_OF_LIMITS = {
    "esimcse": "rate=-0.1 rate=1.1 queue=-1 momentum=1.5 momentum=-0.1 temperature=0",
}
WITHOUT_EFFECT = {
    "redraw": ("rate=0", True, False),
    "momentum": ("queue=0", 0.995, 0.1),
    "random_start": ("queue=0", False, True),
}
