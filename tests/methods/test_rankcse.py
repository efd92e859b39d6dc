"""RankCSE: both terms against an oracle, its limits, and its teachers."""

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import methods.rankcse as rankcse
from methods.base import Refusal, Shape, Step, Views, cosine, info_nce
from methods.rankcse import RankCSE, divergence, list_mle, list_net
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
    vectors,
)
from tests.methods.queue_cases import FakeContext, Table
from tests.oracles import rankcse as oracle

N, WIDTH = 5, 4
STEP = Step(0, 1, N, 1, range(N))
RELEASED = {"consistency": "entropy", "rank_epsilon": 1e-7}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "listmle": ({}, {}),
    "listnet": ({"ranking": "listnet"}, {"ranking": "listnet"}),
    "weights": (same := {"beta": 0.3, "gamma": 0.2, "tau2": 0.1}, same),
    "warm": (same := {"ranking": "listnet", "temperature": 0.5, "tau2": 0.3, "tau3": 0.2}, same),
    "released": (RELEASED, {"released": True, "epsilon": 1e-7}),
}


def teachers_cosines(kind: str, count: int = N) -> Tensor:
    """Where the student's vectors are alike, the teachers' are not, so that no ties decide."""
    own = vectors("random" if kind in HARD else kind, count, WIDTH, seed=7)
    return cosine(own, own)


def loss_of(**hyper: Any) -> Callable[[Tensor], Callable[[Sequence[Tensor]], Tensor]]:
    def given(taught: Tensor) -> Callable[[Sequence[Tensor]], Tensor]:
        method = RankCSE(RankCSE.Hyper(**hyper), Shape(WIDTH, 4))
        method.teachers_cosines = taught

        def loss(leaves: Sequence[Tensor]) -> Tensor:
            return method.loss(Views(leaves, lambda layer: ()), STEP)

        return loss

    return given


