"""The table of the smoke suite in docs/world.md: the order of methods is that on real text."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean, stdev

import pytest

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
    # Not by the luck of a seed.
    simcse = CELLS[CONTRASTIVE[0]]["Avg spearman"]
    assert sum(value > between for value in simcse) >= 0.9 * len(simcse)


def test_the_readme_is_right_about_the_first_seed() -> None:
    """Which is the only one of most rows in the table of `make smoke`."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    told = re.search(r"released settings of ([^.]*?)\s+are\s+higher still", text)
    assert told
    assert re.findall(r"[A-Z][-\w]+", told[1]) == ["GS-InfoNCE", "IS-CSE", "SSCL", "ESimCSE"]
    between = max(CELLS[run]["Avg spearman"][0] for run in [BAGS[1], *MAPPED])
    for run in CONTRASTIVE[:5]:
        assert CELLS[run]["Avg spearman"][0] > between + 5, run


def test_the_notes_name_every_trained_row_below_the_raw_vectors() -> None:
    """By its text, which may lack the setting."""
    notes = DOCUMENT.partition("\nNotes:\n")[2]
    trained = [run for run, cells in CELLS.items() if len(next(iter(cells.values()))) > 1]
    own = [run for run in trained if run.endswith(" on toy-bert")]
    low = [run for run in own if mean(run) < max(map(mean, RAW))]
    assert low
    for run in low:
        text = run.removesuffix(" on toy-bert")
        assert {f"`{text}`", f"`{text.partition('@')[0]}`"} & set(re.findall("`[^`]*`", notes)), run
        assert mean(run) > mean(RAW[0]), run


def test_training_loses_nothing_on_transfer() -> None:
    for run in CONTRASTIVE:
        assert transfer(run) > transfer(RAW[0]) - 1, run


@pytest.mark.parametrize("backbone", ["toy-bert", "toy-roberta"])
def test_no_task_is_at_chance_or_at_its_ceiling(backbone: str) -> None:
    """Checks SimCSE; `Avg` counts as a task."""
    for cell, values in CELLS[f"simcse@official on {backbone}"].items():
        task, metric = cell.rsplit(" ", 1)
        if metric == "spearman":
            assert 20 < fmean(values) < 90, cell
        elif task in ("MR", "CR", "SUBJ", "MPQA", "SST2"):
            assert 60 < fmean(values) < 97, cell


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
