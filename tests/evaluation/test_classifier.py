"""The batched engine against the literal classifier: the same weights, the same shuffles, the same
accuracies, from one step to the records that are written."""

from dataclasses import asdict, replace
from itertools import chain, count

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.evaluation import classifier
from bench.evaluation.classifier import MODES, ClassifierHead, Fold, fit
from bench.evaluation.scoring import Classifiers, Scorer
from tests.oracles import senteval as literal
from tests.support.literal_classifier import LITERAL, SMALL, literal_values, task, vectors


def data(seed, n, width, classes):
    """Gaussian classes that overlap, so that early stopping, regularisation and ties all matter."""
    generator = np.random.default_rng(seed)
    labels = np.sort(generator.permutation(np.arange(n) % classes))
    centres = generator.normal(size=(classes, width))
    features = centres[labels] + generator.normal(size=(n, width)) * 1.5
    order = generator.permutation(n)
    return features[order].astype(np.float32), labels[order].astype(np.int64)


def doubles(features, labels):
    return torch.from_numpy(features).double(), torch.from_numpy(labels)


def assert_same_layers(fitted, head, **tolerances):
    """Our layers have the bias as their last column."""
    weights, biases = (list(head.model.state_dict().values())[kind::2] for kind in (0, 1))
    for layer, weight, bias in zip(fitted.weights, weights, biases, strict=True):
        torch.testing.assert_close(layer, torch.hstack([weight, bias[:, None]]), **tolerances)


