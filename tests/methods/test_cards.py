"""CARDS: its loss is the oracle's, words are switched as they should, and nobody is its own
retrieved negative."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bench.datasets import sts
from bench.evaluation.scoring import score_tasks
from bench.models.load import load_encoder
from bench.runs.resolve import resolve
from bench.training.context import RunContext
from bench.training.loop import train
from bench.utils.errors import UserError
from methods.base import Contrastive, Refusal, Shape, Step, Views, compose
from methods.cards import CARDS, CARDSHyper
from methods.is_cse import ISCSE
from methods.simcse import SimCSE
from tests.methods.cases import DTYPES, batch, tolerance
from tests.oracles import methods as oracles

Train = Callable[..., Path]
WIDTH, DEPTH, TOTAL, SEED = 5, 4, 6, 3
# Row 4 repeats row 1, row 6 repeats row 0.
SENTENCES = [
    "a dog",
    "a cat",
    "the red car",
    "two birds",
    "a cat",
    "one old tree",
    "a dog",
    "water",
    "The End",
]
DISTINCT = ["a dog", "a cat", "the red car", "two birds", "one old tree", "water", "The End"]
BATCHES = ([1, 4, 0, 7], [6, 2, 0, 5], [8, 3, 1, 2], [0], [3, 1, 5, 4, 6])


# The oracle: which sentence is drawn, and the loss of all of it


def oracle_neighbours(count: int) -> list[list[str]]:
    """Nearest other sentences of each distinct one, by the vectors that the corpus stands for
    below."""
    vectors = [oracle_vector(sentence) for sentence in DISTINCT]
    found = []
    for i, u in enumerate(vectors):
        cosines = [
            sum(a * b for a, b in zip(u, v, strict=True)) / (norm(u) * norm(v)) for v in vectors
        ]
        ranked = sorted((j for j in range(len(vectors)) if j != i), key=lambda j: (-cosines[j], j))
        found.append([DISTINCT[j] for j in ranked[:count]])
    return found


def oracle_vector(sentence: str) -> list[float]:
    return [1.0 + sum(ord(letter) for letter in sentence[k::3]) % 17 for k in range(3)]


def norm(u: Sequence[float]) -> float:
    return sum(x * x for x in u) ** 0.5


def oracle_retrieved(rows: Sequence[int], index: int, count: int) -> list[str]:
    """One of its nearest for each anchor, evenly, from the stream "retrieval" of the step."""
    places = torch.randint(
        count, (len(rows),), generator=oracles.named_generator(SEED, "retrieval", index)
    )
    table = oracle_neighbours(count)
    return [
        table[DISTINCT.index(SENTENCES[row])][place]
        for row, place in zip(rows, places.tolist(), strict=True)
    ]


def oracle_loss(
    leaves: Sequence[Tensor], rows: Sequence[int], index: int, count: int, t: float
) -> Tensor:
    """InfoNCE of the views; sentence j's retrieved one joins for every i, unless it is i's own
    sentence."""
    h, p, r = (oracles.scalars(leaf) for leaf in leaves)
    extra: list[Any] = [[] for _ in rows]
    if count:
        drawn = oracle_retrieved(rows, index, count)
        for i in range(len(rows)):
            for j in range(len(rows)):
                if SENTENCES[rows[i]] != drawn[j]:
                    extra[i].append((1.0, r[j]))
    return oracles.infonce(h, p, t, extra)


# A corpus whose tokens are its row numbers, and a backbone that looks vectors up


class Tools:
    """What CARDS asks of its context; `leaves` are the vectors of first views, second views and
    retrieved sentences."""

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

    def encode(self, encoder: str, sentences: Sequence[str]) -> np.ndarray:
        assert encoder == "avg"
        return np.array([oracle_vector(sentence) for sentence in sentences], dtype=np.float32)

    def neighbours(self, vectors: np.ndarray, count: int) -> np.ndarray:
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = np.round(unit.astype(np.float64) @ unit.T.astype(np.float64), 6)
        np.fill_diagonal(cosines, -2)
        return np.argsort(-cosines, axis=1, kind="stable")[:, :count]

    def embed(self, views: Any, extras: Any) -> Views:
        self.extras = [[token for (token,) in row] for row in extras["cards"]]
        first, second, other = self.leaves
        return Views(
            (first, second),
            lambda layer: (first, second),
            {"cards": [other] * len(extras["cards"])},
        )


def build(
    count: int = 3, t: float = 0.05, *others: tuple[type, dict[str, Any]]
) -> tuple[Any, Tools]:
    hyper = CARDSHyper(temperature=t, switch=0.0, neighbours=count)
    method = compose(
        [(CARDS, hyper), *((cls, cls.Hyper(**keys)) for cls, keys in others)], Shape(WIDTH, DEPTH)
    )
    tools = Tools()
    method.prepare(tools)
    return method, tools


def leaves_of(kind: str, index: int, dtype: torch.dtype) -> list[Tensor]:
    n = len(BATCHES[index])
    first, second = batch(kind, index, n).views
    third = batch(kind, index + 50, n).views[0]
    if kind in ("near-duplicates", "duplicates"):  # of the anchors too
        third = first.roll(1, 0) + 1e-5 * third
    return [leaf.to(dtype, copy=True).requires_grad_() for leaf in (first, second, third)]


def take(
    method: Any, tools: Tools, leaves: Sequence[Tensor], index: int
) -> tuple[Tensor, list[Tensor]]:
    tools.leaves = leaves
    loss = method.step_loss(tools, Step(index, TOTAL, 5, SEED, BATCHES[index]))
    assert loss.dtype == leaves[0].dtype
    grads = (
        torch.autograd.grad(loss, leaves, allow_unused=True) if loss.requires_grad else [None] * 3
    )
    return loss.detach(), [
        torch.zeros_like(leaf) if grad is None else grad
        for grad, leaf in zip(grads, leaves, strict=True)
    ]


def disagreement(
    kind: str,
    dtype: torch.dtype,
    count: int = 3,
    t: float = 0.05,
    spoil: Callable[[Any], None] | None = None,
) -> float:
    """The largest difference of loss or gradient over all batches, as `cases.disagreement` measures
    it."""
    method, tools = build(count, t)
    if spoil:
        spoil(method)
    floor = {torch.float64: 1e-3, torch.float32: 0.0025 / t}[dtype]
    worst = 0.0
    for index, rows in enumerate(BATCHES):
        exact = leaves_of(kind, index, torch.float64)
        expected = oracle_loss(exact, rows, index, count, t)
        found = torch.autograd.grad(expected, exact, allow_unused=True)
        loss, gradients = take(method, tools, leaves_of(kind, index, dtype), index)
        worst = max(worst, abs(loss.item() - expected.item()) / max(abs(expected.item()), floor))
        for leaf, wanted, own in zip(exact, found, gradients, strict=True):
            wanted = torch.zeros_like(leaf) if wanted is None else wanted
            unit = t * len(leaf) * leaf.detach().norm(dim=1, keepdim=True)
            difference = ((own.double() - wanted) * unit).abs().max().item()
            worst = max(worst, difference / max((wanted * unit).abs().max().item(), floor))
    return worst


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
        drawn = oracle_retrieved(rows, index, 3)
        masked += [
            (i, j)
            for i in range(len(rows))
            for j in range(len(rows))
            if SENTENCES[rows[i]] == drawn[j]
        ]
    assert len(masked) >= 5
    assert all(i != j for i, j in masked)  # nobody's neighbour is itself


# Mistakes


def mutate(name: str, change: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
    """Wrap a method of CARDS: `change` gets the object and the plain result's function."""

    def spoil(method: Any) -> None:
        plain = getattr(method, name)
        object.__setattr__(method, name, lambda *given: change(plain, given))

    return spoil


