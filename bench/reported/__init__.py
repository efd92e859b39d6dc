"""The papers' numbers, and the run that each of them is compared with.

Files:
    *.csv named after a paper: one per printed table, in long form, one row per number.
    names.yaml: the names of rows as printed.
    recipes.yaml: the mapping from printed labels to runs.
    figures.yaml: the papers' figures; bench/report/figures/measured.py reads it.
    claims.yaml: what papers say of their tables in words; bench/reported/claims.py reads it.
    findings.yaml: the kinds of finding of the audit, with their sentences.
    seeds.csv: 50 public runs of SimCSE on each of four backbones (hppRC/simple-simcse@f9786c9,
        MIT). Only their spread is used.
    curves.csv: dev scores from the training logs that the authors of GS-InfoNCE and ESimCSE
        released (caskcsg/sentemb@5eeec55).
    quoted_<board>.csv: scores of methods of other papers, each with the place it is quoted from.
        They are shown beside ours and never judged: `quoted` describes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
import yaml
from pydantic import BeforeValidator, ValidationError, model_validator

from bench.datasets.metrics import AGGREGATIONS
from bench.datasets.tasks import WITH_SUBSETS
from bench.utils.errors import UserError, did_you_mean
from bench.utils.validation import Model, explain

FOLDER = Path(__file__).parent

# The columns that recipes.yaml matches on, those of all tables, and those that recipes.yaml adds.
LABEL = ["source", "table", "method", "backbone", "variant"]
COLUMNS = [*LABEL, "task", "split", "metric", "value", "quoted_from"]
_PLACE = [*LABEL, "task", "split", "metric"]  # no two numbers have the same
RECIPE = ["run", "minus", "suite_backbone", "suite_split", "checkpoint", "reason"]
RECIPE += ["deviation", "note", "aggregation"]

SOURCES = {
    "gs-infonce-v1": "GS-InfoNCE, first version (arXiv 2109.04321v1)",
    "gs-infonce-v2": "GS-InfoNCE, second version (arXiv 2109.04321v2)",
    "is-cse": "IS-CSE (arXiv 2305.07424)",
    "sscl": "SSCL (arXiv 2305.06154)",
    "simcse-zh-noise": "Chinese reproduction of SimCSE with discrete noise",
}


def paper_name(source: str) -> str:
    """A paper's short name, without its arXiv number."""
    return SOURCES[source].partition(" (")[0]


def _once(read: Callable[[], pd.DataFrame]) -> Callable[[], pd.DataFrame]:
    """Read once; each caller gets a copy of its own."""
    cached = cache(read)
    return wraps(read)(lambda: cached().copy())


@_once
def _texts() -> pd.DataFrame:
    """The columns `COLUMNS` of all printed tables, as texts."""
    # The files of printed tables have names that start with their paper.
    paths = [path for path in FOLDER.glob("*.csv") if path.stem.partition("_")[0] in SOURCES]
    tables = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in sorted(paths)]
    return pd.concat(tables, ignore_index=True)[COLUMNS]


def printed() -> pd.DataFrame:
    """Every number of the papers, in the order of print, one per row: the columns `COLUMNS`, of
    which `value` is a float (scores in points) and the others are texts."""
    return _texts().astype({"value": float})


@cache
def _text_by_place() -> dict[tuple[str, ...], str]:
    texts = _texts()
    places = texts[_PLACE].itertuples(index=False, name=None)
    return dict(zip(places, texts["value"], strict=True))


def printed_text(number: Any) -> str:
    """A number (a row of `printed`, or of what is made from it) with the decimals that are printed,
    such as `46.7`."""
    return _text_by_place()[tuple(getattr(number, name) for name in _PLACE)]


@cache
def printed_names() -> dict[tuple[str, ...], str]:
    """The names of rows as printed, by `LABEL`; not of tables whose labels are enough."""
    names: dict[tuple[str, ...], str] = {}
    content = yaml.safe_load((FOLDER / "names.yaml").read_text(encoding="utf-8"))
    rows = printed()[LABEL].drop_duplicates()
    for (source, table), labels in rows.groupby(["source", "table"], sort=False):
        listed = content.get(source, {}).get(table)
        if listed:
            names |= zip(labels.itertuples(index=False, name=None), listed, strict=True)
    return names


Texts = Annotated[
    list[str], BeforeValidator(lambda texts: [texts] if isinstance(texts, str) else texts)
]


