"""The contents of a suite's page: leaderboards, printed numbers with ours, and the runs behind.

`context` returns what the template `page.html` is filled with; bench/report/page.py writes the
files. The page's script reads `data`: `runs`, `origins` (distinct provenances), and `entries`, one
per number that can be opened; a printed number's has its address and its command. Table cells refer
to entries by index, entries to runs, and runs to origins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import pandas as pd

from bench.comparison.order import orders
from bench.comparison.reproduction import cells, key_of, select
from bench.comparison.statistics import LEVEL
from bench.comparison.verdict import VERDICT_MEANINGS, VERDICT_SYMBOLS
from bench.registry.backbones import NO_BACKBONE
from bench.report import tables
from bench.report.coverage import STAGES, coverage, coverage_of_numbers, verdicts_in, without_recipe
from bench.report.figures import board_stem, paper_stems
from bench.report.formats import score_text
from bench.report.hyperparameters import hyperparameter_sections, recipe_of
from bench.report.order_table import order_text, summaries
from bench.report.page_runs import (
    CURVE,
    SCORE_DIGITS,
    Facts,
    Json,
    commands,
    origin,
    rounded,
    run_data,
)
from bench.report.page_summary import found, verdict_counts
from bench.report.quoted_table import quoted_tables
from bench.reported import MEASURES, SOURCES, mapped, paper_name, printed_text
from bench.reported.address import address, reproduce_command
from bench.reported.audit import FINDING_KINDS, findings
from bench.results.records import is_outside, named
from bench.results.suite_results import RunResults, SuiteResults
from bench.runs.paths import comparison_stem
from bench.utils.text import counted, listed


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
    numbers = mapped()
    recipes = numbers.loc[numbers["metric"].isin(MEASURES), ["suite_backbone"]]
    printed = tables.printed_tables(all_cells.join(recipes.reset_index(drop=True)))
    own = tables.leaderboards(suite)
    boards = [_board(suite, name, board, entries) for name, board in own.items()]
    sections = [_section(suite, stem, table, entries) for stem, table in printed.items()]
    runs = [run_data(run, origins, scores) for run in suite.runs]
    indices = {run["id"]: index for index, run in enumerate(runs)}
    for side in (side for entry in entries for side in entry["sides"]):
        side["runs"] = [indices[name] for name in side["runs"]]
    audit = findings()
    order = orders(suite, all_cells)
    for section in sections:
        section["order"] = order_text(order, section["source"], section["name"])
    counts = coverage(coverage_of_numbers(suite, all_cells))
    return {
        "suite": suite,
        "boards": boards,
        "sections": sorted(sections, key=lambda section: not section["measured"]),
        "sources": {source: paper_name(source) for source in all_cells["source"].unique()},
        "summaries": [*summaries(suite, order, all_cells), *quoted_tables(suite, own)],
        "verdicts": verdict_counts(all_cells),
        "found": found(suite, all_cells, own, len(audit)),
        "symbols": VERDICT_SYMBOLS,
        "meanings": VERDICT_MEANINGS,
        "titles": paper_stems(suite),
        "counts": counts.to_dict("records"),
        "counted": {stage: stage.capitalize() for stage in STAGES}
        | {kind: f"{VERDICT_SYMBOLS[kind]} {kind}" for kind in verdicts_in(counts)},
        "without_recipe": without_recipe().to_dict("records"),
        "findings": {
            title: [one for one in audit if one.kind == kind]
            for kind, title in FINDING_KINDS.items()
        },
        "analyses": _analyses(suite),
        "provenance": _provenance(suite),
        "hyperparameters": hyperparameter_sections(),
        "recipe": recipe_of(suite),
        "paper": paper_name,
        "data": {
            "runs": runs,
            "origins": origins,
            "entries": entries,
            "curve": list(CURVE.items()),
            "commands": commands(suite.name),
        },
    }


def _side(name: str, runs: Sequence[RunResults], scores: Sequence[float | None]) -> Json:
    ids = [run.plan["id"] for run in runs]
    return {"name": name, "runs": ids, "scores": [rounded(score) for score in scores]}


def _add_entry(
    entries: list[Json], title: str, facts: Facts, sides: list[Json], **more: str
) -> int:
    """Append what a number opens, and return its index."""
    entries.append({"title": title, "facts": facts, "sides": sides, **more})
    return len(entries) - 1


# --- Leaderboards ---


def _board(suite: SuiteResults, name: str, board: pd.DataFrame, entries: list[Json]) -> Json:
    """One of the suite's own tables, with the average before the tasks."""
    about = suite.planned(name)
    tasks = sorted(tables.columns(suite, name), key=lambda task: task != "Avg")
    several = tables.several_corpora(board)
    by_id = {run.plan["id"]: run for run in suite.runs}
    rows = []
    for row in board.to_dict("records"):
        runs = [by_id[run_id] for run_id in row["run_ids"]]
        averages = [run.points(about, "Avg") for run in runs]
        counts = {task: tables.seeds_text(row[f"{task} n"], row["n"]) for task in tasks}
        facts = [("Run", f"{row['method']}@{row['setting']}")]
        for task in tasks:
            text = score_text(row[task], row[f"{task} sd"])
            facts.append((task, text + counts[task]))
        title = f"{named(row['label'], row['setting'])}, {row['backbone']}"
        number = _add_entry(entries, title, facts, [_side("Runs", runs, averages)])
        scores = [_score(row[task], row[f"{task} sd"], counts[task]) for task in tasks]
        rows.append(
            {name: row[name] for name in ("label", "backbone", "n", "remark")}
            | {"entry": number, "scores": scores}
            | {"place": _place(row, several)}
        )
    return {
        "stem": name,
        "figure": board_stem(name),
        "comparison": comparison_stem(name),
        "family": about.family,
        "caption": tables.leaderboard_title(suite, name),
        "tasks": tasks,
        "rows": rows,
        "remarks": bool(board["remark"].any()),
    }


