"""tools/world makes the files that bench/world has."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.models.load import load_encoder
from bench.registry.backbones import TOY_FOLDER, TOY_VERSION, backbone
from tools.world.backbones import pretrain, sentences
from tools.world.data import VERSION, build, in_chinese
from tools.world.language import FACTORS, RELATED, ROLES, change, sample_meaning, similarity


def test_the_generator_makes_the_shipped_files(world, tmp_path):
    """Other files change every number of the smoke suite: increment VERSION and TOY_VERSION."""
    build(tmp_path)
    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    shipped = {path.relative_to(world) for path in world.rglob("*") if path.is_file()}
    assert made == shipped
    for name in made:
        assert (tmp_path / name).read_bytes() == (world / name).read_bytes(), name
    assert VERSION == TOY_VERSION


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
    rng = random.Random(seed)
    meaning = sample_meaning(rng, 1.0)
    other = change(meaning, role, rng)
    assert similarity(meaning, other) == similarity(other, meaning)
    assert similarity(meaning, meaning) == 5
    if role in FACTORS:
        assert similarity(meaning, other) == pytest.approx(5 * FACTORS[role])
    elif getattr(meaning, role) is None:
        assert other == meaning
    else:
        a, b = getattr(meaning, role), getattr(other, role)
        told = sum(worth for name, worth in ROLES.items() if getattr(meaning, name) is not None)
        lost = ROLES[role] * (1 - (RELATED if a.family == b.family else 0))
        assert similarity(meaning, other) == pytest.approx(5 * (told - lost) / told)


WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12)


@given(WORDS, WORDS)
def test_only_equal_words_are_written_alike_in_chinese(one, other):
    assert (in_chinese(one) == in_chinese(other)) == (one == other)
    assert all("\u4e00" <= character <= "\u9fff" for character in in_chinese(one))
