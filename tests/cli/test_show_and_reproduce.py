"""The commands show and reproduce: tables before and after a run, and what is missing for one."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.datasets.tasks import STS_TASKS
from bench.runs import config
from bench.stages import workflow
from tests.support.fake_hub import isolate
from tests.support.synthetic_suite import seeds, write_suite

ROW = [
    "reproduce", "gs-infonce-v2", "Table 2", "--row", "GS-InfoNCE", "--backbone",
    "bert-base-uncased",
]  # fmt: skip
ROWS = [dict.fromkeys(STS_TASKS, value) for value in (76.1, 76.2, 76.3)]
NAME = "gs-infonce-v2-table-2-gs-infonce-m-3x-bert-base-uncased"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """No data, no models, and no hub."""
    monkeypatch.chdir(tmp_path)
    isolate(monkeypatch, tmp_path)


def test_a_table_before_and_after_anything_was_run(tmp_path, said):
    words = ["show", "gs-infonce-v2", "table-2"]
    out = said(*words).out
    row = next(line for line in out.splitlines() if "+ GS-InfoNCE" in line).split()
    assert (row[0], row[-1]) == ("bert-base-uncased", "77.63")
    assert "ours, " not in out
    shown = said(*words, "--suite", write_suite(tmp_path / "s", seeds("simcse", ROWS))).out
    assert "ours, official, n = 3" in shown
    assert "76.20 ± 0.10" in shown
    assert "– not run: no scores in this suite" in shown
    assert "Bold" not in shown  # nothing is, in a terminal


def test_a_dry_run_prints_a_configuration(tmp_path, said):
    out = said(*ROW, "--seeds", "2", "--tasks", "STS-B", "--dry-run").out
    (tmp_path / "one.yaml").write_text(out)
    assert "# Hours: some 0.1 h on a GPU or 200 h on a thread of a processor, not measured\n" in out
    content = config.load(tmp_path / "one.yaml")
    assert (content.suite, content.tasks, content.seeds) == (NAME, ["STS-B"], [42, 43])
    assert [run.method for run in config.planned(content)] == ["gs-infonce"] * 2
    assert not (tmp_path / "results").exists()


def test_the_workflow_runs_the_configuration_and_the_row_is_shown(tmp_path, monkeypatch, said):
    started = []

    class Process:
        def __init__(self, words, env):
            started.append(words)
            assert env["PYTHONSAFEPATH"]  # against folders `bench` and `methods` in this one

        def wait(self):
            write_suite(tmp_path / "results" / NAME, seeds("gs-infonce", ROWS), name=NAME)
            return 0

    monkeypatch.setattr(workflow, "subprocess", SimpleNamespace(Popen=Process))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    out = said(*ROW, "--seeds", "3", "--cores", "4", "--yes").out
    (words,) = started
    file = f"results/{NAME}/config.yaml"
    assert words[4:] == [str(workflow.SNAKEFILE), "--cores", "4", "--resources", "gpu=2",
                         "--configfile", file]  # fmt: skip
    assert config.load(Path(file)).seeds == [42, 43, 44]
    assert "76.20 ± 0.10" in out
    assert "roberta" not in out


def test_the_status_is_that_of_the_workflow(monkeypatch, said):
    monkeypatch.setattr(workflow, "run_workflow", lambda *_: 1)
    assert said(*ROW, "--yes", status=1).out == ""


def test_numbers_of_a_suite_are_shown_audited_and_rendered(tmp_path, said):
    where = {"method": "simcse", "backbone": "bert-base-uncased", "run": "simcse@official"}
    values = {**dict.fromkeys(STS_TASKS, "76.11"), "Avg": "76.50"}
    printed = [where | {"task": task, "value": value} for task, value in values.items()]
    suite = write_suite(tmp_path / "s", seeds("simcse", ROWS), data="world", printed=printed)
    told = "simcse, bert-base-uncased, Avg, test, simcse@official: reproduced; look at 3"
    assert told in said("show", "--suite", suite).out
    assert said("audit", "--suite", suite).out.endswith("1 findings about printed numbers.\n")
    said("render", suite)
    tables = tmp_path / "s" / "tables"
    assert {path.stem for path in tables.glob("printed_*")} == {"printed_table-1"}
    assert "Do not compare" not in (tables / "printed_table-1.md").read_text()
    page = (tmp_path / "s" / "report" / "index.html").read_text()
    assert page.index('id="printed_table-1"') < page.index('id="gs-infonce-v1_table-2"')


def test_a_long_row_does_not_start_where_nobody_is_asked(said):
    out, err = said(*ROW, status=3)
    assert out == ""
    assert "not started, because it takes long; add --yes" in err
