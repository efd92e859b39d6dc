"""DeCLUTR's spans and optimiser against the released code, restated in `tests.oracles.spans`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import methods.declutr as declutr
from bench.models.transformer import load_backbone
from bench.registry.backbones import TOY_FOLDER
from bench.runs.run import Recipe
from bench.training.context import RunContext
from bench.training.optimiser import learning_rate, make_optimiser, set_learning_rate
from methods.base import Step
from tests.methods.outside import Patch, run_of
from tests.oracles import spans as oracle

HYPER = {"anchors": 2, "positives": 2, "shortest": 3, "longest": 8}
TEXT = "declutr[anchors=2,document=32,language=0,longest=8,positives=2,shortest=3]"
STEPS = 40


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six documents with marks that decoding joins to the word before, and with odd spaces."""
    sentences = [
        "the old  man 's dog sees two birds , now .",
        "They do n't sleep ?",
        "it is 'm \u00a0we !",
    ]
    path = tmp_path_factory.mktemp("written") / "corpus.txt"
    path.write_text("".join(f"{sentences[i * i % 3]} {i}\n" for i in range(36)))
    rows = ["first_line\tlines", *(f"{1 + 6 * i}\t6" for i in range(6))]
    path.with_name("corpus.docs.tsv").write_text("\n".join(rows) + "\n")
    return path


def ids(method: Any, context: RunContext, step: Step) -> list[list[int]]:
    """Token ids of the anchors, then of the positives, as a step encodes them."""
    seen: list[list[int]] = []
    embed = context.embed
    context.embed = lambda views, **given: seen.extend(views[0]) or embed(views, **given)
    method.step_loss(context, step)
    context.embed = embed
    return [list(row) for row in seen]


def released(context: RunContext, step: Step) -> list[list[int]]:
    tokenizer, draw = context.tokenizer, step.generator("spans")
    anchors, positives = [], []
    for item in step.rows:
        rows = context.documents()[item]
        text = " ".join(context.sentences()[row] for row in rows)
        text = " ".join(text.strip().split())  # declutr/common/util.py:1-5
        pieces = tokenizer.tokenize(f" {text.lstrip()}")  # declutr/dataset_reader.py:175-176
        found, around = oracle.released_spans(pieces, **HYPER, draw=draw)
        anchors += found
        positives += around
    longest = HYPER["longest"]
    return [oracle.released_ids(tokenizer, span, longest) for span in (*anchors, *positives)]


def unequal_spans(backbone: str, written: Path, data: Path, folder: Path) -> int:
    run = run_of(TEXT, backbone, written, data)
    context, method = RunContext(run, folder, "cpu"), run.build()
    method.prepare(context)
    assert method.items(context) == 6
    steps = [Step(index, 9, 3, 1, [index % 6, 5, 1]) for index in range(9)]
    return sum(ids(method, context, step) != released(context, step) for step in steps)


@pytest.mark.parametrize("backbone", ["toy-bert", "toy-roberta"])
def test_spans_are_the_released_ones(
    backbone: str, written: Path, tiny_data: Path, tmp_path: Path
) -> None:
    assert unequal_spans(backbone, written, tiny_data, tmp_path) == 0


def _words(context: Any) -> Any:
    for rows in context.documents():
        words = [word for row in rows for word in context.sentences()[row].split()]
        yield context.tokenizer(" ".join(words), add_special_tokens=False)["input_ids"]


MISTAKES: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "no leading space": (declutr, "word_pieces", lambda plain: _words),
    "not cleaned": (declutr, "_text", lambda plain: lambda ids, own: own.decode(ids.tolist())),
    "space stripped": (declutr, "_text", lambda plain: lambda *given: plain(*given).strip()),
    "not cut": (RunContext, "tokenize", lambda plain: lambda own, texts, _: plain(own, texts)),
    "lengths swapped": (declutr, "ANCHOR", lambda plain: declutr.POSITIVE),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_other_spans_are_caught(
    name: str, written: Path, tiny_data: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    place, attribute, change = MISTAKES[name]
    monkeypatch.setattr(place, attribute, change(getattr(place, attribute)))
    assert unequal_spans("toy-roberta", written, tiny_data, tmp_path)


def weights_differ(recipe: Recipe) -> float:
    """The largest difference of a matrix or a bias from the released one, in units of its change.

    Ours decays a weight before the update and theirs after it: a relative 5e-6 of the change.
    """
    draw = torch.Generator().manual_seed(6)
    starts = [torch.randn(*shape, generator=draw, dtype=torch.float64) for shape in [(3, 4), (4,)]]
    # Small, so that epsilon matters.
    gradients = [
        [1e-4 * torch.randn(start.shape, generator=draw, dtype=torch.float64) for start in starts]
        for _ in range(STEPS)
    ]
    weights = [torch.nn.Parameter(start.clone()) for start in starts]
    optimiser, worst = make_optimiser(weights, recipe), 0.0
    for index in range(STEPS):
        set_learning_rate(optimiser, index, learning_rate(index, STEPS, recipe), recipe)
        for weight, gradient in zip(weights, gradients[index], strict=True):
            weight.grad = gradient.clone()
        optimiser.step()
    for place, (weight, decay) in enumerate(zip(weights, (0.1, 0.0), strict=True)):
        given = [row[place] for row in gradients]
        expected = oracle.released_weights(starts[place], given, decay)
        change = (expected - starts[place]).abs().max()
        worst = max(worst, ((weight.detach() - expected).abs().max() / change).item())
    return worst


@pytest.mark.parametrize("setting", ["official", "paper"])
def test_optimiser_and_rates_are_the_released_ones(setting: str) -> None:
    recipe = run_of(f"declutr@{setting}").recipe
    assert weights_differ(recipe) < 1e-5
    for field, other in {
        "epsilon": 1e-8, "bias_correction": True, "schedule": "linear", "warmup": 0.2,
        "weight_decay": 0.0, "decay_biases": True,
    }.items():  # fmt: skip
        assert weights_differ(recipe.changed(**{field: other})) > 1e-4, field


def test_clean_up_is_that_of_transformers_3() -> None:
    """Version 5 leaves it to models of word pieces; the released code has it for RoBERTa, too."""
    _, tokenizer = load_backbone(TOY_FOLDER / "toy-roberta")
    pieces = tokenizer(" the dog 's here .", add_special_tokens=False)["input_ids"]
    assert declutr._text(torch.tensor(pieces), tokenizer) == " the dog's here."