def _place(row: Mapping[str, Any], several_corpora: bool) -> str:
    """What tells rows with one label apart: setting, backbone and corpus; an outside encoder has
    none of them."""
    if is_outside(row["label"]):
        return ""
    backbone = "no backbone" if row["backbone"] == NO_BACKBONE.name else row["backbone"]
    parts = [row["setting"], backbone, row["corpus"] if several_corpora else ""]
    return ", ".join(filter(None, parts))


def _score(mean: float, sd: float, seeds: str) -> dict[str, str]:
    """A cell of a leaderboard; `value` is what it is sorted by."""
    return {
        "value": "" if pd.isna(mean) else f"{mean:.{SCORE_DIGITS}f}",
        "mean": score_text(mean, nan),
        "sd": "" if pd.isna(sd) else f"{sd:.2f}",
        "seeds": seeds.strip(),
    }


# --- Printed and reproduced ---


def _facts(cell: Any) -> Facts:
    """What is known of a printed number, as titled texts."""
    digits = tables.digits_of(cell)
    quoted = f", quoted from {cell.quoted_from}" if cell.quoted_from else ""
    if cell.quoted_from == "unknown":
        quoted = ", of unknown origin"
    facts = [("Printed", f"{printed_text(cell)}{quoted}")]
    if cell.n:
        gap = f"{cell.difference:+.{digits}f}".replace("-", "\N{MINUS SIGN}")
        facts.append(("Ours", f"{score_text(cell.mean, cell.sd, digits)}, n = {cell.n}"))
        facts.append(("Ours - printed", gap))
    if pd.notna(cell.half_width):
        answer = {True: "yes", False: "no"}.get(cell.within, "undecided")
        interval = f"{90 if cell.within else 95} % interval "
        interval += f"{cell.mean:.{digits}f} ± {cell.mean_half_width:.{digits}f}"
        facts.append(("Mean within the tolerance of print?", f"{answer} ({interval})"))
        low, high = cell.mean - cell.half_width, cell.mean + cell.half_width
        answer = "no" if cell.p_adjusted < LEVEL else "yes"
        answer += f" (95 % of runs: {low:.{digits}f} to {high:.{digits}f}; p = {cell.p:.2g}, "
        answer += f"{cell.p_adjusted:.2g} corrected)"
        facts.append(("Could one run of ours have scored it?", answer))
    meaning = cell.reason or VERDICT_MEANINGS[cell.verdict]
    facts.append(("Verdict", f"{VERDICT_SYMBOLS[cell.verdict]} {cell.verdict}: {meaning}"))
    if pd.notna(cell.seeds):
        facts.append(("Seeds that decide", str(cell.seeds)))
    if pd.notna(cell.rank):
        facts.append(("Rank of print among our seeds", f"{cell.rank} of {cell.n + 1}"))
    if pd.notna(cell.best_of_five):
        facts.append(("Expected best of five of our seeds", f"{cell.best_of_five:.{digits}f}"))
    if pd.notna(cell.cv):
        facts.append(("CV* of print and our seeds", f"{cell.cv:.2f} %"))
    if cell.run:
        facts.append(("Compared with", cell.run + (f" minus {cell.minus}" if cell.minus else "")))
    if cell.aggregation:
        facts.append(("Subsets of a task", tables.AGGREGATED[cell.aggregation]))
    if cell.other_n:
        ours = f"{score_text(cell.other_mean, cell.other_sd, digits)}, n = {cell.other_n}"
        if cell.other_verdict:
            ours += f": {cell.other_mark} {cell.other_verdict}"
        facts.append((f"Ours, {cell.other_setting} settings", ours))
    if cell.checkpoint:
        scored = f"{cell.checkpoint_mean:.{digits}f}, " if pd.notna(cell.checkpoint_mean) else ""
        verdict = f"{VERDICT_SYMBOLS[cell.checkpoint_verdict]} {cell.checkpoint_verdict}"
        facts.append(("Published checkpoint", f"{scored}{verdict}: {cell.checkpoint_reason}"))
        facts.append(("Scored by", cell.checkpoint))
    return facts


