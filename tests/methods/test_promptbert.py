"""PromptBERT: a step against an oracle of one sentence at a time, and its Encoder."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bench.models.load import load_encoder
from bench.registry.backbones import TOY_FOLDER
from bench.utils.errors import UserError
from tests.oracles import prompts as oracle
from tests.oracles.methods import infonce
from tests.support.method_runs import (
    BERT,
    ROBERTA,
    ROWS,
    run_of,
    step,
    step_disagreement,
    stored,
    text_of,
    weights_of,
)

FIRST, SECOND = "the two <sentence> is a <mask> again", "a <sentence> sees <mask>"


def started(runs, dtype=torch.float64, pooler="cls_mlp", **hyper):
    text = text_of("promptbert", **{"template": FIRST, "template_2": SECOND, **hyper})
    return runs.exact(text, dtype, max_length=12, pooler=pooler)


def at_mask(context, template, text, denoise, from_zero, longest=None, layer=-1):
    """The state at the mask around a sentence; less that of the template alone, if asked for."""
    words = oracle.verdict_legend(text, context.tokenizer, longest)
    vector = oracle.around(context, template, words, layer)
    if denoise:
        first = oracle.first_of(context.backbone, from_zero)
        vector = vector - oracle.alone(context, template, len(words), first, layer)
    return vector


def expected_loss(context, hyper):
    views = []
    for template in (hyper.template, hyper.template_2):
        texts = [context.sentences()[row] for row in ROWS]
        vectors = [
            at_mask(context, template, text, hyper.denoise, hyper.from_zero, 10) for text in texts
        ]
        views.append(torch.stack([context.head(vector) for vector in vectors]))
    return infonce(*views, hyper.temperature)


def disagreement(method, context, floor=1e-3):
    """The largest relative difference in loss or gradient."""
    loss, expected = method.step_loss(context, step(0, ROWS)), expected_loss(context, method.hyper)
    return step_disagreement(loss, expected, weights_of(context), floor)


@pytest.mark.parametrize(
    "hyper",
    [
        {},
        {"denoise": False},
        {"temperature": 0.001},
        {"from_zero": "true"},
        {"pooler": "cls_before_pooler"},
    ],
)
def test_equals_the_oracle(runs, hyper):
    assert disagreement(*started(runs, **hyper)) < 1e-6


def test_equals_the_oracle_in_float32(runs):
    assert disagreement(*started(runs, torch.float32), floor=0.05) < 1e-4


def test_lower_layers_are_seen_by_parts_that_join(runs):
    method, context = started(runs)
    method.loss = lambda views, step: views
    views = method.step_loss(context, step(0, ROWS))
    text = context.sentences()[ROWS[3]]
    for layer in (1, 4):
        expected = context.head(at_mask(context, SECOND, text, True, False, 10, layer))
        torch.testing.assert_close(views.at_layer(layer)[1][3], expected)


# The Encoder

TEXTS = ["a man sleeps", "the old dog sees two birds .", "", "two", "a cat [MASK] <mask> again"]


@pytest.mark.parametrize(("denoise", "from_zero"), [(False, False), (True, False), (True, True)])
def test_the_encoder_equals_one_sentence_at_a_time(runs, denoise, from_zero):
    hyper = {"denoise_scored": denoise, "from_zero": from_zero, "period": "false"}
    method, context = started(runs, torch.float32, **hyper)
    vectors = method.encoder(context).encode(TEXTS)
    assert vectors.dtype == np.float32
    for text, vector in zip(TEXTS, vectors, strict=True):
        expected = at_mask(context, FIRST, text, denoise, from_zero).detach().numpy()
        np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=2e-5)


# run.sh:80 of kongds/Prompt-BERT@690ba6e
RELEASED = "*cls*_This_sentence_:_'_*sent_0*_'_means*mask*.*sep+*"


def released_vector(base, text):
    """evaluation.py:192-202, 292-294 there: template and sentence are tokenized as one text."""
    template = RELEASED.replace("*mask*", base.tokenizer.mask_token)
    template = template.replace("_", " ").replace("*sep+*", "").replace("*cls*", "")
    if text and text[-1] not in ".?\"'":
        text += "."
    ids = base.tokenizer(template.replace("*sent 0*", text).strip())["input_ids"]
    with torch.no_grad():
        return oracle.state(base.model, ids, base.tokenizer.mask_token_id).numpy()


def test_on_roberta_a_scored_sentence_follows_a_space_as_released():
    """Texts as roberta-base scores them, with the weights of the toy."""
    base = load_encoder(TOY_FOLDER / "toy-roberta", pooler="avg")
    context = SimpleNamespace(encoder=lambda: base)
    official, paper = (
        run_of(f"promptbert@{setting}", ROBERTA).build().encoder(context)
        for setting in ("official", "paper")
    )
    texts = ["The man sleeps", "the old dog sees two birds .", "", "'s", "2 dogs ?"]
    expected = np.stack([released_vector(base, text) for text in texts])
    np.testing.assert_allclose(official.encode(texts), expected, rtol=1e-4, atol=2e-5)
    paper.period = True
    assert (abs(paper.encode(texts) - expected).max(axis=1) > 1e-3).all()


def test_a_long_sentence_leaves_room_for_the_template(runs):
    method, context = started(runs, torch.float32, denoise_scored=True)
    encoder = method.encoder(context)
    vectors = encoder.encode(["a man " * 80, "a man " * 90])
    assert np.isfinite(vectors).all()
    assert np.array_equal(vectors[0], vectors[1])
    assert encoder.encode([]).shape == (0, 32)


def test_the_encoder_is_saved_and_loaded_and_its_identity_tells_settings_apart(runs, tmp_path):
    def encoder_of(**hyper):
        settings = {"denoise_scored": True, "space": "true", **hyper}
        method, context = started(runs, torch.float32, **settings)
        return method.encoder(context)

    encoder = stored(encoder_of(), tmp_path / "kept", TEXTS)
    changes = {"denoise_scored": False, "period": "false", "template": SECOND, "space": "false"}
    changes["from_zero"] = "true"
    changed = [encoder_of(**{key: value}).identity for key, value in changes.items()]
    assert len({encoder.identity, *changed}) == 6
    with pytest.raises(UserError, match="was saved with 'prompt', not with pooler"):
        load_encoder(tmp_path / "kept", pooler="avg")


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

PUBLISHED = {
    "batch_size": 256, "learning_rate": 1e-5, "max_length": 34, "epochs": 1, "select_every": 125,
    "pooler": "cls_mlp",
}  # fmt: skip
VALUES = [
    (
        "promptbert@official",
        BERT,
        {**PUBLISHED, "template": 'This sentence of "<sentence>" means <mask>.'},
    ),
    (
        "promptbert@official",
        ROBERTA,
        {**PUBLISHED, "template_2": "The sentence : '<sentence> ' means<mask>."},
    ),
    ("promptbert@paper", ROBERTA, PUBLISHED),
]
OUT_OF_LIMITS = {
    "promptbert": "temperature=0",
}
