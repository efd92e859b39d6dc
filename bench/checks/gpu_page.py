"""The results of `bench gpu-day` as a page for docs/performance.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.checks.regression import COVERAGE
from bench.utils.files import read_json

Row = Mapping[str, Any]
LISTED = 5  # losses and scores that are farthest off


def page(out: Path) -> str:
    """Markdown of the parts whose files are in the folder of results."""
    sections = []
    for part, render in SECTIONS.items():
        if (path := out / f"{part}.json").is_file():
            content = read_json(path)
            rows = [row for row in content["results"] if "fault" not in row]
            lines = [*_origin(content["provenance"]), *(render(rows) if rows else ())]
            faults = [row for row in content["results"] if "fault" in row]
            lines += [f"* **{row['name']}** failed: {row['fault']}" for row in faults]
            sections.append("\n".join([f"### {part.capitalize()}", "", *lines]).rstrip())
    return "\n\n".join(sections)


def _origin(provenance: Row) -> list[str]:
    device, versions, code = (provenance[key] for key in ("device", "versions", "code"))
    commit = (code["commit"] or "unknown")[:10] + ", changed" * bool(code["dirty"])
    origin = f"{device['name']}, torch {versions['torch']}, commit {commit}, {provenance['date']}."
    return [origin, ""]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)] + [""]


def _losses(rows: Sequence[Row]) -> list[str]:
    worst = sorted(rows, key=lambda row: -row["difference"])[:LISTED]
    return [
        f"The first losses of {len(rows)} trainings equal the processor's. Farthest off:",
        "",
        *_table(
            ["training", "of the largest loss"],
            [[row["name"], f"{row['difference']:.1e}"] for row in worst],
        ),
    ]


def _smoke(rows: Sequence[Row]) -> list[str]:
    scores = sum(row["scores"] for row in rows)
    beyond = [
        (max(one["low"] - one["value"], one["value"] - one["high"]), row["name"], one)
        for row in rows
        for one in row["outside"]
    ]
    beyond.sort(key=lambda one: -one[0])
    farthest = _table(
        ["run", "score", "value", "interval"],
        [
            [name, one["cell"], f"{one['value']:.2f}", f"{one['low']:.2f} to {one['high']:.2f}"]
            for _, name, one in beyond[:LISTED]
        ],
    )
    return [
        f"{len(rows)} runs with {scores:,} scores, {len(beyond)} of them outside the intervals of "
        f"the reference; {(1 - COVERAGE) * scores:.1f} would be by chance.",
        "",
        *(farthest if beyond else ()),
    ]


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _gigabytes(row: Row) -> str:
    return "" if row["memory"] is None else f"{row['memory'] / 2**30:.1f}"


def _timing(rows: Sequence[Row]) -> list[str]:
    times = [
        [
            row["shape"],
            f"{row['batch']}, {row['precision']}",
            f"{row['seconds']['start']:.1f}",
            f"{1000 * row['seconds']['step']:.2f}",
            f"{1000 * row['host']:.2f}",
            f"{row['seconds']['selection']:.2f}",
            f"{row['seconds']['end']:.1f}",
            _gigabytes(row),
        ]
        for row in rows
    ]
    wholes = [
        [
            row["shape"],
            _seconds(row["million"]),
            _seconds(row["goal"]),
            _seconds(row["official"]),
            f"{row['work']['ratio']:.2f}",
            f"{row['encoding']['sentences']:,.0f}",
        ]
        for row in rows
    ]
    return [
        *_table(
            [
                "shape",
                "batch",
                "start s",
                "step ms",
                "host ms",
                "selection s",
                "end s",
                "memory GiB",
            ],
            times,
        ),
        *_table(
            ["a million sentences", "s", "goal", "released code", "times the bound", "encoded/s"],
            wholes,
        ),
    ]


def _graphs(rows: Sequence[Row]) -> list[str]:
    told = [
        [
            row["shape"],
            f"{row['batch']}, {row['precision']}",
            f"{1000 * row['seconds']['without']:.2f}",
            f"{1000 * row['seconds']['with']:.2f}",
            f"{row['replays'] / row['steps']:.0%}",
        ]
        for row in rows
    ]
    head = ["shape", "batch", "step ms without", "with CUDA graphs", "steps that graphs computed"]
    return ["Losses with CUDA graphs equal those without.", "", *_table(head, told)]


def _classifiers(rows: Sequence[Row]) -> list[str]:
    told = [
        [
            f"{row['tasks']} x {row['name']}",
            f"{row['seconds']:.1f}",
            f"{row['steps']:,}",
            f"{1000 * row['seconds'] / row['steps']:.3f}",
            _gigabytes(row),
        ]
        for row in rows
    ]
    return _table(["tasks like", "s", "steps", "ms a step", "memory GiB"], told)


SECTIONS: Mapping[str, Callable[[Sequence[Row]], list[str]]] = {
    "timing": _timing,
    "graphs": _graphs,
    "classifiers": _classifiers,
    "losses": _losses,
    "smoke": _smoke,
}
