"""The vector store: every distinct sentence is encoded once, despite interruptions."""

import hashlib
import multiprocessing
import os
from contextlib import closing
from itertools import chain

import numpy as np
import pytest

from bench.evaluation import scoring
from bench.evaluation.scoring import VectorStore
from bench.utils.errors import UserError

CHUNK, WIDTH = 2, 3
TEXTS = ["a", "", "cc cc", "été \u2028 .", "a b c d", "bb", "zz"]
# Equally long ones by the alphabet.
LONGEST_FIRST = ["a b c d", "été \u2028 .", "cc cc", "bb", "zz", "a", ""]


def vector(text):
    seed = int.from_bytes(hashlib.md5(text.encode()).digest(), "big")
    return np.random.default_rng(seed).normal(size=WIDTH).astype(np.float32)


class Fake:
    """An encoder that says what it was asked for, and is interrupted at one call of `encode`, or
    gives `broken` at each call after the first."""

    def __init__(self, identity="fake-1", interrupted_at=0, broken=None):
        self.identity, self.broken = identity, broken
        self.interrupted_at, self.asked = interrupted_at, []

    def encode(self, sentences):
        self.asked.append(list(sentences))
        if len(self.asked) == self.interrupted_at:
            raise KeyboardInterrupt
        if self.broken is not None and len(self.asked) > 1:
            return self.broken
        return np.stack([vector(text) for text in sentences])


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(scoring, "CHUNK", CHUNK)


def store_in(folder, encoder=None):
    return closing(VectorStore(folder, encoder or Fake()))


def check(store, texts):
    result = store(texts)
    assert result.dtype == np.float32
    assert np.array_equal(result, np.stack([vector(text) for text in texts]))


def fill(folder):
    with store_in(folder) as store:
        store.add(TEXTS)


def test_each_distinct_sentence_is_encoded_once(tmp_path):
    encoder = Fake()
    with store_in(tmp_path / "new" / "store", encoder) as store:
        store.add([*TEXTS, *TEXTS])
        assert encoder.asked == [LONGEST_FIRST[i : i + CHUNK] for i in range(0, 7, CHUNK)]
        check(store, [*TEXTS, "zz", *reversed(TEXTS)])
        store.add([])
        store.add(iter(["a", "new", "a"]))
        assert encoder.asked[4:] == [["new"]]
        check(store, ["new", "a"])


def test_an_interruption_loses_at_most_one_chunk(tmp_path):
    with store_in(tmp_path, Fake(interrupted_at=3)) as store, pytest.raises(KeyboardInterrupt):
        store.add(TEXTS)
    encoder = Fake()
    with store_in(tmp_path, encoder) as store:
        check(store, LONGEST_FIRST[:4])
        store.add(TEXTS)
        assert encoder.asked == [LONGEST_FIRST[4:6], LONGEST_FIRST[6:]]
        check(store, TEXTS)


def test_two_processes_cannot_use_one_store(tmp_path):
    def second():
        try:
            VectorStore(tmp_path, Fake("fake-2"))
        except UserError as error:
            os._exit(3 if f"{tmp_path} is in use by another process; wait" in str(error) else 4)

    with store_in(tmp_path) as store:
        store.add(TEXTS[:3])
        process = multiprocessing.get_context("fork").Process(target=second)
        process.start()
        process.join()
        assert process.exitcode == 3
        store.add(TEXTS)
        check(store, TEXTS)  # the other's encoder is another one, but it has emptied nothing


@pytest.mark.parametrize("size", [100, -1])
def test_a_damaged_chunk_is_encoded_again(size, tmp_path, capsys):
    fill(tmp_path)
    damaged = sorted(tmp_path.rglob("00000002-*.npy"))[0]
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content[:size] if size > 0 else content)
    encoder = Fake()
    with store_in(tmp_path, encoder) as store:
        store.add(TEXTS)
        assert encoder.asked == [LONGEST_FIRST[2:4]]
        check(store, TEXTS)
    assert capsys.readouterr().err.startswith(f"{damaged} is damaged and was deleted; ")


def test_vectors_of_another_encoder_are_not_used(tmp_path):
    fill(tmp_path)
    encoder = Fake("fake-2")
    with store_in(tmp_path, encoder) as store:
        store.add(TEXTS[:3])
        assert sorted(chain(*encoder.asked)) == sorted(TEXTS[:3])
        check(store, TEXTS[:3])


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (np.ones((CHUNK, WIDTH + 1)), r"shape \(2, 4\) for 2 sentences; it must give one vector"),
        (np.full((CHUNK, WIDTH), np.nan), "is not finite, or "),
    ],
)
def test_broken_vectors_are_not_kept(broken, problem, tmp_path):
    """Once the encoder is mended, an evaluation would find them again."""
    with store_in(tmp_path, Fake(broken=broken)) as store, pytest.raises(UserError, match=problem):
        store.add(TEXTS)
    with store_in(tmp_path) as store:
        check(store, LONGEST_FIRST[:2])  # what was right is kept
        store.add(TEXTS)
        check(store, TEXTS)