def _group(**changes: Any) -> Callable[[Any, Any], Any]:
    def change(plain: Any, given: Any) -> Any:
        (group,) = plain(*given)
        return [replace(group, **{key: value(group) for key, value in changes.items()})]

    return change


def _numbers_by_row(method: Any) -> None:
    plain = method.negatives

    def negatives(anchors: Tensor, views: Views, step: Step) -> Any:
        (group,) = plain(anchors, views, step)
        rows = torch.tensor(step.rows).unsqueeze(1)
        return [replace(group, weights=(rows != torch.tensor(method._retrieved(step))).to(anchors))]

    object.__setattr__(method, "negatives", negatives)


MUTATIONS: dict[str, Callable[[Any], None]] = {
    "no mask": mutate("negatives", _group(weights=lambda group: None)),
    "mask turned round": mutate(
        "negatives", _group(weights=lambda group: group.weights.T.contiguous())
    ),
    "mask inverted": mutate("negatives", _group(weights=lambda group: 1 - group.weights)),
    "mask halves": mutate("negatives", _group(weights=lambda group: (1 + group.weights) / 2)),
    "mask of the row in place of the sentence": _numbers_by_row,
    "the own anchor's only": mutate(
        "negatives",
        _group(
            vectors=lambda group: group.vectors.unsqueeze(1),
            weights=lambda group: None,
        ),
    ),
    "weight 2": mutate("negatives", _group(weight=lambda group: 2.0)),
    "sign": mutate("negatives", _group(vectors=lambda group: -group.vectors)),
    "detached": mutate("negatives", _group(vectors=lambda group: group.vectors.detach())),
    "another anchor's": mutate("negatives", _group(vectors=lambda group: group.vectors.roll(1, 0))),
    "twice": mutate("negatives", lambda plain, given: _group()(plain, given) * 2),
    "left out": mutate("negatives", lambda plain, given: []),
    "drawn at the next step": mutate(
        "_retrieved", lambda plain, given: plain(replace(given[0], index=given[0].index + 1))
    ),
    "drawn with another seed": mutate(
        "_retrieved", lambda plain, given: plain(replace(given[0], seed=1))
    ),
    "views swapped": mutate("pairs", lambda plain, given: plain(*given)[::-1]),
    "temperature": lambda method: setattr(
        method, "hyper", replace(method.hyper, temperature=0.0500001)
    ),
    "fewer to draw from": lambda method: setattr(
        method, "hyper", replace(method.hyper, neighbours=2)
    ),
    "table turned": lambda method: setattr(method, "_nearest", method._nearest[:, ::-1].copy()),
    "table one row off": lambda method: setattr(
        method, "_nearest", np.roll(method._nearest, 1, axis=0)
    ),
    "equal sentences apart": lambda method: setattr(
        method, "_numbers", [0, 1, 2, 3, 6, 4, 5, 5, 6]
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str) -> None:
    assert disagreement("random", torch.float64, spoil=MUTATIONS[name]) > 1e-6


# What is retrieved


def test_the_retrieved_sentences_are_what_is_encoded() -> None:
    method, tools = build()
    for index, rows in enumerate(BATCHES):
        take(method, tools, leaves_of("random", index, torch.float32), index)
        ((*encoded,),) = tools.extras
        assert [SENTENCES[row] for row in encoded] == oracle_retrieved(rows, index, 3)


def test_every_neighbour_is_drawn_evenly_and_nobody_else() -> None:
    method, _ = build()
    near = oracle_neighbours(3)[DISTINCT.index("a cat")]
    drawn = [
        DISTINCT[number]
        for step in range(100)
        for number in method._retrieved(Step(step, 100, 5, 1, [1, 4]))
    ]
    assert sorted(set(drawn)) == sorted(near)
    assert all(45 <= drawn.count(sentence) <= 90 for sentence in near)  # 200 draws of 3
    assert drawn[::2] != drawn[1::2]  # a copy draws for itself


def test_equal_sentences_are_searched_once() -> None:
    asked: list[Any] = []
    tools = Tools()
    tools.neighbours = lambda vectors, count: (
        asked.append((len(vectors), count)) or np.zeros((7, count), int)
    )  # type: ignore[method-assign]
    CARDS(CARDSHyper(switch=0.0, neighbours=3), Shape(WIDTH, DEPTH)).prepare(tools)  # type: ignore[arg-type]
    assert asked == [(7, 3)]


# Switched words


def oracle_switch(text: str, share: float, counted: bool, generator: torch.Generator) -> str:
    """Words are what stands between spaces; the case of a first letter is turned, anything else
    stays."""
    words = [word for word in text.split(" ") if word != ""]
    if counted:
        left = max(1, round(share * len(words)))
        for place in torch.randperm(len(words), generator=generator).tolist():
            if left > 0 and words[place][0].isalpha():
                words[place] = turned(words[place])
                left -= 1
    else:
        for place, chance in enumerate(torch.rand(len(words), generator=generator).tolist()):
            if chance < share and words[place][0].isalpha():
                words[place] = turned(words[place])
    return " ".join(words)


def turned(word: str) -> str:
    return (word[0].upper() if word[0].islower() else word[0].lower()) + word[1:]


TEXTS = [
    "Thebes held onto power until the 12th Dynasty , when its",
    "1980 1951",
    "a",
    "",
    "  two  Birds ",
    "été Über ßen",
]


@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("words", ["each", "count"])
def test_words_are_switched_as_the_oracle_says(words: str, share: float) -> None:
    method = CARDS(CARDSHyper(switch=share, words=words), Shape(WIDTH, DEPTH))
    own, other = (oracles.named_generator(1, "switch-case", 0) for _ in range(2))
    for text in TEXTS * 3:
        assert method._switch(text, own) == oracle_switch(text, share, words == "count", other)


def test_count_switches_exactly_as_many_and_each_one_by_chance() -> None:
    text = "one two Three four 5 six seven Eight nine ten " * 4
    words = text.split()

    def switched(kind: str, share: float) -> list[int]:
        method, draw = (
            CARDS(CARDSHyper(switch=share, words=kind), Shape(WIDTH, DEPTH)),
            torch.Generator(),
        )
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


def context_of(
    backbone: Path, corpus: Path, data: Path, folder: Path, text: str, **recipe: Any
) -> RunContext:
    run = resolve(
        text,
        backbone_name=str(backbone),
        corpus=str(corpus),
        data=str(data),
        seed=SEED,
        recipe=recipe,
    )
    return RunContext(run, folder, "cpu")


@pytest.mark.slow
def test_the_second_view_is_the_decoded_text_switched(
    tiny_roberta: Path, tiny_corpus: Path, tiny_data: Path, tmp_path: Path
) -> None:
    context = context_of(
        tiny_roberta,
        tiny_corpus,
        tiny_data,
        tmp_path,
        "cards[switch=0.5,neighbours=0]",
        max_length=8,
    )
    method = context.run.build()
    method.prepare(context)
    tokens = context.tokens()[:10]
    first, second = method.views(tokens, Step(2, TOTAL, 10, SEED, range(10)))
    assert first is tokens
    generator = oracles.named_generator(SEED, "switch-case", 2)
    texts = [
        oracle_switch(context.tokenizer.decode(row[1:-1]), 0.5, False, generator) for row in tokens
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
            loss, gradients = take(method, tools, leaves_of(kind, index, dtype), index)
            leaves = leaves_of(kind, index, dtype)
            tools.leaves = leaves
            views = Views(leaves[:2], lambda layer: [])
            expected = plain.loss(views, Step(index, TOTAL, 5, SEED, BATCHES[index]))  # type: ignore[operator]
            assert torch.equal(loss, expected)
            wanted = (
                torch.autograd.grad(expected, leaves[:2])
                if expected.requires_grad
                else gradients[:2]
            )
            assert all(torch.equal(a, b) for a, b in zip(gradients, wanted, strict=False))


def test_nothing_of_it_is_state_and_a_loaded_copy_goes_on() -> None:
    smoothing = (ISCSE, {"buffer": 10, "neighbours": 3})
    (method, tools), (copy, copy_tools) = build(3, 0.05, smoothing), build(3, 0.05, smoothing)
    assert not build()[0].state_dict()
    for index in range(4):
        take(method, tools, leaves_of("random", index, torch.float32), index)
    copy.load_state_dict(method.state_dict())
    one, other = (
        take(*pair, leaves_of("random", 4, torch.float32), 4)[0]
        for pair in ((method, tools), (copy, copy_tools))
    )
    assert torch.equal(one, other)
    assert one != take(*build(3), leaves_of("random", 4, torch.float32), 4)[0]


def test_after_a_plus_it_brings_the_retrieved_negatives_alone() -> None:
    """In `simcse+cards` views are equal copies, and the loss is that of CARDS without switching."""
    method, tools = build()
    joined = compose(
        [(SimCSE, SimCSE.Hyper()), (CARDS, CARDSHyper(switch=0.9, neighbours=3))],
        Shape(WIDTH, DEPTH),
    )
    joined.prepare(tools)  # type: ignore[arg-type]
    assert joined.views([[1]], Step(0, 1, 1, 1, [1])) == ([[1]], [[1]])  # type: ignore[operator]
    for index in range(len(BATCHES)):
        ours, theirs = (
            take(one, tools, leaves_of("random", index, torch.float64), index)
            for one in (method, joined)
        )
        assert torch.equal(ours[0], theirs[0])


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("switch=-0.1", "needs 0 <= switch <= 1, not -0.1"),
        ("switch=1.5", "needs 0 <= switch <= 1, not 1.5"),
        ("words=some", "is one of each, count, not 'some'"),
        ("neighbours=-1", "needs neighbours >= 0, not -1"),
        ("retrieval=cls", "is one of cls_before_pooler, avg,"),
        ("retrieval=mean", "not 'mean'"),
        ("temperature=0", "needs temperature > 0"),
    ],
)
def test_bad_hyper_parameters_are_refused(keys: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        resolve(
            f"cards[{keys}]", backbone_name="roberta-base", corpus="world", data="world", seed=1
        )
    key, _, value = keys.partition("=")
    hyper = replace(CARDSHyper(), **{key: value if value.isalpha() else float(value)})
    with pytest.raises(Refusal):
        CARDS.check(hyper)


def test_values_of_each_backbone() -> None:
    """docs/methods.md#cards; 4 x 128 on one device is 512."""

    def values(name: str) -> tuple[Any, ...]:
        run = resolve("cards", backbone_name=name, corpus="wiki1m", data="senteval", seed=1)
        hyper = run.parts[0][2]
        kinds = tuple(hyper[key] for key in ("switch", "words", "neighbours", "retrieval"))
        return (run.setting, run.recipe.batch_size, run.recipe.learning_rate, *kinds)

    assert values("roberta-base") == ("official", 512, 4e-5, 0.05, "each", 64, "avg")
    assert values("roberta-large") == (
        "official",
        512,
        7.5e-6,
        0.1,
        "count",
        8,
        "cls_before_pooler",
    )


@pytest.mark.parametrize("name", ["bert-base-uncased", "bert-large-uncased", "toy-bert"])
def test_switching_is_skipped_where_the_tokenizer_knows_no_capitals(
    name: str, tiny_bert: Path
) -> None:
    for backbone in (name, str(tiny_bert)):
        keys = {"backbone_name": backbone, "corpus": "world", "data": "world", "seed": 1}
        assert "knows no capitals" in (resolve("cards", **keys).skip or "")  # type: ignore[arg-type]
        assert resolve("cards[switch=0]", **keys).skip is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["cards", "cards+is-cse", "cards[switch=0.2]+gs-infonce", "simcse+cards"]
)
def test_it_runs_where_the_tokenizer_knows_capitals(text: str, tiny_roberta: Path) -> None:
    for name in ("roberta-base", "toy-roberta", str(tiny_roberta)):
        assert resolve(text, backbone_name=name, corpus="world", data="world", seed=1).skip is None


