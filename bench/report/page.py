"""The page of a suite: a folder that works from disk, with its systems first, then every printed
number, and the runs of each.

The page's script reads `data`: `runs`, `origins` (distinct provenances), and `entries`, one per
number that can be opened. Table cells refer to entries by index, entries to runs, runs to origins.
"""

import os
import shlex
import shutil
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from bench.datasets.metrics import AGGREGATIONS
from bench.judge.reproduction import Cell, select
from bench.judge.statistics import LEVEL
from bench.judge.verdict import VERDICT_MEANINGS, VERDICT_SYMBOLS
from bench.judge.world import WorldCell
from bench.registry.backbones import NO_BACKBONE
from bench.report import leaderboard, printed_table, tables
from bench.report.coverage import STAGES, coverage, coverage_of_numbers, without_recipe
from bench.report.figures.compared import board_stem
from bench.report.figures.measured import load_figures
from bench.report.formats import TEMPLATES, alignments, score_text, templates
from bench.report.hyperparameters import hyperparameter_sections, recipe_of
from bench.report.printed_table import ShownRow, ShownTable
from bench.reported import SOURCES, paper_name
from bench.reported.address import address, reproduce_command, row_name
from bench.reported.audit import FINDING_KINDS, findings
from bench.results.records import Point, Provenance
from bench.results.suite_results import RunResults, SuiteResults
from bench.runs import config
from bench.runs.paths import comparison_stem
from bench.utils.errors import counted
from bench.utils.files import atomic_file, write_text

RULE = Path(__file__).parents[2] / "docs" / "statistics.md"  # only in a checkout
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


def render_page(
    suite: SuiteResults,
    cells: Sequence[Cell],
    world: Sequence[WorldCell],
    boards: Mapping[str, pd.DataFrame],
    figures: Path,
    out: Path,
    tables: Path,
    scores: Path,
    place: Path | None = None,
) -> None:
    """Write `index.html`, what it needs and `figures/` into `out`; other files there stay.

    Args:
        cells, world, boards: of the suite, by `judge`, `judge_world` and `leaderboards`.
        figures: folder of its rendered figures.
        tables, scores: folders of its rendered tables and its scores, to which the page links.
        place: where `out` will be moved to, for the page's links; by default it stays.
    """
    pictures = {path.stem: _picture(path) for path in sorted(figures.glob("*.png"))}

    def relative(folder: Path) -> str:
        return quote(Path(os.path.relpath(folder, place or out)).as_posix())

    content = page_content(suite, cells, world, boards, scores=relative(scores))
    drawn = {figure.stem: figure.heading for figure in load_figures() if figure.stem in pictures}
    content |= {"pictures": pictures, "drawn": drawn, "tables": relative(tables)}
    if RULE.is_file():  # a copy, so that the page is the same in every folder
        content["statistics"] = RULE.name
        write_text(out / RULE.name, RULE.read_text(encoding="utf-8"))
    for file in figures.glob("[!.]*"):
        with atomic_file(out / "figures" / file.name) as copy:
            shutil.copyfile(file, copy)  # without times and modes, which some file systems refuse
    for name in ("page.css", "page.js"):
        write_text(out / name, (TEMPLATES / name).read_text(encoding="utf-8"))
    write_text(out / "index.html", templates().get_template("page.html").render(content))


def _picture(path: Path) -> Json:
    """A figure's address, its size in pixels, and its other file formats."""
    width, height = struct.unpack(">II", path.read_bytes()[16:24])  # www.w3.org/TR/png/#11IHDR
    others = [kind for kind in ("pdf", "csv") if path.with_suffix(f".{kind}").is_file()]
    picture = {"address": f"figures/{quote(path.stem)}", "width": width, "height": height}
    return picture | {"others": others}


def page_content(
    suite: SuiteResults,
    cells: Sequence[Cell],
    world: Sequence[WorldCell],
    boards: Mapping[str, pd.DataFrame],
    scores: str,
) -> Json:
    """What the page shows of a suite, apart from its figures; `scores` is the address of the folder
    of scores."""
    audit = findings()
    entries: list[Json] = []
    shown_boards = [_board(suite, name, board, entries) for name, board in boards.items()]
    printed = printed_table.printed_tables(cells)
    sections = [_section(suite, stem, table, entries) for stem, table in printed.items()]
    origins: list[Facts] = []
    runs = [_run_data(run, origins, scores) for run in suite.runs]
    positions = {run.plan.id: position for position, run in enumerate(suite.runs)}
    for entry in entries:
        for side in entry["sides"]:
            side["runs"] = [positions[run.plan.id] for run in side["runs"]]
    return {
        "suite": suite,
        "boards": [board for board in shown_boards if board["rows"]],
        "sections": sorted(sections, key=lambda section: not section["table"].is_comparable),
        "in_short": tables.in_short(cells),
        "world": tables.world_table(world) if world else None,
        "world_in_short": tables.world_in_short(world),
        "is_apart": any(cell.verdict.kind in ("lower", "higher") for cell in world),
        "is_comparable": any(cell.is_comparable for cell in cells),
        "sources": {cell.number.source: paper_name(cell.number.source) for cell in cells},
        "summaries": tables.summaries(suite, cells),
        "alignments": alignments,
        "verdicts": tables.verdict_counts(cells),
        "symbols": VERDICT_SYMBOLS,
        "meanings": VERDICT_MEANINGS,
        "stages": STAGES,
        "counts": coverage(coverage_of_numbers(suite, cells)).to_dict("records"),
        "without_recipe": list(without_recipe().itertuples()),
        "findings": {
            title: [finding for finding in audit if finding.kind == kind]
            for kind, title in FINDING_KINDS.items()
        },
        "analyses": _analyses(suite),
        "provenance": _provenance(suite),
        "hyperparameters": hyperparameter_sections(),
        "recipe": recipe_of(suite),
        "score": score_text,
        "paper": paper_name,
        "address": address,
        "row_name": row_name,
        "data": {
            "runs": runs,
            "origins": origins,
            "entries": entries,
            "curve": list(CURVE.items()),
            "commands": commands(suite.plan.suite),
        },
    }


