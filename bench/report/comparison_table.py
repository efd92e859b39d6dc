"""`python -m bench compare`: comparisons with a baseline as tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bench.comparison.against_baseline import IDENTITY, against, candidates
from bench.comparison.paired import COMPARISON_SYMBOLS
from bench.report.formats import csv, plain, score_text, with_interval, write_table
from bench.results.records import named
from bench.results.suite_results import SuiteResults, read_suite
from bench.runs.paths import comparison_stem
from bench.utils.errors import UserError
from bench.utils.files import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPARISON_LEGEND = "; ".join(f"{symbol} {word}" for word, symbol in COMPARISON_SYMBOLS.items())


def _names(frame: pd.DataFrame) -> list[str]:
    """The columns that identify a comparison on one backbone: Method if there are several, Task."""
    several = len(frame.groupby(["method", "setting"])) > 1
    return ["Method"] * several + ["Task"] * (not several or frame["task"].nunique() > 1)


def shown(frame: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Comparisons of one board (the two frames of `against`) as texts, one per line; further lines
    follow if papers print different numbers for it."""
    by_row = dict(list(claims.groupby(IDENTITY)))
    # Backbones that stand in for more than one printed backbone.
    printed_on = claims.groupby("backbone")["printed_on"].nunique()
    several = set(printed_on.index[printed_on > 1])
    numbers = ["printed_on", "printed_a", "printed_b"]
    lines: list[dict[str, str]] = []
    for row in frame.to_dict("records"):
        line = _line(row)
        printed = by_row.get(tuple(row[name] for name in IDENTITY), claims[:0])
        for _, same in printed.groupby(numbers, sort=False, dropna=False):
            lines.append(line | _printed(same, named=row["backbone"] in several))
            line = {}
        if line:
            lines.append(line)
    columns = [
        *("Backbone", *_names(frame), "n", "A", "B", "A - B"),
        *("P(A > B)", "p, signs", "p, Holm", "Verdict"),
        *(("A, print", "B, print", "A - B, print", "Part", "Source") if len(claims) else ()),
    ]
    return pd.DataFrame(lines, columns=columns).fillna("")


def _line(row: dict[str, Any]) -> dict[str, str]:
    """A comparison as texts, by column."""
    reason = f": {row['reason']}" if row["verdict"] == "undecided" else ""
    interval = "" if pd.isna(row["half_width"]) else f" ± {row['half_width']:.2f}"
    low, high = row["improvement_low"], row["improvement_high"]
    return {
        "Backbone": row["backbone"],
        "Method": _method(row),
        "Task": row["task"],
        "n": str(row["n"]),
        "A": score_text(row["mean_a"], row["sd_a"]),
        "B": score_text(row["mean_b"], row["sd_b"]),
        "A - B": f"{row['difference']:+.2f}{interval}" if row["n"] else "–",
        "P(A > B)": "–" if pd.isna(low) else with_interval(row["improvement"], low, high),
        "p, signs": _p(row["permutation_p"]),
        "p, Holm": _p(row["p_adjusted"]),
        "Verdict": _verdict(row) + reason,
    }


def _printed(same: pd.DataFrame, *, named: bool) -> dict[str, str]:
    """Claims of the same numbers as texts, by column; `named` with the printed backbone."""
    claim = same.iloc[0]
    remark = "" if claim["comparable"] else " ≠"
    needed = "" if pd.isna(claim["seeds_claimed"]) else f" ({claim['seeds_claimed']} needed)"
    gain = "–" if pd.isna(claim["claimed"]) else f"{claim['claimed']:+.2f}{remark}{needed}"
    source = "; ".join(same["source"] + ", " + same["table"])
    return {
        "A, print": score_text(claim["printed_a"], nan),
        "B, print": score_text(claim["printed_b"], nan),
        "A - B, print": gain,
        "Part": with_interval(claim["part"], claim["part_low"], claim["part_high"]),
        "Source": source + (f" ({claim['printed_on']})" if named else ""),
    }


def _method(row: dict[str, Any]) -> str:
    return named(row["label"], row["setting"])


def baseline_name(suite: SuiteResults, frame: pd.DataFrame) -> str:
    """The name of the method that comparisons (the first frame of `against`) are with."""
    text = frame["baseline"].iloc[0]
    baseline = next(one for one in candidates(suite) if one.text == text)
    return named(baseline.label, baseline.setting)


def _verdict(row: dict[str, Any]) -> str:
    return f"{COMPARISON_SYMBOLS[row['verdict']]} {row['verdict']}"


