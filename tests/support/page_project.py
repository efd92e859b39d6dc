"""A suite with hostile texts in every field, its tables, and pictures for its page."""

import io
from pathlib import Path
from typing import Any

from PIL import Image

from bench.judge.reproduction import judge
from bench.report.leaderboard import leaderboards, write_leaderboards
from bench.report.page import render_page
from bench.report.tables import write_tables
from bench.results.suite_results import read_suite
from bench.utils.files import read_json, write_json
from tests.support.synthetic_suite import seeds, write_suite

NASTY = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script><!--<script>'
NASTY += "'{{ 7 * 7 }}"
ROWS = (75.0, 75.5, 76.0, 76.5, 77.25)


def png(width: int, height: int) -> bytes:
    """A grey picture."""
    written = io.BytesIO()
    Image.new("L", (width, height), 128).save(written, "PNG")
    return written.getvalue()


def curve(steps: int, start: float = 60.0) -> list[dict[str, float]]:
    geometry = {"alignment": 0.2, "uniformity": -2.5}
    return [
        {"step": step, "loss": 2 - step / 100, "dev": start + step / 10, **geometry}
        for step in range(10, steps + 1, 10)
    ]


def change(suite: Path, run: str, **fields: Any) -> None:
    """Update the provenance of a run's scores, as written by `write_suite`, with `fields`."""
    content = read_json(suite / "scores" / f"{run}.json")
    content["provenance"]["outcome"] |= fields.pop("outcome", {})
    content["provenance"] |= fields
    write_json(suite / "scores" / f"{run}.json", content)


PART = {"alignment": 0.1875, "uniformity": -2.25}
KEPT, NEAR = ({"sentence": f"{word} {NASTY}"} for word in ("Kept", "Near"))
QUERY = {"sentence": f"Query {NASTY}", "retrieved": [KEPT | {"cosine": 0.8125}]}
ASKED = {"sentence": f"Asked {NASTY}", "found": [NEAR | {"cosine": 0.9375}]}
ANALYSES = {
    "alignment": {"STS-B": dict.fromkeys(("dev", "test", "all"), PART)},
    "memory": {"query": [QUERY], "rows": 1024, "step": 250, "reading": f"Reading {NASTY}"},
    "nearest": {"queries": [ASKED], "among": 2758, "of": f"Set {NASTY}"},
}


def write_page(suite_dir: Path, figures: Path, out: Path) -> None:
    suite = read_suite(suite_dir)
    boards = leaderboards(suite, None)
    folders = out, suite_dir / "tables", suite_dir / "scores"
    render_page(suite, judge(suite), [], boards, figures, *folders)


def write_project(root: Path) -> Path:
    """Write a suite with hostile texts in every field, its tables and figures; return the page's
    folder."""
    suite, figures = root / "results" / "s", root / "figures" / "s"
    chinese = {"backbone": "bert-base-chinese", "label": "Chinese SimCSE"}
    entries = [
        *seeds("simcse", ROWS, label=f"SimCSE {NASTY}"),
        *seeds("simcse", [70.0, 71.0], setting="paper"),
        *seeds("is-cse", [77.0, 78.0]),
        {"method": "is-cse", "seed": 7, "status": "diverged", "reason": NASTY},
        *seeds("simcse", ROWS[:2], backbone=f"Backbone {NASTY}", corpus=f"Corpus {NASTY}"),
        {"method": "glove", "backbone": "glove.6B.300d", "scores": 61.0},
        *seeds("simcse", [{"CNSD-STS-B": 63.5}], **chinese),
        *seeds("sscl", ROWS[:2]),  # two rows that differ only in the recipe
        *seeds("sscl", ROWS[3:], recipe_changes={"learning_rate": 1e-3}),
    ]
    entries[0]["analyses"] = ANALYSES
    entries[1]["analyses"] = {"tokens": {"reason": f"Reason {NASTY}"}}
    write_suite(suite, entries, name=f"s {NASTY}", stand_ins={"roberta-base": f"Backbone {NASTY}"})
    for number in range(5):
        code, device = {"version": NASTY, "dirty": False}, {"kind": f"Device {NASTY}"}
        outcome = {"curve": curve(250, 60 + number), "steps": 250, "best_step": 200, "seconds": 0}
        data = {"name": "senteval", "sha256": NASTY}
        date = f"2026-11-2{number}T05:54:00+00:00"
        fields = {"code": code, "device": device, "data": data, "date": date, "outcome": outcome}
        change(suite, f"run{number:03d}", **fields)
    own = read_suite(suite)
    write_tables(own, judge(own), [], suite / "tables")
    write_leaderboards(own, leaderboards(own, None), suite / "tables")
    figures.mkdir(parents=True)
    stems = ("leaderboard", "leaderboard_chinese", "sscl_table-2", "sscl_figure-6", "compare")
    for number, stem in enumerate(stems):
        (figures / f"{stem}.png").write_bytes(png(40 + number, 20))
        (figures / f"{stem}.csv").write_text("a,b\n")
    for kind in ("csv", "md", "tex"):  # as `bench compare` writes them
        (suite / "tables" / f"compare.{kind}").write_text("")
    (figures / "leaderboard.pdf").write_bytes(b"%PDF-")
    return suite / "report"
