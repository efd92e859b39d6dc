"""The vector store: every distinct sentence is encoded once, despite interruptions."""

import hashlib
import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.evaluation import scoring
from bench.evaluation.scoring import KEY, VectorStore
from bench.models.encoder import TransformerEncoder
from bench.models.load import load_encoder
from bench.utils.errors import UserError

CHUNK, WIDTH = 2, 3
TEXTS = ["a", "", "cc cc", "été \u2028 .", "a b c d", "bb", "zz"]
# Equally long ones by the alphabet.
LONGEST_FIRST = ["a b c d", "été \u2028 .", "cc cc", "bb", "zz", "a", ""]


def vector(text: str, width: int = WIDTH) -> np.ndarray:
    seed = int.from_bytes(hashlib.md5(text.encode()).digest(), "big")
    return np.random.default_rng(seed).normal(size=width).astype(np.float32)


class Fake:
    """An encoder of single sentences that says what it was asked for, and is interrupted at one
    call of `encode`."""

    kind = "fake"

    def __init__(
        self, identity: str = "fake-1", width: int = WIDTH, interrupted_at: int = 0
    ) -> None:
        self.identity, self.width, self.interrupted_at = identity, width, interrupted_at
        self.asked: list[list[str]] = []

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        self.asked.append(list(sentences))
        if len(self.asked) == self.interrupted_at:
            raise KeyboardInterrupt
        return np.stack([vector(text, self.width) for text in sentences])

    def save(self, folder: Path) -> dict[str, Any]:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "CHUNK", CHUNK)


@contextmanager
def store_in(folder: Path, encoder: Any = None) -> Iterator[VectorStore]:
    store = VectorStore(folder, encoder or Fake())
    try:
        yield store
    finally:
        store.close()


def check(store: VectorStore, texts: Sequence[str], width: int = WIDTH) -> None:
    found = store(texts)
    assert found.dtype == np.float32
    assert np.array_equal(found, np.stack([vector(text, width) for text in texts]))


def filled(folder: Path, texts: Sequence[str] = TEXTS) -> Path:
    with store_in(folder) as store:
        store.add(texts)
    return folder


def test_each_distinct_sentence_is_encoded_once(tmp_path: Path) -> None:
    encoder = Fake()
    with store_in(tmp_path / "new" / "store", encoder) as store:
        store.add([*TEXTS, *TEXTS])
        assert encoder.asked == [LONGEST_FIRST[i : i + CHUNK] for i in range(0, 7, CHUNK)]
        check(store, [*TEXTS, "zz", *reversed(TEXTS)])
        store.add(TEXTS)
        store.add([])
        store.add(iter(["a", "new", "a"]))
        assert encoder.asked[4:] == [["new"]]
        check(store, ["new", "a"])


