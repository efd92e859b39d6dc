"""Training corpora: plain text, one sentence per line, articles consecutive where documents are known."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from bench.data import DATASET, PINS, corpus_name, corpus_path, pinned, read_lines
from bench.errors import UserError
from bench.files import read_json, sha256_file

__all__ = ["corpus_identity", "corpus_name", "corpus_path", "read_documents", "read_sentences"]


def read_sentences(path: Path, limit: int | None = None) -> list[str]:
    """Read the sentences of a corpus, at most the first `limit`; an empty line becomes a single space, as in SimCSE.

    A long line is kept whole: the tokeniser cuts it. Nothing is dropped, so row i is line i + 1 of the file.

    Raises:
        UserError: the file is missing, damaged, not UTF-8, holds a line above 1 MiB or no sentence at all.
    """
    if limit is not None and limit < 1:
        raise UserError(f"{path}: a limit of {limit} sentences leaves nothing to train on; name at least 1")
    sentences = [line or " " for line in islice(read_lines(path), limit)]
    if not any(not sentence.isspace() for sentence in sentences):
        raise UserError(f"{path} holds no sentence; name a corpus with one sentence per line")
    return sentences


def corpus_identity(path: Path) -> dict[str, Any]:
    """What a corpus is: `{"name", "sha256", "rows"}`, the sum being that of the file as it lies on disk.

    Raises:
        UserError: the file cannot be read, or is not the corpus whose name it has.
    """
    name, rows, digest = corpus_name(path), sum(1 for _ in read_lines(path)), sha256_file(path)
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
