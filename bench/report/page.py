"""The page of a suite: a folder that works from disk, with every printed number and its runs."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench.report import page_data
from bench.report.figures import board_stem
from bench.report.formats import TEMPLATES, templates
from bench.results.suite_results import read_suite
from bench.utils.errors import UserError
from bench.utils.files import atomic_file, write_text

RULE = Path(__file__).parents[2] / "docs" / "statistics.md"  # only in a checkout


def _png_size(path: Path) -> tuple[int, int]:
    """Width and height in pixels, from the header: https://www.w3.org/TR/png/#11IHDR."""
    head = path.read_bytes()[:24]
    if len(head) < 24 or not head.startswith(b"\x89PNG\r\n\x1a\n"):
        raise UserError(f"{path} is not a PNG picture; render the figures of this suite again")
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def _pictures(figures: Path) -> dict[str, dict[str, Any]]:
    """Every figure of a folder by its stem: address, size, and its other file formats."""
    pictures = {}
    for path in sorted(figures.glob("*.png")):
        width, height = _png_size(path)
        others = [kind for kind in ("pdf", "csv") if path.with_suffix(f".{kind}").is_file()]
        picture = {"address": f"figures/{quote(path.stem)}", "width": width, "height": height}
        pictures[path.stem] = picture | {"others": others}
    return pictures


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
        UserError: files of the suite or its figures are missing or damaged, or `out` cannot be
            written.
    """
    suite = read_suite(suite_dir)
    pictures = _pictures(figures)
    first = figures / f"{board_stem('sts')}.png"
    if first.stem not in pictures:
        raise UserError(f"{first} does not exist; render the figures of this suite first")

    def relative(folder: Path) -> str:
        return quote(Path(os.path.relpath(folder, place or out)).as_posix())

    context = page_data.context(suite, scores=relative(suite_dir / "scores"))
    boards, sections = context["boards"], context["sections"]
    beside_tables = {board[name] for board in boards for name in ("figure", "comparison")}
    beside_tables |= {section["stem"] for section in sections}
    others = [stem for stem in pictures if stem not in beside_tables]
    page = templates().get_template("page.html")
    links = {"tables": relative(tables or suite_dir / "tables")}
    if RULE.is_file():  # a copy, so that the page is the same in every folder
        links["statistics"] = RULE.name
        write_text(out / RULE.name, RULE.read_text(encoding="utf-8"))
    text = page.render(**context, **links, pictures=pictures, other_pictures=others)
    for stem, picture in pictures.items():
        for name in (f"{stem}.{kind}" for kind in ("png", *picture["others"])):
            with atomic_file(out / "figures" / name) as temporary:
                shutil.copyfile(figures / name, temporary)
    for name in ("page.css", "page.js"):
        write_text(out / name, (TEMPLATES / name).read_text(encoding="utf-8"))
    write_text(out / "index.html", text)
