"""The page of a suite: a folder that opens from disk, with every printed number, its verdict and what is behind it."""

from __future__ import annotations

import os
import shutil
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from bench.comparison.reproduction import cells, select
from bench.comparison.verdict import MEANINGS, SYMBOLS
from bench.datasets.tasks import TASK_ORDER, average
from bench.report.comparison_table import comparison_stem
from bench.report.coverage import coverage, without_recipe
from bench.report.figures import board_stem, paper_stems
from bench.report.formats import templates
from bench.report.tables import METRICS, leaderboards, origin, printed_tables, row_name, score_text, seeds_text
from bench.reported import MEASURES, SOURCES, mapped
from bench.reported.audit import KINDS, findings
from bench.results.suite_results import Scored, Suite, read_suite
from bench.utils.errors import UserError
from bench.utils.files import atomic_file, write_text

CURVE = {
    "dev": "Selection score (Spearman x 100)",
    "loss": "Training loss",
    "alignment": "Alignment",
    "uniformity": "Uniformity",
}
CURVE_POINTS = 60  # as many as a chart of 280 pixels shows
SCORE_DIGITS = 4  # of the numbers in the page's data; two are shown


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(
            f"{key} {_text(item)}" for key, item in value.items() if item is not None and item is not False
        )
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(_text, value))
    return str(value)


# --- Figures ---


def _size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG, from its header: https://www.w3.org/TR/png/#11IHDR."""
    head = path.read_bytes()[:24]
    if len(head) < 24 or not head.startswith(b"\x89PNG\r\n\x1a\n"):
        raise UserError(f"{path} is not a PNG picture; render the figures of this suite again")
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def _pictures(figures: Path) -> dict[str, dict[str, Any]]:
    """Every figure of a folder by its stem: address, size, and the forms it has."""
    found = {}
    for path in sorted(figures.glob("*.png")):
        width, height = _size(path)
        address = f"figures/{quote(path.stem)}"
        others = [kind for kind in ("pdf", "csv") if path.with_suffix(f".{kind}").is_file()]
        found[path.stem] = {"address": address, "width": width, "height": height, "others": others}
    return found


def _copy_figures(figures: Path, pictures: Mapping[str, Mapping[str, Any]], out: Path) -> None:
    for stem, picture in pictures.items():
        for kind in ("png", *picture["others"]):
            with atomic_file(out / f"{stem}.{kind}") as temporary:
                shutil.copyfile(figures / f"{stem}.{kind}", temporary)


# --- Runs, and which of them stand behind a number ---


