"""Mistakes that a programmer might make in the formula, in GS-InfoNCE and in SSCL: each spoils a
method in one way.

A mutation changes a built method, or patches a function of its module. Each is registered with the
case whose oracle must notice.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any

import pytest
import torch
from torch import Tensor

import methods.contrastive as base
from methods.base import Negatives, Step, Views

Patch = pytest.MonkeyPatch
Mutation = Callable[[Any, Patch], None]


def override(part: Any, name: str, value: Any) -> None:
    """Let one object be of a subclass that differs in one method, attribute or property."""
    part.__class__ = type(part.__class__.__name__, (part.__class__,), {name: value})


def set_hyper(part: Any, **changes: Any) -> None:
    part.hyper = part.hyper.model_copy(update=changes)


def part(method: Any, name: str) -> Any:
    return next(one for one in [method, *method.parts] if one.name == name)


# Kinds of mutations


def other(name: str, value: Any) -> Mutation:
    """Another method, attribute or property of that name."""
    return lambda method, patch: override(method, name, value)


def around(name: str, change: Callable[..., Any], of: str = "") -> Mutation:
    """The method of that name becomes change(its plain form, self, its arguments); `of`: a part."""

    def mutate(method: Any, patch: Patch) -> None:
        owner = part(method, of) if of else method
        plain = getattr(type(owner), name)
        override(owner, name, lambda *given: change(plain, *given))

    return mutate


def patched(owner: Any, name: str, change: Callable[..., Any]) -> Mutation:
    """A function of a module or class becomes change(its plain form, its arguments)."""

    def mutate(method: Any, patch: Patch) -> None:
        plain = getattr(owner, name)
        patch.setattr(owner, name, lambda *given, **named: change(plain, *given, **named))

    return mutate


def inside(path: str, name: str, change: Callable[..., Any]) -> Mutation:
    """As `patched`, of an object inside the method; of the method itself where `path` is empty."""

    def mutate(method: Any, patch: Patch) -> None:
        patched(attrgetter(path)(method) if path else method, name, change)(method, patch)

    return mutate


def hyper(**changes: Any) -> Mutation:
    """Other hyper-parameters; a function is given the method's own."""

    def mutate(method: Any, patch: Patch) -> None:
        given = {
            key: value(method.hyper) if callable(value) else value for key, value in changes.items()
        }
        set_hyper(method, **given)

    return mutate


def pairs(change: Callable[[Tensor, Tensor], Any]) -> Mutation:
    return other("pairs", lambda self, views: change(*views.vectors))


def at_step(**changes: Callable[[Step, Tensor], int]) -> Mutation:
    """Negatives of a step that differs in some fields, made of the step and the anchors."""

    def negatives(plain: Any, self: Any, anchors: Tensor, views: Views, step: Step) -> Any:
        given = {key: value(step, anchors) for key, value in changes.items()}
        return plain(self, anchors, views, replace(step, **given))

    return around("negatives", negatives)


def each_group(change: Callable[[Negatives, Tensor], Negatives]) -> Mutation:
    return around(
        "negatives",
        lambda plain, self, anchors, *rest: [
            change(group, anchors) for group in plain(self, anchors, *rest)
        ],
    )


def group_vectors(change: Callable[[Tensor], Tensor]) -> Mutation:
    return each_group(lambda group, anchors: replace(group, vectors=change(group.vectors)))


# Mutations of several lines


def decoupled(anchors: Tensor, positives: Tensor, temperature: float, *_: Any) -> Tensor:
    logits = base.cosine(anchors, positives) / temperature
    others = logits.masked_fill(torch.eye(len(logits), dtype=torch.bool), -math.inf)
    return (others.logsumexp(1) - logits.diagonal()).mean()


def one_layer_up(plain: Any, self: Any, anchors: Tensor, views: Views, step: Step) -> Any:
    """From the last intermediate layer that is the last one, that is the views themselves."""

    def at(layer: int) -> Any:
        return views.vectors if layer + 1 == self.shape.depth else views.at_layer(layer + 1)

    return plain(self, anchors, Views(views.vectors, at), step)


def views_reversed(plain: Any, self: Any, anchors: Tensor, views: Views, step: Step) -> Any:
    return plain(self, anchors, Views(views.vectors, lambda k: views.at_layer(k)[::-1]), step)