def difference(name: str, kind: str, dtype: torch.dtype) -> float:
    hyper, wanted = CASES[name]
    taught = teachers_cosines(kind)
    both = vectors(kind, 2 * N, WIDTH).chunk(2)
    return disagreement(
        loss_of(**hyper)(taught),
        lambda leaves: oracle.loss(*leaves, taught, **wanted),
        both,
        dtype,
        floor=1e-3,
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_equals_the_oracle(name: str, dtype: torch.dtype) -> None:
    assert difference(name, "random", dtype) < TOLERANCE[dtype]


@pytest.mark.parametrize("kind", HARD)
def test_equals_the_oracle_on_hard_vectors(kind: str) -> None:
    assert difference("listmle", kind, torch.float64) < 1e-6


Change = Callable[..., Tensor]


def _of(name: str, change: Change) -> Callable[[Patch], None]:
    plain = getattr(rankcse, name)
    return lambda patch: patch.setattr(rankcse, name, lambda *given: change(plain, *given))


def _alike(plain: Change, found: Tensor, wanted: Tensor) -> Tensor:
    return -(wanted.softmax(1) * found.log_softmax(1)).sum(1).mean()


MUTATIONS: dict[str, tuple[str, Callable[[Patch], None]]] = {
    "order reversed": ("listmle", _of("list_mle", lambda plain, a, b, e: plain(a, -b, e))),
    "order of the student": ("listmle", _of("list_mle", lambda plain, a, b, e: plain(a, a, e))),
    "columns ranked": ("listmle", _of("list_mle", lambda plain, a, b, e: plain(a.T, b.T, e))),
    "mean over ranks": ("listmle", _of("list_mle", lambda plain, a, b, e: plain(a, b, e) / N)),
    "temperature of the student twice": (
        "weights", _of("list_mle", lambda plain, a, b, e: plain(a * 0.1 / 0.05, b, e))),
    "no epsilon": ("released", _of("list_mle", lambda plain, a, b, e: plain(a, b, 0.0))),
    "the diagonal ranked too": ("listnet", _of("list_net", _alike)),
    "teacher and student exchanged": ("warm", _of("list_net", lambda plain, a, b: plain(b, a))),
    "one side of the divergence": (
        "listmle", _of("divergence", lambda plain, a, b: plain(a, b.detach()))),
    "divergence of a row from itself": (
        "listmle", _of("divergence", lambda plain, a, b: plain(a, a))),
    "entropy with its sign": (
        "released", _of("negative_entropy", lambda plain, a, b: -plain(a, b))),
    "the intended divergence in the released form": (
        "released", _of("negative_entropy", lambda plain, a, b: divergence(a, b))),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: Patch) -> None:
    case, mutate = MUTATIONS[name]
    mutate(monkeypatch)
    assert difference(case, "random", torch.float64) > 1e-6


def test_divergence_is_0_for_equal_rows_and_at_most_log_2() -> None:
    rows = vectors("random", 6, 5).chunk(2)
    first, second = (10 * one.log_softmax(1) for one in rows)
    first, second = first.log_softmax(1), second.log_softmax(1)
    assert divergence(first, first).item() == pytest.approx(0, abs=1e-15)
    assert divergence(first, second).item() == pytest.approx(divergence(second, first).item())
    apart = torch.eye(2, dtype=torch.float64).mul(100).log_softmax(1)
    assert divergence(apart, apart.flip(1)).item() == pytest.approx(math.log(2))


def test_listmle_owes_nothing_to_the_order_of_the_batch() -> None:
    found, wanted = vectors("random", 2 * N, N).chunk(2)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(list_mle(found[:, order], wanted[:, order]), list_mle(found, wanted))


def test_listmles_first_factor_is_infonce() -> None:
    """The teachers rank the own sentence first; the rest ranks the n - 1 others."""
    first, second = vectors("random", 2 * N, WIDTH).chunk(2)
    found, wanted = cosine(first, second) / 0.05, teachers_cosines("random")
    rest = torch.stack([
        list_mle(row[others].unsqueeze(0), own[others].unsqueeze(0))
        for row, own, others in zip(found, wanted, ~torch.eye(N, dtype=torch.bool), strict=True)
    ]).mean()  # fmt: skip
    torch.testing.assert_close(list_mle(found, wanted) - rest, info_nce(first, second, 0.05))


def test_listnet_is_least_where_both_differ_by_a_constant_per_row() -> None:
    wanted = teachers_cosines("random") / 0.025
    found = (wanted + torch.arange(N).unsqueeze(1)).requires_grad_()
    (slope,) = torch.autograd.grad(list_net(found, wanted), found)
    assert slope.abs().max() < 1e-15


@pytest.mark.parametrize("ranking", ["listmle", "listnet"])
def test_a_batch_of_one_costs_nothing(ranking: str) -> None:
    leaves = [one.requires_grad_() for one in vectors("random", 2, WIDTH).chunk(2)]
    loss = loss_of(ranking=ranking)(torch.ones(1, 1).double())(leaves)
    assert loss.item() == pytest.approx(0, abs=1e-15)
    assert all(one.abs().max() < 1e-12 for one in torch.autograd.grad(loss, leaves))


# The teachers


def context_of(*teachers: Tensor) -> tuple[FakeContext, list[Table]]:
    context = FakeContext(torch.zeros(N, WIDTH))
    context.tokenizer = SimpleNamespace(get_vocab=lambda: {"a": 0})
    tables = [Table(one) for one in teachers]

    def load_encoder(model: str, pooler: str) -> Any:
        assert pooler == "cls_before_pooler"
        return SimpleNamespace(model=tables[int(model)], tokenizer=context.tokenizer)

    context.load_encoder = load_encoder
    return context, tables


def prepared(context: FakeContext, **hyper: Any) -> RankCSE:
    given = {"teacher": "0", "teacher_2": "1", **hyper}
    method = RankCSE(RankCSE.Hyper(**given), Shape(WIDTH, 12))
    method.prepare(context)
    return method.train()


def test_two_teachers_are_averaged_and_not_trained() -> None:
    both = vectors("random", 2 * N, WIDTH).chunk(2)
    context, tables = context_of(*both)
    method = prepared(context, alpha=0.3)
    assert method.extras(context.tokens(), STEP) == ()
    torch.testing.assert_close(method.teachers_cosines, oracle.taught(both, (0.3, 0.7)))
    assert not method.teachers_cosines.requires_grad
    assert not any(table.training or table.vectors.requires_grad for table in tables)


def test_one_teacher_has_the_whole_say() -> None:
    own = vectors("random", N, WIDTH)
    context, _ = context_of(own)
    method = prepared(context, teacher_2=None, alpha=0.3)
    method.extras(context.tokens(), STEP)
    torch.testing.assert_close(method.teachers_cosines, oracle.taught([own], [1.0]))


def test_a_small_backbone_is_its_own_teacher_with_the_mean_over_tokens(runs: Runs) -> None:
    method, context, _ = runs.start("rankcse")
    rows = [3, 6, 17, 30]
    method.extras([context.tokens()[row] for row in rows], STEP)
    own = context.encoder("avg").encode([context.sentences()[row] for row in rows])
    wanted = torch.from_numpy(own)
    torch.testing.assert_close(
        method.teachers_cosines, cosine(wanted, wanted), rtol=1e-4, atol=1e-5
    )


def test_without_ranking_no_teacher_is_loaded() -> None:
    context, _ = context_of()
    method = prepared(context, gamma=0.0)
    assert method.extras(context.tokens(), STEP) == ()
    assert len(method.teachers) == 0
    assert method.teachers_cosines is None


def test_a_teacher_of_another_vocabulary_is_refused() -> None:
    context, _ = context_of(torch.zeros(N, WIDTH))
    load, other = context.load_encoder, SimpleNamespace(get_vocab=lambda: {"b": 0})
    context.load_encoder = lambda *given: SimpleNamespace(model=load(*given).model, tokenizer=other)
    with pytest.raises(Refusal, match="'0' has another vocabulary"):
        prepared(context)


# What the tests of all methods need to know of this one (`outside.of_methods`).

PRINCETON = "princeton-nlp/unsup-simcse-"
VALUES: list[tuple[str, str, dict[str, Any]]] = [
    *(("rankcse", name,
       {"teacher": PRINCETON + name, "teacher_2": PRINCETON + second, "setting": "paper",
        "batch_size": 128, "learning_rate": 3e-5})
      for name, second in ((BERT, LARGE), (ROBERTA, ROBERTA_LARGE))),
    ("rankcse", "toy-bert", {"teacher": "backbone", "teacher_2": None, "teacher_pooler": "avg"}),
]  # fmt: skip
OUT_OF_LIMITS = {
    "rankcse": (
        "alpha=1.1 beta=-1 gamma=-1 tau2=0 tau3=0 rank_epsilon=-1 ranking=pairs "
        "consistency=kl teacher_pooler=cls"
    ),
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "teacher": ("gamma=0", "backbone", "toy-bert"),
    "teacher_2": ("gamma=0", None, "backbone"),
    "teacher_pooler": ("gamma=0", "avg", "cls_before_pooler"),
    "alpha": ("teacher=backbone,teacher_2=none", 0.33, 0.9),
    "ranking": ("gamma=0", "listmle", "listnet"),
    "tau2": ("gamma=0", 0.05, 1.0),
    "tau3": ("ranking=listmle", 0.025, 1.0),
    "rank_epsilon": ("ranking=listnet", 0.0, 1e-2),
    "consistency": ("beta=0", "divergence", "entropy"),
}
