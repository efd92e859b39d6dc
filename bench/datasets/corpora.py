"""Training corpora: plain text, one sentence per line; documents are consecutive lines."""

import csv
import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

from bench.datasets import sts
from bench.datasets.manifest import bad, clean, listed_task, rows
from bench.datasets.tasks import STS_TASKS
from bench.download import CORPORA, corpus_name, corpus_path, fetch_corpus, local_corpus
from bench.download.hub import DATASET, local_folder, pin, pinned
from bench.download.sums import file_sum
from bench.utils.errors import UserError, warn
from bench.utils.files import read_lines

NLI_HEADER = "sent0,sent1,hard_neg"  # of nli_for_simcse.csv: premise, entailment, contradiction
# How names of files in other formats end. A file with any other name, such as wiki.en, is a text.
OTHER_FORMATS = (
    r"(?i)\.(jsonl?|ndjson|tsv|tab|xml|html?|ya?ml|conllu?|tmx|rtf|pdf|docx?|odt|epub|xlsx?|ods|"
    r"parquet|arrow|feather|avro|pkl|np[yz]|h5|db|sqlite|zip|bz2|xz|zst|lz4|7z|rar|tar|tgz)(\.gz)?$"
)

# How lines of other formats look.
OTHER_LINES = re.compile(
    r"\s*\S.*(\t|\|\|\|).*\S\s*|__label__.*"  # a table, with tabs or other marks of its own,
    r'|(\d+|"[^"]*")[,;|]\S.*|.*\S[,;|](-?[\d.]+|[A-Za-z_]+|"[^"]*")'  # with an id or a label,
    r"|\S+( \S+)* (O|[BIES]-[\w-]+)"  # or with a token and its tags,
    r"|\S+ (NNP?S?|VB[DGNPZ]?|JJ|IN|DT|PRP|RB|NOUN|VERB|ADJ|ADP|DET|PRON|PUNCT)( \S+)*"
    r"|\S+/[A-Z]+( \S+/[A-Z.,:$'`]+)*|\(( ?\()?[A-Z]+ ?\(.*\)"  # on one line, or in a tree
    r'|\s*(<.*>|[{\[].*[}\]],?|".*",)\s*'  # markup
    r"|[\W_]*\d[\W\d_]*|[\[{][\d:.,]+[\]}].*|Dialogue: \d.*"  # a number or a time of subtitles
)


def read_sentences(path: Path, limit: int | None = None, distinct: int | None = None) -> list[str]:
    """Read the first `limit` sentences of a corpus, or all.

    No line is dropped, so row i is line i + 1 of the file. An empty line becomes a single space, as
    in SimCSE. With `distinct`, repeated sentences and sentences of fewer words are left out. A
    table such as `nli_for_simcse.csv[.gz]` gives its distinct sentences row by row, from all three
    columns (docs/reference/methods.md#bert-whitening).
    """
    sentences = list(islice(_rows(path), limit))
    if distinct:
        sentences = [text for text in dict.fromkeys(sentences) if len(text.split()) >= distinct]
    # `all` is true of an empty list, too.
    if all(map(str.isspace, sentences)):
        raise UserError(f"{path} contains no sentence; expected one sentence per line")
    return sentences


def _rows(path: Path) -> Iterator[str]:
    """The sentences of a text or a table; `UserError` for the name of another format."""
    if re.search(OTHER_FORMATS, path.name):
        raise UserError(
            f"{path} has a name of another format; write one sentence a line to a .txt file, or "
            "the columns sent0,sent1,hard_neg to a .csv file"
        )
    if _is_table(path):
        return filter(None, dict.fromkeys(chain.from_iterable(_table_rows(path))))
    return (line or " " for line in read_lines(path))


