"""A table of texts in three formats, CSV, Markdown and LaTeX, and for the terminal.

Foreign text is escaped here, by one function for each format, and in HTML by Jinja. tabulate
escapes neither `|` nor `<`, and pandas' `Styler.to_latex` leaves `[` and `*` at the start of a row
(which LaTeX reads as arguments of the previous `\\\\`), ligatures such as `--`, and signs that
pdflatex does not know. tests/report/test_foreign_text.py reads hostile texts back from every
format, and test_latex.py compiles them.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Any

import jinja2
from tabulate import SEPARATING_LINE, tabulate

from bench.datasets.metrics import AGGREGATIONS
from bench.judged.rows import NO_BACKBONE, PairRow
from bench.judged.verdicts import (
    COMPARISON_MEANINGS,
    COMPARISON_SYMBOLS,
    FEWEST_SEEDS,
    VERDICT_MEANINGS,
    VERDICT_SYMBOLS,
    PairVerdict,
    PrintedVerdict,
)
from bench.utils.documents import document
from bench.utils.errors import counted, listed, printable
from bench.utils.files import inside, stem, write_text
from bench.utils.groups import grouped

Frame = Any  # a DataFrame of pandas, which takes longer to load than tables to print
TEMPLATES = Path(__file__).parent / "templates"
# Letters in a line, and lines of a table, on the smallest page in LaTeX (`article` in one column):
# upright, and turned by 90 degrees. Measured on compiled tables.
UPRIGHT, TURNED = (75, 30), (118, 16)
# Letters in a line of running text in the terminal, and of the name of a method in its tables.
# Beside seven tasks, an average and a difference 17 would fit; hyper-parameters are longer.
WIDTH, METHOD_WIDTH = 100, 30


def leaderboard_stem(leaderboard: str, name: str = "leaderboard") -> str:
    """The stem of the file names of a leaderboard's figure, or of what the name says."""
    return name if leaderboard == "sts" else f"{name}_{leaderboard}"


def backbone_text(name: str) -> str:
    return "no backbone" if name == NO_BACKBONE else name


def score_text(mean: float | None, sd: float | None = None, digits: int = 2, sign: str = "") -> str:
    """`75.11 ± 0.84`; without a standard deviation `75.11`, without a mean a dash. With the sign
    "+" numbers above zero have one."""
    if mean is None:
        return "–"
    text = f"{mean:{sign}.{digits}f}"
    return text if sd is None else f"{text} ± {sd:.{digits}f}"


difference_text = partial(score_text, sign="+")


def stated(kind: PrintedVerdict) -> str:
    """The verdict on a printed number after its symbol."""
    return f"{VERDICT_SYMBOLS[kind]} {kind}"


def verdict_text(verdict: PairVerdict | None, progress: str = "") -> str:
    """The verdict of a comparison after its symbol, and before its progress; empty without one."""
    text = f"{COMPARISON_SYMBOLS[verdict]} {verdict}" if verdict else ""
    return f"{text}, {progress}" if progress else text


def by_items(pairs: Sequence[PairRow]) -> bool:
    """Whether all comparisons are over test items."""
    return all(pair.kind == "items" for pair in pairs)


def names_of(pairs: Sequence[PairRow]) -> list[str]:
    """The columns that identify a comparison on one backbone: Method if there are several, Task."""
    names = []
    if len({(pair.method, pair.setting) for pair in pairs}) > 1:
        names.append("Method")
    if not names or len({pair.task for pair in pairs}) > 1:
        names.append("Task")
    return names


def seeds_text(count: int, row_count: int) -> str:
    """The number of seeds of a score as ` (n = 1)`; empty if its row has the same number."""
    return f" (n = {count})" if 0 < count < row_count else ""


class Bold(str):
    """The text of a cell in bold type."""

    __slots__ = ()
    bold = True  # read by the template


@dataclass(frozen=True)
class TextTable:
    """A table of texts."""

    columns: Mapping[str, bool]  # headings, and whether a column is right-aligned
    rows: Sequence[Mapping[str, str]]  # texts by heading; what is missing is empty

    @property
    def texts(self) -> list[list[str]]:
        return [[row.get(name, "") for name in self.columns] for row in self.rows]

    def without(self, *names: str) -> "TextTable":
        columns = {name: right for name, right in self.columns.items() if name not in names}
        return replace(self, columns=columns)


def text_table(rows: Sequence[Mapping[str, str]], right: Collection[str] = ()) -> TextTable:
    """A table with all columns of its rows, of which `right` are right-aligned."""
    columns = {}
    for row in rows:
        for name in row:
            columns[name] = name in right
    return TextTable(columns, rows)