@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.2])
def test_weights_of_a_network_with_dropout(dropout):
    """Weights, not accuracies: one pass of a network whose masks, decay and gradients all have to
    agree."""
    features, labels = data(7, 90, 6, 3)
    once = {"max_epoch": 0, "epoch_size": 3}
    chosen = replace(literal.TEST_MODE, hidden=50, dropout=dropout, **once)
    head = literal.Head(6, 3, 1e-2, chosen, torch.float64)
    head.fit(features[:70], labels[:70], (features[70:], labels[70:]))
    fold = Fold(np.arange(70), np.arange(70, 90), (ClassifierHead(1e-2, 50, dropout),), 3)
    ((result,),) = fit(*doubles(features, labels), [fold], replace(MODES["test"], **once))
    assert_same_layers(result, head, rtol=1e-7, atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(
    n=st.integers(24, 90),
    width=st.integers(1, 9),
    classes=st.integers(2, 4),
    seed=st.integers(0, 2**32 - 1),
    mode=st.sampled_from(["test", "dev"]),
    decays=st.lists(st.sampled_from([1e-9, 1e-5, 1e-2, 0.3]), min_size=1, max_size=3),
)
def test_heads_do_not_depend_on_others_in_the_batch(n, width, classes, seed, mode, decays):
    """Folds of unlike sizes trained at once: each head ends as if it had been trained alone."""
    features, labels = data(seed, n, width, classes)
    generator = np.random.default_rng(seed)
    heads = tuple(ClassifierHead(decay) for decay in decays)
    folds = []
    for size in (n // 2, n // 2, n // 2 - 1):
        rows = generator.permutation(n)
        folds.append(Fold(rows[:size], rows[size:], heads, classes))
    result = fit(*doubles(features, labels), folds, MODES[mode])
    for fold, fitted in zip(folds, result, strict=True):
        for place, decay in enumerate(decays):
            head = literal.Head(width, classes, decay, LITERAL[mode], torch.float64)
            dev = features[fold.dev], labels[fold.dev]
            assert fitted[place].accuracy == head.fit(features[fold.train], labels[fold.train], dev)
            # A step is gradient / sqrt(mean square): of a gradient near 0 it makes 1e-8 out of
            # roundings of 1e-16.
            assert_same_layers(fitted[place], head, rtol=1e-5, atol=1e-6)


# Loops that are shared


def cut(seed, classes, heads, first=0):
    """60 rows from `first` on, 45 of them for training."""
    rows = first + np.random.default_rng(seed).permutation(60)
    return Fold(rows[:45], rows[45:], heads, classes)


def same(found, expected, **tolerances):
    """Equal accuracies, and weights within tolerances."""
    for left, right in zip(chain(*found), chain(*expected), strict=True):
        assert left.accuracy == right.accuracy
        for layer, wanted in zip(left.weights, right.weights, strict=True):
            torch.testing.assert_close(layer, wanted, **tolerances)


GRID = (ClassifierHead(1e-3), ClassifierHead(1e-2))
NETWORKS = tuple(
    ClassifierHead(1e-9, hidden, dropout) for hidden in (3, 5, 9) for dropout in (0.0, 0.2)
)


@pytest.mark.parametrize("mode", MODES)
def test_tasks_and_networks_that_share_a_loop_are_trained_as_if_alone(mode):
    """Labels and sizes are unlike, so that layers are padded: padding learns nothing, is never
    predicted, and shifts no mask. This catches a smaller `ABSENT` (-3), masks drawn in the padded
    shape, and weights of padding in what is returned."""
    tasks = [doubles(*data(seed, 60, 7, classes)) for seed, classes in ((1, 2), (2, 4))]
    folds = [cut(place, 2 + 2 * place, GRID + NETWORKS, 60 * place) for place in range(2)]
    features, labels = map(torch.cat, zip(*tasks, strict=True))
    together = fit(features, labels, folds, MODES[mode], padded=True)
    apart = [fit(features, labels, [fold], MODES[mode])[0] for fold in folds]
    # A step is gradient / sqrt(mean square): of a gradient near 0 it makes 1e-8 out of roundings.
    same(together, apart, rtol=1e-5, atol=1e-6)
    groups = {padded: classifier._groups(folds, padded) for padded in (True, False)}
    assert [len(groups[padded]) for padded in (True, False)] == [2, 2 * 4]


def test_threads_and_blocks_do_not_matter(monkeypatch, global_state):
    """Loops side by side give equal bits; the ends of blocks are rounded differently."""
    given = doubles(*data(8, 60, 5, 3))
    folds = [cut(seed, 3, GRID + NETWORKS) for seed in range(5)]
    at_once = fit(*given, folds, MODES["test"])
    monkeypatch.setitem(classifier.BLOCK, "cpu", 2)
    in_turn = fit(*given, folds, MODES["test"])
    same(in_turn, at_once, rtol=1e-5, atol=1e-6)
    torch.set_num_threads(3)
    same(fit(*given, folds, MODES["test"]), in_turn, rtol=0, atol=0)
    assert torch.get_num_threads() == 3


def test_an_error_in_one_loop_ends_the_others(monkeypatch, global_state):
    """Two endless loops, which end with their pass."""
    monkeypatch.setitem(classifier.BLOCK, "cpu", 1)
    endless = replace(MODES["test"], tenacity=10**9, max_epoch=10**9)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    passes, plain, far_more = count(1), classifier._Cohort._pass, 20_000

    def failing(cohort):
        plain(cohort)
        taken = next(passes)
        if taken == 20:
            raise KeyboardInterrupt
        # How many passes the other loop takes until it is told depends on the machine's threads.
        assert taken < far_more, "nobody stopped this loop"

    monkeypatch.setattr(classifier._Cohort, "_pass", failing)
    folds = [cut(seed, 3, GRID) for seed in range(4)]
    with pytest.raises(KeyboardInterrupt):
        fit(*doubles(*data(8, 60, 5, 3)), folds, endless)
    assert next(passes) < far_more


# Records


@pytest.mark.parametrize("mode", ["test", "dev"])
@pytest.mark.parametrize(
    "task",
    [
        task("xprobe-Depth", "nested", 4, all=80),
        task("TREC", "kfold", 6, train=120, test=50),
        task("MRPC", "kfold", 2, train=110, test=60),
        task("SST2", "split", 2, train=130, dev=42, test=50),
        task("Length", "probing", 5, train=130, dev=42, test=50),
    ],
    ids=lambda task: task.name,
)
@pytest.mark.usefixtures("small_modes_in_double")
def test_records_are_those_of_the_literal_classifier(task, mode):
    expected = literal_values(task, replace(LITERAL[mode], **SMALL))
    records = Scorer([task], vectors, None, Classifiers(mode)).scores().records
    assert all((record["task"], record["aggregation"]) == (task.name, "all") for record in records)
    assert len(records) == len(expected)
    assert {(record["metric"], record["split"]): record["value"] for record in records} == expected
    # Neither chance nor trivial, so that equality says something (nested refits are stopped by 3
    # samples: on dev).
    assert 110 / task.classes < expected["accuracy", "dev"] < 100


@pytest.mark.parametrize("mode", MODES)
def test_modes_differ_as_the_literal_ones(mode):
    ours = asdict(MODES[mode])
    assert ours.pop("seed") == 1111  # SentEval's, which the literal one has everywhere
    assert ours.items() <= asdict(LITERAL[mode]).items()
