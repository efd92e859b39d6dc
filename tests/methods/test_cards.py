"""CARDS: its loss, the switched words, and the retrieved sentences, never one's own."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from bench.training.context import RunContext
from bench.training.loop import train
from bench.utils.errors import UserError
from methods.base import Contrastive, Negatives, Shape, Step, Views, compose
from methods.cards import CARDS
from methods.is_cse import ISCSE
from methods.simcse import SimCSE
from tests.methods import outside
from tests.methods.cases import (
    DTYPES,
    WIDTH,
    Gradients,
    batch,
    floor_of,
    gradients,
    tolerance,
    unit_of,
)
from tests.methods.outside import ROBERTA, ROBERTA_LARGE, Patch, Train, run_of
from tests.oracles import cards as oracle
from tests.oracles.cards import BATCHES, DISTINCT, SEED, SENTENCES
from tests.oracles.methods import named_generator
from tests.oracles.mutations import Mutation, around, each_group, hyper, other, pairs
from tests.training.test_loop import log_of

DEPTH, TOTAL = 4, 6
# A corpus whose tokens are its row numbers, and a backbone that looks vectors up


class Tools:
    """The context; `leaves` are vectors of first and second views and of retrieved sentences."""

    device = "cpu"
    tokenizer = SimpleNamespace(decode=lambda row, skip_special_tokens: SENTENCES[row[0]])

    def __init__(self) -> None:
        self.leaves: Sequence[Tensor] = ()
        self.extras: list[list[int]] = []

    def sentences(self) -> list[str]:
        return SENTENCES

    def tokens(self) -> list[list[int]]:
        return [[row] for row in range(len(SENTENCES))]

    def encoder(self, pooler: str) -> str:
        return pooler

    def encode_tokens(self, encoder: str, tokens: Sequence[Sequence[int]]) -> np.ndarray:
        assert encoder == "avg"
        return np.array([oracle.vector(SENTENCES[row]) for (row,) in tokens], dtype=np.float32)

    def neighbours(self, vectors: np.ndarray, count: int) -> np.ndarray:
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = np.round(unit.astype(np.float64) @ unit.T.astype(np.float64), 6)
        np.fill_diagonal(cosines, -2)
        return np.argsort(-cosines, axis=1, kind="stable")[:, :count]

    def embed(self, views: Any, extras: Any) -> Views:
        self.extras = [[token for (token,) in row] for row in extras["cards"]]
        first, second, other = self.leaves
        others = {"cards": [other] * len(extras["cards"])}
        return Views((first, second), lambda layer: (first, second), others)


def build(
    count: int = 3, t: float = 0.05, *others: tuple[type, dict[str, Any]]
) -> tuple[Any, Tools]:
    hyper = CARDS.Hyper(temperature=t, switch=0.0, neighbours=count)
    method = compose(
        [(CARDS, hyper), *((cls, cls.Hyper(**keys)) for cls, keys in others)], Shape(WIDTH, DEPTH)
    )
    tools = Tools()
    method.begin(tools)
    return method, tools


def leaves_of(kind: str, index: int, dtype: torch.dtype) -> list[Tensor]:
    n = len(BATCHES[index])
    first, second = batch(kind, index, n).views
    third = batch(kind, index + 50, n).views[0]
    if kind in ("near-duplicates", "duplicates"):  # of the anchors too
        third = first.roll(1, 0) + 1e-5 * third
    return [leaf.to(dtype, copy=True).requires_grad_() for leaf in (first, second, third)]


def loss_of(method: Any, tools: Tools, leaves: Sequence[Tensor], index: int) -> Tensor:
    tools.leaves = leaves
    return method.step_loss(tools, Step(index, TOTAL, 5, SEED, BATCHES[index]))


def take(method: Any, tools: Tools, leaves: Sequence[Tensor], index: int) -> Gradients:
    return gradients(loss_of(method, tools, leaves, index), leaves)


def disagreement(
    kind: str,
    dtype: torch.dtype,
    count: int = 3,
    t: float = 0.05,
    spoil: Callable[[Any], None] = lambda method: None,
) -> float:
    """The largest difference of loss or gradient over all batches."""
    method, tools = build(count, t)
    spoil(method)
    return max(
        outside.disagreement(
            lambda leaves, index=index: loss_of(method, tools, leaves, index),
            lambda leaves, index=index: oracle.loss(leaves, BATCHES[index], index, count, t),
            leaves_of(kind, index, torch.float64),
            dtype,
            floor_of(dtype, t),
            unit_of(t),
        )
        for index in range(len(BATCHES))
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("count", "t"), [(3, 0.05), (1, 0.05), (6, 1.0), (3, 0.001), (0, 0.05)])
@pytest.mark.parametrize(
    "kind", ["random", "close", "near-duplicates", "opposites", "mixed-norms", "tiny", "huge"]
)
def test_equals_oracle(kind: str, count: int, t: float, dtype: torch.dtype) -> None:
    assert disagreement(kind, dtype, count, t) < tolerance(kind, dtype)


def test_the_batches_meet_every_case() -> None:
    """Own sentences are drawn by themselves and through their copies, and by other anchors."""
    masked = []
    for index, rows in enumerate(BATCHES):
        drawn = oracle.retrieved(rows, index, 3)
        places = itertools.product(range(len(rows)), repeat=2)
        masked += [(i, j) for i, j in places if SENTENCES[rows[i]] == drawn[j]]
    assert len(masked) >= 5
    assert all(i != j for i, j in masked)  # nobody's neighbour is itself


# Mistakes


def group(**changes: Callable[[Any], Any]) -> Mutation:
    def change(group: Negatives, anchors: Tensor) -> Negatives:
        return replace(group, **{key: value(group) for key, value in changes.items()})

    return each_group(change)


def by_row(plain: Any, self: Any, anchors: Tensor, views: Views, step: Step) -> Any:
    (group,) = plain(self, anchors, views, step)
    other = torch.tensor(step.rows).unsqueeze(1) != torch.tensor(self._retrieved(step))
    return [replace(group, weights=other.to(anchors))]


def drawn_at(**changes: Callable[[Step], int]) -> Mutation:
    def retrieved(plain: Any, self: Any, step: Step) -> Any:
        return plain(self, replace(step, **{key: value(step) for key, value in changes.items()}))

    return around("_retrieved", retrieved)


def table(change: Callable[[np.ndarray], np.ndarray]) -> Mutation:
    return lambda method, patch: setattr(method, "_nearest", change(method._nearest))


MUTATIONS: dict[str, Mutation] = {
    "no mask": group(weights=lambda group: None),
    "mask turned round": group(weights=lambda group: group.weights.T.contiguous()),
    "mask inverted": group(weights=lambda group: 1 - group.weights),
    "mask halves": group(weights=lambda group: (1 + group.weights) / 2),
    "mask of the row in place of the sentence": around("negatives", by_row),
    "the own anchor's only": group(
        vectors=lambda group: group.vectors.unsqueeze(1), weights=lambda group: None
    ),
    "weight 2": group(weight=lambda group: 2.0),
    "sign": group(vectors=lambda group: -group.vectors),
    "detached": group(vectors=lambda group: group.vectors.detach()),
    "another anchor's": group(vectors=lambda group: group.vectors.roll(1, 0)),
    "twice": around("negatives", lambda plain, *given: 2 * plain(*given)),
    "left out": other("negatives", lambda self, *given: []),
    "drawn at the next step": drawn_at(index=lambda step: step.index + 1),
    "drawn with another seed": drawn_at(seed=lambda step: 1),
    "views swapped": pairs(lambda first, second: (second, first)),
    "temperature": hyper(temperature=0.0500001),
    "fewer to draw from": hyper(neighbours=2),
    "table turned": table(lambda nearest: nearest[:, ::-1].copy()),
    "table one row off": table(lambda nearest: np.roll(nearest, 1, axis=0)),
    "equal sentences apart": lambda method, patch: setattr(
        method, "_numbers", [0, 1, 2, 3, 6, 4, 5, 5, 6]
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: Patch) -> None:
    spoil = partial(MUTATIONS[name], patch=monkeypatch)
    assert disagreement("random", torch.float64, spoil=spoil) > 1e-6


# What is retrieved


def test_the_retrieved_sentences_are_what_is_encoded() -> None:
    method, tools = build()
    for index, rows in enumerate(BATCHES):
        take(method, tools, leaves_of("random", index, torch.float32), index)
        ((*encoded,),) = tools.extras
        assert [SENTENCES[row] for row in encoded] == oracle.retrieved(rows, index, 3)


def test_every_neighbour_is_drawn_evenly_and_nobody_else() -> None:
    method, _ = build()
    near = oracle.neighbours(3)[DISTINCT.index("a cat")]
    steps = [Step(index, 100, 5, 1, [1, 4]) for index in range(100)]
    drawn = [DISTINCT[number] for step in steps for number in method._retrieved(step)]
    assert sorted(set(drawn)) == sorted(near)
    assert all(45 <= drawn.count(sentence) <= 90 for sentence in near)  # 200 draws of 3
    assert drawn[::2] != drawn[1::2]  # a copy draws for itself


def test_equal_sentences_are_searched_once() -> None:
    asked: list[Any] = []
    tools = Tools()
    tools.neighbours = lambda vectors, count: (
        asked.append((len(vectors), count)) or np.zeros((7, count), int)
    )  # type: ignore[method-assign]
    CARDS(CARDS.Hyper(switch=0.0, neighbours=3), Shape(WIDTH, DEPTH)).prepare(tools)  # type: ignore[arg-type]
    assert asked == [(7, 3)]


@pytest.mark.parametrize("pooler", ["avg", "cls_before_pooler"])
def test_the_search_reads_sentences_cut_as_training_reads_them(
    pooler: str, tiny_roberta: Path, tiny_corpus: Path, tiny_data: Path, tmp_path: Path
) -> None:
    """Against transformers, one sentence at a time, in float64."""
    from transformers import AutoTokenizer, RobertaModel

    text = f"cards[neighbours=5,retrieval={pooler},switch=0]"
    run = run_of(text, tiny_roberta, tiny_corpus, tiny_data, SEED, max_length=6)
    context, method = RunContext(run, tmp_path, "cpu"), run.build()
    method.prepare(context)
    tokenizer = AutoTokenizer.from_pretrained(tiny_roberta)
    model = RobertaModel.from_pretrained(tiny_roberta, add_pooling_layer=False).double().eval()
    vectors = []
    for sentence in dict.fromkeys(context.sentences()):
        pieces = tokenizer(sentence, truncation=True, max_length=6, return_tensors="pt")
        with torch.no_grad():
            states = model(**pieces).last_hidden_state[0]
        vectors.append(states.mean(0) if pooler == "avg" else states[0])
    unit = F.normalize(torch.stack(vectors), dim=1)
    cosines = (unit @ unit.T).fill_diagonal_(-2)
    found = cosines.gather(1, torch.as_tensor(method._nearest))
    torch.testing.assert_close(found, cosines.topk(5).values, rtol=0, atol=1e-6)


# Switched words


TEXTS = ["Thebes held onto power until the 12th Dynasty , when its", "1980 1951", "a", ""]
TEXTS += ["  two  Birds ", "été Über ßen"]


@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("words", ["each", "count"])
def test_words_are_switched_as_the_oracle_says(words: str, share: float) -> None:
    method = CARDS(CARDS.Hyper(switch=share, words=words), Shape(WIDTH, DEPTH))
    own, other = (named_generator(1, "switch-case", 0) for _ in range(2))
    for text in TEXTS * 3:
        assert method._switch(text, own) == oracle.switch(text, share, words == "count", other)


def test_count_switches_exactly_as_many_and_each_one_by_chance() -> None:
    text = "one two Three four 5 six seven Eight nine ten " * 4
    words = text.split()

    def switched(kind: str, share: float) -> list[int]:
        method = CARDS(CARDS.Hyper(switch=share, words=kind), Shape(WIDTH, DEPTH))
        draw = torch.Generator()
        draw.manual_seed(1)
        texts = [method._switch(text, draw).split() for _ in range(50)]
        assert all(
            [word.lower() for word in made] == [word.lower() for word in words] for made in texts
        )
        return [sum(a != b for a, b in zip(made, words, strict=True)) for made in texts]

    assert set(switched("count", 0.1)) == {4}
    assert set(switched("count", 0.001)) == {1}  # never none
    assert set(switched("each", 1.0)) == {36}  # all but the numbers
    few = switched("each", 0.05)
    assert 0 in few
    assert 1.2 < sum(few) / len(few) < 2.4  # 1.8 of 36 letters


@pytest.mark.slow
def test_the_second_view_is_the_decoded_text_switched(
    tiny_roberta: Path, tiny_corpus: Path, tiny_data: Path, tmp_path: Path
) -> None:
    text = "cards[switch=0.5,neighbours=0]"
    run = run_of(text, tiny_roberta, tiny_corpus, tiny_data, SEED, max_length=8)
    context = RunContext(run, tmp_path, "cpu")
    method = context.run.build()
    method.prepare(context)
    tokens = context.tokens()[:10]
    first, second = method.views(tokens, Step(2, TOTAL, 10, SEED, range(10)))
    assert first is tokens
    generator = named_generator(SEED, "switch-case", 2)
    texts = [
        oracle.switch(context.tokenizer.decode(row[1:-1]), 0.5, False, generator) for row in tokens
    ]
    assert list(second) == [context.tokenizer(text)["input_ids"] for text in texts]
    assert any(len(row) > 8 for row in second)  # a capital may cost a piece, and nothing is cut
    assert max(map(len, tokens)) == 8
    again = method.views(tokens, Step(3, TOTAL, 10, SEED, range(10)))[1]
    assert list(again) != list(second)


# Limits, state, refusals


@pytest.mark.parametrize("dtype", DTYPES)
def test_switched_off_it_is_simcse_bit_for_bit(dtype: torch.dtype) -> None:
    plain = compose([(SimCSE, SimCSE.Hyper())], Shape(WIDTH, DEPTH))
    method, tools = build(count=0)
    for kind in ("random", "near-duplicates", "mixed-norms"):
        for index in range(len(BATCHES)):
            leaves = leaves_of(kind, index, dtype)
            loss, found = take(method, tools, leaves, index)
            views = Views(leaves[:2], lambda layer: [])
            at = Step(index, TOTAL, 5, SEED, BATCHES[index])
            expected, wanted = gradients(plain.loss(views, at), leaves)  # type: ignore[operator]
            assert torch.equal(loss, expected)
            assert all(map(torch.equal, found, wanted))


def test_nothing_of_it_is_state_and_a_loaded_copy_goes_on() -> None:
    smoothing = (ISCSE, {"buffer": 10, "neighbours": 3})
    (method, tools), (copy, copy_tools) = build(3, 0.05, smoothing), build(3, 0.05, smoothing)
    assert not build()[0].state_dict()
    for index in range(4):
        take(method, tools, leaves_of("random", index, torch.float32), index)
    copy.load_state_dict(method.state_dict())
    leaves, pairs = leaves_of("random", 4, torch.float32), ((method, tools), (copy, copy_tools))
    one, other = (take(*pair, leaves, 4)[0] for pair in pairs)
    assert torch.equal(one, other)
    assert one != take(*build(3), leaves_of("random", 4, torch.float32), 4)[0]


def test_after_a_plus_it_brings_the_retrieved_negatives_alone() -> None:
    """In `simcse+cards` views are equal copies, and the loss is that of CARDS without switching."""
    method, tools = build()
    parts = [(SimCSE, SimCSE.Hyper()), (CARDS, CARDS.Hyper(switch=0.9, neighbours=3))]
    joined = compose(parts, Shape(WIDTH, DEPTH))
    joined.begin(tools)  # type: ignore[arg-type]
    assert joined.views([[1]], Step(0, 1, 1, 1, [1])) == ([[1]], [[1]])  # type: ignore[operator]
    for index in range(len(BATCHES)):
        leaves = leaves_of("random", index, torch.float64)
        ours, theirs = (take(one, tools, leaves, index) for one in (method, joined))
        assert torch.equal(ours[0], theirs[0])


@pytest.mark.parametrize("name", ["bert-base-uncased", "bert-large-uncased", "toy-bert"])
def test_switching_is_skipped_where_the_tokenizer_knows_no_capitals(
    name: str, tiny_bert: Path
) -> None:
    for backbone in (name, str(tiny_bert)):
        assert "knows no capitals" in (run_of("cards", backbone).skip or "")
        assert run_of("cards[switch=0]", backbone).skip is None


@pytest.mark.parametrize(
    "text", ["cards", "cards+is-cse", "cards[switch=0.2]+gs-infonce", "simcse+cards"]
)
def test_it_runs_where_the_tokenizer_knows_capitals(text: str, tiny_roberta: Path) -> None:
    for name in ("roberta-base", "toy-roberta", str(tiny_roberta)):
        assert run_of(text, name).skip is None


# Whole trainings


def test_switched_off_it_trains_as_simcse_bit_for_bit(train_tiny: Train) -> None:
    assert log_of(train_tiny("cards[neighbours=0,switch=0]")) == log_of(train_tiny("simcse"))


def test_a_training_with_switched_words(
    tiny_roberta: Path, tiny_corpus: Path, tiny_data: Path, tmp_path: Path
) -> None:
    recipe = {"batch_size": 8, "learning_rate": 1e-3, "select_every": 2}
    logs = []
    for number, switch in enumerate(("", "", ",switch=0")):
        text, folder = f"cards[neighbours=5{switch}]", tmp_path / str(number)
        train(run_of(text, tiny_roberta, tiny_corpus, tiny_data, **recipe), tmp_path, folder)
        logs.append(log_of(folder))
    assert logs[0] == logs[1] != logs[2]


def test_a_corpus_with_too_few_sentences_is_refused(train_tiny: Train) -> None:
    with pytest.raises(UserError, match="64 neighbours of each of"):
        train_tiny("cards[switch=0]")


def test_the_formula_is_the_one_of_all_methods() -> None:
    """The oracle would not notice an own copy of it."""
    assert CARDS.loss is Contrastive.loss
    assert CARDS.contrast is Contrastive.contrast


# What the tests of all methods need to know of this one (`outside.of_methods`).

VALUES: list[tuple[str, str, dict[str, Any]]] = [
    # 4 x 128 on one device is 512
    ("cards", ROBERTA, {"setting": "official", "batch_size": 512, "learning_rate": 4e-5,
                        "switch": 0.05, "words": "each", "neighbours": 64, "retrieval": "avg"}),
    ("cards", ROBERTA_LARGE, {"setting": "official", "batch_size": 512, "learning_rate": 7.5e-6,
                              "switch": 0.1, "words": "count", "neighbours": 8,
                              "retrieval": "cls_before_pooler"}),
]  # fmt: skip
OUT_OF_LIMITS = {
    "cards": (
        "switch=-0.1 switch=1.5 words=some neighbours=-1 retrieval=cls retrieval=mean temperature=0"
    ),
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "words": ("switch=0,neighbours=2", "each", "count"),
    "retrieval": ("switch=0,neighbours=0", "avg", "cls_before_pooler"),
}
TRAININGS: dict[str, tuple[dict[str, Any], int]] = {
    "cards[neighbours=5,switch=0]": ({}, 6),
    "cards[neighbours=5,switch=0]+is-cse[buffer=20,neighbours=3]": ({}, 6),
}
