"""examples/: the method, the suite with an STS set of one's own, and the notebook, each run."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
import torch

from bench.datasets import sts
from bench.results.records import read_scores
from tools.world.data import Source, sample_set

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NOTEBOOK = json.loads((EXAMPLES / "results.ipynb").read_text(encoding="utf-8"))
TASK = "sts:short"


@pytest.fixture
def method(monkeypatch) -> type:
    monkeypatch.setenv("BENCH_METHODS", str(EXAMPLES / "spread_out.py"))
    from bench.registry.methods import method_class

    return method_class("spread-out")


@pytest.mark.parametrize("strength", [0.0, 0.5])
def test_the_methods_term_is_its_formula(method, strength):
    """As plain loops; a wrong sign, a missing 1/d or the own pairs would differ. 0 is SimCSE."""
    hyper = method.Hyper(strength=strength)
    draw = np.random.default_rng(0)
    left, right = (draw.normal(0.3, 1, (5, 3)) for _ in range(2))
    made = method(hyper, None)
    found = made.terms(torch.from_numpy(left), torch.from_numpy(right), 0.05, None)
    if not strength:
        assert found == []
        return
    pairs = [(a, b) for i, a in enumerate(left) for j, b in enumerate(right) if i != j]
    cosines = [a @ b / np.sqrt((a @ a) * (b @ b)) for a, b in pairs]
    excess = sum(cosine**2 for cosine in cosines) / len(cosines) - 1 / 3
    expected = (sum(cosines) / len(cosines)) ** 2 + max(0, excess)
    ((weight, term),) = found
    assert weight == strength
    assert excess > 0
    assert float(term) == pytest.approx(expected, rel=1e-12)


def test_the_set_is_drawn_from_the_embedded_world():
    """As examples/README.md says, so no gold score is made up."""
    sizes = json.loads((EXAMPLES / "short_sts" / "manifest.json").read_text())["sts"][TASK]
    source = Source("short", 0, detail=0.2, padding=0.2, structures=("plain",))
    drawn = iter(sample_set(random.Random("examples/short_sts"), source, sum(sizes.values())))
    for split, size in sizes.items():
        read = sts.read(TASK, EXAMPLES / "short_sts", split)
        (subset,) = read.subsets
        expected = [next(drawn) for _ in range(size)]
        assert [*zip(subset.first, subset.second, strict=True)] == [(*p.lower(),) for p in expected]
        assert subset.gold == pytest.approx([pair.gold for pair in expected], abs=0.005)


def test_the_notebook_is_one_and_holds_no_outputs():
    """Stored outputs would be numbers that nothing renews."""
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.from_dict(NOTEBOOK))
    cells = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)


@pytest.mark.slow
def test_the_suite_and_the_notebook_do_what_they_say(tmp_path):
    """In a copy of the folder, with the notebook's cells run one after the other."""
    (tmp_path / "examples").mkdir()
    for name in ("spread_out.py", "suite.yaml", "short_sts"):
        (tmp_path / "examples" / name).symlink_to(EXAMPLES / name)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("BENCH_")}
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    options = {"env": environment, "capture_output": True, "text": True}
    (told,) = re.findall(r"`snakemake (.+?)`", "".join(NOTEBOOK["cells"][0]["source"]))
    words = ["-m", "snakemake", "--snakefile", ROOT / "Snakefile", *told.split()]
    words += ["--until", "render"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, **options)
    assert done.returncode == 0, done.stderr

    cells = ["".join(c["source"]) for c in NOTEBOOK["cells"] if c["cell_type"] == "code"]
    shown = "import json; print(json.dumps([means.to_dict('index'), compared.to_dict('records')]))"
    script = "\n".join([*cells, shown])
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path / "examples", **options)
    assert done.returncode == 0, done.stderr
    means, compared = json.loads(done.stdout)

    scores: dict[str, list[float]] = {}
    for path in sorted((tmp_path / "results" / "example" / "scores").iterdir()):
        (record,) = [row for row in read_scores(path)[1] if row["split"] == "test"]
        scores.setdefault(path.name.partition("_")[0], []).append(record["value"])
    names = {"word-overlap": "Word overlap", "simcse": "SimCSE", "spread-out": "Spread-out"}
    assert {names[name] for name in scores} == set(means)
    for name, values in scores.items():
        assert means[names[name]]["mean"] == pytest.approx(fmean(values))
        assert means[names[name]]["count"] == len(values)
    assert means["SimCSE"]["std"] == pytest.approx(stdev(scores["simcse"]))
    (row,) = compared
    assert row["difference"] == pytest.approx(fmean(scores["spread-out"]) - fmean(scores["simcse"]))
    table = (tmp_path / "results" / "example" / "tables" / "own_sts.md").read_text()
    assert f"{means['Spread-out']['mean']:.2f} ±" in table
