"""The page of a suite: a folder that works from disk, with every printed number and its runs.

The page's script reads `data`: `runs`, `origins` (distinct provenances), and `entries`, one per
number that can be opened. Table cells refer to entries by index, entries to runs, runs to origins.
"""

import os
import shlex
import shutil
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from bench.comparison.against_baseline import NothingToCompare, against
from bench.comparison.order import orders
from bench.comparison.reproduction import cells, key_of, select
from bench.comparison.statistics import LEVEL
from bench.comparison.verdict import VERDICT_MEANINGS, VERDICT_SYMBOLS
from bench.datasets.tasks import STS_TASKS
from bench.registry.backbones import NO_BACKBONE
from bench.report import printed_table, tables
from bench.report.comparison_table import baseline_name
from bench.report.coverage import STAGES, coverage, coverage_of_numbers, verdicts_in, without_recipe
from bench.report.figures import board_stem
from bench.report.figures.described import load_figures
from bench.report.formats import TEMPLATES, score_text, templates
from bench.report.hyperparameters import hyperparameter_sections, recipe_of
from bench.report.summaries import measured_averages, order_text, quoted_tables, summaries
from bench.reported import MEASURES, SOURCES, mapped, paper_name, printed_text
from bench.reported.address import address, reproduce_command, row_name
from bench.reported.audit import FINDING_KINDS, findings
from bench.reported.gains import printed_gains
from bench.results.records import is_outside, named
from bench.results.suite_results import RunResults, SuiteResults, read_suite
from bench.runs import config
from bench.runs.paths import comparison_stem
from bench.utils.errors import UserError
from bench.utils.files import atomic_file, write_text
from bench.utils.text import counted

RULE = Path(__file__).parents[2] / "docs" / "statistics.md"  # only in a checkout
CURVE = {
    "dev": "Selection score (Spearman x 100)",
    "loss": "Training loss",
    "alignment": "Alignment",
    "uniformity": "Uniformity",
}
CURVE_POINTS = 60  # as many as a chart 280 pixels wide can show
SCORE_DIGITS = 4  # decimals in the page's data; the tables show two
# Verdicts of numbers that were compared with print.
COMPARED = ("reproduced", "consistent", "lower", "higher", "inconclusive")

Json = dict[str, Any]
Facts = list[tuple[str, str]]  # (title, text)
Side = tuple[str, Sequence[RunResults], Sequence[float | None]]  # name, runs, their scores


def render_page(
    suite_dir: Path,
    figures: Path,
    out: Path,
    tables: Path | None = None,
    place: Path | None = None,
) -> None:
    """Write `index.html`, what it needs and `figures/` into `out`; other files there stay.

    Args:
        suite_dir: folder of the suite; the page links to its scores.
        figures: folder of its rendered figures.
        out: folder of the page.
        tables: folder of its rendered tables, to which the page links; by default the suite's.
        place: where `out` will be moved to, for the page's links; by default it stays.

    Raises:
        UserError: files of the suite or its figures are missing or damaged.
    """
    suite = read_suite(suite_dir)
    pictures = {path.stem: _picture(path) for path in sorted(figures.glob("*.png"))}
    first = figures / f"{board_stem('sts')}.png"
    if first.stem not in pictures:
        raise UserError(f"{first} does not exist; render the figures of this suite first")

    def relative(folder: Path) -> str:
        return quote(Path(os.path.relpath(folder, place or out)).as_posix())

    content = page_content(suite, scores=relative(suite_dir / "scores"))
    content |= {"pictures": pictures, "tables": relative(tables or suite_dir / "tables")}
    beside_tables = {section["stem"] for section in content["sections"]}
    for board in content["boards"]:
        beside_tables |= {board["figure"], board["comparison"]}
    content["other_pictures"] = [stem for stem in pictures if stem not in beside_tables]
    if RULE.is_file():  # a copy, so that the page is the same in every folder
        content["statistics"] = RULE.name
        write_text(out / RULE.name, RULE.read_text(encoding="utf-8"))
    for stem, picture in pictures.items():
        for kind in ("png", *picture["others"]):
            with atomic_file(out / "figures" / f"{stem}.{kind}") as temporary:
                shutil.copyfile(figures / f"{stem}.{kind}", temporary)
    for name in ("page.css", "page.js"):
        write_text(out / name, (TEMPLATES / name).read_text(encoding="utf-8"))
    write_text(out / "index.html", templates().get_template("page.html").render(content))


