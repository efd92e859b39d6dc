"""`python -m bench compare`: comparisons with a baseline as tables and figures."""

from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd

from bench.comparison.against_baseline import COMPARISON_SYMBOLS, IDENTITY, against, find
from bench.report.formats import csv, plain, score_text, templates, with_interval, write_table
from bench.results.records import named
from bench.results.suite_results import SuiteResults
from bench.runs.paths import comparison_stem
from bench.utils.errors import UserError
from bench.utils.files import write_text


def names_of(frame: pd.DataFrame) -> list[str]:
    """The columns that identify a comparison on one backbone: Method if there are several, Task."""
    several = len(frame.groupby(["method", "setting"])) > 1
    return ["Method"] * several + ["Task"] * (not several or frame["task"].nunique() > 1)


def shown(frame: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Comparisons of one board (the two frames of `against`) as texts, one per line; further lines
    follow if papers print different numbers for it."""
    # Backbones that stand in for more than one printed backbone.
    printed_on = claims.groupby("backbone")["printed_on"].nunique()
    several = set(printed_on.index[printed_on > 1])
    numbers = ["printed_on", "printed_a", "printed_b"]
    lines: list[dict[str, str]] = []
    for row in frame.to_dict("records"):
        line = line_of(row)
        for _, same in claims_of(row, claims).groupby(numbers, sort=False, dropna=False):
            lines.append(line | _printed(same, named=row["backbone"] in several))
            line = {}
        if line:
            lines.append(line)
    columns = ["Backbone", *names_of(frame), "n", "A", "B", "A - B"]
    columns += ["P(A > B)", "p, signs", "p, Holm", "Verdict"]
    if len(claims):
        columns += ["A, print", "B, print", "A - B, print", "Part", "Source"]
    return pd.DataFrame(lines, columns=columns).fillna("")


def claims_of(row: dict[str, Any], claims: pd.DataFrame) -> pd.DataFrame:
    """The printed numbers of a comparison."""
    return claims[(claims[IDENTITY] == [row[name] for name in IDENTITY]).all(axis=1)]


def line_of(row: dict[str, Any]) -> dict[str, str]:
    """A comparison as texts, by column."""
    reason = f": {row['reason']}" if row["verdict"] == "undecided" else ""
    interval = "" if pd.isna(row["half_width"]) else f" ± {row['half_width']:.2f}"
    low, high = row["improvement_low"], row["improvement_high"]
    return {
        "Backbone": row["backbone"],
        "Method": named(row["label"], row["setting"]),
        "Task": row["task"],
        "n": str(row["n"]),
        "A": score_text(row["mean_a"], row["sd_a"]),
        "B": score_text(row["mean_b"], row["sd_b"]),
        "A - B": f"{row['difference']:+.2f}{interval}" if row["n"] else "–",
        "P(A > B)": "–" if pd.isna(low) else with_interval(row["improvement"], low, high),
        "p, signs": _p(row["permutation_p"]),
        "p, Holm": _p(row["p_adjusted"]),
        "Verdict": f"{COMPARISON_SYMBOLS[row['verdict']]} {row['verdict']}{reason}",
    }


def _printed(same: pd.DataFrame, *, named: bool) -> dict[str, str]:
    """Claims of the same numbers as texts, by column; `named` with the printed backbone."""
    claim = same.iloc[0]
    remark = "" if claim["comparable"] else " ≠"
    needed = "" if pd.isna(claim["seeds_claimed"]) else f" ({claim['seeds_claimed']} needed)"
    source = "; ".join(same["source"] + ", " + same["table"])
    claimed = "–" if pd.isna(claim["claimed"]) else f"{claim['claimed']:+.2f}{remark}{needed}"
    return {
        "A, print": score_text(claim["printed_a"], nan),
        "B, print": score_text(claim["printed_b"], nan),
        "A - B, print": claimed,
        "Part": with_interval(claim["part"], claim["part_low"], claim["part_high"]),
        "Source": source + (f" ({claim['printed_on']})" if named else ""),
    }


def baseline_name(suite: SuiteResults, frame: pd.DataFrame) -> str:
    """The name of the method that comparisons are with."""
    baseline = find(suite, frame["baseline"].iloc[0])
    return named(baseline.label, baseline.setting)


def _p(value: float) -> str:
    if pd.isna(value):
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def caption(suite: SuiteResults, frame: pd.DataFrame, claims: pd.DataFrame) -> str:
    """The caption of a table of comparisons."""
    first, names = frame.iloc[0], names_of(frame)
    ours = "every method on its backbones"
    if "Method" not in names:
        ours = named(first["label"], first["setting"])
    if "Task" not in names:
        ours = f"{first['task']} of {ours}"
    text = templates().get_template("compared.txt").render(
        suite=suite, ours=ours, baseline=baseline_name(suite, frame),
        board=suite.planned(first["board"]), has_claims=len(claims) > 0,
        symbols=COMPARISON_SYMBOLS, remark=suite.remark_on(frame["backbone"]),
    )  # fmt: skip
    return " ".join(text.split())


def render_versus(
    suite: SuiteResults,
    baseline: str,
    methods: Sequence[str] = (),
    backbones: Sequence[str] = (),
    out: Path | None = None,
    figures: Path | None = None,
) -> str:
    """Compare methods with a baseline, as in `against`; return the tables for the terminal. With
    several methods, they show averages only.

    Into `out`, tables are written in four formats, of which CSV has every task, and
    `<stem>_printed.csv` with the printed numbers; into `figures`, by default `out`, figures.
    """
    if figures and out is None:
        raise UserError("--figures needs --out, the folder of the tables; pass both")
    frame, claims = against(suite, baseline, methods, backbones)
    texts = []
    for board, rows in frame.groupby("board", sort=False):
        averages = rows[rows["task"] == suite.boards[board].overall]
        decisive = averages if "Method" in names_of(rows) and len(averages) else rows
        printed = claims.merge(decisive[IDENTITY], on=IDENTITY)
        stem = comparison_stem(board)
        table, text = shown(decisive, printed), caption(suite, decisive, printed)
        texts.append(plain(table, text))
        if out is None:
            continue
        import matplotlib  # takes half a second, and tables alone need none

        from bench.report.figures import compared
        from bench.report.figures.style import STYLE, save

        write_table(out, stem, rows, table, text)
        for folder in {out, figures or out}:
            write_text(folder / f"{stem}_printed.csv", csv(claims[claims["board"] == board]))
        with matplotlib.rc_context(STYLE):
            save(compared.versus_figure(suite, decisive, printed), (figures or out) / stem, rows)
    return "\n\n".join(texts)
