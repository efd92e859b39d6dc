"""ConSERT against its oracle: loss, augmented embeddings, a whole step; mutations; its corpus."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import methods.consert as module
import methods.contrastive as base
from bench.datasets import sts
from bench.datasets.corpora import corpus_identity, read_sentences, sts_sentences
from bench.datasets.tasks import STS_TASKS
from bench.models.load import load_encoder
from bench.models.packed_forward import Batch, forward
from bench.runs import paths
from bench.utils.files import read_json
from methods.base import Refusal, Shape
from methods.consert import ConSERT, augmented
from tests.methods.cases import floor_of, unit_of
from tests.methods.outside import (
    BERT,
    HARD,
    LARGE,
    ROBERTA,
    ROBERTA_LARGE,
    TOLERANCE,
    Patch,
    Runs,
    Train,
    disagreement,
    step,
    vectors,
)
from tests.oracles.methods import named_generator, scalars
from tests.oracles.mutations import Mutation, patched
from tests.oracles.outside import cut_elements, nt_xent, permuted

N, WIDTH = 4, 5


def difference(
    kind: str, dtype: torch.dtype, t: float = 0.1, n: int = N, scale: float = 1.0
) -> float:
    method = ConSERT(ConSERT.Hyper(temperature=t, scale=scale), Shape(WIDTH, 2))
    leaves = [vectors(kind, n, WIDTH, seed=seed) for seed in range(2)]
    if kind in ("near-duplicates", "duplicates"):  # of each other, not only within a view
        leaves[1] = (leaves[0] + 1e-5 * leaves[1]).float().double()
    return disagreement(
        lambda found: method.loss(*found),
        lambda found: scale * nt_xent(scalars(found[0]), scalars(found[1]), t),
        leaves,
        dtype,
        floor_of(dtype, t),
        unit_of(t),
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("t", [0.1, 0.001])
@pytest.mark.parametrize("kind", ["random", *HARD])
def test_equals_oracle(kind: str, t: float, dtype: torch.dtype) -> None:
    assert difference(kind, dtype, t) < TOLERANCE[dtype]


def test_equals_oracle_with_a_scale_and_in_small_batches() -> None:
    assert difference("random", torch.float64, scale=0.3) < TOLERANCE[torch.float64]
    assert difference("random", torch.float64, n=2) < TOLERANCE[torch.float64]
    method = ConSERT(ConSERT.Hyper(), Shape(WIDTH, 2))
    assert method.loss(torch.randn(1, 5), torch.randn(1, 5)).item() == 0


# Mutations of the loss


def one_direction(plain: Any, self: Any, a: Tensor, b: Tensor) -> Tensor:
    logits = base.cosine(a, torch.cat([b, a])) / self.hyper.temperature
    logits[:, len(a) :].fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(a)))


def other_view_alone(plain: Any, self: Any, a: Tensor, b: Tensor) -> Tensor:
    logits, places = base.cosine(a, b) / self.hyper.temperature, torch.arange(len(a))
    return (F.cross_entropy(logits, places) + F.cross_entropy(logits.T, places)) / 2


def loss(change: Callable[..., Tensor]) -> Mutation:
    return patched(ConSERT, "loss", change)


LOSSES: dict[str, Mutation] = {
    "one_direction": loss(one_direction),
    "other_view_alone": loss(other_view_alone),
    "itself_a_candidate": patched(
        torch.Tensor, "masked_fill",
        lambda plain, self, mask, value: plain(self, mask & False, value)),
    "partner_of_the_next_sentence": loss(lambda plain, self, a, b: plain(self, a, b.roll(1, 0))),
    "second_view_detached": loss(lambda plain, self, a, b: plain(self, a, b.detach())),
    "product_in_place_of_cosine": patched(base, "cosine", lambda plain, a, b: a @ b.T),
    "temperature_multiplied": patched(base, "cosine", lambda plain, a, b: plain(a, b) * 0.01),
    "sum_of_both_directions": loss(lambda plain, *given: 2 * plain(*given)),
    "computed_in_float32": loss(
        lambda plain, self, a, b: plain(self, a.float(), b.float()).double()),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_a_mutation_of_the_loss_is_caught(name: str, monkeypatch: Patch) -> None:
    LOSSES[name](None, monkeypatch)
    assert difference("random", torch.float64) > TOLERANCE[torch.float64]


# Augmentations


def embedded(
    context: Any, tokens: Sequence[int], order: Sequence[int], gone: set[tuple[int, int]]
) -> Tensor:
    """The embedding layer's output for one sentence, token by token."""
    layer = context.backbone.embeddings
    start = (
        context.tokenizer.pad_token_id + 1 if context.backbone.config.model_type == "roberta" else 0
    )
    rows = []
    for place, token in enumerate(tokens):
        x = layer.word_embeddings.weight[token]
        x = x + layer.position_embeddings.weight[start + order[place]]
        x = x + layer.token_type_embeddings.weight[0]
        norm = layer.LayerNorm
        x = (x - x.mean()) / (x.var(unbiased=False) + norm.eps).sqrt() * norm.weight + norm.bias
        rows.append(torch.stack([x[k] * (0 if (place, k) in gone else 1) for k in range(len(x))]))
    return torch.stack(rows)


