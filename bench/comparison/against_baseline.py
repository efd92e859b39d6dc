"""Methods of a suite against one of them, the baseline, paired by seed, and the gains over it that papers print.

`against` is the one path from a suite to these comparisons: tables and figures show what it returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from bench.comparison.paired import Decision, Paired, Scores, compare_pairs, decide, strictest_level
from bench.comparison.verdict import tolerance
from bench.datasets.tasks import Board, average
from bench.reported import mapped, prior_sd
from bench.results.suite_results import Scored, Suite
from bench.utils.errors import UserError, did_you_mean

IDENTITY = ["board", "backbone", "method", "setting", "task"]  # of a comparison


@dataclass(frozen=True)
class Candidate:
    """A method of a suite in one setting, with its runs by backbone."""

    method: str
    setting: str
    label: str
    runs: dict[str, list[Scored]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return f"{self.method}@{self.setting}"

    def on(self, backbone: str) -> list[Scored]:
        """Its runs on a backbone; a method that uses none is the same on all."""
        return self.runs.get(backbone) or self.runs.get("none", [])


def candidates(suite: Suite) -> list[Candidate]:
    """What a suite's plan can compare, in its order. Of several corpora or recipes on a backbone the first counts."""
    found: dict[tuple[str, str], Candidate] = {}
    for run in suite.runs:
        plan = run.plan
        candidate = found.setdefault(
            (plan["method"], plan["setting"]), Candidate(plan["method"], plan["setting"], plan["label"])
        )
        runs = candidate.runs.setdefault(plan["backbone"], [])
        if not runs or all(plan.get(key) == runs[0].plan.get(key) for key in ("corpus", "recipe_changes")):
            runs.append(run)
    return list(found.values())


def find(suite: Suite, text: str) -> Candidate:
    """The planned method that a text names, as in configurations; without `@` its official setting, if planned.

    Raises:
        UserError: the text cannot be read, or no such method is planned (with the nearest planned ones).
    """
    from bench.runs.run import parse

    def value(text: str) -> float | str:
        try:
            return float(text)
        except ValueError:
            return text.lower()

    def spelled(text: str) -> tuple[Any, str | None]:
        (first, *rest), setting = parse(text)
        parts = [first, *sorted(rest, key=lambda part: part[0])]
        return [(name, {key: value(given) for key, given in keys.items()}) for name, keys in parts], setting

    parts, setting = spelled(text)
    planned = candidates(suite)
    named = [one for one in planned if spelled(one.method)[0] == parts and setting in (None, one.setting)]
    if not named:
        known = [one.text for one in planned] if setting else dict.fromkeys(one.method for one in planned)
        raise UserError(f"'{text}' is not in suite {suite.name}{did_you_mean(text, known)}")
    return min(named, key=lambda one: one.setting != "official")


def _scores(runs: Iterable[Scored], board: Board, task: str) -> Scores:
    by_seed: dict[int | None, float] = {}
    for run in runs:
        keys = [(name, "test", board.metric) for name in (board.tasks if task == "Avg" else (task,))]
        values = [run.scores[key] for key in keys if key in run.scores]
        if len(values) == len(keys):
            by_seed[run.plan["seed"]] = average(values) if task == "Avg" else values[0]
    return by_seed


def _diverged(backbone: str, *compared: Candidate) -> str:
    """How many seeds diverged; empty if none."""
    texts = []
    for candidate in compared:
        statuses = [run.status for run in candidate.on(backbone) if run.status != "missing"]
        if count := statuses.count("diverged"):
            texts.append(f"{count} of {len(statuses)} seeds of {candidate.label} diverged")
    return "; ".join(texts)


Comparison = tuple[dict[str, Any], Paired]  # its names and statistics as a row of `against`, and the pairs


