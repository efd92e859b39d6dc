"""A tiny data folder with every task of SentEval, and an encoder of single sentences."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.tasks import PROBING_TASKS, TASKS
from bench.utils.files import read_json, write_json

WIDTH = 24
NOUNS = "man woman dog cat bird child car boat house tree river road".split()  # noqa: SIM905


class Words:
    """Encodes single sentences as sums of a random vector for each word, and notes which."""

    kind = "words"
    identity = "words-1"

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        self.encoded += sentences
        return np.stack([self.vector(text) for text in sentences])

    @staticmethod
    def vector(text: str) -> np.ndarray:
        words = (list(word.encode()) for word in (text or "nothing").split())
        rows = [np.random.default_rng(word).normal(size=WIDTH) for word in words]
        return np.sum(rows, axis=0).astype(np.float32)

    def save(self, folder: Path) -> dict[str, Any]:
        raise NotImplementedError


def look_up(texts: Sequence[str]) -> np.ndarray:
    return Words().encode(texts)


def labelled(draw: random.Random, classes: int, size: int) -> list[tuple[str, int]]:
    """Sentences that name their label most of the time, with every label in turn."""
    rows = []
    for place in range(size):
        label = place % classes
        names = label if draw.random() < 0.75 else draw.randrange(classes)
        rows.append((" ".join([f"word{names}", *draw.choices(NOUNS, k=draw.randint(1, 4))]), label))
    return rows


def write_tasks(sts: Path, folder: Path) -> Path:
    """Copy a data folder of STS tasks to `folder`, and add all transfer and probing tasks."""
    shutil.copytree(sts, folder)
    draw, down = random.Random(5), folder / "downstream"

    def put(path: Path, lines: list[str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    for name in ("MR/rt-polarity.{}", "CR/custrev.{}", "MPQA/mpqa.{}", "SUBJ/subj.{}"):
        rows = labelled(draw, 2, 40)
        ends = ("subjective", "objective") if "SUBJ" in name else ("neg", "pos")
        for label, end in enumerate(ends):
            put(down / name.format(end), [text for text, own in rows if own == label])
    for split, size in {"train": 60, "dev": 20, "test": 20}.items():
        rows = [f"{text}\t{label}" for text, label in labelled(draw, 2, size)]
        put(down / f"SST/binary/sentiment-{split}", rows)
    for name, size in {"train_5500": 72, "TREC_10": 24}.items():
        classes = TASKS["TREC"].labels
        rows = [f"{classes[label]}:x {text}" for text, label in labelled(draw, 6, size)]
        put(down / f"TREC/{name}.label", rows)
    for split, size in {"train": 60, "test": 30}.items():
        pairs = zip(labelled(draw, 2, size), labelled(draw, 2, size), strict=True)
        rows = [
            f"{label}\t1\t2\t{first}\t{first if label and draw.random() < 0.6 else second}"
            for (first, label), (second, _) in pairs
        ]
        put(down / f"MRPC/msr_paraphrase_{split}.txt", ["header", *rows])
    sizes = {"tr": 60, "va": 20, "te": 20}
    for name in PROBING_TASKS:
        rows = [
            f"{code}\tL{label}\t{text}"
            for code, size in sizes.items()
            for text, label in labelled(draw, 3, size)
        ]
        put(folder / TASKS[name].path, rows)
    listed = read_json(folder / "manifest.json")
    listed["transfer"] = {
        **{task: {"positive": 20, "negative": 20} for task in ("MR", "CR", "MPQA")},
        "SUBJ": {"objective": 20, "subjective": 20},
        "SST2": {"train": 60, "dev": 20, "test": 20},
        "TREC": {"train": 72, "test": 24},
        "MRPC": {"train": 60, "test": 30},
    }
    listed["probing"] = {task: {"train": 60, "dev": 20, "test": 20} for task in PROBING_TASKS}
    write_json(folder / "manifest.json", listed)
    return folder