def _side(name: str, runs: Sequence[RunResults], scores: Iterable[float | None]) -> Json:
    return {"name": name, "runs": runs, "scores": list(map(_rounded, scores))}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, SCORE_DIGITS)


# --- Leaderboards ---


def _board(suite: SuiteResults, name: str, board: pd.DataFrame, entries: list[Json]) -> Json:
    """One of the suite's own tables, what sums it up before its other columns."""
    planned, shown = suite.planned(name), leaderboard.shown_leaderboard(suite, name, board)
    overall, *others = sorted(leaderboard.columns(suite, name), key=lambda task: task != "Avg")
    first = [overall, *[leaderboard.difference_title(suite, name)] * ("verdict" in board)]
    by_id = {run.plan.id: run for run in suite.runs}
    rows = []
    for row, texts in zip(board.to_dict("records"), shown.to_dict("records"), strict=True):
        runs = [by_id[run_id] for run_id in row["run_ids"]]
        place = "no backbone" if row["backbone"] == NO_BACKBONE.name else row["backbone"]
        scores = {column: texts[column] for column in (*first, *others)}
        rows.append(texts | row | {"place": place, "entry": len(entries), "scores": scores})
        entries.append({
            "title": f"{row['name']}, {row['backbone']}",
            "facts": [("Run", f"{row['method']}@{row['setting']}"), *scores.items()],
            "sides": [_side("Runs", runs, [run.points(planned, "Avg") for run in runs])],
        })  # fmt: skip
    columns = {"Method": False, "n": True} | dict.fromkeys([*first, *others], True)
    return {
        "stem": name,
        "figure": board_stem(name),
        "comparison": comparison_stem(name),
        "family": planned.family,
        "caption": leaderboard.about(suite, name, board),
        "columns": columns | ({"Remark": False} if "Remark" in shown else {}),
        "rows": rows,
    }


# --- Printed and reproduced ---


def facts(cell: Cell) -> Facts:
    """What is known of a printed number, as titled texts: the lines of `templates/number.txt`."""
    digits = cell.number.our_metric.digits
    text = templates().get_template("number.txt").render(
        cell=cell, printed=cell.number.text, digits=digits,
        score=score_text, level=LEVEL, rounded=lambda value: f"{value:.{digits}f}",
        aggregated=AGGREGATIONS, symbols=VERDICT_SYMBOLS, meanings=VERDICT_MEANINGS,
    )  # fmt: skip
    parts = (line.partition(": ") for line in text.splitlines())
    return [(title, fact) for title, _, fact in parts]


def _section(suite: SuiteResults, stem: str, table: ShownTable, entries: list[Json]) -> Json:
    """A printed table, with the index of each number's entry."""
    numbers = {}
    for row in table.rows:
        for shown in row.cells.values():
            numbers[shown.cell.number] = len(entries)
            entries.append(_entry(suite, table, row, shown.cell))
    return {
        "stem": stem,
        "table": table,
        "title": f"{paper_name(table.source)}, {table.name}",
        "metric": printed_table.metrics_of(table.cells),
        "notes": printed_table.notes(table.cells),
        "verdicts": tables.verdict_counts(table.cells),
        "entries": numbers,
    }


def _entry(suite: SuiteResults, table: ShownTable, row: ShownRow, cell: Cell) -> Json:
    """What a printed number opens: facts about it, and the runs of each of its sides."""
    number = cell.number
    name = row_name(number.method, number.variant) if table.is_sweep else row.name
    where = f"{name}, {number.backbone}, {number.task} {number.split}".strip()
    title = f"{SOURCES[number.source]}, {number.table}: {where}"
    if number.our_split != number.split:
        title += f" (ours: {number.our_split})"
    entry = {"title": title, "facts": facts(cell), "sides": _sides(suite, cell)}
    entry["address"] = address(number)
    return entry | ({"command": reproduce_command(number)} if number.run else {})


