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

from pathlib import Path

from bench.datasets.labelled import KFOLD, NESTED, SPLIT, LabelledTask, make_task
from bench.datasets.manifest import bad, check_count, clean, rows, sizes
from bench.datasets.tasks import OWN_PROBING, is_probing
from bench.datasets.tasks import PROBING_FILES as FILES
from bench.download import probing_file
from bench.utils.errors import UserError

_SPLITS = {"tr": "train", "va": "dev", "te": "test"}
Labelled = list[tuple[str, str]]  # sentences and names of labels


def read(task: str, data: Path) -> LabelledTask:
    """Read one task from the folder that holds `downstream/`, with `probing/` or
    `probing-xprobe-en/` beside it, checked against its manifest.

    Raises:
        UserError: a file that is missing, truncated, wrongly encoded or of another size than in the
            manifest; a line without sentence or label; a label that the training part lacks.
    """
    counts = sizes("probing", task, data)
    if is_probing(task):
        own = Path(data) / "probing" / f"{task.removeprefix(OWN_PROBING)}.txt"
        path = probing_file(FILES[task], data) if task in FILES else own
        protocol, files = SPLIT, dict.fromkeys(_SPLITS.values(), path)
        parts = _read_senteval(path, even=task not in FILES)
    else:
        folder = Path(data) / "probing-xprobe-en" / FILES[task.removeprefix("xprobe-")]
        protocol = KFOLD if "train" in counts else NESTED
        names = {"train": "va", "test": "te"} if protocol == KFOLD else {"all": "te"}
        files = {split: folder / f"{name}.txt.gz" for split, name in names.items()}
        parts = {split: _read_xprobe(path) for split, path in files.items()}
    first = next(iter(files))
    # SentEval numbers the sorted training labels.
    labels = sorted({label for _, label in parts[first]})
    numbers = {label: number for number, label in enumerate(labels)}
    for split, path in files.items():
        check_count(path, len(parts[split]), counts.get(split, 0), f"{split} samples")
        for _, label in parts[split]:
            if label not in numbers:
                raise UserError(
                    f"{path}: {task} has label {label!r} in {split} but not in training; "
                    "fix it or fetch it again"
                )
    numbered = {
        split: [([text], numbers[label]) for text, label in part] for split, part in parts.items()
    }
    return make_task(task, protocol, max(len(labels), 2), files[first], numbered)


def _read_senteval(path: Path, even: bool) -> dict[str, Labelled]:
    """Read sentences and labels by split. If `even`, all lines must have equally many fields."""
    parts: dict[str, Labelled] = {split: [] for split in _SPLITS.values()}
    for number, row in rows(path, 3, even=even):
        if row[0] not in _SPLITS:
            raise bad(path, number, f"split {row[0][:20]!r} is not tr, va or te")
        parts[_SPLITS[row[0]]].append(_row(path, number, row[-1], row[1]))
    return parts


def _read_xprobe(path: Path) -> Labelled:
    return [_row(path, number, row[0], row[-1]) for number, row in rows(path, 2)]


def _row(path: Path, number: int, sentence: str, label: str) -> tuple[str, str]:
    text, label = clean(sentence), label.strip()
    if not text or not label:
        raise bad(path, number, "no label" if text else "no sentence")
    return text, label
