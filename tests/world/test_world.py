"""The embedded world: reproducible bytes, gold scores from meanings, formats of the real files."""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from bench.datasets import corpora, sts
from bench.datasets.tasks import STS_TASKS
from bench.registry.backbones import TOY_VERSION
from bench.utils.files import sha256_file, sha256_text
from bench.world import build
from bench.world.build import VERSION
from bench.world.grammar import STRUCTURES, Speaker
from bench.world.lexicon import TIMES, TOPIC, TOPICS
from bench.world.meaning import FACTORS, RELATED, ROLES, Meaning, change, sample_meaning, similarity
from bench.world.sets import STS, sample_pair
from bench.world.speech import REGISTERS

SEEDS = st.integers(0, 2**32)


def sums(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in files}


def test_the_bytes_are_those_of_this_version(world: Path) -> None:
    """A new digest changes every number of the smoke suite: increment VERSION and TOY_VERSION."""
    files = sums(world)
    triples = files.pop("world-nli.csv")  # added later; it moved no other file
    listing = "".join(f"{digest}  {name}\n" for name, digest in files.items())
    assert sha256_text(listing)[:16] == "8d17284cc7d6bd3e"
    assert triples[:16] == "15bae5c7301d2a58"
    assert VERSION == TOY_VERSION == 3


@pytest.mark.slow
def test_another_seed_changes_every_file(world: Path, tmp_path: Path) -> None:
    build(tmp_path / "other", seed=1)
    ours, other = sums(world), sums(tmp_path / "other")
    assert ours.keys() == other.keys()
    assert [name for name, digest in ours.items() if other[name] == digest] == []


def test_all_seven_sets_read_with_the_readers_of_the_real_ones(world: Path) -> None:
    for task in STS_TASKS:
        read = sts.read(task, world)
        gold = np.concatenate([subset.gold for subset in read.subsets])
        assert gold.min() >= (1 if task == "SICK-R" else 0)
        assert gold.max() == 5
        assert len(np.unique(np.round(gold))) >= 5
    assert len(sts.read("STS-B", world, "dev").subsets[0].gold) == 400


def test_the_quirks_of_the_real_files_are_there(world: Path) -> None:
    folder = world / "downstream"
    gold = (folder / "STS" / "STS16-en-test" / "STS.gs.headlines.txt").read_text().split("\n")[:-1]
    assert Counter(bool(line) for line in gold) == {True: 50, False: 150}
    assert all("." not in line for line in gold)
    sick = (folder / "SICK" / "SICK_test_annotated.txt").read_bytes()
    assert sick.count(b"\r\n") == sick.count(b"\n") == 301
    assert b"\r" not in (folder / "SICK" / "SICK_train.txt").read_bytes()
    assert any(char.isupper() for char in sick.decode().split("\r\n")[1])
    table = (folder / "STS" / "STSBenchmark" / "sts-test.csv").read_text()
    rows = [row.split("\t") for row in table.splitlines()]
    assert all(len(row) == 7 and row[5:] == [text.lower() for text in row[5:]] for row in rows)


def test_the_documents_cover_the_corpus(world: Path) -> None:
    sentences = corpora.read_sentences(corpora.corpus_path("world", world))
    documents = corpora.read_documents(world / "world.txt", len(sentences))
    assert [row for document in documents for row in document] == list(range(len(sentences)))
    assert all(5 <= len(document) <= 13 for document in documents)
    # Sentences of a document share their topic: their words repeat far more often than those of
    # strangers.
    words = [set(sentence.lower().split()) for sentence in sentences]
    concepts = [concept for topic in TOPICS for concept in (*topic.agents, *topic.things)]
    content = {word for concept in concepts for word in concept.words}
    near = [len(words[d[1]] & words[d[2]] & content) for d in documents]
    far = [len(words[a[1]] & words[b[2]] & content) for a, b in pairwise(documents)]
    assert sum(near) > 2 * sum(far)


