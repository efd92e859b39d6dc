"""RankCSE: both terms against an oracle, mistakes that it must catch, and its teachers."""

from types import SimpleNamespace

import pytest
import torch

from methods.base import Refusal, Shape, Step, Views, cosine
from methods.rankcse import RankCSE
from tests.oracles import rankcse as oracle
from tests.oracles.edits import Mutation, each, edits
from tests.support.method_runs import (
    BERT,
    HARD,
    ROWS,
    TOLERANCE,
    disagreement,
    vectors,
)
from tests.support.queue_cases import FakeContext, Table

N, WIDTH = 5, 4
STEP = Step(0, 1, N, 1, range(N))
CASES = {
    "listmle": {},
    "listnet": {"ranking": "listnet"},
    "weights": {"beta": 0.3, "gamma": 0.2, "tau2": 0.1},
    "warm": {"ranking": "listnet", "temperature": 0.5, "tau2": 0.3, "tau3": 0.2},
    "released": {"consistency": "entropy", "rank_epsilon": 1e-7},
}


def difference(name, kind, dtype, n=N):
    method = RankCSE(RankCSE.Hyper(**CASES[name]), Shape(WIDTH, 4))
    # Where the student's vectors are alike, the teachers' are not, so that no ties decide.
    teacher = vectors("random", n, WIDTH, seed=7)
    method.teachers_cosines = taught = cosine(teacher, teacher)
    return disagreement(
        lambda leaves: method.loss(Views(leaves, lambda layer: ()), STEP),
        lambda leaves: oracle.loss(*leaves, taught, **CASES[name]),
        vectors(kind, 2 * n, WIDTH).chunk(2),
        dtype,
        floor=1e-3,
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_equals_the_oracle(name, dtype):
    assert difference(name, "random", dtype) < TOLERANCE[dtype]
    assert difference(name, "random", dtype, n=1) < TOLERANCE[dtype]


@pytest.mark.parametrize("kind", HARD)
def test_equals_the_oracle_on_hard_vectors(kind):
    assert difference("listmle", kind, torch.float64) < 1e-6


MUTATIONS: dict[str, Mutation] = {
    **edits("methods.rankcse:list_mle", {
        "order of the student": ("listmle", "teacher.argsort", "student.argsort"),
        "mean over ranks": ("listmle", "(remaining - logits).sum(dim=1)", "remaining - logits"),
        "no epsilon": (
            "released", "logits.exp().flip(1).cumsum(dim=1).flip(1) + epsilon",
            "logits.exp().flip(1).cumsum(dim=1).flip(1)"),
    }),
    **edits("methods.rankcse:RankCSE.terms", {
        "temperature of the student twice": ("weights", "hyper.tau2", "temperature"),
        "one side of the divergence": (
            "listmle", "agree(rows, columns)", "agree(rows, columns.detach())"),
        "the intended divergence in the released form": (
            "released", "divergence if hyper.consistency == 'divergence' else negative_entropy",
            "divergence"),
    }),
    **edits("methods.rankcse:list_net", {
        "the diagonal ranked too": (
            "listnet",
            "student = student[off_diagonal].view(count, count - 1)\n"
            "teacher = teacher[off_diagonal].view(count, count - 1)",
            "pass"),
    }),
}  # fmt: skip


@each(MUTATIONS)
def test_a_mutation_is_caught(mutation, monkeypatch):
    mutation.apply(monkeypatch)
    assert difference(mutation.case, "random", torch.float64) > 1e-6


# The teachers


def prepared(teachers, vocabulary="a", **hyper):
    """A method whose teachers, "0" and "1", are tables of vectors."""
    context, tables = FakeContext(torch.zeros(N, WIDTH)), list(map(Table, teachers))
    context.tokenizer = SimpleNamespace(get_vocab=lambda: {"a": 0})
    tokenizer = SimpleNamespace(get_vocab=lambda: {vocabulary: 0})

    def load_encoder(model, pooler):
        assert pooler == "cls_before_pooler"
        return SimpleNamespace(model=tables[int(model)], tokenizer=tokenizer)

    context.load_encoder = load_encoder
    settings = {"teacher": "0", "teacher_2": "1", "alpha": 0.3, **hyper}
    method = RankCSE(RankCSE.Hyper(**settings), Shape(WIDTH, 12))
    method.prepare(context)
    method.train().before_loss(context, context.tokens(), STEP)
    assert not any(table.training or table.vectors.requires_grad for table in tables)
    return method


def test_two_teachers_are_averaged_and_one_has_the_whole_say():
    teachers = vectors("random", 2 * N, WIDTH).chunk(2)
    averaged, alone = prepared(teachers), prepared(teachers[:1], teacher_2=None)
    torch.testing.assert_close(averaged.teachers_cosines, oracle.taught(teachers, (0.3, 0.7)))
    torch.testing.assert_close(alone.teachers_cosines, oracle.taught(teachers[:1], [1.0]))
    assert not averaged.teachers_cosines.requires_grad
    assert len(prepared([], gamma=0.0).teachers) == 0  # without ranking none is loaded


def test_a_small_backbone_is_its_own_teacher_with_the_mean_over_tokens(runs):
    method, context, _ = runs.start("rankcse")
    method.before_loss(context, [context.tokens()[row] for row in ROWS], STEP)
    vectors = context.encoder("avg").encode([context.sentences()[row] for row in ROWS])
    wanted = cosine(torch.from_numpy(vectors), torch.from_numpy(vectors))
    torch.testing.assert_close(method.teachers_cosines, wanted, rtol=1e-4, atol=1e-5)


def test_a_teacher_of_another_vocabulary_is_refused():
    with pytest.raises(Refusal, match="'0' has another vocabulary"):
        prepared([torch.zeros(N, WIDTH)], vocabulary="b")


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

VALUES = [
    ("rankcse", BERT, {"setting": "paper", "batch_size": 128, "learning_rate": 3e-5}),
    ("rankcse", "toy-bert", {"teacher": "backbone", "teacher_2": None, "teacher_pooler": "avg"}),
]
OUT_OF_LIMITS = {
    "rankcse": (
        "alpha=1.1 beta=-1 gamma=-1 tau2=0 tau3=0 rank_epsilon=-1 ranking=pairs "
        "consistency=kl teacher_pooler=cls"
    ),
}
WITHOUT_EFFECT = {
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
