"""`python -m bench compare`: comparisons with a baseline as tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bench.comparison.against_baseline import IDENTITY, against
from bench.comparison.paired import COMPARISON_SYMBOLS
from bench.report.formats import csv, markdown, write_table
from bench.report.tables import score_text
from bench.results.suite_results import SuiteResults, read_suite
from bench.utils.errors import UserError
from bench.utils.files import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPARISON_LEGEND = "; ".join(f"{symbol} {word}" for word, symbol in COMPARISON_SYMBOLS.items())


def _names(frame: pd.DataFrame) -> list[str]:
    """The columns that identify a comparison on one backbone: `Method` if there are several,
    `Task`, or both."""
    several = len(frame.groupby(["method", "setting"])) > 1
    return ["Method"] * several + ["Task"] * (not several or frame["task"].nunique() > 1)


def shown(frame: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Comparisons of one board as texts, one per line; further lines follow if papers print
    different numbers for it.

    Args:
        frame, claims: the two frames of `against`, for one board.
    """
    by_row = dict(list(claims.groupby(IDENTITY)))
    # Backbones that stand in for more than one printed backbone.
    several = {
        backbone
        for backbone, group in claims.groupby("backbone")
        if group["printed_on"].nunique() > 1
    }
    lines: list[dict[str, str]] = []
    for row in frame.to_dict("records"):
        reason = f": {row['reason']}" if row["verdict"] == "undecided" else ""
        interval = "" if pd.isna(row["half_width"]) else f" ± {row['half_width']:.2f}"
        line = {"Backbone": row["backbone"], "Method": _method(row), "Task": row["task"]}
        line |= {"n": str(row["n"]), "A": score_text(row["mean_a"], row["sd_a"])}
        line |= {"B": score_text(row["mean_b"], row["sd_b"])}
        line |= {"A - B": f"{row['difference']:+.2f}{interval}" if row["n"] else "–"}
        line |= {
            "P(A > B)": _share(row),
            "p, signs": _p(row["permutation_p"]),
            "p, Holm": _p(row["p_adjusted"]),
        }
        line |= {"Verdict": f"{COMPARISON_SYMBOLS[row['verdict']]} {row['verdict']}{reason}"}
        printed = by_row.get(tuple(row[name] for name in IDENTITY), claims[:0])
        for _, same in printed.groupby(
            ["printed_on", "printed_a", "printed_b"], sort=False, dropna=False
        ):
            claim = same.iloc[0]
            remark = "" if claim["comparable"] else " ≠"
            needed = "" if pd.isna(claim["seeds_claimed"]) else f" ({claim['seeds_claimed']} seeds)"
            gain = "–" if pd.isna(claim["claimed"]) else f"{claim['claimed']:+.2f}{remark}{needed}"
            line |= {
                "A, print": score_text(claim["printed_a"], nan),
                "B, print": score_text(claim["printed_b"], nan),
            }
            source = "; ".join(same["source"] + ", " + same["table"])
            on = f" ({claim['printed_on']})" if row["backbone"] in several else ""
            line |= {"A - B, print": gain, "Source": source + on}
            lines.append(line)
            line = {}
        if line:
            lines.append(line)
    columns = [
        "Backbone",
        *_names(frame),
        "n",
        "A",
        "B",
        "A - B",
        "P(A > B)",
        "p, signs",
        "p, Holm",
        "Verdict",
    ]
    columns += ["A, print", "B, print", "A - B, print", "Source"] if len(claims) else []
    return pd.DataFrame(lines, columns=columns).fillna("")


def _method(row: dict[str, Any]) -> str:
    return f"{row['label']}, {row['setting']}"


