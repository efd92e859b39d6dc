"""Which steps are one program each time, so that a CUDA graph of one may stand for the others.

Two steps with equal numbers of sentences and tokens may differ in the learning rate alone, which
AdamW can read from a tensor. What a step copies to the device first, or waits for, is bounded in
`test_launches.py`.
"""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path

import pytest

from bench.runs.run import Run
from bench.training.context import RunContext
from bench.training.loop import Training
from tests.gpu.cases import TRAINED, some_slow
from tests.gpu.conftest import Make
from tests.support.pretended_device import PretendedDevice

STEPS = slice(4, 8)  # queues and buffers are full
RATE = {("aten._fused_adamw_.default", 1)}  # one number in one operation, if the rate changes
# Why steps differ, by the method's text. What an optimiser gets as numbers is part of its launch:
# besides the rate its epsilon, and its decay, where `set_learning_rate` corrects them at each step.
UNCORRECTED = "bias_correction=false changes epsilon and decay of AdamW"
NOISE = "the noise of each step has a generator of its own"
DIFFERENT = {
    "gs-infonce": NOISE,
    "gs-infonce+is-cse[buffer=12,neighbours=3]+sscl": NOISE,
    "is-cse[buffer=12,clusters=3,group=both,neighbours=3]": "K-means runs until it converges",
    "dclr": "early_epsilon changes the epsilon of AdamW",
    "consert": UNCORRECTED,
    "ct-bert[batch_size=4,drawn=12,negatives=3]": "distinct sentences are encoded once",
    "is-bert": UNCORRECTED,
    "declutr[batch_size=2,document=16,longest=4,shortest=2]": f"{UNCORRECTED}; masks are drawn",
}


def differences(run: Run, device: PretendedDevice, folder: Path) -> set[tuple[str, int]]:
    """Operations in which steps differ from the one before, and in how many arguments."""
    training = Training(run, RunContext(run, folder, "cuda"), {})
    traces = []
    for batch in islice(training.batches(), STEPS.stop):
        with device.recorded(trace=True) as seen:
            training.step(batch)
        traces.append(seen.trace)
    assert len(traces) == STEPS.stop
    found = set()
    for first, second in pairwise(traces[STEPS]):
        if [name for name, _, _ in first] != [name for name, _, _ in second]:
            found.add(("other operations", abs(len(first) - len(second))))
            continue
        for (name, one, _), (_, other, _) in zip(first, second, strict=True):
            if changed := sum(a != b for a, b in zip(one, other, strict=True)):
                found.add((name, changed))
    return found


@pytest.mark.parametrize("text", some_slow(TRAINED, quick=1))
def test_steps_of_equal_shape(
    text: str,
    make: Make,
    device: PretendedDevice,
    equal_lengths: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SENTBENCH_GRAPHS", "0")
    longer = text.replace("drawn=12", "drawn=36")  # Contrastive Tension draws its sentences
    run = make(longer, corpus=str(equal_lengths), precision="mixed", select_every=100)
    found = differences(run, device, tmp_path)
    assert (found <= RATE) == (text not in DIFFERENT), found


def test_reasons_are_of_methods() -> None:
    assert DIFFERENT.keys() <= set(TRAINED)