def _sides(suite: SuiteResults, cell: Cell) -> list[Json]:
    """The runs behind a printed number: those compared, those subtracted, both in the other
    setting, and the published checkpoint."""
    number = cell.number
    texts = [text for text in (number.run, number.minus) if text]
    if cell.other:
        texts += [f"{text.partition('@')[0]}@{cell.other.setting}" for text in texts]
    backbones = dict.fromkeys(texts, number.our_backbone)
    if number.checkpoint:
        backbones[number.checkpoint] = NO_BACKBONE.name
    sides = []
    for text, backbone in backbones.items():
        runs = select(suite, text, backbone)
        if runs:
            measured_on = runs[0].plan.backbone
            name = text if measured_on == NO_BACKBONE.name else f"{text} on {measured_on}"
            sides.append(_side(name, runs, (run.scores.get(number.key) for run in runs)))
    return sides


# --- Runs ---


def commands(suite: str) -> Json:
    """What a reader types before the id of a run, to make it alone, and before the scores of
    several, which the workflow makes; and the folder of these scores. Configurations that are not
    of the project are called FILE.yaml."""
    of_project = {path.stem for path in config.SUITES.glob("*.yaml")}
    file = suite if suite in of_project else "FILE.yaml"
    return {
        "run": f"python -m bench job --suite {shlex.quote(f'results/{suite}')}",
        "workflow": f"python -m bench run {file} --cores 4",
        "scores": shlex.quote(f"results/{suite}/scores/"),
    }


def _run_data(run: RunResults, origins: list[Facts], scores: str) -> Json:
    """A run; its provenance is appended to `origins` unless an equal one is there."""
    outcome = run.provenance.outcome
    data: Json = run.plan.model_dump(include={"id", "backbone", "setting", "seed"})
    data |= {"status": run.status, "reason": run.reason, "date": run.provenance.date}
    data |= {name: getattr(outcome, name) for name in ("steps", "best_step", "best_dev", "seconds")}
    if run.status != "missing":
        origin = _origin(run.provenance)
        if origin not in origins:
            origins.append(origin)
        data |= {"origin": origins.index(origin), "file": f"{scores}/{quote(run.plan.id)}.json"}
    if outcome.curve:
        data["curve"] = curve_columns(outcome.curve)
    return {name: value for name, value in data.items() if value not in (None, "")}


def curve_columns(points: Sequence[Point]) -> dict[str, list[Any]]:
    """A training curve as columns, thinned evenly to `CURVE_POINTS`; the first and the last point
    are kept."""
    last = len(points) - 1
    indices = sorted({round(index * last / (CURVE_POINTS - 1)) for index in range(CURVE_POINTS)})
    kept = [points[index] for index in indices]
    columns = {name: [_rounded(getattr(point, name)) for point in kept] for name in CURVE}
    columns = {name: values for name, values in columns.items() if set(values) != {None}}
    return {"step": [point.step for point in kept], **columns}


ORIGIN = {
    "Code": "code",
    "Data": "data",
    "Corpora": "corpora",
    "Device": "device",
    "Arithmetic": "arithmetic",
    "Libraries": "versions",
}  # title -> field of a provenance


def _origin(provenance: Provenance) -> Facts:
    """The provenance of scores, as titled texts."""
    written = provenance.as_written()
    known = [(title, written.get(name)) for title, name in ORIGIN.items()]
    return [(title, _text(value)) for title, value in known if value]


def _text(value: Any) -> str:
    """A value of a provenance as text; empty and false fields are left out."""
    if isinstance(value, Mapping):
        known = [key for key, field in value.items() if field is not None and field is not False]
        return ", ".join(f"{key} {_text(value[key])}" for key in known)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(_text, value))
    return str(value)


def _provenance(suite: SuiteResults) -> dict[str, list[str]]:
    """The distinct values of each field of the scores' provenance, with their numbers of runs."""
    counts: dict[str, Counter[str]] = {}
    for run in suite.runs:
        day = run.provenance.date[:10] or "–"
        for title, text in [*_origin(run.provenance), ("Scored", day), ("Runs", run.status)]:
            counts.setdefault(title, Counter())[text] += 1
    return {
        title: [f"{text} ({counted(n, 'run')})" for text, n in texts.most_common()]
        for title, texts in counts.items()
    }


def _analyses(suite: SuiteResults) -> dict[str, list[tuple[str, Any]]]:
    """The analyses that are shown as tables, by name: (title of the run, result); "missing" lists
    those without a result: (analysis and run, reason)."""
    analyses: dict[str, list[tuple[str, Any]]] = {}
    for run in suite.runs:
        title = f"{run.name}, {run.plan.backbone}"
        if run.plan.seed is not None:
            title += f", seed {run.plan.seed}"
        for name, result in run.analyses.items():
            if "reason" in result:
                analyses.setdefault("missing", []).append((f"{name} of {title}", result["reason"]))
            elif name in ("alignment", "memory", "nearest"):
                analyses.setdefault(name, []).append((title, result))
    return analyses
