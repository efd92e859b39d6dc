"""Test sentences that stand in a training corpus: what counts as the same sentence, the counts of
tasks, and the scores on the others."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from bench import world
from bench.__main__ import main
from bench.datasets import sts
from bench.datasets.contamination import contamination, in_corpora, normalised
from bench.datasets.corpora import read_sentences
from bench.datasets.labelled import LabelledTask, Samples
from bench.evaluation.scoring import score


def test_case_punctuation_and_spaces_make_no_difference():
    assert normalised("  A dog's   TAIL , 2 cats. ") == normalised("a dog s tail 2 cats") != ""
    assert normalised("Ein Café.") == "ein café"
    assert normalised("a dogs tail") != normalised("a dog's tail")


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


def test_all_samples_are_test_samples_with_nested_cross_validation():
    task = LabelledTask("MR", "nested", 2, {"all": Samples((("a", "b"),), np.arange(2))})
    assert task.test_items() == [("a",), ("b",)]


def test_pairs_with_a_seen_sentence_are_left_out():
    task = pair_task()
    table = dict(zip("abcdefgh", np.random.default_rng(0).normal(size=(8, 4)), strict=True))
    vectors = lambda texts: np.stack([table[text] for text in texts])  # noqa: E731
    (similarities,) = sts.similarities(task, vectors)
    records, items = score([task], vectors, seen=frozenset("f"))
    all_pairs, unseen = records
    assert items["STS-B"]["gold"].tolist() == [0, 1, 2, 3, 4]
    assert items["STS-B"]["similarity"].tolist() == similarities.tolist()
    expected = 100 * spearmanr(similarities[1:], np.arange(1.0, 5.0)).statistic
    assert unseen == all_pairs | {"aggregation": "unseen", "value": pytest.approx(expected)}
    assert len(score([task], vectors).records) == 1
    assert len(score([task], vectors, seen=frozenset("abc")).records) == 1  # no pair is left


def test_pairs_of_equal_words_have_equal_keys_in_all_tasks():
    task, first, second = pair_task(), ("F.", "B", "x"), ("a", " g", "y")
    subset = sts.Subset("STS12", first, second, np.array([1.0, 2.0, 3.0]))
    vectors = lambda texts: np.array([[1.0, ord(text.strip()[0]) % 7] for text in texts])  # noqa: E731
    _, items = score([task, sts.StsTask("STS12", "test", (subset,))], vectors)
    keys, others = items["STS-B"]["key"].tolist(), items["STS12"]["key"].tolist()
    assert others[:2] == keys[:2]
    assert others[2] not in keys
    assert len(set(keys)) == 5


def test_a_plan_shows_the_share_of_each_corpus(capsys):
    assert main(["plan", "--suite", "smoke", "--contamination"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[2] == ["test", "sentences", "world", "world-nli", "cnsd"]
    data = world.data_folder()
    sentences = set(sts.read("STS-B", data).sentences())
    seen = in_corpora(sentences, [read_sentences(data / "world.txt")])
    (row,) = (line for line in lines if line[:1] == ["STS-B"])
    assert row[1:3] == [f"{len(sentences)}", f"{100 * len(seen) / len(sentences):.2f}%"]
