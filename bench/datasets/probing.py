"""The ten probing tasks of Conneau et al. (2018), and nine of X-Probe that are distinct from them.

Files (beside `DATA/downstream/`):
  probing/FILE.txt                        UTF-8: tr, va or te; label; ...; sentence (SentEval)
  probing-xprobe-en/FOLDER/{va,te}.txt.gz UTF-8: sentence, label (X-Probe, Ravishankar et al. 2019;
  no training part)

X-Probe's tasks have the prefix "xprobe-". They have no training part: a classifier is
cross-validated on `va` and tested on `te`. Of tree depth only one part is published; it is scored
by nested cross-validation.

A user-defined task `probing:NAME` is the file `probing/NAME.txt` in SentEval's format, with its
sizes in the `manifest.json` of the data folder:

    {"name": "mine", "probing": {"probing:negation": {"train": 800, "dev": 100, "test": 100}}}
"""

from __future__ import annotations

from pathlib import Path

from bench.datasets.labelled import KFOLD, NESTED, SPLIT, LabelledTask, check_labels, ordered
from bench.datasets.manifest import check_count, clean, fields, sizes
from bench.datasets.tasks import OWN_PROBING, XPROBE_TASKS, is_probing
from bench.datasets.tasks import PROBING_TASKS as TASKS
from bench.download import probing_file, read_lines
from bench.utils.errors import UserError, did_you_mean

FILES = {
    "Length": "sentence_length",
    "WordContent": "word_content",
    "Depth": "tree_depth",
    "TopConstituents": "top_constituents",
    "BigramShift": "bigram_shift",
    "Tense": "past_present",
    "SubjNumber": "subj_number",
    "ObjNumber": "obj_number",
    "OddManOut": "odd_man_out",
    "CoordinationInversion": "coordination_inversion",
}
_SPLITS = {"tr": "train", "va": "dev", "te": "test"}

Rows = list[tuple[str, str]]  # sentence, label


def read(task: str, data: Path) -> LabelledTask:
    """Read one task from a data folder, checked against its manifest.

    Args:
        task: one of `TASKS` or `XPROBE_TASKS`, or a user-defined one.
        data: the folder that holds `downstream/`, with `probing/` or `probing-xprobe-en/` beside
            it.

    Raises:
        UserError: unknown task; a file that is missing, truncated, wrongly encoded or of another
            size than in the manifest; a line without sentence or label; a label that the training
            part lacks.
    """
    if not is_probing(task) and task not in XPROBE_TASKS:
        raise UserError(
            f"unknown probing task {task!r}{did_you_mean(task, (*TASKS, *XPROBE_TASKS))}"
        )
    counts = sizes("probing", task, data)
    if is_probing(task):
        own = Path(data) / "probing" / f"{task.removeprefix(OWN_PROBING)}.txt"
        path = probing_file(FILES[task], data) if task in TASKS else own
        return _task(
            task,
            SPLIT,
            dict.fromkeys(_SPLITS.values(), path),
            _read_senteval(path, even=task not in TASKS),
            counts,
        )
    folder = Path(data) / "probing-xprobe-en" / FILES[task.removeprefix("xprobe-")]
    protocol = KFOLD if "train" in counts else NESTED
    names = {"train": "va", "test": "te"} if protocol == KFOLD else {"all": "te"}
    files = {split: folder / f"{name}.txt.gz" for split, name in names.items()}
    return _task(
        task, protocol, files, {split: _read_xprobe(path) for split, path in files.items()}, counts
    )


def _task(
    name: str, protocol: str, files: dict[str, Path], rows: dict[str, Rows], counts: dict[str, int]
) -> LabelledTask:
    for split, path in files.items():
        check_count(path, len(rows[split]), counts.get(split, 0), f"{split} samples")
    labels = sorted(
        {label for _, label in next(iter(rows.values()))}
    )  # SentEval numbers the sorted training labels
    splits = {}
    for split, path in files.items():
        unknown = sorted({label for _, label in rows[split]} - set(labels))
        if unknown:
            raise UserError(
                f"{path}: {name} has label {unknown[0]!r} in {split} but not in training; fix it or fetch it again"
            )
        splits[split] = ordered(
            [[text for text, _ in rows[split]]], [labels.index(label) for _, label in rows[split]]
        )
    check_labels(name, next(iter(files.values())), splits, max(len(labels), 2))
    return LabelledTask(name, protocol, len(labels), splits)


def _read_senteval(path: Path, even: bool) -> dict[str, Rows]:
    """Read samples by split. If `even`, every line must have as many fields as the first one."""
    rows: dict[str, Rows] = {split: [] for split in _SPLITS.values()}
    width: int | None = None
    for number, line in enumerate(read_lines(path), start=1):
        row = fields(path, number, line, 3, exactly=width)
        width = len(row) if even else None
        if row[0] not in _SPLITS:
            raise UserError(
                f"{path}, line {number}: split {row[0][:20]!r} is not tr, va or te; fix it or fetch it again"
            )
        rows[_SPLITS[row[0]]].append(_row(path, number, row[-1], row[1]))
    return rows


def _read_xprobe(path: Path) -> Rows:
    rows = []
    for number, line in enumerate(read_lines(path), start=1):
        sentence, *_, label = fields(path, number, line, 2)
        rows.append(_row(path, number, sentence, label))
    return rows


def _row(path: Path, number: int, sentence: str, label: str) -> tuple[str, str]:
    text, label = clean(sentence), label.strip()
    if not text or not label:
        raise UserError(
            f"{path}, line {number}: no {'label' if text else 'sentence'}; fix it or fetch it again"
        )
    return text, label
