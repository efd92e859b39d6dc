"""`sentbench compare`: comparisons with a baseline as tables and figures."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.judged.rows import Heading, PairRow, PrintedGain, grouped
from bench.report.formats import (
    Frame,
    TextTable,
    by_items,
    csv,
    data_frame,
    difference_text,
    leaderboard_stem,
    names_of,
    plain,
    reasons,
    running_text,
    score_text,
    text_table,
    verdict_text,
    write_table,
)
from bench.utils.files import write_text

IDENTITY = ["leaderboard", "backbone", "method", "setting", "task"]  # of a comparison
CROSSED = "compare_sts_transfer"  # stem of the figure of STS against transfer tasks
RIGHT = {"n", "A", "B", "A - B", "p", "p, margin", "A, print", "B, print"}  # columns of numbers


def pairs_frame(pairs: Sequence[PairRow]) -> Frame:
    """Comparisons as numbers, a row each: the fields of `PairRow`."""
    rows = [{**dict(pair), "label": pair.plain_label} for pair in pairs]
    frame = data_frame(rows, integers=("items", "family", "planned", "next_look"))
    return frame.drop(columns=["outside", "runs", "baseline_name", "printed"])


def printed_frame(pairs: Sequence[PairRow]) -> Frame:
    """The printed numbers of comparisons, a row each: the fields of `PrintedGain`. Single tasks of
    a leaderboard are first."""
    lines = []
    for same in grouped(pairs, lambda pair: pair.leaderboard):
        for pair in sorted(same, key=lambda pair: pair.task == "Avg"):
            identity = {name: getattr(pair, name) for name in IDENTITY}
            lines += [identity | dict(gain) for gain in pair.printed]
    return data_frame(lines, [*IDENTITY, *PrintedGain.model_fields])


def greatest_first(pairs: Iterable[PairRow]) -> list[PairRow]:
    """Comparisons by their difference. Comparisons without a difference are last."""
    return sorted(pairs, key=lambda pair: (pair.difference is None, -(pair.difference or 0)))


def _shown(pairs: Sequence[PairRow]) -> TextTable:
    """Comparisons of one leaderboard as texts, one per line. Further lines follow a comparison for
    which papers print different numbers."""
    lines = []
    for pair in pairs:
        same = grouped(pair.printed, lambda gain: (gain.printed_a, gain.printed_b))
        texts = [_printed(gains) for gains in same] or [{}]
        texts[0] = line_of(pair) | texts[0]
        lines += texts
    # The caption names what all rows share.
    unused = {"Method", "Task"}.difference(names_of(pairs))
    if not any(pair.verdict for pair in pairs):
        unused |= {"p", "p, margin", "Verdict"}
    return text_table(lines, RIGHT).without(*unused)


def line_of(pair: PairRow) -> dict[str, str]:
    """A comparison as texts, by column."""
    return {
        "Backbone": pair.backbone,
        "Method": pair.name,
        "Task": pair.task,
        "n": str(pair.n) if pair.items is None else f"{pair.items:,} items",
        "A": score_text(pair.mean_a, pair.sd_a),
        "B": score_text(pair.mean_b, pair.sd_b),
        "A - B": difference_text(pair.difference, pair.half_width),
        "p": p_text(pair.p_adjusted),
        "p, margin": p_text(pair.p_below),
        "Verdict": verdict_text(pair.verdict, pair.progress),
    }


def _printed(gains: Sequence[PrintedGain]) -> dict[str, str]:
    """Gains of the same numbers as texts, by column."""
    gain = gains[0]
    part = score_text(gain.part)
    if gain.part_low is not None:  # with a single seed there is no interval
        part += f" [{gain.part_low:.2f}, {gain.part_high:.2f}]"
    return {
        "A, print": score_text(gain.printed_a),
        "B, print": score_text(gain.printed_b),
        "A - B, print": difference_text(gain.gain),
        "Part": part,
        "Source": "; ".join(f"{gain.source}, {gain.table}" for gain in gains),
    }


def p_text(value: float | None) -> str:
    if value is not None and value < 0.001:
        return "< 0.001"
    return score_text(value, digits=3)


def comparison_caption(suite: Heading, pairs: Sequence[PairRow]) -> str:
    """The caption of a table of comparisons."""
    return running_text(
        "compared.txt", suite=suite, pairs=pairs, names=names_of(pairs), by_items=by_items(pairs)
    )  # fmt: skip


def _decisive(pairs: Sequence[PairRow], overall: str) -> list[PairRow]:
    """The overall comparisons of several methods on a leaderboard, if there are any. The greatest
    difference is first, and controls with labels are last. Of a single method, all comparisons."""
    if "Method" not in names_of(pairs):
        return [*pairs]
    averages = [pair for pair in pairs if pair.task == overall]
    decisive = []
    for same in grouped(averages or pairs, lambda pair: (pair.backbone, pair.task)):
        decisive += sorted(greatest_first(same), key=lambda pair: pair.labelled)
    return decisive


def render_versus(
    suite: Heading,
    pairs: Sequence[PairRow],
    out: Path | None = None,
    figures: Path | None = None,
) -> str:
    """The comparisons of a suite with a baseline as tables for the terminal. With several methods
    they show averages only, if there are any.

    Tables are written into `out` in three formats, of which CSV has every task, with printed
    numbers, if there are any, as `<stem>_printed.csv`. Figures are written into `figures`, by
    default into `out`.
    """
    texts, numbers = [], pairs_frame(pairs)
    for rows in grouped(pairs, lambda pair: pair.leaderboard):
        leaderboard = rows[0].leaderboard
        decisive = _decisive(rows, suite.leaderboard(leaderboard).whole.overall)
        table, text = _shown(decisive), comparison_caption(suite, decisive)
        texts.append(plain(table, text))
        if out is None:
            continue
        # matplotlib takes half a second, and tables alone need none.
        from bench.report.figures.compared import versus_figure
        from bench.report.figures.crossed import crossed_figure, crossed_table
        from bench.report.figures.style import drawing, save

        stem = leaderboard_stem(leaderboard, "compare")
        on_leaderboard = numbers[numbers["leaderboard"] == leaderboard]
        why = reasons(pairs=decisive)
        write_table(out, suite.suite, stem, on_leaderboard, table, text, "", why)
        if any(pair.printed for pair in decisive):
            write_text(out / f"{stem}_printed.csv", csv(printed_frame(rows)))
        crossed = crossed_table(numbers)
        with drawing():
            save(versus_figure(suite, decisive), figures or out, stem, on_leaderboard)
            # Two systems have no order to speak of.
            if leaderboard == "transfer" and len(crossed) > 2:
                save(crossed_figure(suite, crossed), figures or out, CROSSED, crossed)
    return "\n\n".join(texts)
