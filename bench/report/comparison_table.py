"""Comparisons with a baseline as tables; two encoders or two rows for the terminal."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.judged.rows import Heading, PairRow, PrintedGain
from bench.report.formats import (
    Frame,
    TextTable,
    csv,
    data_frame,
    difference_text,
    leaderboard_stem,
    names_of,
    paragraphs,
    plain,
    reasons,
    running_text,
    score_text,
    text_table,
    verdict_text,
    write_table,
)
from bench.utils.errors import printable
from bench.utils.files import write_text
from bench.utils.groups import grouped

IDENTITY = ["leaderboard", "backbone", "method", "setting", "task"]  # of a comparison
RIGHT = {"pairs", "A", "B", "A - B", "p", "p, margin", "A, print", "B, print"}  # columns of numbers


def pairs_frame(pairs: Sequence[PairRow]) -> Frame:
    """Comparisons as numbers, a row each: the fields of `PairRow`."""
    rows = [{**dict(pair), "label": pair.plain_label} for pair in pairs]
    frame = data_frame(rows, integers=("items", "family", "planned", "next_look"))
    return frame.drop(columns=["outside", "runs", "baseline_name", "printed"])


def encoders_frame(pairs: Sequence[PairRow]) -> Frame:
    """Comparisons of two encoders over test items as numbers, a row each."""
    fields = "leaderboard task mean_a mean_b difference half_width p_adjusted items verdict"
    columns = "leaderboard task a b difference half_width p n verdict"
    return pairs_frame(pairs)[fields.split()].set_axis(columns.split(), axis="columns")


def printed_frame(pairs: Sequence[PairRow]) -> Frame:
    """The printed numbers of comparisons, a row each: the fields of `PrintedGain`. Single tasks of
    a leaderboard are first."""
    lines = []
    for same in grouped(pairs, "leaderboard"):
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
        same = grouped(pair.printed, "printed_a", "printed_b")
        texts = [_printed(gains) for gains in same] or [{}]
        texts[0] = line_of(pair) | texts[0]
        lines += texts
    # The caption names what all rows share.
    unused = {"Method", "Task"}.difference(names_of(pairs))
    if not any(pair.verdict for pair in pairs):
        unused |= {"p", "Verdict"}
    if not any(pair.margin for pair in pairs):
        unused.add("p, margin")
    if len({pair.backbone for pair in pairs}) == 1:
        unused.add("Backbone")
    return text_table(lines, RIGHT).without(*unused)


def line_of(pair: PairRow) -> dict[str, str]:
    """A comparison as texts, by column."""
    return {
        "Backbone": pair.backbone,
        "Method": pair.name,
        "Task": pair.task,
        "pairs": str(pair.n) if pair.items is None else f"{pair.items:,} items",
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
    """The line above a table of comparisons."""
    return running_text("compared.txt", suite=suite, pairs=pairs, names=names_of(pairs))


def comparison_legend(suite: Heading, pairs: Sequence[PairRow]) -> list[str]:
    """What the columns and symbols of these comparisons mean, in paragraphs."""
    return paragraphs("compared_legend.txt", suite=suite, pairs=pairs)


def decisive(suite: Heading, pairs: Sequence[PairRow]) -> list[PairRow]:
    """Of the comparisons on a leaderboard, the overall ones of several methods, if there are any,
    for a table and a figure. The greatest difference is first, and controls with labels are last.
    Of a single method, all comparisons."""
    if "Method" not in names_of(pairs):
        return [*pairs]
    overall = suite.leaderboard(pairs[0].leaderboard).whole.overall
    averages = [pair for pair in pairs if pair.task == overall]
    rows = []
    for same in grouped(averages or pairs, "backbone", "task"):
        rows += sorted(greatest_first(same), key=lambda pair: pair.labelled)
    return rows


def write_comparisons(suite: Heading, pairs: Sequence[PairRow], out: Path) -> None:
    """Write the comparisons of a suite with a baseline, as tables in three formats. CSV has every
    task, with printed numbers, if there are any, as `<stem>_printed.csv`."""
    for rows in grouped(pairs, "leaderboard"):
        shown, stem = decisive(suite, rows), leaderboard_stem(rows[0].leaderboard, "compare")
        caption, notes = comparison_caption(suite, shown), comparison_legend(suite, shown)
        why = reasons(pairs=shown)
        write_table(
            out, suite.suite, stem, pairs_frame(rows), _shown(shown), caption, *notes, why=why
        )
        if any(pair.printed for pair in shown):
            write_text(out / f"{stem}_printed.csv", csv(printed_frame(rows)))


def two_compared(suite: Heading, pairs: Iterable[PairRow], unclaimed: str) -> str:
    """The comparison of two systems for the terminal: a line for each leaderboard, or for its tasks
    if not all are there. `unclaimed` says why a line has no verdict."""
    shown, titles = [], []
    for pair in pairs:
        leaderboard = suite.leaderboard(pair.leaderboard)
        if pair.task in leaderboard.summary:
            task = f"{leaderboard.whole.family}, {pair.task}"
            shown.append(pair.changed(task=task, printed=()))
            titles.append(leaderboard.planned.title)
    notes = comparison_legend(suite, shown)
    if not all(pair.verdict for pair in shown):
        notes.append(f"Without a verdict: {unclaimed}.")
    names = f"A: {shown[0].name}", f"B: {shown[0].baseline_name}"
    table = plain(_shown(shown), "; ".join(dict.fromkeys(titles)), *notes)
    return "\n".join([*map(printable, names), "", table])