MUTATIONS: dict[str, tuple[str, Mutation]] = {
    # The formula
    "sign_of_the_cosine": ("simcse", patched(base, "cosine", lambda plain, a, b: -plain(a, b))),
    "product_in_place_of_cosine": (
        "simcse", patched(base, "cosine", lambda plain, a, b: a @ b.T)),
    "cosine_clamped_as_if_distance": (
        "simcse", patched(base, "cosine", lambda plain, a, b: plain(a, b).clamp(min=0))),
    "temperature_multiplied": ("simcse", hyper(temperature=lambda own: 1 / own.temperature)),
    "temperature_a_little_off": (
        "simcse-warm", hyper(temperature=lambda own: own.temperature * 1.00001)),
    "positive_of_the_next_sentence": ("simcse", pairs(lambda a, b: (a, b.roll(1, 0)))),
    "views_swapped": ("simcse", pairs(lambda a, b: (b, a))),
    "both_directions": (
        "simcse",
        patched(base, "info_nce",
                lambda plain, a, p, *rest: (plain(a, p, *rest) + plain(p, a, *rest)) / 2)),
    "positive_detached": ("simcse", pairs(lambda a, b: (a, b.detach()))),
    "sum_in_place_of_mean": (
        "simcse", patched(base, "info_nce", lambda plain, a, *rest: len(a) * plain(a, *rest))),
    "positive_left_out_of_the_denominator": (
        "simcse", patched(base, "info_nce", lambda plain, *given: decoupled(*given))),
    "computed_in_float32": (
        "simcse",
        patched(base, "info_nce",
                lambda plain, a, p, *rest: plain(a.float(), p.float(), *rest).double())),
    # GS-InfoNCE
    "lambda_not_applied": ("gs-lambda", hyper(weight=1.0)),
    "lambda_added_to_the_exponent": ("gs-lambda", hyper(weight=lambda own: math.exp(own.weight))),
    "lambda_divides": ("gs-small-lambda", hyper(weight=lambda own: 1 / own.weight)),
    "one_noise_vector_more": ("gs", hyper(multiple=1.8)),
    "noise_counted_from_the_short_batch": (
        "gs", at_step(batch_size=lambda step, anchors: len(anchors))),
    "noise_of_the_next_step": ("gs", at_step(index=lambda step, anchors: step.index + 1)),
    "noise_equal_at_each_step": ("gs", at_step(index=lambda step, anchors: 0)),
    "noise_added_to_the_anchor": (
        "gs",
        each_group(lambda group, a: replace(group, vectors=a.unsqueeze(1) + group.vectors))),
    "noise_of_another_shape": ("gs", group_vectors(torch.sign)),
    "noise_opposed": ("gs", group_vectors(torch.neg)),
    # SSCL
    "layers_off_by_one_upwards": ("sscl-dropout-all-both", around("negatives", one_layer_up)),
    "layers_off_by_one_downwards": (
        "sscl-dropout-all-both",
        other("layers",
              property(lambda self: [self.shape.depth - 2 - i for i in range(self.hyper.stack)]))),
    "one_layer_more": ("sscl-stack-1", hyper(stack=2)),
    "single_layer_counted_from_the_embeddings": ("sscl-layer-3", hyper(layer=2)),
    "layer_vectors_of_the_other_view": (
        "sscl-dropout-own-one", around("negatives", views_reversed)),
    "layer_vectors_of_the_next_sentence": (
        "sscl-dropout-own-both", group_vectors(lambda vectors: vectors.roll(1, 0))),
    "all_in_place_of_own": ("sscl-dropout-own-both", hyper(negatives="all")),
    "one_side_in_place_of_both": ("sscl-dropout-all-both", hyper(sides="one")),
    "layer_vectors_detached": ("sscl-dropout-all-both", hyper(detach=True)),
    "layer_vectors_not_detached": ("sscl-dropout-all-both-detach", hyper(detach=False)),
    "average_of_other_shares": ("sscl-dropout-all-both-average", other("plain_share", 0.4)),
    "sum_in_place_of_average": (
        "sscl-dropout-all-both-average", around("loss", lambda plain, *given: 2 * plain(*given))),
    "averaged_where_it_should_not": ("sscl-dropout-all-both", hyper(average=True)),
    "dropout_positive_in_place_of_self": ("sscl-self-all-both", hyper(positive="dropout")),
    "self_positive_of_the_second_view": ("sscl-self-all-both", pairs(lambda a, b: (b, b))),
}  # fmt: skip
