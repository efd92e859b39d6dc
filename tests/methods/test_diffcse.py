"""DiffCSE: a step against an oracle with transformers' own passes, its limits, its models."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import methods.diffcse as diffcse
from bench.training.context import RunContext
from methods.base import Refusal, Step
from methods.declutr import masked_pieces
from methods.diffcse import DiffCSE
from tests.methods.outside import BERT, ROBERTA, Patch, Runs, Train, run_of, step, vectors
from tests.methods.test_promptbert import gradients
from tests.oracles import diffcse as oracle
from tests.training.test_loop import assert_same_training, log_of
from tools.world.sentences import sample_document

ROWS = [3, 6, 17, 30]
WEIGHT = 2.0  # of the detection, so that a mistake in it shows


@pytest.fixture
def runs(with_head: Path, tiny_corpus: Path, tiny_data: Path, tmp_path: Path) -> Runs:
    return Runs(with_head, tiny_corpus, tiny_data, tmp_path)


def started(runs: Runs, **hyper: Any) -> tuple[RunContext, DiffCSE]:
    given = {"weight": WEIGHT, "padded": "true", "masked": 0.5, **hyper}
    text = f"diffcse[{','.join(f'{key}={value}' for key, value in given.items())}]"
    method, context, modules = runs.start(text)
    modules.double().eval()
    if method.projector is not None:
        method.projector.train()  # the statistics of the batch
        with torch.no_grad():  # as after some steps
            method.projector[1].weight.uniform_(0.5, 1.5)
            method.projector[1].bias.uniform_(-0.5, 0.5)
    return context, method


def expected_loss(context: RunContext, method: DiffCSE) -> Tensor:
    tokens = [context.tokens()[row] for row in ROWS] * 2
    rows = [context.backbone(input_ids=torch.tensor([row])) for row in tokens]
    sentences = torch.cat([row.last_hidden_state[:, 0] for row in rows])
    if method.hyper.batchnorm:
        first, norm, _, last, _ = method.projector
        sentences = oracle.projected(sentences, first.weight, norm.weight, norm.bias, last.weight)
    loss = oracle.contrast(sentences, method.hyper.temperature)
    masked, _, _ = masked_pieces(tokens, context.tokenizer, method.hyper.masked, step(0, ROWS))
    filled = oracle.filled_in(method.generator, masked, [row[0] for row in tokens])
    detection = oracle.detection(
        method.discriminator, *method.detector.parameters(), tokens, filled, sentences,
        context.tokenizer.pad_token_id, method.hyper.padded,
    )  # fmt: skip
    return loss + method.hyper.weight * detection


def disagreement(context: RunContext, method: DiffCSE) -> float:
    """The largest relative difference in loss or gradient."""
    trained = [one for one in method.parameters() if one.requires_grad]
    trained += [one for module in context.modules() for one in module.parameters()]

    def slopes(loss: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss, trained, materialize_grads=True)

    wanted_loss = expected_loss(context, method)
    wanted, loss = slopes(wanted_loss), method.step_loss(context, step(0, ROWS))
    scale = max(one.abs().max().item() for one in wanted)
    worst = max((a - b).abs().max().item() for a, b in zip(slopes(loss), wanted, strict=True))
    return max(worst / scale, abs(loss.item() / wanted_loss.item() - 1))


@pytest.mark.parametrize(
    "hyper",
    [{}, {"padded": "false"}, {"batchnorm": "false"}],
    ids=lambda hyper: "-".join(hyper) or "default",
)
def test_equals_the_oracle(runs: Runs, hyper: dict[str, Any]) -> None:
    assert disagreement(*started(runs, **hyper)) < 1e-6


Change = Callable[..., Any]


def _detection(change: Change) -> Callable[[Patch], None]:
    plain = DiffCSE.detection
    return lambda patch: patch.setattr(
        DiffCSE, "detection", lambda self, *given: change(plain, self, *given)
    )


def _entropy(change: Change) -> Callable[[Patch], None]:
    plain = F.cross_entropy

    def cross_entropy(logits: Tensor, labels: Tensor, **rest: Any) -> Tensor:
        detecting = logits.shape[1] == 2
        return change(plain, logits, labels) if detecting else plain(logits, labels, **rest)

    return lambda patch: patch.setattr(diffcse.F, "cross_entropy", cross_entropy)


def _guesses(change: Change) -> Callable[[Patch], None]:
    plain = RunContext.guesses
    return lambda patch: patch.setattr(
        RunContext,
        "guesses",
        lambda self, model, rows: change(self, plain(self, model, rows), rows),
    )


def _only_where_masked(context: RunContext, guesses: Tensor, tokens: Any) -> Tensor:
    kept = guesses.clone()
    for place, row in enumerate(tokens):
        words = torch.tensor(row)
        masked = words == context.tokenizer.mask_token_id
        kept[place, : len(row)] = torch.where(masked, guesses[place, : len(row)], words)
    return kept


MUTATIONS: dict[str, tuple[Callable[[Patch], None], dict[str, Any]]] = {
    "vector without gradient": (
        _detection(lambda plain, self, context, tokens, vectors, step: plain(
            self, context, tokens, vectors.detach(), step)), {}),
    "vector of the next sentence": (
        _detection(lambda plain, self, context, tokens, vectors, step: plain(
            self, context, tokens, vectors.roll(1, 0), step)), {}),
    "copies interleaved": (
        _detection(lambda plain, self, context, tokens, vectors, step: plain(
            self, context, [row for row in tokens[: len(ROWS)] for _ in (0, 1)], vectors, step)),
        {}),
    "sum over tokens": (
        _entropy(lambda plain, logits, labels: plain(logits, labels) * len(labels)), {}),
    "labels exchanged": (
        _entropy(lambda plain, logits, labels: plain(logits, 1 - labels)), {}),
    "the last position left out": (
        _entropy(lambda plain, logits, labels: plain(logits[:-1], labels[:-1])), {}),
    "padding counted": (
        _entropy(lambda plain, logits, labels: plain(logits, labels.clamp(min=0))),
        {"padded": "false"}),
    "filled in where masked alone": (_guesses(_only_where_masked), {}),
    "not projected": (
        lambda patch: patch.setattr(DiffCSE, "projected", lambda self, vectors: vectors), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.parametrize("with_head", ["bert"], indirect=True)
def test_a_mutation_is_caught(name: str, runs: Runs, monkeypatch: Patch) -> None:
    mutate, hyper = MUTATIONS[name]
    given = started(runs, **hyper)
    mutate(monkeypatch)
    assert disagreement(*given) > 1e-6


def test_both_views_are_normalised_together(runs: Runs) -> None:
    """Statistics of each view alone would give other vectors."""
    _, method = started(runs)
    views = [vectors("random", 5, method.shape.width, seed=seed) for seed in (1, 2)]
    first, norm, _, last, _ = method.projector
    wanted = oracle.projected(
        torch.cat(views), first.weight, norm.weight, norm.bias, last.weight
    ).chunk(2)
    for found, one, alone in zip(method.projected(views), wanted, views, strict=True):
        torch.testing.assert_close(found, one)
        assert not torch.allclose(method.projected([alone])[0], one)


def test_the_detection_reaches_the_backbone_through_the_vector_alone(runs: Runs) -> None:
    """And the generator not at all."""
    context, method = started(runs)
    tokens = [context.tokens()[row] for row in ROWS] * 2
    given = vectors("random", len(tokens), method.shape.width).requires_grad_()
    loss = method.detection(context, tokens, given, step(0, ROWS))
    assert all(one.abs().max() == 0 for one in gradients(context, loss))
    (slope,) = torch.autograd.grad(method.detection(context, tokens, given, step(0, ROWS)), given)
    assert (slope.abs().amax(dim=1) > 0).all()
    assert not any(one.requires_grad for one in method.generator.parameters())


def test_a_batch_of_one_is_finite(runs: Runs) -> None:
    """Batch norm sees both copies."""
    context, method = started(runs)
    assert torch.isfinite(method.step_loss(context, Step(0, 1, 4, 1, ROWS[:1])))


def test_its_generators_dropout_does_not_shift_the_backbones(runs: Runs) -> None:
    """Nor do the global numbers drawn before decide what it fills in."""
    method, context, _ = runs.start("diffcse[weight=1]")
    tokens, seen = [context.tokens()[row] for row in ROWS], []
    plain, context.guesses = context.guesses, lambda *given: seen.append(plain(*given)) or seen[-1]
    states = context.states
    context.states = lambda *given, **named: after.append(torch.rand(1)) or states(*given, **named)
    after: list[Tensor] = []
    given = torch.zeros(len(tokens), method.shape.width)
    for seed in (1, 2):
        torch.manual_seed(seed)
        method.detection(context, tokens, given, step(0, ROWS))
        torch.manual_seed(seed)
        assert torch.equal(after[-1], torch.rand(1))
    assert torch.equal(*seen)


def test_a_generator_of_another_vocabulary_is_refused(
    runs: Runs, tiny_bert: Path, tiny_roberta: Path
) -> None:
    other = tiny_bert if "roberta" in str(runs.backbone) else tiny_roberta
    with pytest.raises(Refusal, match="has another vocabulary than the backbone"):
        runs.start(f"diffcse[generator={other}]")


def test_switched_off_it_is_simcse_bit_for_bit(train_tiny: Train) -> None:
    recipe = {"epochs": 1, "pooler": "cls_mlp"}
    off = train_tiny("diffcse[batchnorm=false,weight=0]", **recipe)
    assert_same_training(off, train_tiny("simcse", epochs=1))
    control = train_tiny("diffcse[weight=0]", epochs=1)
    assert log_of(control) != log_of(off)


def test_where_nothing_is_masked_the_label_is_1_where_the_generator_does_not_copy(
    runs: Runs, monkeypatch: Patch
) -> None:
    context, method = started(runs)
    tokens = [context.tokens()[row] for row in ROWS]
    monkeypatch.setattr(diffcse, "masked_pieces", lambda rows, *given: (rows, None, None))
    seen: list[Tensor] = []
    plain = F.cross_entropy
    monkeypatch.setattr(
        diffcse.F,
        "cross_entropy",
        lambda logits, labels: seen.append(labels) or plain(logits, labels),
    )
    given = torch.zeros(len(tokens), method.shape.width, dtype=torch.float64)
    method.detection(context, tokens, given, step(0, ROWS))
    guesses = context.guesses(method.generator, tokens)
    longest = max(map(len, tokens))
    expected = [
        int(0 < place < len(row) and row[place] != guess[place])
        for row, guess in zip(tokens, guesses.tolist(), strict=True)
        for place in range(longest)
    ]
    assert seen[0].tolist() == expected
    assert 0 < sum(expected) < len(expected)


def test_a_trained_generator_restores_most_masked_words(tmp_path: Path) -> None:
    """toy-bert's own, on sentences of its language, so that few masked words have label 1."""
    rng = random.Random(5)
    lines = [sentence for _ in range(20) for sentence in sample_document(rng)]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n")
    run = run_of("diffcse", "toy-bert", tmp_path / "lines.txt", "world")
    context, method = RunContext(run, tmp_path, "cpu"), run.build()
    method.prepare(context)
    tokens, draw = context.tokens(), step(0, range(len(lines)))
    masked, words, chosen = masked_pieces(tokens, context.tokenizer, 0.3, draw)
    guesses = context.guesses(method.generator.eval(), masked)
    filled = [guess[: len(row)] for row, guess in zip(tokens, guesses, strict=True)]
    replaced = (torch.cat(filled) != words)[chosen]
    assert 0 < replaced.float().mean() < 0.5


# What the tests of all methods need to know of this one (`outside.of_methods`).

VALUES: list[tuple[str, str, dict[str, Any]]] = [
    *((f"diffcse@{setting}", name,
       {"learning_rate": rate, "batch_size": 64, "epochs": 2, "masked": masked, "weight": 0.005,
        "generator": generator, "padded": setting == "official", "batchnorm": True,
        "evaluation_pooler": "cls_before_pooler"})
      for setting in ("official", "paper")
      for name, rate, masked, generator in ((BERT, 7e-6, 0.30, "distilbert-base-uncased"),
                                            (ROBERTA, 1e-5, 0.20, "distilroberta-base"))),
    ("diffcse", "toy-bert", {"generator": "backbone"}),
]  # fmt: skip
OUT_OF_LIMITS = {
    "diffcse": "masked=0 masked=1 weight=-1",
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "generator": ("weight=0", "backbone", "toy-bert"),
    "masked": ("weight=0", 0.3, 0.6),
    "padded": ("weight=0", False, True),
}
