"""Tables in LaTeX: they compile, fit a page, and print their texts unchanged, whatever these
contain."""

import os
import re
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.cli.evaluate import score_tables
from bench.datasets.tasks import STS_TASKS
from bench.judge.judge import judge
from bench.registry.templates import templates_of
from bench.report.comparison_table import write_comparisons
from bench.report.formats import TextTable, latex, latex_text, reasons, text_table
from bench.report.leaderboard import in_format, show_leaderboards, shown_leaderboards
from bench.report.printed_table import captioned, in_lines, legend, printed_tables
from bench.report.tables import summaries
from bench.results.records import ScoredEncoder
from bench.results.suite_results import SuiteResults
from bench.results.system import RunResults, planned_scores
from bench.runs import config
from bench.runs.plan import Plan
from tests.support.foreign_text import LABELS
from tools.documents import wiki_mini

needs_latex = pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="pdflatex is not installed"
)

# The smallest page of `article`; two columns, which the tables span; the environment without star.
DOCUMENTS = [("{article}", "table*"), ("[twocolumn]{article}", "table*"), ("{article}", "table")]


def compiled(folder, tables, document, environment):
    """Compile tables in one article and return LaTeX's log."""
    body = "\n\\clearpage\n".join(tables).replace("{table*}", f"{{{environment}}}")
    packages = ", ".join(re.findall(r"% Packages: ([^.]*)", body))
    head = f"\\documentclass{document}\n\\usepackage{{{packages}}}\n"
    text = f"{head}\\begin{{document}}\n{body}\n\\end{{document}}\n"
    (folder / "all.tex").write_text(text, encoding="utf-8")
    ended = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"],
        cwd=folder, env=os.environ | {"max_print_line": "1000"}, capture_output=True, timeout=120,
    )  # fmt: skip
    log = (folder / "all.log").read_text(encoding="utf-8", errors="replace")
    errors = [line for line in log.splitlines() if line.startswith(("!", "l."))]
    assert ended.returncode == 0, "\n".join(errors)
    return log


def complaints(log):
    """Warnings about overfull boxes and missing characters. "Label(s) may have changed" follows
    every first pass."""
    words = r"Overfull|Float too large|Missing character|LaTeX Font Warning"
    words += r"|LaTeX Warning(?!: Label\(s\))"
    return [line for line in log.splitlines() if re.search(words, line)]


@pytest.fixture(scope="module")
def of_papers():
    """All tables of the paper suites, with drawn scores."""
    draw = np.random.default_rng(7)
    runs = []
    for plan in (run for path in config.PAPERS for run in config.planned(config.load(path))):
        scores = {key: float(draw.normal(75, 1)) for key in sorted(planned_scores(plan))}
        runs.append(RunResults(plan, "finished", "", scores))
    judged = judge(SuiteResults(Plan(suite="paper", data="senteval", runs=[]), runs))
    suite = judged.suite
    verdicts = {number.ours.verdict.kind for number in judged.numbers}
    assert verdicts >= {"reproduced", "open", "lower", "higher", "not run"}
    texts = [
        in_format(judged, leaderboard, judged.leaderboard_systems(leaderboard.name), "latex")
        for leaderboard in shown_leaderboards(judged)
    ]
    texts += [
        latex(
            in_lines(table),
            captioned(suite, table)[0],
            stem,
            legend(table),
            why=reasons(rows=table.rows),
        )
        for stem, table in printed_tables(judged.numbers).items()
    ]
    texts += [
        latex(table.table, table.title, table.stem, table.caption) for table in summaries(judged)
    ]
    return texts


@pytest.mark.slow
@needs_latex
@pytest.mark.parametrize(("document", "environment"), DOCUMENTS)
def test_every_table_of_the_paper_suite_fits_a_page(of_papers, tmp_path, document, environment):
    assert complaints(compiled(tmp_path, of_papers, document, environment)) == []