def test_vectors_are_those_of_direct_encoding(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = load_encoder(tiny_bert, pooler="avg")
    texts = ["the old dog runs", "a cat", "two small red birds see the big river", "a man"]
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    with store_in(tmp_path, encoder) as store:
        store.add(texts)
        # Padding to another length rounds otherwise.
        np.testing.assert_allclose(store(texts), alone, rtol=0, atol=1e-5)
    # A new object of equal weights has nothing to do.
    monkeypatch.setattr(TransformerEncoder, "encode", None)
    with store_in(tmp_path, load_encoder(tiny_bert, pooler="avg")) as store:
        store.add(texts)


def test_an_interruption_loses_at_most_one_chunk(tmp_path: Path) -> None:
    with store_in(tmp_path, Fake(interrupted_at=3)) as store, pytest.raises(KeyboardInterrupt):
        store.add(TEXTS)
    encoder = Fake()
    with store_in(tmp_path, encoder) as store:
        check(store, LONGEST_FIRST[:4])
        store.add(TEXTS)
        assert encoder.asked == [LONGEST_FIRST[4:6], LONGEST_FIRST[6:]]
        check(store, TEXTS)


@pytest.mark.parametrize(
    ("name", "size", "rows"),
    [
        ("vectors.f32", 5 * 4 * WIDTH + 6, 5),  # in the middle of a number
        ("vectors.f32", 0, 0),
        ("keys", 3 * KEY + 7, 3),
    ],
)
def test_a_truncated_store_is_a_shorter_store(
    name: str, size: int, rows: int, tmp_path: Path
) -> None:
    folder = filled(tmp_path)
    os.truncate(folder / name, size)
    encoder = Fake()
    with store_in(folder, encoder) as store:
        store.add(TEXTS)
        assert list(chain(*encoder.asked)) == LONGEST_FIRST[rows:]
        check(store, TEXTS)
    with store_in(folder) as store:
        check(store, TEXTS)


def test_two_processes_cannot_use_one_store(tmp_path: Path) -> None:
    def other() -> None:
        try:
            VectorStore(tmp_path, Fake("fake-2"))
        except UserError as error:
            os._exit(3 if f"{tmp_path} is in use by another process; wait" in str(error) else 4)

    with store_in(tmp_path) as store:
        store.add(TEXTS[:3])
        process = multiprocessing.get_context("fork").Process(target=other)
        process.start()
        process.join()
        assert process.exitcode == 3
        store.add(TEXTS)
        check(store, TEXTS)  # the other's encoder is another one, but it has emptied nothing
    filled(tmp_path)


@pytest.mark.parametrize("width", [WIDTH, 5])
def test_the_store_of_another_encoder_is_replaced(width: int, tmp_path: Path) -> None:
    filled(tmp_path)
    encoder = Fake("fake-2", width)
    with store_in(tmp_path, encoder) as store:
        store.add(TEXTS[:3])
        assert sorted(chain(*encoder.asked)) == sorted(TEXTS[:3])
        check(store, TEXTS[:3], width)
    assert (tmp_path / "vectors.f32").stat().st_size == 3 * 4 * width
    with store_in(tmp_path, Fake("fake-2", width)) as store:
        check(store, TEXTS[:3], width)


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ((CHUNK, WIDTH + 1), r"shape \(2, 4\) for 2 sentences; it must give one vector per"),
        ((CHUNK + 1, WIDTH), r"shape \(3, 3\) for 2 sentences"),
    ],
)
def test_an_encoder_with_changing_shapes_is_rejected(
    shape: tuple[int, ...], problem: str, tmp_path: Path
) -> None:
    class Moody(Fake):
        def encode(self, sentences: Sequence[str]) -> np.ndarray:
            right = super().encode(sentences)
            return right if len(self.asked) == 1 else np.ones(shape)

    with store_in(tmp_path, Moody()) as store, pytest.raises(UserError, match=problem):
        store.add(TEXTS)
    with store_in(tmp_path) as store:
        check(store, LONGEST_FIRST[:2])  # what was right is kept
        store.add(TEXTS)
        check(store, TEXTS)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_vectors_that_are_not_finite_are_not_kept(bad: float, tmp_path: Path) -> None:
    """Once the encoder is mended, an evaluation would find them again."""

    class Broken(Fake):
        def encode(self, sentences: Sequence[str]) -> np.ndarray:
            return np.full((len(sentences), WIDTH), bad, dtype=np.float32)

    with store_in(tmp_path, Broken()) as store, pytest.raises(UserError, match="is not finite; "):
        store.add(TEXTS)
    with store_in(tmp_path) as store:
        store.add(TEXTS)
        check(store, TEXTS)


ADD = st.lists(st.sampled_from([f"{i} " * (i % 4) for i in range(12)]), max_size=8)
CUT = st.tuples(st.sampled_from(["vectors.f32", "keys"]), st.integers(0, 200))
INTERRUPTION = st.integers(1, 3)


@settings(max_examples=60)
@given(steps=st.lists(st.one_of(ADD, CUT, INTERRUPTION), max_size=10))
def test_any_sequence_of_additions_truncations_and_interruptions(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        present: set[str] = set()
        interrupted_at = 0
        for step in steps:
            if isinstance(step, int):
                interrupted_at = step
            elif isinstance(step, tuple):
                path = Path(folder) / step[0]
                if path.is_file() and path.stat().st_size > step[1]:
                    os.truncate(path, step[1])
                    present = set()  # some of them, at least as far as this test knows
            else:
                encoder = Fake(interrupted_at=interrupted_at)
                with store_in(Path(folder), encoder) as store:
                    try:
                        store.add(step)
                    except KeyboardInterrupt:
                        interrupted_at = 0
                        continue
                    asked = list(chain(*encoder.asked))
                    assert len(asked) == len(set(asked))
                    assert not set(asked) & present
                    present |= set(step)
                    if present:
                        check(store, sorted(present))
