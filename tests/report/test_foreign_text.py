"""A label from a foreign file is text in every format and in the terminal."""

import csv
import re

import pytest
from markdown_it import MarkdownIt
from markupsafe import escape

from bench.cli.evaluate import score_tables
from bench.report.comparison_table import comparison_caption, line_of, pairs_frame
from bench.report.coverage import report
from bench.report.formats import rendered, text_table, write_table
from bench.report.leaderboard import in_format
from bench.report.page import render_page
from bench.report.summary import summary
from bench.results.records import ScoredEncoder
from bench.stages.activity import Failure
from bench.stages.status import OpenRun, SuiteStatus
from bench.utils.errors import UserError, printable
from bench.utils.progress import Progress
from tests.support.foreign_text import LABELS
from tests.support.judged_rows import (
    claim,
    heading,
    judged,
    measured,
    number,
    run,
    setting,
    system,
)

RECORD = {"task": "STS-B", "split": "test", "metric": "spearman", "aggregation": "all", "value": 70}


def suite_of(text):
    """A suite with a text in its rows, captions and lists."""
    is_cse = {"label": text, "name": text, "backbone": text}
    systems = [
        system("simcse", [75.0, 76.0], label="SimCSE", is_baseline=True),
        system("is-cse", [-7.0, -8.0], remark=text, corpus=text, **is_cse),
    ]
    pairs = [claim("is-cse", [-2.0, -3.0], reason=text, **is_cse)]
    ours = measured([75.0, 76.0], reason=text)
    numbers = [number(75.0, ours, label=text, row=text, method=text, note=text)]
    numbers.append(number(76.0, label=text, run="", reason="no recipe"))
    suite = heading(baseline="simcse", baseline_name=text, partial=text)
    return judged(
        systems, suite, pairs=pairs, numbers=numbers, settings=[setting(label=text)],
        runs=[run(name, seed, reason=text) for name in ("simcse", "is-cse") for seed in (0, 1)],
    )  # fmt: skip


def tables(text, form, folder):
    """The tables that show a text in a format."""
    suite = suite_of(text)
    caption = comparison_caption(suite.suite, suite.pairs)
    lines = text_table([line_of(pair) for pair in suite.pairs])
    write_table(folder, "s", "compare", pairs_frame(suite.pairs), lines, caption, text)
    suffix = {"csv": "csv", "markdown": "md"}[form]
    output = [(folder / f"compare.{suffix}").read_text(encoding="utf-8")]
    output.append(in_format(suite, suite.suite.leaderboards[0], suite.systems, form))
    for names in ([text], [text, "other"]):
        output.append(score_tables([ScoredEncoder(name, [RECORD]) for name in names], form))
    return output


@pytest.fixture(params=LABELS.values(), ids=LABELS)
def label(request):
    return request.param


@pytest.fixture
def line(label):
    """What is shown of a label."""
    return printable(label)


def test_no_field_of_csv_is_a_formula_and_scores_are_numbers(label, line, tmp_path):
    for text in tables(label, "csv", tmp_path):
        rows = [*csv.reader(text.splitlines())]
        fields = [field for row in rows for field in row]
        assert {line, f"'{line}"} & {*fields}
        assert len({len(row) for row in rows}) == 1
        for field in fields:
            assert field.isprintable()
            assert not re.match(r"[=@]|[+-](?!\d+\.\d+( -\d+\.\d+)*$)", field)


KINDS = "inline|code_block|(table|thead|tbody|tr|t[hd]|paragraph|heading|bullet_list|list_item)_.*"


def texts_of(markdown):
    """The texts of paragraphs and cells on GitHub; fails on anything that is no text."""
    result, reader = [], MarkdownIt("commonmark").enable(["table", "strikethrough"])
    reader.validateLink = lambda address: True
    assert markdown.count("$") == markdown.count("\\$")  # which begin formulas
    for token in reader.parse(markdown):
        assert re.fullmatch(KINDS, token.type)
        parts = token.children or []
        assert {part.type for part in parts} <= {"text"}
        result.append("".join(part.content for part in parts))
    return result


def test_markdown_reads_back(label, line, tmp_path):
    report(suite_of(label), tmp_path / "coverage.md")
    lines = tables(label, "markdown", tmp_path)
    for text in (*lines, (tmp_path / "coverage.md").read_text(encoding="utf-8")):
        assert any(line in result for result in texts_of(text)), text


def test_the_page_has_no_other_tags(label, line, tmp_path):
    tags = []
    for text in ("Label", label):
        render_page(suite_of(text), tmp_path / "figures", tmp_path, "../scores")
        page = (tmp_path / "index.html").read_text(encoding="utf-8")
        tags.append(re.findall(r"<[^\s>\d]+", page))
    assert tags[0] == tags[1]
    assert str(escape(line)) in page


def test_what_is_printed_moves_no_cursor(label, line, monkeypatch, said, tmp_path):
    suite = suite_of(label)
    monkeypatch.setattr("bench.judge.stage.read_suite", lambda folder: suite)
    monkeypatch.setattr("bench.judge.stage.compared", lambda *_: suite.pairs)
    monkeypatch.setattr("bench.runs.naming.planned_text", lambda folder, name: name)
    commands = (["show"], ["compare", "a", "b"], ["coverage"])
    out = [said(*words, "--suite", tmp_path).out for words in commands]
    state = OpenRun("r", "failed", "train", failure=Failure("train", label), log=label)
    status = rendered("status.txt", **vars(SuiteStatus("s", open=[state], steps={label: label})))
    lines = [*out, status, summary(suite, tmp_path, tmp_path)]
    starts = tuple(filter(None, label.split("\n")[1:]))
    for text in "\n".join(lines).split("\n"):
        assert text.isprintable()
        assert not text.startswith(starts)
    assert all(line.split()[0][:9] in text for text in lines)


def test_messages_are_lines(label, line, monkeypatch, said, capsys):
    def fail(words):
        print(label)
        raise UserError(label)

    monkeypatch.setattr("bench.cli.program.run", fail)
    monkeypatch.setattr("bench.utils.progress.interval", lambda: -1)
    assert said(status=2) == (printable(label, "\n\t") + "\n", f"error: {line}\n")
    Progress(2, label).advance(note=label)
    assert capsys.readouterr().err == f"{line}: 50%, 0:00:00 left, {line}\n"
