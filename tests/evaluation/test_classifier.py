"""The batched engine against the literal classifier: the same weights, the same shuffles, the same
accuracies."""

from dataclasses import replace
from itertools import chain, count
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.evaluation import classifier, protocols
from bench.evaluation.classifier import MODES, Fitted, Fold, Head, Optimiser, Settings, fit, initial
from bench.evaluation.protocols import Part, Split
from tests.oracles import senteval as literal

PROTOCOL_MODES = [(MODES["test"], literal.TEST_MODE), (MODES["dev"], literal.DEV_MODE)]


def data(
    seed: int, n: int, width: int, classes: int, noise: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian classes that overlap, so that early stopping, regularisation and ties all matter."""
    generator = np.random.default_rng(seed)
    labels = np.sort(generator.permutation(np.arange(n) % classes))
    centres = generator.normal(size=(classes, width))
    features = centres[labels] + noise * generator.normal(size=(n, width)) * 1.5
    order = generator.permutation(n)
    return features[order].astype(np.float32), labels[order].astype(np.int64)


def part(features: np.ndarray, labels: np.ndarray, dtype: torch.dtype = torch.float64) -> Part:
    return Part(torch.from_numpy(features).to(dtype), torch.from_numpy(labels))


@pytest.mark.parametrize(
    ("width", "classes", "hidden"), [(7, 2, 0), (16, 6, 0), (5, 3, 50), (9, 2, 200)]
)
def test_first_weights_are_bit_equal(width: int, classes: int, hidden: int) -> None:
    head = literal.Head(width, classes, 0.0, replace(literal.TEST_MODE, hidden=hidden))
    theirs = list(head.initial.values())
    layers = [
        torch.cat([theirs[i], theirs[i + 1].unsqueeze(1)], dim=1) for i in range(0, len(theirs), 2)
    ]
    for one, other in zip(initial(width, classes, hidden)[0], layers, strict=True):
        assert torch.equal(one, other)


def test_permutations_are_bit_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every permutation that a head draws, the one of the 5 % included."""
    drawn: list[np.ndarray] = []

    class Recorder(np.random.RandomState):
        def permutation(self, x: int) -> np.ndarray:  # type: ignore[override]
            drawn.append(super().permutation(x))
            return drawn[-1]

    monkeypatch.setattr(classifier.np.random, "RandomState", Recorder)
    features, labels = data(0, 61, 4, 2)
    head = literal.Head(4, 2, 1e-3, literal.TEST_MODE, torch.float64)
    head.fit(features, labels)
    fold = Fold(np.arange(61), None, (Head(1e-3),), 2)
    fit(torch.from_numpy(features).double(), torch.from_numpy(labels), [fold], MODES["test"])
    assert len(drawn) == len(head.permutations) > 24
    for ours, theirs in zip(drawn, head.permutations, strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("modes", PROTOCOL_MODES)
@pytest.mark.parametrize("seed", [1, 2])
def test_nested(modes: tuple[Settings, literal.Settings], seed: int) -> None:
    ours, theirs = (replace(settings, folds=3) for settings in modes)
    features, labels = data(seed, 101, 6, 2)
    found = protocols.nested(part(features, labels), 2, ours)
    assert (found.dev, found.test) == literal.nested(features, labels, 2, theirs, torch.float64)


@pytest.mark.parametrize("modes", PROTOCOL_MODES)
@pytest.mark.parametrize("classes", [2, 6])
def test_kfold(modes: tuple[Settings, literal.Settings], classes: int) -> None:
    ours, theirs = (replace(settings, folds=4) for settings in modes)
    features, labels = data(3, 150, 8, classes)
    test_features, test_labels = data(4, 50, 8, classes)
    found = protocols.kfold(part(features, labels), part(test_features, test_labels), classes, ours)
    dev, test, predicted = literal.kfold(
        features, labels, test_features, test_labels, classes, theirs, torch.float64
    )
    assert (found.dev, found.test) == (dev, test)
    assert found.predicted is not None
    assert np.array_equal(found.predicted, predicted)


def splits(seed: int, classes: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    features, labels = data(seed, 300, 10, classes)
    return {
        "train": (features[:180], labels[:180]),
        "dev": (features[180:240], labels[180:240]),
        "test": (features[240:], labels[240:]),
    }


@pytest.mark.parametrize("modes", PROTOCOL_MODES)
@pytest.mark.parametrize("classes", [2, 7])
def test_split(modes: tuple[Settings, literal.Settings], classes: int) -> None:
    ours, theirs = modes
    parts = splits(5, classes)
    task = Split({name: part(*both) for name, both in parts.items()}, classes)
    ((found,),) = protocols.best_on_dev([task], [protocols.GRID], ours)
    assert (found.dev, found.test) == literal.split(parts, classes, theirs, dtype=torch.float64)


@pytest.mark.parametrize("modes", PROTOCOL_MODES)
def test_tuned_network(modes: tuple[Settings, literal.Settings]) -> None:
    """Dropout masks included: without them the choice would differ."""
    ours, theirs = modes
    parts = splits(6, 3)
    task = Split({name: part(*both) for name, both in parts.items()}, 3)
    ((_, found),) = protocols.best_on_dev([task], [protocols.GRID, protocols.NETWORKS], ours)
    dev, test, _ = literal.tuned_mlp(parts, 3, theirs, torch.float64)
    assert (found.dev, found.test) == (dev, test)


@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.2])
def test_weights_of_a_network_with_dropout(dropout: float) -> None:
    """Weights, not accuracies: one pass of a network whose masks, decay and gradients all have to
    agree."""
    features, labels = data(7, 90, 6, 3)
    once = {"max_epoch": 0, "epoch_size": 3}
    chosen = replace(literal.TEST_MODE, hidden=50, dropout=dropout, **once)
    head = literal.Head(6, 3, 1e-2, chosen, torch.float64)
    head.fit(features[:70], labels[:70], (features[70:], labels[70:]))
    theirs = list(head.model.state_dict().values())
    fold = Fold(np.arange(70), np.arange(70, 90), (Head(1e-2, 50, dropout),), 3)
    double = torch.from_numpy(features).double()
    settings = replace(MODES["test"], **once)
    ((found,),) = fit(double, torch.from_numpy(labels), [fold], settings)
    for layer, place in zip(found.weights, (0, 2), strict=True):
        torch.testing.assert_close(layer[:, :-1], theirs[place], rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(layer[:, -1], theirs[place + 1], rtol=1e-7, atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(24, 90),
    width=st.integers(1, 9),
    classes=st.integers(2, 4),
    seed=st.integers(0, 2**32 - 1),
    mode=st.sampled_from(PROTOCOL_MODES),
    decays=st.lists(st.sampled_from([1e-9, 1e-5, 1e-2, 0.3]), min_size=1, max_size=3),
)
def test_heads_do_not_depend_on_others_in_the_batch(
    n: int,
    width: int,
    classes: int,
    seed: int,
    mode: tuple[Settings, literal.Settings],
    decays: list[float],
) -> None:
    """Folds of unlike sizes trained at once: each head ends as if it had been trained alone."""
    features, labels = data(seed, n, width, classes)
    generator = np.random.default_rng(seed)
    heads = tuple(Head(decay) for decay in decays)
    folds = []
    for size in (n // 2, n // 2, n // 2 - 1):
        rows = generator.permutation(n)
        folds.append(Fold(rows[:size], rows[size:], heads, classes))
    found = fit(torch.from_numpy(features).double(), torch.from_numpy(labels), folds, mode[0])
    for fold, fitted in zip(folds, found, strict=True):
        for place, decay in enumerate(decays):
            head = literal.Head(width, classes, decay, mode[1], torch.float64)
            dev = features[fold.dev], labels[fold.dev]
            assert fitted[place].accuracy == head.fit(features[fold.train], labels[fold.train], dev)
            assert fitted[place].passes == len(head.permutations)
            # A step is gradient / sqrt(mean square): of a gradient near 0 it makes 1e-8 out of
            # roundings of 1e-16.
            (ours,) = fitted[place].weights
            theirs = head.model.state_dict()
            torch.testing.assert_close(ours[:, :-1], theirs["0.weight"], rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(ours[:, -1], theirs["0.bias"], rtol=1e-5, atol=1e-6)


def cut(seed: int, classes: int, heads: tuple[Head, ...], first: int = 0) -> Fold:
    """60 rows from `first` on, 45 of them for training."""
    rows = first + np.random.default_rng(seed).permutation(60)
    return Fold(rows[:45], rows[45:], heads, classes)


def same(one: list[list[Fitted]], other: list[list[Fitted]], **tolerances: float) -> None:
    """Equal accuracies and passes, and weights within tolerances."""
    for left, right in zip(chain(*one), chain(*other), strict=True):
        assert (left.accuracy, left.passes) == (right.accuracy, right.passes)
        for layer, expected in zip(left.weights, right.weights, strict=True):
            torch.testing.assert_close(layer, expected, **tolerances)


GRID = (Head(1e-3), Head(1e-2))
NETWORKS = tuple(Head(1e-9, hidden, dropout) for hidden in (3, 5, 9) for dropout in (0.0, 0.2))


@pytest.mark.parametrize("mode", MODES)
def test_tasks_and_networks_that_share_a_loop_are_trained_as_if_alone(mode: str) -> None:
    """Of unlike labels and sizes, so that layers are padded: padding learns nothing, is never
    predicted, and shifts no mask. This catches a smaller `ABSENT` (-3), masks drawn in the padded
    shape, and weights of padding in what is returned."""
    own, tasks = MODES[mode], [data(seed, 60, 7, classes) for seed, classes in ((1, 2), (2, 4))]
    folds = [cut(place, 2 + 2 * place, GRID + NETWORKS, 60 * place) for place in range(2)]
    features = torch.cat([torch.from_numpy(rows).double() for rows, _ in tasks])
    labels = torch.cat([torch.from_numpy(answers) for _, answers in tasks])
    together = fit(features, labels, folds, own, padded=True)
    apart = [fit(features, labels, [fold], own, padded=False)[0] for fold in folds]
    # A step is gradient / sqrt(mean square): of a gradient near 0 it makes 1e-8 out of roundings.
    same(together, apart, rtol=1e-5, atol=1e-6)
    groups = {padded: classifier._groups(folds, padded) for padded in (True, False)}
    assert [len(groups[padded]) for padded in (True, False)] == [2, 2 * 4]


def test_threads_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops side by side give equal bits; the ends of blocks are rounded differently."""
    features, labels = data(8, 60, 5, 3)
    given = torch.from_numpy(features).double(), torch.from_numpy(labels)
    folds = [cut(seed, 3, GRID + NETWORKS) for seed in range(5)]
    at_once = fit(*given, folds, MODES["test"])
    monkeypatch.setitem(classifier.BLOCK, "cpu", 2)
    in_turn = fit(*given, folds, MODES["test"])
    same(in_turn, at_once, rtol=1e-5, atol=1e-6)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        same(fit(*given, folds, MODES["test"]), in_turn, rtol=0, atol=0)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_an_error_in_one_loop_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two endless loops, which end with their pass."""
    features, labels = data(8, 60, 5, 3)
    monkeypatch.setitem(classifier.BLOCK, "cpu", 1)
    endless = replace(MODES["test"], tenacity=10**9, max_epoch=10**9)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    passes = count(1)
    plain = classifier._Cohort._pass

    def failing(cohort: classifier._Cohort) -> None:
        plain(cohort)
        if next(passes) == 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(classifier._Cohort, "_pass", failing)
    folds = [cut(seed, 3, GRID) for seed in range(4)]
    with pytest.raises(KeyboardInterrupt):
        fit(torch.from_numpy(features), torch.from_numpy(labels), folds, endless)
    assert next(passes) < 30


def test_fused_adam_is_adam() -> None:
    """What a GPU runs, here on a processor: equal but for rounding."""
    draw = torch.Generator().manual_seed(0)
    shapes, decays = ((3, 4, 8), (3, 2, 5)), torch.tensor([1e-5, 1e-3, 0.1])
    weights = [[torch.randn(shape, generator=draw) for shape in shapes]] * 2
    weights = [[weight.clone() for weight in each] for each in weights]
    both = [
        Optimiser("adam", own, decays, fused=fused)
        for own, fused in zip(weights, (False, True), strict=True)
    ]
    for _ in range(50):
        gradients = [torch.randn(shape, generator=draw) for shape in shapes]
        for optimiser, own in zip(both, weights, strict=True):
            optimiser.step(own, [gradient.clone() for gradient in gradients])
    for one, other in zip(*weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("file", ["classifier.py", "protocols.py"])
def test_engine_and_oracle_share_nothing(file: str) -> None:
    assert "literal" not in (Path(classifier.__file__).parent / file).read_text(encoding="utf-8")
    source = Path(literal.__file__).read_text(encoding="utf-8")
    assert "import bench" not in source
    assert "from bench" not in source
