"""A table of texts in three formats, CSV, Markdown and LaTeX, and for the terminal.

pandas writes them; foreign text is escaped here. `DataFrame.to_markdown` escapes neither `|` nor
`<`, and `Styler.to_latex(escape="latex")` leaves `[` and `*` at the start of a row (which LaTeX
reads as arguments of the previous `\\\\`), ligatures such as `--`, and signs that pdflatex does not
know. tests/report/test_latex.py compiles all of these.
"""

import re
from collections.abc import Mapping
from functools import cache
from math import nan
from pathlib import Path
from textwrap import fill
from typing import Any

import jinja2
import pandas as pd

from bench.datasets.tasks import is_task
from bench.reported.address import slug
from bench.utils.files import write_text

TEMPLATES = Path(__file__).parent / "templates"
MOST_ROWS, MOST_COLUMNS = 30, 11  # of a table in LaTeX that fits a text of 5.5 x 9 inches
WIDTH = 100  # letters in a line of running text in the terminal


def score_text(mean: float, sd: float, digits: int = 2) -> str:
    """`75.11 ± 0.84`; without an sd (NaN) `75.11`, without a mean a dash."""
    if pd.isna(mean):
        return "–"
    return f"{mean:.{digits}f}" if pd.isna(sd) else f"{mean:.{digits}f} ± {sd:.{digits}f}"


def with_interval(value: float, low: float, high: float) -> str:
    """`0.71 [0.52, 0.86]`, without the interval or as a dash if they are unknown (NaN)."""
    return score_text(value, nan) + ("" if pd.isna(low) else f" [{low:.2f}, {high:.2f}]")


def difference_text(mean: float, half_width: float, digits: int = 2) -> str:
    """`+0.21 ± 0.15`, without the half width of its interval if that is unknown (NaN); a dash
    without a mean."""
    interval = "" if pd.isna(half_width) else f" ± {half_width:.{digits}f}"
    return "–" if pd.isna(mean) else f"{mean:+.{digits}f}{interval}"


def seeds_text(count: int, row_count: int) -> str:
    """The number of seeds of a score as ` (n = 1)`; empty if it is that of its row."""
    return f" (n = {count})" if 0 < count < row_count else ""


# A number with its spread, its count of seeds and the mark of its verdict, or only the mark.
_NUMBER = re.compile(
    r"(?:[-+–]?\d[\de.+-]*(?: ± [\d.]+)?(?: \(n = \d+\))?)? ?(?:[=≈↓↑?×≠–](?: (?:1/)?\d+)?)?"
)


def alignments(frame: pd.DataFrame) -> dict[str, bool]:
    """Whether each column is right-aligned: scores, counts, and columns of nothing but numbers."""
    alignments = {}
    for name in frame.columns:
        texts = [text for text in frame[name] if text]
        only_numbers = bool(texts) and all(map(_NUMBER.fullmatch, texts))
        alignments[name] = name in ("Avg", "n", "Minus baseline") or is_task(name) or only_numbers
    return alignments


class Bold(str):
    """The text of a cell in bold type."""

    __slots__ = ()
    bold = True  # read by the template


def csv(frame: pd.DataFrame) -> str:
    """A table of numbers as CSV, unrounded and without the ids of runs; a tuple of scores is one
    field, separated by spaces."""

    def text(value: Any) -> Any:
        return " ".join(map(repr, value)) if isinstance(value, tuple) else value

    frame = frame.drop(columns="run_ids", errors="ignore")
    texts = {name: frame[name].map(text) for name in frame if frame[name].dtype == object}
    return frame.assign(**texts).to_csv(index=False, lineterminator="\n")


def markdown_text(text: str) -> str:
    """Text for a cell of a Markdown table: one line, with table and HTML syntax escaped."""
    signs = str.maketrans({"\\": r"\\", "|": r"\|", "&": "&amp;", "<": "&lt;"})
    written = " ".join(text.translate(signs).split())
    return f"**{written}**" if isinstance(text, Bold) else written


def markdown(frame: pd.DataFrame, caption: str, note: str = "") -> str:
    """A table of texts in Markdown, with its caption above and a note below."""
    texts = frame.map(markdown_text).rename(columns=markdown_text)
    table = texts.to_markdown(index=False, disable_numparse=True, stralign=None)
    return f"{caption}\n\n{table}\n" + (f"\n{note}\n" if note else "")


def plain(frame: pd.DataFrame, caption: str, note: str = "") -> str:
    """A table of texts for the terminal, unescaped and without bold type, with its caption above
    and a note below."""
    table = frame.to_markdown(index=False, disable_numparse=True, tablefmt="simple")
    return "\n\n".join([fill(caption, WIDTH), table, *[fill(note, WIDTH)] * bool(note)])


# Characters that LaTeX reads as commands, ligatures or arguments, and the symbols in our own texts.
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#{}"},
    # Where a long name may be broken.
    "_": "\\_\\allowbreak{}", **{sign: f"{sign}\\allowbreak{{}}" for sign in "=@"},
    # At the start of a row these would be an argument of the previous \\.
    **{sign: f"{{{sign}}}" for sign in "[]*"},
    "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}",
    "<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}",
    "`": "\\`{}", '"': "\\char34{}",
    "±": "$\\pm$", "≈": "$\\approx$", "≠": "$\\neq$", "↓": "$\\downarrow$", "↑": "$\\uparrow$",
    "×": "$\\times$", "–": "\\textendash{}",
}  # fmt: skip


def latex_text(text: str) -> str:
    """Any text as LaTeX source in ASCII; characters that fonts may lack are printed as their code
    points."""

    def written(sign: str) -> str:
        return _LATEX.get(sign) or (sign if sign.isascii() else f"{{U+{ord(sign):04X}}}")

    signs = (sign for sign in " ".join(text.split()) if sign.isprintable())
    source = re.sub("-(?=-)", "-{}", "".join(map(written, signs)))
    return f"\\textbf{{{source}}}" if isinstance(text, Bold) else source


def latex(
    frame: pd.DataFrame,
    caption: str,
    label: str,
    note: str = "",
    groups: Mapping[str, pd.DataFrame] | None = None,
) -> str:
    """A table of texts in LaTeX, with its caption above and a note below; it needs the packages
    booktabs, graphicx and tabularx.

    A leaderboard, whose rows are in `groups` by heading, has the width of the text and breaks the
    names in its first column. Another table, and a large leaderboard, is scaled down to the text.
    """
    fits = len(frame) <= MOST_ROWS and len(frame.columns) <= MOST_COLUMNS
    return templates().get_template("table.tex").render(
        caption=caption, label=label, note=note, columns=alignments(frame),
        groups=groups or {"": frame}, wraps=bool(groups) and fits,
    )  # fmt: skip


@cache
def templates() -> jinja2.Environment:
    """The environment of the templates of tables and page; those of HTML escape every text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=jinja2.select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["known"] = pd.notna
    environment.filters["tex"] = latex_text
    return environment


def write_table(
    out: Path,
    suite: str,
    stem: str,
    numbers: pd.DataFrame,
    shown: pd.DataFrame,
    caption: str,
    note: str = "",
    tex: str = "",
) -> None:
    """Write `numbers` as CSV, and the texts `shown` as Markdown and, unless
    `tex` is given, LaTeX."""
    write_text(out / f"{stem}.csv", csv(numbers))
    write_text(out / f"{stem}.md", markdown(shown, caption, note))
    write_text(out / f"{stem}.tex", tex or latex(shown, caption, slug(f"{suite}-{stem}"), note))