def disagreeing_embeddings(context: Any, names: tuple[str, str], rate: float = 0.2) -> float:
    """The largest difference between what the hooks make of a batch's embeddings and the oracle."""
    tokens = [context.tokens()[row] for row in (0, 7, 3)]
    batch = Batch.of([row for row in tokens for _ in range(2)], context.tokenizer.pad_token_id)
    generators = [step(2, [0]).generator(f"consert-{place}") for place in range(2)]
    with augmented(context.backbone, [len(row) for row in tokens], names, rate, generators):
        found = forward(context.backbone, batch)[0]
    worst = 0.0
    for place, name in enumerate(names):
        draw = named_generator(1, f"consert-{place}", 2)
        for i, row in enumerate(tokens):
            order, gone = list(range(len(row))), set()
            if name == "shuffle":
                order = permuted(len(row), draw)
            elif name != "plain":
                gone = cut_elements(name, len(row), found.shape[-1], rate, draw)
            expected = embedded(context, row, order, gone)
            worst = max(worst, (found[2 * i + place, : len(row)] - expected).abs().max().item())
    return worst


PAIRS = [("feature_cutoff", "shuffle"), ("plain", "shuffle"), ("token_cutoff", "dropout")]
PAIRS += [("shuffle", "plain"), ("shuffle", "shuffle"), ("plain", "plain")]


@pytest.mark.parametrize("names", PAIRS)
def test_embeddings_are_augmented_as_the_oracle_says(runs: Runs, names: tuple[str, str]) -> None:
    _, context, modules = runs.start("consert")
    modules.double().eval()
    assert disagreeing_embeddings(context, names) < 1e-12
    assert disagreeing_embeddings(context, names, rate=0.55) < 1e-12


def orders(change: Callable[[Tensor], Tensor]) -> Mutation:
    return patched(module, "shuffled", lambda plain, *given: change(plain(*given)))


def cuts(change: Callable[[Tensor], Tensor | None]) -> Mutation:
    def cut(plain: Any, *given: Any) -> Tensor | None:
        mask = plain(*given)
        return None if mask is None else change(mask)

    return patched(module, "cutoff_mask", cut)


def of_tokens(plain: Any, name: str, *given: Any) -> Tensor | None:
    return plain({"feature_cutoff": "token_cutoff"}.get(name, name), *given)


SPOILT: dict[str, Mutation] = {
    "not shuffled": orders(lambda orders: orders.sort(1).values),
    "the inverse order": orders(lambda orders: orders.argsort(1)),
    "padding shuffled along": orders(lambda orders: orders.roll(1, 1)),
    "the neighbour's order": orders(lambda orders: orders.roll(1, 0)),
    "nothing cut": cuts(lambda mask: None),
    "rescaled": cuts(lambda mask: mask / mask.mean()),
    "kept and cut exchanged": cuts(lambda mask: 1 - mask),
    "tokens for features": patched(module, "cutoff_mask", of_tokens),
    "cut of the neighbour": cuts(lambda mask: mask.roll(1, 0)),
    "twice the rate": patched(
        module, "cutoff_mask", lambda plain, *given: plain(*given[:-2], 2 * given[-2], given[-1])
    ),
}


def test_a_spoilt_augmentation_is_caught(runs: Runs, monkeypatch: Patch) -> None:
    _, context, modules = runs.start("consert")
    modules.double().eval()
    for name, spoil in SPOILT.items():
        with monkeypatch.context() as patch:
            spoil(None, patch)
            assert disagreeing_embeddings(context, ("feature_cutoff", "shuffle")) > 1e-3, name
    assert disagreeing_embeddings(context, ("feature_cutoff", "shuffle")) < 1e-12