def _p(value: float) -> str:
    return "–" if pd.isna(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


def _share(row: dict[str, Any]) -> str:
    if pd.isna(row["improvement_low"]):
        return "–"
    return f"{row['improvement']:.2f} [{row['improvement_low']:.2f}, {row['improvement_high']:.2f}]"


def caption(suite: SuiteResults, frame: pd.DataFrame, claims: pd.DataFrame) -> str:
    """The caption of a table of comparisons; it explains the printed columns only if there are
    any."""
    first = frame.to_dict("records")[0]
    names = _names(frame)
    ours = f"{'every method on its backbones' if 'Method' in names else _method(first)} (A)"
    ours = ours if "Task" in names else f"{first['task']} of {ours}"
    text = (
        f"Suite {suite.name}: {ours} against {first['baseline']} (B), {suite.boards[first['board']].title}. "
        "A and B: mean ± standard deviation over the n seeds that both have; A - B: mean of their differences with its "
        "95 % t interval; P(A > B): share of the seeds at which A is higher, with Wilson's interval; p of the "
        "permutation test, which flips signs, and of the paired t test after Holm's correction, which decides"
    )
    legend = COMPARISON_LEGEND
    if len(claims):
        text += "; last the printed numbers, their difference, and the number of seeds that would show such a difference"
        legend += "; ≠ not comparable with ours"
    return f"{text}. {legend}. {suite.remark_on(frame['backbone'])}".strip()


def versus_figure(suite: SuiteResults, frame: pd.DataFrame, claims: pd.DataFrame) -> Figure:
    """The comparisons of one board: a panel per backbone, a mark for the difference at each seed.

    With several methods, those that are not trained are left out: their differences are so large
    that the gains of the others would not be visible.
    """
    from matplotlib.lines import Line2D

    from bench.report.figures import style
    from bench.report.figures.style import BLUE, GREY, INK, ORANGE

    seed: dict[str, Any] = {
        "color": BLUE,
        "marker": "o",
        "ms": 4.2,
        "mew": 0.8,
        "ls": "",
        "alpha": 0.6,
    }
    claim: dict[str, Any] = {"color": ORANGE, "marker": "|", "ms": 13, "mew": 1.8, "ls": ""}
    mean: dict[str, Any] = {"color": INK, "marker": "|", "ms": 7, "mew": 1.4, "lw": 1.2}
    names = _names(frame)
    several, trained = "Method" in names, frame[frame["kind"] == "paired"]
    frame = trained if several and len(trained) else frame
    panels = dict(list(frame.groupby("backbone", sort=False)))
    first, note = frame.to_dict("records")[0], [suite.remark_on(frame["backbone"])]
    ours = f"every {'trained ' * len(trained[:1])}method" if several else f"{_method(first)},"
    if len(frame) > 1:
        note.append("Intervals are of single differences; verdicts hold after Holm's correction.")
    if len(claims) and suite.remark:
        note.append("Printed differences are shown for their size only.")
    title = f"Suite {suite.name}: {ours} minus {first['baseline']}, seed by seed"
    scale = f"difference in points ({suite.boards[first['board']].title})"
    handles = [
        Line2D([], [], **seed, label="difference at one seed"),
        Line2D([], [], **mean, label="mean with its 95 % interval"),
    ]
    if claims["claimed"].notna().any():
        handles.append(Line2D([], [], **claim, label="printed difference"))
    counts = [len(rows) for rows in panels.values()]
    figure, axes = style.panels(counts, title, " ".join(note).strip(), handles, scale)
    for panel, (backbone, rows) in zip(axes, panels.items(), strict=True):
        style.heading(panel, backbone)
        records = rows.to_dict("records")
        texts = [{"Method": _method(row), "Task": row["task"]} for row in records]
        style.names(panel, [", ".join(text[name] for name in names) for text in texts])
        panel.axvline(0, color=GREY, lw=1, zorder=1)
        for y, row in enumerate(records):
            own = claims[
                (claims[IDENTITY] == pd.Series({name: row[name] for name in IDENTITY})).all(axis=1)
            ]
            panel.plot(own["claimed"].dropna(), [y] * own["claimed"].count(), **claim, zorder=2)
            panel.plot(row["differences"], [y + 0.16] * row["n"], **seed, zorder=3)
            half_width = 0.0 if pd.isna(row["half_width"]) else row["half_width"]
            panel.plot(
                [row["difference"] + end for end in (-half_width, 0, half_width)],
                [y - 0.1] * 3,
                **mean,
                zorder=4,
            )
            text = f"{COMPARISON_SYMBOLS[row['verdict']]} {row['verdict']}"
            panel.text(1.02, y, text, transform=panel.get_yaxis_transform(), va="center", color=INK,
                       weight="normal" if row["verdict"] == "undecided" else "bold")  # fmt: skip
    return figure


def comparison_stem(board: str) -> str:
    """The stem of the file names of a board's comparisons."""
    return "compare" if board == "sts" else f"compare_{board}"


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
        The tables in Markdown.

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
        texts.append(markdown(table, text))
        if out is None:
            continue
        write_table(out, stem, rows, table, text)
        for folder in {out, figures or out}:
            write_text(folder / f"{stem}_printed.csv", csv(claims[claims["board"] == board]))
        import matplotlib

        from bench.report.figures.style import STYLE, save

        with matplotlib.rc_context(STYLE):
            save(versus_figure(suite, decisive, printed), (figures or out) / stem, rows)
    return "\n".join(texts)