def data_frame(
    rows: Iterable[Any], columns: Sequence[str] | None = None, integers: Iterable[str] = ()
) -> Frame:
    """A DataFrame of rows, by default with all of their columns. Columns without any value are
    floats, and columns of `integers` may have gaps."""
    import pandas as pd

    frame = pd.DataFrame(rows, columns=columns)
    empty = frame.columns[frame.isna().all()]
    return frame.astype(dict.fromkeys(empty, "float") | dict.fromkeys(integers, "Int64"))


# How a text begins that a spreadsheet would compute; scores are numbers.
_FORMULA = re.compile(r"^( *([=@]|[+-](?![-\d.e ]+$)))")


def csv(frame: Frame) -> str:
    """A table of numbers as CSV, unrounded; a tuple of scores is one field, separated by spaces. A
    text is in one line, and after ' if it would be a formula."""

    def written(value: Any) -> Any:
        if isinstance(value, tuple):
            value = " ".join(map(repr, value))
        return _FORMULA.sub(r"'\1", printable(value)) if isinstance(value, str) else value

    return str(frame.map(written).rename(columns=written).to_csv(index=False, lineterminator="\n"))


# What is markup to GitHub: what begins code, formulas, emphasis, the target of a link or image.
# Within words, and before spaces, the others are letters.
_MARKUP = re.compile(r"([\\|`$]|[*~](?=\S)|(?<![^\W_])_(?=\S)|\](?=[(\[:]))")


def markdown_text(text: object) -> str:
    """Text for a line or a cell of Markdown: one line without markup, links or HTML. Web addresses
    stay links on GitHub."""
    written = _MARKUP.sub(r"\\\1", printable(str(text)))
    written = written.replace("&", "&amp;").replace("<", "&lt;")
    return f"**{written}**" if isinstance(text, Bold) else written


# tabulate would read texts as numbers, and print 70.10 as 70.1.
_grid = partial(tabulate, disable_numparse=True)
# Running text in the terminal.
filled = partial(fill, width=WIDTH, break_on_hyphens=False)


def _cells(table: TextTable, written: Callable[[str], str]) -> list[list[str]]:
    return [[*map(written, row)] for row in (table.columns, *table.texts)]


def markdown(table: TextTable, caption: str, *notes: str) -> str:
    """A table in Markdown, with its caption above and notes below."""
    grid = _grid(_cells(table, markdown_text), "firstrow", "pipe", stralign=None)
    texts = map(markdown_text, filter(None, notes))
    return "\n\n".join([markdown_text(caption), grid, *texts]) + "\n"


def plain(table: TextTable, caption: str, *notes: str) -> str:
    """A table for the terminal, without bold type, with its caption above and notes below."""
    headings, *rows = _cells(table, printable)
    # Headings are a row, since `headers` would make a column two letters wider than its heading.
    rows = [headings, [SEPARATING_LINE], *rows]
    widths = [METHOD_WIDTH if name == "Method" else None for name in table.columns]
    lines = _grid(rows, (), "simple", stralign="left", maxcolwidths=widths).splitlines()
    # The first and the last line would enclose a table without headers.
    grid = "\n".join(lines[1:-1])
    return "\n\n".join([filled(caption), grid, *map(filled, filter(None, notes))])


# Characters that LaTeX reads as commands, ligatures or arguments, and the symbols in our own texts.
_LATEX = {
    "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "{": "\\{", "}": "\\}", "_": "\\_",
    # At the start of a row these would be an argument of the previous \\.
    "[": "{[}", "]": "{]}", "*": "{*}",
    "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}",
    "<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}",
    "`": "\\`{}", '"': "\\char34{}",
    "±": "$\\pm$", "≈": "$\\approx$", "≠": "$\\neq$", "↓": "$\\downarrow$", "↑": "$\\uparrow$",
    "⇓": "$\\Downarrow$", "⇑": "$\\Uparrow$", "△": "$\\triangle$", "▽": "$\\bigtriangledown$",
    "×": "$\\times$", "–": "\\textendash{}",
}  # fmt: skip


# Where a long word may be broken. After a hyphen LaTeX breaks it by itself, but then nowhere else.
_WITHIN = re.compile(
    r"(?<=\w)(?:\\_|[=@/:])(?=\w)|(?<=\w\w)\+(?=[A-Za-z])|(?<=\w)-(?=[A-Za-z]{12})"
)


def latex_text(text: str) -> str:
    """Any text as LaTeX source in ASCII; characters that fonts may lack are printed as their code
    points."""

    def written(sign: str) -> str:
        return _LATEX.get(sign) or (sign if sign.isascii() else f"{{U+{ord(sign):04X}}}")

    signs = (sign for sign in " ".join(text.split()) if sign.isprintable())
    source = re.sub(r"(?<![\w-])-(?=[\d ])", "$-$", "".join(map(written, signs)))
    source = re.sub("-(?=-)", "-{}", source)
    source = _WITHIN.sub(r"\g<0>\\hspace{0pt}", source)
    return f"\\textbf{{{source}}}" if isinstance(text, Bold) else source


