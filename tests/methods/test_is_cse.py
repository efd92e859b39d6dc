"""IS-CSE smoothed by K-means, alone or beside its neighbours: oracle, mutations, limits, state."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import methods.is_cse as is_cse
from methods.base import Step, info_nce, stream
from methods.is_cse import ISCSE, cluster
from tests.methods import cases
from tests.methods.cases import Case, batch, is_caught, method_step
from tests.methods.outside import Patch
from tests.oracles.kmeans import GroupOracle
from tests.oracles.mutations import Mutation, around, hyper, other, patched
from tests.oracles.mutations_is_cse import unless_full, with_gradient

KINDS = ("close",)  # where the mutations are caught


def case(name: str, temperature: float = 0.05, **changes: Any) -> Case:
    o = {
        "alpha": 0.3,
        "length": 10,
        "k": 3,
        "beta": 2.0,
        "official": True,
        "clusters": 3,
        "gamma": 0.3,
        **changes,
    }
    hyper = {
        "alpha": o["alpha"],
        "buffer": o["length"],
        "neighbours": o["k"],
        "current_first": o["official"],
        "group": o["group"],
        "clusters": o["clusters"],
        "gamma": o["gamma"],
        "temperature": temperature,
    }
    return Case(name, ((ISCSE, hyper),), lambda: GroupOracle(o, temperature), temperature)  # type: ignore[arg-type]


CASES = [
    case("kmeans-official", group="kmeans"),
    case("kmeans-paper", group="kmeans", official=False),
    case("kmeans-many", group="kmeans", clusters=10),
    case("kmeans-one", group="kmeans", clusters=1),
    case("kmeans-cold", 0.001, group="kmeans"),
    case("both-official", group="both"),
    case("both-paper", group="both", official=False, clusters=4, gamma=0.9),
]
BY_NAME = {one.name: one for one in CASES}


# Mistakes


def by_centres(change: Callable[..., Any]) -> Mutation:
    return around("_smooth_by_centres", change)


def drawn_anew(plain: Any, self: Any, unit: Tensor, step: Step) -> Any:
    self.centres = torch.zeros_like(self.centres)
    return plain(self, unit, step)


def clustering(change: Callable[..., Tensor]) -> Mutation:
    return patched(is_cse, "cluster", change)


def shorter(plain: Any, rows: Tensor, centres: Tensor) -> Tensor:
    lengths = torch.linspace(0.5, 1, len(centres)).unsqueeze(1).to(rows)
    return plain(rows, centres) * lengths


def of_the_next_sentence(plain: Any, self: Any, unit: Tensor, step: Step) -> Tensor | None:
    drawn, own = plain(self, unit, step), self.hyper.gamma * unit
    return None if drawn is None else own + (drawn - own).roll(1, 0)


def centres_detached(plain: Any, self: Any, unit: Tensor, step: Step) -> Any:
    found = plain(self, unit, step)
    self.centres = self.centres.detach()
    return found


def memory_with_gradient(method: Any, patch: Patch) -> None:
    by_centres(centres_detached)(method, patch)
    other("_remember", with_gradient)(method, patch)


def entering_late(self: Any, anchors: Tensor, positives: Tensor, t: float, step: Step) -> Any:
    unit = F.normalize(positives, dim=-1)
    found = self._smooth_by_centres(unit, step)
    self._remember(unit)
    return [] if found is None else [(self.alpha(step), info_nce(anchors, found, t))]


def one_round_alone(method: Any, patch: Patch) -> None:
    patch.setattr(is_cse, "MOST_ROUNDS", 1)


MUTATIONS: dict[str, tuple[str, Mutation]] = {
    "gamma_of_the_centre": ("kmeans-official", hyper(gamma=lambda own: 1 - own.gamma)),
    "one_cluster_less": ("kmeans-official", hyper(clusters=lambda own: own.clusters - 1)),
    "centres_drawn_anew_each_step": ("kmeans-official", by_centres(drawn_anew)),
    "centres_of_another_draw": (
        "kmeans-official",
        by_centres(lambda plain, self, unit, step:
                   plain(self, unit, replace(step, seed=step.seed + 1)))),
    "one_round_alone": ("kmeans-official", one_round_alone),
    "centres_never_move": ("kmeans-official", clustering(lambda plain, rows, centres: centres)),
    "mean_in_place_of_unit_mean": ("kmeans-official", clustering(shorter)),
    "farthest_centre": (
        "kmeans-official",
        patched(torch.Tensor, "argmax", lambda plain, *given: torch.Tensor.argmin(*given))),
    "centre_of_the_next_sentence": ("kmeans-official", by_centres(of_the_next_sentence)),
    "positive_detached": (
        "kmeans-official",
        by_centres(lambda plain, self, unit, step: plain(self, unit.detach(), step))),
    "memory_with_gradient": ("kmeans-official", memory_with_gradient),
    "batch_enters_late": ("kmeans-official", other("terms", entering_late)),
    "waits_until_the_memory_is_full": ("kmeans-paper", by_centres(unless_full)),
    "neighbours_forgotten": ("both-official", other("_smooth", lambda self, unit: None)),
    "clusters_forgotten": (
        "both-official", other("_smooth_by_centres", lambda self, unit, step: None)),
    "mean_of_both_terms": (
        "both-paper", around("alpha", lambda plain, self, step: plain(self, step) / 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: Patch) -> None:
    case, mutate = MUTATIONS[name]
    assert is_caught(BY_NAME[case], mutate, monkeypatch, KINDS)


# What K-means is


@settings(max_examples=10)
@given(st.integers(1, 30), st.integers(1, 8), st.integers(0, 10**6))
def test_no_row_has_a_nearer_centre_and_the_objective_never_falls(
    count: int, clusters: int, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    rows = F.normalize(torch.randn(count, 4, generator=draw, dtype=torch.float64), dim=1)
    start = F.normalize(torch.randn(clusters, 4, generator=draw, dtype=torch.float64), dim=1)
    objectives = [(rows @ start.T).amax(1).sum()]
    for rounds in (1, 2, 3, 4, is_cse.MOST_ROUNDS):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(is_cse, "MOST_ROUNDS", rounds)
            centres = cluster(rows, start)
        objectives.append((rows @ centres.T).amax(1).sum())
    assert all(later >= earlier - 1e-12 for earlier, later in pairwise(objectives))
    torch.testing.assert_close(centres.norm(dim=1), torch.ones(clusters, dtype=torch.float64))
    # Settled: another call moves nothing.
    torch.testing.assert_close(cluster(rows, centres), centres)
    owners = (rows @ centres.T).argmax(1)
    for number, centre in enumerate(centres):
        own = rows[owners == number]
        expected = F.normalize(own.sum(0), dim=0) if len(own) else start[number]
        torch.testing.assert_close(centre, expected if len(own) else centre)


def test_well_separated_groups_are_found() -> None:
    draw = stream(0, "groups")
    groups = torch.eye(4, dtype=torch.float64).repeat_interleave(10, 0)
    rows = F.normalize(
        groups + 0.05 * torch.randn(40, 4, generator=draw, dtype=torch.float64), dim=1
    )
    owners = (rows @ cluster(rows, rows[::10]).T).argmax(1)
    assert owners.tolist() == [number // 10 for number in range(40)]


def test_an_empty_cluster_keeps_its_centre() -> None:
    rows = F.normalize(torch.tensor([[1.0, 0.1], [1.0, -0.1]]), dim=1)
    start = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    assert torch.equal(cluster(rows, start), start)


# Limits

SIMCSE = cases.BY_NAME["simcse"]


def build(**hyper: Any) -> Any:
    hyper = {"alpha": 0.3, "buffer": 10, "neighbours": 3, "clusters": 3, **hyper}
    return cases.build((ISCSE, hyper))


def losses(
    method: Any, dtype: torch.dtype = torch.float64, first: int = 0, last: int = 6
) -> list[Tensor]:
    found = []
    for index in range(first, last):
        loss, gradients = method_step(method, batch("random", index).leaves(dtype), index)
        found += [loss, *gradients]
    return found


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("group", ["kmeans", "both"])
def test_without_alpha_or_before_the_memory_is_full_it_is_simcse_bit_for_bit(
    group: str, dtype: torch.dtype
) -> None:
    plain = losses(SIMCSE.build(), dtype)
    large = {"buffer": 1000, "neighbours": 500, "clusters": 500}
    for changes in ({"alpha": 0.0}, {"buffer": 1000}, large):
        off = losses(build(group=group, current_first="clusters" not in changes, **changes), dtype)
        assert all(map(torch.equal, plain, off)), changes


def test_with_gamma_one_the_term_is_the_instance_loss() -> None:
    """h^{s+} = h+, so the loss is (1 + alpha) L_instance: SimCSE with larger steps."""
    method, plain = build(group="kmeans", gamma=1.0), SIMCSE.build()
    for index in range(5):
        leaves = batch("random", index).leaves(torch.float64)
        loss, gradients = method_step(method, leaves, index)
        expected, expected_gradients = method_step(plain, leaves, index)
        # The memory of 10 rows is full from the third batch of 4 on.
        share = 1.3 if index > 1 else 1.0
        torch.testing.assert_close(loss, share * expected)
        torch.testing.assert_close(gradients[1], share * expected_gradients[1])


def test_with_gamma_zero_the_positive_has_no_gradient_from_the_term() -> None:
    method, plain = build(group="kmeans", gamma=0.0), SIMCSE.build()
    for index in range(5):
        leaves = batch("random", index).leaves(torch.float64)
        loss, gradients = method_step(method, leaves, index)
        expected, expected_gradients = method_step(plain, leaves, index)
        assert torch.equal(gradients[1], expected_gradients[1])
    assert loss != expected


def test_both_is_the_sum_of_either() -> None:
    """The smoothing terms add up; the instance loss counts once."""
    plain = SIMCSE.build()
    methods = [build(group=group) for group in ("knn", "kmeans", "both")]
    for index in range(5):
        one = batch("close", index)
        knn, kmeans, both = (
            method_step(method, one.leaves(torch.float64), index)[0] for method in methods
        )
        torch.testing.assert_close(
            both, knn + kmeans - method_step(plain, one.leaves(torch.float64), index)[0]
        )


# State, refusals, identity


def test_neighbours_alone_remember_no_centres() -> None:
    assert set(build().state_dict()) == {"rows", "_extra_state"}
    assert set(build(group="both").state_dict()) == {"rows", "_extra_state", "centres"}


# A training


# What the tests of all methods need to know of this one (`outside.of_methods`).

OUT_OF_LIMITS = {
    "is-cse": (
        "group=k-means neighbours=0 neighbours=1024 beta=0 alpha=-1 alpha_start=-0.1 "
        "alpha_start=0.2 gamma=1.1 gamma=-0.1"
    ),
    "is-cse[group=both": "clusters=0 clusters=1025",
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "neighbours": ("group=kmeans", 16, 4),
    "beta": ("group=kmeans", 2.0, 0.5),
    "clusters": ("group=knn", 64, 8),
    "gamma": ("group=knn", 0.5, 0.1),
}
SMALL_GROUPS = "buffer=16,clusters=4,neighbours=3"
TRAININGS: dict[str, tuple[dict[str, Any], int]] = {
    f"is-cse[alpha=0.5,group=kmeans,{SMALL_GROUPS}]": ({}, 6),
    f"is-cse[alpha=0.5,group=both,{SMALL_GROUPS}]": ({}, 6),
}
