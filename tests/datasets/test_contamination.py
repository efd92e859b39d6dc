"""Test items that stand in a training corpus or a dev set: what counts as the same sentence, the
counts of tasks, and the scores on the others."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from bench import world
from bench.__main__ import main
from bench.datasets import sts
from bench.datasets.contamination import contamination, normalised
from bench.datasets.corpora import read_sentences
from bench.datasets.labelled import LabelledTask, Samples
from bench.datasets.tasks import STS_TASKS
from bench.evaluation.scoring import Scorer, with_keys
from bench.runs.paths import Files
from bench.stages.jobs import known_items
from tests.support.method_runs import run_of

# Pairs of texts that have the same words: composed or not, wide and narrow forms, ligatures, the
# capitals of Turkish, Greek and German, kashida, joiners, apostrophes, selectors of glyphs.
SAME = """
  A dog's   TAIL , 2 cats. |a dog s tail 2 cats
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
# number, in spelling, an accent, an apostrophe.
OTHER = """
a dogs tail|a dog's tail
Ein Café.|ein cafe
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


def pair_task(split="test"):
    first, second = ("a", "b", "c", "d", "e"), ("f", "g", "h", "a", "b")
    return sts.StsTask("STS-B", split, (sts.Subset("STS-B", first, second, np.arange(5.0)),))


def test_items_with_a_sentence_in_a_corpus_are_seen():
    columns = (tuple("a!y"), tuple("bxa"))
    parts = {"test": Samples(columns, np.arange(3)), "train": Samples((("c",), ("d",)), np.ones(1))}
    labelled = LabelledTask("MRPC", "kfold", 3, parts)
    tasks = [pair_task(), pair_task("dev"), labelled]
    result = contamination(tasks, [["A", "..."], iter(["f."])], [], Path())
    seen = {task: seen.tolist() for task, (seen, _) in result.items()}
    assert seen == {"STS-B": [1, 0, 0, 1, 0], "MRPC": [1, 0, 1]}  # "a" stands in two pairs
    assert not any(in_dev.any() for _, in_dev in result.values())


def test_pairs_in_a_dev_set_have_both_sentences_in_either_order(tiny_data):
    (a, b), (c, d) = sts.read("STS-B", tiny_data, "dev").items()[:2]
    pairs = [(a, b), (b.upper(), f"{a} !"), (a, d), (a, a), (c, d)]
    first, second = zip(*pairs, strict=True)
    task = sts.StsTask("STS12", "test", (sts.Subset("x", first, second, np.arange(5.0)),))
    sentences = LabelledTask("MR", "nested", 2, {"all": Samples(((a, b),), np.arange(2))})
    result = contamination([task, sentences], [], ["SICK-R", "STS-B"], tiny_data)
    in_dev = {task: in_dev.tolist() for task, (_, in_dev) in result.items()}
    assert in_dev == {"STS12": [1, 1, 0, 0, 1], "MR": [0, 0]}


def test_only_trained_runs_have_dev_sets(tiny_bert, tiny_data, tiny_corpus, tmp_path):
    task = replace(sts.read("SICK-R", tiny_data, "dev"), split="test")
    result = {}
    for text in ("simcse", "simcse[select_on=SICK-R]", "untrained+whitening[source=sts]"):
        run = run_of(text, tiny_bert, tiny_corpus, tiny_data)
        ((_, in_dev),) = known_items(run, Files(tmp_path, run.data), [task]).values()
        result[text] = in_dev.mean()
    assert [*result.values()] == [0, 1, 0]


def test_a_sentence_that_is_too_short_to_be_trained_on_is_not_seen(tiny_bert, tiny_data, tmp_path):
    """With `distinct`, sentences of fewer words are left out of the corpus."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("one\nwords of three\n")
    pairs = sts.Subset("x", ("one", "words of three"), ("else", "else"), np.arange(2.0))
    run = run_of("simcse[distinct=2]", tiny_bert, corpus, tiny_data)
    ((seen, _),) = known_items(
        run, Files(tmp_path, run.data), [sts.StsTask("STS12", "test", (pairs,))]
    ).values()
    assert seen.tolist() == [0, 1]


