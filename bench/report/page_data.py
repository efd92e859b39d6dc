"""The contents of a suite's page: leaderboards, printed numbers with ours, and the runs behind each
number.

`context` returns what the template `page.html` is filled with; bench/report/page.py writes the
files. The page's script
reads `data`: `runs`, `origins` (distinct provenances), and `entries`, one per number that can be
opened. Table cells refer to entries by index, entries refer to runs by index, and runs refer to
origins by index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pandas as pd

from bench.comparison.reproduction import cells, select
from bench.comparison.verdict import VERDICT_MEANINGS, VERDICT_SYMBOLS
from bench.datasets.tasks import TASK_ORDER, average_of_all
from bench.report.comparison_table import comparison_stem
from bench.report.coverage import coverage, without_recipe
from bench.report.figures import board_stem, paper_stems
from bench.report.tables import (
    METRICS,
    leaderboards,
    origin,
    printed_tables,
    row_name,
    score_text,
    seeds_text,
)
from bench.reported import MEASURES, SOURCES, mapped
from bench.reported.audit import FINDING_KINDS, findings
from bench.results.suite_results import RunResults, SuiteResults

CURVE = {
    "dev": "Selection score (Spearman x 100)",
    "loss": "Training loss",
    "alignment": "Alignment",
    "uniformity": "Uniformity",
}
CURVE_POINTS = 60  # as many as a chart 280 pixels wide can show
SCORE_DIGITS = 4  # decimals in the page's data; the tables show two

Json = dict[str, Any]
Facts = list[tuple[str, str]]  # (title, text)


def context(suite: SuiteResults, scores: str) -> Json:
    """What the page shows of a suite, apart from its figures.

    Args:
        suite: the suite.
        scores: address of the folder of scores, relative to the page.
    """
    all_cells = cells(suite)
    entries: list[Json] = []
    origins: list[Facts] = []
    # `cells` has the rows of `mapped` that measure something, in the same order.
    recipes = mapped().query("metric in @MEASURES")[["suite_backbone", "suite_split"]]
    with_recipes = all_cells.join(recipes.reset_index(drop=True))
    boards = [_board(suite, name, board, entries) for name, board in leaderboards(suite).items()]
    sections = [
        _section(suite, stem, table, entries)
        for stem, table in printed_tables(with_recipes).items()
    ]
    runs = [_run(run, origins, scores) for run in suite.runs]
    audit = findings()
    return {
        "suite": suite,
        "boards": boards,
        "sections": sorted(sections, key=lambda section: not section["measured"]),
        "sources": {source: _paper(source) for source in all_cells["source"].unique()},
        "verdicts": Counter(all_cells["verdict"]),
        "symbols": VERDICT_SYMBOLS,
        "meanings": VERDICT_MEANINGS,
        "titles": paper_stems(suite),
        "coverage": _coverage(coverage(suite, all_cells)),
        "without_recipe": without_recipe().to_dict("records"),
        "findings": {
            title: [one for one in audit if one.kind == kind]
            for kind, title in FINDING_KINDS.items()
        },
        "analyses": _analyses(suite),
        "provenance": _provenance(suite),
        "paper": _paper,
        "data": {
            "runs": runs,
            "origins": origins,
            "entries": entries,
            "curve": list(CURVE.items()),
        },
    }


def _paper(source: str) -> str:
    """A paper's short name, without its arXiv number."""
    return SOURCES[source].partition(" (")[0]


# --- Runs ---


def _text(value: Any) -> str:
    """A value of a provenance as text; empty and false fields are left out."""
    if isinstance(value, Mapping):
        return ", ".join(
            f"{key} {_text(item)}"
            for key, item in value.items()
            if item is not None and item is not False
        )
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(_text, value))
    return str(value)