def _picture(path: Path) -> Json:
    """A figure's address, its size in pixels, and its other file formats."""
    width, height = struct.unpack(">II", path.read_bytes()[16:24])  # www.w3.org/TR/png/#11IHDR
    others = [kind for kind in ("pdf", "csv") if path.with_suffix(f".{kind}").is_file()]
    picture = {"address": f"figures/{quote(path.stem)}", "width": width, "height": height}
    return picture | {"others": others}


def page_content(suite: SuiteResults, scores: str) -> Json:
    """What the page shows of a suite, apart from its figures; `scores` is the address of the folder
    of scores."""
    all_cells = cells(suite)
    entries = _Entries(suite)
    # `cells` has the rows of `mapped` that measure something, in the same order.
    numbers = mapped()
    recipes = numbers.loc[numbers["metric"].isin(MEASURES), ["suite_backbone"]]
    printed = printed_table.printed_tables(all_cells.join(recipes.reset_index(drop=True)))
    leaderboards = tables.leaderboards(suite)
    boards = [_board(suite, name, board, entries) for name, board in leaderboards.items()]
    order = orders(suite, all_cells)
    sections = [_section(suite, stem, table, entries) for stem, table in printed.items()]
    for section in sections:
        section["order"] = order_text(order, section["source"], section["name"])
    origins: list[Facts] = []
    runs = [_run_data(run, origins, scores) for run in suite.runs]
    audit = findings()
    audit_of = {
        title: [finding for finding in audit if finding.kind == kind]
        for kind, title in FINDING_KINDS.items()
    }
    counts = coverage(coverage_of_numbers(suite, all_cells))
    return {
        "suite": suite,
        "boards": boards,
        "sections": sorted(sections, key=lambda section: not section["measured"]),
        "sources": {source: paper_name(source) for source in all_cells["source"].unique()},
        "summaries": [*summaries(suite, order, all_cells), *quoted_tables(suite, leaderboards)],
        "verdicts": verdict_counts(all_cells),
        "found": summary(suite, all_cells, leaderboards, len(audit)),
        "symbols": VERDICT_SYMBOLS,
        "meanings": VERDICT_MEANINGS,
        "titles": {figure.stem: figure.heading for figure in load_figures()},
        "counts": _counts(counts),
        "without_recipe": [
            [
                f"{paper_name(row.source)}, {row.table}",
                row_name(row.method, row.variant),
                row.backbone,
                str(row.numbers),
                row.reason,
            ]
            for row in without_recipe().itertuples()
        ],
        "findings": audit_of,
        "analyses": _analyses(suite),
        "provenance": _provenance(suite),
        "hyperparameters": hyperparameter_sections(),
        "recipe": recipe_of(suite),
        "paper": paper_name,
        "data": {
            "runs": runs,
            "origins": origins,
            "entries": entries.entries,
            "curve": list(CURVE.items()),
            "commands": commands(suite.name),
        },
    }


def _counts(counts: pd.DataFrame) -> Json:
    """`coverage` as a table of texts."""
    names = {stage: stage.capitalize() for stage in STAGES}
    names |= {kind: f"{VERDICT_SYMBOLS[kind]} {kind}" for kind in verdicts_in(counts)}
    rows = [
        [f"{paper_name(row['source'])}, {row['table']}", *(str(row[name]) for name in names)]
        for row in counts.to_dict("records")
    ]
    return {"columns": {"Table": False} | dict.fromkeys(names.values(), True), "rows": rows}


class _Entries:
    """What each number opens: facts about it, and the runs of each of its sides."""

    def __init__(self, suite: SuiteResults) -> None:
        self.entries: list[Json] = []
        self.positions = {run.plan.id: position for position, run in enumerate(suite.runs)}

    def add(self, title: str, facts: Facts, sides: Sequence[Side], **more: str) -> int:
        """Add an entry, and return its index."""
        shown = [
            {
                "name": name,
                "runs": [self.positions[run.plan.id] for run in runs],
                "scores": [_rounded(score) for score in scores],
            }
            for name, runs, scores in sides
        ]
        self.entries.append({"title": title, "facts": facts, "sides": shown, **more})
        return len(self.entries) - 1


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, SCORE_DIGITS)


# --- What was found ---


def verdict_counts(cells: pd.DataFrame) -> dict[str, int]:
    """How many numbers have each verdict, in the order of `VERDICT_SYMBOLS`, without zeros."""
    counts = Counter(cells["verdict"])
    return {kind: counts[kind] for kind in VERDICT_SYMBOLS if counts[kind]}