class Recipe(Model):
    """An entry of recipes.yaml: the run that printed rows are compared with, or why there is
    none."""

    # The rows: those that agree with all of these fields, with one of its values each.
    source: Texts = []
    table: Texts = []
    method: Texts = []
    backbone: Texts = []
    variant: Texts = []
    run: str = ""  # such as simcse@official
    minus: str = ""  # the run whose scores are subtracted
    suite_backbone: str = ""  # where it has another name in a suite than in print
    suite_split: str = ""
    checkpoint: dict[str, str] = {}  # printed backbone -> run of the published checkpoint
    reason: str = ""  # why there is no run
    deviation: str = ""  # a clause: why the run does not measure what is printed
    note: str = ""  # a sentence for the caption of the table
    # How print joins the subsets of a task, if not by one correlation over all pairs.
    aggregation: Literal["", *AGGREGATIONS] = ""  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _run_or_reason(self) -> Recipe:
        if bool(self.run) == bool(self.reason):
            raise ValueError("an entry must have either 'run' or 'reason'")
        for field in ("minus", "checkpoint", "deviation", "aggregation"):
            if getattr(self, field) and not self.run:
                raise ValueError(f"it has '{field}' without 'run'")
        return self

    def matches(self, row: Mapping[str, str]) -> bool:
        return all(row[name] in (getattr(self, name) or [row[name]]) for name in LABEL)


class _Recipes(Model):
    reasons: list[str]
    checkpoints: list[dict[str, str]] = []  # anchors of the entries
    entries: list[Recipe]

    @model_validator(mode="after")
    def _known_reasons(self) -> _Recipes:
        for reason in {entry.reason for entry in self.entries} - {"", *self.reasons}:
            raise ValueError(f"unknown reason '{reason}'{did_you_mean(reason, self.reasons)}")
        return self


def load_recipes(path: Path = FOLDER / "recipes.yaml") -> list[Recipe]:
    """The entries of recipes.yaml."""
    try:
        return _Recipes.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))).entries
    except ValidationError as error:
        raise UserError(f"{path.name}: {explain(error)}") from None


@_once
def mapped() -> pd.DataFrame:
    """`printed()` with the run that each number is compared with.

    Returns:
        The columns `COLUMNS` and `RECIPE`, the fields of its `Recipe`; `checkpoint` is that of the
        row's backbone, `aggregation` is empty for tasks without subsets.
    """
    numbers, entries = printed(), load_recipes()
    recipes = []
    for label in numbers[LABEL].drop_duplicates().to_dict("records"):
        matches = [entry for entry in entries if entry.matches(label)]
        if len(matches) != 1:
            count = f"{len(matches)} entries match {label}"
            raise UserError(f"recipes.yaml: {count}; exactly one must match")
        recipe = {name: getattr(matches[0], name) for name in RECIPE}
        recipe["checkpoint"] = matches[0].checkpoint.get(label["backbone"], "")
        recipes.append(label | recipe)
    mapped_numbers = numbers.merge(
        pd.DataFrame(recipes), on=LABEL, how="left", validate="many_to_one"
    )
    mapped_numbers.loc[~mapped_numbers["task"].isin([*WITH_SUBSETS, "Avg"]), "aggregation"] = ""
    return mapped_numbers


@cache
def _spreads() -> dict[tuple[str, str, str], float]:
    seeds = pd.read_csv(FOLDER / "seeds.csv").query("metric == 'spearman'")
    return seeds.groupby(["backbone", "task", "split"])["value"].std(ddof=1).to_dict()


def prior_sd(backbone: str, task: str, split: str = "test") -> float | None:
    """Standard deviation over 50 public seeds of SimCSE, in points; None if unknown.

    Only the spread of seeds.csv is used: its protocol differs for the cased backbones, so its means
    are no reference.
    """
    return _spreads().get((backbone, task, split))


@_once
def curves() -> pd.DataFrame:
    """The released training logs, one row per step, method, backbone and dev set; `value` is in
    points."""
    return pd.read_csv(FOLDER / "curves.csv")


def quoted(board: str) -> pd.DataFrame:
    """Scores of methods of papers outside `SOURCES`, one row per method and backbone.

    They are no part of `printed`, so nothing judges or counts them. Most boards have no rows.

    Returns:
        Texts: `name` as printed; `run`, ours of the same method (such as `mixcse@official`), or
        empty; `backbone`; `quoted_from`, the place that was read, such as
        repository@commit:file:line; and a column per task and `Avg` in points as printed
        (`71.71 ± 4.04`), empty where nothing is printed.
    """
    path = FOLDER / f"quoted_{board}.csv"
    if not path.exists():
        return pd.DataFrame(columns=["name", "run", "backbone", "quoted_from"])
    return pd.read_csv(path, dtype=str, keep_default_na=False)
