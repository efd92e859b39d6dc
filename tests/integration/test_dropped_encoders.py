"""A suite without `keep_encoders`: which encoders are deleted when, and what is trained again."""

import os
import re
import signal
import subprocess
import time

import pytest
import yaml

from bench.results.records import read_scores
from bench.results.suite_results import read_results
from bench.runs import config as suites
from bench.runs import paths
from bench.runs.plan import read_plan
from bench.stages import jobs
from bench.stages.status import stages_left, status
from tests.support.programs import SNAKEMAKE, environment, snakemake
from tests.support.tiny_suite import SMALL, tiny_configuration

TEACHER = {"method": "simcse", "analyses": ["cosines"]}
STUDENTS = ["rankcse[teacher=run:simcse]", "rankcse[teacher=run:simcse,temperature=0.04]"]
METHODS = ["word-overlap", TEACHER, *STUDENTS]


@pytest.fixture
def content(tiny_bert, tiny_data, tiny_corpus):
    given = {"methods": METHODS, "recipe": SMALL, "keep_encoders": False}
    return tiny_configuration(tiny_bert, tiny_data, tiny_corpus, **given)


def work(content, suite, *chosen, **options):
    """Write the plan, take runs at these places through their stages; the names of encoders."""
    suites.plan(suites.validate(content)).write(suite / "plan.json")
    plan = read_plan(suite / "plan.json")
    runs = [plan.runs[place] for place in chosen] or plan.chosen()
    list(jobs.run_plan(suite, plan, runs, "cpu", **options))
    made = {run.id: place for place, run in enumerate(plan.runs)}
    trained = {made[path.stem] for path in (suite / "trained").iterdir()}
    encoders = {made[path.parent.name] for path in (suite / "runs").glob("*/encoder")}
    assert trained == encoders
    assert not list(suite.rglob("*.part"))
    return encoders


def scored(suite):
    """Scores, and which encoders and trainings they are of, by run."""
    files = {path.stem: read_scores(path) for path in (suite / "scores").iterdir()}
    assert files
    return {
        name: (read.records, read.provenance.encoder, read.provenance.outcome.curve)
        for name, read in files.items()
    }


@pytest.mark.usefixtures("global_state")
def test_an_encoder_is_dropped_when_nothing_needs_it(content, tmp_path):
    suite, kept = tmp_path / "dropped", tmp_path / "kept"
    assert work(content, suite, 1, stages=["train"]) == {1}
    assert work(content, suite, 1, stages=["score"]) == {1}  # it is to be analysed, and teaches
    assert work(content, suite, 1, 2) == {1}
    assert work(content, suite) == set()
    assert work(content | {"keep_encoders": True}, kept) == {1, 2, 3}
    assert scored(suite) == scored(kept)
    assert {run.status for run in read_results(suite).runs} == {"finished"}
    assert status(suite).done == {"finished": 4}
    before = {path: path.stat().st_mtime for path in suite.rglob("*.json")}
    work(content, suite)  # nothing is left
    del before[suite / "plan.json"]
    assert all(path.stat().st_mtime == then for path, then in before.items())


@pytest.mark.usefixtures("global_state")
def test_what_needs_a_dropped_encoder_trains_it_again(content, tmp_path):
    """A new analysis, and a new student. All results of the run are then of the new training."""
    work(content, tmp_path, 1)
    work(content, tmp_path)
    before = scored(tmp_path)
    more = [METHODS[0], {"method": "simcse", "analyses": ["cosines", "tokens"]}, *STUDENTS]
    content["methods"] = [*more, "rankcse[teacher=run:simcse,temperature=0.03]"]
    suites.plan(suites.validate(content)).write(tmp_path / "plan.json")
    plan = read_plan(tmp_path / "plan.json")
    (old,) = (tmp_path / "analyses").iterdir()
    old.unlink()
    assert stages_left(tmp_path, plan.runs[1]) == ["train", "analyse"]
    # Results of the earlier students are older than the encoder, and could be made again, too.
    assert work(content, tmp_path) == {1}
    assert {name: scored(tmp_path)[name] for name in before} == before
    scores, analyses = (
        paths.result_file(tmp_path, plan.runs[1].id, stage) for stage in ("score", "analyse")
    )
    encoder = paths.run_folder(tmp_path, plan.runs[1].id) / "encoder"
    assert encoder.stat().st_mtime < scores.stat().st_mtime < analyses.stat().st_mtime


@pytest.mark.slow
def test_the_workflow_drops_encoders_and_continues_after_a_kill(content, tmp_path):
    file, suite = tmp_path / "config.yaml", tmp_path / "results" / "tiny"
    file.write_text(yaml.safe_dump(content))
    words = [*SNAKEMAKE, "--cores", "1", "--configfile", str(file)]
    options = {"env": environment(PYTHONPATH=""), "start_new_session": True}
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL, **options) as process:
        while not list(suite.glob("scores/rankcse*")):
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
    snakemake("--unlock", "--configfile", file, cwd=tmp_path)
    snakemake("--configfile", file, cwd=tmp_path)
    assert not list(suite.glob("runs/*/encoder"))
    assert not list(suite.glob("trained/*"))
    assert (suite / "report" / "index.html").is_file()
    work(content | {"keep_encoders": True}, tmp_path / "kept")
    assert scored(suite) == scored(tmp_path / "kept")
    for changes, count in (({}, 0), ({"tasks": ["STS-B"]}, 3), ({"seeds": [1, 2]}, 3)):
        file.write_text(yaml.safe_dump(content | changes))
        dry = snakemake("-n", "--configfile", file, cwd=tmp_path).stdout
        assert len(re.findall(r"^rule train:", dry, re.MULTILINE)) == count
