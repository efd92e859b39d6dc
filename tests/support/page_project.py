"""A judged suite with hostile texts in every field, its tables, and pictures for its page."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from bench.datasets.tasks import STS_TASKS
from bench.judged.rows import (
    Analysis,
    FigureRow,
    Judged,
    NumberRow,
    RunRow,
    RunScores,
    SystemRow,
)
from bench.report.leaderboard import write_leaderboards
from bench.report.page import render_page
from bench.report.tables import write_tables
from bench.utils.files import write_json, write_text
from tests.support.judged_rows import (
    BASE,
    WITH_BASELINE,
    heading,
    leaderboard,
    measured,
    number,
    row,
    run,
    setting,
    system,
)

NASTY = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script><!--<script>'
NASTY += "'{{ 7 * 7 }}"
ROWS = (75.0, 75.5, 76.0, 76.5, 77.25)
PAPER = (70.12345678, 71.0)
PRINT = (68.4, 82.41, 74.38, 80.91, 78.56, 76.85, 72.23, 76.25)
COMMAND = "sentbench reproduce sscl 'Table 2' --row SimCSE --backbone bert-base-uncased"


def png(width: int) -> bytes:
    """A grey picture."""
    written = io.BytesIO()
    Image.new("L", (width, 20), 128).save(written, "PNG")
    return written.getvalue()


def curve(start: float) -> dict[str, list[float]]:
    at = [*range(50, 251, 50)]
    lines = {
        "step": at, "dev": [start + step / 10 for step in at],
        "loss": [2 - step / 100 for step in at],
    }  # fmt: skip
    return lines | {"alignment": [0.2] * len(at), "uniformity": [-2.5] * len(at)}


PART = {"alignment": 0.1875, "uniformity": -2.25}
ANALYSES = (
    Analysis(name="alignment", result={"STS-B": dict.fromkeys(("dev", "test", "all"), PART)}),
    Analysis(name="tokens", result={}, missing=f"Reason {NASTY}"),
)


def _runs() -> list[RunRow]:
    rows = []
    origin: dict[str, Any] = {
        "code": {"version": NASTY, "dirty": False}, "device": {"kind": f"Device {NASTY}"},
        "data": {"name": "senteval", "sha256": NASTY},
    }  # fmt: skip
    for seed in range(5):
        date, analyses = f"2026-11-2{seed}T05:54:00+00:00", () if seed else ANALYSES
        more = {"steps": 250, "best_step": 200, "seconds": 0, "curve": curve(60 + seed)}
        rows.append(run("simcse", seed, date=date, origin=origin, analyses=analyses, **more))
    plain = {"date": None, "origin": {"device": {"kind": "cpu"}}}
    rows += [run("simcse-paper", seed, setting="paper", **plain) for seed in (0, 1)]
    rows += [run("is-cse", seed, **plain) for seed in (0, 1)]
    rows.append(run("is-cse", 7, status="diverged", reason=NASTY, **plain))
    rows.append(run("simcse-own", 0, backbone=f"Backbone {NASTY}", **plain))
    rows.append(run("glove", None, backbone="glove.6B.300d", **plain))
    rows.append(run("simcse-zh", 0, backbone="bert-base-chinese", **plain))
    return [*rows, run("sscl", 0, status="missing", reason="no scores in this suite")]


def _systems() -> list[SystemRow]:
    return [
        system("is-cse", [77.0, 78.0], run_averages=(77.0, 78.0, None),
               runs=["is-cse-0", "is-cse-1", "is-cse-7"], remark=f"1 diverged: {NASTY}",
               difference=2.25, half_width=0.125, verdict="better",
               reason=f"look {NASTY}"),
        system("simcse", ROWS, label=f"SimCSE {NASTY}", is_baseline=True),
        system("simcse", [70.0, 71.0], setting="paper", runs=["simcse-paper-0", "simcse-paper-1"]),
        system("sscl", n=0, run_averages=(None,), runs=["sscl-0"], remark="1 missing"),
        system("simcse", [75.0], backbone=f"Backbone {NASTY}", corpus=f"Corpus {NASTY}",
               runs=["simcse-own-0"]),
        system("glove", [61.0], backbone="glove.6B.300d", corpus="", runs=["glove-None"]),
        system("simcse", {"CNSD-STS-B": [63.5], "Avg": [63.5]}, tasks=["CNSD-STS-B"],
               leaderboard="chinese", backbone="bert-base-chinese", label="Chinese SimCSE",
               runs=["simcse-zh-0"]),
    ]  # fmt: skip


def _sides() -> list[RunScores]:
    official = [f"simcse-{seed}" for seed in range(5)]
    paper = ["simcse-paper-0", "simcse-paper-1"]
    return [
        RunScores(name=f"simcse@official on {BASE}", runs=official, scores=ROWS),
        RunScores(name=f"simcse@paper on {BASE}", runs=paper, scores=PAPER),
    ]


def _numbers() -> list[NumberRow]:
    sides = _sides()
    simcse: dict[str, Any] = {
        "quoted_from": "Gao et al. 2021 (SimCSE)", "runs": sides,
        "paper_title": "SSCL (arXiv 2305.06154)", "note": f"Note {NASTY}",
    }  # fmt: skip
    simcse["command"] = COMMAND
    simcse["other"] = measured(PAPER, kind="lower", reason="far below", setting="paper")
    ours = measured(ROWS, reason="n = 5; the next look is at 10 seeds", next_look=10)
    is_bert = {
        "method": "IS-BERT", "label": "IS-BERT", "row": "IS-BERT", "planned": False, "run": "",
        "reason": "no recipe",
    }  # fmt: skip
    tasks = (*STS_TASKS, "Avg")
    rows = [number(value, ours, task=x, **simcse) for x, value in zip(tasks, PRINT, strict=True)]
    rows += [number(66.58, task=task, **is_bert) for task in tasks]

    is_cse = {"method": "IS-CSE", "label": "IS-CSE", "row": "IS-CSE"}
    runs = ["is-cse-0", "is-cse-1", "is-cse-7"]
    is_cse["runs"] = [RunScores(name="is-cse@official", runs=runs, scores=[77.0, 78.0, None])]
    diverged = measured([77.0, 78.0], kind="diverged", reason="1 of 3 seeds diverged")
    rows.append(number(78.5, diverged, **is_cse))

    lower = measured(ROWS, kind="lower", reason="our mean ±1.10, tolerance 0.50", **TESTED)
    third = {"table": "Table 3", "runs": sides}
    rows.append(number(81.0, lower, split="dev", our_split="test", **third))
    delta = {"metric": "spearman_delta", "run": "sscl@official", "minus": "simcse@official"}
    rows.append(number(1.5, lower, method="SSCL minus SimCSE", **delta, **third))

    elsewhere = measured([61.0], kind="not comparable", reason="measured on glove.6B.300d")
    sweep = {
        "table": "Figure 6 text", "line": "SSCL", "method": "SSCL", "source": "is-cse",
        "paper": "IS-CSE", "paper_title": "IS-CSE",
    }  # fmt: skip
    for k in (1, 2, 3):
        rows.append(number(70.0 + k, elsewhere, variant=f"k={k}", label=f"SSCL, k={k}", **sweep))
    return [_placed(place, row) for place, row in enumerate(rows)]


def _placed(place: int, row: NumberRow) -> NumberRow:
    """A number with its place and address."""
    words = [
        row.source, row.table, row.method, row.variant, row.backbone, row.task, row.split,
        row.metric.replace("_", "-"),
    ]  # fmt: skip
    address = "/".join(word.lower().replace(" ", "-") for word in words if word)
    return row.model_copy(update={"place": place, "address": address})


TESTED = {
    "tolerance": 0.5, "within": False, "half_width": 2.5, "mean_half_width": 1.1,
    "p": 0.002, "p_adjusted": 0.004,
}  # fmt: skip


def project() -> Judged:
    """The rows of the suite."""
    suite = heading(
        leaderboard(), leaderboard("chinese"), suite=f"s {NASTY}", stand_ins=[f"Backbone {NASTY}"],
        **WITH_BASELINE,
    )  # fmt: skip
    figure = row(
        FigureRow, stem="sscl_figure-6", heading=f"SSCL, Figure 6: Points {NASTY}", drawn="points"
    )
    return Judged(
        suite=suite, numbers=_numbers(), systems=_systems(), series=[figure], runs=_runs(),
        settings=[setting(900, paper="IS-CSE", source="is-cse", table="Table 2")],
    )  # fmt: skip


@dataclass
class Project:
    """A suite with its rendered page."""

    judged: Judged
    out: Path  # folder of the page


def write_page(judged: Judged, suite_dir: Path, figures: Path) -> Path:
    """Write the page of a suite into its folder `report`, which is returned."""
    out = suite_dir / "report"
    render_page(judged, figures, out, "../scores")
    return out


def write_project(root: Path) -> Project:
    """Write the page, tables, scores and figures of `project`, beside a file of a user."""
    judged = project()
    suite, figures = root / "results" / "s", root / "figures" / "s"
    write_text(suite / "report" / "mine.txt", "mine")
    write_tables(judged, suite / "tables")
    write_leaderboards(judged, suite / "tables")
    for planned in judged.runs:
        if planned.status != "missing":
            write_json(suite / "scores" / f"{planned.id}.json", {})
    figures.mkdir(parents=True)
    stems = ("leaderboard", "leaderboard_chinese", "sscl_table-2", "sscl_figure-6", "compare")
    for place, stem in enumerate(stems):
        (figures / f"{stem}.png").write_bytes(png(40 + place))
        (figures / f"{stem}.csv").write_text("a,b\n")
    for kind in ("csv", "md", "tex"):  # as `bench render` writes them
        (suite / "tables" / f"compare.{kind}").write_text("")
    (figures / "leaderboard.pdf").write_bytes(b"%PDF-")
    return Project(judged, write_page(judged, suite, figures))