@given(SEEDS)
def test_gold_is_symmetric_and_5_exactly_for_equal_meanings(seed: int) -> None:
    rng = random.Random(seed)
    a, b = sample_meaning(rng, 0.6), sample_meaning(rng, 0.6)
    assert similarity(a, b) == similarity(b, a)
    assert 0 <= similarity(a, b) <= 5
    assert similarity(a, a) == 5
    assert (similarity(a, b) == 5) == (a == b)


@given(SEEDS, st.sampled_from([*ROLES, *FACTORS]))
def test_each_changed_role_costs_what_it_is_worth(seed: int, role: str) -> None:
    rng = random.Random(seed)
    meaning = sample_meaning(rng, 1.0)
    other = change(meaning, role, rng)
    if role in FACTORS:
        assert similarity(meaning, other) == pytest.approx(5 * FACTORS[role])
    elif getattr(meaning, role) is None:
        assert other == meaning
    else:
        a, b = getattr(meaning, role), getattr(other, role)
        told = sum(worth for name, worth in ROLES.items() if getattr(meaning, name) is not None)
        lost = ROLES[role] * (1 - (RELATED if a.family == b.family else 0))
        assert similarity(meaning, other) == pytest.approx(5 * (told - lost) / told)


def test_known_gold() -> None:
    kitchen, sea = TOPIC["kitchen"], TOPIC["sea"]
    first = Meaning(kitchen.agents[0], kitchen.verbs[0], kitchen.things[0])
    for other, expected in [
        (first._replace(thing=sea.things[0]), 5 * 4 / 6),
        (first._replace(thing=kitchen.things[1]), 5 * 4.6 / 6),
        (first._replace(time=TIMES[0]), 5 * 6 / 6.75),
        (Meaning(sea.agents[0], sea.verbs[0], sea.things[0]), 0),
    ]:
        assert similarity(first, other) == pytest.approx(expected)


@given(SEEDS, st.sampled_from(REGISTERS), st.sampled_from(STRUCTURES))
def test_a_sentence_says_all_of_its_meaning(seed: int, register, structure: str) -> None:
    rng = random.Random(seed)
    meaning = sample_meaning(rng, 0.7)
    text = Speaker(rng, register).say(meaning, (structure,)).lower()
    for role in ROLES:
        concept = getattr(meaning, role)
        said = concept and any(f" {word.lower()} " in f" {text} " for word in concept.words)
        assert concept is None or said, (role, text)
    assert (f" {register.never} " in text) == meaning.negative


def test_no_word_belongs_to_two_concepts() -> None:
    concepts = [concept for _, *kinds in TOPICS for concept in chain(*kinds)]
    words = Counter(word for concept in concepts for word in concept.words)
    assert [word for word, count in words.items() if count > 1] == []


def test_word_overlap_is_far_from_gold(world: Path) -> None:
    """Paraphrases share few words, changed meanings many: Jaccard overlap correlates weakly with
    gold."""
    for task in ("STS-B", "STS12", "SICK-R"):
        read = sts.read(task, world)
        gold = np.concatenate([subset.gold for subset in read.subsets])
        columns = zip(*((subset.first, subset.second) for subset in read.subsets), strict=True)
        bags = [[set(text.lower().split()) for text in chain(*column)] for column in columns]
        overlap = [len(a & b) / len(a | b) for a, b in zip(*bags, strict=True)]
        assert 0.05 < spearmanr(overlap, gold).statistic < 0.4


@given(SEEDS, st.sampled_from([source for year in STS.values() for source in year]))
def test_pairs_are_in_their_sources_registers(seed: int, source) -> None:
    pair = sample_pair(random.Random(seed), source)
    stops = {REGISTERS[number].stop for number in source.registers}
    assert {text[-1] for text in pair.texts} <= stops
    assert pair.gold == similarity(*pair.meanings)
