"""A table of texts in four formats, CSV, Markdown, LaTeX and HTML, and for the terminal.

pandas writes them; foreign text is escaped here. `DataFrame.to_markdown` escapes neither `|` nor
`<`, and `Styler.to_latex(escape="latex")` leaves `[` and `*` at the start of a row (which LaTeX
reads as arguments of the previous `\\\\`), ligatures such as `--`, and signs that pdflatex does not
know. tests/report/test_latex.py compiles all of these.
"""

import re
from functools import cache
from math import nan
from pathlib import Path
from textwrap import fill
from typing import Any

import jinja2
import pandas as pd

from bench.datasets.tasks import is_task
from bench.utils.files import write_text

TEMPLATES = Path(__file__).parent / "templates"
WIDTH = 100  # letters in a line of running text in the terminal


def score_text(mean: float, sd: float, digits: int = 2) -> str:
    """`75.11 ± 0.84`; without an sd (NaN) `75.11`, without a mean a dash."""
    if pd.isna(mean):
        return "–"
    return f"{mean:.{digits}f}" if pd.isna(sd) else f"{mean:.{digits}f} ± {sd:.{digits}f}"


def with_interval(value: float, low: float, high: float) -> str:
    """`0.71 [0.52, 0.86]`, without the interval or as a dash if they are unknown (NaN)."""
    interval = "" if pd.isna(low) else f" [{low:.2f}, {high:.2f}]"
    return score_text(value, nan) + interval


# A number with its spread, its count of seeds and the mark of its verdict, or only the mark.
_NUMBER = re.compile(
    r"(?:[-+–]?\d[\de.+-]*(?: ± [\d.]+)?(?: \(n = \d+\))?)? ?(?:[=≈↓↑?×≠–](?: (?:1/)?\d+)?)?"
)


def _alignments(frame: pd.DataFrame) -> dict[str, bool]:
    """Whether each column is right-aligned: scores, counts, and columns of nothing but numbers."""
    alignments = {}
    for name in frame.columns:
        texts = [text for text in frame[name] if text]
        only_numbers = bool(texts) and all(map(_NUMBER.fullmatch, texts))
        alignments[name] = name in ("Avg", "n") or is_task(name) or only_numbers
    return alignments


class Bold(str):
    """The text of a cell in bold type."""

    __slots__ = ()
    bold = True  # read by the template


def csv(frame: pd.DataFrame) -> str:
    """A table of numbers as CSV, unrounded; a tuple of scores is one field, separated by spaces."""

    def text(value: Any) -> Any:
        return " ".join(map(repr, value)) if isinstance(value, tuple) else value

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
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
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


# A table is scaled down to fit a page.
_FIT = """\
\\resizebox*{!}{\\ifdim\\totalheight>.8\\textheight.8\\textheight\\else\\totalheight\\fi}{%
\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%
\\begin{tabular}"""


def latex(frame: pd.DataFrame, caption: str, label: str, note: str = "") -> str:
    """A table of texts in LaTeX, with its caption above and a note below; needs the packages
    booktabs and graphicx."""
    texts = frame.style.hide().format(latex_text).format_index(latex_text, axis="columns")
    text = texts.to_latex(
        column_format="".join("r" if right else "l" for right in _alignments(frame).values()),
        caption=latex_text(caption), label=f"tab:{label}",
        hrules=True, position_float="centering",
    )  # fmt: skip
    below = f"\n\\par\\medskip{{\\footnotesize {latex_text(note)}\\par}}" if note else ""
    end = "\\end{tabular}"
    return text.replace("\\begin{tabular}", _FIT).replace(end, f"{end}}}}}{below}")


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
    return environment


def html(frame: pd.DataFrame, caption: str, note: str = "") -> str:
    """A page with a table of texts, with every text escaped and a note below."""
    rows, columns = frame.to_numpy().tolist(), _alignments(frame)
    template = templates().get_template("table.html")
    return template.render(caption=caption, columns=columns, rows=rows, note=note)


def write_table(
    out: Path, stem: str, numbers: pd.DataFrame, shown: pd.DataFrame, caption: str, note: str = ""
) -> None:
    """Write `numbers` as CSV, and the texts `shown` as Markdown, LaTeX and HTML."""
    write_text(out / f"{stem}.csv", csv(numbers))
    write_text(out / f"{stem}.md", markdown(shown, caption, note))
    write_text(out / f"{stem}.tex", latex(shown, caption, stem, note))
    write_text(out / f"{stem}.html", html(shown, caption, note))