def _p(value: float) -> str:
    return "–" if pd.isna(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


CAPTION = (
    "A and B: mean ± standard deviation over the n seeds that both have; A - B: mean of their "
    "differences with its 95 % t interval; P(A > B): share of the seeds at which A is higher, with "
    "Wilson's interval; p of the permutation test, which flips signs, and of the paired t test "
    "after Holm's correction, which decides"
)
PRINTED_CAPTION = (
    "; the last columns are the printed numbers and their difference. (5 needed): 5 seeds of ours "
    "would show a difference of that size. Part: (A - B) / (A - B, print), how much of the printed "
    "difference ours has, with its 95 % interval, from 3 seeds on"
)


def caption(suite: SuiteResults, frame: pd.DataFrame, claims: pd.DataFrame) -> str:
    """The caption of a table of comparisons."""
    first, names = frame.to_dict("records")[0], _names(frame)
    ours = f"{'every method on its backbones' if 'Method' in names else _method(first)} (A)"
    ours = ours if "Task" in names else f"{first['task']} of {ours}"
    theirs = f"{baseline_name(suite, frame)} (B)"
    title = f"{ours} against {theirs}, {suite.planned(first['board']).title}"
    text, legend = CAPTION, COMPARISON_LEGEND
    if len(claims):
        text, legend = text + PRINTED_CAPTION, f"{legend}; ≠ not comparable with ours"
    remark = suite.remark_on(frame["backbone"])
    return f"Suite {suite.name}: {title}. {text}. {legend}. {remark}".strip()


def versus_figure(suite: SuiteResults, frame: pd.DataFrame, claims: pd.DataFrame) -> Figure:
    """The comparisons of one board: a panel per backbone, a mark for the difference at each seed.

    With several methods, those that are not trained are left out: their differences are so large
    that the gains of the others would not be visible.
    """
    from bench.report.figures.rows import aside, panels, zoom
    from bench.report.figures.style import BLUE, GREY, IN_LEGEND, INK, ORANGE, key

    seed = {"color": BLUE, "marker": "o", "ms": 4.2, "mew": 0.8, "ls": "", "alpha": 0.6}
    claim = {"color": ORANGE, "marker": "|", "ms": 13, "mew": 1.8, "ls": ""}
    mean = {"color": INK, "marker": "|", "ms": 7, "mew": 1.4, "lw": 1.2}
    names = _names(frame)
    several, trained = "Method" in names, frame[frame["kind"] == "paired"]
    frame = trained if several and len(trained) else frame
    first, note = frame.to_dict("records")[0], [suite.remark_on(frame["backbone"])]
    ours = f"every {'trained ' * len(trained[:1])}method" if several else f"{_method(first)},"
    if len(frame) > 1:
        note.append(
            "Intervals are of single differences; verdicts hold after Holm's correction, so a row "
            "may be undecided although its interval excludes 0."
        )
    if len(claims) and suite.remark:
        note.append("Printed differences are shown for their size only.")
    title = f"Suite {suite.name}: {ours} minus {baseline_name(suite, frame)}, seed by seed"
    scale = f"difference in points ({suite.planned(first['board']).title})"
    handles = [
        key("difference at one seed", seed),
        key("mean, 95 % interval before Holm's correction", mean),
    ]
    if claims["claimed"].notna().any():
        handles.append(key("printed difference", claim | IN_LEGEND))
    by_row = dict(list(claims.groupby(IDENTITY)["claimed"]))
    texts = [{"Method": _method(row), "Task": row["task"]} for row in frame.to_dict("records")]
    labels = [", ".join(text[name] for name in names) for text in texts]
    figure, drawn = panels(frame, labels, title, " ".join(note).strip(), handles, scale)
    for panel, _, rows in drawn:
        panel.axvline(0, color=GREY, lw=1, zorder=1)
        for y, row in enumerate(rows.to_dict("records")):
            own = by_row.get(tuple(row[name] for name in IDENTITY), claims["claimed"][:0]).dropna()
            panel.plot(own, [y] * len(own), **claim, zorder=2)
            panel.plot(row["differences"], [y + 0.16] * row["n"], **seed, zorder=3)
            half_width = 0.0 if pd.isna(row["half_width"]) else row["half_width"]
            ends = [row["difference"] + end for end in (-half_width, 0, half_width)]
            panel.plot(ends, [y - 0.1] * 3, **mean, zorder=4)
            aside(panel, y, _verdict(row), bold=row["verdict"] != "undecided")
    zoom(drawn, always=[0])
    return figure


def render_versus(
    suite_dir: Path,
    baseline: str,
    methods: Sequence[str] = (),
    backbones: Sequence[str] = (),
    out: Path | None = None,
    figures: Path | None = None,
) -> str:
    """Compare methods with a baseline. With several methods, the tables show averages only.

    Args:
        suite_dir: folder of the suite.
        baseline, methods, backbones: as in `against`.
        out: folder of the tables `compare` (STS) and `compare_<board>` in four formats; the CSV has
            every task. `<stem>_printed.csv` holds the printed numbers.
        figures: folder of the figures and their data; `out` by default.

    Returns:
        The tables for the terminal.

    Raises:
        UserError: as in `against`; or files of the suite are missing or damaged, or a folder cannot
            be written.
    """
    if figures and out is None:
        raise UserError("--figures needs --out, the folder of the tables; pass both")
    suite = read_suite(suite_dir)
    frame, claims = against(suite, baseline, methods, backbones)
    texts = []
    for board, rows in frame.groupby("board", sort=False):
        averages = rows[rows["task"] == suite.boards[board].overall]
        decisive = averages if "Method" in _names(rows) and len(averages) else rows
        printed = claims.merge(decisive[IDENTITY], on=IDENTITY)
        stem = comparison_stem(board)
        table, text = shown(decisive, printed), caption(suite, decisive, printed)
        texts.append(plain(table, text))
        if out is None:
            continue
        import matplotlib

        from bench.report.figures.style import STYLE, save

        write_table(out, stem, rows, table, text)
        for folder in {out, figures or out}:
            write_text(folder / f"{stem}_printed.csv", csv(claims[claims["board"] == board]))
        with matplotlib.rc_context(STYLE):
            save(versus_figure(suite, decisive, printed), (figures or out) / stem, rows)
    return "\n\n".join(texts)
