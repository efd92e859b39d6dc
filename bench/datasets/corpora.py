"""Training corpora: plain text, one sentence per line, articles consecutive where documents are known."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from bench.download import DATASET, PINS, check_corpus, corpus_name, corpus_path, pinned, read_lines
from bench.utils.errors import UserError
from bench.utils.files import read_json, sha256_file

__all__ = [
    "check_name",
    "corpus_identity",
    "corpus_name",
    "corpus_path",
    "read_documents",
    "read_sentences",
    "sts_sentences",
]

NLI_COLUMNS = ["sent0", "sent1", "hard_neg"]  # of nli_for_simcse.csv: premise, entailment, contradiction


def read_sentences(path: Path, limit: int | None = None) -> list[str]:
    """Read the sentences of a corpus, at most the first `limit`; an empty line becomes a single space, as in SimCSE.

    A long line is kept whole: the tokeniser cuts it. Nothing is dropped, so row i is line i + 1 of the file.

    Of a table `.csv[.gz]` the distinct sentences are read (`_table_sentences`).

    Raises:
        UserError: the file is missing, damaged, not UTF-8, holds a line above 1 MiB or no sentence at all.
    """
    if limit is not None and limit < 1:
        raise UserError(f"{path}: a limit of {limit} sentences leaves nothing to train on; name at least 1")
    sentences = list(islice(_rows(path), limit))
    if not any(not sentence.isspace() for sentence in sentences):
        raise UserError(f"{path} holds no sentence; name a corpus with one sentence per line")
    return sentences


def _rows(path: Path) -> Iterator[str]:
    if Path(path).name.removesuffix(".gz").endswith(".csv"):
        return _table_sentences(path)
    return (line or " " for line in read_lines(path))


def _table_sentences(path: Path) -> Iterator[str]:
    """The distinct sentences of `nli_for_simcse.csv`, row by row: premise, entailment and contradiction.

    "All NLI sentences" (methods.md b.5) is read as all three columns; a premise stands in several rows and counts once.

    Raises:
        UserError: it is not such a table.
    """
    reader = csv.reader(read_lines(path), strict=True)
    seen: set[str] = set()
    try:
        if (header := next(reader, [])) != NLI_COLUMNS:
            raise UserError(f"{path}: the header is {','.join(header)}, not {','.join(NLI_COLUMNS)}; name a .txt file")
        for row in reader:
            if len(row) != len(NLI_COLUMNS):
                raise UserError(
                    f"{path}, line {reader.line_num}: {len(row)} columns, not {len(NLI_COLUMNS)}; fetch it again"
                )
            for sentence in map(str.strip, row):
                if sentence and sentence not in seen:
                    seen.add(sentence)
                    yield sentence
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}; fetch it again") from None


def sts_sentences(data: Path) -> list[str]:
    """The sentences of the seven STS tasks of a data folder, repeated ones too: the corpus "sts" (methods.md b.8).

    All splits, test sets included, and the pairs of 2015 and 2016 that nobody scored.

    Raises:
        UserError: a file is missing or wrong.
    """
    from bench.datasets import sts
    from bench.datasets.manifest import clean, fields, sizes

    found: list[str] = []
    for task in sts.TASKS:
        parts = sizes("sts", task, data)
        for part in parts:
            if task in ("STS-B", "SICK-R"):
                found += sts.read(task, data, part).sentences()
                continue
            path = Path(data) / "downstream" / "STS" / f"{task}-en-test" / f"STS.input.{part}.txt"
            for number, line in enumerate(read_lines(path), start=1):
                found += map(clean, fields(path, number, line, 2)[:2])
    return [sentence for sentence in found if sentence]


def cnsd_sentences(data: Path) -> list[str]:
    """Both sentences of every training pair of Chinese STS-B: the corpus "cnsd" (methods.md b.11).

    Raises:
        UserError: the data folder does not have it, or its file is wrong.
    """
    from bench.datasets import sts

    (pairs,) = sts.read("CNSD-STS-B", data, "train").subsets
    return [sentence for pair in zip(pairs.first, pairs.second, strict=True) for sentence in pair]


# Corpora that are made of a data folder's tasks.
MADE = {"sts": sts_sentences, "cnsd": cnsd_sentences}


def check_name(name: str) -> None:
    """Raise `UserError` for the name of a corpus that no suite could ever have; a path is left to who reads it."""
    if "/" not in name and name != "world" and name not in MADE:
        check_corpus(name)


def corpus_identity(path: Path) -> dict[str, Any]:
    """What a corpus is: `{"name", "sha256", "rows"}`, the sum being that of the file as it lies on disk.

    Raises:
        UserError: the file cannot be read, or is not the corpus whose name it has.
    """
    name, rows, digest = corpus_name(path), sum(1 for _ in _rows(path)), sha256_file(path)
    known = read_json(PINS)["corpora"].get(name, {})
    remedy = "fetch it again, or give another corpus another name"
    if known and rows not in known["rows"]:
        raise UserError(f"{path} has {rows} rows, {name} has {' or '.join(map(str, known['rows']))}; {remedy}")
    sums = known.get("sha256") or [pinned(DATASET)["files"].get(Path(path).name, {}).get("sha256")]
    if any(sums) and digest not in sums:
        raise UserError(f"{path} has the SHA-256 {digest}, {name} has {' or '.join(filter(None, sums))}; {remedy}")
    return {"name": name, "sha256": digest, "rows": rows}


def read_documents(path: Path, rows: int) -> list[range]:
    """The documents of a corpus, as ranges of rows counted from 0.

    They stand beside the corpus `NAME.txt[.gz]` in `NAME.docs.tsv[.gz]`: a header, then the first line (from 1) and the
    number of lines of each document; further columns are free.

    Args:
        path: the corpus.
        rows: how many of its sentences are in use: documents behind them are left out, one that crosses is cut.

    Raises:
        UserError: the corpus has no list of documents, or a line of it is wrong.
    """
    stem = Path(path).parent / corpus_name(path)
    lists = [list_path for suffix in ("", ".gz") if (list_path := Path(f"{stem}.docs.tsv{suffix}")).is_file()]
    if not lists:
        raise UserError(
            f"corpus {stem.name} has no list of documents ({stem.name}.docs.tsv); use one whose documents are known"
        )
    documents: list[range] = []
    end = 0
    for number, line in islice(enumerate(read_lines(lists[0]), start=1), 1, None):
        try:
            first, length = map(int, line.split("\t")[:2])
        except ValueError:
            raise UserError(
                f"{lists[0]}, line {number}: expected a first line and a number of lines; mend it"
            ) from None
        if first <= end or length < 1:
            raise UserError(f"{lists[0]}, line {number}: the document overlaps the one before or is empty; mend it")
        end = first - 1 + length
        if first <= rows:
            documents.append(range(first - 1, min(end, rows)))
    return documents
