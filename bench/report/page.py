"""The page of a judged suite: a folder that works from disk, with its systems first, then every
printed number, and the runs of each.

The page's script reads `data`: `runs`, `origins` (distinct provenances), and `entries`, one per
number that can be opened. Table cells refer to entries by index, entries to runs, runs to origins.
"""

import shutil
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench.judged.rows import BoardRow, Judged, NumberRow, RunRow, RunScores
from bench.report import coverage, leaderboard, printed_table, tables
from bench.report.formats import TEMPLATES, rendered
from bench.utils.errors import counted
from bench.utils.files import atomic_file, write_text

RULE = Path(__file__).parents[2] / "docs" / "statistics.md"  # only in a checkout
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


def render_page(judged: Judged, figures: Path, out: Path, scores: str = "../scores") -> None:
    """Write `index.html`, what it needs and `figures/` into `out`, beside the rendered tables;
    other files there stay.

    Args:
        figures: folder of the suite's rendered figures.
        scores: the address of the folder of scores, to which the page links.
    """
    content = page_content(judged, scores)
    content["pictures"] = {path.stem: _picture(path) for path in sorted(figures.glob("*.png"))}
    if RULE.is_file():  # copies, so that the page is the same in every folder
        content["statistics"] = RULE.name
        for file in (RULE, RULE.with_suffix(".png")):
            _copy(file, out)
    for file in figures.glob("[!.]*"):
        _copy(file, out / "figures")
    for name in ("page.css", "page.js"):
        write_text(out / name, (TEMPLATES / name).read_text(encoding="utf-8"))
    write_text(out / "index.html", rendered("page.html", **content))


def _copy(file: Path, folder: Path) -> None:
    with atomic_file(folder / file.name) as copy:
        shutil.copyfile(file, copy)  # without times and modes, which some file systems refuse


def _picture(path: Path) -> Json:
    """A figure's address, its size in pixels, and its other file formats."""
    width, height = struct.unpack(">II", path.read_bytes()[16:24])  # www.w3.org/TR/png/#11IHDR
    formats = [name for name in ("pdf", "csv") if path.with_suffix(f".{name}").is_file()]
    address = f"figures/{quote(path.stem)}"
    return {"address": address, "width": width, "height": height, "formats": formats}


def page_content(judged: Judged, scores: str) -> Json:
    """The content of the page, apart from its pictures; `scores` is the address of the folder of
    scores."""
    places = {run.id: place for place, run in enumerate(judged.runs)}
    entries: list[Json] = []

    def add(title: str, facts: Facts, sides: Iterable[RunScores], **more: str) -> int:
        """Add an entry to the data, and return its index."""
        shown = []
        for side in sides:
            runs = [places[run] for run in side.runs]
            shown.append({"name": side.name, "runs": runs, "scores": _rounded(side.scores)})
        entries.append({"title": title, **more, "facts": facts, "sides": shown})
        return len(entries) - 1

    boards = []
    for board in leaderboard.shown_boards(judged):
        if judged.board_systems(board.name):
            boards.append(_board(judged, board, add))
    printed = printed_table.printed_tables(judged.numbers)
    numbers: dict[str, int] = {}
    for table in printed.values():
        for row in table.rows:
            for shown in row.cells.values():
                number = shown.number
                name = number.label if table.is_sweep else row.name
                numbers[number.address] = _add_number(number, name, add)
    origins: list[Facts] = []
    runs = [_run_data(run, origins, scores) for run in judged.runs]
    return {
        "judged": judged,
        "boards": boards,
        "printed": sorted(printed.items(), key=lambda named: not named[1].is_comparable),
        "numbers": numbers,
        "tables": tables,
        "coverage": coverage,
        "provenance": _provenance(judged.runs),
        "data": {
            "runs": runs,
            "origins": origins,
            "entries": entries,
            "curve": list(_CURVE.items()),
        },
    }


def _rounded(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else round(value, SCORE_DIGITS) for value in values]


# --- Leaderboards ---


def _board(judged: Judged, board: BoardRow, add: Callable[..., int]) -> Json:
    """One of the suite's own tables, with the column that sums it up before the others."""
    suite, rows = judged.suite, judged.board_systems(board.name)
    shown = leaderboard.shown_leaderboard(suite, board, rows)
    columns = dict.fromkeys(
        [board.overall, leaderboard.difference_title(board), *board.columns, leaderboard.IN_DEV]
    )
    lines = []
    for row, texts in zip(rows, shown.rows, strict=True):
        scores = {name: texts[name] for name in columns if name in shown.columns}
        runs = RunScores(name="Runs", runs=row.runs, scores=row.run_averages)
        facts = [("Run", f"{row.method}@{row.setting}"), *scores.items(), ("Verdict", row.why)]
        entry = add(f"{row.name}, {row.backbone}", facts, [runs])
        lines.append({"row": row, "scores": scores, "entry": entry})
    shown_columns = ("Method", "n", *columns, "Remark")
    return {
        "name": board.name,
        "family": board.whole.family,
        "caption": leaderboard.about(suite, board, rows),
        "columns": {name: shown.columns[name] for name in shown_columns if name in shown.columns},
        "lines": lines,
    }


# --- Printed and reproduced ---


def _add_number(number: NumberRow, name: str, add: Callable[..., int]) -> int:
    """Add an entry for a number in a row of this name, and return its index."""
    where = f"{name}, {number.backbone}, {number.task} {number.split}".strip()
    title = f"{number.paper_title}, {number.table}: {where}"
    if number.our_split != number.split:
        title += f" (ours: {number.our_split})"
    more = {"address": number.address}
    if number.command:
        more["command"] = number.command
    lines = rendered("number.txt", number=number).splitlines()
    return add(title, [line.split(": ", 1) for line in lines], number.runs, **more)


# --- Runs ---


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
    """The columns of a training curve, thinned evenly to `CURVE_POINTS`; the first and the last
    point are kept."""
    last = len(curve["step"]) - 1
    kept = sorted({round(index * last / (CURVE_POINTS - 1)) for index in range(CURVE_POINTS)})
    columns = {}
    for name in ("step", *_CURVE):
        if name in curve:
            columns[name] = _rounded(curve[name][index] for index in kept)
    return columns


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
    facts = []
    for title, name in _ORIGIN.items():
        if run.origin.get(name):
            facts.append((title, _text(run.origin[name])))
    return facts


def _text(value: Any) -> str:
    """A value of a provenance as text; empty and false fields are left out."""
    if isinstance(value, Mapping):
        parts = []
        for key, field in value.items():
            if field is not None and field is not False:
                parts.append(f"{key} {_text(field)}")
        return ", ".join(parts)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(_text, value))
    return str(value)


def _provenance(runs: Sequence[RunRow]) -> dict[str, list[str]]:
    """The distinct values of each field of the scores' provenance, with their numbers of runs."""
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        day = (run.date or "–")[:10]
        for title, text in [*_origin(run), ("Scored", day), ("Runs", run.status)]:
            counts.setdefault(title, Counter())[text] += 1
    shown = {}
    for title, texts in counts.items():
        shown[title] = [f"{text} ({counted(n, 'run')})" for text, n in texts.most_common()]
    return shown
