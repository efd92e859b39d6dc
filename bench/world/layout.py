"""Write transfer and probing sets in the formats of SentEval's files, with their irregularities."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.world.probing import PROBING, SPLITS, sample_probe
from bench.world.transfer import (
    MRPC,
    SST,
    TREC,
    TWO_CLASSES,
    sample_mrpc,
    sample_sst,
    sample_trec,
    sample_two_classes,
)

Stream = Callable[..., random.Random]  # returns the generator of a name
Sizes = dict[str, dict[str, int]]

# Files by class, line end, and number of blank lines by class.
_FILES = {
    "MR": ({"positive": "rt-polarity.pos", "negative": "rt-polarity.neg"}, " \n", {}),
    "CR": (
        {"positive": "custrev.pos", "negative": "custrev.neg"},
        " \n",
        {"positive": 1, "negative": 1},
    ),
    "MPQA": ({"positive": "mpqa.pos", "negative": "mpqa.neg"}, " \n", {"positive": 1}),
    "SUBJ": ({"objective": "subj.objective", "subjective": "subj.subjective"}, " \n", {}),
}
_PROBING_SPLITS = {"train": "tr", "dev": "va", "test": "te"}


def write_lines(path: Path, rows: Sequence[str], end: str = "\n", encoding: str = "utf-8") -> None:
    """Write the lines of a file; create its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(row + end for row in rows).encode(encoding))


def write_transfer(folder: Path, stream: Stream) -> Sizes:
    """Write the seven transfer sets and return their sizes for the manifest."""
    for name, (files, end, blanks) in _FILES.items():
        rng = stream(name)
        wanted = {label: size - blanks.get(label, 0) for label, size in TWO_CLASSES[name].items()}
        samples = sample_two_classes(rng, name, wanted)
        for label, file in files.items():
            lines = [text + end for own, text in samples if own == label]
            for _ in range(blanks.get(label, 0)):
                lines.insert(rng.randrange(1, len(lines)), "\n")
            write_lines(folder / name / file, lines, "", "latin-1")
    for split, rows in sample_sst(stream("SST")).items():
        write_lines(
            folder / "SST" / "binary" / f"sentiment-{split}",
            [f"{text} \t{label}" for label, text in rows],
        )
    for split, rows in sample_trec(stream("TREC")).items():
        file = {"train": "train_5500.label", "test": "TREC_10.label"}[split]
        write_lines(folder / "TREC" / file, [line for _, line in rows], encoding="latin-1")
    for split, rows in sample_mrpc(stream("MRPC")).items():
        lines = ["\t".join(("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"))]
        lines += [
            f"{label}\t{2 * number + 1}\t{2 * number + 2}\t{texts}"
            for number, (label, texts) in enumerate(rows)
        ]
        write_lines(folder / "MRPC" / f"msr_paraphrase_{split}.txt", lines, encoding="utf-8-sig")
    trec = {split: sum(wanted.values()) for split, wanted in TREC.items()}
    return {**TWO_CLASSES, "SST2": SST, "TREC": trec, "MRPC": MRPC}


def write_probing(folder: Path, stream: Stream) -> Sizes:
    """Write the ten probing sets and return their sizes for the manifest."""
    for name, probe in PROBING.items():
        lines = [
            "\t".join((_PROBING_SPLITS[split], label, text))
            for split, rows in sample_probe(stream(name), probe).items()
            for label, text in rows
        ]
        write_lines(folder / f"{probe.file}.txt", lines)
    return {name: dict(SPLITS) for name in PROBING}
