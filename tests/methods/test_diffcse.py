"""DiffCSE: a step against an oracle with transformers' own passes, its limits, its models."""

import pytest
import torch

from bench.utils.errors import UserError
from methods.base import Views
from methods.declutr import masked_pieces
from tests.oracles import diffcse as oracle
from tests.oracles.methods import infonce
from tests.support.method_runs import BERT, ROBERTA, ROWS, step, step_disagreement, weights_of


def started(headed_runs, padded="true", batchnorm="true"):
    # A weight with which a mistake in the detection shows.
    text = f"diffcse[weight=2.0,masked=0.5,padded={padded},batchnorm={batchnorm}]"
    method, context = headed_runs.exact(text)
    method.generator.model.eval()  # without dropout, as all others
    if method.projector is not None:
        method.projector.train()  # the statistics of the batch
        with torch.no_grad():  # as after some steps
            method.projector[1].weight.uniform_(0.5, 1.5)
            method.projector[1].bias.uniform_(-0.5, 0.5)
    return context, method


def expected_loss(context, method):
    tokens = [context.tokens()[row] for row in ROWS] * 2
    rows = [context.backbone(input_ids=torch.tensor([row])) for row in tokens]
    sentences = torch.cat([row.last_hidden_state[:, 0] for row in rows])
    if method.hyper.batchnorm:
        first, norm, _, last, _ = method.projector
        sentences = oracle.projected(sentences, first.weight, norm.weight, norm.bias, last.weight)
    loss = infonce(*sentences.chunk(2), method.hyper.temperature)
    masked, *_ = masked_pieces(tokens, context.tokenizer, method.hyper.masked, step(0, ROWS))
    filled = oracle.filled_in(method.generator.model, masked, [row[0] for row in tokens])
    detection = oracle.detection(
        method.discriminator, *method.detector.parameters(), tokens, filled, sentences,
        context.tokenizer.pad_token_id, method.hyper.padded,
    )  # fmt: skip
    return loss + method.hyper.weight * detection


def disagreement(context, method):
    trained = [weight for weight in method.parameters() if weight.requires_grad]
    trained += weights_of(context)
    assert len({*trained}) == len(trained)  # the discriminator is a copy
    loss = method.step_loss(context, step(0, ROWS))
    return step_disagreement(loss, expected_loss(context, method), trained)


@pytest.mark.parametrize("hyper", [{}, {"padded": "false"}, {"batchnorm": "false"}])
def test_equals_the_oracle(headed_runs, hyper):
    context, method = started(headed_runs, **hyper)
    assert disagreement(context, method) < 1e-6
    assert not any(weight.requires_grad for weight in method.generator.model.parameters())


def test_its_generators_dropout_does_not_shift_the_backbones(headed_runs):
    """Nor do the global numbers drawn before decide what it fills in."""
    method, context, _ = headed_runs.start("diffcse[weight=1]")
    tokens, seen, states = [context.tokens()[row] for row in ROWS], [], context.states

    def watched(filled, *inputs, **options):
        seen.append((filled, torch.rand(1)))
        return states(filled, *inputs, **options)

    context.states = watched
    for seed in (1, 2):
        torch.manual_seed(seed)
        views = Views([torch.zeros(4, method.shape.width)], at_layer=None)
        method.reader_loss(context, tokens, None, views, step(0, ROWS))
        torch.manual_seed(seed)
        assert torch.equal(seen[-1][1], torch.rand(1))
    assert seen[0][0] == seen[-1][0]


def test_a_generator_of_another_vocabulary_is_refused(headed_runs, tiny_bert, tiny_roberta):
    other = tiny_bert if "roberta" in str(headed_runs.backbone) else tiny_roberta
    with pytest.raises(UserError, match="has another vocabulary than"):  # before anything runs
        headed_runs.resolve(f"diffcse[generator={other}]")


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

SHARED = {"batch_size": 64, "epochs": 2, "evaluation_pooler": "cls_before_pooler"}
VALUES = [("diffcse", "toy-bert", {"generator": "backbone"})]
for text in ("diffcse@official", "diffcse@paper"):
    VALUES.append((text, BERT, {**SHARED, "learning_rate": 7e-6}))
    VALUES.append((text, ROBERTA, {**SHARED, "learning_rate": 1e-5}))
OUT_OF_LIMITS = {
    "diffcse": "masked=0 masked=1 weight=-1",
}
WITHOUT_EFFECT = {
    "generator": ("weight=0", "backbone", "toy-bert"),
    "masked": ("weight=0", 0.3, 0.6),
    "padded": ("weight=0", False, True),
}