def test_views_swapped_are_caught(runs: Runs, monkeypatch: Patch) -> None:
    _, context, modules = runs.start("consert")
    modules.double().eval()
    plain = augmented
    monkeypatch.setitem(
        globals(), "augmented", lambda b, n, names, *rest: plain(b, n, names[::-1], *rest)
    )
    assert disagreeing_embeddings(context, ("feature_cutoff", "shuffle")) > 1e-3


def test_a_cut_takes_its_share_rounded_down() -> None:
    draw, lengths = torch.Generator().manual_seed(0), [9, 4, 5]
    shares = {"feature_cutoff": [6, 6, 6], "token_cutoff": [1, 0, 1], "dropout": [57, 25, 32]}
    for name, expected in shares.items():
        mask = module.cutoff_mask(name, lengths, 9, 32, 0.2, draw)
        assert mask is not None
        if name == "dropout":
            assert all((row[n:] == 1).all() for row, n in zip(mask, lengths, strict=True))
        assert (mask == 0).sum((1, 2)).tolist() == expected


@pytest.mark.parametrize(
    "settings", ["first=plain,second=plain", "first=feature_cutoff,second=dropout,rate=0"]
)
def test_without_augmentation_the_views_are_the_plain_vectors_bit_for_bit(
    runs: Runs, settings: str
) -> None:
    method, context, _ = runs.start(f"consert[{settings}]")
    torch.set_num_threads(1)  # as in a training: sums of more threads differ in their last bits
    found: list[Sequence[Tensor]] = []
    method.loss = lambda first, second: found.append((first, second)) or first.sum()
    method.step_loss(context, step(0, [0, 1, 2]))
    tokens = context.tokens()[:3]
    plain = context.embed([tokens, tokens]).vectors
    assert torch.equal(found[0][0], plain[0])
    assert torch.equal(found[0][1], plain[1])
    # The backbone's dropout is off. A row's last bits may depend on its place among the rows of a
    # product.
    torch.testing.assert_close(found[0][0], found[0][1])


def test_hooks_are_gone_after_a_step_and_after_an_error(runs: Runs) -> None:
    method, context, _ = runs.start("consert")
    texts = ["a man sleeps", "the old dog"]
    expected = method.encoder(context).encode(texts)
    method.step_loss(context, step(0, [0, 1, 2]))
    assert np.array_equal(method.encoder(context).encode(texts), expected)
    with (
        pytest.raises(ZeroDivisionError),
        augmented(context.backbone, [3], ("shuffle", "plain"), 0.2, [None, None]),
    ):
        raise ZeroDivisionError
    assert np.array_equal(method.encoder(context).encode(texts), expected)


def test_draws_are_of_the_step_and_differ_between_sentences_and_views(runs: Runs) -> None:
    method, context, _ = runs.start("consert[first=shuffle]")
    loss = [method.step_loss(context, step(index, [0, 1, 2])).item() for index in (0, 0, 1)]
    torch.manual_seed(123)
    assert loss[0] == loss[1] == method.step_loss(context, step(0, [0, 1, 2])).item()
    assert loss[2] != loss[0]
    orders = module.shuffled([30, 30], 30, step(0, [0]).generator("consert-0"))
    assert not torch.equal(orders[0], orders[1])
    assert not torch.equal(
        orders, module.shuffled([30, 30], 30, step(0, [0]).generator("consert-1"))
    )


@pytest.mark.parametrize("setting", ["paper", "official"])
def test_a_step_is_the_loss_of_both_views(runs: Runs, setting: str) -> None:
    """Each view of each sentence alone, its embeddings made by the oracle."""
    method, context, modules = runs.start(
        f"consert[second=plain,first=token_cutoff,rate=0.4]@{setting}"
    )
    modules.double()
    rows = [0, 7, 3]
    tokens = [context.tokens()[row] for row in rows]
    draw = named_generator(1, "consert-0", 5)
    views: list[list[Tensor]] = [[], []]
    for row in tokens:
        for place, gone in enumerate(
            (cut_elements("token_cutoff", len(row), 32, 0.4, draw), set())
        ):
            states = [embedded(context, row, range(len(row)), gone)[None]]
            for block in context.backbone.encoder.layer:
                output = block(states[-1])
                states.append(output if torch.is_tensor(output) else output[0])
            top = (states[-1] + states[-2]) / 2 if setting == "paper" else states[-1]
            views[place].append(top[0].mean(0).detach())
    expected = nt_xent(*(scalars(torch.stack(view)) for view in views), 0.1)
    loss = method.step_loss(context, step(5, rows))
    assert loss.item() == pytest.approx(
        expected.item() * (1 if setting == "paper" else 0.3), rel=1e-6
    )