def _origin(provenance: Mapping[str, Any]) -> Facts:
    """The provenance of scores, as titled texts."""
    fields = {
        "Code": provenance.get("code"),
        "Data": provenance.get("data"),
        "Corpora": provenance.get("corpora") or provenance.get("corpus"),
        "Device": provenance.get("device"),
        "Arithmetic": provenance.get("arithmetic"),
        "Libraries": provenance.get("versions"),
    }
    return [(title, _text(value)) for title, value in fields.items() if value]


def curve_columns(points: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """A training curve as columns, thinned evenly to `CURVE_POINTS`; the first and the last point
    are kept."""
    last = len(points) - 1
    indices = sorted({round(index * last / (CURVE_POINTS - 1)) for index in range(CURVE_POINTS)})
    columns = {"step": [points[index]["step"] for index in indices]}
    for name in CURVE:
        values = [points[index].get(name) for index in indices]
        if any(value is not None for value in values):
            columns[name] = [
                None if value is None else round(value, SCORE_DIGITS) for value in values
            ]
    return columns


def _run(run: RunResults, origins: list[Facts], scores: str) -> Json:
    """A run; its provenance is appended to `origins` unless an equal one is there."""
    outcome = run.provenance.get("outcome", {})
    data: Json = {name: run.plan[name] for name in ("id", "backbone", "setting", "seed")}
    data |= {"status": run.status, "reason": run.reason, "date": run.provenance.get("date")}
    data |= {name: outcome.get(name) for name in ("steps", "best_step", "best_dev", "seconds")}
    if run.provenance:
        if (origin := _origin(run.provenance)) not in origins:
            origins.append(origin)
        data |= {"origin": origins.index(origin), "file": f"{scores}/{quote(run.plan['id'])}.json"}
    if outcome.get("curve"):
        data["curve"] = curve_columns(outcome["curve"])
    return {name: value for name, value in data.items() if value not in (None, "")}


def _run_indices(suite: SuiteResults) -> dict[str, int]:
    return {run.plan["id"]: index for index, run in enumerate(suite.runs)}


def _side(name: str, runs: Iterable[tuple[int, float | None]]) -> Json:
    """Runs by index, each with its score."""
    pairs = [
        (index, None if score is None else round(score, SCORE_DIGITS)) for index, score in runs
    ]
    return {
        "name": name,
        "runs": [index for index, _ in pairs],
        "scores": [score for _, score in pairs],
    }


def _add_entry(entries: list[Json], title: str, facts: Facts, sides: list[Json]) -> int:
    """Append what a number opens, and return its index."""
    entries.append({"title": title, "facts": facts, "sides": sides})
    return len(entries) - 1


# --- Leaderboards ---


def _board(suite: SuiteResults, name: str, board: pd.DataFrame, entries: list[Json]) -> Json:
    """One of the suite's own tables, with the average before the tasks."""
    about = suite.boards[name]
    tasks = ["Avg", *about.tasks] if len(about.tasks) > 1 else list(about.tasks)
    texts = {"Setting": "setting", "Backbone": "backbone"}
    if len(set(board["corpus"]) - {""}) > 1:
        texts["Corpus"] = "corpus"
    indices = _run_indices(suite)

    def average_of(run: RunResults) -> float | None:
        return average_of_all(
            [run.scores.get((task, "test", about.metric)) for task in about.tasks]
        )

    rows = []
    for row in board.to_dict("records"):
        runs = [
            (indices[run_id], average_of(suite.runs[indices[run_id]])) for run_id in row["run_ids"]
        ]
        counts = {task: seeds_text(row[f"{task} n"], row["n"]) for task in tasks}
        facts = [("Run", f"{row['method']}@{row['setting']}")]
        facts += [(task, score_text(row[task], row[f"{task} sd"]) + counts[task]) for task in tasks]
        title = f"{row['label']}, {row['setting']}, {row['backbone']}"
        rows.append(
            {
                "entry": _add_entry(entries, title, facts, [_side("Runs", runs)]),
                "label": row["label"],
                "backbone": row["backbone"],
                "texts": [row[column] for column in texts.values()],
                "n": row["n"],
                "scores": [_score(row[task], row[f"{task} sd"], counts[task]) for task in tasks],
                "remark": row["remark"],
            }
        )
    return {
        "stem": name,
        "figure": board_stem(name),
        "comparison": comparison_stem(name),
        "family": about.family,
        "caption": f"{about.title}, mean ± standard deviation over n seeds",
        "texts": list(texts),
        "tasks": tasks,
        "rows": rows,
        "remarks": bool(board["remark"].any()),
    }


def _score(mean: float, sd: float, seeds: str) -> dict[str, str]:
    """A cell of a leaderboard; `value` is what it is sorted by."""
    return {
        "value": "" if pd.isna(mean) else f"{mean:.{SCORE_DIGITS}f}",
        "mean": score_text(mean, float("nan")),
        "sd": "" if pd.isna(sd) else f"{sd:.2f}",
        "seeds": seeds.strip(),
    }


# --- Printed and reproduced ---


def _facts(cell: Any, digits: int) -> Facts:
    """What is known of a printed number, as titled texts."""
    quoted = f", quoted from {cell.quoted_from}" if cell.quoted_from else ""
    if cell.quoted_from == "unknown":
        quoted = ", of unknown origin"
    facts = [("Printed", f"{cell.printed:.{digits}f}{quoted}")]
    if cell.n:
        facts.append(("Ours", f"{score_text(cell.mean, cell.sd, digits)}, n = {cell.n}"))
        facts.append(
            ("Ours - printed", f"{cell.difference:+.{digits}f}".replace("-", "\N{MINUS SIGN}"))
        )
    if pd.notna(cell.half_width):
        low, high = cell.mean - cell.half_width, cell.mean + cell.half_width
        facts.append(
            ("95 % prediction interval of a further seed", f"{low:.{digits}f} to {high:.{digits}f}")
        )
    meaning = cell.reason or VERDICT_MEANINGS[cell.verdict]
    facts.append(("Verdict", f"{VERDICT_SYMBOLS[cell.verdict]} {cell.verdict}: {meaning}"))
    if pd.notna(cell.seeds):
        facts.append(("Seeds that would decide", str(cell.seeds)))
    if cell.run:
        facts.append(("Compared with", cell.run + (f" minus {cell.minus}" if cell.minus else "")))
    if cell.other_n:
        ours = f"{score_text(cell.other_mean, cell.other_sd, digits)}, n = {cell.other_n}"
        facts.append((f"Ours, {cell.other_setting} settings", ours))
    return facts


def _sides(suite: SuiteResults, indices: Mapping[str, int], cell: Any) -> list[Json]:
    """The runs behind a printed number: those compared, those subtracted, and both in the other
    setting.

    Args:
        suite: the suite.
        indices: of the runs, by id.
        cell: a row of `cells` with `suite_backbone` and `suite_split` of its recipe.
    """
    key = (cell.task, cell.suite_split or cell.split, MEASURES[cell.metric][0])
    texts = [cell.run, cell.minus]
    if cell.other_n:
        texts += [f"{text.partition('@')[0]}@{cell.other_setting}" for text in texts if text]
    sides = []
    for text in dict.fromkeys(filter(None, texts)):
        if runs := select(suite, text, cell.suite_backbone or cell.backbone):
            name = f"{text} on {runs[0].plan['backbone']}"
            sides.append(
                _side(name, ((indices[run.plan["id"]], run.scores.get(key)) for run in runs))
            )
    return sides


def _section(suite: SuiteResults, stem: str, table: pd.DataFrame, entries: list[Json]) -> Json:
    """A printed table, with one row per printed row."""
    indices = _run_indices(suite)
    source, name = table.iloc[0][["source", "table"]]
    tasks = sorted(
        table["task"].unique(),
        key=lambda task: TASK_ORDER.index(task) if task in TASK_ORDER else -1,
    )
    multiple_splits = table["split"].nunique() > 1
    rows = []
    for (method, backbone, variant, split), row in table.groupby(
        ["method", "backbone", "variant", "split"], sort=False, dropna=False
    ):
        label = row_name(method, variant) + (f" {split}" if multiple_splits else "")
        by_task: dict[str, Json] = {}
        for cell in row.itertuples():
            digits = 0 if cell.metric == "best_step" else 2
            title = (
                f"{SOURCES[source]}, {name}: {label}, {backbone}, {cell.task} {cell.split}".strip()
            )
            if cell.ours_split != cell.split:
                title += f" (ours: {cell.ours_split})"
            by_task[cell.task] = {
                "entry": _add_entry(
                    entries, title, _facts(cell, digits), _sides(suite, indices, cell)
                ),
                "printed": f"{cell.printed:.{digits}f}",
                "ours": score_text(cell.mean, cell.sd, digits) if cell.n else "",
                "verdict": cell.verdict,
            }
        rows.append(
            {
                "label": label,
                "backbone": backbone,
                "origin": origin(row["quoted_from"]),
                "cells": [by_task.get(task) for task in tasks],
            }
        )
    return {
        "stem": stem,
        "source": source,
        "name": name,
        "title": f"{_paper(source)}, {name}",
        "metric": " and ".join(METRICS[metric] for metric in table["metric"].unique()),
        "tasks": tasks,
        "rows": rows,
        "verdicts": Counter(table["verdict"]),
        "measured": bool((table["n"] > 0).any()),
    }


# --- The other sections ---


def _provenance(suite: SuiteResults) -> list[tuple[str, list[str]]]:
    """Each field of the scores' provenance with its distinct values; with several, how many runs
    have each."""
    provenances = [run.provenance for run in suite.runs if run.provenance]
    counts: dict[str, Counter[str]] = {}
    for provenance in provenances:
        for title, text in _origin(provenance):
            counts.setdefault(title, Counter())[text] += 1
    rows = [
        (
            title,
            [
                f"{text} ({count} runs)" if len(texts) > 1 else text
                for text, count in texts.most_common()
            ],
        )
        for title, texts in counts.items()
    ]
    dates = sorted(str(provenance["date"]) for provenance in provenances if provenance.get("date"))
    rows.append(("Scored", [" to ".join(dict.fromkeys((dates[0], dates[-1])))] if dates else []))
    rows.append(
        (
            "Runs",
            [
                f"{count} {status}"
                for status, count in Counter(run.status for run in suite.runs).items()
            ],
        )
    )
    return [(title, values) for title, values in rows if values]


def _analyses(suite: SuiteResults) -> dict[str, list[tuple[str, Any]]]:
    """The analyses that are shown as tables: name -> (title of the run, result).

    "missing" lists analyses without a result: (analysis and run, reason).
    """
    analyses: dict[str, list[tuple[str, Any]]] = {}
    for run in suite.runs:
        plan = run.plan
        seed = f", seed {plan['seed']}" if plan["seed"] is not None else ""
        title = f"{plan['label']}, {plan['setting']}, {plan['backbone']}{seed}"
        for name, result in run.analyses.items():
            if "reason" in result:
                analyses.setdefault("missing", []).append((f"{name} of {title}", result["reason"]))
            elif name in ("alignment", "memory", "nearest"):
                analyses.setdefault(name, []).append((title, result))
    return analyses


def _coverage(counts: pd.DataFrame) -> Json:
    """`coverage` as a table of counts; verdicts that do not occur are left out."""
    stages = ["printed", "measures", "recipe", "planned", "run"]
    kinds = [kind for kind in VERDICT_SYMBOLS if counts[kind].any()]
    columns = [
        *(stage.capitalize() for stage in stages),
        *(f"{VERDICT_SYMBOLS[kind]} {kind}" for kind in kinds),
    ]
    rows = [
        (f"{_paper(row['source'])}, {row['table']}", [int(row[name]) for name in [*stages, *kinds]])
        for row in counts.to_dict("records")
    ]
    return {"columns": columns, "rows": rows}
