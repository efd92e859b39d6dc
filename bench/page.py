"""The page of a suite: one HTML file that opens from disk, with tables, verdicts, figures and provenance."""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.compare import Suite, cells, read_suite
from bench.errors import UserError
from bench.figures import board_stem, figure_stems
from bench.files import write_text
from bench.tables import (
    captioned,
    html_parts,
    leaderboard_caption,
    leaderboards,
    printed_tables,
    shown_leaderboard,
    shown_table,
    templates,
)
from bench.verdict import MEANINGS, SYMBOLS


def _image(figures: Path, stem: str) -> str:
    """A figure as a data address, so that the page stays whole wherever it is taken."""
    try:
        return "data:image/png;base64," + base64.b64encode((figures / f"{stem}.png").read_bytes()).decode("ascii")
    except FileNotFoundError:
        raise UserError(f"{figures / stem}.png does not exist; render the figures of this suite first") from None


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items() if item is not None)
    return str(value)


def _provenance(suite: Suite) -> list[tuple[str, list[str]]]:
    """What the scores say of their origin: each field with its distinct values, and how many runs have them."""

    def counted(values: Iterable[str]) -> list[str]:
        found = Counter(values)
        return [f"{value} ({count} runs)" if len(found) > 1 else value for value, count in found.most_common()]

    fields = [
        ("Code", "code"),
        ("Data", "data"),
        ("Corpora", "corpora"),
        ("Device", "device"),
        ("Libraries", "versions"),
    ]
    known = suite.provenance
    rows = [(title, counted(_text(entry[name]) for entry in known if entry.get(name))) for title, name in fields]
    dates = sorted(str(entry["date"]) for entry in known if entry.get("date"))
    rows.append(("Scored", [" to ".join(dict.fromkeys((dates[0], dates[-1])))] if dates else []))
    rows.append(("Runs", [f"{count} {status}" for status, count in Counter(run.status for run in suite.runs).items()]))
    return [(title, values) for title, values in rows if values]


def render_page(suite_folder: Path, figures: Path, out: Path) -> None:
    """Write `index.html` into `out`, with the figures of folder `figures` inside it.

    Raises:
        UserError: the suite's files or a figure are missing, or `out` cannot be written.
    """
    suite_folder, figures, out = Path(suite_folder), Path(figures), Path(out)
    suite = read_suite(suite_folder)
    all_cells = cells(suite)
    stems = figure_stems(all_cells)
    sections = []
    for stem, table in printed_tables(all_cells).items():
        sections.append(
            {
                "stem": stem,
                "title": ", ".join(table.iloc[0][["source", "table"]]),
                "table": html_parts(shown_table(table), captioned(suite, table)),
                "figure": _image(figures, stem) if stem in stems else None,
                "verdicts": Counter(table["verdict"]),
                "measured": bool((table["n"] > 0).any()),
            }
        )
    page = templates().get_template("page.html")
    text = page.render(
        suite=suite,
        boards=[
            {
                "stem": name,
                "table": html_parts(shown_leaderboard(board), leaderboard_caption(suite, name)),
                "figure": _image(figures, board_stem(name)),
            }
            for name, board in leaderboards(suite).items()
        ],
        sections=sorted(sections, key=lambda section: not section["measured"]),
        verdicts=Counter(all_cells["verdict"]),
        symbols=SYMBOLS,
        meanings=MEANINGS,
        provenance=_provenance(suite),
        tables=Path(os.path.relpath(suite_folder / "tables", out)).as_posix(),
    )
    write_text(out / "index.html", text)
