"""Mistakes that a programmer might make in IS-CSE and in compositions; see `mutations`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import methods.contrastive as base
import methods.is_cse as is_cse
from methods.base import Negatives, Views
from tests.oracles.mutations import Patch, mutation, override, part, set_hyper

# IS-CSE


@mutation("is-cse-official")
def batch_enters_after_retrieval(method: Any, patch: Patch) -> None:
    def terms(self: Any, anchors: Tensor, positives: Tensor, temperature: float, step: Any) -> Any:
        unit = F.normalize(positives, dim=-1)
        smoothed = self._smooth(unit)
        self._remember(unit)
        return (
            []
            if smoothed is None
            else [(self.alpha(step), base.info_nce(anchors, smoothed, temperature))]
        )

    override(method, "terms", terms)


@mutation("is-cse-paper")
def batch_enters_before_retrieval(method: Any, patch: Patch) -> None:
    def terms(self: Any, anchors: Tensor, positives: Tensor, temperature: float, step: Any) -> Any:
        unit = F.normalize(positives, dim=-1)
        self._remember(unit)
        smoothed = self._smooth(unit)
        return (
            []
            if smoothed is None
            else [(self.alpha(step), base.info_nce(anchors, smoothed, temperature))]
        )

    override(method, "terms", terms)


def with_topk(patch: Patch, choose: Callable[[Tensor, int], Tensor]) -> None:
    """Let retrieval take other columns of the sorted similarities than the `count` largest."""

    def topk(self: Tensor, count: int, dim: int) -> Any:
        order = self.argsort(dim=dim, descending=True)
        return type("TopK", (), {"indices": choose(order, count)})

    patch.setattr(torch.Tensor, "topk", topk)


@mutation("is-cse-official")
def best_match_kept(method: Any, patch: Patch) -> None:
    with_topk(patch, lambda order, count: torch.cat([order[:, :1], order[:, : count - 1]], dim=1))


@mutation("is-cse-paper")
def best_match_discarded(method: Any, patch: Patch) -> None:
    with_topk(patch, lambda order, count: order[:, 1 : count + 1])


@mutation("is-cse-paper")
def farthest_in_place_of_nearest(method: Any, patch: Patch) -> None:
    with_topk(patch, lambda order, count: order.flip(1)[:, :count])


@mutation("is-cse-official")
def nearest_of_the_first_sentence_for_all(method: Any, patch: Patch) -> None:
    with_topk(patch, lambda order, count: order[:1, :count].expand(len(order), -1))


@mutation("is-cse-official")
def one_neighbour_more(method: Any, patch: Patch) -> None:
    set_hyper(method, neighbours=4)


@mutation("is-cse-official")
def starts_before_the_memory_is_full(method: Any, patch: Patch) -> None:
    plain = type(method)._smooth

    def smooth(self: Any, unit: Tensor) -> Any:
        filled, self.filled = self.filled, torch.tensor(self.hyper.buffer)
        smoothed = plain(self, unit)
        self.filled = filled
        return smoothed

    override(method, "_smooth", smooth)


@mutation("is-cse-paper")
def waits_until_the_memory_is_full(method: Any, patch: Patch) -> None:
    plain = type(method)._smooth
    override(
        method,
        "_smooth",
        lambda self, unit: None if self.filled < self.hyper.buffer else plain(self, unit),
    )


@mutation("is-cse-official")
def memory_of_another_length(method: Any, patch: Patch) -> None:
    set_hyper(method, buffer=9)


def on_entry(method: Any, change: Callable[[Any, Tensor], Tensor]) -> None:
    plain = type(method)._remember
    override(method, "_remember", lambda self, unit: plain(self, change(self, unit)))


@mutation("is-cse-paper")
def memory_of_other_lengths(method: Any, patch: Patch) -> None:
    on_entry(
        method, lambda self, unit: unit * torch.linspace(0.5, 2, len(unit)).unsqueeze(1).to(unit)
    )


@mutation("is-cse-paper")
def memory_of_the_anchors(method: Any, patch: Patch) -> None:
    plain = type(method).terms

    def terms(self: Any, anchors: Tensor, positives: Tensor, temperature: float, step: Any) -> Any:
        self.anchors = F.normalize(anchors, dim=-1)
        return plain(self, anchors, positives, temperature, step)

    override(method, "terms", terms)
    on_entry(method, lambda self, unit: self.anchors)


@mutation("is-cse-paper")
def oldest_rows_kept(method: Any, patch: Patch) -> None:
    def remember(self: Any, unit: Tensor) -> None:
        free = self.hyper.buffer - int(self.filled)
        if free:
            entering = unit.detach()[:free]
            self.rows = torch.cat([self.rows[len(entering) :].to(unit), entering])
            self.filled = self.filled + len(entering)

    override(method, "_remember", remember)


@mutation("is-cse-official")
def memory_with_gradient(method: Any, patch: Patch) -> None:
    def remember(self: Any, unit: Tensor) -> None:
        self.rows = torch.cat([self.rows.detach().to(unit), unit])[-self.hyper.buffer :]
        self.filled = (self.filled + len(unit)).clamp(max=self.hyper.buffer)

    override(method, "_remember", remember)


@mutation("is-cse-official")
def attention_without_temperature(method: Any, patch: Patch) -> None:
    set_hyper(method, beta=1.0)


@mutation("is-cse-sharp")
def attention_temperature_multiplied(method: Any, patch: Patch) -> None:
    set_hyper(method, beta=1 / method.hyper.beta)


def with_attention(method: Any, attend: Callable[[Tensor, Tensor, float], Tensor]) -> None:
    """Replace Eq. 4, given the retrieved rows."""

    def smooth(self: Any, unit: Tensor) -> Tensor | None:
        skipped, filled = int(self.hyper.current_first), int(self.filled)
        if filled < (self.hyper.buffer if skipped else self.hyper.neighbours):
            return None
        rows = self.rows[self.hyper.buffer - filled :].to(unit)
        ranked = (unit.detach() @ rows.T).argsort(dim=1, descending=True)[
            :, skipped : self.hyper.neighbours + skipped
        ]
        return attend(unit, rows[ranked], self.hyper.beta)

    override(method, "_smooth", smooth)


def attention(query: Tensor, keys: Tensor, values: Tensor, beta: float) -> Tensor:
    shares = torch.softmax(torch.einsum("nd,nkd->nk", query, keys) / beta, dim=1)
    return torch.einsum("nk,nkd->nd", shares, values)


@mutation("is-cse-paper")
def attention_without_itself(method: Any, patch: Patch) -> None:
    with_attention(method, lambda unit, found, beta: attention(unit, found, found, beta))


@mutation("is-cse-paper")
def attention_with_its_query_detached(method: Any, patch: Patch) -> None:
    def attend(unit: Tensor, found: Tensor, beta: float) -> Tensor:
        keys = torch.cat([unit.unsqueeze(1), found], dim=1)
        return attention(unit.detach(), keys, keys, beta)

    with_attention(method, attend)


@mutation("is-cse-paper")
def attention_with_its_value_detached(method: Any, patch: Patch) -> None:
    # Its key alone would be no mistake: a unit vector's product with itself has a gradient along
    # it, which falls away.
    def attend(unit: Tensor, found: Tensor, beta: float) -> Tensor:
        keys = torch.cat([unit.unsqueeze(1), found], dim=1)
        return attention(unit, keys, torch.cat([unit.detach().unsqueeze(1), found], dim=1), beta)

    with_attention(method, attend)


@mutation("is-cse-paper")
def mean_in_place_of_attention(method: Any, patch: Patch) -> None:
    with_attention(
        method, lambda unit, found, beta: torch.cat([unit.unsqueeze(1), found], dim=1).mean(1)
    )


def rising(method: Any, formula: Callable[[float, float, float], float]) -> None:
    """Replace Eq. 8 by a formula of (share of the training done, start, end)."""
    override(
        method,
        "alpha",
        lambda self, step: formula(
            step.index / step.total, self.hyper.alpha_start, self.hyper.alpha
        ),
    )


@mutation("is-cse-rising")
def start_and_end_swapped(method: Any, patch: Patch) -> None:
    set_hyper(method, alpha=method.hyper.alpha_start, alpha_start=method.hyper.alpha)


@mutation("is-cse-rising")
def maximum_in_place_of_minimum(method: Any, patch: Patch) -> None:
    rising(
        method, lambda share, start, end: max(math.cos(math.pi * share) * (start - end), 0) + end
    )


@mutation("is-cse-rising")
def end_reached_at_the_end(method: Any, patch: Patch) -> None:
    rising(
        method,
        lambda share, start, end: min(math.cos(math.pi * share / 2) * (start - end), 0) + end,
    )


@mutation("is-cse-rising")
def linear_in_place_of_cosine(method: Any, patch: Patch) -> None:
    rising(method, lambda share, start, end: start + (end - start) * min(2 * share, 1))


@mutation("is-cse-rising")
def steps_counted_from_one(method: Any, patch: Patch) -> None:
    plain = type(method).alpha
    override(method, "alpha", lambda self, step: plain(self, replace(step, index=step.index + 1)))


@mutation("is-cse-official")
def constant_alpha_a_little_off(method: Any, patch: Patch) -> None:
    set_hyper(method, alpha=method.hyper.alpha + 1e-4)


@mutation("is-cse-official")
def smoothing_in_place_of_instance(method: Any, patch: Patch) -> None:
    plain = type(method).loss

    def loss(self: Any, views: Views, step: Any) -> Tensor:
        instance = base.info_nce(*self.pairs(views), self.hyper.temperature)
        return (
            plain(self, views, step) - self.hyper.alpha * instance
        )  # (1 - alpha) L_instance + alpha L_smoothing

    override(method, "loss", loss)


@mutation("is-cse-official")
def smoothed_as_anchor(method: Any, patch: Patch) -> None:
    plain = is_cse.info_nce
    patch.setattr(is_cse, "info_nce", lambda anchors, smoothed, t: plain(smoothed, anchors, t))


@mutation("is-cse-official")
def smoothed_against_plain_negatives(method: Any, patch: Patch) -> None:
    def mixed(anchors: Tensor, smoothed: Tensor, t: float) -> Tensor:
        logits = base.cosine(anchors, anchors) / t
        positive = base.cosine(anchors, smoothed).diagonal() / t
        logits = torch.where(
            torch.eye(len(anchors), dtype=torch.bool), positive.unsqueeze(1), logits
        )
        return F.cross_entropy(logits, torch.arange(len(anchors)))

    patch.setattr(is_cse, "info_nce", mixed)


# Compositions


@mutation("gs+is-cse")
def ingredient_forgotten(method: Any, patch: Patch) -> None:
    del method.parts[0]


@mutation("gs+is-cse")
def noise_in_the_smoothing_term_too(method: Any, patch: Patch) -> None:
    plain = is_cse.info_nce
    patch.setattr(
        is_cse,
        "info_nce",
        lambda a, s, t: plain(a, s, t, [Negatives(torch.randn(8, a.shape[1]).to(a))]),
    )


@mutation("sscl+is-cse")
def temperature_of_the_ingredient(method: Any, patch: Patch) -> None:
    plain = is_cse.info_nce
    patch.setattr(is_cse, "info_nce", lambda a, s, t: plain(a, s, 0.05))


@mutation("is-cse+sscl")
def average_covers_the_smoothing_term(method: Any, patch: Patch) -> None:
    smoothing = part(method, "is-cse")
    plain = type(smoothing).terms
    override(
        smoothing,
        "terms",
        lambda self, *rest: [(coefficient / 2, term) for coefficient, term in plain(self, *rest)],
    )


@mutation("gs+sscl")
def average_leaves_the_noise_in_the_plain_loss(method: Any, patch: Patch) -> None:
    plain = base.info_nce
    noise = Negatives(
        torch.randn(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    )
    patch.setattr(
        base, "info_nce", lambda a, p, t, groups=(), w=None: plain(a, p, t, groups or [noise], w)
    )


@mutation("gs+sscl")
def layers_counted_twice(method: Any, patch: Patch) -> None:
    layers = part(method, "sscl")
    plain = type(layers).negatives
    override(layers, "negatives", lambda self, *rest: 2 * plain(self, *rest))