# Whole trainings


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    "text",
    ["cards[neighbours=5,switch=0]", "cards[neighbours=5,switch=0]+is-cse[buffer=20,neighbours=3]"],
)
def test_a_training_ends_and_is_scored_as_its_log_says(
    text: str, train_tiny: Train, tiny_data: Path
) -> None:
    folder, again = train_tiny(text, fresh=True), train_tiny(text, fresh=True)
    assert log_of(folder) == log_of(again)
    outcome = json.loads((folder / "outcome.json").read_text())["outcome"]
    assert outcome["status"] == "finished"
    records = score_tasks(load_encoder(folder / "encoder"), [sts.read("STS-B", tiny_data, "dev")])
    assert records[0]["value"] == pytest.approx(outcome["best_dev"], abs=1e-9)
    assert log_of(folder) != log_of(train_tiny("simcse"))


def test_switched_off_it_trains_as_simcse_bit_for_bit(train_tiny: Train) -> None:
    assert log_of(train_tiny("cards[neighbours=0,switch=0]")) == log_of(train_tiny("simcse"))


def test_a_training_with_switched_words(
    tiny_roberta: Path, tiny_corpus: Path, tiny_data: Path, tmp_path: Path
) -> None:
    recipe = {"batch_size": 8, "learning_rate": 1e-3, "select_every": 2}
    logs = []
    for name, text in enumerate(
        ["cards[neighbours=5]", "cards[neighbours=5]", "cards[neighbours=5,switch=0]"]
    ):
        run = resolve(
            text,
            backbone_name=str(tiny_roberta),
            corpus=str(tiny_corpus),
            data=str(tiny_data),
            seed=1,
            recipe=recipe,
        )
        train(run, tmp_path, tmp_path / str(name))
        logs.append(log_of(tmp_path / str(name)))
    assert logs[0] == logs[1] != logs[2]


def test_a_corpus_with_too_few_sentences_is_refused(train_tiny: Train) -> None:
    with pytest.raises(UserError, match="64 neighbours of each of"):
        train_tiny("cards[switch=0]")


def test_the_formula_is_the_one_of_all_methods() -> None:
    """The oracle would not notice an own copy of it."""
    assert CARDS.loss is Contrastive.loss
    assert CARDS.contrast is Contrastive.contrast