def summary(
    suite: SuiteResults, all_cells: pd.DataFrame, boards: Mapping[str, pd.DataFrame], audited: int
) -> Facts:
    """What was found, in a few lines, without those that have nothing to say.

    Args:
        suite: the suite.
        all_cells: its `reproduction.cells`.
        boards: its `leaderboards`.
        audited: number of findings of the audit.
    """
    # The first leaderboard with scores, and the column that sums it up: its average; else STS-B, or
    # its first task, if the suite plans too few tasks for an average. All but "sts" hold scores.
    has_sts = boards["sts"][[*STS_TASKS]].notna().any(axis=None)
    board = next((name for name in boards if has_sts or name != "sts"), "sts")
    planned = tables.columns(suite, board)
    task = next((task for task in ("Avg", "STS-B") if task in planned), planned[0])
    title, where = f"on {task}", task
    if task == "Avg":
        title = f"{suite.boards[board].family} average"
        where = f"the {title}"
    lines = [
        ("Averages", _averages(all_cells)),
        (f"Highest {title}", _highest(boards[board], task)),
    ]
    if suite.baseline:
        lines.append(_against_baseline(suite, board, task, where))
    gains = printed_gains()
    within = (gains["gain"] < gains["reach"]).sum()
    lines.append((
        "Print alone",
        f"{within} of {len(gains)} printed gains over SimCSE are within the 95 % range of the "
        f"difference of two public runs of SimCSE; the audit has {counted(audited, 'finding')}.",
    ))  # fmt: skip
    return [(title, text) for title, text in lines if text]


def _averages(all_cells: pd.DataFrame) -> str:
    """How the averages compare with print, and which is furthest from it."""
    rows = measured_averages(all_cells)
    rows = rows[rows["verdict"].isin(COMPARED)]
    if rows.empty:
        return "None can be compared with print."
    far = rows.loc[rows["difference"].abs().idxmax()]
    gap = f"{far['difference']:+.2f}".replace("-", "\N{MINUS SIGN}")
    where = f"{paper_name(far['source'])}, {far['table']}, "
    where += f"{row_name(far['method'], far['variant'])} on {far['backbone']}"
    counts = ", ".join(f"{count} {kind}" for kind, count in verdict_counts(rows).items())
    return f"Of {len(rows)} compared with print: {counts}. The furthest from it: {where}, {gap}."


def _highest(board: pd.DataFrame, task: str) -> str:
    """The best row on each backbone."""
    scored = board.dropna(subset=[task])
    best = scored.loc[scored.groupby("backbone", sort=False)[task].idxmax()]
    return "; ".join(
        f"{row['backbone']}: {named(row['label'], row['setting'])}, "
        f"{score_text(row[task], row[f'{task} sd'])}"
        for row in best.to_dict("records")
        if row["backbone"] != "none" or len(best) == 1
    )


def _against_baseline(suite: SuiteResults, board: str, task: str, where: str) -> tuple[str, str]:
    """How many trained methods are better or worse than the baseline; empty without scores."""
    try:
        rows, _ = against(suite, suite.baseline)
    except NothingToCompare:
        return "", ""
    rows = rows[(rows["board"] == board) & (rows["task"] == task) & (rows["kind"] == "paired")]
    if rows.empty:
        return "", ""
    counts = Counter(rows["verdict"])
    text = ", ".join(f"{counts[word]} {word}" for word in ("better", "worse", "undecided"))
    title = f"Trained methods against {baseline_name(suite, rows)}"
    return title, f"{text}, paired by seed on {where}."


# --- Leaderboards ---