def _is_table(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(".csv")


def _table_rows(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a table: three sentences, or empty texts."""
    # Without `strict` a quote that is never closed would swallow all rows behind it, silently.
    reader = csv.reader(read_lines(path), strict=True)
    try:
        if ",".join(next(reader, [])) != NLI_HEADER:
            raise csv.Error(f"the header is not {NLI_HEADER}")
        for row in reader:
            if len(row) != 3:
                raise csv.Error(f"{len(row)} columns, not 3")
            yield [sentence.strip() for sentence in row]
    except csv.Error as error:
        raise UserError(
            f"{path}, line {reader.line_num}: {error}; fetch it again, or name a .txt file"
        ) from None


def read_triples(path: Path, sentences: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the rows of a table like `nli_for_simcse.csv`, as rows of `sentences`. A row with an
    empty sentence, or with one that is not among them, is left out."""
    check_structure(str(path), "triples")
    places = {sentence: row for row, sentence in enumerate(sentences)}
    triples = [
        tuple(map(places.__getitem__, row))
        for row in _table_rows(path)
        # SimCSE trains on rows with an empty sentence, too, as a space
        # (princeton-nlp/SimCSE@49fa580:train.py:385-426).
        if places.keys() >= set(row)
    ]
    if not triples:
        raise UserError(
            f"{path} has no triple among its first {len(sentences)} sentences; use more sentences"
        )
    return triples


def sts_sentences(data: Path) -> list[str]:
    """Return all sentences of the seven STS tasks, with duplicates, and with the pairs that have no
    gold score: the corpus "sts" (docs/reference/methods.md#consert)."""
    sentences: list[str] = []
    for name in STS_TASKS:
        task = listed_task(name, data)
        for split in task.sizes:  # or a subset, of a task that has some
            if task.has_subsets:
                # ConSERT trains on pairs without a gold score, too, which `sts.read` leaves out
                # (yym6472/ConSERT@03c9e8f:data_utils.py:57-68, 147-201).
                for _, row in rows(data / task.file(split), 2):
                    sentences += map(clean, row[:2])
            else:
                sentences += sts.read(name, data, split).sentences()
    return [sentence for sentence in sentences if sentence]


def cnsd_sentences(data: Path) -> list[str]:
    """Return both sentences of each training pair of Chinese STS-B: the corpus "cnsd"
    (docs/reference/methods.md#word-noise)."""
    # The base code has the same 10,462 lines but for one that is cut at a bar
    # (shuxinyin/SimCSE-Pytorch@c5bc95a:data/STS-B/cnsd-sts-train_unsup.txt).
    return [*chain.from_iterable(sts.read("CNSD-STS-B", data, "train").items())]


# Corpora extracted from the tasks of a data folder.
MADE = {"sts": sts_sentences, "cnsd": cnsd_sentences}
# Corpora of the toy data, and their files there.
WORLDS = {"world": "world.txt", "world-nli": "world-nli.csv"}


def check_name(name: str) -> None:
    """Raise `UserError` if no corpus and no file in BENCH_DATA has this name, or if the file is no
    list of sentences. Warn of a file that repeats a single sentence."""
    path = local_corpus(name, local_folder())
    if path:
        head = list(islice(_rows(path), 1000))
        # Measured: at most 5 % of any thousand lines of wiki1m_fallback look so, and 16 % or more
        # of subtitles. An eighth lies between both. Five lines are always allowed, so that a few
        # lines do not condemn a short file.
        if len([*filter(OTHER_LINES.fullmatch, head)]) > 5 + len(head) / 8:
            raise UserError(
                f"{path} has lines that are no sentences, as of tables, subtitles, markup or "
                "tagged tokens; write one sentence a line to a file"
            )
        distinct = islice(groupby(filter(str.strip, _rows(path))), 2)
        if len([*distinct]) < 2:
            lines = read_sentences(path)  # refuses a file without a sentence
            warn(f"warning: {path} has one sentence alone, on {len(lines)} of its lines")
        deque(_rows(path), 0)  # reads all lines, since the last may be damaged, too
    elif is_fetched(name) and name not in CORPORA and not pin(name, "corpora"):
        fetch_corpus(name)


def check_structure(name: str, structure: str) -> None:
    """Raise `UserError` if a corpus, by name or path, certainly has no "documents" or "triples"."""
    is_table = _is_table(Path({**CORPORA, **WORLDS}.get(name, name)))
    if structure == "triples":
        if not is_table:
            raise UserError(
                f"corpus {corpus_name(Path(name))} has no labelled triples; use the corpus nli, or "
                f"a table with the columns {NLI_HEADER}"
            )
        return
    folder = local_folder()
    if folder and is_fetched(name):
        documents_table(corpus_path(name, folder))
    elif "/" in name or is_table or name in CORPORA or name in MADE:
        documents_table(Path(name))


def is_fetched(name: str) -> bool:
    """Return whether a corpus comes from `BENCH_DATA` or a download."""
    return "/" not in name and name not in WORLDS and name not in MADE


def corpus_identity(path: Path) -> dict[str, Any]:
    """Return `{"name", "sha256", "rows"}` of a corpus. The digest is of the file as it is,
    compressed or not."""
    name, length, digest = corpus_name(path), sum(1 for _ in _rows(path)), file_sum(path)
    # A corpus without pinned rows and sums is compared with itself, and passes.
    published = pin(name, "corpora") or {"rows": [length]}
    sums = published.get("sha256") or [pinned(DATASET)[1].get(path.name, digest)]
    if length not in published["rows"] or digest not in sums:
        lengths = " or ".join(map(str, published["rows"]))
        raise UserError(
            f"{path} has {length} rows and the SHA-256 {digest}, but {name} has {lengths} rows and "
            f"{' or '.join(sums)}; fetch it again, or give another corpus another name"
        )
    return {"name": name, "sha256": digest, "rows": length}


def read_documents(path: Path, length: int) -> list[range]:
    """Return the documents of the first `length` sentences as ranges of rows; the last may be cut.

    `NAME.docs.tsv[.gz]` beside the corpus lists them: a header, then the first line (from 1) and
    the number of lines of each document; further columns are ignored.
    """
    table = documents_table(path)
    documents: list[range] = []
    end = 0
    for number, (first_line, lines, *_) in rows(table, 2, header=True):
        start = int(first_line) - 1 if first_line.isdecimal() else -1
        if start < end or not lines.isdecimal() or not int(lines):
            problem = "expected a first line, behind the document before, and a number of lines"
            raise bad(table, number, problem)
        end = start + int(lines)
        if start < length:
            documents.append(range(start, min(end, length)))
    return documents


def documents_table(path: Path) -> Path:
    """Return the list of documents beside a corpus; `UserError` if there is none."""
    name = corpus_name(path)
    for suffix in ("", ".gz"):
        table = path.with_name(f"{name}.docs.tsv{suffix}")
        if table.is_file():
            return table
    raise UserError(
        f"corpus {name} has no list of documents; add {name}.docs.tsv or use another corpus"
    )
