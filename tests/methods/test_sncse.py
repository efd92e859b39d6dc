"""SNCSE: the released code's loss on the same vectors, its texts, its limits."""

import pytest
import torch

from bench.utils.errors import UserError
from methods.base import Refusal, Shape, Step, Views
from methods.sncse import SNCSE, ended
from tests.oracles.edits import Mutation, each, edits
from tests.support.method_cases import gradients
from tests.support.method_runs import (
    BERT,
    LARGE,
    ROBERTA,
    ROBERTA_LARGE,
    Runs,
    assert_same_step,
    step,
)

TEMPLATES = "template=the <sentence> is <mask> .,template_2=a <sentence> was <mask> ."
# Sense-GVT/SNCSE@faa013e, SNCSE/simcse/models.py: cl_forward on `vectors()` in float64, by alpha,
# beta and lambda; and the norm of its gradient with respect to them.
RELEASED = {
    (0.1, 0.3, 1e-3): (0.0001825910826281944, 0.0011188031461172921),
    (0.1, 0.3, 1.0): (0.10333531571186998, 0.2307576372105802),
    (0.0, 0.02, 2.0): (0.07468569933184876, 0.46072138365660575),
}


def vectors():
    """Four sentences, and near them their positives and negations, of width 5."""
    cells = torch.arange(3 * 4 * 5, dtype=torch.float64).view(3, 4, 5)
    values = (cells**2).sin()
    return (values[:1] + 0.5 * values).requires_grad_()


def disagreement(values):
    alpha, beta, weight = values
    method = SNCSE(SNCSE.Hyper(alpha=alpha, beta=beta, weight=weight), Shape(5, 4))
    leaves = vectors()
    views = Views([*leaves[:2]], lambda layer: (), {"sncse": [leaves[2]]})
    loss, (gradient,) = gradients(method.loss(views, Step(0, 1, 4, 1)), [leaves])
    wanted, norm = RELEASED[values]
    return max(abs(loss.item() / wanted - 1), abs(gradient.norm().item() / norm - 1))


@pytest.mark.parametrize("values", RELEASED)
def test_the_loss_is_the_released_codes(values):
    assert disagreement(values) < 1e-9


MUTATIONS: dict[str, Mutation] = edits("methods.sncse:SNCSE.loss", {
    "the margin's sign": ("gap + self.hyper.alpha", "self.hyper.alpha - gap"),
    "one side alone": ("F.relu(-gap - self.hyper.beta)", "0"),
    "beside the positive": ("F.cosine_similarity(anchors, opposites)",
                            "F.cosine_similarity(positives, opposites)"),
})  # fmt: skip


@each(MUTATIONS)
def test_a_mutation_is_caught(mutation, monkeypatch):
    mutation.apply(monkeypatch)
    assert max(map(disagreement, RELEASED)) > 1e-6


def started(runs, folder, corpus, negations, text="weight=0.5"):
    """SNCSE on a corpus with a file of negations."""
    (folder / "corpus.txt").write_text("".join(f"{line}\n" for line in corpus))
    file = folder / "negations.txt"
    file.write_text("".join(f"{line}\n" for line in negations))
    runs = Runs(runs.backbone, folder / "corpus.txt", runs.data, folder)
    return runs.exact(f"sncse[negations={file},{TEMPLATES},{text}]")


@pytest.mark.parametrize("tiny_backbone", ["bert"], indirect=True)
def test_its_sequences_are_the_released_ones(runs, tmp_path):
    """A text without an end gets one, and as its negation "Not" before it; 32 pieces at most."""
    long = " ".join(["a"] * 40)
    corpus = ["the cat sees a dog .", "a red river", f"{long} .", "two birds !"]
    negations = ["the cat not sees a dog", "not a red river", f"{long} not .", "two birds not !"]
    method, context = started(runs, tmp_path, corpus, negations)
    rows = step(0, range(4))
    (first, second), (opposites,) = (
        method.views(context, (), rows),
        method.extras(context, (), rows),
    )
    assert first == second

    def texts(prompt, tokens):
        return list(map(context.tokenizer.decode, method.prompts[prompt].around(tokens)))

    longest = " ".join(["a"] * (32 - 6))
    assert texts(0, first) == [  # the tiny vocabulary has no marks
        f"[CLS] the {text} is [MASK] [UNK] [SEP]"
        for text in ("the cat sees a dog [UNK]", "a red river [UNK]", longest, "two birds [UNK]")
    ]
    assert texts(1, opposites) == [
        f"[CLS] a {text} was [MASK] [UNK] [SEP]"
        for text in (
            "the cat not sees a dog [UNK]", "not a red river [UNK]", longest,
            "two birds not [UNK]",
        )
    ]  # fmt: skip


def test_a_step_compares_the_first_view_with_the_negation(runs, tmp_path):
    corpus, negations = ["the cat sleeps .", "two birds see a road ."], ["a dog .", "the house ."]
    method, context = started(runs, tmp_path, corpus, negations)
    rows = step(0, range(2))
    own, opposites = method.views(context, (), rows)[0], method.extras(context, (), rows)[0]

    def heads(prompt, tokens):
        states, mask = context.states(prompt.around(tokens))
        return context.head(prompt.at_mask(states[-1], mask))

    first, second = method.prompts
    views = Views([heads(first, own), heads(second, own)], lambda layer: (),
                  {"sncse": [heads(second, opposites)]})  # fmt: skip
    result = method.step_loss(context, rows)
    assert result.item() == pytest.approx(method.loss(views, rows).item(), rel=1e-9)


def test_without_negations_it_is_promptbert_bit_for_bit(runs, tmp_path):
    corpus = ["the cat sees a dog .", "two birds !", "a man runs ."]
    result = started(runs, tmp_path, corpus, [], "weight=0")
    plain = Runs(runs.backbone, tmp_path / "corpus.txt", runs.data, tmp_path)
    promptbert = plain.exact(f"promptbert[denoise=false,{TEMPLATES}]")
    assert_same_step(step(0, range(3)), result, promptbert)


def test_too_few_negations_and_none_are_refused(runs, tmp_path):
    with pytest.raises(Refusal, match="has 1 negations of 2 sentences; write one a line"):
        started(runs, tmp_path, ["a cat .", "a dog ."], ["no cat ."])
    with pytest.raises(UserError, match="soft-negatives"):
        runs.exact(f"sncse[{TEMPLATES}]")


def test_ends():
    texts = ["a cat", "a cat.", "a cat )", "a cat . ", " "]
    assert list(map(ended, texts)) == ["a cat .", *texts[1:]]


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

SHARED = {"epochs": 1, "precision": "float32", "alpha": 0.1, "beta": 0.3, "denoise": False}
BASE, BIG = ({"batch_size": size, "learning_rate": rate, **SHARED}
             for size, rate in ((256, 1e-5), (128, 5e-6)))  # fmt: skip
VALUES = [
    (f"sncse@{setting}", backbone, {**values, "weight": weight})
    for setting in ("official", "paper")
    for backbone, values, weight in (
        (BERT, BASE, 1e-3), (LARGE, BIG, 1e-3), (ROBERTA, BASE, 5e-4), (ROBERTA_LARGE, BIG, 5e-4),
    )
]  # fmt: skip
OUT_OF_LIMITS = {"sncse": "alpha=-1 beta=-1 weight=-1"}
WITHOUT_EFFECT = {
    "alpha": ("weight=0", 0.1, 0.2),
    "beta": ("weight=0", 0.3, 0.4),
    "negations": ("weight=0", "world", "sts"),
}
