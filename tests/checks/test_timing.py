"""How long published shapes train: the toy one, on this processor."""

from __future__ import annotations

import pytest
import torch

from bench.__main__ import main
from bench.checks.timing import SHAPES, report, time_shape
from bench.utils.errors import UserError


@pytest.mark.slow
def test_a_shape_is_trained_and_extrapolated(monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setattr("bench.checks.timing.EVERY", 10)
    found = time_shape("toy", 10, "cpu")
    assert found["million"] == pytest.approx(found["seconds"] * 15_625 / 10)
    work = found["work"]
    assert work["sentences"] == 2 * 10 * 64
    # As wiki1m, which decides the arithmetic.
    assert work["tokens"] / work["sentences"] == pytest.approx(23.4, abs=0.8)
    assert work["flop"]["selection"] > 0
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
        time_shape("toy", steps, "cpu")


def test_an_unknown_shape_is_a_sentence(capsys):
    assert main(["timing", "bert-bas"]) == 2
    assert "unknown shape 'bert-bas'; did you mean 'bert-base'?" in capsys.readouterr().err
