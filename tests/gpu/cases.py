"""Every method of the registry, small enough for two steps on the pretended device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

RECIPE = {"batch_size": 8, "learning_rate": 1e-3, "select_every": 2, "epochs": 1, "dropout": 0.0}
PROMPTS = "template=the <sentence> is <mask> .,template_2=a <sentence> was <mask> ."
TRIPLES = "TRIPLES"  # stands for a table of labelled triples
TRAINED = [
    "simcse",
    "gs-infonce",
    "sscl",
    "is-cse[buffer=12,clusters=3,group=both,neighbours=3]",
    "esimcse[queue=12]",
    "dclr",
    "cards[neighbours=5,switch=0]",
    "consert",
    "ct-bert[batch_size=4,drawn=12,negatives=3]",
    "is-bert",
    f"promptbert[{PROMPTS}]",
    "word-noise[noise=delete]",
    "declutr[batch_size=2,document=16,longest=4,shortest=2]",
    "skip-thought[batch_size=4,units=8,vocabulary=30,width=6]",
    "is-cse[buffer=12,neighbours=3]",
    "gs-infonce+is-cse[buffer=12,neighbours=3]+sscl",
    "focal-infonce",
    "mixcse",
    "simcse-plus-plus",
    f"cot-bert[{PROMPTS},template_3=no <sentence> is <mask> .]",
    "rankcse",
    "diffcse",
    "cropping[batch_size=2]",
    f"sup-simcse[batch_size=2,corpus={TRIPLES}]",
]
# Every kind of memory: buffers, a second encoder that follows, a frozen one, two that learn.
RESUMED = [
    "is-cse[buffer=12,clusters=3,group=both,neighbours=3]",
    "esimcse[queue=12]",
    "dclr[complement_dropout=true]",
    "ct-bert[batch_size=4,drawn=12,negatives=3]",
]


def some_slow(texts: Sequence[str], quick: int) -> list[Any]:
    """Parameters of a test; all but the first `quick` are slow."""
    return [
        pytest.param(text, marks=() if place < quick else pytest.mark.slow)
        for place, text in enumerate(texts)
    ]