# Settings and refusals


def test_a_backbone_with_other_embeddings_is_refused(runs: Runs) -> None:
    method, context, _ = runs.start("consert")
    del context.backbone.embeddings.position_embeddings
    with pytest.raises(Refusal, match="the embeddings of BERT and RoBERTa"):
        method.prepare(context)


# Its corpus


def test_the_corpus_has_the_sentences_of_all_sts_sets(tiny_data: Path, tmp_path: Path) -> None:
    found = sts_sentences(tiny_data)
    # Five years of two subsets and three splits of two sets, 12 pairs each; an unscored pair in
    # each of the subsets.
    assert len(found) == 2 * (5 * 2 * 13 + 2 * 3 * 12)
    assert found.count("blank") == 20
    for task in STS_TASKS:
        for split in sts.SPLITS if task in ("STS-B", "SICK-R") else ("test",):
            assert set(sts.read(task, tiny_data, split).sentences()) <= set(found)
    path = paths.corpus_file("sts", tmp_path, str(tiny_data))
    assert path.is_relative_to(tmp_path)
    assert read_sentences(path) == found
    assert corpus_identity(path)["name"] == "sts"
    before = path.stat().st_mtime_ns
    # Not written again.
    assert paths.corpus_file("sts", tmp_path, str(tiny_data)).stat().st_mtime_ns == before
    path.write_text("stale\n")
    assert read_sentences(paths.corpus_file("sts", tmp_path, str(tiny_data))) == found


@pytest.mark.slow
@pytest.mark.skipif("BENCH_DATA" not in os.environ, reason="BENCH_DATA is not set")
def test_the_real_corpus_has_as_many_sentences_as_the_released_code_reads() -> None:
    assert len(sts_sentences(Path(os.environ["BENCH_DATA"]))) == 89_192


@pytest.mark.slow
def test_it_is_trained_on_its_corpus_and_scored_with_its_pooler(train_tiny: Train) -> None:
    ((text, (given, _)),) = TRAININGS.items()
    folder = train_tiny(text, **given)
    assert load_encoder(folder / "encoder").pooler == "avg_top2"  # type: ignore[attr-defined]
    provenance = read_json(folder / "outcome.json")["provenance"]
    assert [corpus["name"] for corpus in provenance["corpora"]] == ["sts"]


# What the tests of all methods need to know of this one (`outside.of_methods`).

PUBLISHED = {
    "corpus": "sts", "batch_size": 96, "learning_rate": 5e-7, "patience": 10, "decay_biases": False,
    "epochs": 10, "select_every": 200, "dropout": 0.0, "first": "feature_cutoff",
    "second": "shuffle", "rate": 0.2, "scale": 0.3,
}  # fmt: skip
PUBLISHED_LARGE = {
    "epochs": 25, "select_every": 100, "dropout": None, "first": "plain", "second": "shuffle",
    "scale": 0.3,
}  # fmt: skip
VALUES: list[tuple[str, str, dict[str, Any]]] = [
    *(("consert@official", name, {**PUBLISHED, "pooler": "avg", "max_length": 67})
      for name in (BERT, ROBERTA)),
    *(("consert@paper", name,
       {**PUBLISHED, "pooler": "avg_top2", "scale": 1.0, "max_length": 64})
      for name in (BERT, ROBERTA)),
    *(("consert@official", name, PUBLISHED_LARGE) for name in (LARGE, ROBERTA_LARGE)),
    *(("consert@paper", name, {"epochs": 25, "dropout": 0.0, "first": "feature_cutoff"})
      for name in (LARGE, ROBERTA_LARGE)),
]  # fmt: skip
OUT_OF_LIMITS = {
    "consert": "temperature=0 rate=1.0 rate=-0.1 scale=0 first=cutoff second=noise",
}
TRAININGS: dict[str, tuple[dict[str, Any], int]] = {
    "consert": ({"batch_size": 64, "epochs": 1}, 7),
}
