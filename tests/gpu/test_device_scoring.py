"""Scores, maps, classifiers, analyses and neighbours on the pretended device equal the host's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bench.evaluation.classifier import MODES, Fold, fit
from bench.evaluation.heads import Dropout, Head
from bench.stages import jobs
from bench.stages.analyse import ANALYSES
from bench.training.knn import nearest_rows
from bench.utils.files import read_json
from tests.gpu.conftest import Make
from tests.methods.outside import run_of
from tests.support.pretended_device import PretendedDevice
from tests.support.tiny_tasks import write_tasks
from tests.training import test_knn

Device = PretendedDevice
Patch = pytest.MonkeyPatch
DEVICES = ("cpu", "cuda")
# Of numbers in float32, computed in another order.
ROUNDED = {"rel": 1e-5, "abs": 1e-6}
UNTRAINED = "untrained[pooler=avg_first_last]"


def score(run: Any, suite: Path, tasks: list[str]) -> list[list[dict[str, Any]]]:
    """Records of a run's scoring on the host and on the device."""
    for device in DEVICES:
        jobs.score_run(run, suite, tasks, "dev", suite / f"{device}.json", device)
    return [read_json(suite / f"{device}.json")["records"] for device in DEVICES]


@pytest.fixture(autouse=True)
def deterministic(device: Device) -> Iterator[None]:
    """Operations that torch's deterministic mode refuses are in none of these."""
    with device.recorded() as seen:
        yield
    assert not seen.refused


@pytest.fixture(scope="session")
def all_tasks(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tasks(tiny_data, tmp_path_factory.mktemp("tasks") / "data")


def test_every_kind_of_task(
    device: Device,
    backbone: Path,
    corpus: Path,
    all_tasks: Path,
    tmp_path: Path,
    monkeypatch: Patch,
) -> None:
    """STS, nested and plain folds, pairs, fixed parts, and probing tasks with their networks, which
    share a loop on the device. Masks are the host's."""
    few = replace(MODES["dev"], folds=2, batch_size=8, max_epoch=4)
    monkeypatch.setitem(MODES, "dev", few)
    monkeypatch.setattr(Dropout, "masks", masks_of_the_host)
    run = run_of(UNTRAINED, backbone, corpus, all_tasks)
    host, own = score(run, tmp_path, ["STS12", "CR", "TREC", "MRPC", "SST2", "Length", "Depth"])
    assert {record["metric"] for record in own} >= {"spearman", "accuracy", "f1", "accuracy_mlp"}
    assert own == host


@pytest.mark.parametrize(
    "mapped",
    [
        "whitening[source=CORPUS]",
        "whitening[dimensions=5,source=target]",
        "flow[source=CORPUS]",
        "projection[dimensions=5,source=CORPUS]",
        "projection[dimensions=5,kind=random]",
    ],
)
def test_maps(mapped: str, device: Device, make: Make, corpus: Path, tmp_path: Path) -> None:
    run = make(f"{UNTRAINED}+{mapped.replace('CORPUS', str(corpus))}")
    host, own = score(run, tmp_path, ["STS12"])
    assert own == host


def masks_of_the_host(self: Dropout, count: int, classes: list[int]) -> torch.Tensor:
    return torch.stack([self._draw(count, each) for each in classes])


def test_masks_of_the_device(device: Device) -> None:
    """Drawn there, scaled, the same for the same seed, and 1 where nothing is dropped."""
    heads = (Head(0.1, 40, 0.25), Head(0.1, 30, 0.0))
    draws = [Dropout(torch.zeros(1, device="cuda"), heads, {}) for _ in range(2)]
    first, second, again = (own.masks(500, [2]) for own in (draws[0], draws[0], draws[1]))
    assert first.shape == (1, 2, 40, 500)
    assert torch.equal(first.cpu(), again.cpu())
    assert not torch.equal(first.cpu(), second.cpu())
    dropped, kept = first[0].cpu()
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert dropped.mean() == pytest.approx(1, abs=0.02)  # 20,000 draws: 4 standard errors
    assert (kept == 1).all()


@pytest.mark.parametrize("hidden", [0, 5])
def test_classifiers(hidden: int, device: Device) -> None:
    """Accuracies of every head, and what the best predict for every row."""
    draw = np.random.default_rng(0)
    labels = torch.from_numpy(draw.integers(0, 3, 60))
    features = torch.from_numpy(draw.normal(size=(60, 6)).astype(np.float32))
    features[:, :3] += torch.eye(3)[labels]
    heads = Head(1e-5, hidden), Head(1e-2, hidden)
    folds = [Fold(np.arange(start, start + 40), None, heads, 3) for start in (0, 20)]
    found = []
    for place in DEVICES:
        given, told = features.to(place), labels.to(place)
        fitted = fit(given, told, folds, replace(MODES["dev"], max_epoch=4))
        found.append([
            (head.accuracy, head.passes, head.predict(given).tolist())
            for heads_of in fitted
            for head in heads_of
        ])  # fmt: skip
    assert found[1] == found[0]


@pytest.mark.parametrize("kind", ["random", "narrow cone", "copies"])
def test_neighbours(kind: str, device: Device) -> None:
    vectors = test_knn.rows(kind)
    np.testing.assert_array_equal(nearest_rows(vectors, 5, "cuda"), nearest_rows(vectors, 5))


def test_analyses(device: Device, make: Make, tmp_path: Path) -> None:
    """Those that need a training say so; the others equal the host's to rounding."""
    run = make(UNTRAINED)
    results = []
    for place in DEVICES:
        jobs.analyse_run(run, tmp_path, list(ANALYSES), tmp_path / f"{place}.json", place)
        results.append(read_json(tmp_path / f"{place}.json")["analyses"])
    host, own = results
    assert own.keys() == host.keys() == ANALYSES.keys()
    for name in own:
        assert words(own[name]) == words(host[name])
        assert numbers(own[name]) == pytest.approx(numbers(host[name]), **ROUNDED), name


def flat(tree: Any) -> list[Any]:
    """The leaves of nested lists and dictionaries, in order."""
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else None
    return [tree] if inner is None else [leaf for one in inner for leaf in flat(one)]


def numbers(tree: Any) -> list[float]:
    return [leaf for leaf in flat(tree) if isinstance(leaf, int | float)]


def words(tree: Any) -> list[Any]:
    return [leaf for leaf in flat(tree) if not isinstance(leaf, int | float)]
