"""The page of a judged suite: a folder that works from disk, with its result first, then its
systems, every printed number that can be compared, and the runs of each.

The page's script reads `data`: `runs`, `origins` (distinct provenances), and `entries`, one per
number that can be opened. Table cells refer to entries by index, entries to runs, runs to origins.
"""

import shutil
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mode
from typing import Any
from urllib.parse import quote

from bench.judged.rows import Judged, LeaderboardRow, NumberRow, RunRow, RunScores, SystemRow
from bench.report import coverage, printed_table, tables
from bench.report.formats import (
    TEMPLATES,
    TextTable,
    backbone_text,
    paragraphs,
    rendered,
    score_text,
    text_table,
)
from bench.report.leaderboard import (
    IN_DEV,
    difference_title,
    legend,
    shown_leaderboard,
    shown_leaderboards,
)
from bench.report.summary import result
from bench.utils.errors import counted
from bench.utils.files import atomic_file, write_text
from bench.utils.groups import grouped

_CURVE = {
    "dev": "Selection score (Spearman x 100)",
    "loss": "Training loss",
    "alignment": "Alignment",
    "uniformity": "Uniformity",
}
CURVE_POINTS = 60  # as many as a chart 280 pixels wide can show
SCORE_DIGITS = 4  # decimals in the page's data; the tables show two

Json = dict[str, Any]
Facts = Sequence[Sequence[str]]  # the title and text of each


def render_page(judged: Judged, figures: Path, out: Path, scores: str) -> None:
    """Write `index.html`, what it needs and `figures/` into `out`, beside the rendered tables;
    other files there stay.

    Args:
        figures: folder of the suite's rendered figures.
        scores: the address of the folder of scores, to which the page links.
    """
    content = page_content(judged, scores)
    content["pictures"] = {path.stem: _picture(path) for path in sorted(figures.glob("*.png"))}
    # A name with a dot in front is a file that is still being written, or was when its process was
    # killed.
    for file in figures.glob("[!.]*"):
        with atomic_file(out / "figures" / file.name) as copy:
            shutil.copyfile(file, copy)  # without times and modes, which some file systems refuse
    for name in ("page.css", "page.js"):
        write_text(out / name, (TEMPLATES / name).read_text(encoding="utf-8"))
    write_text(out / "index.html", rendered("page.html", **content))


def _picture(path: Path) -> Json:
    """A figure's address, its size in pixels, and its other file formats."""
    width, height = struct.unpack(">II", path.read_bytes()[16:24])  # www.w3.org/TR/png/#11IHDR
    formats = [name for name in ("pdf", "csv") if path.with_suffix(f".{name}").is_file()]
    address = f"figures/{quote(path.stem)}"
    return {"address": address, "width": width, "height": height, "formats": formats}


@dataclass(frozen=True)
class LeaderboardLine:
    """A row of a leaderboard."""

    key: str  # of its entry
    row: SystemRow
    name: str
    more: list[str]  # its backbone and its corpus, if they are not those of most rows
    scores: dict[str, str]  # by column


@dataclass(frozen=True)
class LeaderboardSection:
    """A leaderboard, with the column that sums it up before the others."""

    leaderboard: LeaderboardRow
    caption: str
    columns: dict[str, bool]  # headings, and whether a column is right-aligned
    lines: list[LeaderboardLine]