def _paired(board: Board, backbone: str, ours: Candidate, theirs: Candidate, task: str) -> Comparison:
    metric = board.metric
    a, b = (_scores(candidate.on(backbone), board, task) for candidate in (ours, theirs))
    small = "transfer, small test" if task in ("TREC", "MRPC") else "transfer"
    allowed = tolerance("untrained" if metric == "spearman" else small, task)
    known = metric == "spearman" and board.is_in_print(task)
    pair = compare_pairs(a, b, tolerance=allowed, prior_sd=prior_sd(backbone, task) if known else None)
    row: dict[str, Any] = dict(zip(IDENTITY, (board.name, backbone, ours.method, ours.setting, task), strict=True))
    row |= {"label": ours.label, "baseline": theirs.text, "kind": pair.kind, "n": pair.n, "n_a": len(a), "n_b": len(b)}
    for side, own, other in (("a", a, b), ("b", b, a)):
        values = [value for seed, value in own.items() if seed is None or None in other or seed in other]
        row |= {f"mean_{side}": fmean(values) if values else None}
        row |= {f"sd_{side}": stdev(values) if len(values) > 1 else None}
    row |= {"differences": pair.differences, "difference": pair.mean, "half_width": pair.half_width}
    low, high = pair.improvement_interval
    row |= {"improvement": pair.improvement, "improvement_low": low, "improvement_high": high}
    row |= {"permutation_p": pair.permutation_p, "p": pair.p_value}
    return row | {"diverged": _diverged(backbone, ours, theirs)}, pair


def _printed(suite: Suite) -> dict[tuple[str, str, str, str], list[dict[str, Any]]]:
    """The printed scores by (method, backbone in the suite, task, metric); a number is a method's in either setting."""
    found: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
    numbers = mapped()
    for number in numbers[(numbers["split"] == "test") & (numbers["run"] != "")].to_dict("records"):
        method, backbone = number["run"].partition("@")[0], number["suite_backbone"] or number["backbone"]
        for name in {backbone, suite.stand_ins.get(backbone, backbone)}:
            found.setdefault((method, name, number["task"], number["metric"]), []).append(number | {"in_suite": name})
    return found


def _stated(variant: str) -> dict[str, str]:
    """The settings in a printed remark such as `bs=64, cls`."""
    pieces = (piece.partition("=") for piece in variant.split(", "))
    return {key: value for key, equals, value in pieces if equals}


def _claims(
    suite: Suite, row: dict[str, Any], pair: Paired, level: float, printed: dict[Any, Any]
) -> list[dict[str, Any]]:
    """The printed numbers that belong to a comparison, as rows of the second frame of `against`."""
    board = suite.boards[row["board"]]
    if not board.is_in_print(row["task"]):
        return []

    def numbers(method: str, backbone: str) -> list[dict[str, Any]]:
        return printed.get((method, backbone, row["task"], board.metric), [])

    def together(a: dict[str, Any], b: dict[str, Any]) -> bool:
        """Of one table; of one printed backbone, where both have any."""
        names = ["source", "table"] + ([] if "none" in (a["in_suite"], b["in_suite"]) else ["backbone"])
        return all(a[name] == b[name] for name in names)

    def alike(a: dict[str, Any], b: dict[str, Any]) -> bool:
        """Not of different values of one setting."""
        mine, other = _stated(a["variant"]), _stated(b["variant"])
        return all(other.get(key, mine[key]) == mine[key] for key in mine)

    claims = []
    rival = row["baseline"].partition("@")[0]
    theirs = numbers(rival, row["backbone"]) or numbers(rival, "none")
    ours = numbers(row["method"], row["backbone"]) or numbers(row["method"], "none")
    for a in ours:
        beside = [b for b in theirs if together(a, b)]
        if any(alike(other, b) for other in ours if together(other, a) for b in beside):
            beside = [b for b in beside if alike(a, b)]
        # Else it is a sweep, in whose setting our two runs differ as the printed rows do.
        for b in beside or [{}]:
            claimed = a["value"] - b["value"] if b else None
            claim = {name: row[name] for name in IDENTITY} | {name: a[name] for name in ("source", "table")}
            claim |= {"printed_on": a["backbone"]}
            claim |= {"printed_a": a["value"], "printed_b": b.get("value"), "claimed": claimed}
            claim |= {"comparable": not suite.remark}
            claims.append(claim | {"seeds_claimed": pair.seeds_for(claimed, level) if claimed else None})
    # A number of A alone adds nothing where a table prints both.
    return [claim for claim in claims if claim["claimed"] is not None] or claims


def _chosen(suite: Suite, theirs: Candidate, methods: Sequence[str], backbones: Sequence[str]) -> list[Candidate]:
    if not any(theirs.on(name) for name in backbones):
        raise UserError(
            f"'{theirs.text}' is not planned on {', '.join(backbones)}{did_you_mean(backbones[0], theirs.runs)}"
        )
    chosen = [find(suite, text) for text in methods]
    for ours in chosen:
        if ours.text == theirs.text:
            raise UserError(f"'{ours.text}' would be compared with itself; name another baseline")
        if not any(ours.on(name) and theirs.on(name) for name in backbones):
            raise UserError(f"'{ours.text}' and '{theirs.text}' have no backbone in common; name others")
    return chosen or [one for one in candidates(suite) if one.text != theirs.text]