def _sides(suite: SuiteResults, cell: Any) -> list[Json]:
    """The runs behind a printed number: those compared, those subtracted, both in the other
    setting, and the published checkpoint.

    Args:
        suite: the suite.
        cell: a row of `cells` with the `suite_backbone` of its recipe.
    """
    key = key_of(cell)
    texts = [text for text in (cell.run, cell.minus) if text]
    if cell.other_n:
        texts += [f"{text.partition('@')[0]}@{cell.other_setting}" for text in texts]
    sides, backbones = [], dict.fromkeys(texts, cell.suite_backbone or cell.backbone)
    if cell.checkpoint:
        backbones[cell.checkpoint] = NO_BACKBONE.name
    for text, backbone in backbones.items():
        if runs := select(suite, text, backbone):
            on = runs[0].plan["backbone"]
            name = text if on == NO_BACKBONE.name else f"{text} on {on}"
            sides.append(_side(name, runs, [run.scores.get(key) for run in runs]))
    return sides


def _section(suite: SuiteResults, stem: str, table: pd.DataFrame, entries: list[Json]) -> Json:
    """A printed table, with one row per printed row."""
    source, name = table.iloc[0][["source", "table"]]
    tasks = tables.tasks_of(table)
    rows = []
    for label, split, row in tables.printed_rows(tables.marked(table)):
        by_task: dict[str, Json] = {}
        for cell in row.values():
            digits = tables.digits_of(cell)
            where = f"{label}{split}, {cell.backbone}, {cell.task} {cell.split}".strip()
            title = f"{SOURCES[source]}, {name}: {where}"
            if cell.ours_split != cell.split:
                title += f" (ours: {cell.ours_split})"
            more = {"address": address(cell)}
            more |= {"command": reproduce_command(cell)} if cell.run else {}
            by_task[cell.task] = {
                "entry": _add_entry(entries, title, _facts(cell), _sides(suite, cell), **more),
                "address": more["address"],
                "printed": printed_text(cell),
                "best_printed": cell.best_printed,
                "best_ours": cell.best_ours,
                "ours": score_text(cell.mean, cell.sd, digits) if cell.n else "",
                "verdict": cell.verdict,
                "mark": cell.mark,
            }
        rows.append(
            {
                "label": label + split,
                "backbone": cell.backbone,
                "origin": tables.origin(cell.quoted_from for cell in row.values()),
                "cells": [by_task.get(task) for task in tasks],
            }
        )
    return {
        "stem": stem,
        "source": source,
        "name": name,
        "title": f"{paper_name(source)}, {name}",
        "metric": listed(tables.METRICS[metric] for metric in table["metric"].unique()),
        "notes": tables.notes(table),
        "tasks": tasks,
        "rows": rows,
        "verdicts": verdict_counts(table),
        "measured": tables.is_measured(table),
    }


# --- The other sections ---


def _provenance(suite: SuiteResults) -> dict[str, list[str]]:
    """Each field of the scores' provenance with its distinct values; with several, how many runs
    have each."""
    provenances = [run.provenance for run in suite.runs if run.provenance]
    counts: dict[str, Counter[str]] = {}
    for title, text in (fact for provenance in provenances for fact in origin(provenance)):
        counts.setdefault(title, Counter())[text] += 1
    rows = {
        title: [
            text + (f" ({counted(count, 'run')})" if len(texts) > 1 else "")
            for text, count in texts.most_common()
        ]
        for title, texts in counts.items()
    }
    if dates := [str(provenance["date"]) for provenance in provenances if provenance.get("date")]:
        rows["Scored"] = [" to ".join(dict.fromkeys((min(dates), max(dates))))]
    statuses = Counter(run.status for run in suite.runs)
    return rows | {"Runs": [f"{count} {status}" for status, count in statuses.items()]}


def _analyses(suite: SuiteResults) -> dict[str, list[tuple[str, Any]]]:
    """The analyses that are shown as tables: name -> (title of the run, result).

    "missing" lists analyses without a result: (analysis and run, reason).
    """
    analyses: dict[str, list[tuple[str, Any]]] = {}
    for run in suite.runs:
        plan = run.plan
        seed = f", seed {plan['seed']}" if plan["seed"] is not None else ""
        title = f"{named(plan['label'], plan['setting'])}, {plan['backbone']}{seed}"
        for name, result in run.analyses.items():
            if "reason" in result:
                analyses.setdefault("missing", []).append((f"{name} of {title}", result["reason"]))
            elif name in ("alignment", "memory", "nearest"):
                analyses.setdefault(name, []).append((title, result))
    return analyses
