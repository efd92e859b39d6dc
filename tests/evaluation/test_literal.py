"""Tests of the oracle itself, on tiny data and scripted accuracies."""

from itertools import count

import numpy as np
import pytest
import torch

from tests.oracles.senteval import DEV_MODE, TEST_MODE, Head

WIDTH, CLASSES = 6, 3


def blobs(n):
    """Unit-variance clouds, one axis per class, classes in turn."""
    y = np.arange(n) % CLASSES
    noise = np.random.default_rng(0).standard_normal((n, WIDTH))
    return (noise + np.eye(CLASSES, WIDTH)[y]).astype(np.float32), y


# Early stopping


class Scripted(Head):
    """Told what accuracy each check has; a pass leaves its number in the bias."""

    def __init__(self, accuracies, settings):
        super().__init__(WIDTH, CLASSES, 0.0, settings)
        self.accuracies, self.passes = iter(accuracies), 0

    def one_pass(self, features, labels):
        self.passes += 1
        torch.nn.init.constant_(self.model[0].bias, self.passes)

    def score(self, x, y):
        return next(self.accuracies)


def run(accuracies, settings):
    made = Scripted(accuracies, settings)
    return made, made.fit(*blobs(9), blobs(9))


def test_training_stops_at_the_fourth_check_without_improvement_of_all():
    """With a tenacity of 3. Improvements in between do not reset the count, equal accuracy is
    none."""
    script = [0.5, 0.4, 0.6, 0.6, 0.7, 0.1, 0.8, 0.2, 0.9]
    made, best = run(script, DEV_MODE)
    assert made.checks == script[:8]
    assert (best, made.passes) == (0.8, 16)
    assert made.model[0].bias.tolist() == [14.0] * 3  # of the seventh check, not the last state


def test_the_first_of_equal_checks_is_kept():
    made, best = run([0.25] + [0.5] * 7, TEST_MODE)
    assert (best, len(made.checks), made.passes) == (0.5, 8, 32)
    assert made.model[0].bias.tolist() == [8.0] * 3


@pytest.mark.parametrize(("settings", "passes"), [(TEST_MODE, 204), (DEV_MODE, 202)])
def test_training_that_always_improves_ends_after_the_block_at_pass_200(settings, passes):
    made, best = run((n / 1000 for n in count()), settings)
    assert (made.passes, len(made.checks)) == (passes, passes // settings.epoch_size)
    assert best == (passes // settings.epoch_size - 1) / 1000
