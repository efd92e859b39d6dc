"""The table of the smoke suite in docs/world.md: the order of methods is that on real text."""

from pathlib import Path
from statistics import fmean, stdev

from bench.utils.files import read_json

ROOT = Path(__file__).resolve().parents[2]
CELLS = read_json(ROOT / "results" / "reference" / "smoke.json")["cells"]
DOCUMENT = (ROOT / "docs" / "world.md").read_text(encoding="utf-8")

BAGS = ["word-overlap@paper on none", "glove@official on toy-glove"]
RAW = [f"untrained[pooler={pooler}]@paper on toy-bert" for pooler in ("cls_before_pooler", "avg")]
RAW += ["untrained[pooler=avg_first_last]@paper on toy-bert"]
MAPPED = [name for name in CELLS if "+whitening" in name or "+flow" in name]
CONTRASTIVE = ["simcse", "gs-infonce", "is-cse", "sscl", "esimcse", "dclr[epochs=1]"]
CONTRASTIVE = [f"{name}@official on toy-bert" for name in CONTRASTIVE]
BACKBONES = ["none", "toy-glove", "toy-bert", "toy-roberta", "toy-chinese"]
TRANSFER = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC")


def mean(run: str, cell: str = "Avg spearman") -> float:
    return fmean(CELLS[run][cell])


def transfer(run: str) -> float:
    return fmean(mean(run, f"{task} accuracy") for task in TRANSFER)


def test_word_overlap_and_raw_vectors_are_at_the_bottom() -> None:
    bottom = max(map(mean, [BAGS[0], *RAW]))
    assert bottom < min(map(mean, [BAGS[1], *MAPPED])) - 5


def test_contrastive_methods_are_at_the_top() -> None:
    between = max(map(mean, [BAGS[1], *MAPPED]))
    for run in CONTRASTIVE:
        assert mean(run) > between, run


def test_training_loses_nothing_on_transfer() -> None:
    for run in CONTRASTIVE:
        assert transfer(run) > transfer(RAW[0]) - 1, run


def shown(values: list[float]) -> str:
    return f"{fmean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def tables() -> str:
    """STS averages of all runs and accuracies of some, as in docs/world.md."""
    rows = []
    for name, cells in CELLS.items():
        run, _, backbone = name.rpartition(" on ")
        average = cells.get("Avg spearman") or cells["CNSD-STS-B spearman"]
        accuracy = shown(cells["Avg accuracy"]) if "Avg accuracy" in cells else ""
        line = row([backbone, f"`{run}`", shown(average), accuracy])
        rows.append((BACKBONES.index(backbone), -fmean(average), line))
    lines = [row(["backbone", "run", "STS", "transfer"]), "|---" * 4 + "|"]
    lines += [line for *_, line in sorted(rows)]
    columns = [BAGS[0], *RAW[:2], CONTRASTIVE[0]]
    heads = [f"`{name.split(' on ')[0]}`" for name in columns]
    lines += ["", row(["task", *heads]), "|---" * 5 + "|"]
    for cell in CELLS[CONTRASTIVE[0]]:
        if "accuracy" in cell:
            task = cell.replace(" accuracy_mlp", ", network").replace(" accuracy", "")
            lines.append(row([task, *(shown(CELLS[name][cell]) for name in columns)]))
    return "\n".join(lines)


def test_the_document_has_these_numbers() -> None:
    """To update docs/world.md: `python -m tests.world.test_world_table`."""
    assert tables() in DOCUMENT


if __name__ == "__main__":
    print(tables())