def _origin(provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where scores come from, as titled texts."""
    fields = {
        "Code": provenance.get("code"),
        "Data": provenance.get("data"),
        "Corpora": provenance.get("corpora") or provenance.get("corpus"),
        "Device": provenance.get("device"),
        "Arithmetic": provenance.get("arithmetic"),
        "Libraries": provenance.get("versions"),
    }
    return [(title, _text(value)) for title, value in fields.items() if value]


def _curve(points: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """A training's curve by columns, thinned evenly to `CURVE_POINTS`; the first and the last point stay."""
    last = len(points) - 1
    kept = sorted({round(index * last / (CURVE_POINTS - 1)) for index in range(CURVE_POINTS)})
    columns = {"step": [points[index]["step"] for index in kept]}
    for name in CURVE:
        values = [points[index].get(name) for index in kept]
        if any(value is not None for value in values):
            columns[name] = [None if value is None else round(value, SCORE_DIGITS) for value in values]
    return columns


def _run_data(run: Scored, origins: list[list[tuple[str, str]]], scores: str) -> dict[str, Any]:
    """What the page tells of a run; equal origins are kept once, in `origins`."""
    outcome = run.provenance.get("outcome", {})
    data: dict[str, Any] = {name: run.plan[name] for name in ("id", "backbone", "setting", "seed")}
    data |= {"status": run.status, "reason": run.reason, "date": run.provenance.get("date")}
    data |= {name: outcome.get(name) for name in ("steps", "best_step", "best_dev", "seconds")}
    if run.provenance:
        if (origin := _origin(run.provenance)) not in origins:
            origins.append(origin)
        data |= {"origin": origins.index(origin), "file": f"{scores}/{quote(run.plan['id'])}.json"}
    if outcome.get("curve"):
        data["curve"] = _curve(outcome["curve"])
    return {name: value for name, value in data.items() if value not in (None, "")}


def _side(name: str, runs: Iterable[tuple[int, float | None]]) -> dict[str, Any]:
    """Some runs by number, with the score of each."""
    pairs = [(number, None if score is None else round(score, SCORE_DIGITS)) for number, score in runs]
    return {"name": name, "runs": [number for number, _ in pairs], "scores": [score for _, score in pairs]}


# --- Leaderboards ---


def _board(suite: Suite, name: str, board: pd.DataFrame, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """One of the suite's own tables, the average before the tasks; what a row opens goes to `entries`."""
    about = suite.boards[name]
    tasks, metric = about.tasks, about.metric
    names = ("backbone", "label", "method", "setting", "corpus")
    shown = ["Avg", *tasks] if len(tasks) > 1 else list(tasks)
    texts = {"Setting": "setting", "Backbone": "backbone"}
    if len(set(board["corpus"]) - {""}) > 1:
        texts["Corpus"] = "corpus"

    def average_of(run: Scored) -> float | None:
        points = [run.scores[key] for task in tasks if (key := (task, "test", metric)) in run.scores]
        return average(points) if len(points) == len(tasks) else None

    groups: dict[tuple[str, ...], list[tuple[int, float | None]]] = {}
    for number, run in enumerate(suite.runs):
        recipe = str(sorted((run.plan.get("recipe_changes") or {}).items()))
        group = (*(run.plan[key] or "" for key in names), recipe)
        groups.setdefault(group, []).append((number, average_of(run)))

    def runs_of(row: Mapping[str, Any]) -> list[tuple[int, float | None]]:
        """Those of a row by its names; rows that differ in their recipes alone are told apart by their averages."""
        for group, runs in groups.items():
            averages = tuple(score for _, score in runs if score is not None)
            if group[:-1] == tuple(row[key] for key in names) and averages == row["averages"]:
                return groups.pop(group)
        return []

    rows = []
    for row in board.to_dict("records"):
        facts = [("Run", f"{row['method']}@{row['setting']}")]
        counts = {task: seeds_text(row[f"{task} n"], row["n"]) for task in shown}
        facts += [(task, score_text(row[task], row[f"{task} sd"]) + counts[task]) for task in shown]
        title = f"{row['label']}, {row['setting']}, {row['backbone']}"
        entries.append({"title": title, "facts": facts, "sides": [_side("Runs", runs_of(row))]})
        scores = [(row[task], row[f"{task} sd"], counts[task]) for task in shown]
        rows.append(
            {
                "entry": len(entries) - 1,
                "label": row["label"],
                "backbone": row["backbone"],
                "texts": [row[column] for column in texts.values()],
                "n": row["n"],
                "scores": [
                    {
                        "value": "" if pd.isna(mean) else f"{mean:.{SCORE_DIGITS}f}",
                        "mean": score_text(mean, float("nan")),
                        "sd": "" if pd.isna(sd) else f"{sd:.2f}",
                        "seeds": seeds.strip(),
                    }
                    for mean, sd, seeds in scores
                ],
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
        "tasks": shown,
        "rows": rows,
        "remarks": bool(board["remark"].any()),
    }


# --- Printed against reproduced ---


def _facts(cell: Any, digits: int) -> list[tuple[str, str]]:
    """What is known of a printed number, as titled texts."""
    quoted = f", quoted from {cell.quoted_from}" if cell.quoted_from else ""
    if cell.quoted_from == "unknown":
        quoted = ", of unknown origin"
    facts = [("Printed", f"{cell.printed:.{digits}f}{quoted}")]
    if cell.n:
        facts.append(("Ours", f"{score_text(cell.mean, cell.sd, digits)}, n = {cell.n}"))
        facts.append(("Ours less printed", f"{cell.difference:+.{digits}f}".replace("-", "\N{MINUS SIGN}")))
    if pd.notna(cell.half_width):
        low, high = cell.mean - cell.half_width, cell.mean + cell.half_width
        facts.append(("95 % interval of a further seed", f"{low:.{digits}f} to {high:.{digits}f}"))
    facts.append(("Verdict", f"{SYMBOLS[cell.verdict]} {cell.verdict}: {cell.reason or MEANINGS[cell.verdict]}"))
    if pd.notna(cell.seeds):
        facts.append(("Seeds that would decide", str(cell.seeds)))
    if cell.run:
        facts.append(("Compared with", cell.run + (f" less {cell.minus}" if cell.minus else "")))
    if cell.other_n:
        ours = f"{score_text(cell.other_mean, cell.other_sd, digits)}, n = {cell.other_n}"
        facts.append((f"Ours, {cell.other_setting} settings", ours))
    return facts


def _sides(suite: Suite, numbers: Mapping[str, int], cell: Any) -> list[dict[str, Any]]:
    """The runs behind a printed number: its own, those that are subtracted, and both in the other setting.

    Args:
        numbers: of the runs, by their ids.
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
            sides.append(_side(name, ((numbers[run.plan["id"]], run.scores.get(key)) for run in runs)))
    return sides


def _printed(suite: Suite, stem: str, table: pd.DataFrame, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """A printed table, one row a printed row; what a cell opens goes to `entries`."""
    numbers = {run.plan["id"]: number for number, run in enumerate(suite.runs)}
    source, name = table.iloc[0][["source", "table"]]
    tasks = sorted(table["task"].unique(), key=lambda task: TASK_ORDER.index(task) if task in TASK_ORDER else -1)
    multiple_splits = table["split"].nunique() > 1
    rows = []
    for (method, backbone, variant, split), row in table.groupby(
        ["method", "backbone", "variant", "split"], sort=False, dropna=False
    ):
        label = row_name(method, variant) + (f" {split}" if multiple_splits else "")
        shown: dict[str, dict[str, Any]] = {}
        for cell in row.itertuples():
            digits = 0 if cell.metric == "best_step" else 2
            title = f"{SOURCES[source]}, {name}: {label}, {backbone}, {cell.task} {cell.split}".strip()
            if cell.ours_split != cell.split:
                title += f" (ours: {cell.ours_split})"
            entries.append({"title": title, "facts": _facts(cell, digits), "sides": _sides(suite, numbers, cell)})
            shown[cell.task] = {
                "entry": len(entries) - 1,
                "printed": f"{cell.printed:.{digits}f}",
                "ours": score_text(cell.mean, cell.sd, digits) if cell.n else "",
                "verdict": cell.verdict,
            }
        known = origin(row["quoted_from"])
        rows.append(
            {"label": label, "backbone": backbone, "origin": known, "cells": [shown.get(task) for task in tasks]}
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


# --- The rest ---


def _provenance(suite: Suite) -> list[tuple[str, list[str]]]:
    """What the scores say of their origin: each field with its distinct values, and how many runs have them."""
    known = [run.provenance for run in suite.runs if run.provenance]
    found: dict[str, Counter[str]] = {}
    for entry in known:
        for title, text in _origin(entry):
            found.setdefault(title, Counter())[text] += 1
    rows = [
        (title, [f"{text} ({count} runs)" if len(texts) > 1 else text for text, count in texts.most_common()])
        for title, texts in found.items()
    ]
    dates = sorted(str(entry["date"]) for entry in known if entry.get("date"))
    rows.append(("Scored", [" to ".join(dict.fromkeys((dates[0], dates[-1])))] if dates else []))
    rows.append(("Runs", [f"{count} {status}" for status, count in Counter(run.status for run in suite.runs).items()]))
    return [(title, values) for title, values in rows if values]


def _analyses(suite: Suite) -> dict[str, list[tuple[str, Any]]]:
    """The analyses that are read as text: under their name, a run's title and its result.

    Under "missing": an analysis and a run, and why there is no such result.
    """
    found: dict[str, list[tuple[str, Any]]] = {}
    for run in suite.runs:
        plan = run.plan
        seed = f", seed {plan['seed']}" if plan["seed"] is not None else ""
        title = f"{plan['label']}, {plan['setting']}, {plan['backbone']}{seed}"
        for name, result in run.analyses.items():
            if "reason" in result:
                found.setdefault("missing", []).append((f"{name} of {title}", result["reason"]))
            elif name in ("alignment", "memory", "nearest"):
                found.setdefault(name, []).append((title, result))
    return found


def _coverage(counts: pd.DataFrame) -> dict[str, Any]:
    """`coverage` as a table of counts; verdicts that nothing has are left out."""
    steps = ["printed", "measures", "recipe", "planned", "run"]
    kinds = [kind for kind in SYMBOLS if counts[kind].any()]
    names = [*(step.capitalize() for step in steps), *(f"{SYMBOLS[kind]} {kind}" for kind in kinds)]
    rows = [
        (f"{_paper(row['source'])}, {row['table']}", [int(row[name]) for name in [*steps, *kinds]])
        for row in counts.to_dict("records")
    ]
    return {"columns": names, "rows": rows}


def _paper(source: str) -> str:
    """A paper's name without its number."""
    return SOURCES[source].partition(" (")[0]


def render_page(suite_folder: Path, figures: Path, out: Path) -> None:
    """Write `index.html`, `page.css`, `page.js` and `figures/` into `out`; other files there stay.

    Raises:
        UserError: the suite's files or its figures are missing or damaged, or `out` cannot be written.
    """
    suite_folder, figures, out = Path(suite_folder), Path(figures), Path(out)
    suite = read_suite(suite_folder)
    all_cells = cells(suite)
    pictures = _pictures(figures)
    if board_stem("sts") not in pictures:
        raise UserError(f"{figures / board_stem('sts')}.png does not exist; render the figures of this suite first")

    def beside(name: str) -> str:
        return quote(Path(os.path.relpath(suite_folder / name, out)).as_posix())

    entries: list[dict[str, Any]] = []
    origins: list[list[tuple[str, str]]] = []
    # `cells` keeps the order of `mapped`, and leaves out what measures nothing.
    recipes = mapped().query("metric in @MEASURES")[["suite_backbone", "suite_split"]]
    recorded = all_cells.join(recipes.reset_index(drop=True))
    boards = [_board(suite, name, board, entries) for name, board in leaderboards(suite).items()]
    sections = [_printed(suite, stem, table, entries) for stem, table in printed_tables(recorded).items()]
    runs = [_run_data(run, origins, beside("scores")) for run in suite.runs]
    audit = findings()
    in_place = {board[place] for board in boards for place in ("figure", "comparison")}
    in_place |= {section["stem"] for section in sections}
    text = templates().get_template("page.html").render(
        suite=suite,
        boards=boards,
        sections=sorted(sections, key=lambda section: not section["measured"]),
        sources={source: _paper(source) for source in all_cells["source"].unique()},
        verdicts=Counter(all_cells["verdict"]),
        symbols=SYMBOLS,
        meanings=MEANINGS,
        pictures=pictures,
        titles=paper_stems(suite),
        other_pictures=[stem for stem in pictures if stem not in in_place],
        coverage=_coverage(coverage(suite, all_cells)),
        without_recipe=without_recipe().to_dict("records"),
        findings={title: [found for found in audit if found.kind == kind] for kind, title in KINDS.items()},
        analyses=_analyses(suite),
        provenance=_provenance(suite),
        paper=_paper,
        tables=beside("tables"),
        data={"runs": runs, "origins": origins, "entries": entries, "curve": list(CURVE.items())},
    )  # fmt: skip
    _copy_figures(figures, pictures, out / "figures")
    for name in ("page.css", "page.js"):
        write_text(out / name, (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8"))
    write_text(out / "index.html", text)
