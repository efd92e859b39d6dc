"""A suite without `keep_encoders`: which encoders are deleted when, and what is trained again."""

import re

import pytest
import yaml

from bench.results.records import read_scores
from bench.runs import config as suites
from bench.runs.run import read_runs
from bench.stages import jobs
from bench.stages.status import stages_left
from tests.support.programs import snakemake
from tests.support.tiny_suite import SMALL, tiny_configuration

TEACHER = {"method": "simcse", "analyses": ["cosines"]}
STUDENTS = ["rankcse[teacher=run:simcse]", "rankcse[teacher=run:simcse,temperature=0.04]"]
KEPT = {"keep_encoders": True}


@pytest.fixture
def content(tiny_bert, tiny_data, tiny_corpus):
    inputs = {"methods": [TEACHER, *STUDENTS], "recipe": SMALL, "keep_encoders": False}
    return tiny_configuration(tiny_bert, tiny_data, tiny_corpus, **inputs)


def work(content, suite, *places, **options):
    """Take the runs at these places of a new plan through their stages; where encoders are left."""
    suites.plan(suites.validate(content)).write(suite / "plan.json")
    plan = read_runs(suite / "plan.json")
    runs = [plan.runs[place] for place in places] or plan.chosen()
    jobs.run_plan(suite, plan, runs, **options)
    ids = [run.id for run in plan.runs]
    left = {ids.index(path.parent.name) for path in suite.glob("runs/*/encoder")}
    assert {ids.index(path.stem) for path in suite.glob("trained/*")} == left
    return left


def scored(suite):
    """Scores, and of which encoder they are, by run."""
    files = {path.stem: read_scores(path) for path in suite.glob("scores/*")}
    return {name: (read.records, read.provenance.encoder) for name, read in files.items()}


def test_an_encoder_is_dropped_when_nothing_needs_it_and_trained_again_when_something_does(
    content, tmp_path
):
    suite, kept = tmp_path / "dropped", tmp_path / "kept"
    assert work(content, suite, 0, stages=["train", "score"]) == {0}  # it is to be analysed
    assert work(content, suite, 0, 1) == {0}  # it teaches another
    assert work(content, suite) == set()
    assert work(content | KEPT, kept) == {0, 1, 2}
    before = scored(suite)
    assert before == scored(kept)
    times = {path: path.stat().st_mtime for path in suite.glob("scores/*")}
    # Its results are then all of the new training; those of students may be made again.
    (analysed,) = suite.glob("analyses/*")
    analysed.unlink()
    teacher = read_runs(suite / "plan.json").runs[0]
    assert stages_left(suite, teacher) == ["train", "analyse"]
    assert work(content, suite) == {0}
    assert scored(suite) == before
    again = [path.stem for path, time in times.items() if path.stat().st_mtime > time]
    assert again == [teacher.id]


@pytest.mark.slow
def test_the_workflow_drops_encoders_and_plans_what_is_missing_alone(content, tmp_path):
    file, suite = tmp_path / "config.yaml", tmp_path / "results" / "tiny"
    file.write_text(yaml.safe_dump(content))
    snakemake("--configfile", file, cwd=tmp_path)
    assert not [*suite.glob("runs/*/encoder"), *suite.glob("trained/*")]
    assert len(scored(suite)) == 3
    for changes, count in (({}, 0), ({"tasks": ["STS-B"]}, 3), ({"seeds": [1, 2]}, 3)):
        file.write_text(yaml.safe_dump(content | changes))
        dry = snakemake("-n", "--configfile", file, cwd=tmp_path).stdout
        assert len(re.findall(r"^rule train:", dry, re.MULTILINE)) == count