@pytest.mark.slow
def test_the_dev_sets_in_the_real_test_sets(senteval):
    """The counts of docs/explanation/findings.md and docs/reference/protocol.md, by a plain rule
    for words."""
    tasks = [sts.read(task, senteval) for task in STS_TASKS]

    def golds(task):
        values = np.concatenate([subset.gold for subset in task.subsets])
        return [
            (frozenset(map(plain_words, x)), y) for x, y in zip(task.items(), values, strict=True)
        ]

    tests = [golds(task) for task in tasks]
    counts = {"STS-B": [259, 81, 193, 580, 22, 4, 10], "SICK-R": [4, 0, 0, 0, 0, 2, 11]}
    for name, expected in counts.items():
        dev = dict(golds(sts.read(name, senteval, "dev")))
        plain = [sum(pair in dev for pair, _ in test) for test in tests]
        result = contamination(tasks, [], [name], senteval)
        assert [in_dev.sum() for _, in_dev in result.values()] == plain == expected
    dev = golds(sts.read("STS-B", senteval, "dev"))
    pairs = {pair for x in tests[:5] for pair, _ in x}
    assert (sum(pair in pairs for pair, _ in dev), len(dev)) == (1131, 1500)


def test_pairs_that_were_read_before_are_left_out():
    task = pair_task()
    table = dict(zip("abcdefgh", np.random.default_rng(0).normal(size=(8, 4)), strict=True))
    vectors = lambda texts: np.stack([table[text] for text in texts])  # noqa: E731
    (similarities,) = sts.similarities(task, vectors)
    seen, in_dev = np.arange(5) == 0, np.arange(5) == 3
    records, items = Scorer([task], vectors, contamination={"STS-B": (seen, in_dev)}).scores()
    all_pairs, unseen, rest = records
    assert items["STS-B"]["gold"].tolist() == [0, 1, 2, 3, 4]
    assert items["STS-B"]["similarity"].tolist() == similarities.tolist()
    expected = 100 * spearmanr(similarities[1:], np.arange(1.0, 5.0)).statistic
    assert unseen == all_pairs | {"aggregation": "unseen", "value": pytest.approx(expected)}
    expected = 100 * spearmanr(similarities[[1, 2, 4]], [1.0, 2.0, 4.0]).statistic
    assert rest == all_pairs | {"aggregation": "rest", "value": pytest.approx(expected)}
    for known in (None, {"STS-B": (seen & ~seen, seen & ~seen)}, {"STS-B": (seen | True, seen)}):
        assert Scorer([task], vectors, contamination=known).scores().records == [all_pairs]


def test_pairs_of_equal_words_have_equal_keys_in_all_tasks():
    task, first, second = pair_task(), ("F.", "B", "x"), ("a", " g", "y")
    subset = sts.Subset("STS12", first, second, np.array([1.0, 2.0, 3.0]))
    vectors = lambda texts: np.array([[1.0, ord(text.strip()[0]) % 7] for text in texts])  # noqa: E731
    tasks = [task, sts.StsTask("STS12", "test", (subset,))]
    items = with_keys(tasks, Scorer(tasks, vectors).scores().items)
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
    assert main(["plan", "smoke", "--contamination"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert " ".join(lines[2]) == "test items in the dev set world world-nli cnsd"
    data = world.world_data_folder()
    pairs = sts.read("STS-B", data).items()
    standing = {*map(plain_words, read_sentences(data / "world.txt"))}
    seen = [not standing.isdisjoint(map(plain_words, pair)) for pair in pairs]
    (row,) = (line for line in lines if line[:1] == ["STS-B"])
    assert row[1:4] == [f"{len(pairs)}", "0.00%", f"{100 * np.mean(seen):.2f}%"]
