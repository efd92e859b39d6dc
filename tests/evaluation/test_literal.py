"""Tests of the oracle itself, on tiny data and scripted accuracies."""

from collections import namedtuple
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.oracles import senteval as literal
from tests.oracles.senteval import DEV_MODE, REGULARISERS, TEST_MODE, Head

WIDTH, CLASSES = 6, 3
QUICK = replace(TEST_MODE, folds=3, batch_size=8, max_epoch=20)


def blobs(n):
    """Unit-variance clouds, one axis per class, classes in turn."""
    y = np.arange(n) % CLASSES
    noise = np.random.default_rng(0).standard_normal((n, WIDTH))
    return (noise + np.eye(CLASSES, WIDTH)[y]).astype(np.float32), y


# One classifier


def test_the_first_adam_steps_are_the_formula():
    """Two batches, the second smaller: Adam with the mean loss and coupled decay on weights and
    bias, by hand."""
    x, y = blobs(11)
    decay, targets = 0.3, F.one_hot(torch.from_numpy(y), CLASSES)
    made = Head(WIDTH, CLASSES, decay, QUICK, torch.float64)
    weights = torch.cat([made.initial["0.weight"], made.initial["0.bias"][:, None]], 1).double()
    made.one_pass(torch.from_numpy(x).double(), torch.from_numpy(y))
    features = torch.cat([torch.from_numpy(x).double(), torch.ones(11, 1).double()], 1)
    m = v = torch.zeros_like(weights)
    [order] = made.permutations
    for step, batch in enumerate((order[:8], order[8:]), start=1):
        wrong = (features[batch] @ weights.T).softmax(1) - targets[batch]
        gradient = wrong.T @ features[batch] / len(batch) + decay * weights
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        weights = weights - 1e-3 * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)
    torch.testing.assert_close(made.model[0].weight, weights[:, :-1], rtol=0, atol=1e-12)
    torch.testing.assert_close(made.model[0].bias, weights[:, -1], rtol=0, atol=1e-12)


def test_the_first_rmsprop_step_is_the_formula():
    """From rest the squared mean is 0.01 g^2, hence a step of 0.01 g / (0.1 |g| + 1e-8)."""
    x, y = blobs(8)
    features = torch.from_numpy(x).double()
    made = Head(WIDTH, CLASSES, 0.3, replace(QUICK, optimiser="rmsprop"), torch.float64)
    weight, bias = (made.initial[name].double() for name in ("0.weight", "0.bias"))
    wrong = (features @ weight.T + bias).softmax(1) - F.one_hot(torch.from_numpy(y), CLASSES)
    gradient = wrong.T @ features / 8 + 0.3 * weight
    made.one_pass(features, torch.from_numpy(y))
    expected = weight - 0.01 * gradient / (0.1 * gradient.abs() + 1e-8)
    torch.testing.assert_close(made.model[0].weight, expected, rtol=0, atol=1e-12)


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


@pytest.mark.parametrize(("n", "size"), [(119, 5), (120, 6)])
def test_five_percent_is_the_head_of_the_first_permutation(n, size, monkeypatch):
    x, y = blobs(n)
    seen, real = [], Head.score
    monkeypatch.setattr(Head, "score", lambda self, x, y: seen.append((x, y)) or real(self, x, y))
    made = Head(WIDTH, CLASSES, 1e-4, QUICK)
    made.fit(x, y)
    order = np.random.RandomState(1111).permutation(n)
    np.testing.assert_array_equal(made.permutations[0], order)
    dev = order[:size]
    assert all(np.array_equal(a, x[dev]) and np.array_equal(b, y[dev]) for a, b in seen)
    assert {len(p) for p in made.permutations[1:]} == {n - size}
    assert len(made.permutations) == 1 + len(made.checks) * QUICK.epoch_size


# Protocols


def test_folds_are_stratified_shuffled_and_drawn_with_the_seed():
    y = np.array([0, 1, 1] * 4)
    parts = list(literal.folds(y[:, None], y, 4))
    held_out = [[2, 7, 9], [1, 6, 10], [3, 4, 11], [0, 5, 8]]
    assert [part.tolist() for _, part in parts] == held_out
    assert all(sorted([*train, *part]) == list(range(12)) for train, part in parts)


Fit = namedtuple("Fit", "decay settings train dev")  # numbers of samples; None: no dev part


@pytest.fixture
def fits(monkeypatch):
    """Replaces heads by ones whose accuracy is a table of their decay, hidden size and dropout; all
    fits are listed."""
    fits = []

    class Stub:
        def __init__(self, inputs, classes, decay, settings, dtype):
            assert (inputs, classes, dtype) == (WIDTH, CLASSES, torch.float32)
            self.decay, self.settings = decay, settings

        def fit(self, x, y, dev=None):
            fits.append(Fit(self.decay, self.settings, len(x), dev and len(dev[0])))

        def score(self, x, y):
            if self.settings.hidden:
                by_network = {(50, 0.2): 0.7, (100, 0.1): 0.7000049, (200, 0.0): 0.6}
                return by_network.get((self.settings.hidden, self.settings.dropout), 0.5)
            # They differ beyond the two decimals.
            return {1e-4: 2 / 3, 1e-3: 2 / 3 + 1e-9}.get(self.decay, 0.5)

        def predict(self, x):
            return np.full(len(x), 1)

    monkeypatch.setattr(literal, "Head", Stub)
    return fits


def test_nested_fits_410_heads(fits):
    assert literal.nested(*blobs(300), CLASSES, TEST_MODE) == (66.67, 66.67)
    assert len(fits) == 410
    refits = [fit for fit in fits if fit.dev is None]
    assert refits == [Fit(1e-4, TEST_MODE, 270, None)] * 10  # the first of equals after rounding
    inner = [fit for fit in fits if fit.dev]
    assert [fit.decay for fit in inner] == 10 * [decay for decay in REGULARISERS for _ in range(10)]
    assert {(fit.train, fit.dev) for fit in inner} == {(243, 27)}


def test_kfold_fits_41_heads(fits):
    dev, test, predictions = literal.kfold(*blobs(300), *blobs(90), CLASSES, TEST_MODE)
    assert (dev, test, predictions.tolist()) == (66.67, 66.67, [1] * 90)
    assert len(fits) == 41
    assert fits[-1] == Fit(1e-4, TEST_MODE, 300, None)
    assert {(fit.train, fit.dev) for fit in fits[:-1]} == {(270, 30)}


SPLITS = {"train": blobs(30), "dev": blobs(12), "test": blobs(9)}


def test_split_fits_one_head_for_each_regulariser_and_one_more(fits):
    assert literal.split(SPLITS, CLASSES, TEST_MODE) == (66.67, 66.67)
    assert [fit.decay for fit in fits] == [*REGULARISERS, 1e-4]
    assert {(fit.train, fit.dev) for fit in fits} == {(30, 12)}


def test_the_network_is_the_first_of_the_best_after_rounding(fits):
    assert literal.tuned_mlp(SPLITS, CLASSES, TEST_MODE) == (70.0, 70.0, (50, 0.2))
    tried = [(fit.settings.hidden, fit.settings.dropout) for fit in fits]
    assert tried == [(hidden, dropout) for hidden in (50, 100, 200) for dropout in (0.0, 0.1, 0.2)]
    assert {fit.decay for fit in fits} == {1e-9}
