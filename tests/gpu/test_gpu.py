"""On a GPU: one training of each kind against the processor, the packed attention against its
public fallback, and the times of a step, a selection and an encoding (`make test-gpu`)."""

import time
from statistics import fmean

import numpy as np
import pytest
import torch

from bench.models.float32 import SELECTION, float32_products
from bench.models.fused_forward import attend_fused
from bench.models.load import load_encoder
from bench.models.transformer import load_backbone
from bench.runs.resolve import resolve
from bench.stages.cost import DEV_SENTENCES
from bench.stages.device import lease
from bench.training import context as training_context
from bench.training.context import RunContext, nearest_rows
from bench.training.loop import Training, train
from tests.conftest import CLOSE, make_sentences
from tests.oracles.padded_attention import attend_padded
from tests.support.at_once import train_at_once
from tests.support.outcomes import log_of
from tests.support.tiny_suite import SMALL, tiny_run
from tests.training import test_context

DEVICE = "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is here"),
    pytest.mark.usefixtures("global_state"),
]

PROMPTS = "template=the <sentence> is <mask> .,template_2=a <sentence> was <mask> ."
KINDS = {  # what each has that others lack
    "simcse": "views of one pass",
    "sscl": "a lower layer",
    "consert": "changed embeddings",
    "is-cse[buffer=12,clusters=3,group=both,neighbours=3]": "a memory with clusters",
    "esimcse[queue=12]": "a second encoder that follows",
    "cards[neighbours=5,switch=0]": "neighbours",
    "ct-bert[batch_size=4,drawn=12,negatives=3]": "two encoders that learn",
    "is-bert": "convolutions",
    f"promptbert[{PROMPTS}]": "templates",
    "skip-thought[batch_size=4,units=8,vocabulary=30,width=6]": "no transformer",
    "diffcse": "a discriminator",
    "gs-infonce": "noise",
    "dclr": "noise that is learnt",
}
DRAWN_THERE = {"gs-infonce", "dclr"}  # other noise on a GPU


@pytest.fixture(scope="module")
def backbone(tiny_bert, tmp_path_factory):
    """The tiny BERT's shape with a masked-language head, which DiffCSE needs, and without dropout:
    its generator keeps its own whatever the recipe says, and a GPU draws other masks."""
    from transformers import AutoConfig, AutoModelForMaskedLM

    folder = tmp_path_factory.mktemp("models") / "tiny-bert-with-head"
    torch.manual_seed(11)
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = AutoConfig.from_pretrained(tiny_bert, **off)
    AutoModelForMaskedLM.from_config(config).save_pretrained(folder)
    load_backbone(tiny_bert)[1].save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """28 sentences in documents of four."""
    path = tmp_path_factory.mktemp("corpus") / "tiny.txt"
    path.write_text("".join(f"{sentence}\n" for sentence in make_sentences(28, seed=4)))
    documents = "".join(f"{1 + 4 * number}\t4\n" for number in range(7))
    path.with_name("tiny.docs.tsv").write_text(f"first\tlines\n{documents}")
    return path


@pytest.fixture
def run_of(backbone, tiny_data, corpus, monkeypatch):
    """Runs whose numbers are a processor's up to rounding: without dropout and TF32."""
    monkeypatch.setattr(training_context, "TRAINING", "ieee")

    def make(text):
        recipe = {"precision": "float32", "dropout": 0.0, "corpus": str(corpus)}
        recipe |= {key: value for key, value in SMALL.items() if f"{key}=" not in text}
        places = {"backbone_name": str(backbone), "corpus": str(corpus), "data": str(tiny_data)}
        return resolve(text, **places, seed=1, recipe=recipe)

    return make


@pytest.mark.parametrize("text", KINDS)
def test_a_training_of_each_kind(text, run_of, tmp_path):
    """The same bits twice; the first loss, before rounding grows, as on the processor."""
    run = run_of(text)
    places = {"cpu": "cpu", "first": DEVICE, "second": DEVICE}
    outcomes = {
        name: train(run, tmp_path, tmp_path / name, device)["outcome"]
        for name, device in places.items()
    }
    logs = {name: log_of(tmp_path / name) for name in places}
    assert {outcome["status"] for outcome in outcomes.values()} == {"finished"}
    assert logs["first"] == logs["second"]
    if text not in DRAWN_THERE:
        assert logs["first"][0]["loss"] == pytest.approx(logs["cpu"][0]["loss"], rel=1e-4, abs=1e-5)
    sentences = make_sentences(20, seed=3)
    here, there = (
        load_encoder(tmp_path / "first", device=device).encode(sentences)
        for device in ("cpu", DEVICE)
    )
    np.testing.assert_allclose(there, here, **CLOSE)


