"""CARDS: its loss, the switched words, and the retrieved sentences, never one's own."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from methods.base import Shape, Step, Views, compose
from methods.cards import CARDS
from methods.simcse import SimCSE
from tests.oracles import cards as oracle
from tests.oracles.cards import BATCHES, SEED, SENTENCES
from tests.oracles.edits import Mutation, each, edits
from tests.oracles.methods import named_generator
from tests.support import method_runs
from tests.support.method_cases import DTYPES, WIDTH, batch, floor_of, tolerance, unit_of
from tests.support.method_runs import ROBERTA, ROBERTA_LARGE, run_of

SHAPE = Shape(WIDTH, 4)


class Tools:
    """A context whose tokens are row numbers, and whose backbone looks vectors up: `leaves` are
    those of first and second views and of retrieved sentences."""

    device = "cpu"
    tokenizer = SimpleNamespace(decode=lambda row, skip_special_tokens: SENTENCES[row[0]])

    def sentences(self):
        return SENTENCES

    def tokens(self):
        return [[row] for row in range(len(SENTENCES))]

    def encoder(self, pooler):
        return pooler

    def encode_tokens(self, encoder, tokens):
        assert encoder == "avg"
        vectors = [oracle.vector(SENTENCES[row]) for (row,) in tokens]
        return torch.stack(vectors).float().numpy()

    def neighbours(self, vectors, count):
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = np.round(unit.astype(np.float64) @ unit.T.astype(np.float64), 6)
        np.fill_diagonal(cosines, -2)
        return np.argsort(-cosines, axis=1, kind="stable")[:, :count]

    def embed(self, views, extras):
        (retrieved,) = extras["cards"]
        self.retrieved = [SENTENCES[row] for (row,) in retrieved]
        *views, vectors = self.leaves
        return Views(views, lambda layer: views, {"cards": [vectors]})


def method_with(count=3, temperature=0.05, switch=0.0):
    return CARDS, CARDS.Hyper(temperature=temperature, switch=switch, neighbours=count)


def loss_of(method, tools, leaves, index):
    tools.leaves = leaves
    return method.step_loss(tools, Step(index, 6, 5, SEED, BATCHES[index]))


def leaves_of(kind, index):
    n = len(BATCHES[index])
    first, second = batch(kind, index, n).views
    third = batch(kind, index + 50, n).views[0]
    if kind == "near-duplicates":  # of the anchors too
        third = first.roll(1, 0) + 1e-5 * third
    return [first, second, third]


def disagreement(kind, dtype, count=3, t=0.05):
    """The largest difference of loss or gradient over all batches."""
    method, tools = compose([method_with(count, t)], SHAPE), Tools()
    method.begin(tools)
    return max(
        method_runs.disagreement(
            lambda leaves, index=index: loss_of(method, tools, leaves, index),
            lambda leaves, index=index: oracle.loss(leaves, BATCHES[index], index, count, t),
            leaves_of(kind, index),
            dtype,
            floor_of(dtype, t),
            unit_of(t),
        )
        for index in range(len(BATCHES))
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("count", "t"), [(3, 0.05), (6, 1.0), (3, 0.001)])
@pytest.mark.parametrize(
    "kind", ["random", "close", "near-duplicates", "opposites", "mixed-norms", "tiny", "huge"]
)
def test_equals_oracle(kind, count, t, dtype):
    assert disagreement(kind, dtype, count, t) < tolerance(kind, dtype)


MUTATIONS: dict[str, Mutation] = {
    **edits("methods.cards:CARDS.negatives", {
        "mask turned round": (
            "numbers.unsqueeze(1) != retrieved", "numbers != retrieved.unsqueeze(1)"),
        "detached": (
            "Negatives(vectors, weights=(numbers.unsqueeze(1) != retrieved).to(anchors))",
            "Negatives(vectors.detach(), weights=(numbers.unsqueeze(1) != "
            "retrieved).to(anchors))"),
    }),
    **edits("methods.cards:CARDS._retrieved", {
        "table one row off": ("step.take(self._numbers)", "np.array(step.take(self._numbers)) - 1"),
    }),
    **edits("methods.cards:CARDS.prepare", {
        "equal sentences apart": (
            "[numbers[text] for text in sentences]", "list(range(len(sentences)))"),
    }),
}  # fmt: skip


@each(MUTATIONS)
def test_a_mutation_is_caught(mutation, monkeypatch):
    mutation.apply(monkeypatch)
    assert disagreement("random", torch.float64) > 1e-6


def test_the_retrieved_sentences_are_encoded_and_all_that_it_brings_after_a_plus():
    """In `simcse+cards` views are equal copies, and the loss is that of CARDS without switching."""
    tools = Tools()
    alone = compose([method_with()], SHAPE)
    joined = compose([(SimCSE, SimCSE.Hyper()), method_with(switch=0.9)], SHAPE)
    for method in (alone, joined):
        method.begin(tools)
    assert joined.views(tools, [[1]], Step(0, 1, 1, 1, [1])) == ([[1]], [[1]])
    for index, rows in enumerate(BATCHES):
        leaves = leaves_of("random", index)
        losses = [loss_of(method, tools, leaves, index) for method in (alone, joined)]
        assert torch.equal(*losses)
        assert tools.retrieved == oracle.retrieved(rows, index, 3)


@pytest.mark.parametrize("pooler", ["avg", "cls_before_pooler"])
def test_the_search_reads_sentences_cut_as_training_reads_them(pooler, runs):
    text = f"cards[neighbours=5,retrieval={pooler},switch=0]"
    method, context, _ = runs.start(text, max_length=6)
    distinct = dict(zip(context.sentences(), context.tokens(), strict=True))
    assert max(map(len, distinct.values())) == 6
    vectors = context.encoder(pooler).encode_tokens(list(distinct.values()))
    unit = F.normalize(torch.from_numpy(vectors).double(), dim=1)
    cosines = (unit @ unit.T).fill_diagonal_(-2)
    result = cosines.gather(1, torch.as_tensor(method._nearest))
    torch.testing.assert_close(result, cosines.topk(5).values, rtol=0, atol=1e-6)


# Switched words

TEXTS = ["Thebes held onto power until the 12th Dynasty , when its", "1980 1951", "a", ""]
TEXTS += ["  two  Birds ", "été Über ßen"]


@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("words", ["each", "count"])
def test_words_are_switched_as_the_oracle_says(words, share):
    method = CARDS(CARDS.Hyper(switch=share, words=words), SHAPE)
    draw, again = (named_generator(1, "switch-case", 0) for _ in range(2))
    for text in TEXTS * 3:
        assert method._switch(text, draw) == oracle.switch(text, share, words == "count", again)


@pytest.mark.slow
@pytest.mark.parametrize("tiny_backbone", ["roberta"], indirect=True)
def test_the_second_view_is_the_decoded_text_switched(runs):
    method, context, _ = runs.start("cards[switch=0.5,neighbours=0]", max_length=8)
    tokens = context.tokens()[:10]
    first, second = method.views(context, tokens, Step(2, 6, 10, SEED, range(10)))
    assert first is tokens
    generator = named_generator(SEED, "switch-case", 2)
    texts = [
        oracle.switch(context.tokenizer.decode(row[1:-1]), 0.5, False, generator) for row in tokens
    ]
    assert list(second) == [context.tokenizer(text)["input_ids"] for text in texts]
    # A capital may cost a piece, and nothing is cut.
    assert max(map(len, second)) > max(map(len, tokens)) == 8


# Limits


def test_switching_is_skipped_where_the_tokenizer_knows_no_capitals(tiny_bert, tiny_roberta):
    for name in ("bert-base-uncased", "toy-bert", tiny_bert):
        assert "knows no capitals" in run_of("cards", name).skip
        assert run_of("cards[switch=0]", name).skip is None
    for name in ("roberta-base", "toy-roberta", tiny_roberta):
        for text in ("cards", "simcse+cards"):
            assert run_of(text, name).skip is None


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

VALUES = [
    # 4 x 128 on one device is 512
    ("cards", name, {"setting": "official", "batch_size": 512, "learning_rate": rate})
    for name, rate in ((ROBERTA, 4e-5), (ROBERTA_LARGE, 7.5e-6))
]
OUT_OF_LIMITS = {
    "cards": (
        "switch=-0.1 switch=1.5 words=some neighbours=-1 retrieval=cls retrieval=mean temperature=0"
    ),
}
WITHOUT_EFFECT = {
    "words": ("switch=0,neighbours=2", "each", "count"),
    "retrieval": ("switch=0,neighbours=0", "avg", "cls_before_pooler"),
}