def page_content(judged: Judged, scores: str) -> Json:
    """The content of the page, apart from its pictures; `scores` is the address of the folder of
    scores."""
    numbers, printed = judged.numbers, {}
    # Where nothing can be compared, the printed numbers alone would be a third of the page.
    if any(number.is_comparable for number in numbers):
        printed = printed_table.printed_tables(numbers)
    deviating = [row for row in judged.world if row.verdict.kind != "reproduced"]
    leaderboards = [
        _leaderboard(judged, leaderboard)
        for leaderboard in shown_leaderboards(judged)
        if judged.leaderboard_systems(leaderboard.name)
    ]
    # The script finds runs and entries by their places, which are shorter than ids and addresses.
    places = {run.id: place for place, run in enumerate(judged.runs)}
    entries: dict[str, Json] = {}
    for section in leaderboards:
        for line in section.lines:
            entries[line.key] = _system_entry(line, places)
    for table in printed.values():
        for row in table.rows:
            for cell in row.cells.values():
                name = cell.number.label if table.is_sweep else row.name
                entries[cell.number.address] = _number_entry(cell.number, name, places)
    # Most runs share a provenance, whose texts would be most of the page.
    origins: list[Facts] = []
    runs = [_run_data(run, origins, scores) for run in judged.runs]
    return {
        "judged": judged,
        "leaderboards": leaderboards,
        "result": result(judged),
        "legend": legend(judged.suite, judged.systems),
        "world": tables.world_table(deviating) if deviating else None,
        "world_in_short": tables.world_in_short(judged.world),
        "in_short": tables.in_short(numbers),
        "verdicts": printed_table.verdict_counts(numbers),
        "summaries": tables.summaries(judged),
        # Tables that nothing of ours can be compared with stand last.
        "printed": sorted(printed.items(), key=lambda item: not item[1].is_comparable),
        "stages": coverage.COVERAGE_STAGES,
        "coverage": coverage.coverage(judged),
        "left_out": _left_out(judged),
        "alignment": _alignment(judged.runs),
        "provenance": _provenance(judged.runs),
        "places": {key: place for place, key in enumerate(entries)},
        "data": {
            "runs": runs,
            "origins": origins,
            "entries": list(entries.values()),
            "curve": list(_CURVE.items()),
        },
    }


def _entry(
    title: str, facts: Facts, sides: Iterable[RunScores], places: Mapping[str, int], **more: str
) -> Json:
    """The entry that opens for a number: its facts, and the runs behind it, by their places."""
    lines = []
    for side in sides:
        runs = [places[run] for run in side.runs]
        lines.append({"name": side.name, "runs": runs, "scores": _rounded(side.scores)})
    return {"title": title, **more, "facts": facts, "sides": lines}


def _rounded(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else round(value, SCORE_DIGITS) for value in values]


# --- Leaderboards ---


def _leaderboard(judged: Judged, leaderboard: LeaderboardRow) -> LeaderboardSection:
    suite, rows = judged.suite, judged.leaderboard_systems(leaderboard.name)
    table = shown_leaderboard(suite, leaderboard, rows)
    # The column that sums the leaderboard up stands before the others; columns without values are
    # left out.
    titles = (
        leaderboard.overall,
        difference_title(leaderboard),
        *leaderboard.columns,
        IN_DEV,
    )
    scored = {name: True for name in titles if name in table.columns}
    usual = [mode(row.backbone for row in rows), mode(row.corpus for row in rows)]
    lines = []
    for place, (row, texts) in enumerate(zip(rows, table.rows, strict=True)):
        more = [text for text in (row.backbone, row.corpus) if text not in usual]
        scores = {name: texts[name] for name in scored}
        # Two systems may have one name, so the key has the place.
        key = f"{leaderboard.name} {place}"
        lines.append(LeaderboardLine(key, row, texts["Method"], more, scores))
    columns = {"Method": False, "n": True} | scored
    if "Remark" in table.columns:
        columns["Remark"] = False
    where = backbone_text(usual[0]) + (f", trained on {usual[1]}" if usual[1] else "")
    caption = f"{leaderboard.planned.title}; unless a row says otherwise, {where}."
    return LeaderboardSection(leaderboard, f"{caption} {suite.about_names}", columns, lines)


def _system_entry(line: LeaderboardLine, places: Mapping[str, int]) -> Json:
    row = line.row
    runs = RunScores(name="Runs", runs=row.runs, scores=row.run_averages)
    facts = [("Run", f"{row.method}@{row.setting}"), *line.scores.items(), ("Verdict", row.reason)]
    return _entry(f"{row.name}, {row.backbone}", facts, [runs], places)


# --- Printed and reproduced ---


