"""Tables in LaTeX: they compile, fit a page, and print their texts unchanged, whatever these
contain."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.judge.judge import judge
from bench.judge.numbers import planned_scores
from bench.judge.stage import read_suite
from bench.report.formats import latex, latex_text
from bench.report.leaderboard import in_format, named_rows, show_leaderboards, shown_boards
from bench.report.printed_table import captioned, in_lines, legend, printed_tables
from bench.results.suite_results import RunResults, SuiteResults
from bench.runs import config
from bench.runs.plan import Plan

needs_latex = pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="pdflatex is not installed"
)

# An article whose text is as wide as that of a conference, with the packages that the tables need.
HEAD = "\\documentclass{article}\\usepackage[textwidth=5.5in,textheight=9in]{geometry}"
HEAD += "\\usepackage{booktabs,graphicx,tabularx}\n"


def compiled(folder, tables):
    """Compile tables in one article and return LaTeX's log."""
    body = "\n\\clearpage\n".join(tables)
    text = f"{HEAD}\\begin{{document}}\n{body}\n\\end{{document}}\n"
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


@pytest.mark.slow
@needs_latex
def test_every_table_of_the_paper_suite_compiles_and_fits(tmp_path):
    draw = np.random.default_rng(7)
    runs = []
    for plan in (run for path in config.PAPERS for run in config.planned(config.load(path))):
        scores = {key: float(draw.normal(75, 1)) for key in sorted(planned_scores(plan))}
        runs.append(RunResults(plan, "finished", "", scores))
    judged = judge(SuiteResults(Plan(suite="paper", data="senteval", runs=[]), runs))
    suite = judged.suite
    verdicts = {number.ours.verdict.kind for number in judged.numbers}
    assert verdicts >= {"reproduced", "inconclusive", "lower", "higher", "not run"}
    texts = [
        in_format(judged, board, judged.board_systems(board.name), "latex")
        for board in shown_boards(judged)
    ]
    texts += [
        latex(in_lines(table), captioned(suite, table), stem, legend(table))
        for stem, table in printed_tables(judged.numbers).items()
    ]
    assert len(texts) > 25
    log = compiled(tmp_path, texts)
    assert complaints(log) == []
    assert int(re.search(r"Output written on all.pdf \((\d+) pages", log)[1]) == len(texts)


@pytest.mark.slow
@needs_latex
def test_a_leaderboard_has_the_width_of_the_text_and_is_not_scaled(tmp_path):
    names = ["simcse", "gs-infonce", "diffcse[epochs=1]", "rankcse[teacher=run:simcse@official]",
             "untrained[pooler=avg_first_last]+whitening[sentences=16000,source=wiki1m_fallback]",
             "word-overlap"]  # fmt: skip
    suite = read_suite(Path("results/wiki-mini"))
    rows = [row for name in names for row in named_rows(suite, name)]
    assert {row.method for row in rows} == {*names}
    text = show_leaderboards(suite, "latex", rows)
    assert re.findall(r"\\label\{(.*)\}", text) == [
        f"tab:wiki-mini-{name}" for name in ("sts", "transfer", "xprobe")
    ]
    assert "resizebox" not in text
    assert complaints(compiled(tmp_path, text.split("\n\n"))) == []


MEANINGS = {
    "allowbreak": "", "textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^",
    "textless": "<", "textgreater": ">", "textbar": "|", "textendash": "–", "char34": '"', "`": "`",
    "pm": "±", "approx": "≈", "neq": "≠", "downarrow": "↓", "uparrow": "↑", "times": "×",
    "dagger": "†",
}  # fmt: skip
PIECE = re.compile(
    r"""\\(?P<command>[a-z]+\d*|`)\{\} | \$\^?\\(?P<symbol>[a-z]+)\$ | \\(?P<escaped>[&%$\#_{}])
    | \{(?P<braced>[\[\]*])\}
    | (?P<hyphen>-)\{\} | \{U\+(?P<code>[0-9A-F]{4,6})\} | (?P<plain>[^\\$&%\#_{}~^<>|"`\[\]*])""",
    re.VERBOSE,
)


def read_back(text):
    """What LaTeX prints for an escaped text; fails on unescaped special characters."""
    printed, place = "", 0
    while place < len(text):
        found = PIECE.match(text, place)
        assert found, f"{text[place:]!r} means something to LaTeX"
        kind = found.lastgroup
        piece = chr(int(found[kind], 16)) if kind == "code" else found[kind]
        printed += MEANINGS[piece] if kind in ("command", "symbol") else piece
        place = found.end()
    return printed


@given(st.text(max_size=30) | st.text(alphabet='\\{}[]*-<>|~^`"&%$#_ ±≈≠↓↑×–†ab', max_size=30))
def test_texts_read_back(text):
    """An independent reader of the LaTeX subset recovers the text and finds no other command."""
    expected = "".join(sign for sign in " ".join(text.split()) if sign.isprintable())
    written = latex_text(text)
    assert written.isascii()
    assert "--" not in written
    assert read_back(written) == expected