# Where a number, or the heading above, begins a new line: `70.05`, `± 0.33`; `Minus`, `baseline`.
_LINES = re.compile(
    r" (?=±|\(|\[|[≈?] \d)|(?<=[\w,]) (?=\w\S)|(?<=[a-z])(?=[A-Z])|(?<=\w-)(?=[A-Za-z]{3})|(?<=\w=)"
)


def latex(table: TextTable, caption: str, label: str, *notes: str, why: Iterable[str] = ()) -> str:
    """A table in LaTeX, as wide as the text and in `small` type.

    The caption stands above it, the notes below. Backbones become headings. The reasons of verdicts
    (`why`) are further tables of one cell each. Texts and numbers are broken into lines. With more
    columns than fit, the table is turned; with more rows, it is continued in further tables: LaTeX
    breaks no table by itself.
    """
    ungrouped = table.without("Backbone")
    is_right = [*ungrouped.columns.values()]
    text_columns = is_right.count(False)
    # A column of text counts as three columns of numbers, of which about a dozen fit upright.
    is_turned = 2 * text_columns + len(is_right) > 13
    width, most_lines = TURNED if is_turned else UPRIGHT
    # Letters in a line of text. A column of numbers takes 6.5, as `± 0.33` with the gap beside it.
    letters = (width - 6.5 * sum(is_right)) / text_columns

    def lines_of(text: str, is_number: bool) -> list[str]:
        lines = _LINES.split(text) if is_number else [text]
        return [type(text)(line) for line in lines]

    parts: list[dict[str, list[list[list[str]]]]] = []
    group, free = "", 0
    for row, texts in zip(table.rows, ungrouped.texts, strict=True):
        if "Backbone" in table.columns:
            group = row.get("Backbone", group)
        cells = [*map(lines_of, texts, is_right)]
        height = max(max(len(lines), ceil(len(lines[0]) / letters)) for lines in cells)
        if height > free:
            parts.append({})
            free = most_lines
        free -= height
        parts[-1].setdefault(group, []).append(cells)
    return rendered(
        "table.tex", caption=caption, label=label, notes=notes, is_right=is_right, parts=parts,
        headings=[*map(lines_of, ungrouped.columns, is_right)], is_turned=is_turned, why=why,
    )  # fmt: skip


@cache
def templates() -> jinja2.Environment:
    """The environment of the templates of tables and page. Templates of HTML escape every text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=jinja2.select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
        # Texts are in one line, besides what a template calls `safe`, which is no plain str.
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters |= {
        "tex": latex_text,
        "by": grouped,
        "stated": stated,
        "quote": shlex.quote,
    }
    environment.globals |= {
        "score": score_text, "symbols": VERDICT_SYMBOLS, "meanings": VERDICT_MEANINGS,
        "comparisons": COMPARISON_MEANINGS, "verdict_text": verdict_text,
        "fewest": FEWEST_SEEDS, "aggregations": AGGREGATIONS,
        "listed": listed, "counted": counted,
        "running_text": running_text, "leaderboard_stem": leaderboard_stem,
        "backbone_text": backbone_text, "document": document,
    }  # fmt: skip
    return environment


def paragraphs(template: str, **values: Any) -> list[str]:
    """The text of a template, a line a paragraph."""
    return rendered(template, **values).splitlines()


def rendered(template: str, **values: Any) -> str:
    """The text of a template."""
    return templates().get_template(template).render(values)


def running_text(template: str, **values: Any) -> str:
    """The text of a template on one line."""
    return " ".join(rendered(template, **values).split())


def reasons(**rows: Any) -> list[str]:
    """The verdicts on `systems`, `pairs`, printed `numbers` or `rows`, each with its reason in a
    line."""
    return paragraphs("reasons.txt", **rows)


def write_table(
    out: Path,
    suite: str,
    name: str,
    numbers: Frame,
    table: TextTable,
    caption: str,
    *notes: str,
    why: Iterable[str] = (),
) -> None:
    """Write `numbers` as CSV, and `table` as Markdown and LaTeX, there with the reasons of
    verdicts."""
    write_text(inside(out, f"{name}.csv"), csv(numbers))
    write_text(inside(out, f"{name}.md"), markdown(table, caption, *notes))
    source = latex(table, caption, stem(f"{suite}-{name}"), *notes, why=why)
    write_text(inside(out, f"{name}.tex"), source)
