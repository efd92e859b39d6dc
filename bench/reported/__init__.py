"""The papers' numbers, and which run each of them is compared with.

One CSV per printed table (long form, one row per number), `recipes.yaml` for the map from printed labels to runs, and
`seeds.csv`: 50 public runs of SimCSE on each of four backbones (hppRC/simple-simcse@f9786c9, MIT), of which only the
spread is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from bench.errors import UserError, nearest

FOLDER = Path(__file__).parent

COLUMNS = ["source", "table", "method", "backbone", "variant", "task", "split", "metric", "value", "quoted_from"]
LABEL = ["source", "table", "method", "backbone", "variant"]  # what recipes.yaml may match on
SCORES = ("spearman", "accuracy")  # the other metrics are hyper-parameters, differences and analyses

SOURCES = {
    "gs-infonce-v1": "GS-InfoNCE, first version (arXiv 2109.04321v1)",
    "gs-infonce-v2": "GS-InfoNCE, second version (arXiv 2109.04321v2)",
    "is-cse": "IS-CSE (arXiv 2305.07424)",
    "sscl": "SSCL (arXiv 2305.06154)",
    "simcse-zh-noise": "Chinese reproduction of SimCSE with discrete noise",
}


@cache
def _printed() -> pd.DataFrame:
    files = sorted(path for path in FOLDER.glob("*.csv") if path.name != "seeds.csv")
    tables = [pd.read_csv(path, dtype=dict.fromkeys(COLUMNS, str), keep_default_na=False) for path in files]
    numbers = pd.concat(tables, ignore_index=True)[COLUMNS]
    return numbers.astype({"value": float})


def printed() -> pd.DataFrame:
    """Every number of the papers, in the order of print: one row each, with the columns `COLUMNS`.

    `value` is a float as printed (scores in points), every other column text, empty where nothing is printed.
    """
    return _printed().copy()


def _matches(entry: Mapping[str, Any], row: Mapping[str, str]) -> bool:
    for name in LABEL:
        wanted = entry.get(name)
        if wanted is not None and row[name] not in (wanted if isinstance(wanted, list) else [wanted]):
            return False
    return True


def load_recipes(path: Path = FOLDER / "recipes.yaml") -> list[dict[str, Any]]:
    """The entries of `recipes.yaml`: each matches printed rows by the names in `LABEL` and has a `run` or a `reason`.

    A `run` may stand beside `suite_backbone`, the suite's backbone, where print names it otherwise.

    Raises:
        UserError: an entry has an unknown field or reason, or not exactly one of `run` and `reason`.
    """
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    for entry in content["entries"]:
        known = [*LABEL, "run", "suite_backbone", "reason"]
        for field in set(entry) - set(known):
            raise UserError(f"{path.name}: {field!r} is no field{nearest(field, known)}")
        if ("run" in entry) == ("reason" in entry):
            raise UserError(f"{path.name}: {entry} needs either a run or a reason")
        if entry.get("reason", content["reasons"][0]) not in content["reasons"]:
            raise UserError(
                f"{path.name}: {entry['reason']!r} is no reason{nearest(entry['reason'], content['reasons'])}"
            )
    return content["entries"]


@cache
def _mapped() -> pd.DataFrame:
    numbers = _printed()
    entries = load_recipes()
    labels = numbers[LABEL].drop_duplicates().to_dict("records")
    recipes = []
    for label in labels:
        found = [entry for entry in entries if _matches(entry, label)]
        if len(found) != 1:
            raise UserError(f"recipes.yaml: {len(found)} entries match {label}; let exactly one match")
        recipes.append(label | {name: found[0].get(name, "") for name in ("run", "suite_backbone", "reason")})
    return numbers.merge(pd.DataFrame(recipes), on=LABEL, how="left", validate="many_to_one")


def mapped() -> pd.DataFrame:
    """`printed()` with three more columns: `run` (as in `simcse@official`), or else `reason` (why there is none).

    `suite_backbone` is the backbone's name in the suite where print names it otherwise, else empty.

    Raises:
        UserError: a printed row matches no entry of `recipes.yaml`, or several.
    """
    return _mapped().copy()


@cache
def _spreads() -> dict[tuple[str, str, str], float]:
    seeds = pd.read_csv(FOLDER / "seeds.csv")
    spread = seeds[seeds.metric == "spearman"].groupby(["backbone", "task", "split"])["value"].std(ddof=1)
    return {key: float(value) for key, value in spread.items()}


def prior_sd(backbone: str, task: str, split: str = "test") -> float | None:
    """Standard deviation over 50 public seeds of SimCSE, in points; None where there is none.

    Only the spread: that file's protocol differs for the cased backbones, so its means are no reference.
    """
    return _spreads().get((backbone, task, split))
