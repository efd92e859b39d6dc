"""Classifiers that take less time, and what they were trained for."""

from dataclasses import replace

import numpy as np
import pytest

from bench.datasets.labelled import LabelledTask
from bench.evaluation.classifier import MODES
from bench.evaluation.scoring import Scorer
from tests.support.literal_classifier import SMALL


@pytest.fixture
def quick(monkeypatch):
    """Classifiers that train for a few passes."""
    for mode, settings in list(MODES.items()):
        changes = {"folds": 2 if mode == "dev" else 3, "batch_size": 64, "max_epoch": 8}
        monkeypatch.setitem(MODES, mode, replace(settings, **changes))


@pytest.fixture
def classified(monkeypatch):
    """Names of the tasks that a classifier was trained for, in order."""
    names, plain = [], Scorer._train

    def listed(scorer, tasks, seed):
        names.extend(task.name for task in tasks)
        return plain(scorer, tasks, seed)

    monkeypatch.setattr(Scorer, "_train", listed)
    return names


@pytest.fixture
def small_modes_in_double(monkeypatch):
    """In float64 accuracies are equal, not merely close."""
    for mode, chosen in list(MODES.items()):
        monkeypatch.setitem(MODES, mode, replace(chosen, **SMALL))
    plain = LabelledTask.features
    monkeypatch.setattr(LabelledTask, "features", lambda *words: plain(*words).astype(np.float64))