def _number_entry(number: NumberRow, name: str, places: Mapping[str, int]) -> Json:
    """The entry of a number in a row of this name."""
    where = f"{name}, {number.backbone}, {number.task} {number.split}".strip()
    title = f"{number.paper_title}, {number.table}: {where}"
    if number.our_split != number.split:
        title += f" (ours: {number.our_split})"
    more = {"address": number.address}
    if number.command:
        more["command"] = number.command
    facts = [line.split(": ", 1) for line in paragraphs("number.txt", number=number)]
    return _entry(title, facts, number.runs, places, **more)


def _left_out(judged: Judged) -> TextTable:
    """The printed rows without a recipe."""
    lines = []
    for alike in grouped(
        coverage.without_recipe(judged), "source", "table", "label", "backbone", "reason"
    ):
        row = alike[0]
        lines.append({
            "Table": f"{row.paper}, {row.table}",
            "Method": row.label,
            "Backbone": row.backbone,
            "Numbers": str(len(alike)),
            "Reason": row.reason,
        })  # fmt: skip
    return text_table(lines, ["Numbers"])


# --- Runs ---


def _alignment(runs: Sequence[RunRow]) -> TextTable:
    """Alignment and uniformity by part of a task."""
    lines = []
    for run in runs:
        for analysis in run.analyses:
            for task, parts in analysis.result.items():
                for part, values in parts.items():
                    lines.append({
                        "Run": run.title,
                        "Data": task,
                        "Part": part,
                        "Alignment": score_text(values["alignment"], digits=3),
                        "Uniformity": score_text(values["uniformity"], digits=3),
                    })  # fmt: skip
    return text_table(lines, ["Alignment", "Uniformity"])


_RUN_FACTS = {
    "id", "backbone", "setting", "seed", "status", "reason", "date", "steps", "best_step",
    "best_dev", "seconds",
}  # fmt: skip


def _run_data(run: RunRow, origins: list[Facts], scores: str) -> Json:
    """A run; its provenance is appended to `origins` unless an equal one is there."""
    data: Json = run.model_dump(include=_RUN_FACTS)
    if run.status != "missing":
        origin = _origin(run)
        if origin not in origins:
            origins.append(origin)
        data |= {"origin": origins.index(origin), "file": f"{scores}/{quote(run.id)}.json"}
    if run.curve:
        data["curve"] = thinned(run.curve)
    return {name: value for name, value in data.items() if value not in (None, "")}


def thinned(curve: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The columns of a training curve, thinned evenly to `CURVE_POINTS` with both ends."""
    end = len(curve["step"]) - 1
    # A set, since a short curve has fewer points than there are places.
    places = sorted({round(index * end / (CURVE_POINTS - 1)) for index in range(CURVE_POINTS)})
    names = [name for name in ("step", *_CURVE) if name in curve]
    return {name: _rounded(curve[name][place] for place in places) for name in names}


_ORIGIN = {
    "Code": "code",
    "Data": "data",
    "Corpora": "corpora",
    "Device": "device",
    "Arithmetic": "arithmetic",
    "Libraries": "versions",
}  # title -> field of a run's origin


def _origin(run: RunRow) -> Facts:
    """The provenance of scores, as titled texts."""
    return [
        (title, _text(run.origin[name])) for title, name in _ORIGIN.items() if run.origin.get(name)
    ]


def _text(value: Any) -> str:
    """A value of a provenance as text; empty and false fields are left out."""
    if isinstance(value, Mapping):
        return ", ".join(
            f"{key} {_text(field)}"
            for key, field in value.items()
            if field is not None and field is not False
        )
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(_text, value))
    return str(value)


def _provenance(runs: Sequence[RunRow]) -> dict[str, list[str]]:
    """The distinct values of each field of the scores' provenance, with their numbers of runs."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        when = ("Scored", (run.date or "–")[:10])
        for title, text in [*_origin(run), when, ("Runs", run.status)]:
            counts[title][text] += 1
    values = {}
    for title, texts in counts.items():
        values[title] = [f"{text} ({counted(n, 'run')})" for text, n in texts.most_common()]
    return values
