"""Skip-thought equals its printed equations in loss and gradient, is saved, continued, trained."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import methods.skip_thought as module
from bench.datasets import sts
from bench.evaluation.scoring import score_tasks
from bench.models.load import load_encoder, save_encoder
from bench.utils.errors import UserError
from methods.base import Refusal, Shape, Step
from methods.skip_thought import GRU, SkipThought
from tests.conftest import make_sentences
from tests.methods.outside import Patch, Train
from tests.oracles import skip_thought as oracle
from tests.oracles.mutations import Mutation, inside, patched
from tests.training.test_loop import log_of, outcome_of

SETTINGS = [("every", "before"), ("first", "after"), ("every", "after"), ("first", "before")]
PAPER, OFFICIAL = SETTINGS[:2]
WORDS = ["a", "dog", ",", "it's", "runs", "x_1"]
# Two documents; the fourth sentence is empty, and neither "cat" nor the parts of "it's" but "it"
# are frequent.
TEXTS = {
    "random": [
        "A dog runs",
        "a cat , it runs",
        "It's a dog!",
        " ",
        "runs",
        "dog dog a",
        "a",
        "runs runs",
        "X_1",
    ],
    "near-duplicates": ["a dog runs"] * 8 + ["a dog run"],
    "one word": ["a", "dog", "runs", "it", "a", "a", "dog", "dog", "runs"],
    "empty": [" "] * 9,
}
DOCUMENTS = [range(0, 6), range(6, 9)]
# At 40 gates are shut or wide open.
SCALES = {"random": 5.0, "near-duplicates": 5.0, "one word": 40.0, "empty": 5.0}


@dataclass
class FakeContext:
    texts: list[str]
    seed: int = 3
    device: str = "cpu"

    def sentences(self, corpus: str | None = None) -> list[str]:
        return self.texts

    def documents(self) -> list[range]:
        return DOCUMENTS


def make(
    condition: str, reset: str, kind: str = "random", dtype: torch.dtype = torch.float64
) -> Any:
    hyper = SkipThought.Hyper(units=3, width=2, vocabulary=8, condition=condition, reset=reset)
    method = SkipThought(hyper, Shape(0, 0))
    context = FakeContext(TEXTS[kind])
    method.prepare(context)
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in method.parameters():  # float32's numbers, larger than first weights are
            weight.copy_(torch.randn(weight.shape, generator=draw) * SCALES[kind] / 10)
    return method.to(dtype), context


def step_of(method: Any, context: FakeContext) -> tuple[float, dict[str, Tensor]]:
    count = method.items(context)
    method.zero_grad()
    loss = method.step_loss(context, Step(0, 1, count, context.seed, range(count)))
    loss.backward()
    assert loss.dtype == method.reader.embedding.dtype
    return loss.item(), {name: weight.grad for name, weight in method.named_parameters()}


@cache
def expected(condition: str, reset: str, kind: str) -> tuple[float, dict[str, np.ndarray]]:
    method, _ = make(condition, reset, kind)
    rows = [oracle.numbers(text, method.words) for text in TEXTS[kind]]
    triples = [rows[i - 1 : i + 2] for i in (1, 2, 3, 4, 7)]
    weights = {name: weight.detach().numpy() for name, weight in method.named_parameters()}
    return oracle.loss_and_gradient(weights, triples, condition == "every", reset == "after")


# Of gradients that vanish behind shut gates rounding alone decides the digits.
FLOORS = {torch.float64: 1e-3, torch.float32: 0.05}


def disagreement(
    method: Any, context: FakeContext, wanted: tuple[float, dict[str, np.ndarray]]
) -> float:
    """The largest difference, relative to the loss and to the largest entry of each gradient."""
    floor = FLOORS[method.reader.embedding.dtype]
    loss, gradients = step_of(method, context)
    worst = abs(loss - wanted[0]) / abs(wanted[0])
    for name, gradient in wanted[1].items():
        found = gradients[name]
        difference = abs(
            (np.zeros(1) if found is None else found.double().numpy()) - gradient
        ).max()
        worst = max(worst, difference / max(abs(gradient).max(), floor))
    return worst


CASES = [("random", setting) for setting in SETTINGS]
CASES += [
    (kind, setting)
    for kind in ("near-duplicates", "one word", "empty")
    for setting in (PAPER, OFFICIAL)
]


@pytest.mark.parametrize(
    ("kind", "setting"), CASES, ids=[f"{kind}-{'-'.join(setting)}" for kind, setting in CASES]
)
def test_equals_oracle(kind: str, setting: tuple[str, str]) -> None:
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 1e-4)):
        assert disagreement(*make(*setting, kind, dtype), expected(*setting, kind)) < tolerance, (
            dtype
        )


def calls(path: str, change: Callable[[GRU], dict[str, Tensor]]) -> Mutation:
    """Let a GRU compute with other weights that are made of its own."""

    class Changed(GRU):
        def forward(self, *inputs: Any) -> Tensor:
            self.__class__ = GRU
            try:
                return torch.func.functional_call(self, change(self), inputs)
            finally:
                self.__class__ = Changed

    return lambda method, patch: setattr(attrgetter(path)(method), "__class__", Changed)


def exchanged(plain: Any, gru: GRU, *rest: Any) -> Tensor:
    decoders = plain.__self__
    return plain(decoders.after if gru is decoders.before else decoders.before, *rest)


def behind_the_padding(plain: Any, rows: Any) -> Tensor:
    reader = plain.__self__
    return reader.gru(reader.embed(module.pad(rows, "cpu")[0]))[:, -1]


def without_end(plain: Any, rows: Any, device: Any) -> Any:
    ids, lengths = plain(rows, device)
    shorter = torch.where(lengths > 1, lengths - 1, lengths)
    return ids, shorter if rows[0][-1:] == [0] else lengths


def unknown_words_passed_over(method: Any, patch: Patch) -> None:
    method.rows = [[number for number in row if number != module.UNKNOWN] for row in method.rows]


def centres(change: Callable[[list[int]], list[int]]) -> Mutation:
    return lambda method, patch: setattr(method, "centres", change(method.centres))


MUTATIONS: dict[str, Mutation] = {
    "gates_exchanged": calls("reader.gru", lambda gru: {"gates": gru.gates.roll(3, 0)}),
    "sign_of_the_candidate": calls("decoders.after", lambda gru: {"candidate": -gru.candidate}),
    "bias_left_out": calls("decoders.before", lambda gru: {"bias": torch.zeros_like(gru.bias)}),
    "sentence_left_out": calls(
        "decoders.before", lambda gru: {"sentence": torch.zeros_like(gru.sentence)}),
    "reset_on_the_other_side": lambda method, patch: setattr(
        method.decoders.before, "reset", "after"),
    "neighbours_exchanged": inside("decoders", "loss", exchanged),
    "sentence_detached": inside(
        "decoders", "loss",
        lambda plain, gru, reader, vectors, rows: plain(gru, reader, vectors.detach(), rows)),
    "words_detached": inside("reader", "embed", lambda plain, ids: plain(ids).detach()),
    "state_before_the_last_word": inside(
        "reader", "forward", lambda plain, rows: plain([row[:-1] for row in rows])),
    "words_in_reverse": inside(
        "reader", "forward", lambda plain, rows: plain([row[::-1] for row in rows])),
    "state_behind_the_padding": inside("reader", "forward", behind_the_padding),
    "another_end_mark": lambda method, patch: patch.setattr(module, "END", 1),
    "no_end_mark": patched(module, "pad", without_end),
    "the_word_itself_is_read": patched(
        GRU, "forward",
        lambda plain, self, words, *rest: plain(self, words.roll(-1, 1) if rest else words, *rest)),
    "mean_in_place_of_sum": patched(
        F, "cross_entropy", lambda plain, logits, ids, reduction: plain(logits, ids)),
    "centre_off_by_one": centres(lambda rows: [row + 1 if row < 7 else row for row in rows]),
    "first_and_last_sentences_taken": centres(lambda rows: [*rows, 5]),
    "unknown_words_passed_over": unknown_words_passed_over,
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mistake_is_caught(name: str, monkeypatch: Patch) -> None:
    method, context = make(*PAPER)
    MUTATIONS[name](method, monkeypatch)
    assert disagreement(method, context, expected(*PAPER, "random")) > 1e-4


@pytest.mark.parametrize("decoding", [False, True])
def test_the_reset_gate_behind_the_matrix_is_the_librarys(decoding: bool) -> None:
    own, library = GRU(3, 4, "after", 1, "x").double(), nn.GRU(3, 4, batch_first=True).double()
    with torch.no_grad():
        library.weight_ih_l0.copy_(own.words)
        library.weight_hh_l0.copy_(torch.cat([own.gates, own.candidate]))
        library.bias_ih_l0.copy_(own.bias.normal_())
        library.bias_hh_l0.zero_()
        # The library's update gate says what is kept, the printed one what is new.
        for weight in (library.weight_ih_l0, library.weight_hh_l0, library.bias_ih_l0):
            weight[4:8] *= -1
    words, start = torch.randn(2, 5, 3).double(), torch.randn(2, 4).double()
    states = own(words, start if decoding else None)
    torch.testing.assert_close(states, library(words, start.unsqueeze(0) if decoding else None)[0])


def test_first_weights() -> None:
    method = SkipThought(SkipThought.Hyper(units=16, width=8, vocabulary=8), Shape(0, 0))
    method.prepare(FakeContext(TEXTS["random"]))
    for name, weight in method.named_parameters():
        if name.endswith("bias"):
            assert not weight.any()
        elif name.endswith(("gates", "candidate")):
            for square in weight.detach().chunk(len(weight) // 16):
                torch.testing.assert_close(square @ square.T, torch.eye(16), rtol=0, atol=1e-5)
        else:
            assert 0.08 < weight.abs().max() <= 0.1
    draws = [weight.flatten()[0].item() for weight in method.parameters() if weight.any()]
    assert len(set(draws)) == len(draws)  # each has a stream of its own


# The corpus


def test_vocabulary_and_triples() -> None:
    method, context = make(*PAPER)
    # By frequency, then by the alphabet.
    assert method.words == ["a", "runs", "dog", "it", "!", "'"]
    assert method.centres == [1, 2, 3, 4, 7]
    assert method.rows == [oracle.numbers(text, method.words) for text in TEXTS["random"]]
    assert method.items(context) == 5
    short = SkipThought(SkipThought.Hyper(units=2, width=2, vocabulary=8, longest=5), Shape(0, 0))
    short.prepare(context)
    # Those around "a cat , it runs" and "It's a dog!", of five and six words, are left out.
    assert short.centres == [4, 7]
    tiny = SkipThought(SkipThought.Hyper(units=2, width=2, vocabulary=8, longest=2), Shape(0, 0))
    with pytest.raises(Refusal, match="three consecutive sentences of fewer than 2 words"):
        tiny.prepare(context)


# What is scored


def test_vectors_do_not_depend_on_their_neighbours() -> None:
    method, context = make(*OFFICIAL, dtype=torch.float32)
    encoder = method.encoder(context)
    texts = ["a dog runs", "", "runs", "a dog runs , it runs", "unheard of"]
    vectors = encoder.encode(texts)
    assert vectors.dtype == np.float32
    assert not vectors[1].any()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 0, 1, 1, 1], rtol=1e-6)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(encoder.encode([text])[0], vector, atol=1e-6)
    assert encoder.encode([]).shape == (0, 3)


@pytest.mark.parametrize("setting", [PAPER, OFFICIAL], ids=["paper", "official"])
def test_an_encoder_is_saved_and_loaded(setting: tuple[str, str], tmp_path: Path) -> None:
    method, context = make(*setting, dtype=torch.float32)
    encoder = method.encoder(context)
    save_encoder(encoder, tmp_path / "encoder")
    loaded = load_encoder(tmp_path / "encoder")
    assert loaded.identity == encoder.identity
    assert np.array_equal(loaded.encode(TEXTS["random"]), encoder.encode(TEXTS["random"]))
    method.reader.gru.bias.data[0] += 1
    assert method.encoder(context).identity != loaded.identity


def test_a_training_continues_exactly() -> None:
    def steps(method: Any, context: FakeContext, count: int) -> list[float]:
        optimiser = torch.optim.SGD(method.parameters(), lr=0.01)
        losses = []
        for _ in range(count):
            losses.append(step_of(method, context)[0])
            optimiser.step()
        return losses

    first, context = make(*PAPER)
    steps(first, context, 3)
    state = {name: tensor.clone() for name, tensor in first.state_dict().items()}
    second, _ = make(*PAPER)
    second.load_state_dict(state)
    assert steps(first, context, 3) == steps(second, context, 3)


# A whole training


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of 44 sentences in documents of 11."""
    path = tmp_path_factory.mktemp("documents") / "tiny.txt"
    path.write_text("".join(f"{row}\n" for row in make_sentences(44, seed=4)))
    path.with_name("tiny.docs.tsv").write_text(
        "first\tlines\n" + "".join(f"{1 + 11 * i}\t11\n" for i in range(4))
    )
    return path