def _board(suite: SuiteResults, name: str, board: pd.DataFrame, entries: _Entries) -> Json:
    """One of the suite's own tables, with the average before the tasks."""
    planned = suite.planned(name)
    tasks = sorted(tables.columns(suite, name), key=lambda task: task != "Avg")
    several = tables.several_corpora(board)
    by_id = {run.plan.id: run for run in suite.runs}
    rows = []
    for row in board.to_dict("records"):
        runs = [by_id[run_id] for run_id in row["run_ids"]]
        facts, scores = [("Run", f"{row['method']}@{row['setting']}")], []
        for task in tasks:
            mean, sd = row[task], row[f"{task} sd"]
            seeds = printed_table.seeds_text(row[f"{task} n"], row["n"])
            facts.append((task, score_text(mean, sd) + seeds))
            scores.append(
                {
                    "mean": score_text(mean, nan),
                    "sd": "" if pd.isna(sd) else f"{sd:.2f}",
                    "seeds": seeds.strip(),
                }
            )
        title = f"{named(row['label'], row['setting'])}, {row['backbone']}"
        averages = [run.points(planned, "Avg") for run in runs]
        # What tells rows with one label apart; an outside encoder has none of it.
        no_backbone = row["backbone"] == NO_BACKBONE.name
        place = [row["setting"], "no backbone" if no_backbone else row["backbone"]]
        if several and row["corpus"]:
            place.append(row["corpus"])
        shown = {field: row[field] for field in ("label", "backbone", "n", "remark")}
        shown["place"] = "" if is_outside(row["label"]) else ", ".join(place)
        shown["entry"] = entries.add(title, facts, [("Runs", runs, averages)])
        rows.append(shown | {"scores": scores})
    columns = {"Method": False, tasks[0]: True, "n": True} | dict.fromkeys(tasks, True)
    columns |= {"Remark": False} if board["remark"].any() else {}
    return {
        "stem": name,
        "figure": board_stem(name),
        "comparison": comparison_stem(name),
        "family": planned.family,
        "caption": tables.leaderboard_title(suite, name),
        "columns": columns,
        "rows": rows,
        "remarks": bool(board["remark"].any()),
    }


# --- Printed and reproduced ---


def facts(cell: Any) -> Facts:
    """What is known of a printed number, as titled texts: the lines of `templates/number.txt`."""
    digits = printed_table.digits_of(cell)
    text = templates().get_template("number.txt").render(
        cell=cell, printed=printed_text(cell), digits=digits, score=score_text, level=LEVEL,
        rounded=lambda value: f"{value:.{digits}f}", aggregated=printed_table.AGGREGATED,
        symbols=VERDICT_SYMBOLS, meanings=VERDICT_MEANINGS,
    )  # fmt: skip
    parts = (line.partition(": ") for line in text.splitlines())
    return [(title, fact) for title, _, fact in parts]


def _sides(suite: SuiteResults, cell: Any) -> list[Side]:
    """The runs behind a printed number: those compared, those subtracted, both in the other
    setting, and the published checkpoint.

    Args:
        suite: the suite.
        cell: a row of `cells` with the `suite_backbone` of its recipe.
    """
    texts = [text for text in (cell.run, cell.minus) if text]
    if cell.other_n:
        texts += [f"{text.partition('@')[0]}@{cell.other_setting}" for text in texts]
    backbones = dict.fromkeys(texts, cell.suite_backbone or cell.backbone)
    if cell.checkpoint:
        backbones[cell.checkpoint] = NO_BACKBONE.name
    key = key_of(cell)
    sides: list[Side] = []
    for text, backbone in backbones.items():
        runs = select(suite, text, backbone)
        if runs:
            measured_on = runs[0].plan.backbone
            name = text if measured_on == NO_BACKBONE.name else f"{text} on {measured_on}"
            sides.append((name, runs, [run.scores.get(key) for run in runs]))
    return sides


def _section(suite: SuiteResults, stem: str, table: pd.DataFrame, entries: _Entries) -> Json:
    """A printed table, with one row per printed row."""
    source, name = table.iloc[0][["source", "table"]]
    tasks = printed_table.tasks_of(table)
    rows = []
    for label, row in printed_table.printed_rows(printed_table.marked(table)):
        by_task: dict[str, Json] = {}
        for cell in row.values():
            where = f"{label}, {cell.backbone}, {cell.task} {cell.split}".strip()
            title = f"{SOURCES[source]}, {name}: {where}"
            if cell.ours_split != cell.split:
                title += f" (ours: {cell.ours_split})"
            more = {"address": address(cell)}
            if cell.run:
                more["command"] = reproduce_command(cell)
            digits = printed_table.digits_of(cell)
            by_task[cell.task] = {
                "entry": entries.add(title, facts(cell), _sides(suite, cell), **more),
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
                "label": label,
                "backbone": cell.backbone,
                "origin": printed_table.origin(cell.quoted_from for cell in row.values()),
                "cells": [by_task.get(task) for task in tasks],
            }
        )
    return {
        "stem": stem,
        "source": source,
        "name": name,
        "title": f"{paper_name(source)}, {name}",
        "metric": printed_table.metrics_of(table),
        "notes": printed_table.notes(table),
        "columns": {"Method": False} | dict.fromkeys(tasks, True),
        "rows": rows,
        "verdicts": verdict_counts(table),
        "measured": printed_table.is_measured(table),
    }