@pytest.mark.parametrize("text", ["simcse", "esimcse[queue=12]"])
def test_three_trainings_on_a_gpu_end_as_one_alone(text, tiny_bert, tiny_data, corpus, tmp_path):
    """In mixed precision, with dropout; also under a daemon of MPS, if one runs."""
    run = tiny_run(text, tiny_bert, tiny_data, corpus, epochs=20)
    places = {"SENTBENCH_LEASES": str(tmp_path / "leases"), "SENTBENCH_RUNS_PER_GPU": "3"}
    (alone,) = train_at_once(run, 1, tmp_path, **places)
    assert train_at_once(run, 3, tmp_path, **places) == [alone] * 3


@pytest.mark.parametrize("first_only", [False, True])
def test_the_kernel_of_attention_equals_padded_attention(first_only):
    """Vectors and gradients in half precision."""
    draw = torch.Generator().manual_seed(0)
    key_ends = torch.tensor([0, 3, 4, 9], dtype=torch.int32, device=DEVICE)
    ends = torch.arange(4, dtype=torch.int32, device=DEVICE) if first_only else key_ends
    count, longest = int(ends[-1]), 1 if first_only else 8
    rows = [torch.randn(n, 2, 8, generator=draw).to(DEVICE, torch.float16) for n in (count, 9, 9)]
    results = []
    for attention in (
        lambda *parts: attend_fused(*parts, ends, key_ends, longest, 8, 0.0),
        lambda *parts: attend_padded(*parts, ends, key_ends, 0.0),
    ):
        parts = [part.clone().requires_grad_() for part in rows]
        mixed = attention(*parts)
        mixed.float().square().sum().backward()
        results.append([mixed, *(part.grad for part in parts)])
    for kernel, padded in zip(*results, strict=True):
        torch.testing.assert_close(kernel, padded, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kind", ["random", "cone", "copies"])
def test_neighbours(kind):
    vectors = test_context.rows(kind)
    np.testing.assert_array_equal(nearest_rows(vectors, 5, DEVICE), nearest_rows(vectors, 5))


def test_a_lease_is_of_a_gpu():
    with lease() as outer, lease() as inner:
        assert outer == inner
        assert torch.zeros(1, device=DEVICE).device == torch.device(outer)


# Times

WIDE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
WIDE |= {"intermediate_size": 4096}
SHAPES = {  # batch size; what differs from BERT-base
    "bert-base": (64, {}),
    "roberta-base": (512, {"vocab_size": 50265}),
    "bert-large": (64, WIDE),
}
STEPS, SENTENCES = 100, 40_000


def seconds(work, times):
    """Seconds of a repetition, after one that is not timed."""
    work()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(times):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / times


@pytest.mark.parametrize("name", SHAPES)
def test_times(name, tiny_bert, tiny_data, tmp_path):
    """SimCSE in mixed precision on random weights, at the published batch sizes."""
    from transformers import BertConfig, BertModel

    batch_size, changes = SHAPES[name]
    tokenizer = load_backbone(tiny_bert)[1]
    backbone, corpus = tmp_path / f"random-{name}", tmp_path / "corpus.txt"
    BertModel(BertConfig(**changes)).save_pretrained(backbone)
    tokenizer.save_pretrained(backbone)
    sentences = make_sentences(SENTENCES, seed=1, lengths=(12, 31))  # of 23.4 pieces, as wiki1m
    corpus.write_text("".join(f"{sentence}\n" for sentence in sentences))
    recipe = {"batch_size": batch_size, "epochs": 2, "sentences": SENTENCES, "select_every": 1000}
    run = tiny_run("simcse", backbone, tiny_data, corpus, **recipe)
    training = Training(run, RunContext(run, tmp_path, DEVICE), {})
    rows = training.steps()
    # Losses are read, and rows come, once in 25 steps.
    step = seconds(lambda: [next(rows) for _ in range(25)], STEPS // 25) / 25
    encoder = training.context.encoder()
    tokens = encoder.tokenize(sentences[:DEV_SENTENCES])
    with float32_products(SELECTION):
        selection = seconds(lambda: encoder.encode_tokens(tokens), 5)
    encoding = seconds(lambda: encoder.encode_tokens(tokens), 5)
    print(
        f"\n{torch.cuda.get_device_name()}, {name}, batch size {batch_size}, "
        f"{fmean(map(len, tokens)):.1f} pieces a sentence: a step {1e3 * step:.1f} ms, "
        f"encoding {DEV_SENTENCES} sentences for a selection {1e3 * selection:.0f} ms, "
        f"in float32 {DEV_SENTENCES / encoding:,.0f} sentences a second"
    )
