"""CoT-BERT: a step against an oracle of one sentence at a time; its limits and its texts."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bench.models.load import load_encoder
from bench.registry.backbones import TOY_FOLDER
from bench.training.context import RunContext
from bench.utils.errors import UserError
from methods.base import Negatives, Step, Views
from methods.cot_bert import CoTBERT
from methods.promptbert import Prompt, PromptBERT
from tests.methods.outside import BERT, ROBERTA, Patch, run_of
from tests.methods.test_promptbert import gradients, other_state
from tests.oracles import cot_bert as oracle

TEMPLATES = {
    "template": "the two <sentence> is a <mask> so a <mask> again",
    "template_2": "a <sentence> sees <mask> again <mask>",
    "template_3": "the old <sentence> sees two <mask> so <mask> birds",
}
ROWS = [3, 6, 17, 30]
Make = Callable[..., tuple[RunContext, CoTBERT]]


@pytest.fixture
def make(tiny_backbone: Path, tiny_corpus: Path, tiny_data: Path, tmp_path: Path) -> Make:
    def context_and_method(name: str = "cot-bert", **hyper: Any) -> Any:
        given = {**TEMPLATES, "split": 1, **hyper}
        given = {key: value for key, value in given.items() if value is not None}
        text = f"{name}[{','.join(f'{key}={value}' for key, value in given.items())}]"
        run = run_of(text, tiny_backbone, tiny_corpus, tiny_data, max_length=12)
        context, method = RunContext(run, tmp_path, "cpu"), run.build()
        torch.nn.ModuleList([*context.modules(), method]).double().eval()
        method.prepare(context)
        return context, method

    return context_and_method


def expected_loss(context: RunContext, hyper: Any) -> Tensor:
    texts = (hyper.template, hyper.template_2, hyper.template_3)
    vector = partial(oracle.vector, context, longest=10, aligned=hyper.aligned)
    parts = []
    size = len(ROWS) // hyper.split
    for rows in [ROWS[start : start + size] for start in range(0, len(ROWS), size)]:
        sentences = [context.sentences()[row] for row in rows]
        kinds = [
            [vector(template, text=text, denoise=hyper.denoise) for text in sentences]
            for template in texts
            if template is not None
        ]
        parts.append(oracle.loss(*(*kinds, [])[:3], hyper.temperature, hyper.cross))
    return torch.stack(parts).mean()


def disagreement(context: RunContext, method: CoTBERT) -> float:
    """The largest relative difference in loss or gradient."""
    wanted_loss = expected_loss(context, method.hyper)
    wanted = gradients(context, wanted_loss)
    loss = method.step_loss(context, Step(0, 1, len(ROWS), 1, ROWS))
    found = gradients(context, loss)
    scale = max(one.abs().max().item() for one in wanted)
    worst = max((a - b).abs().max().item() / scale for a, b in zip(found, wanted, strict=True))
    return max(worst, abs(loss.item() / wanted_loss.item() - 1))


@pytest.mark.parametrize(
    "hyper",
    [
        {},
        {"split": 2},
        {"cross": "false"},
        {"template_3": "none"},
        {"denoise": "false"},
        {"aligned": "true", "temperature": 1.0},
    ],
    ids=lambda hyper: "-".join(hyper) or "default",
)
def test_equals_the_oracle(make: Make, hyper: dict[str, Any]) -> None:
    assert disagreement(*make(**hyper)) < 1e-6


def _alone(change: Callable[..., Any]) -> Callable[[Patch], None]:
    plain = CoTBERT._template_alone
    return lambda patch: patch.setattr(
        CoTBERT, "_template_alone", lambda self, *given: change(self, plain, *given)
    )


def _groups(change: Callable[[list[Negatives]], list[Negatives]]) -> Callable[[Patch], None]:
    plain = CoTBERT.negatives
    return lambda patch: patch.setattr(CoTBERT, "negatives", lambda *given: change(plain(*given)))


def _crossed(change: Callable[[Tensor], Tensor]) -> Callable[[Patch], None]:
    return _groups(lambda groups: [groups[0], Negatives(cosines=change(groups[1].cosines))])


def _first_mask(patch: Patch) -> None:
    def read(plain: Any, template: str, tokenizer: Any) -> Prompt:
        prompt = plain(template, tokenizer)
        place = prompt.behind.index(tokenizer.mask_token_id) - len(prompt.behind)
        return Prompt(prompt.before, prompt.behind, place)

    patch.setattr(Prompt, "read", partial(read, Prompt.read))


def _roles(order: tuple[int, ...]) -> Callable[[Patch], None]:
    plain: Any = CoTBERT.Hyper.templates

    def templates(hyper: CoTBERT.Hyper) -> list[str]:
        return [plain.fget(hyper)[place] for place in order]

    return lambda patch: patch.setattr(CoTBERT.Hyper, "templates", property(templates))


def _crossed_with_the_anchor(patch: Patch) -> None:
    patch.setattr(CoTBERT, "pairs", lambda self, views: (views.vectors[1], views.vectors[1]))


def _parts(of: Callable[[Views], list[Views]]) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(Views, "split", lambda self, count: of(self))


def _interleaved(views: Views) -> list[Views]:
    return [
        Views([one[i::2] for one in views.vectors], views.at_layer,
              {name: [one[i::2] for one in lists] for name, lists in views.extras.items()})
        for i in (0, 1)
    ]  # fmt: skip


MUTATIONS: dict[str, tuple[Callable[[Patch], None], dict[str, Any]]] = {
    "the first mask": (_first_mask, {}),
    "anchor and positive exchanged": (_roles((1, 0, 2)), {}),
    "negative and positive exchanged": (_roles((0, 2, 1)), {}),
    "one piece of padding more": (
        _alone(lambda self, plain, context, prompt, lengths: plain(
            self, context, prompt, lengths + 1)), {}),
    "the template alone without padding": (
        _alone(lambda self, plain, context, prompt, lengths: PromptBERT._template_alone(
            self, context, prompt, lengths)), {}),
    "noise added": (other_state(lambda at, layer: -at(layer)), {}),
    "noise without gradient": (other_state(lambda at, layer: at(layer).detach()), {}),
    "crossed without gradient": (_crossed(torch.detach), {}),
    "crossed the other way": (_crossed(torch.t), {}),
    "not crossed": (_groups(lambda groups: groups[:1]), {}),
    "crossed alone": (_groups(lambda groups: groups[1:]), {}),
    "the positive in the anchor's place": (_crossed_with_the_anchor, {}),
    "in one part": (_parts(lambda views: [views]), {"split": 2}),
    "every second sentence": (_parts(_interleaved), {"split": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.parametrize("tiny_backbone", ["bert"], indirect=True)
def test_a_mutation_is_caught(name: str, make: Make, monkeypatch: Patch) -> None:
    mutate, hyper = MUTATIONS[name]
    mutate(monkeypatch)
    assert disagreement(*make(**hyper)) > 1e-6


def test_without_what_is_new_it_is_promptbert_bit_for_bit(make: Make) -> None:
    one_mask = {
        "template": "the two <sentence> is a <mask> again",
        "template_2": "a <sentence> sees <mask>",
    }
    plain = make("promptbert", **one_mask, template_3=None, split=None)
    reduced = make(**one_mask, template_3="none", denoise_by="positions")
    losses = [
        method.step_loss(context, Step(0, 1, 4, 1, ROWS)) for context, method in (plain, reduced)
    ]
    assert torch.equal(*losses)
    found = [
        gradients(context, loss)
        for (context, _), loss in zip((plain, reduced), losses, strict=True)
    ]
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("split", [1, 2])
def test_a_batch_of_one_has_three_candidates(make: Make, split: int) -> None:
    """So its loss is above 0, however the batch is split."""
    context, method = make(split=split)
    loss = method.step_loss(context, Step(0, 1, 4, 1, ROWS[:1]))
    assert 0 < loss.item() < 100
    assert all(torch.isfinite(grad).all() for grad in gradients(context, loss))


def test_an_odd_batch_is_cut_as_by_chunk() -> None:
    """Five sentences in two parts: three and two; the parts weigh the same."""
    vectors = torch.arange(10.0).view(5, 2)
    views = Views([vectors, -vectors], lambda layer: [layer * vectors], {"part": [2 * vectors]})
    first, second = views.split(2)
    assert torch.equal(first.vectors[0], vectors[:3])
    assert torch.equal(second.vectors[1], -vectors[3:])
    assert torch.equal(second.at_layer(3)[0], 3 * vectors[3:])
    assert torch.equal(first.extras["part"][0], 2 * vectors[:3])
    assert len(Views([vectors[:1]], lambda layer: ()).split(2)) == 1


@pytest.mark.parametrize("name", ["gs-infonce", "is-cse", "dclr"])
def test_in_parts_nothing_can_be_added(name: str) -> None:
    run_of(f"cot-bert+{name}@paper")
    with pytest.raises(UserError, match="with split=2 contrasts within parts of a batch"):
        run_of(f"cot-bert[split=2]+{name}@paper")


# Texts of the released code: code-for-RoBERTa/train.py:503-505, 660-700 and evaluation.py:222-228.
RELEASED = (
    "*cls*_The_sentence_of_'_*sent_0*_'_means_*mask*_,_so_it_can_be_summarized_as_*mask*_._*sep+*",
    "*cls*_The_sentence_:_'_*sent_0*_'_means_*mask*_,_so_it_can_be_summarized_as_*mask*_._*sep+*",
    "*cls*_The_sentence_:_'_*sent_0*_'_does_not_mean_*mask*_,"
    "_so_it_cannot_be_summarized_as_*mask*_._*sep+*",
)


def released_parts(template: str, tokenizer: Any) -> list[list[int]]:
    text = template.replace("*mask*", tokenizer.mask_token).replace("*sep+*", "")
    before, behind = text.replace("*cls*", "").replace("*sent_0*", " ").split(" ")
    before, behind = before.replace("_", " ").strip(), behind.replace("_", " ")
    return [tokenizer.encode(before)[:-1], tokenizer.encode(behind)[1:]]


def released_vector(base: Any, text: str) -> np.ndarray:
    template = RELEASED[0].replace("*mask*", base.tokenizer.mask_token).replace("_", " ")
    text = text + "." if text and text[-1] not in ".?\"'" else text
    template = template.replace("*sep+*", "").replace("*cls*", "")
    ids = base.tokenizer(template.replace("*sent 0*", text).strip())["input_ids"]
    with torch.no_grad():
        return oracle.state(base.model, ids, base.tokenizer.mask_token_id).numpy()


def test_on_roberta_templates_and_scores_are_the_released_ones() -> None:
    hyper = run_of("cot-bert@official", "roberta-base").build().hyper
    base = load_encoder(TOY_FOLDER / "toy-roberta", pooler="avg")
    for template, released in zip(hyper.templates, RELEASED, strict=True):
        prompt = Prompt.read(template, base.tokenizer)
        found = [list(prompt.before), list(prompt.behind)]
        assert found == released_parts(released, base.tokenizer)
    method = run_of("cot-bert@official", "roberta-base").build()
    encoder = method.encoder(SimpleNamespace(encoder=lambda: base))
    texts = ["The man sleeps", "the old dog sees two birds .", "'s", "2 dogs ?"]
    expected = np.stack([released_vector(base, text) for text in texts])
    np.testing.assert_allclose(encoder.encode(texts), expected, rtol=1e-4, atol=2e-5)


def test_sentences_of_one_length_share_the_noise_of_their_template(make: Make) -> None:
    """Its dropout, too; without a sentence there is no padding."""
    context, method = make()
    torch.nn.ModuleList(context.modules()).train()
    alone: list[Any] = []
    plain = method._template_alone
    method._template_alone = lambda *given: alone.append(plain(*given)) or alone[-1]
    prompt, row = method.prompts[0], context.tokens()[3]
    inner = [row[1:2], row[2:3], row[1:4], []]
    noise = method._alone(context, prompt, prompt.around([[0, *words, 0] for words in inner]))
    first, same, longer, none = noise(-1)
    assert torch.equal(first, same)
    assert not any(torch.allclose(first, other) for other in (longer, none))
    pad = context.tokenizer.pad_token_id
    assert [tokens.count(pad) for tokens in alone[0][0]] == [0, 1, 3]


# What the tests of all methods need to know of this one (`outside.of_methods`).

PUBLISHED = {
    "batch_size": 256, "learning_rate": 1e-5, "max_length": 34, "epochs": 1, "drop_last": True,
    "select_every": 125, "cross": True, "denoise": True, "denoise_by": "padding",
}  # fmt: skip
VALUES: list[tuple[str, str, dict[str, Any]]] = [
    ("cot-bert@official", BERT,
     {**PUBLISHED, "split": 2, "period": True, "space": False, "aligned": False,
      "template_2":
          'The sentence : "<sentence>" means <mask> , so it can be summarized as <mask> .'}),
    ("cot-bert@official", ROBERTA, {**PUBLISHED, "split": 2, "period": True, "space": True}),
    *(("cot-bert@paper", name,
       {**PUBLISHED, "split": 1, "period": False, "space": False, "aligned": True})
      for name in (BERT, ROBERTA)),
]  # fmt: skip
OUT_OF_LIMITS = {
    "cot-bert": "split=0 denoise_by=words",
}