@pytest.fixture(scope="module")
def in_paper(tmp_path_factory):
    """The leaderboards of wiki-mini, whole and of chosen rows, and its comparisons."""
    names = ["simcse", "gs-infonce", "diffcse[epochs=1]", "rankcse[teacher=run:simcse@official]",
             "untrained[pooler=avg_first_last]+whitening[sentences=16000,source=wiki1m_fallback]",
             "word-overlap"]  # fmt: skip
    suite = wiki_mini()
    rows = [row for name in names for row in suite.systems if row.method == name]
    assert {row.method for row in rows} == {*names}
    texts = show_leaderboards(suite, "latex", rows).split("\n\n")
    whole = show_leaderboards(suite, "latex", suite.systems).split("\n\n")
    texts += [text.replace("\\label{tab:", "\\label{tab:whole-") for text in whole]
    points = {task: 60.0 + place for place, task in enumerate([*STS_TASKS, "Avg"])}
    records = [
        {"task": task, "value": value, "metric": "spearman", "split": "test", "aggregation": "all"}
        for task, value in points.items()
    ]
    members = [f"models/qwen[pooler=last,template={text}]" for text in templates_of("in-one-word")]
    texts.append(score_tables([ScoredEncoder(member, records) for member in members], "latex"))
    labels = [{"Method": text} for text in LABELS.values()]
    texts.append(latex(text_table(labels), LABELS["latex"], "labels", LABELS["command"]))
    folder = tmp_path_factory.mktemp("compared")
    write_comparisons(suite.suite, suite.pairs, folder)
    return texts + [file.read_text() for file in sorted(folder.glob("*.tex"))]


@needs_latex
@pytest.mark.parametrize(("document", "environment"), DOCUMENTS)
def test_the_tables_of_a_suite_fit_a_page(in_paper, tmp_path, document, environment):
    assert complaints(compiled(tmp_path, in_paper, document, environment)) == []


MEANINGS = {
    "textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^",
    "textless": "<", "textgreater": ">", "textbar": "|", "textendash": "–", "char34": '"', "`": "`",
    "pm": "±", "approx": "≈", "neq": "≠", "downarrow": "↓", "uparrow": "↑", "times": "×",
    "Downarrow": "⇓", "Uparrow": "⇑",
}  # fmt: skip
PIECE = re.compile(
    r"""\\(?P<command>[a-z]+\d*|`)\{\} | \$\\(?P<symbol>[A-Za-z]+)\$ | \\(?P<escaped>[&%$\#_{}])
    | \{(?P<braced>[\[\]*])\}
    | (?P<hyphen>-)\{\} | \$(?P<minus>-)\$ | (?P<nothing>\\hspace\{0pt\})
    | \{U\+(?P<code>[0-9A-F]{4,6})\} | (?P<plain>[^\\$&%\#_{}~^<>|"`\[\]*])""",
    re.VERBOSE,
)


def read_back(text):
    """What LaTeX prints for an escaped text; fails on unescaped special characters."""
    printed, place = "", 0
    while place < len(text):
        result = PIECE.match(text, place)
        assert result, f"{text[place:]!r} means something to LaTeX"
        kind = result.lastgroup
        piece = chr(int(result[kind], 16)) if kind == "code" else result[kind]
        if kind in ("command", "symbol"):
            piece = MEANINGS[piece]
        printed += "" if kind == "nothing" else piece
        place = result.end()
    return printed


@given(st.text(max_size=30) | st.text(alphabet='\\{}[]*-<>|~^`"&%$#_ ±≈≠↓↑⇓⇑×–†ab1', max_size=30))
def test_texts_read_back(text):
    """An independent reader of the LaTeX subset recovers the text and finds no other command."""
    expected = "".join(sign for sign in " ".join(text.split()) if sign.isprintable())
    written = latex_text(text)
    assert written.isascii()
    assert "--" not in written
    assert read_back(written) == expected


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("-0.10", "$-$0.10"),
        ("0.71 [-0.52, 0.86]", "0.71 {[}$-$0.52, 0.86{]}"),
        ("GS-InfoNCE", "GS-InfoNCE"),
    ],
)
def test_a_minus_is_no_hyphen(text, source):
    assert latex_text(text) == source


def rows_of(text):
    return [line.split(" & ")[0] for line in text.splitlines() if line.startswith("m")]


def test_a_long_table_is_continued():
    columns = {"Backbone": False, "Method": False, "n": True}
    rows = [{"Method": f"m{count}", "n": "1"} for count in range(100)]
    rows[0]["Backbone"], rows[60]["Backbone"] = "bert", "roberta"
    text = latex(TextTable(columns, rows), "One", "x", "Two.", "Three.")
    first, *others = text.split("\\end{table*}")[:-1]
    assert rows_of(text) == [f"m{count}" for count in range(100)]
    assert all("\\caption{One (continued).}" in part for part in others)
    assert [re.findall(r"\\textit{(\w+)}", part) for part in (first, others[-1])] == [
        ["bert"], ["roberta"],
    ]  # fmt: skip
