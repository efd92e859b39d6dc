"""The papers' numbers (`bench.reported.number`), and what is public beside them.

Files:
    *.csv named after a paper: one per printed table, in long form, one row per number.
    papers.yaml: the papers, each with its name, title and year.
    names.yaml: the names of rows as printed.
    mapping.yaml: the mapping from printed labels to runs.
    figures.yaml: the papers' figures; `bench.reported.figures` reads it.
    claims.yaml: what papers say of their tables in words; the audit reads it.
    findings.yaml: the kinds of finding of the audit, with their sentences.
    seeds.csv: 50 public runs of SimCSE on each of four backbones (hppRC/simple-simcse@f9786c9,
        MIT). Only their standard deviation is used.
    curves.csv: dev scores from the training logs that the authors of GS-InfoNCE and ESimCSE
        released (caskcsg/sentemb@5eeec55).
    quoted_<leaderboard>.csv: scores of methods of other papers, each with the place that
        quotes them. They stand beside our scores and are never judged: `quoted` describes them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

FOLDER = Path(__file__).parent

# The columns that mapping.yaml matches on, and the columns of all tables.
ROW_COLUMNS = ["source", "table", "method", "backbone", "variant"]
COLUMNS = [*ROW_COLUMNS, "task", "split", "metric", "value", "quoted_from"]


def paper_name(source: str) -> str:
    """A paper's short name, without its arXiv number; of a suite's own source the source."""
    return SOURCES.get(source, source).partition(" (")[0]


def read_yaml(path: Path) -> Any:
    """The content of a YAML file; libyaml, where it is, reads ten times as fast."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return loader(path.read_text(encoding="utf-8")).get_single_data()


PAPERS = read_yaml(FOLDER / "papers.yaml")
SOURCES = {source: paper["name"] for source, paper in PAPERS.items()}


@cache
def _deviations() -> dict[tuple[str, str, str], float]:
    seeds = pd.read_csv(FOLDER / "seeds.csv").query("metric == 'spearman'")
    return seeds.groupby(["backbone", "task", "split"])["value"].std(ddof=1).to_dict()


def public_sd(backbone: str, task: str, split: str = "test") -> float | None:
    """Standard deviation over 50 public seeds of SimCSE, in points; None if unknown.

    The means of seeds.csv are no reference: its protocol differs for the cased backbones.
    """
    return _deviations().get((backbone, task, split))


@cache
def curves() -> pd.DataFrame:
    """The released training logs, one row per step, method, backbone and dev set; `value` is in
    points."""
    return pd.read_csv(FOLDER / "curves.csv")


def quoted(leaderboard: str) -> pd.DataFrame:
    """Scores of methods of papers outside `SOURCES`, one row per method and backbone.

    They are no part of `numbers`, so nothing judges or counts them. Most leaderboards have no rows.

    Returns:
        Texts: `name` as printed; `run`, ours of the same method (such as `mixcse@official`), or
        empty; `backbone`; `quoted_from`, the place that was read, such as
        repository@commit:file:line; and a column per task and `Avg` in points as printed
        (`71.71 ± 4.04`), empty where nothing is printed.
    """
    path = FOLDER / f"quoted_{leaderboard}.csv"
    if not path.exists():
        return pd.DataFrame(columns=["name", "run", "backbone", "quoted_from"])
    return pd.read_csv(path, dtype=str, keep_default_na=False)
