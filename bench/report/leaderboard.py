"""The suite's own tables: every system with its seeds, and its difference from the baseline."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from bench.judged.rows import NO_BACKBONE, Heading, Judged, LeaderboardRow, SystemRow
from bench.judged.verdicts import COMPARISON_SYMBOLS
from bench.report.formats import (
    Bold,
    Frame,
    TextTable,
    backbone_text,
    csv,
    data_frame,
    difference_text,
    filled,
    latex,
    markdown,
    markdown_text,
    paragraphs,
    plain,
    reasons,
    running_text,
    score_text,
    seeds_text,
    verdict_text,
)
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import inside, stem, write_text

FIELDS = (
    "backbone label method setting corpus name labelled n remark seen on_unseen in_dev on_rest "
    "averages"
)
# The share of the test items that stand in the dev set, and the average on the rest.
IN_DEV = "In dev set (rest)"
# How a format writes the legend below several leaderboards.
WRITTEN: dict[str, Callable[[str], str]] = {"text": filled, "markdown": markdown_text}


def shown_leaderboards(judged: Judged) -> list[LeaderboardRow]:
    """The leaderboards that hold any score, and the leaderboard of STS in any case: a suite always
    has a leaderboard, also before its first score."""
    scored = {row.leaderboard for row in judged.systems if any(score.n for score in row.scores)} | {
        "sts"
    }
    return [leaderboard for leaderboard in judged.suite.leaderboards if leaderboard.name in scored]


def difference_title(leaderboard: LeaderboardRow) -> str:
    """The heading of the column with differences from the baseline."""
    overall = leaderboard.overall
    return "Minus baseline" if overall == "Avg" else f"{overall} minus baseline"


def _difference(row: SystemRow, has_verdicts: bool) -> str:
    if row.is_baseline:
        return "baseline"
    text = difference_text(row.difference, row.half_width)
    if not row.verdict:
        return text
    mark = (
        verdict_text(row.verdict, row.progress) if has_verdicts else COMPARISON_SYMBOLS[row.verdict]
    )
    text = f"{text} {mark}"
    return Bold(text) if row.verdict.startswith("better") else text


def shown_leaderboard(
    suite: Heading,
    leaderboard: LeaderboardRow,
    rows: Sequence[SystemRow],
    *,
    is_short: bool = False,
) -> TextTable:
    """A leaderboard as texts. The difference of a claim that is better is bold.

    Args:
        suite, leaderboard, rows: the suite, one of its leaderboards, the systems that are shown.
        is_short: whether verdicts are symbols, and standard deviations those of the average alone.
    """
    title = difference_title(leaderboard)
    same_names = Counter((row.backbone, row.name) for row in rows)
    lines = []
    for row in rows:
        name = suite.short(row.name)
        if row.corpus and same_names[row.backbone, row.name] > 1:
            name += f", {row.corpus}"
        group = backbone_text(row.backbone)
        if row.labelled:
            group += ", trained with labels"
        remarks = [row.progress, row.remark] if is_short else [row.remark]
        in_dev = f"{row.in_dev:.1f} %" if row.in_dev else ""
        if in_dev and row.on_rest is not None:
            in_dev += f" ({row.on_rest:.2f})"
        line = {
            "Backbone": group,
            "Method": name,
            "n": str(row.n),
            title: _difference(row, not is_short),
            IN_DEV: in_dev,
            "Remark": "; ".join(filter(None, remarks)),
        }
        for task in leaderboard.columns:
            score = row.score(task)
            has_sd = task == "Avg" or not is_short or "Avg" not in leaderboard.columns
            text = score_text(score.mean, score.sd if has_sd else None)
            line[task] = text + seeds_text(score.n, row.n)
        lines.append(line)
    columns = {"Backbone": False, "Method": False, "n": True} | dict.fromkeys(
        leaderboard.columns, True
    )
    if suite.is_compared:
        columns[title] = True
    # Without an average on the rest, the column would repeat what the legend says.
    if any(row.in_dev and row.on_rest for row in rows):
        columns[IN_DEV] = True
    if any(row.remark for row in rows):
        columns["Remark"] = False
    return TextTable(columns, lines)


def caption(suite: Heading, leaderboard: LeaderboardRow, rows: Sequence[SystemRow]) -> str:
    """The line above a leaderboard: the suite, what is scored, and the backbone and n if all rows
    share them."""
    return running_text("caption.txt", suite=suite, leaderboard=leaderboard, rows=rows)


def legend(suite: Heading, rows: Collection[SystemRow]) -> list[str]:
    """What columns, symbols and intervals of leaderboards with these rows mean, in paragraphs: no
    more than occurs in them, but corrections are those of the whole suite."""
    return paragraphs("leaderboard.txt", suite=suite, rows=rows)


def frame(judged: Judged, name: str = "sts", rows: Sequence[SystemRow] | None = None) -> Frame:
    """A leaderboard as numbers: a row a system, the best average of a backbone first; then systems
    without a backbone, then systems trained with labels.

    Args:
        judged: the suite.
        name: of the leaderboard.
        rows: of the leaderboard; by default all.

    Returns:
        A DataFrame with `backbone`, `label`, `method`, `setting`, `corpus`, `name` (label and
        setting), `labelled` (whether it is trained with labels), `n` (finished seeds or templates;
        without either, seeds of the classifiers), `remark` (why others have no scores, and how many
        test items have a sentence in the corpus), `seen` (their percentage, over all tasks),
        `on_unseen` (the mean of `averages`, on the other items), `in_dev` (the percentage of test
        items that stand in the dev set), `on_rest` (the mean of `averages`, on the items neither
        there nor in the corpus), `averages` (tuple, n of them: over the planned tasks); for each
        planned task, and `Avg` if all are planned, `<task>`, the mean in points, `<task> sd`,
        `<task> n`; and if the suite names a baseline, `difference` from it, `half_width` of its
        interval (98 %, over test items 95 %), `verdict` and its `reason`, a sentence, which are
        empty as long as the baseline has no scores.

    Raises:
        UserError: the suite has no such leaderboard.
    """
    suite, names = judged.suite, [leaderboard.name for leaderboard in judged.suite.leaderboards]
    if name not in names:
        raise UserError(
            f"suite {suite.suite} has no leaderboard '{name}'{did_you_mean(name, names)}"
        )
    columns, tasks = FIELDS.split(), suite.leaderboard(name).columns
    for task in tasks:
        columns += [task, f"{task} sd"]
    columns += [f"{task} n" for task in tasks]
    if suite.baseline:
        columns += ["difference", "half_width", "verdict", "reason"]
    lines = []
    for row in judged.leaderboard_systems(name) if rows is None else rows:
        verdict = "baseline" if row.is_baseline else row.verdict or ""
        line = dict(row, label=row.plain_label, verdict=verdict)
        for score in row.scores:
            task = score.task
            line |= {task: score.mean, f"{task} sd": score.sd, f"{task} n": score.n}
        lines.append(line)
    return data_frame(lines, columns)


def in_format(
    judged: Judged,
    leaderboard: LeaderboardRow,
    rows: Sequence[SystemRow],
    form: str,
    *,
    has_legend: bool = True,
) -> str:
    """A leaderboard in one of `LEADERBOARD_FORMATS`, as text and in LaTeX a short one; or, of the
    form "why", the reasons of its verdicts."""
    if form == "why":
        return "\n".join(reasons(systems=rows)) or f"{leaderboard.name}: no claim of this row"
    if form == "csv":
        return csv(frame(judged, leaderboard.name, rows))
    suite, is_short = judged.suite, form != "markdown"
    table = shown_leaderboard(suite, leaderboard, rows, is_short=is_short)
    # Remarks are long, and few rows have one: they stand below the table.
    remarks = [
        f"{line['Method']}, {line['Backbone']}: {line['Remark']}."
        for line in table.rows
        if line["Remark"]
    ]
    notes, unused = [" ".join(remarks)], ["Remark"]
    # What all rows share is in the caption.
    if len({row.backbone for row in rows} - {NO_BACKBONE}) < 2:
        unused.append("Backbone")
    if len({row.n for row in rows}) == 1:
        unused.append("n")
    if is_short:  # tasks need the width of the page
        unused.append(IN_DEV)
    table, title = table.without(*unused), caption(suite, leaderboard, rows)
    if has_legend:
        notes += legend(suite, rows)
    if form == "markdown":
        return markdown(table, title, *notes)
    if form == "text":
        return plain(table, title, *notes)
    label = stem(f"{suite.suite}-{leaderboard.name}")
    return latex(table, title, label, *notes, why=reasons(systems=rows))


def show_leaderboards(judged: Judged, form: str, rows: Iterable[SystemRow]) -> str:
    """The leaderboards of a suite in one of `LEADERBOARD_FORMATS`, with these rows in their order,
    each once, above one legend. As CSV they are one table, with the name of the leaderboard in the
    column `leaderboard`."""
    chosen = dict.fromkeys(rows)
    texts, frames = [], {}
    for leaderboard in shown_leaderboards(judged):
        on_leaderboard = [row for row in chosen if row.leaderboard == leaderboard.name]
        if on_leaderboard and form == "csv":
            frames[leaderboard.name] = frame(judged, leaderboard.name, on_leaderboard)
        elif on_leaderboard:
            # In LaTeX tables stand on pages of their own, so each has the legend.
            has_legend = form == "latex"
            text = in_format(judged, leaderboard, on_leaderboard, form, has_legend=has_legend)
            texts.append(text.rstrip())
    if frames:
        import pandas as pd

        # Leaderboards have different columns. The gaps that `concat` leaves make counts floats,
        # such as 5.0, which `convert_dtypes` undoes.
        table = (
            pd.concat(frames, names=["leaderboard"])
            .reset_index(level="leaderboard")
            .convert_dtypes()
        )
        return csv(table).rstrip()
    if form in WRITTEN:
        texts += map(WRITTEN[form], legend(judged.suite, chosen))
    return "\n\n".join(texts)


def write_leaderboards(judged: Judged, out: Path) -> None:
    """Write the leaderboards of a suite in three formats."""
    for leaderboard in shown_leaderboards(judged):
        rows = judged.leaderboard_systems(leaderboard.name)
        for suffix, form in (("csv", "csv"), ("md", "markdown"), ("tex", "latex")):
            text = in_format(judged, leaderboard, rows, form)
            write_text(inside(out, f"{leaderboard.name}.{suffix}"), text)
