"""The table of the smoke suite in docs/world.md: the order of methods is that on real text."""

from pathlib import Path
from statistics import fmean

from bench.utils.files import read_json

ROOT = Path(__file__).resolve().parents[2]
CELLS = read_json(ROOT / "results" / "reference" / "smoke.json")["cells"]

BAGS = ["word-overlap@paper on none", "glove@official on toy-glove"]
RAW = [f"untrained[pooler={pooler}]@paper on toy-bert" for pooler in ("cls_before_pooler", "avg")]
RAW += ["untrained[pooler=avg_first_last]@paper on toy-bert"]
MAPPED = [name for name in CELLS if "+whitening" in name or "+flow" in name]
CONTRASTIVE = ["simcse", "gs-infonce", "is-cse", "sscl", "esimcse", "dclr[epochs=1]"]
CONTRASTIVE = [f"{name}@official on toy-bert" for name in CONTRASTIVE]
TRANSFER = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC")


def mean(run: str, cell: str = "Avg spearman") -> float:
    return fmean(CELLS[run][cell])


def transfer(run: str) -> float:
    return fmean(mean(run, f"{task} accuracy") for task in TRANSFER)


def test_word_overlap_and_raw_vectors_are_at_the_bottom():
    bottom = max(map(mean, [BAGS[0], *RAW]))
    assert bottom < min(map(mean, [BAGS[1], *MAPPED])) - 5


def test_contrastive_methods_are_at_the_top():
    between = max(map(mean, [BAGS[1], *MAPPED]))
    for run in CONTRASTIVE:
        assert mean(run) > between, run


def test_training_loses_nothing_on_transfer():
    for run in CONTRASTIVE:
        assert transfer(run) > transfer(RAW[0]) - 1, run
