"""Mistakes that a programmer might make in the formula, in GS-InfoNCE and in SSCL: each spoils a
method in one way.

A mutation changes a built method, or patches a function of its module. It names the case whose
oracle must notice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import methods.contrastive as base
from methods.base import Negatives, Views

Patch = pytest.MonkeyPatch
Mutation = Callable[[Any, Patch], None]
MUTATIONS: dict[str, tuple[str, Mutation]] = {}


def mutation(case: str) -> Callable[[Mutation], Mutation]:
    """Register a mutation under its function's name, to be caught by one case."""

    def register(mutate: Mutation) -> Mutation:
        MUTATIONS[mutate.__name__] = (case, mutate)
        return mutate

    return register


def override(part: Any, name: str, value: Any) -> None:
    """Let one object be of a subclass that differs in one method, attribute or property."""
    part.__class__ = type(part.__class__.__name__, (part.__class__,), {name: value})


def set_hyper(part: Any, **changes: Any) -> None:
    part.hyper = replace(part.hyper, **changes)


def part(method: Any, name: str) -> Any:
    return next(one for one in [method, *method.parts] if one.name == name)


# The formula


@mutation("simcse")
def sign_of_the_cosine(method: Any, patch: Patch) -> None:
    plain = base.cosine
    patch.setattr(base, "cosine", lambda left, right: -plain(left, right))


@mutation("simcse")
def product_in_place_of_cosine(method: Any, patch: Patch) -> None:
    patch.setattr(base, "cosine", lambda left, right: left @ right.T)


@mutation("simcse")
def cosine_clamped_as_if_distance(method: Any, patch: Patch) -> None:
    plain = base.cosine
    patch.setattr(base, "cosine", lambda left, right: plain(left, right).clamp(min=0))


@mutation("simcse")
def temperature_multiplied(method: Any, patch: Patch) -> None:
    set_hyper(method, temperature=1 / method.hyper.temperature)


@mutation("simcse-warm")
def temperature_a_little_off(method: Any, patch: Patch) -> None:
    set_hyper(method, temperature=method.hyper.temperature * 1.00001)


@mutation("simcse")
def positive_of_the_next_sentence(method: Any, patch: Patch) -> None:
    override(method, "pairs", lambda self, views: (views.vectors[0], views.vectors[1].roll(1, 0)))


@mutation("simcse")
def views_swapped(method: Any, patch: Patch) -> None:
    override(method, "pairs", lambda self, views: (views.vectors[1], views.vectors[0]))


@mutation("simcse")
def both_directions(method: Any, patch: Patch) -> None:
    plain = base.info_nce
    patch.setattr(
        base, "info_nce", lambda a, p, t, *rest: (plain(a, p, t, *rest) + plain(p, a, t, *rest)) / 2
    )


@mutation("simcse")
def positive_detached(method: Any, patch: Patch) -> None:
    override(method, "pairs", lambda self, views: (views.vectors[0], views.vectors[1].detach()))


@mutation("simcse")
def sum_in_place_of_mean(method: Any, patch: Patch) -> None:
    plain = base.info_nce
    patch.setattr(base, "info_nce", lambda a, *rest: len(a) * plain(a, *rest))


@mutation("simcse")
def positive_left_out_of_the_denominator(method: Any, patch: Patch) -> None:
    def decoupled(anchors: Tensor, positives: Tensor, temperature: float, *_: Any) -> Tensor:
        logits = base.cosine(anchors, positives) / temperature
        others = logits.masked_fill(torch.eye(len(logits), dtype=torch.bool), -math.inf)
        return (others.logsumexp(1) - logits.diagonal()).mean()

    patch.setattr(base, "info_nce", decoupled)


@mutation("simcse")
def computed_in_float32(method: Any, patch: Patch) -> None:
    plain = base.info_nce
    patch.setattr(
        base, "info_nce", lambda a, p, t, *rest: plain(a.float(), p.float(), t, *rest).double()
    )


# GS-InfoNCE


@mutation("gs-lambda")
def lambda_not_applied(method: Any, patch: Patch) -> None:
    set_hyper(method, weight=1.0)


@mutation("gs-lambda")
def lambda_added_to_the_exponent(method: Any, patch: Patch) -> None:
    set_hyper(method, weight=math.exp(method.hyper.weight))


@mutation("gs-small-lambda")
def lambda_divides(method: Any, patch: Patch) -> None:
    set_hyper(method, weight=1 / method.hyper.weight)


@mutation("gs")
def one_noise_vector_more(method: Any, patch: Patch) -> None:
    set_hyper(method, multiple=1.8)


@mutation("gs")
def noise_counted_from_the_short_batch(method: Any, patch: Patch) -> None:
    plain = type(method).negatives
    override(
        method,
        "negatives",
        lambda self, anchors, views, step: plain(
            self, anchors, views, replace(step, batch_size=len(anchors))
        ),
    )


