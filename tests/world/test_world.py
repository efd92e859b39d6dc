"""The toy data: its files are those that tools/world makes, and what numbers on them mean."""

import random
import shutil
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from bench import world as world_files
from bench.datasets import sts
from bench.datasets.manifest import manifest
from bench.judge.world import SCORES, SEEDS
from bench.models.load import load_encoder
from bench.registry.backbones import TOY_FOLDER, TOY_VERSION, backbone
from bench.utils.errors import UserError
from tools.world.backbones import pretrain, sentences
from tools.world.data import build
from tools.world.language import FACTORS, RELATED, ROLES, change, sample_meaning, similarity

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


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("roberta", "chinese")]


@pytest.mark.parametrize("kind", ["bert", *SLOW])
@pytest.mark.usefixtures("global_state")
def test_a_short_pretraining_writes_a_backbone(kind, tmp_path):
    pretrain(kind, 0, tmp_path, sentences()[:1200], steps=2)
    shipped = TOY_FOLDER / f"toy-{kind}"
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in shipped.iterdir()}
    width = backbone(f"toy-{kind}").shape.width
    assert load_encoder(tmp_path, pooler="avg").encode(["The chef ."]).shape == (1, width)


@given(st.integers(0, 2**32), st.sampled_from([*ROLES, *FACTORS]))
def test_each_changed_role_costs_what_it_is_worth(seed, role):
    random.seed(seed)
    meaning = sample_meaning(1.0)
    changed = change(meaning, role)
    assert similarity(meaning, changed) == similarity(changed, meaning)
    assert similarity(meaning, meaning) == 5
    if role in FACTORS:
        assert similarity(meaning, changed) == pytest.approx(5 * FACTORS[role])
    elif getattr(meaning, role) is None:
        assert changed == meaning
    else:
        a, b = getattr(meaning, role), getattr(changed, role)
        told = sum(worth for name, worth in ROLES.items() if getattr(meaning, name) is not None)
        lost = ROLES[role] * (1 - (RELATED if a.family == b.family else 0))
        assert similarity(meaning, changed) == pytest.approx(5 * (told - lost) / told)


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


@pytest.mark.parametrize("task", ["STS-B", "STS12", "SICK-R"])
def test_word_overlap_is_far_from_gold(world, task):
    """Paraphrases share few words, changed meanings many."""
    gold, overlap = [], []
    for subset in sts.read(task, world).subsets:
        gold += subset.gold.tolist()
        for first, second in zip(subset.first, subset.second, strict=True):
            a, b = {*first.lower().split()}, {*second.lower().split()}
            overlap.append(len(a & b) / len(a | b))
    assert 0.05 < spearmanr(overlap, gold).statistic < 0.4


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
