"""IS-CSE smoothed by K-means, alone or beside its neighbours: oracle, mutations, limits, state, a
training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import methods.is_cse as is_cse
from bench.datasets import sts
from bench.evaluation.scoring import score_tasks
from bench.models.load import load_encoder
from bench.runs.resolve import resolve
from bench.utils.files import read_json
from methods.base import Refusal, Shape, Step, compose, info_nce, stream
from methods.is_cse import ISCSE, cluster
from methods.simcse import SimCSE
from tests.methods.cases import (
    DTYPES,
    HARD,
    WIDTH,
    Case,
    batch,
    disagreement,
    method_step,
    tolerance,
)
from tests.oracles.kmeans import GroupOracle
from tests.oracles.mutations import override, set_hyper

Patch = pytest.MonkeyPatch
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


@pytest.mark.parametrize(
    ("one", "kind"),
    [(one, "random") for one in CASES]
    + [(BY_NAME["kmeans-official"], kind) for kind in ("close", *HARD)]
    + [(BY_NAME["both-paper"], kind) for kind in ("close", "near-duplicates")]
    + [(BY_NAME["kmeans-cold"], "near-duplicates")],
    ids=lambda value: getattr(value, "name", value),
)
def test_equals_oracle(one: Case, kind: str) -> None:
    for dtype, difference in disagreement(one, kind, dtypes=DTYPES).items():
        assert difference < tolerance(kind, dtype), dtype


# Mistakes


def gamma_of_the_centre(method: Any, patch: Patch) -> None:
    set_hyper(method, gamma=1 - method.hyper.gamma)


def one_cluster_less(method: Any, patch: Patch) -> None:
    set_hyper(method, clusters=method.hyper.clusters - 1)


def centres_drawn_anew_each_step(method: Any, patch: Patch) -> None:
    plain = type(method)._smooth_by_centres

    def draw(self: Any, unit: Tensor, step: Step) -> Any:
        self.centres = torch.zeros_like(self.centres)
        return plain(self, unit, step)

    override(method, "_smooth_by_centres", draw)


def centres_of_another_draw(method: Any, patch: Patch) -> None:
    plain = type(method)._smooth_by_centres
    override(
        method,
        "_smooth_by_centres",
        lambda self, unit, step: plain(self, unit, replace(step, seed=step.seed + 1)),
    )


def one_round_alone(method: Any, patch: Patch) -> None:
    patch.setattr(is_cse, "MOST_ROUNDS", 1)


def centres_never_move(method: Any, patch: Patch) -> None:
    patch.setattr(is_cse, "cluster", lambda rows, centres: centres)


def mean_in_place_of_unit_mean(method: Any, patch: Patch) -> None:
    def shorter(rows: Tensor, centres: Tensor) -> Tensor:
        return cluster(rows, centres) * torch.linspace(0.5, 1, len(centres)).unsqueeze(1).to(rows)

    patch.setattr(is_cse, "cluster", shorter)


def farthest_centre(method: Any, patch: Patch) -> None:
    patch.setattr(torch.Tensor, "argmax", torch.Tensor.argmin)


def centre_of_the_next_sentence(method: Any, patch: Patch) -> None:
    plain = type(method)._smooth_by_centres
    override(
        method,
        "_smooth_by_centres",
        lambda self, unit, step: mixed(self, plain(self, unit, step), unit, 1),
    )


def positive_detached(method: Any, patch: Patch) -> None:
    plain = type(method)._smooth_by_centres
    override(
        method, "_smooth_by_centres", lambda self, unit, step: plain(self, unit.detach(), step)
    )


def mixed(method: Any, drawn: Tensor | None, unit: Tensor, shift: int) -> Tensor | None:
    if drawn is None:
        return None
    own = method.hyper.gamma * unit
    return own + (drawn - own).roll(shift, 0)


def memory_with_gradient(method: Any, patch: Patch) -> None:
    def remember(self: Any, unit: Tensor) -> None:
        self.rows = torch.cat([self.rows.detach().to(unit), unit])[-self.hyper.buffer :]
        self.filled = (self.filled + len(unit)).clamp(max=self.hyper.buffer)

    def draw(self: Any, unit: Tensor, step: Step) -> Any:
        found = plain(self, unit, step)
        self.centres = self.centres.detach()
        return found

    plain = type(method)._smooth_by_centres
    override(method, "_remember", remember)
    override(method, "_smooth_by_centres", draw)


def batch_enters_late(method: Any, patch: Patch) -> None:
    def terms(self: Any, anchors: Tensor, positives: Tensor, temperature: float, step: Step) -> Any:
        unit = F.normalize(positives, dim=-1)
        found = self._smooth_by_centres(unit, step)
        self._remember(unit)
        return [] if found is None else [(self.alpha(step), info_nce(anchors, found, temperature))]

    override(method, "terms", terms)


def waits_until_the_memory_is_full(method: Any, patch: Patch) -> None:
    plain = type(method)._smooth_by_centres
    override(
        method,
        "_smooth_by_centres",
        lambda self, unit, step: (
            None if self.filled < self.hyper.buffer else plain(self, unit, step)
        ),
    )


def neighbours_forgotten(method: Any, patch: Patch) -> None:
    override(method, "_smooth", lambda self, unit: None)


def clusters_forgotten(method: Any, patch: Patch) -> None:
    override(method, "_smooth_by_centres", lambda self, unit, step: None)


def mean_of_both_terms(method: Any, patch: Patch) -> None:
    plain = type(method).alpha
    override(method, "alpha", lambda self, step: plain(self, step) / 2)


MUTATIONS = [
    ("kmeans-official", gamma_of_the_centre),
    ("kmeans-official", one_cluster_less),
    ("kmeans-official", centres_drawn_anew_each_step),
    ("kmeans-official", centres_of_another_draw),
    ("kmeans-official", one_round_alone),
    ("kmeans-official", centres_never_move),
    ("kmeans-official", mean_in_place_of_unit_mean),
    ("kmeans-official", farthest_centre),
    ("kmeans-official", centre_of_the_next_sentence),
    ("kmeans-official", positive_detached),
    ("kmeans-official", memory_with_gradient),
    ("kmeans-official", batch_enters_late),
    ("kmeans-paper", waits_until_the_memory_is_full),
    ("both-official", neighbours_forgotten),
    ("both-official", clusters_forgotten),
    ("both-paper", mean_of_both_terms),
]


@pytest.mark.parametrize(
    ("name", "mutate"), MUTATIONS, ids=[mutate.__name__ for _, mutate in MUTATIONS]
)
def test_a_mutation_is_caught(
    name: str, mutate: Callable[[Any, Patch], None], monkeypatch: Patch
) -> None:
    def build() -> Any:
        method = BY_NAME[name].build()
        monkeypatch.undo()
        mutate(method, monkeypatch)
        return method

    assert (
        max(disagreement(BY_NAME[name], kind, build=build)[torch.float64] for kind in KINDS) > 1e-6
    )


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
    torch.testing.assert_close(
        cluster(rows, centres), centres
    )  # settled: another call moves nothing
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


def build(**hyper: Any) -> Any:
    hyper = {"alpha": 0.3, "buffer": 10, "neighbours": 3, "clusters": 3, **hyper}
    return compose([(ISCSE, ISCSE.Hyper(**hyper))], Shape(WIDTH, 4))


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
    plain = losses(compose([(SimCSE, SimCSE.Hyper())], Shape(WIDTH, 4)), dtype)
    for hyper in (
        {"alpha": 0.0},
        {"buffer": 1000},
        {"buffer": 1000, "neighbours": 500, "clusters": 500},
    ):
        off = losses(build(group=group, current_first="clusters" not in hyper, **hyper), dtype)
        assert all(map(torch.equal, plain, off)), hyper


def test_with_gamma_one_the_term_is_the_instance_loss() -> None:
    """h^{s+} = h+, so the loss is (1 + alpha) L_instance: SimCSE with larger steps."""
    method, plain = (
        build(group="kmeans", gamma=1.0),
        compose([(SimCSE, SimCSE.Hyper())], Shape(WIDTH, 4)),
    )
    for index in range(5):
        leaves = batch("random", index).leaves(torch.float64)
        loss, gradients = method_step(method, leaves, index)
        expected, expected_gradients = method_step(plain, leaves, index)
        share = (
            1.3 if index > 1 else 1.0
        )  # the memory of 10 rows is full from the third batch of 4 on
        torch.testing.assert_close(loss, share * expected)
        torch.testing.assert_close(gradients[1], share * expected_gradients[1])


def test_with_gamma_zero_the_positive_has_no_gradient_from_the_term() -> None:
    method, plain = (
        build(group="kmeans", gamma=0.0),
        compose([(SimCSE, SimCSE.Hyper())], Shape(WIDTH, 4)),
    )
    for index in range(5):
        leaves = batch("random", index).leaves(torch.float64)
        loss, gradients = method_step(method, leaves, index)
        expected, expected_gradients = method_step(plain, leaves, index)
        assert torch.equal(gradients[1], expected_gradients[1])
    assert loss != expected


def test_both_is_the_sum_of_either() -> None:
    """The smoothing terms add up; the instance loss counts once."""
    plain = compose([(SimCSE, SimCSE.Hyper())], Shape(WIDTH, 4))
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


@pytest.mark.parametrize("group", ["kmeans", "both"])
def test_a_saved_state_goes_on_with_the_same_numbers(group: str) -> None:
    whole = build(group=group)
    first = losses(whole, torch.float32, last=4)
    state = {name: tensor.clone() for name, tensor in whole.state_dict().items()}
    restored = build(group=group)
    restored.load_state_dict(state)
    assert first
    assert all(
        map(torch.equal, losses(whole, torch.float32, 4), losses(restored, torch.float32, 4))
    )


def test_neighbours_alone_remember_no_centres() -> None:
    assert set(build().state_dict()) == {"rows", "filled"}
    assert set(build(group="both").state_dict()) == {"rows", "filled", "centres"}


@pytest.mark.parametrize(
    ("hyper", "message"),
    [
        ({"group": "k-means"}, "'group' of 'is-cse' is one of knn, kmeans, both, not 'k-means'"),
        ({"group": "kmeans", "clusters": 0}, "0 < clusters <= buffer, not kmeans and 0 and 10"),
        ({"group": "both", "clusters": 11}, "0 < clusters <= buffer, not both and 11 and 10"),
        ({"gamma": 1.1}, "0 <= gamma <= 1, not 1.1"),
        ({"gamma": -0.1}, "0 <= gamma <= 1"),
    ],
)
def test_what_cannot_be_is_refused(hyper: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        build(**hyper)


def test_earlier_runs_keep_their_names() -> None:
    def identify(text: str) -> str:
        return resolve(
            text, backbone_name="bert-base-uncased", corpus="wiki1m", data="senteval", seed=42
        ).id

    plain = identify("is-cse")
    assert plain == "is-cse_official_bert-base-uncased_s42_04e689638d"
    assert identify("is-cse[clusters=64,gamma=0.5,group=knn]") == plain
    assert (
        len(
            {
                plain,
                *(
                    identify(f"is-cse[{key}]")
                    for key in ("group=kmeans", "group=both", "gamma=0.1")
                ),
            }
        )
        == 4
    )


# A training


@pytest.mark.parametrize("group", ["kmeans", "both"])
def test_a_training_is_deterministic_and_keeps_what_it_scored(
    train_tiny: Callable[..., Path], tiny_data: Path, group: str
) -> None:
    text = f"is-cse[alpha=0.5,buffer=16,clusters=4,group={group},neighbours=3]"
    folder = train_tiny(text)
    outcome = read_json(folder / "outcome.json")["outcome"]
    assert outcome["status"] == "finished"
    dev = score_tasks(load_encoder(str(folder / "encoder")), [sts.read("STS-B", tiny_data, "dev")])
    assert dev[0]["value"] == outcome["best_dev"]
    again = train_tiny(text, fresh=True)
    names = ("log.jsonl", "encoder/model.safetensors")
    logs = [
        [row.split(', "sentences')[0] for row in (one / names[0]).read_text().splitlines()]
        for one in (folder, again)
    ]
    assert logs[0] == logs[1]
    assert (folder / names[1]).read_bytes() == (again / names[1]).read_bytes()
    assert logs[0] != [
        row.split(', "sentences')[0]
        for row in (train_tiny("simcse") / names[0]).read_text().splitlines()
    ]