@mutation("gs")
def noise_of_the_next_step(method: Any, patch: Patch) -> None:
    plain = type(method).negatives
    override(
        method,
        "negatives",
        lambda self, anchors, views, step: plain(
            self, anchors, views, replace(step, index=step.index + 1)
        ),
    )


@mutation("gs")
def noise_equal_at_each_step(method: Any, patch: Patch) -> None:
    plain = type(method).negatives
    override(
        method,
        "negatives",
        lambda self, anchors, views, step: plain(self, anchors, views, replace(step, index=0)),
    )


def each_group(method: Any, change: Callable[[Negatives, Tensor], Negatives]) -> None:
    plain = type(method).negatives
    override(
        method,
        "negatives",
        lambda self, anchors, views, step: [
            change(group, anchors) for group in plain(self, anchors, views, step)
        ],
    )


@mutation("gs")
def noise_added_to_the_anchor(method: Any, patch: Patch) -> None:
    each_group(
        method, lambda group, anchors: replace(group, vectors=anchors.unsqueeze(1) + group.vectors)
    )


@mutation("gs")
def noise_of_another_shape(method: Any, patch: Patch) -> None:
    each_group(method, lambda group, anchors: replace(group, vectors=group.vectors.sign()))


@mutation("gs")
def noise_opposed(method: Any, patch: Patch) -> None:
    each_group(method, lambda group, anchors: replace(group, vectors=-group.vectors))


# SSCL


@mutation("sscl-dropout-all-both")
def layers_off_by_one_upwards(method: Any, patch: Patch) -> None:
    plain = type(method).negatives

    # One layer up from the last intermediate one is the last layer, that is the views themselves.
    def shifted(self: Any, anchors: Tensor, views: Views, step: Any) -> list[Negatives]:
        at = lambda layer: (
            views.vectors if layer + 1 == self.shape.depth else views.at_layer(layer + 1)
        )  # noqa: E731
        return plain(self, anchors, Views(views.vectors, at), step)

    override(method, "negatives", shifted)


@mutation("sscl-dropout-all-both")
def layers_off_by_one_downwards(method: Any, patch: Patch) -> None:
    override(
        method,
        "layers",
        property(lambda self: [self.shape.depth - 2 - i for i in range(self.hyper.stack)]),
    )


@mutation("sscl-stack-1")
def one_layer_more(method: Any, patch: Patch) -> None:
    set_hyper(method, stack=2)


@mutation("sscl-layer-3")
def single_layer_counted_from_the_embeddings(method: Any, patch: Patch) -> None:
    set_hyper(method, layer=2)


@mutation("sscl-dropout-own-one")
def layer_vectors_of_the_other_view(method: Any, patch: Patch) -> None:
    plain = type(method).negatives
    override(
        method,
        "negatives",
        lambda self, a, views, step: plain(
            self, a, Views(views.vectors, lambda layer: views.at_layer(layer)[::-1]), step
        ),
    )


@mutation("sscl-dropout-own-both")
def layer_vectors_of_the_next_sentence(method: Any, patch: Patch) -> None:
    each_group(method, lambda group, anchors: replace(group, vectors=group.vectors.roll(1, 0)))


@mutation("sscl-dropout-own-both")
def all_in_place_of_own(method: Any, patch: Patch) -> None:
    set_hyper(method, negatives="all")


@mutation("sscl-dropout-all-both")
def one_side_in_place_of_both(method: Any, patch: Patch) -> None:
    set_hyper(method, sides="one")


@mutation("sscl-dropout-all-both")
def layer_vectors_detached(method: Any, patch: Patch) -> None:
    set_hyper(method, detach=True)


@mutation("sscl-dropout-all-both-detach")
def layer_vectors_not_detached(method: Any, patch: Patch) -> None:
    set_hyper(method, detach=False)


@mutation("sscl-dropout-all-both-average")
def average_of_other_shares(method: Any, patch: Patch) -> None:
    override(method, "plain_share", 0.4)


@mutation("sscl-dropout-all-both-average")
def sum_in_place_of_average(method: Any, patch: Patch) -> None:
    plain = type(method).loss
    override(method, "loss", lambda self, views, step: 2 * plain(self, views, step))


@mutation("sscl-dropout-all-both")
def averaged_where_it_should_not(method: Any, patch: Patch) -> None:
    set_hyper(method, average=True)


@mutation("sscl-self-all-both")
def dropout_positive_in_place_of_self(method: Any, patch: Patch) -> None:
    set_hyper(method, positive="dropout")


@mutation("sscl-self-all-both")
def self_positive_of_the_second_view(method: Any, patch: Patch) -> None:
    override(method, "pairs", lambda self, views: (views.vectors[1], views.vectors[1]))
