"""PromptBERT: a step against an oracle of one sentence at a time, and its Encoder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bench.models.load import load_encoder, save_encoder
from bench.registry.backbones import TOY_FOLDER
from bench.training.context import RunContext
from bench.utils.errors import UserError
from methods.base import Shape, Step, Views
from methods.promptbert import Prompt, PromptBERT, PromptEncoder
from methods.simcse import SimCSE
from tests.methods.cases import HARD, batch
from tests.methods.outside import BERT, ROBERTA, Patch, Train, run_of
from tests.oracles import spans as oracle
from tests.training.test_loop import log_of

FIRST, SECOND = "the two <sentence> is a <mask> again", "a <sentence> sees <mask>"
ROWS = [3, 6, 17, 30]


def text_of(**hyper: Any) -> str:
    keys = {"template": FIRST, "template_2": SECOND, **hyper}
    return f"promptbert[{','.join(f'{key}={value}' for key, value in keys.items())}]"


@pytest.fixture
def make(
    tiny_backbone: Path, tiny_corpus: Path, tiny_data: Path, tmp_path: Path
) -> Callable[..., Any]:
    def context_and_method(
        dtype: torch.dtype = torch.float64, recipe: Any = None, **hyper: Any
    ) -> Any:
        recipe = {"max_length": 12, **(recipe or {})}
        run = run_of(text_of(**hyper), tiny_backbone, tiny_corpus, tiny_data, **recipe)
        context, method = RunContext(run, tmp_path, "cpu"), run.build()
        torch.nn.ModuleList([*context.modules(), method]).to(dtype).eval()
        method.prepare(context)
        return context, method

    return context_and_method


def expected_loss(context: RunContext, hyper: PromptBERT.Hyper) -> Tensor:
    tokenizer, model = context.tokenizer, context.backbone
    first = 2 if model.config.model_type == "roberta" and not hyper.from_zero else 0
    dense = context.training_head[0] if len(list(context.training_head.children())) else None
    views: list[list[Tensor]] = []
    for template in (hyper.template, hyper.template_2):
        parts = template.replace("<mask>", tokenizer.mask_token).split("<sentence>")
        start, *before = tokenizer(parts[0])["input_ids"][:-1]
        *behind, end = tokenizer(parts[1])["input_ids"][1:]
        frame = ([start, *before], [*behind, end])
        views.append([])
        for row in ROWS:
            words = tokenizer(context.sentences()[row])["input_ids"][1:-1][:10]
            vector = oracle.at_mask(model, frame[0], words, frame[1], tokenizer.mask_token_id)
            if hyper.denoise:
                vector = vector - oracle.template_alone(
                    model, *frame, tokenizer.mask_token_id, len(words), first
                )
            views[-1].append(
                vector if dense is None else (dense.weight @ vector + dense.bias).tanh()
            )
    return oracle.info_nce(*views, hyper.temperature)


def gradients(context: RunContext, loss: Tensor) -> tuple[Tensor, ...]:
    weights = [weight for module in context.modules() for weight in module.parameters()]
    return torch.autograd.grad(loss, weights, materialize_grads=True)


def disagreement(context: RunContext, method: PromptBERT, floor: float = 1e-3) -> float:
    """The largest relative difference in loss or gradient."""
    expected = expected_loss(context, method.hyper)
    wanted = gradients(context, expected)
    loss = method.step_loss(context, Step(0, 1, 4, 1, ROWS))
    found = gradients(context, loss)
    scale = max(grad.abs().max().item() for grad in wanted)
    worst = max(
        (one - other).abs().max().item() / scale for one, other in zip(found, wanted, strict=True)
    )
    return max(worst, abs(loss.item() - expected.item()) / max(abs(expected.item()), floor))


@pytest.mark.parametrize(
    "hyper",
    [
        {},
        {"denoise": False},
        {"temperature": 0.001},
        {"temperature": 1.0},
        {"template_2": FIRST},
        {"from_zero": "true"},
    ],
    ids=lambda hyper: "-".join(hyper) or "default",
)
def test_equals_the_oracle(make: Callable[..., Any], hyper: dict[str, Any]) -> None:
    assert disagreement(*make(**hyper)) < 1e-6


def test_equals_the_oracle_in_float32_and_without_head(make: Callable[..., Any]) -> None:
    assert disagreement(*make(torch.float32), floor=0.05) < 1e-4
    assert disagreement(*make(recipe={"pooler": "cls_before_pooler"})) < 1e-6


def _alone(change: Callable[[Any, Tensor, Tensor], Any]) -> Callable[[Patch], None]:
    """Other positions (k, length) of the template alone, of the prompt and the lengths."""
    plain = Prompt.alone

    def alone(self: Prompt, lengths: Tensor, *given: Any) -> Any:
        tokens, positions = plain(self, lengths, *given)
        return tokens, change(self, lengths, positions)

    return lambda patch: patch.setattr(Prompt, "alone", alone)


def other_state(change: Callable[[Any, int], Tensor]) -> Callable[[Patch], None]:
    """Another state at the mask of the template alone, by the function of the layer and a layer."""
    plain = PromptBERT._alone

    def alone(*given: Any) -> Callable[[int], Tensor]:
        at = plain(*given)
        return lambda layer: change(at, layer)

    return lambda patch: patch.setattr(PromptBERT, "_alone", alone)


def _mask_place(shift: int) -> Callable[[Patch], None]:
    def at_mask(self: Prompt, states: Tensor, mask: Tensor) -> Tensor:
        return states[torch.arange(len(states)), mask.sum(1) + self.mask + shift]

    return lambda patch: patch.setattr(Prompt, "at_mask", at_mask)


def _prompts(change: Callable[[list[Prompt]], list[Prompt]]) -> Callable[[Patch], None]:
    plain = PromptBERT.prepare

    def prepare(self: PromptBERT, context: Any) -> None:
        plain(self, context)
        self.prompts = change(self.prompts)

    return lambda patch: patch.setattr(PromptBERT, "prepare", prepare)


MUTATIONS: dict[str, Callable[[Patch], None]] = {
    "positions of the template side by side": _alone(
        lambda prompt, lengths, places: torch.arange(len(prompt)).expand(len(lengths), -1)
    ),
    "positions one too far": _alone(lambda prompt, lengths, places: places + 1),
    "the gap one place early": _alone(
        lambda prompt, lengths, places: (
            places + (torch.arange(len(prompt)) == len(prompt.before) - 1) * lengths.unsqueeze(1)
        )
    ),
    "noise without gradient": other_state(lambda at, layer: at(layer).detach()),
    "noise added": other_state(lambda at, layer: -at(layer)),
    "noise of another length": other_state(lambda at, layer: at(layer).roll(1, 0)),
    "noise of the layer below": other_state(lambda at, layer: at(layer - 1)),
    "no noise": other_state(lambda at, layer: 0 * at(layer)),
    "beside the mask": _mask_place(1),
    "one template for both": _prompts(lambda prompts: prompts[:1] * 2),
    "templates exchanged": _prompts(lambda prompts: prompts[::-1]),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(
    name: str,
    tiny_bert: Path,
    tiny_corpus: Path,
    tiny_data: Path,
    tmp_path: Path,
    monkeypatch: Patch,
) -> None:
    MUTATIONS[name](monkeypatch)
    run = run_of(text_of(), tiny_bert, tiny_corpus, tiny_data, max_length=12)
    context, method = RunContext(run, tmp_path, "cpu"), run.build()
    torch.nn.ModuleList(context.modules()).double().eval()
    method.prepare(context)
    assert disagreement(context, method) > 1e-6


def test_an_empty_sentence_is_the_template_alone(
    make: Callable[..., Any], monkeypatch: Patch
) -> None:
    """Without dropout nothing is left of it."""
    context, method = make()
    tokens = list(context.tokens())
    tokens[5] = [tokens[5][0], tokens[5][-1]]
    monkeypatch.setattr(context, "tokens", lambda: tokens)
    seen: list[Views] = []
    method.loss = lambda views, step: seen.append(views) or torch.zeros(())
    method.step_loss(context, Step(0, 1, 4, 1, [5, 6]))
    assert all(view[0].abs().max() < 1e-12 < view[1].abs().max() for view in seen[0].vectors)


@pytest.mark.parametrize("kind", ["random", "close", *HARD])
def test_its_loss_is_simcses_bit_for_bit(kind: str) -> None:
    """What differs from SimCSE are the vectors alone."""
    first, second = batch(kind, 0).views
    views = Views((first, second), lambda layer: (first, second))
    losses = [
        cls(cls.Hyper(), Shape(5, 4)).loss(views, Step(0, 1, 4, 1)) for cls in (PromptBERT, SimCSE)
    ]
    assert torch.equal(*losses)


def test_lower_layers_are_seen_by_parts_that_join(make: Callable[..., Any]) -> None:
    context, method = make()
    seen: list[Views] = []
    method.loss = lambda views, step: seen.append(views) or torch.zeros(())
    method.step_loss(context, Step(0, 1, 4, 1, ROWS))
    (views,) = seen
    tokenizer, prompt = context.tokenizer, method.prompts[1]
    row = prompt.around(context.tokens())[ROWS[3]]
    tokens, positions = prompt.alone(
        torch.tensor([len(row) - len(prompt)]), context.backbone.config
    )
    for layer in (1, 2, 3, 4):

        def state(ids: list[int], layer: int = layer, **inputs: Any) -> Tensor:
            states = context.backbone(
                input_ids=torch.tensor([ids]), output_hidden_states=True, **inputs
            ).hidden_states
            return states[layer][0, ids.index(tokenizer.mask_token_id)]

        expected = context.head(state(row) - state(tokens[0], position_ids=positions))
        torch.testing.assert_close(views.at_layer(layer)[1][3], expected)


# The Encoder

TEXTS = ["a man sleeps", "the old dog sees two birds .", "", "two", "a cat [MASK] <mask> again"]
TEXTS += ["two birds run"]


def encoded(
    context: RunContext, text: str, template: str, denoise: bool, from_zero: bool = False
) -> np.ndarray:
    tokenizer, model = context.tokenizer, context.backbone
    parts = template.replace("<mask>", tokenizer.mask_token).split("<sentence>")
    before, behind = tokenizer(parts[0])["input_ids"][:-1], tokenizer(parts[1])["input_ids"][1:]
    words = tokenizer(text)["input_ids"][1:-1]
    with torch.no_grad():
        vector = oracle.at_mask(model, before, words, behind, tokenizer.mask_token_id)
        if denoise:
            first = 2 if model.config.model_type == "roberta" and not from_zero else 0
            vector = vector - oracle.template_alone(
                model, before, behind, tokenizer.mask_token_id, len(words), first
            )
    return vector.numpy()


@pytest.mark.parametrize(("denoise", "from_zero"), [(False, False), (True, False), (True, True)])
def test_the_encoder_equals_one_sentence_at_a_time(
    make: Callable[..., Any], denoise: bool, from_zero: bool
) -> None:
    hyper = {"denoise_scored": denoise, "from_zero": from_zero, "period": "false"}
    context, method = make(torch.float32, **hyper)
    vectors = method.encoder(context).encode(TEXTS)
    assert vectors.dtype == np.float32
    for text, vector in zip(TEXTS, vectors, strict=True):
        expected = encoded(context, text, FIRST, denoise, from_zero)
        np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=2e-5)


# run.sh:80 of kongds/Prompt-BERT@690ba6e
RELEASED = "*cls*_This_sentence_:_'_*sent_0*_'_means*mask*.*sep+*"


def released_vector(base: Any, text: str) -> np.ndarray:
    """evaluation.py:192-202, 292-294 there: template and sentence are tokenized as one text."""
    template = RELEASED.replace("*mask*", base.tokenizer.mask_token)
    template = template.replace("_", " ").replace("*sep+*", "").replace("*cls*", "")
    if text and text[-1] not in ".?\"'":
        text += "."
    ids = base.tokenizer(template.replace("*sent 0*", text).strip())["input_ids"]
    with torch.no_grad():
        states = base.model(input_ids=torch.tensor([ids])).last_hidden_state[0]
    return states[ids.index(base.tokenizer.mask_token_id)].numpy()


def roberta_encoder(setting: str) -> PromptEncoder:
    """What roberta-base scores, with the weights of the toy."""
    hyper = run_of(f"promptbert@{setting}", "roberta-base").build().hyper
    base = load_encoder(TOY_FOLDER / "toy-roberta", pooler="avg")
    return PromptEncoder(
        base, hyper.template, hyper.denoise_scored, hyper.period, hyper.space, hyper.from_zero
    )


def test_on_roberta_a_scored_sentence_follows_a_space_as_released() -> None:
    official, paper = roberta_encoder("official"), roberta_encoder("paper")
    texts = ["The man sleeps", "the old dog sees two birds .", "", "'s", "2 dogs ?"]
    expected = np.stack([released_vector(official.base, text) for text in texts])
    np.testing.assert_allclose(official.encode(texts), expected, rtol=1e-4, atol=2e-5)
    paper.period = True
    assert (abs(paper.encode(texts) - expected).max(axis=1) > 1e-3).all()


@pytest.mark.parametrize(("setting", "first"), [("official", 0), ("paper", 2)])
def test_on_roberta_positions_of_the_template_alone_begin_as_said(setting: str, first: int) -> None:
    """prompt_bert/models.py:96-98 and 293-295 of kongds/Prompt-BERT@690ba6e: official."""
    hyper = run_of(f"promptbert@{setting}", "roberta-base").build().hyper
    base = load_encoder(TOY_FOLDER / "toy-roberta", pooler="avg")
    prompt = Prompt.read(hyper.template, base.tokenizer)
    _, positions = prompt.alone(torch.tensor([0, 3]), base.model.config, hyper.from_zero)
    before, count = len(prompt.before), len(prompt)
    expected = [range(first, first + count), [*range(first, first + before)]]
    expected[1] += range(first + before + 3, first + count + 3)
    assert positions.tolist() == [list(row) for row in expected]


def test_a_sentence_without_an_end_is_given_a_period(make: Callable[..., Any]) -> None:
    context, method = make(torch.float32)
    encoder = method.encoder(context)
    ended = [text if text in ("", TEXTS[1]) else f"{text}." for text in TEXTS]
    assert np.array_equal(encoder.encode(TEXTS), encoder.encode(ended))
    encoder.period = False
    np.testing.assert_allclose(
        encoder.encode(ended), method.encoder(context).encode(TEXTS), atol=1e-6
    )
    assert not np.allclose(encoder.encode(TEXTS)[0], encoder.encode(ended)[0])


def test_a_long_sentence_leaves_room_for_the_template(make: Callable[..., Any]) -> None:
    context, method = make(torch.float32, denoise_scored=True)
    encoder = method.encoder(context)
    vectors = encoder.encode(["a man " * 80, "a man " * 90])
    assert np.isfinite(vectors).all()
    assert np.array_equal(vectors[0], vectors[1])
    assert encoder.encode([]).shape == (0, 32)


def test_the_encoder_is_saved_and_loaded(make: Callable[..., Any], tmp_path: Path) -> None:
    context, method = make(torch.float32, denoise_scored=True, space="true")
    encoder = method.encoder(context)
    save_encoder(encoder, tmp_path / "kept")
    again = load_encoder(tmp_path / "kept")
    assert again.identity == encoder.identity
    assert np.array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    changes = (
        {"denoise_scored": False}, {"period": "false"}, {"template": SECOND}, {"space": "false"},
        {"from_zero": "true"},
    )  # fmt: skip
    others = [
        make(torch.float32, **{"denoise_scored": True, "space": "true", **hyper})
        for hyper in changes
    ]
    identities = {other.encoder(its).identity for its, other in others}
    assert len({encoder.identity, *identities}) == 6
    with pytest.raises(UserError, match="was saved with 'prompt', not with pooler"):
        load_encoder(tmp_path / "kept", pooler="avg")


# Trainings


def test_what_joins_it(train_tiny: Train) -> None:
    alone = train_tiny(text_of(), max_length=12)
    for part in ("gs-infonce[multiple=0]", "sscl[stack=0]"):
        assert log_of(train_tiny(f"{text_of()}+{part}", max_length=12)) == log_of(alone)
    joined = log_of(
        train_tiny(f"{text_of()}+gs-infonce+is-cse[buffer=20,neighbours=3]+sscl", max_length=12)
    )
    assert len(joined) == 6
    assert joined != log_of(alone)


def test_state_is_saved_and_restored(make: Callable[..., Any]) -> None:
    """It has none of its own: backbone and head are the context's."""
    _, method = make()
    assert not method.state_dict()


# What the tests of all methods need to know of this one (`outside.of_methods`).

PUBLISHED = {
    "batch_size": 256, "learning_rate": 1e-5, "max_length": 34, "epochs": 1, "select_every": 125,
    "pooler": "cls_mlp",
}  # fmt: skip
VALUES: list[tuple[str, str, dict[str, Any]]] = [
    ("promptbert@official", BERT,
     {**PUBLISHED, "period": True, "template": 'This sentence of "<sentence>" means <mask>.'}),
    ("promptbert@official", ROBERTA,
     {**PUBLISHED, "template_2": "The sentence : '<sentence> ' means<mask>.", "space": True,
      "from_zero": True}),
    ("promptbert@paper", ROBERTA, {**PUBLISHED, "space": False, "from_zero": False}),
    ("promptbert@paper", BERT, {"period": False}),
]  # fmt: skip
OUT_OF_LIMITS = {
    "promptbert": "temperature=0",
}
TRAININGS: dict[str, tuple[dict[str, Any], int]] = {
    text_of(): ({"max_length": 12}, 6),
    text_of(denoise_scored=True): ({"max_length": 12}, 6),
}
