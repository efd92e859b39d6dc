"""The shipped data of the embedded world: sums, formats, splits, and labels."""

import shutil
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from bench import world as world_files
from bench.datasets import corpora, labelled, sts
from bench.datasets.tasks import PROBING_TASKS, STS_TASKS, TASKS, TRANSFER_TASKS
from bench.utils.errors import UserError
from bench.utils.files import read_json
from methods.word_noise import CHINESE
from tools.world.data import CONTENT, LENGTHS
from tools.world.language import TOPICS, with_ed, with_s

CONCEPT = {word: c for _, *kinds in TOPICS for c in chain(*kinds) for word in c.words}
PLURALS = {with_s(word): c for word, c in CONCEPT.items() if c.kind in ("agent", "thing")}
PAST = {with_ed(word): c for word, c in CONCEPT.items() if c.kind == "verb"}


def lines_of(world: Path, file: str, encoding: str = "utf-8") -> list[str]:
    """Lines of a file below downstream/, which may be blank."""
    return (world / "downstream" / file).read_text(encoding).split("\n")[:-1]


def probe(world: Path, name: str) -> list[tuple[str, str]]:
    """(label, sentence) of all splits."""
    lines = lines_of(world, f"../{TASKS[name].path}")
    return [(label, text) for _, label, text in (line.split("\t") for line in lines)]


@pytest.mark.parametrize("folder", [world_files.DATA, world_files.BACKBONES])
def test_every_shipped_file_has_its_sum(folder, tmp_path):
    listed = {line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    assert {path.as_posix() for path in files} == {*listed, "SHA256SUMS"}
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    altered = copy / max(listed)
    altered.write_bytes(altered.read_bytes()[:-1])
    world_files.check(copy, min(listed))
    with pytest.raises(UserError, match=f"{altered.name} is not the file that sentbench ships"):
        world_files.check(copy)


def test_sets_read_with_the_readers_of_the_real_ones(world):
    sizes = read_json(world / "manifest.json")
    for task in (*STS_TASKS, "CNSD-STS-B"):
        gold = np.concatenate([subset.gold for subset in sts.read(task, world).subsets])
        of_task = sizes["sts"][task]
        assert len(gold) == of_task.get("test", sum(of_task.values()))
        assert gold.min() >= (1 if task == "SICK-R" else 0)
        assert gold.max() == 5
        assert len(np.unique(np.round(gold))) >= 5
    for name in (*TRANSFER_TASKS, *PROBING_TASKS):
        read = labelled.read(name, world)
        of_task = sizes["transfer" if name in TRANSFER_TASKS else "probing"][name]
        assert sum(len(part.labels) for part in read.splits.values()) == sum(of_task.values())
    for name in PROBING_TASKS:
        read = labelled.read(name, world)
        for part in read.splits.values():
            counts = Counter(part.labels.tolist()).values()
            assert (len(counts), max(counts) - min(counts) <= 1) == (read.classes, True)


def test_the_quirks_of_the_real_files_are_there(world):
    folder = world / "downstream"
    gold = lines_of(world, "STS/STS16-en-test/STS.gs.headlines.txt")
    assert Counter(bool(line) for line in gold) == {True: 50, False: 150}
    sick = (folder / "SICK" / "SICK_test_annotated.txt").read_bytes()
    assert sick.count(b"\r\n") == sick.count(b"\n") == 301
    files = [f"{name}.{end}" for name in ("CR/custrev", "MPQA/mpqa") for end in ("pos", "neg")]
    blank = [sum(not line.strip() for line in lines_of(world, file, "latin-1")) for file in files]
    assert blank == [1, 1, 1, 0]
    assert "ï".encode("latin-1") in (folder / "MR" / "rt-polarity.pos").read_bytes()
    data = (folder / "MRPC" / "msr_paraphrase_test.txt").read_bytes()
    assert data.startswith(b"\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n")


def test_no_sentence_is_in_two_splits(world):
    for name in PROBING_TASKS:
        assert len({text for _, text in probe(world, name)}) == 1200
    for task in ("STS-B", "CNSD-STS-B"):
        parts = [sts.read(task, world, split).subsets[0] for split in ("train", "dev", "test")]
        pairs = [{*zip(part.first, part.second, strict=True)} for part in parts]
        assert not pairs[0] & pairs[2]
        assert not pairs[1] & pairs[2]
    chinese = chain(*chain(*pairs))
    assert all(CHINESE.match(text) and " " not in text for text in chinese)


def test_the_documents_cover_the_corpus(world):
    sentences = corpora.read_sentences(world / "world.txt")
    documents = corpora.read_documents(world / "world.txt", len(sentences))
    assert [row for document in documents for row in document] == list(range(len(sentences)))
    # Sentences of a document share their topic: their words repeat far more often than those of
    # strangers.
    words = [{*sentence.lower().split()} & CONCEPT.keys() for sentence in sentences]
    near = [len(words[d[1]] & words[d[2]]) for d in documents]
    far = [len(words[a[1]] & words[b[2]]) for a, b in pairwise(documents)]
    assert sum(near) > 2 * sum(far)


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


def test_probing_labels_follow_from_the_words(world):
    for label, text in probe(world, "Length"):
        assert LENGTHS[int(label)] <= len(text.split()) < LENGTHS[int(label) + 1]
    for label, text in probe(world, "WordContent"):
        assert [word for word in text.split() if word in CONTENT] == [label]
    verbs = {**{w: c for w, c in CONCEPT.items() if c.kind == "verb"}, **PAST}
    verbs |= {with_s(word): c for word, c in CONCEPT.items() if c.kind == "verb"}
    for label, text in probe(world, "OddManOut"):
        known = {**CONCEPT, **PLURALS, **verbs}
        families = Counter(known[w].family for w in text.lower().split() if w in known)
        assert (len(families) == 2) == (label == "C"), text
