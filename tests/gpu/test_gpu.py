"""On a GPU: one training of each kind against the processor, in each precision; the packed
attention against its public fallback; and the times of a step, a selection and an encoding (`make
test-gpu`). Without a GPU what needs no kernel of it runs on the path of one
(`tests.support.gpu_path`), so that these tests do not rot."""

import time
from functools import partial
from statistics import fmean

import numpy as np
import pytest
import torch

from bench.models.float32 import SELECTION, float32_products
from bench.models.fused_forward import attend_fused
from bench.models.load import load_encoder
from bench.results.provenance import provenance
from bench.runs.paths import Files
from bench.stages.device import lease
from bench.training import context as training_context
from bench.training.context import RunContext, nearest_rows
from bench.training.loop import Training, train
from bench.utils.files import read_json
from tests.oracles.padded_attention import attend_padded
from tests.support import neighbour_rows
from tests.support.at_once import train_at_once
from tests.support.fresh_step import fresh_losses, kept_checkpoints
from tests.support.gpu_path import take_gpu_path
from tests.support.kinds import (
    CASTING,
    KINDS,
    NOT_PACKED,
    run_of_kind,
)
from tests.support.outcomes import log_of
from tests.support.tiny_backbones import CLOSE, bert_tokenizer, make_sentences
from tests.support.tiny_suite import tiny_run

HERE = torch.cuda.is_available()
DEVICE = "cuda" if HERE else "cpu"
pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("global_state")]
needs_gpu = pytest.mark.skipif(not HERE, reason="no GPU is here")
DRAWN_THERE = {"gs-infonce", "dclr"}  # other noise on a GPU


@pytest.fixture
def fit(kind_backbones, tiny_data, document_corpus, tmp_path, monkeypatch):
    """Train a run without dropout and TF32 in a place of its own: the outcome and the log."""
    monkeypatch.setattr(training_context, "TRAINING", "ieee")
    # From a scale at which no step overflows and is skipped.
    monkeypatch.setattr(torch.amp, "GradScaler", partial(torch.amp.GradScaler, init_scale=2.0**6))

    def fit(text, name, precision="float32", device=DEVICE):
        run = run_of_kind(
            text, kind_backbones[text == NOT_PACKED], tiny_data, document_corpus, precision
        )
        with pytest.MonkeyPatch.context() as patch:
            if not HERE and name != "processor":
                take_gpu_path(patch)
            outcome = train(run, tmp_path, tmp_path / name, device)["outcome"]
        assert outcome["status"] == "finished"
        return log_of(tmp_path / name)

    return fit


@pytest.mark.slow
@pytest.mark.parametrize("text", [*KINDS, NOT_PACKED])
def test_a_training_of_each_kind(text, fit, tmp_path):
    """The same bits twice; the first loss, before rounding grows, as on the processor."""
    first, second = fit(text, "first"), fit(text, "second")
    assert first == second
    if text not in DRAWN_THERE:
        loss = fit(text, "processor", device="cpu")[0]["loss"]
        assert first[0]["loss"] == pytest.approx(loss, rel=1e-4, abs=1e-5)
    sentences = make_sentences(20, seed=3)
    here, there = (
        load_encoder(tmp_path / "first" / "encoder", device=device).encode(sentences)
        for device in ("cpu", DEVICE)
    )
    np.testing.assert_allclose(there, here, **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["mixed", "bfloat16", "float32"])
def test_a_step_computes_with_the_weights_that_the_step_before_left(precision, fit, tmp_path):
    """As in tests/training/test_precision.py, with fused layers and without."""
    steps, losses = [], {}
    for number, text in enumerate(CASTING):
        kept = tmp_path / f"kept-{number}"
        with kept_checkpoints(kept):
            losses[text] = fit(text, str(number), precision)[-1]["loss"]
        run = read_json(tmp_path / str(number) / "outcome.json")["run"]
        steps.append([run, str(kept), DEVICE, not HERE])
    assert dict(zip(CASTING, fresh_losses(steps), strict=True)) == losses


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["mixed", "bfloat16"])
@pytest.mark.parametrize("text", [text for text in KINDS if text != "dclr"] + [NOT_PACKED])
def test_losses_of_each_precision_are_those_of_float32(text, precision, fit):
    """In parts of the first loss, as in tests/training/test_precision.py."""
    expected = [row["loss"] for row in fit(text, "float32")]
    result = [row["loss"] for row in fit(text, precision, precision)]
    assert result == pytest.approx(expected, rel=0, abs=0.1 * expected[0])


