"""`python -m bench compare`: comparisons with a baseline as tables and figures."""

from math import nan
from pathlib import Path
from typing import Any

import pandas as pd

from bench.judge.against_baseline import COMPARISON_SYMBOLS, IDENTITY, by_items, find
from bench.report.formats import (
    csv,
    difference_text,
    plain,
    score_text,
    templates,
    with_interval,
    write_table,
)
from bench.results.suite_results import SuiteResults
from bench.runs.paths import comparison_stem
from bench.utils.files import write_text


def names_of(frame: pd.DataFrame) -> list[str]:
    """The columns that identify a comparison on one backbone: Method if there are several, Task."""
    several = len(frame.groupby(["method", "setting"])) > 1
    return ["Method"] * several + ["Task"] * (not several or frame["task"].nunique() > 1)


def shown(frame: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Comparisons of one board (the two frames of `against`) as texts, one per line; further lines
    follow if papers print different numbers for it."""
    lines: list[dict[str, str]] = []
    for row in frame.to_dict("records"):
        line = line_of(row)
        numbers = claims_of(row, claims).groupby(
            ["printed_a", "printed_b"], sort=False, dropna=False
        )
        for _, same in numbers:
            lines.append(line | _printed(same))
            line = {}
        if line:
            lines.append(line)
    columns = ["Backbone", *names_of(frame), "n", "A", "B", "A - B", "p, Holm", "Verdict"]
    if len(claims):
        columns += ["A, print", "B, print", "A - B, print", "Part", "Source"]
    return pd.DataFrame(lines, columns=columns).fillna("")


def claims_of(row: dict[str, Any], claims: pd.DataFrame) -> pd.DataFrame:
    """The printed numbers of a comparison."""
    return claims[(claims[IDENTITY] == [row[name] for name in IDENTITY]).all(axis=1)]


def line_of(row: dict[str, Any]) -> dict[str, str]:
    """A comparison as texts, by column."""
    reason = f": {row['reason']}" if row["verdict"] == "undecided" else ""
    return {
        "Backbone": row["backbone"],
        "Method": row["name"],
        "Task": row["task"],
        "n": f"{row['n']}" if pd.isna(row["items"]) else f"{row['items']:,} items",
        "A": score_text(row["mean_a"], row["sd_a"]),
        "B": score_text(row["mean_b"], row["sd_b"]),
        "A - B": difference_text(row["difference"], row["half_width"]),
        "p, Holm": p_text(row["p_adjusted"]),
        "Verdict": f"{COMPARISON_SYMBOLS[row['verdict']]} {row['verdict']}{reason}",
    }


def _printed(same: pd.DataFrame) -> dict[str, str]:
    """Claims of the same numbers as texts, by column."""
    claim = same.iloc[0]
    needed = "" if pd.isna(claim["seeds_claimed"]) else f" ({claim['seeds_claimed']} needed)"
    return {
        "A, print": score_text(claim["printed_a"], nan),
        "B, print": score_text(claim["printed_b"], nan),
        "A - B, print": difference_text(claim["claimed"], nan) + needed,
        "Part": with_interval(claim["part"], claim["part_low"], claim["part_high"]),
        "Source": "; ".join(same["source"] + ", " + same["table"]),
    }


def p_text(value: float) -> str:
    if pd.isna(value):
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def caption(suite: SuiteResults, frame: pd.DataFrame, claims: pd.DataFrame) -> str:
    """The caption of a table of comparisons."""
    first, names = frame.iloc[0], names_of(frame)
    ours = "every method on its backbones" if "Method" in names else first["name"]
    if "Task" not in names:
        ours = f"{first['task']} of {ours}"
    text = templates().get_template("compared.txt").render(
        suite=suite, ours=ours, baseline=find(suite, first["baseline"]).name,
        board=suite.planned(first["board"]), has_claims=len(claims) > 0,
        symbols=COMPARISON_SYMBOLS, remark=suite.remark_on(frame["backbone"]),
        by_items=by_items(frame),
        priors=frame[frame["prior_df"] > 0].drop_duplicates(["backbone", "task"]),
    )  # fmt: skip
    return " ".join(text.split())


def render_versus(
    suite: SuiteResults,
    frame: pd.DataFrame,
    claims: pd.DataFrame,
    out: Path | None = None,
    figures: Path | None = None,
) -> str:
    """The comparisons of a suite, the two frames of `against`, as tables for the terminal. With
    several methods they show averages only, if there are any; the greatest difference is first, and
    controls with labels are last.

    Into `out`, tables are written in three formats, of which CSV has every task, and printed
    numbers, if there are any, as `<stem>_printed.csv`; into `figures`, by default `out`, figures.
    """
    texts = []
    for board, rows in frame.groupby("board", sort=False):
        decisive = rows
        if "Method" in names_of(rows):
            averages = rows[rows["task"] == suite.boards[board].overall]
            groups = (averages if len(averages) else rows).groupby(["backbone", "task"], sort=False)
            decisive = pd.concat(
                group.sort_values(["labelled", "difference"], ascending=[True, False])
                for _, group in groups
            )
        printed = claims.merge(decisive[IDENTITY], on=IDENTITY)
        stem = comparison_stem(board)
        table, text = shown(decisive, printed), caption(suite, decisive, printed)
        texts.append(plain(table, text))
        if out is None:
            continue
        # matplotlib takes half a second, and tables alone need none.
        from bench.report.figures import compared
        from bench.report.figures.style import drawing, save

        write_table(out, suite.plan.suite, stem, rows, table, text)
        if len(printed):
            write_text(out / f"{stem}_printed.csv", csv(claims[claims["board"] == board]))
        with drawing():
            save(compared.versus_figure(suite, decisive, printed), (figures or out) / stem, rows)
    return "\n\n".join(texts)
