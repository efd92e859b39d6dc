"""A printed table as text for the terminal, with our verdicts where a suite has any."""

from __future__ import annotations

import shlex
from pathlib import Path

import pandas as pd

from bench.comparison.reproduction import cells
from bench.report.formats import plain
from bench.report.hyperparameters import CAPTION, hyperparameters, note, shown_hyperparameters
from bench.report.tables import METRICS, captioned, notes, shown_table, symbols
from bench.reported import LABEL, SOURCES
from bench.results.suite_results import SuiteResults, read_suite
from bench.utils.text import listed

NOTHING_RUN = SuiteResults("", "senteval", {}, [])


def printed_table(
    source: str, name: str, suite_dir: Path | None = None, rows: pd.DataFrame | None = None
) -> str:
    """A printed table as text: its numbers, and below each row ours and their verdicts.

    Args:
        source: a key of `SOURCES`.
        name: the table, as printed.
        suite_dir: folder of the suite with our scores; by default print alone is shown.
        rows: only the rows of these numbers, which have the columns `LABEL`; by default all.

    Raises:
        UserError: a file of the suite is missing or damaged.
    """
    suite = read_suite(suite_dir) if suite_dir else NOTHING_RUN
    judged = cells(suite).query("source == @source and table == @name")
    stated = hyperparameters().query("source == @source and table == @name")
    if rows is not None:
        labels = set(rows[LABEL].itertuples(index=False, name=None))
        judged = judged[judged[LABEL].apply(tuple, axis=1).isin(labels)]
        stated = stated[:0]
    parts = []
    if len(judged):
        title = captioned(suite, judged) if suite_dir else _caption(judged)
        shown = shown_table(judged) if suite_dir else _only_print(shown_table(judged))
        parts.append(plain(shown, title, symbols(judged) if suite_dir else ""))
        if (judged["run"] != "").any() and rows is None:
            words = shlex.join([source, name])
            parts.append(f"Run a row yourself: python -m bench reproduce {words} --row ROW")
    if len(stated):
        caption = f"{SOURCES[source]}, {name}: {CAPTION}."
        shown = shown_hyperparameters(stated)
        parts.append(plain(shown, caption, note(shown, suite)))
    return "\n\n".join(parts)


def _caption(table: pd.DataFrame) -> str:
    """The caption of a table without scores of ours."""
    source, name = table.iloc[0][["source", "table"]]
    metric = listed(METRICS[metric] for metric in table["metric"].unique())
    return " ".join([f"{SOURCES[source]}, {name}: {metric}, as printed.", *notes(table)])


def _only_print(shown: pd.DataFrame) -> pd.DataFrame:
    """The printed lines of `shown_table`, without what it says of ours."""
    verdicts = [column for column in shown if str(column).startswith("Verdict")]
    shown = shown.drop(columns=verdicts)
    shown[""] = shown[""].str.partition(";")[0].str.removeprefix("printed").str.removeprefix(", ")
    return shown if shown[""].any() else shown.drop(columns="")
