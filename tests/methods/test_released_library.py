"""What ConSERT and IS-BERT take from Sentence-Transformers 0.3: how sentences are cut, and the
weights that decay (`tests.oracles.library`)."""

from pathlib import Path
from typing import Any

import pytest
import torch

from bench.models.encoder import tokenized
from bench.models.transformer import load_backbone
from bench.registry.backbones import TOY_FOLDER
from bench.runs.run import Recipe
from bench.training.context import RunContext
from bench.training.optimiser import learning_rate, make_optimiser, set_learning_rate
from tests.methods.outside import Runs, run_of
from tests.oracles.library import kept_pieces, trained_weights

STEPS = 6
# Each with `max_seq_length` and epsilon of its script: scripts/unsup-consert-base.sh and
# main.py:291 of ConSERT; the library's defaults.
RELEASED: dict[str, tuple[int, float]] = {
    "consert@official": (64, 1e-6),
    "is-bert@official": (128, 1e-7),
}


def sentences_of(lengths: list[int]) -> list[str]:
    return [" ".join(["the"] * length) for length in lengths]


@pytest.mark.parametrize("text", RELEASED)
@pytest.mark.parametrize("more", [-2, 0, 1, 2, 9])
def test_sentences_are_cut_as_released(text: str, more: int, tmp_path: Path) -> None:
    longest, _ = RELEASED[text]
    lengths = [1, longest - 3, longest + more]
    _, tokenizer = load_backbone(TOY_FOLDER / "toy-bert")
    rows = tokenized(sentences_of(lengths), tokenizer, run_of(text).recipe.max_length, tmp_path)
    assert [len(row) for row in rows] == kept_pieces(lengths, longest, positions=512)


def test_a_backbone_with_fewer_positions_cuts_there(tmp_path: Path) -> None:
    """toy-bert has 128."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(sentences_of([3, 140])))
    run = run_of("is-bert", "toy-bert", corpus=str(corpus))
    rows = RunContext(run, tmp_path, "cpu").tokens()
    assert [len(row) for row in rows] == kept_pieces([3, 140], 128, positions=128)


def weights_differ(modules: Any, recipe: Recipe, epsilon: float) -> float:
    """The largest difference of a weight from the released one, in units of its change."""
    draw = torch.Generator().manual_seed(6)
    named = list(modules.named_parameters())
    starts = [weight.detach().clone() for _, weight in named]
    gradients = [
        [1e-4 * torch.randn(start.shape, generator=draw, dtype=start.dtype) for start in starts]
        for _ in range(STEPS)
    ]
    rates = [learning_rate(index, STEPS, recipe) for index in range(STEPS)]
    optimiser, worst = make_optimiser([weight for _, weight in named], recipe), 0.0
    for index, rate in enumerate(rates):
        set_learning_rate(optimiser, index, rate, recipe)
        for (_, weight), gradient in zip(named, gradients[index], strict=True):
            weight.grad = gradient.clone()
        optimiser.step()
    for place, (name, weight) in enumerate(named):
        given = [row[place] for row in gradients]
        expected = trained_weights(name, starts[place], given, rates, epsilon)
        change = (expected - starts[place]).abs().max()
        worst = max(worst, ((weight.detach() - expected).abs().max() / change).item())
        weight.data.copy_(starts[place])
    return worst


@pytest.mark.parametrize("text", RELEASED)
def test_the_optimiser_is_the_released_one(text: str, runs: Runs) -> None:
    """Of all weights by their names: of the backbone, and of IS-BERT's convolutions."""
    _, context, modules = runs.start(text)
    modules.double()
    recipe, epsilon = context.run.recipe, RELEASED[text][1]
    assert weights_differ(modules, recipe, epsilon) < 1e-6
    for field, other in {
        "decay_biases": True, "weight_decay": 0.0, "epsilon": 1e-8, "bias_correction": True,
    }.items():  # fmt: skip
        changed = recipe.changed(**{field: other})
        assert weights_differ(modules, changed, epsilon) > 1e-4, field
