"""The papers' numbers, and which run each of them is compared with.

One CSV per printed table (long form, one row per number), `recipes.yaml` for the map from printed labels to runs, and
`seeds.csv`: 50 public runs of SimCSE on each of four backbones (hppRC/simple-simcse@f9786c9, MIT), of which only the
spread is used. `curves.csv`: dev scores from the training logs that the authors of GS-InfoNCE and ESimCSE released
(caskcsg/sentemb@5eeec55).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from bench.utils.errors import UserError, did_you_mean

FOLDER = Path(__file__).parent

COLUMNS = ["source", "table", "method", "backbone", "variant", "task", "split", "metric", "value", "quoted_from"]
LABEL = ["source", "table", "method", "backbone", "variant"]  # what recipes.yaml may match on
RECIPE = ["run", "minus", "suite_backbone", "suite_split", "reason"]  # what it may say of the rows
# What a printed metric is measured by: one of ours, and its sign. The other metrics are hyper-parameters, which measure
# nothing. "Drops" and "increases" are said of uniformity as a virtue, which is a loss: a drop is a loss that rises.
MEASURES = {
    "spearman": ("spearman", 1),
    "accuracy": ("accuracy", 1),
    "spearman_delta": ("spearman", 1),
    "uniformity_drop": ("uniformity", 1),
    "uniformity_gain": ("uniformity", -1),
    "best_step": ("best_step", 1),
}

SOURCES = {
    "gs-infonce-v1": "GS-InfoNCE, first version (arXiv 2109.04321v1)",
    "gs-infonce-v2": "GS-InfoNCE, second version (arXiv 2109.04321v2)",
    "is-cse": "IS-CSE (arXiv 2305.07424)",
    "sscl": "SSCL (arXiv 2305.06154)",
    "simcse-zh-noise": "Chinese reproduction of SimCSE with discrete noise",
}


def _files() -> list[Path]:
    """The files of printed tables, which are called after their paper."""
    return sorted(path for path in FOLDER.glob("*.csv") if path.stem.partition("_")[0] in SOURCES)


@cache
def _printed() -> pd.DataFrame:
    tables = [pd.read_csv(path, dtype=dict.fromkeys(COLUMNS, str), keep_default_na=False) for path in _files()]
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

    A `run` may stand beside `minus`, the run whose scores are taken from its own, and beside `suite_backbone` and
    `suite_split`, what the suite has where print names these otherwise.

    Raises:
        UserError: an entry has an unknown field or reason, not exactly one of `run` and `reason`, or `minus` alone.
    """
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    for entry in content["entries"]:
        known = [*LABEL, *RECIPE]
        for field in set(entry) - set(known):
            raise UserError(f"{path.name}: {field!r} is no field{did_you_mean(field, known)}")
        if ("run" in entry) == ("reason" in entry):
            raise UserError(f"{path.name}: {entry} needs either a run or a reason")
        if "minus" in entry and "run" not in entry:
            raise UserError(f"{path.name}: {entry} needs a run that 'minus' is taken from")
        if entry.get("reason", content["reasons"][0]) not in content["reasons"]:
            raise UserError(
                f"{path.name}: {entry['reason']!r} is no reason{did_you_mean(entry['reason'], content['reasons'])}"
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
        recipes.append(label | {name: found[0].get(name, "") for name in RECIPE})
    return numbers.merge(pd.DataFrame(recipes), on=LABEL, how="left", validate="many_to_one")


def mapped() -> pd.DataFrame:
    """`printed()` with the columns `RECIPE`: `run` (as in `simcse@official`), or else `reason` (why there is none).

    `minus` is the run whose scores are subtracted, for printed differences; `suite_backbone` and `suite_split` are what
    the suite has where print names these otherwise. All are empty where there is nothing to say.

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


@cache
def _curves() -> pd.DataFrame:
    return pd.read_csv(FOLDER / "curves.csv")


def curves() -> pd.DataFrame:
    """The released training logs: one row for each step, method, backbone and dev set, `value` in points.

    Columns: `source`, `method`, `backbone`, `step`, `task`, `split`, `metric`, `value`.
    """
    return _curves().copy()
