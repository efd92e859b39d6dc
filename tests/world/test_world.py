"""The toy data: its files are those that tools/world makes, and what numbers on them mean."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from bench import world as world_files
from bench.datasets.manifest import manifest
from bench.judge.world import SCORES, SEEDS
from bench.registry.backbones import TOY_VERSION
from bench.utils.errors import UserError
from tools.world.data import build

# The generator


def test_the_generator_makes_the_shipped_files(world, tmp_path):
    """Other files change every number of the smoke suite: increment TOY_VERSION, and the version in
    the manifest."""
    shutil.copy(world / "manifest.json", tmp_path)
    build(tmp_path)
    files = [[path for path in folder.rglob("*") if path.is_file()] for folder in (tmp_path, world)]
    made = {path.relative_to(tmp_path): path.read_bytes() for path in files[0]}
    shipped = {path.relative_to(world): path.read_bytes() for path in files[1]}
    assert made.keys() == shipped.keys()
    assert [name for name in made if made[name] != shipped[name]] == []
    assert manifest(world).version == TOY_VERSION


# The files


@pytest.mark.parametrize("folder", [world_files.WORLD_DATA, world_files.BACKBONES])
def test_every_shipped_file_has_its_sum(folder, tmp_path):
    listed = {line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    assert {path.as_posix() for path in files} == {*listed, "SHA256SUMS"}
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    altered = copy / max(listed)
    altered.write_bytes(altered.read_bytes()[:-1])
    world_files.check_world(copy, min(listed))
    with pytest.raises(UserError, match=f"{altered.name} is not the file that sentbench ships"):
        world_files.check_world(copy)


def test_the_order_of_methods_is_that_on_real_text():
    """By the reference scores of the toy data."""
    numbers = pd.read_csv(SCORES)
    numbers["mean"] = numbers[SEEDS].mean(axis=1)
    numbers["name"] = numbers["run"] + " on " + numbers["backbone"]
    averages = numbers.query("task == 'Avg' and metric == 'spearman'").set_index("name")["mean"]
    accuracies = numbers.query("task == 'Avg' and metric == 'accuracy'")
    transfer = accuracies.set_index("name")["mean"]
    poolers = ("cls_before_pooler", "avg", "avg_first_last")
    raw = [f"untrained[pooler={pooler}]@paper on toy-bert" for pooler in poolers]
    mapped = [averages[name] for name in averages.index if "+whitening" in name or "+flow" in name]
    mapped += [averages["glove@official on toy-glove"]]
    lowest = max(averages[name] for name in ["word-overlap@paper on none", *raw])
    assert lowest < min(mapped) - 5
    for name in ("simcse", "gs-infonce", "is-cse", "sscl", "esimcse", "dclr[epochs=1]"):
        run = f"{name}@official on toy-bert"
        assert averages[run] > max(mapped), run
        assert transfer[run] > transfer[raw[0]] - 1, run  # training loses nothing
