"""The seven transfer tasks: their files, in SentEval's order and with its quirks
(docs/methods.md#data-files).

Files (`DATA/downstream/`):
  MR/rt-polarity.{pos,neg}, CR/custrev.{pos,neg}, MPQA/mpqa.{pos,neg},
                                  SUBJ/subj.{objective,subjective} latin-1, one sentence per line; a
                                  blank line is a sample with an empty sentence
  SST/binary/sentiment-{train,dev,test}    UTF-8: sentence, label 0 or 1
  TREC/{train_5500,TREC_10}.label          latin-1: COARSE:fine, a space, the question
  MRPC/msr_paraphrase_{train,test}.txt     UTF-8, header: label 0 or 1, two ids, two sentences
"""

from pathlib import Path

from bench.datasets.labelled import KFOLD, NESTED, SPLIT, LabelledTask, Rows, make_task
from bench.datasets.manifest import bad, check_count, clean, rows, sizes
from bench.download import read_lines
from bench.utils.errors import did_you_mean

# Part of a task -> file, in the order in which SentEval reads them: that of label 1, then 0.
_BINARY = {
    "MR": {"positive": "MR/rt-polarity.pos", "negative": "MR/rt-polarity.neg"},
    "CR": {"positive": "CR/custrev.pos", "negative": "CR/custrev.neg"},
    "SUBJ": {"objective": "SUBJ/subj.objective", "subjective": "SUBJ/subj.subjective"},
    "MPQA": {"positive": "MPQA/mpqa.pos", "negative": "MPQA/mpqa.neg"},
}
# Split -> file.
_SPLITS = {
    "SST2": {split: f"SST/binary/sentiment-{split}" for split in ("train", "dev", "test")},
    "TREC": {"train": "TREC/train_5500.label", "test": "TREC/TREC_10.label"},
    "MRPC": {split: f"MRPC/msr_paraphrase_{split}.txt" for split in ("train", "test")},
}
QUESTIONS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")


def read(task: str, data: Path) -> LabelledTask:
    """Read one task from the folder that holds `downstream/`, checked against its manifest.

    Raises:
        UserError: a file that is missing, truncated, wrongly encoded or of another length than in
            the manifest; a line with a missing or unknown label.
    """
    counts, folder = sizes("transfer", task, data), Path(data) / "downstream"
    if task in _BINARY:
        samples = _read_binary(task, folder, counts)
        return make_task(task, NESTED, 2, folder / task, {"all": samples})
    read_file = {"SST2": _read_sst, "TREC": _read_trec, "MRPC": _read_mrpc}[task]
    parts = {}
    for split, name in _SPLITS[task].items():
        path = folder / name
        parts[split] = read_file(path)
        check_count(path, len(parts[split]), counts.get(split, 0), "samples")
    classes = len(QUESTIONS) if task == "TREC" else 2
    protocol = SPLIT if task == "SST2" else KFOLD
    return make_task(task, protocol, classes, folder / _SPLITS[task]["train"], parts)


def _read_binary(task: str, folder: Path, counts: dict[str, int]) -> Rows:
    samples = []
    for label, (part, name) in zip((1, 0), _BINARY[task].items(), strict=True):
        path = folder / name
        texts = [clean(line) for line in read_lines(path, "latin-1")]
        check_count(path, len(texts), counts.get(part, 0), "lines")
        samples += [([text], label) for text in texts]
    return samples


def _read_sst(path: Path) -> Rows:
    return [
        ([clean(text)], _binary(path, number, label))
        for number, (text, label, *_) in rows(path, 2, strip=True)
    ]


def _read_trec(path: Path) -> Rows:
    samples = []
    for number, line in enumerate(read_lines(path, "latin-1"), start=1):
        coarse, _, rest = line.strip().partition(":")
        if coarse not in QUESTIONS:
            hint = did_you_mean(coarse, QUESTIONS)
            raise bad(path, number, f"unknown question class {coarse[:20]!r}{hint}")
        samples.append(([clean(rest.partition(" ")[2])], QUESTIONS.index(coarse)))
    return samples


def _read_mrpc(path: Path) -> Rows:
    return [
        ([clean(text) for text in texts[:2]], _binary(path, number, label))
        for number, (label, _, _, *texts) in rows(path, 5, header=True, strip=True)
    ]


def _binary(path: Path, number: int, label: str) -> int:
    if label.strip() not in ("0", "1"):
        raise bad(path, number, f"label {label[:20]!r} is not 0 or 1")
    return int(label)