@needs_gpu
@pytest.mark.parametrize("text", ["simcse", "esimcse[queue=12]"])
def test_three_trainings_on_a_gpu_end_as_one_alone(
    text, tiny_bert, tiny_data, document_corpus, tmp_path
):
    """In mixed precision, with dropout; also under a daemon of MPS, if one runs."""
    run = tiny_run(text, tiny_bert, tiny_data, document_corpus, epochs=20)
    places = {"SENTBENCH_LEASES": str(tmp_path / "leases"), "SENTBENCH_RUNS_PER_GPU": "3"}
    (alone,) = train_at_once(run, 1, tmp_path, **places)
    assert train_at_once(run, 3, tmp_path, **places) == [alone] * 3


@needs_gpu
@pytest.mark.parametrize("first_only", [False, True])
def test_the_kernel_of_attention_equals_padded_attention(first_only):
    """Vectors and gradients in half precision."""
    draw = torch.Generator().manual_seed(0)
    key_ends = torch.tensor([0, 3, 4, 9], dtype=torch.int32, device=DEVICE)
    ends = torch.arange(4, dtype=torch.int32, device=DEVICE) if first_only else key_ends
    count, longest = int(ends[-1]), 1 if first_only else 8
    rows = [torch.randn(n, 2, 8, generator=draw).to(DEVICE, torch.float16) for n in (count, 9, 9)]
    results = []
    for attention in (attend_fused, attend_padded):
        parts = [part.clone().requires_grad_() for part in rows]
        mixed = attention(*parts, ends, key_ends, longest, 8, 0.0)
        mixed.float().square().sum().backward()
        results.append([mixed, *(part.grad for part in parts)])
    for kernel, padded in zip(*results, strict=True):
        torch.testing.assert_close(kernel, padded, rtol=1e-2, atol=1e-2)


@needs_gpu
@pytest.mark.parametrize("kind", ["random", "cone", "copies"])
def test_neighbours(kind):
    vectors = neighbour_rows.rows(kind)
    np.testing.assert_array_equal(nearest_rows(vectors, 5, DEVICE), nearest_rows(vectors, 5))


@needs_gpu
def test_a_lease_is_of_a_gpu():
    with lease() as outer, lease() as inner:
        assert outer == inner
        assert torch.zeros(1, device=DEVICE).device == torch.device(outer)


# Times

WIDE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
WIDE |= {"intermediate_size": 4096}
NARROW = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
SHAPES = {  # batch size; what differs from BERT-base
    "bert-base": (64, {}),
    "roberta-base": (512, {"vocab_size": 50265}),
    "bert-large": (64, WIDE),
}
STEPS, SENTENCES = 100, 40_000
DEV_SENTENCES = 2909  # of STS-B, encoded in each selection
if not HERE:  # that it runs
    SHAPES, STEPS, SENTENCES = {"narrow": (8, NARROW)}, 25, 400


def wait():
    if HERE:
        torch.cuda.synchronize()


def seconds(work, times):
    """Seconds of a repetition, after one that is not timed."""
    work()
    wait()
    started = time.perf_counter()
    for _ in range(times):
        work()
    wait()
    return (time.perf_counter() - started) / times


@pytest.mark.parametrize("name", SHAPES)
def test_times(name, tiny_data, tmp_path):
    """SimCSE in mixed precision on random weights, at the published batch sizes."""
    from transformers import BertConfig, BertModel

    batch_size, changes = SHAPES[name]
    config, backbone = BertConfig(**changes), tmp_path / f"random-{name}"
    BertModel(config).save_pretrained(backbone)
    bert_tokenizer(config.vocab_size).save_pretrained(backbone)
    corpus = tmp_path / "corpus.txt"
    sentences = make_sentences(SENTENCES, seed=1, lengths=(12, 31))  # of 23.4 pieces, as wiki1m
    corpus.write_text("".join(f"{sentence}\n" for sentence in sentences))
    recipe = {"batch_size": batch_size, "epochs": 2, "sentences": SENTENCES, "select_every": 1000}
    run = tiny_run("simcse", backbone, tiny_data, corpus, **recipe)
    training = Training(run, RunContext(run, Files(tmp_path, run.data), DEVICE), {})
    rows = training.steps()
    # Losses are read, and rows come, once in 25 steps.
    step = seconds(lambda: [next(rows) for _ in range(25)], STEPS // 25) / 25
    encoder = training.context.encoder()
    tokens = encoder.tokenize(sentences[:DEV_SENTENCES])
    with float32_products(SELECTION):
        selection = seconds(lambda: encoder.encode_tokens(tokens), 5)
    encoding = seconds(lambda: encoder.encode_tokens(tokens), 5)
    print(
        f"\n{provenance(DEVICE, 1)['device']['name']}, {name}, batch size {batch_size}, "
        f"{fmean(map(len, tokens)):.1f} pieces a sentence: a step {1e3 * step:.1f} ms, "
        f"encoding {len(tokens)} sentences for a selection {1e3 * selection:.0f} ms, "
        f"in float32 {len(tokens) / encoding:,.0f} sentences a second"
    )
