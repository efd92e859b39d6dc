"""Test sentences that stand in a training corpus: what counts as the same sentence, the counts of
tasks, and the scores on the others."""

import re

import numpy as np
import pytest
from scipy.stats import spearmanr

from bench import world
from bench.__main__ import main
from bench.datasets import sts
from bench.datasets.contamination import contamination, in_corpora, normalised
from bench.datasets.corpora import read_sentences
from bench.datasets.labelled import LabelledTask, Samples
from bench.evaluation.scoring import read_tasks, score_vectors, with_keys


def test_case_punctuation_and_spaces_make_no_difference():
    assert normalised("  A dog's   TAIL , 2 cats. ") == normalised("a dog s tail 2 cats") != ""
    assert normalised("Ein Café.") == "ein café"
    assert normalised("a dogs tail") != normalised("a dog's tail")


# Pairs of texts that have the same words: composed or not, wide and narrow forms, ligatures, the
# capitals of Turkish, Greek and German, kashida, joiners, apostrophes, selectors of glyphs.
SAME = """
Café|CAFE\u0301
한글|\u1112\u1161\u11ab\u1100\u1173\u11af
ａｂｃ１２、ｶﾞ|ABC12, ガ
\ufb01nd|find
İstanbul|istanbul
ΟΔΟΣ|οδος
STRAẞE|straße
مـــحمد|محمد
می\u200cخواهم|میخواهم
क्\u200dष|क्ष
co\u00adoperate|cooperate
п'ять|п\u02bcять
п’ять|п'ять
I \u2764\ufe0f you|I you
"""
# Pairs that differ in a vowel or a tone: Hindi (the boy, the girl eats), Thai, Tamil, Arabic; in a
# number, in spelling.
OTHER = """
लड़का खाता है|लड़की खाती है
กา|กี
ไม้|ไม่
ஆண்|ஆணி
كَتَبَ|كُتُب
10²|102
Straße|Strasse
snake_case|snake case
"""


@pytest.mark.parametrize(("pairs", "are_same"), [(SAME, True), (OTHER, False)])
def test_texts_have_the_same_words_in_any_script(pairs, are_same):
    for pair in pairs.split("\n")[1:-1]:
        first, second = map(normalised, pair.split("|"))
        assert (first == second) == are_same, pair


@pytest.mark.parametrize("text", ["😀", "👨\u200d👩\u200d👧", "❤️", "#️⃣", "...", "￣"])
def test_some_texts_have_no_words(text):
    assert normalised(text) == ""


def plain_words(sentence):
    """Words of English, without a look at Unicode."""
    return " ".join(re.findall(r"\w+", sentence.lower()))


def changed(data):
    """The sentences of a data folder whose words are not those of `plain_words`."""
    tasks = read_tasks(["sts", "transfer"], data)
    sentences = {text for task in tasks for text in task.sentences()}
    assert len(sentences) > 5000
    return [text for text in sentences if normalised(text) != plain_words(text)]


def test_words_of_english_are_those_between_spaces_and_punctuation():
    assert changed(world.world_data_folder()) == []


def test_sentences_in_any_corpus_are_found():
    corpora = [["Two dogs run.", "..."], iter(["a bird sings"])]
    sentences = ["two dogs run", "A bird, sings!", "a cat", "!", ""]
    assert in_corpora(sentences, corpora) == {"two dogs run", "A bird, sings!"}
    assert in_corpora(sentences, []) == set()


def pair_task(split="test"):
    first, second = ("a", "b", "c", "d", "e"), ("f", "g", "h", "a", "b")
    return sts.StsTask("STS-B", split, (sts.Subset("STS-B", first, second, np.arange(5.0)),))


def test_distinct_test_sentences_are_counted_by_task():
    columns = (tuple("axy"), tuple("bxa"))
    parts = {"test": Samples(columns, np.arange(3)), "train": Samples((("c",), ("d",)), np.ones(1))}
    labelled = LabelledTask("MRPC", "kfold", 3, parts)
    seen, counts = contamination([pair_task(), pair_task("dev"), labelled], [["A", "f."]])
    assert seen == {"a", "f"}
    assert counts["STS-B"] == {"sentences": 8, "seen": 2}
    assert counts["MRPC"] == {"sentences": 4, "seen": 1}


def test_pairs_with_a_seen_sentence_are_left_out():
    task = pair_task()
    table = dict(zip("abcdefgh", np.random.default_rng(0).normal(size=(8, 4)), strict=True))
    vectors = lambda texts: np.stack([table[text] for text in texts])  # noqa: E731
    (similarities,) = sts.similarities(task, vectors)
    records, items = score_vectors([task], vectors, seen=frozenset("f"))
    all_pairs, unseen = records
    assert items["STS-B"]["gold"].tolist() == [0, 1, 2, 3, 4]
    assert items["STS-B"]["similarity"].tolist() == similarities.tolist()
    expected = 100 * spearmanr(similarities[1:], np.arange(1.0, 5.0)).statistic
    assert unseen == all_pairs | {"aggregation": "unseen", "value": pytest.approx(expected)}
    assert len(score_vectors([task], vectors).records) == 1
    assert (
        len(score_vectors([task], vectors, seen=frozenset("abc")).records) == 1
    )  # no pair is left


def test_pairs_of_equal_words_have_equal_keys_in_all_tasks():
    task, first, second = pair_task(), ("F.", "B", "x"), ("a", " g", "y")
    subset = sts.Subset("STS12", first, second, np.array([1.0, 2.0, 3.0]))
    vectors = lambda texts: np.array([[1.0, ord(text.strip()[0]) % 7] for text in texts])  # noqa: E731
    tasks = [task, sts.StsTask("STS12", "test", (subset,))]
    items = with_keys(tasks, score_vectors(tasks, vectors).items)
    keys, keys_of_sts12 = (
        [{*map(int, pair)} for pair in zip(items[name]["first"], items[name]["last"], strict=True)]
        for name in ("STS-B", "STS12")
    )
    assert keys_of_sts12[:2] == keys[:2]  # in either order
    assert keys_of_sts12[2] not in keys
    assert len(set.union(*keys)) == 8


def test_texts_without_words_are_items_of_their_own():
    texts = ("😀", "😡", "...", "😀")
    samples = Samples((texts,), np.arange(4))
    task = LabelledTask("MR", "nested", 4, {"all": samples})
    smile, frown, dots, again = with_keys([task], {"MR": {}})["MR"]["first"]
    assert smile == again
    assert len({smile, frown, dots}) == 3


def test_a_plan_shows_the_share_of_each_corpus(capsys):
    assert main(["plan", "--suite", "smoke", "--contamination"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[2] == ["test", "sentences", "world", "world-nli", "cnsd"]
    data = world.world_data_folder()
    sentences = set(sts.read("STS-B", data).sentences())
    seen = in_corpora(sentences, [read_sentences(data / "world.txt")])
    (row,) = (line for line in lines if line[:1] == ["STS-B"])
    assert row[1:3] == [f"{len(sentences)}", f"{100 * len(seen) / len(sentences):.2f}%"]
