"""Write the embedded world as a data folder in SentEval's layout."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

from bench.utils.files import atomic_folder, check_replaceable, write_json
from bench.world.chinese import in_chinese
from bench.world.corpus import sample_document
from bench.world.draws import Stream, write_lines
from bench.world.probing import write_probing
from bench.world.sets import (
    NLI,
    SICK,
    SICK_SOURCE,
    STS,
    STSB,
    Pair,
    sample_mixed,
    sample_set,
    sample_triples,
)
from bench.world.transfer import write_transfer

VERSION = 3
STREAMS = 1  # version of the random streams: a new VERSION need not change existing sets
LINES = 20_000  # smallest number of sentences of the corpus

# Description of the Chinese STS set in the manifest.
CHINESE = {"path": "CNSD-STS-B/cnsd-sts-{split}.txt", "separator": "||", "columns": [1, 2, 3]}

# Decimals of gold scores by year, and unscored rows per scored row (2015 and 2016, as published).
_DECIMALS = {"STS12": 3, "STS13": 1, "STS14": 1, "STS15": 2, "STS16": 0}
_UNSCORED = {"STS15": 1.0, "STS16": 3.0}


def build(out: Path, seed: int = 0, lines: int = LINES, small: bool = False) -> None:
    """Write the embedded world to the folder `out`, atomically: `downstream/` and `probing/` as in
    SentEval, `world.txt`, `world.docs.tsv`, `world-nli.csv`, `manifest.json`.

    Equal seeds give equal bytes on any machine. The corpus has `lines` sentences or a few more.
    `small` writes only the corpus and STS-B.

    Raises:
        UserError: the folder cannot be written.
    """
    check_replaceable(out, "manifest.json")
    stream = partial(_stream, seed)
    with atomic_folder(out, keep_others=True) as folder:
        downstream = folder / "downstream"
        _write_corpus(folder, stream("corpus"), lines)
        _write_benchmark(downstream / "STS" / "STSBenchmark", stream)
        manifest: dict[str, Any] = {"name": "world", "version": VERSION, "seed": seed}
        manifest["sts"] = {"STS-B": STSB}
        if not small:
            years = {name: _write_year(downstream / "STS", name, stream) for name in STS}
            sick = _write_sick(downstream / "SICK", stream)
            _write_chinese(downstream / "CNSD-STS-B", stream)
            _write_triples(folder / "world-nli.csv", stream("nli"))
            manifest["sts"] = {**years, "STS-B": STSB, "SICK-R": sick, "CNSD-STS-B": STSB}
            manifest["sts_files"] = {"CNSD-STS-B": CHINESE}
            manifest["transfer"] = write_transfer(downstream, stream)
            manifest["probing"] = write_probing(folder / "probing", stream)
        write_json(folder / "manifest.json", manifest)


def _stream(seed: int, *name: str) -> random.Random:
    """Return the generator of one file; files do not share a random stream."""
    return random.Random("/".join(["world", str(STREAMS), str(seed), *name]))  # noqa: S311 (not for secrets)


def _write_year(folder: Path, name: str, stream: Stream) -> dict[str, int]:
    for source in STS[name]:
        rng = stream(name, source.name)
        pairs = sample_set(rng, source, source.pairs)
        unscored = sample_set(rng, source, round(_UNSCORED.get(name, 0) * len(pairs)))
        rows = [("\t".join(pair.lower()), f"{pair.gold:.{_DECIMALS[name]}f}") for pair in pairs]
        rows += [("\t".join(pair.lower()), "") for pair in unscored]
        rng.shuffle(rows)
        for kind, column in zip(("input", "gs"), zip(*rows, strict=True), strict=True):
            write_lines(folder / f"{name}-en-test" / f"STS.{kind}.{source.name}.txt", column)
    return {source.name: source.pairs for source in STS[name]}


def _write_benchmark(folder: Path, stream: Stream) -> None:
    for split, size in STSB.items():
        rows = []
        for number, (source, pair) in enumerate(sample_mixed(stream("STS-B", split), size)):
            about = f"main-world\t{source.name}\t{split}\t{number:04d}\t{pair.gold:.3f}"
            rows.append("\t".join((about, *pair.lower())))
        write_lines(folder / f"sts-{split}.csv", rows)


def _write_chinese(folder: Path, stream: Stream) -> None:
    for split, size in STSB.items():
        rows = []
        for number, (_, pair) in enumerate(sample_mixed(stream("CNSD-STS-B", split), size)):
            texts = map(in_chinese, pair.texts)
            rows.append("||".join((f"world{split}-{number:04d}", *texts, f"{pair.gold:.0f}")))
        write_lines(folder / f"cnsd-sts-{split}.txt", rows)


def _write_sick(folder: Path, stream: Stream) -> dict[str, int]:
    number = 0
    for split, size in SICK.items():
        rows = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"]
        for pair in sample_set(stream("SICK", split), SICK_SOURCE, size):
            number += 1
            # SICK's scale is 1 to 5, and its text is cased.
            gold = f"{1 + pair.gold * 0.8:.2f}"
            rows.append("\t".join((str(number), *pair.texts, gold, _entailment(pair))))
        end = "\r\n" if split == "test_annotated" else "\n"
        write_lines(folder / f"SICK_{split}.txt", rows, end)
    return dict(zip(("train", "dev", "test"), SICK.values(), strict=True))


def _write_triples(path: Path, rng: random.Random) -> None:
    rows = [",".join(f'"{text}"' for text in texts) for texts in sample_triples(rng, NLI)]
    write_lines(path, ["sent0,sent1,hard_neg", *rows])


def _entailment(pair: Pair) -> str:
    """Return SICK's label; opposite polarity of related meanings is a contradiction."""
    if pair.same:
        return "ENTAILMENT"
    opposed = pair.meanings[0].negative != pair.meanings[1].negative
    return "CONTRADICTION" if opposed and pair.gold > 2 else "NEUTRAL"


def _write_corpus(folder: Path, rng: random.Random, lines: int) -> None:
    text: list[str] = []
    table = ["first_line\tlines\tsource\tcurid\ttitle"]
    while len(text) < lines:
        document = sample_document(rng)
        table.append(f"{len(text) + 1}\t{len(document)}\tworld\t{len(table)}\t{document[0]}")
        text += document
    write_lines(folder / "world.txt", text)
    write_lines(folder / "world.docs.tsv", table)
