"""How long published shapes train: the toy one, on this processor."""

from __future__ import annotations

import pytest
import torch

from bench.__main__ import main
from bench.checks.timing import SHAPES, report, time_shape
from bench.utils.errors import UserError


@pytest.mark.slow
def test_a_shape_is_trained_and_extrapolated():
    torch.set_num_threads(1)
    found = time_shape("toy", SHAPES["toy"], 20, "cpu", every=10)
    seconds, work = found["seconds"], found["work"]
    timed = seconds["start"] + 20 * seconds["step"] + 2 * seconds["selection"] + seconds["end"]
    # All but what comes before the first step, by the training's own clock.
    assert timed - seconds["start"] == pytest.approx(work["seconds"], rel=0.2)
    counts = {"start": 1, "step": 15_625, "selection": 1562, "end": 1}
    whole = sum(seconds[part] * count for part, count in counts.items())
    assert found["million"] == pytest.approx(whole)
    assert work["sentences"] == 2 * 20 * 64
    # As wiki1m, which decides the arithmetic.
    assert work["tokens"] / work["sentences"] == pytest.approx(23.4, abs=0.8)
    assert work["flop"]["selection"] > 0
    rate = found["encoding"]
    # FLOP a sentence of 23 tokens, by hand: products of four layers of width 64.
    assert rate["flops"] / rate["sentences"] == pytest.approx(23.4 * 2 * 4 * 12 * 64**2, rel=0.3)
    assert found["memory"] is None
    assert report(found).startswith("toy, batch 64: ")
    assert f"a million sentences: {found['million']:.0f} s" in report(found)


def test_published_shapes_are_published():
    """Sizes that other parts know of the same models."""
    from bench.registry.backbones import backbone

    for name in ("bert-base", "bert-large", "roberta-base", "roberta-large"):
        known = backbone(name if name.startswith("roberta") else f"{name}-uncased").shape
        assert (SHAPES[name].width, SHAPES[name].depth) == (known.width, known.depth)


@pytest.mark.parametrize("steps", [0, 124, 126])
def test_without_whole_selections_nothing_is_timed(steps):
    with pytest.raises(UserError, match=f"--steps is {steps}; write a multiple of 125"):
        time_shape("toy", SHAPES["toy"], steps, "cpu")


def test_an_unknown_shape_is_a_sentence(capsys):
    assert main(["timing", "bert-bas"]) == 2
    assert "unknown shape 'bert-bas'; did you mean 'bert-base'?" in capsys.readouterr().err
