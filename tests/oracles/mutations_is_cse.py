"""Mistakes that a programmer might make in IS-CSE and in compositions; see `mutations`."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import methods.contrastive as base
import methods.is_cse as is_cse
from methods.base import Negatives, Step, Views
from tests.oracles.mutations import Mutation, Patch, around, hyper, other, patched

# Memory and retrieval


def terms(remembered_first: bool) -> Mutation:
    def terms(self: Any, anchors: Tensor, positives: Tensor, temperature: float, step: Any) -> Any:
        unit = F.normalize(positives, dim=-1)
        if remembered_first:
            self._remember(unit)
        smoothed = self._smooth(unit)
        if not remembered_first:
            self._remember(unit)
        found = [] if smoothed is None else [base.info_nce(anchors, smoothed, temperature)]
        return [(self.alpha(step), term) for term in found]

    return other("terms", terms)


def retrieved(choose: Callable[[Tensor, int], Tensor]) -> Mutation:
    """Other columns of the sorted similarities than the `count` largest."""

    def topk(plain: Any, rows: Tensor, count: int, dim: int) -> Any:
        order = rows.argsort(dim=dim, descending=True)
        return type("TopK", (), {"indices": choose(order, count)})

    return patched(torch.Tensor, "topk", topk)


def full_at_once(plain: Any, self: Any, unit: Tensor) -> Any:
    filled, self.filled = self.filled, self.hyper.buffer
    smoothed = plain(self, unit)
    self.filled = filled
    return smoothed


def unless_full(plain: Any, self: Any, *given: Any) -> Any:
    return None if self.filled < self.hyper.buffer else plain(self, *given)


def entering(change: Callable[[Tensor], Tensor]) -> Mutation:
    return around("_remember", lambda plain, self, unit: plain(self, change(unit)))


def memory_of_the_anchors(method: Any, patch: Patch) -> None:
    def terms(plain: Any, self: Any, anchors: Tensor, *rest: Any) -> Any:
        self.anchors = F.normalize(anchors, dim=-1)
        return plain(self, anchors, *rest)

    around("terms", terms)(method, patch)
    around("_remember", lambda plain, self, unit: plain(self, self.anchors))(method, patch)


def oldest_rows_kept(self: Any, unit: Tensor) -> None:
    free = self.hyper.buffer - self.filled
    if free:
        entering = unit.detach()[:free]
        self.rows = torch.cat([self.rows[len(entering) :].to(unit), entering])
        self.filled = self.filled + len(entering)


def with_gradient(self: Any, unit: Tensor) -> None:
    self.rows = torch.cat([self.rows.detach().to(unit), unit])[-self.hyper.buffer :]
    self.filled = min(self.filled + len(unit), self.hyper.buffer)


# Eq. 4 and 8


def attention(attend: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]) -> Mutation:
    """Eq. 4 of another query, other keys and values, made of the vectors and the retrieved rows."""

    def smooth(self: Any, unit: Tensor) -> Tensor | None:
        skipped, filled = int(self.hyper.current_first), self.filled
        if filled < (self.hyper.buffer if skipped else self.hyper.neighbours):
            return None
        rows = self.rows[self.hyper.buffer - filled :].to(unit)
        ranked = (unit.detach() @ rows.T).argsort(dim=1, descending=True)
        found = rows[ranked[:, skipped : self.hyper.neighbours + skipped]]
        query, keys, values = attend(unit, found)
        shares = torch.softmax(torch.einsum("nd,nkd->nk", query, keys) / self.hyper.beta, dim=1)
        return torch.einsum("nk,nkd->nd", shares, values)

    return other("_smooth", smooth)


def joined(unit: Tensor, found: Tensor) -> Tensor:
    return torch.cat([unit.unsqueeze(1), found], dim=1)


def rising(formula: Callable[[float, float, float], float]) -> Mutation:
    """Eq. 8 as a formula of (share of the training done, start, end)."""
    return other(
        "alpha",
        lambda self, step: formula(
            step.index / step.total, self.hyper.alpha_start, self.hyper.alpha
        ),
    )


def smoothing_in_place_of_instance(plain: Any, self: Any, views: Views, step: Step) -> Tensor:
    """(1 - alpha) L_instance + alpha L_smoothing."""
    instance = base.info_nce(*self.pairs(views), self.hyper.temperature)
    return plain(self, views, step) - self.hyper.alpha * instance


def against_plain_negatives(plain: Any, anchors: Tensor, smoothed: Tensor, t: float) -> Tensor:
    logits = base.cosine(anchors, anchors) / t
    positive = base.cosine(anchors, smoothed).diagonal() / t
    logits = torch.where(torch.eye(len(anchors), dtype=torch.bool), positive.unsqueeze(1), logits)
    return F.cross_entropy(logits, torch.arange(len(anchors)))


def smoothing_term(change: Callable[..., Tensor]) -> Mutation:
    return patched(is_cse, "info_nce", change)


# Compositions


def ingredient_forgotten(method: Any, patch: Patch) -> None:
    del method.parts[0]


def shorter_memory(method: Any, patch: Patch) -> None:
    method.rows = method.rows[1:]
    hyper(buffer=len(method.rows))(method, patch)


def noisy(plain: Any, anchors: Tensor, smoothed: Tensor, t: float) -> Tensor:
    return plain(anchors, smoothed, t, [Negatives(torch.randn(8, anchors.shape[1]).to(anchors))])


def noise_in_the_plain_loss(plain: Any, a: Any, p: Any, t: Any, groups: Any = (), *w: Any) -> Any:
    draw = torch.Generator().manual_seed(0)
    noise = Negatives(torch.randn(8, a.shape[1], generator=draw, dtype=torch.float64))
    return plain(a, p, t, groups or [noise], *w)


MUTATIONS: dict[str, tuple[str, Mutation]] = {
    "batch_enters_after_retrieval": ("is-cse-official", terms(remembered_first=False)),
    "batch_enters_before_retrieval": ("is-cse-paper", terms(remembered_first=True)),
    "best_match_kept": (
        "is-cse-official",
        retrieved(lambda order, count: torch.cat([order[:, :1], order[:, : count - 1]], dim=1))),
    "best_match_discarded": (
        "is-cse-paper", retrieved(lambda order, count: order[:, 1 : count + 1])),
    "farthest_in_place_of_nearest": (
        "is-cse-paper", retrieved(lambda order, count: order.flip(1)[:, :count])),
    "nearest_of_the_first_sentence_for_all": (
        "is-cse-official",
        retrieved(lambda order, count: order[:1, :count].expand(len(order), -1))),
    "one_neighbour_more": ("is-cse-official", hyper(neighbours=4)),
    "starts_before_the_memory_is_full": ("is-cse-official", around("_smooth", full_at_once)),
    "waits_until_the_memory_is_full": ("is-cse-paper", around("_smooth", unless_full)),
    "memory_of_another_length": ("is-cse-official", shorter_memory),
    "memory_of_other_lengths": (
        "is-cse-paper",
        entering(lambda unit: unit * torch.linspace(0.5, 2, len(unit)).unsqueeze(1).to(unit))),
    "memory_of_the_anchors": ("is-cse-paper", memory_of_the_anchors),
    "oldest_rows_kept": ("is-cse-paper", other("_remember", oldest_rows_kept)),
    "memory_with_gradient": ("is-cse-official", other("_remember", with_gradient)),
    "attention_without_temperature": ("is-cse-official", hyper(beta=1.0)),
    "attention_temperature_multiplied": ("is-cse-sharp", hyper(beta=lambda own: 1 / own.beta)),
    "attention_without_itself": (
        "is-cse-paper", attention(lambda unit, found: (unit, found, found))),
    "attention_with_its_query_detached": (
        "is-cse-paper",
        attention(lambda unit, found: (unit.detach(), *[joined(unit, found)] * 2))),
    # Its key alone would be no mistake: a unit vector's product with itself has a gradient along
    # it, which falls away.
    "attention_with_its_value_detached": (
        "is-cse-paper",
        attention(lambda unit, found: (unit, joined(unit, found), joined(unit.detach(), found)))),
    "mean_in_place_of_attention": (
        "is-cse-paper",
        attention(lambda unit, found: (0 * unit, *[joined(unit, found)] * 2))),
    "start_and_end_swapped": (
        "is-cse-rising",
        hyper(alpha=lambda own: own.alpha_start, alpha_start=lambda own: own.alpha)),
    "maximum_in_place_of_minimum": (
        "is-cse-rising",
        rising(lambda share, start, end: max(math.cos(math.pi * share) * (start - end), 0) + end)),
    "end_reached_at_the_end": (
        "is-cse-rising",
        rising(lambda share, start, end:
               min(math.cos(math.pi * share / 2) * (start - end), 0) + end)),
    "linear_in_place_of_cosine": (
        "is-cse-rising",
        rising(lambda share, start, end: start + (end - start) * min(2 * share, 1))),
    "steps_counted_from_one": (
        "is-cse-rising",
        around("alpha",
               lambda plain, self, step: plain(self, replace(step, index=step.index + 1)))),
    "constant_alpha_a_little_off": ("is-cse-official", hyper(alpha=lambda own: own.alpha + 1e-4)),
    "smoothing_in_place_of_instance": (
        "is-cse-official", around("loss", smoothing_in_place_of_instance)),
    "smoothed_as_anchor": (
        "is-cse-official", smoothing_term(lambda plain, a, s, t: plain(s, a, t))),
    "smoothed_against_plain_negatives": (
        "is-cse-official", smoothing_term(against_plain_negatives)),
    # Compositions
    "ingredient_forgotten": ("gs+is-cse", ingredient_forgotten),
    "noise_in_the_smoothing_term_too": ("gs+is-cse", smoothing_term(noisy)),
    "temperature_of_the_ingredient": (
        "sscl+is-cse", smoothing_term(lambda plain, a, s, t: plain(a, s, 0.05))),
    "average_covers_the_smoothing_term": (
        "is-cse+sscl",
        around("terms", lambda plain, *given: [(share / 2, term) for share, term in plain(*given)],
               of="is-cse")),
    "average_leaves_the_noise_in_the_plain_loss": (
        "gs+sscl", patched(base, "info_nce", noise_in_the_plain_loss)),
    "layers_counted_twice": (
        "gs+sscl", around("negatives", lambda plain, *given: 2 * plain(*given), of="sscl")),
}  # fmt: skip
