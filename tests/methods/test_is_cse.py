"""IS-CSE smoothed by K-means, alone or beside its neighbours: oracle, mutations, limits."""

import torch
from torch.nn import functional as F

from methods.is_cse import ISCSE, cluster
from tests.oracles.edits import Mutation, edits
from tests.oracles.kmeans import GroupOracle
from tests.support.method_cases import (
    HARD,
    Case,
    assert_equals_oracle,
    by_name,
    caught,
    on_inputs,
)

SMALL = {"alpha": 0.3, "buffer": 10, "neighbours": 3, "clusters": 3}
# The oracle's names.
NAMES = {"buffer": "length", "neighbours": "k", "current_first": "official"}


def case(name, t=0.05, **changes):
    values = {**SMALL, "beta": 2.0, "current_first": True, "gamma": 0.3, **changes}
    options = {NAMES.get(key, key): value for key, value in values.items()}
    part = (ISCSE, {**values, "temperature": t})
    return Case(name, (part,), lambda: GroupOracle(options, t), t)


CASES = [
    case("kmeans-official", group="kmeans"),
    case("kmeans-paper", group="kmeans", current_first=False),
    case("kmeans-many", group="kmeans", clusters=10),
    case("kmeans-one", group="kmeans", clusters=1),
    case("kmeans-cold", 0.001, group="kmeans"),
    case("both-official", group="both"),
    case("both-paper", group="both", current_first=False, clusters=4, gamma=0.9),
]
BY_NAME = by_name(CASES)


@on_inputs(
    (CASES, ["random"]),
    ([BY_NAME["kmeans-official"]], ["close", *HARD]),
    ([BY_NAME["both-paper"]], ["close", "near-duplicates"]),
    ([BY_NAME["kmeans-cold"]], ["near-duplicates"]),
)
def test_equals_oracle(case, kinds):
    assert_equals_oracle(case, kinds)


MUTATIONS: dict[str, Mutation] = {
    **edits("methods.is_cse:ISCSE._smooth_by_centres", {
        "centres_drawn_anew_each_step": ("not self.centres.any()", "True"),
        "centres_never_move": ("self.centres = cluster(rows, self.centres)", "pass"),
        "batch_enters_late": (
            "rows = self._remembered(self.hyper.clusters)",
            "rows = self._remembered(self.hyper.clusters)\n"
            "rows = None if rows is None else rows[:-len(unit)]"),
    }, case="kmeans-official"),
    **edits("methods.is_cse:cluster", {
        "one_round_alone": ("kmeans-official", "range(MOST_ROUNDS)", "range(1)"),
        "mean_in_place_of_unit_mean": (
            "kmeans-official",
            "sums = F.one_hot(nearest, len(centres)).to(rows).T @ rows\n"
            "centres = torch.where(sums.any(1, keepdim=True), F.normalize(sums, dim=-1), "
            "centres)",
            "sums = F.one_hot(nearest, len(centres)).to(rows).T @ rows\n"
            "centres = torch.where(sums.any(1, keepdim=True), sums / F.one_hot(nearest, "
            "len(centres)).sum(0).unsqueeze(1), centres)"),
    }),
    **edits("methods.is_cse:ISCSE.terms", {
        "mean_of_both_terms": ("both-paper", "self.alpha(step)", "self.alpha(step) / 2"),
    }),
}  # fmt: skip


test_a_mutation_is_caught = caught(MUTATIONS, CASES)


def test_an_empty_cluster_keeps_its_centre():
    rows = F.normalize(torch.tensor([[1.0, 0.1], [1.0, -0.1]]), dim=1)
    start = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    assert torch.equal(cluster(rows, start), start)


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

OUT_OF_LIMITS = {
    "is-cse": (
        "group=k-means neighbours=0 neighbours=1024 beta=0 alpha=-1 alpha_start=-0.1 "
        "alpha_start=0.2 gamma=1.1 gamma=-0.1"
    ),
    "is-cse[group=both": "clusters=0 clusters=1025",
}
WITHOUT_EFFECT = {
    "neighbours": ("group=kmeans", 16, 4),
    "beta": ("group=kmeans", 2.0, 0.5),
    "clusters": ("group=knn", 64, 8),
    "gamma": ("group=knn", 0.5, 0.1),
}
