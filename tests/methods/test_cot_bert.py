"""CoT-BERT: a step against an oracle of one sentence at a time; its limits and its texts."""

import pytest
import torch

from bench.models.load import load_encoder
from bench.registry.backbones import TOY_FOLDER
from methods.promptbert import Prompt
from tests.oracles import prompts as oracle
from tests.oracles.edits import Mutation, each, edits
from tests.support.method_runs import (
    BERT,
    ROBERTA,
    ROWS,
    assert_same_step,
    run_of,
    step,
    step_disagreement,
    text_of,
    weights_of,
)

ONE_MASK = {
    "template": "the two <sentence> is a <mask> again",
    "template_2": "a <sentence> sees <mask>",
}
TEMPLATES = {
    "template": "the two <sentence> is a <mask> so a <mask> again",
    "template_2": "a <sentence> sees <mask> again <mask>",
    "template_3": "the old <sentence> sees two <mask> so <mask> birds",
}


def started(runs, name="cot-bert", **hyper):
    return runs.exact(text_of(name, **hyper), max_length=12)


def vector(context, hyper, template, text):
    """The mask's state, less the state around padding, through the head."""
    words = oracle.verdict_legend(text, context.tokenizer, 10)
    result = oracle.around(context, template, words)
    if hyper.denoise:
        result = result - oracle.around_padding(context, template, len(words), hyper.aligned)
    return context.head(result)


def expected_loss(context, hyper, rows):
    sentences = [context.sentences()[row] for row in rows]
    size, parts = -(-len(rows) // hyper.split), []
    for start in range(0, len(rows), size):
        views = [
            [vector(context, hyper, template, text) for text in sentences[start : start + size]]
            for template in (hyper.template, hyper.template_2, hyper.template_3)
            if template is not None
        ]
        negatives = views[2] if len(views) == 3 else []
        parts.append(oracle.loss(*views[:2], negatives, hyper.temperature, hyper.cross))
    return torch.stack(parts).mean()


def disagreement(method, context, rows=ROWS):
    loss = method.step_loss(context, step(0, rows))
    expected = expected_loss(context, method.hyper, rows)
    return step_disagreement(loss, expected, weights_of(context))


@pytest.mark.parametrize(
    ("tiny_backbone", "hyper", "rows"),
    [
        ("roberta", {}, ROWS),
        ("roberta", {"aligned": "true", "temperature": 1.0}, ROWS),
        ("bert", {}, ROWS),
        ("bert", {}, ROWS[:1]),
        ("bert", {"split": 2}, ROWS),
        ("bert", {"split": 2}, ROWS[:3]),  # two and one; the parts weigh the same
        ("bert", {"cross": "false"}, ROWS),
        ("bert", {"template_3": "none"}, ROWS),
        ("bert", {"denoise": "false"}, ROWS),
    ],
    indirect=["tiny_backbone"],
)
def test_equals_the_oracle(runs, hyper, rows):
    assert disagreement(*started(runs, **{**TEMPLATES, **hyper}), rows) < 1e-6


MUTATIONS: dict[str, Mutation] = {
    **edits("methods.promptbert:Prompt.read", {
        "the first mask": (
            "-1 - behind[::-1].index(tokenizer.mask_token_id)",
            "behind.index(tokenizer.mask_token_id) - len(behind)"),
    }),
    **edits("methods.cot_bert:CoTBERT.Hyper.templates", {
        "negative and positive exchanged": (
            "super().templates + added", "[super().templates[0], *added, super().templates[1]]"),
    }),
    **edits("methods.cot_bert:CoTBERT._template_alone", {
        "the template alone without padding": (
            "self.hyper.denoise_by == 'positions'", "self.hyper.denoise_by"),
    }),
    **edits("methods.cot_bert:CoTBERT.negatives", {
        "crossed without gradient": (
            "cosine(self.pairs(views)[1], opposites)",
            "cosine(self.pairs(views)[1], opposites).detach()"),
    }),
}  # fmt: skip


@each(MUTATIONS)
@pytest.mark.parametrize("tiny_backbone", ["bert"], indirect=True)
def test_a_mutation_is_caught(mutation, runs, monkeypatch):
    mutation.apply(monkeypatch)
    assert disagreement(*started(runs, **TEMPLATES)) > 1e-6


def test_without_what_is_new_it_is_promptbert_bit_for_bit(runs):
    hyper = {"template_3": "none", "denoise_by": "positions", "split": 1}
    plain, result = started(runs, "promptbert", **ONE_MASK), started(runs, **ONE_MASK, **hyper)
    assert_same_step(step(0, ROWS), plain, result)


# Texts of the released code: code-for-RoBERTa/train.py:503-505, 660-700 and evaluation.py:222-228.
RELEASED = (
    "*cls*_The_sentence_of_'_*sent_0*_'_means_*mask*_,_so_it_can_be_summarized_as_*mask*_._*sep+*",
    "*cls*_The_sentence_:_'_*sent_0*_'_means_*mask*_,_so_it_can_be_summarized_as_*mask*_._*sep+*",
    "*cls*_The_sentence_:_'_*sent_0*_'_does_not_mean_*mask*_,"
    "_so_it_cannot_be_summarized_as_*mask*_._*sep+*",
)


def released_parts(template, tokenizer):
    text = template.replace("*mask*", tokenizer.mask_token).replace("*sep+*", "")
    before, behind = text.replace("*cls*", "").replace("*sent_0*", " ").split(" ")
    before, behind = before.replace("_", " ").strip(), behind.replace("_", " ")
    return tokenizer.encode(before)[:-1], tokenizer.encode(behind)[1:]


def test_on_roberta_templates_are_the_released_ones():
    tokenizer = load_encoder(TOY_FOLDER / "toy-roberta", pooler="avg").tokenizer
    templates = run_of("cot-bert@official", ROBERTA).build().hyper.templates
    for template, released in zip(templates, RELEASED, strict=True):
        prompt = Prompt.read(template, tokenizer)
        assert ([*prompt.before], [*prompt.behind]) == released_parts(released, tokenizer)


def test_sentences_of_one_length_share_the_noise_and_dropout_of_their_template(runs):
    method, context = started(runs, **TEMPLATES)
    torch.nn.ModuleList(context.modules()).train()
    prompt = method.prompts[0]
    wrapped = prompt.around([context.tokens()[row][:length] for row in ROWS for length in (3, 4)])
    noise = method._alone(context, prompt, wrapped)(-1)
    assert all(torch.equal(noise[place], noise[place % 2]) for place in range(8))
    assert not torch.allclose(noise[0], noise[1])


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

PUBLISHED = {
    "batch_size": 256, "learning_rate": 1e-5, "max_length": 34, "epochs": 1, "drop_last": True,
    "select_every": 125,
}  # fmt: skip
POSITIVE = 'The sentence : "<sentence>" means <mask> , so it can be summarized as <mask> .'
VALUES = [
    ("cot-bert@official", BERT, {**PUBLISHED, "template_2": POSITIVE}),
    ("cot-bert@official", ROBERTA, PUBLISHED),
    ("cot-bert@paper", BERT, PUBLISHED),
    ("cot-bert@paper", ROBERTA, PUBLISHED),
]
OUT_OF_LIMITS = {
    "cot-bert": "split=0 denoise_by=words",
}