TEXT = "skip-thought[units=8,vocabulary=30,width=6,epochs=2]"


@pytest.mark.parametrize("setting", ["paper", "official"])
def test_a_training(setting: str, train_tiny: Train, documents: Path, tiny_data: Path) -> None:
    folders = [
        train_tiny(f"{TEXT}@{setting}", fresh=True, corpus=str(documents), learning_rate=0.02)
        for _ in range(2)
    ]
    logs = [log_of(folder) for folder in folders]
    assert logs[0] == logs[1]
    assert len(logs[0]) == 2 * 5  # 36 triples in batches of 8
    losses = [row["loss"] / (8 if row["step"] % 5 else 4) for row in logs[0]]
    assert sum(losses[5:]) < sum(losses[:5])
    outcome = outcome_of(folders[0])
    assert outcome["status"] == "finished"
    best = max((row["dev"]["STS-B"], -row["step"]) for row in logs[0] if "dev" in row)
    assert (outcome["best_dev"], -outcome["best_step"]) == best
    encoders = [load_encoder(folder) for folder in folders]
    assert encoders[0].identity == encoders[1].identity
    records = score_tasks(encoders[0], [sts.read("STS-B", tiny_data, "dev")])
    assert next(record["value"] for record in records if record["aggregation"] == "all") == best[0]


def test_a_corpus_without_triples_is_refused(
    train_tiny: Train, documents: Path, tiny_corpus: Path
) -> None:
    with pytest.raises(UserError, match=r"has no list of documents; add tiny\.docs\.tsv"):
        train_tiny(TEXT, fresh=True)
    with pytest.raises(
        UserError, match="cannot be trained: no document has three consecutive sentences"
    ):
        train_tiny(TEXT, fresh=True, corpus=str(documents), sentences=2)


# What the tests of all methods need to know of this one (`outside.of_methods`).

PUBLISHED = {"condition": "every", "reset": "before", "batch_size": 128, "clip": 10.0}
VALUES: list[tuple[str, str, dict[str, Any]]] = [
    ("skip-thought@paper", "toy-bert", {**PUBLISHED, "backbone": "none"}),
    ("skip-thought@official", "toy-bert",
     {"condition": "first", "reset": "after", "batch_size": 64, "clip": 5.0,
      "backbone": "none"}),
]  # fmt: skip
OUT_OF_LIMITS = {
    "skip-thought": "units=0 width=0 vocabulary=2 longest=1 condition=never reset=never",
}