def _families(compared: list[Comparison], boards: Mapping[str, Board]) -> list[list[Comparison]]:
    """What Holm's correction counts together: of each board the cells that it is about, and the rest."""
    families: dict[tuple[str, bool], list[Comparison]] = {}
    for row, pair in compared:
        families.setdefault((row["board"], row["task"] == boards[row["board"]].overall), []).append((row, pair))
    return list(families.values())


def against(
    suite: Suite, baseline: str, methods: Sequence[str] = (), backbones: Sequence[str] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Comparisons with `baseline`, and the printed numbers that belong to them.

    Args:
        methods: texts of methods; none takes every planned one.
        backbones: names; none takes every planned one. A method is compared on those that it and the baseline have.

    Returns:
        Two frames, in points. The first has a row for each board, backbone, method and task (or `Avg`) that both are
        scored on: `board`, `backbone`, `method`, `setting`, `task`, `label`, `baseline`, `kind` (as in `Paired`), `n`
        (pairs), `n_a`, `n_b` (seeds), `mean_a`, `sd_a`, `mean_b`, `sd_b` (over the paired seeds), `differences`
        (tuple), `difference`, `half_width`, `improvement`, `improvement_low`, `improvement_high`, `permutation_p`,
        `p`, `p_adjusted`, `verdict`, `reason`, `seeds` (that would decide). Holm's families are the averages of a board
        and its single tasks. The second has a row for each printed number of the method, with that of the baseline
        from the same table: the same first five columns, `source`, `table`, `printed_on` (the backbone), `printed_a`,
        `printed_b`, `claimed` (their difference), `comparable`, `seeds_claimed` (that would show it).

    Raises:
        UserError: a name is unknown, or nothing can be compared.
    """
    theirs = find(suite, baseline)
    known = list(dict.fromkeys(run.plan["backbone"] for run in suite.runs))
    for name in backbones:
        if name not in known:
            raise UserError(f"backbone '{name}' is not in suite {suite.name}{did_you_mean(name, known)}")
    names = list(backbones or known)
    chosen = _chosen(suite, theirs, methods, names)
    compared = [
        _paired(board, backbone, ours, theirs, task)
        for board in suite.boards.values()
        for backbone in names
        for ours in chosen
        if ours.on(backbone) and theirs.on(backbone)
        # What uses no backbone on either side is one comparison, not one for each backbone.
        if backbone == "none" or backbone in ours.runs or backbone in theirs.runs
        for task in dict.fromkeys((*board.tasks, board.overall))
    ]
    # Where one side diverged, the other is enough: that is told, never left out.
    compared = [
        (row, pair)
        for row, pair in compared
        if (row["n_a"] and row["n_b"]) or (row["diverged"] and (row["n_a"] or row["n_b"]))
    ]
    if not compared:
        raise UserError(f"suite {suite.name} has no scores to compare with '{theirs.text}'; run its missing runs first")
    printed = _printed(suite)
    claims = []
    for family in _families(compared, suite.boards):
        tested = [pair for row, pair in family if not row["diverged"]]
        decided, level = iter(decide(tested)), strictest_level(tested)
        for row, pair in family:
            # The seeds that survived are the lucky ones.
            found = Decision("undecided", row["diverged"]) if row["diverged"] else next(decided)
            row |= {"p_adjusted": found.p_adjusted, "verdict": found.word, "reason": found.reason, "seeds": found.seeds}
            claims += _claims(suite, row, pair, level, printed)
    frame = pd.DataFrame([row for row, _ in compared]).drop(columns="diverged")
    measured = ["mean_a", "sd_a", "mean_b", "sd_b", "half_width", "permutation_p", "p", "p_adjusted"]
    numbers = ["printed_a", "printed_b", "claimed"]
    columns = [*IDENTITY, "source", "table", "printed_on", *numbers, "comparable", "seeds_claimed"]
    return (
        frame.astype({**dict.fromkeys(measured, float), "seeds": "Int64"}),
        pd.DataFrame(claims, columns=columns).astype({**dict.fromkeys(numbers, float), "seeds_claimed": "Int64"}),
    )
