"""A table of texts in four formats: CSV, Markdown, LaTeX and HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from bench.datasets.tasks import TASK_ORDER, is_described, is_probing
from bench.utils.files import write_text


def holds_numbers(column: str) -> bool:
    """Whether a column of texts is of scores or counts, which stand to the right."""
    return column in TASK_ORDER or column == "n" or is_described(column) or is_probing(column)


def slug(text: str) -> str:
    """A name for files: lower-case letters, digits, dots and hyphens."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def csv(frame: pd.DataFrame) -> str:
    """A table of numbers as CSV, unrounded; the scores of several seeds are one text, divided by spaces."""

    def text(value: Any) -> Any:
        return " ".join(map(repr, value)) if isinstance(value, tuple) else value

    return frame.map(text).to_csv(index=False, lineterminator="\n")


def markdown_text(text: str) -> str:
    """A text in a cell of Markdown, in one line, that no reader takes for HTML."""
    for sign, written in (("\\", "\\\\"), ("|", "\\|"), ("&", "&amp;"), ("<", "&lt;"), ("\n", " ")):
        text = text.replace(sign, written)
    return text


def markdown(frame: pd.DataFrame, caption: str) -> str:
    """A table of texts in Markdown, with its caption above."""

    def line(texts: Iterable[str]) -> str:
        return "| " + " | ".join(map(markdown_text, texts)) + " |"

    rule = "|" + "---|" * len(frame.columns)
    return "\n".join([caption, "", line(frame.columns), rule, *(line(row) for row in frame.to_numpy())]) + "\n"


# What LaTeX takes for a command, a ligature or an argument, and the signs of our own texts.
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "`": "\\`{}",
    '"': "\\char34{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    **{sign: f"{{{sign}}}" for sign in "[]*"},  # at the beginning of a line they would belong to the end of the last
    "±": "$\\pm$",
    "≈": "$\\approx$",
    "≠": "$\\neq$",
    "↓": "$\\downarrow$",
    "↑": "$\\uparrow$",
    "×": "$\\times$",
    "–": "\\textendash{}",
}


def latex_text(text: str) -> str:
    """Any text for LaTeX, in ASCII: a character that LaTeX may not have is given by its code point."""

    def written(sign: str) -> str:
        return _LATEX.get(sign) or (sign if sign.isascii() else f"{{U+{ord(sign):04X}}}")

    signs = (sign for sign in " ".join(text.split()) if sign.isprintable())
    return re.sub("-(?=-)", "-{}", "".join(map(written, signs)))


def latex(frame: pd.DataFrame, caption: str, label: str) -> str:
    """A table of texts in LaTeX with booktabs rules, no larger than a page; needs booktabs and graphicx."""

    def line(texts: Iterable[str]) -> str:
        return " & ".join(map(latex_text, texts)) + " \\\\"

    columns = "".join("r" if holds_numbers(name) else "l" for name in frame.columns)
    lines = [
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{latex_text(caption)}}}",
        f"\\label{{tab:{label}}}",
        "\\resizebox*{!}{\\ifdim\\totalheight>.8\\textheight.8\\textheight\\else\\totalheight\\fi}{%",
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        line(frame.columns),
        "\\midrule",
        *(line(row) for row in frame.to_numpy()),
        "\\bottomrule",
        "\\end{tabular}}}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


@cache
def templates() -> jinja2.Environment:
    """The templates of tables and page; every text is escaped."""
    folder = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    return jinja2.Environment(loader=folder, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def html_parts(frame: pd.DataFrame, caption: str) -> dict[str, Any]:
    """What the template of a table is filled with."""
    numeric = [holds_numbers(name) for name in frame.columns]
    return {"caption": caption, "columns": list(frame.columns), "rows": frame.to_numpy().tolist(), "numeric": numeric}


def html(frame: pd.DataFrame, caption: str) -> str:
    """A table of texts as an HTML element, escaped."""
    return templates().get_template("table.html").render(table=html_parts(frame, caption))


def write_table(out: Path, stem: str, numbers: pd.DataFrame, shown: pd.DataFrame, caption: str) -> None:
    """Write a table in four formats: its numbers as CSV, its texts as Markdown, LaTeX and HTML."""
    write_text(out / f"{stem}.csv", csv(numbers))
    write_text(out / f"{stem}.md", markdown(shown, caption))
    write_text(out / f"{stem}.tex", latex(shown, caption, stem))
    write_text(out / f"{stem}.html", "<!doctype html>\n<meta charset=utf-8>\n" + html(shown, caption))
