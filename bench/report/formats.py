"""A table of texts in four formats: CSV, Markdown, LaTeX and HTML.

Markdown and LaTeX are written here rather than by pandas, because foreign text must not break them:
`DataFrame.to_markdown` escapes neither `|` nor `<`, and `Styler.to_latex(escape="latex")` leaves
`[` and `*` at the start of a row (which LaTeX reads as arguments of the previous `\\\\`), ligatures
such as `--`, and characters that pdflatex does not know. tests/report/test_latex.py compiles all of
these.
"""

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
    """Whether a column holds scores or counts, which are right-aligned."""
    return column in TASK_ORDER or column == "n" or is_described(column) or is_probing(column)


def slug(text: str) -> str:
    """A file name of lower-case letters, digits, dots and hyphens."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def csv(frame: pd.DataFrame) -> str:
    """A table of numbers as CSV, unrounded; a tuple of scores is one field, separated by spaces."""

    def text(value: Any) -> Any:
        return " ".join(map(repr, value)) if isinstance(value, tuple) else value

    texts = {name: frame[name].map(text) for name in frame if frame[name].dtype == object}
    return frame.assign(**texts).to_csv(index=False, lineterminator="\n")


def markdown_text(text: str) -> str:
    """Text for a cell of a Markdown table: one line, with table and HTML syntax escaped."""
    for sign, written in (("\\", "\\\\"), ("|", "\\|"), ("&", "&amp;"), ("<", "&lt;"), ("\n", " ")):
        text = text.replace(sign, written)
    return text


def markdown(frame: pd.DataFrame, caption: str) -> str:
    """A table of texts in Markdown, with its caption above."""

    def line(texts: Iterable[str]) -> str:
        return "| " + " | ".join(map(markdown_text, texts)) + " |"

    rule = "|" + "---|" * len(frame.columns)
    return (
        "\n".join(
            [caption, "", line(frame.columns), rule, *(line(row) for row in frame.to_numpy())]
        )
        + "\n"
    )


# Characters that LaTeX reads as commands, ligatures or arguments, and the symbols in our own texts.
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
    **{
        sign: f"{{{sign}}}" for sign in "[]*"
    },  # at the start of a row they would be an argument of the previous \\
    "±": "$\\pm$",
    "≈": "$\\approx$",
    "≠": "$\\neq$",
    "↓": "$\\downarrow$",
    "↑": "$\\uparrow$",
    "×": "$\\times$",
    "–": "\\textendash{}",
}


def latex_text(text: str) -> str:
    """Any text as LaTeX source in ASCII; characters that fonts may lack are printed as their code
    points."""

    def written(sign: str) -> str:
        return _LATEX.get(sign) or (sign if sign.isascii() else f"{{U+{ord(sign):04X}}}")

    signs = (sign for sign in " ".join(text.split()) if sign.isprintable())
    return re.sub("-(?=-)", "-{}", "".join(map(written, signs)))


def latex(frame: pd.DataFrame, caption: str, label: str) -> str:
    """A table of texts in LaTeX, scaled down to fit a page; needs the packages booktabs and
    graphicx."""

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
    """The environment of the templates of tables and page, with autoescaping."""
    folder = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    return jinja2.Environment(loader=folder, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def html_parts(frame: pd.DataFrame, caption: str) -> dict[str, Any]:
    """The variables of the template of a table."""
    numeric = [holds_numbers(name) for name in frame.columns]
    return {
        "caption": caption,
        "columns": list(frame.columns),
        "rows": frame.to_numpy().tolist(),
        "numeric": numeric,
    }


def html(frame: pd.DataFrame, caption: str) -> str:
    """A table of texts as an HTML element, with every text escaped."""
    return templates().get_template("table.html").render(table=html_parts(frame, caption))


def write_table(
    out: Path, stem: str, numbers: pd.DataFrame, shown: pd.DataFrame, caption: str
) -> None:
    """Write a table in four formats: `numbers` as CSV, the texts `shown` as Markdown, LaTeX and
    HTML."""
    write_text(out / f"{stem}.csv", csv(numbers))
    write_text(out / f"{stem}.md", markdown(shown, caption))
    write_text(out / f"{stem}.tex", latex(shown, caption, stem))
    write_text(
        out / f"{stem}.html", "<!doctype html>\n<meta charset=utf-8>\n" + html(shown, caption)
    )
