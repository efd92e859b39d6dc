"""Write the embedded world as a data folder in SentEval's layout."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

from bench.utils.files import atomic_folder, check_replaceable, write_json
from bench.world.chinese import in_chinese
from bench.world.corpus import sample_document
from bench.world.layout import write_lines, write_probing, write_transfer
from bench.world.sets import SICK, SICK_SOURCE, STS, STSB, Pair, sample_mixed, sample_set

VERSION = 3
STREAMS = 1  # version of the random streams: a new VERSION need not change existing sets
LINES = 20_000  # smallest number of sentences of the corpus

# Description of the Chinese STS set in the manifest.
CHINESE = {
    "CNSD-STS-B": {
        "path": "CNSD-STS-B/cnsd-sts-{split}.txt",
        "separator": "||",
        "columns": [1, 2, 3],
    },
}

# Format of gold scores by year, and unscored rows per scored row (2015 and 2016, as published).
_GOLD = {
    "STS12": "{:.3f}",
    "STS13": "{:.1f}",
    "STS14": "{:.1f}",
    "STS15": "{:.2f}",
    "STS16": "{:.0f}",
}
_UNSCORED = {"STS15": 1.0, "STS16": 3.0}


def build(out: Path, seed: int = 0, lines: int = LINES) -> None:
    """Write the embedded world to the folder `out`, atomically. Equal seeds give equal bytes on any
    machine.

    Args:
        out: folder to write: `downstream/` and `probing/` as in SentEval, `world.txt`,
            `world.docs.tsv`, `manifest.json`.
        seed: seed of all random streams.
        lines: smallest number of sentences of the corpus.

    Raises:
        UserError: the folder cannot be written.
    """
    check_replaceable(out, "manifest.json")
    with atomic_folder(out, keep_others=True) as folder:
        sizes = {name: _write_year(folder, name, seed) for name in STS}
        sizes["STS-B"] = _write_benchmark(folder, seed)
        sizes["SICK-R"] = _write_sick(folder, seed)
        sizes["CNSD-STS-B"] = _write_chinese(folder, seed)
        _write_corpus(folder, seed, lines)
        manifest = {
            "name": "world",
            "version": VERSION,
            "seed": seed,
            "sts": sizes,
            "sts_files": CHINESE,
        }
        manifest["transfer"] = write_transfer(folder / "downstream", partial(_stream, seed))
        manifest["probing"] = write_probing(folder / "probing", partial(_stream, seed))
        write_json(folder / "manifest.json", manifest)


def build_small(out: Path, lines: int, seed: int = 0) -> None:
    """Write only the corpus and STS-B of the embedded world; their bytes are those of `build`.

    Args:
        out: folder to write.
        lines: smallest length of the corpus in sentences.
        seed: seed of all draws.

    Raises:
        UserError: the folder cannot be written.
    """
    check_replaceable(out, "manifest.json")
    with atomic_folder(out, keep_others=True) as folder:
        sizes = {"STS-B": _write_benchmark(folder, seed)}
        _write_corpus(folder, seed, lines)
        write_json(
            folder / "manifest.json",
            {"name": "world", "version": VERSION, "seed": seed, "sts": sizes},
        )


def _stream(seed: int, *name: str) -> random.Random:
    """Return the generator of one file; files do not share a random stream."""
    return random.Random("/".join(["world", str(STREAMS), str(seed), *name]))  # noqa: S311 (not for secrets)


def _lower(pair: Pair) -> tuple[str, str]:
    return pair.first.text.lower(), pair.second.text.lower()


def _write_year(folder: Path, name: str, seed: int) -> dict[str, int]:
    for source in STS[name]:
        rng = _stream(seed, name, source.name)
        pairs = sample_set(rng, source)
        unscored = round(_UNSCORED.get(name, 0) * len(pairs))
        rows = [("\t".join(_lower(pair)), _GOLD[name].format(pair.gold)) for pair in pairs]
        rows += [("\t".join(_lower(pair)), "") for pair in sample_set(rng, source, unscored)]
        rng.shuffle(rows)
        year = folder / "downstream" / "STS" / f"{name}-en-test"
        write_lines(year / f"STS.input.{source.name}.txt", [text for text, _ in rows])
        write_lines(year / f"STS.gs.{source.name}.txt", [gold for _, gold in rows])
    return {source.name: source.pairs for source in STS[name]}


def _write_benchmark(folder: Path, seed: int) -> dict[str, int]:
    for split, size in STSB.items():
        rows = [
            "\t".join(
                (
                    "main-world",
                    source.name,
                    f"{split}",
                    f"{number:04d}",
                    f"{pair.gold:.3f}",
                    *_lower(pair),
                )
            )
            for number, (source, pair) in enumerate(
                sample_mixed(_stream(seed, "STS-B", split), size)
            )
        ]
        write_lines(folder / "downstream" / "STS" / "STSBenchmark" / f"sts-{split}.csv", rows)
    return STSB


def _write_chinese(folder: Path, seed: int) -> dict[str, int]:
    for split, size in STSB.items():
        rows = [
            "||".join(
                (f"world{split}-{number:04d}", *map(in_chinese, _lower(pair)), f"{pair.gold:.0f}")
            )
            for number, (_, pair) in enumerate(
                sample_mixed(_stream(seed, "CNSD-STS-B", split), size)
            )
        ]
        write_lines(folder / "downstream" / "CNSD-STS-B" / f"cnsd-sts-{split}.txt", rows)
    return STSB


def _write_sick(folder: Path, seed: int) -> dict[str, int]:
    number = 0
    for split, size in SICK.items():
        rows = [
            "\t".join(
                ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")
            )
        ]
        for pair in sample_set(_stream(seed, "SICK", split), SICK_SOURCE, size):
            number += 1
            # SICK's scale is 1 to 5, and its text is cased.
            rows.append(
                "\t".join(
                    (
                        str(number),
                        pair.first.text,
                        pair.second.text,
                        f"{1 + pair.gold * 0.8:.2f}",
                        _entailment(pair),
                    )
                )
            )
        write_lines(
            folder / "downstream" / "SICK" / f"SICK_{split}.txt",
            rows,
            "\r\n" if split == "test_annotated" else "\n",
        )
    return {"train": SICK["train"], "dev": SICK["trial"], "test": SICK["test_annotated"]}


def _entailment(pair: Pair) -> str:
    """Return SICK's label: equal meanings entail each other; opposite polarity is a
    contradiction."""
    if pair.first.meaning == pair.second.meaning:
        return "ENTAILMENT"
    opposed = pair.first.meaning.negative != pair.second.meaning.negative
    return "CONTRADICTION" if opposed and pair.gold > 2 else "NEUTRAL"


def _write_corpus(folder: Path, seed: int, lines: int) -> None:
    rng = _stream(seed, "corpus")
    text: list[str] = []
    table = ["first_line\tlines\tsource\tcurid\ttitle"]
    while len(text) < lines:
        document = sample_document(rng)
        table.append(f"{len(text) + 1}\t{len(document)}\tworld\t{len(table)}\t{document[0]}")
        text += document
    write_lines(folder / "world.txt", text)
    write_lines(folder / "world.docs.tsv", table)