# --- Runs ---


def commands(suite: str) -> Json:
    """What a reader types before the id of a run, to make it alone, and before the scores of
    several, which the workflow makes; and the folder of these scores. Configurations that are not
    of the project are called FILE."""
    of_project = {path.stem for path in config.SUITES.glob("*.yaml")}
    file = f"config/{suite}.yaml" if suite in of_project else "FILE"
    return {
        "run": f"python -m bench runs --suite {shlex.quote(f'results/{suite}')} --only",
        # A --configfile takes several files; another option ends the list.
        "workflow": f"snakemake --configfile {file} --cores 4",
        "scores": shlex.quote(f"results/{suite}/scores/"),
    }


def _run_data(run: RunResults, origins: list[Facts], scores: str) -> Json:
    """A run; its provenance is appended to `origins` unless an equal one is there."""
    outcome = run.provenance.get("outcome", {})
    data: Json = run.plan.model_dump(include={"id", "backbone", "setting", "seed"})
    data |= {"status": run.status, "reason": run.reason, "date": run.provenance.get("date")}
    data |= {name: outcome.get(name) for name in ("steps", "best_step", "best_dev", "seconds")}
    if run.provenance:
        origin = _origin(run.provenance)
        if origin not in origins:
            origins.append(origin)
        data |= {"origin": origins.index(origin), "file": f"{scores}/{quote(run.plan.id)}.json"}
    if outcome.get("curve"):
        data["curve"] = curve_columns(outcome["curve"])
    return {name: value for name, value in data.items() if value not in (None, "")}


def curve_columns(points: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """A training curve as columns, thinned evenly to `CURVE_POINTS`; the first and the last point
    are kept."""
    last = len(points) - 1
    indices = sorted({round(index * last / (CURVE_POINTS - 1)) for index in range(CURVE_POINTS)})
    kept = [points[index] for index in indices]
    columns = {name: [_rounded(point.get(name)) for point in kept] for name in CURVE}
    columns = {name: values for name, values in columns.items() if set(values) != {None}}
    return {"step": [point["step"] for point in kept], **columns}


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


def _text(value: Any) -> str:
    """A value of a provenance as text; empty and false fields are left out."""
    if isinstance(value, Mapping):
        known = [key for key, field in value.items() if field is not None and field is not False]
        return ", ".join(f"{key} {_text(value[key])}" for key in known)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(_text, value))
    return str(value)


def _provenance(suite: SuiteResults) -> dict[str, list[str]]:
    """Each field of the scores' provenance with its distinct values; with several, how many runs
    have each."""
    provenances = [run.provenance for run in suite.runs if run.provenance]
    counts: dict[str, Counter[str]] = {}
    for provenance in provenances:
        for title, text in _origin(provenance):
            counts.setdefault(title, Counter())[text] += 1
    rows = {title: list(texts) for title, texts in counts.items()}
    for title, texts in counts.items():
        if len(texts) > 1:
            rows[title] = [f"{text} ({counted(n, 'run')})" for text, n in texts.most_common()]
    dates = [str(provenance["date"]) for provenance in provenances if provenance.get("date")]
    if dates:
        rows["Scored"] = [" to ".join(dict.fromkeys((min(dates), max(dates))))]
    statuses = Counter(run.status for run in suite.runs)
    rows["Runs"] = [f"{count} {status}" for status, count in statuses.items()]
    return rows


def _analyses(suite: SuiteResults) -> dict[str, list[tuple[str, Any]]]:
    """The analyses that are shown as tables: name -> (title of the run, result).

    "missing" lists analyses without a result: (analysis and run, reason).
    """
    analyses: dict[str, list[tuple[str, Any]]] = {}
    for run in suite.runs:
        title = f"{named(run.plan.label, run.plan.setting)}, {run.plan.backbone}"
        if run.plan.seed is not None:
            title += f", seed {run.plan.seed}"
        for name, result in run.analyses.items():
            if "reason" in result:
                analyses.setdefault("missing", []).append((f"{name} of {title}", result["reason"]))
            elif name == "alignment":
                for task, parts in result.items():
                    for part, values in parts.items():
                        shown = [
                            score_text(values[of], nan, 3) for of in ("alignment", "uniformity")
                        ]
                        analyses.setdefault(name, []).append([title, task, part, *shown])
            elif name in ("memory", "nearest"):
                analyses.setdefault(name, []).append((title, result))
    return analyses
