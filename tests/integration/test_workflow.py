"""The DAG as its users drive it: real Snakemake processes on a tiny suite."""

import json
import os
import re
import shutil

import pytest
import yaml

from tests.support.programs import ROOT, planned_jobs, snakemake
from tests.support.tiny_suite import tiny_configuration

pytestmark = pytest.mark.slow


RENDERED = {"render": 1}
METHODS = ["word-overlap", "untrained[pooler=avg]"]
METHODS += [{"method": "simcse", "analyses": ["cosines", "tokens"]}, "gs-infonce[multiple=1]"]


@pytest.fixture(scope="module")
def suite(tiny_bert, tiny_data, tiny_corpus, tmp_path_factory):
    """A folder where a tiny suite has run to its end, and a function that writes variants of its
    configuration."""
    folder = tmp_path_factory.mktemp("suite")
    for name in ("bench", "methods"):  # which must not hide those of the project
        (folder / name).mkdir()
        (folder / name / "__init__.py").touch()

    def config(**changes):
        plain = {"recipe": {"batch_size": 8, "select_every": 2}, "methods": METHODS}
        plain["compare"] = {"baseline": "simcse"}
        content = tiny_configuration(tiny_bert, tiny_data, tiny_corpus, **(plain | changes))
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump(content))
        return path

    snakemake("--configfile", config(), cwd=folder)
    return folder, config


def test_the_suite_leaves_tables_figures_and_a_page(suite):
    folder, _ = suite
    results, figures = folder / "results" / "tiny", folder / "figures" / "tiny"
    written = {path.name for path in (results / "tables").iterdir()}
    assert {"sts.md", "coverage.md", "compare.csv"} <= written
    assert (results / "report" / "index.html").stat().st_size > 0
    assert {"leaderboard.png", "compare.png"} <= {path.name for path in figures.iterdir()}
    assert len(list((results / "scores").iterdir())) == 4
    assert len(list((results / "trained").iterdir())) == 2
    (analysed,) = (results / "analyses").iterdir()
    assert list(json.loads(analysed.read_text())["analyses"]) == ["cosines", "tokens"]


def test_braces_in_a_name_are_text(suite, tiny_data):
    folder, config = suite
    (folder / "d{x}").symlink_to(tiny_data)
    file = config(suite="braces", data="./d{x}")
    assert planned_jobs(snakemake("-n", "--configfile", file, cwd=folder).stdout)["data"] == 1


def test_several_runs_a_job_give_the_same_scores(suite):
    folder, config = suite
    batched = config(suite="batched", runs_per_job=3)
    result = planned_jobs(snakemake("-n", "--configfile", batched, cwd=folder).stdout)
    jobs = {"train_0", "train_1", "score_0", "score_1", "analyse_0"}
    assert {rule for rule in result if rule.startswith(("train", "score", "analyse"))} == jobs
    # Snakemake leaves out what follows a named rule, as analyse_0 follows score_0.
    snakemake("--configfile", batched, "--until", "score_1", "analyse_0", cwd=folder)
    assert planned_jobs(snakemake("-n", "--configfile", batched, cwd=folder).stdout) == RENDERED
    fewer = config(suite="batched", runs_per_job=3, tasks=["STS-B"])
    again = planned_jobs(snakemake("-n", "--configfile", fewer, cwd=folder).stdout)
    assert again == {"score_0": 1, "score_1": 1} | RENDERED

    def contents(name, kind, part):
        paths = (folder / "results" / name / kind).iterdir()
        return {path.name: json.loads(path.read_text())[part] for path in paths}

    assert contents("batched", "scores", "records") == contents("tiny", "scores", "records")
    assert contents("batched", "analyses", "analyses") == contents("tiny", "analyses", "analyses")


@pytest.mark.parametrize(
    ("changes", "jobs"),
    [
        ({}, {}),
        # A changed hyper-parameter is one run more; the run of its old value is only left out.
        (
            {"methods": [*METHODS[:3], "gs-infonce[multiple=2]"]},
            {"train": 1, "score": 1} | RENDERED,
        ),
        ({"seeds": [1, 2]}, {"train": 2, "score": 2, "analyse": 1} | RENDERED),
        ({"methods": METHODS[:3:2]}, RENDERED),
        ({"tasks": ["STS-B"]}, {"score": 4} | RENDERED),
    ],
)
def test_a_change_runs_what_it_concerns(changes, jobs, suite):
    folder, config = suite
    done = snakemake("-n", "--configfile", config(**changes), cwd=folder)
    assert planned_jobs(done.stdout) == jobs


def test_the_code_that_judges_is_found_from_each_snakefile(suite):
    """Otherwise its sum would differ, and the page would be rendered again or never."""
    folder, config = suite
    other = ROOT / "workflow" / "Snakefile"
    done = snakemake("-n", "--snakefile", other, "--configfile", config(), cwd=folder)
    assert planned_jobs(done.stdout) == {}


def test_deleted_scores_are_made_again(suite, tmp_path):
    folder, config = suite
    scores, kept = folder / "results" / "tiny" / "scores", tmp_path / "scores"
    shutil.move(scores, kept)
    done = snakemake("-n", "--configfile", config(), cwd=folder)
    shutil.move(kept, scores)
    assert planned_jobs(done.stdout) == {"score": 4, "analyse": 1} | RENDERED


def test_the_first_seed_is_scored_before_the_second_is_trained(suite):
    folder, config = suite
    file = config(suite="more", seeds=[1, 2], methods=["simcse"])
    job = r"rule (train|score):.*?wildcards: run=\S+(_s\d)_.*?priority: (\d)"
    done = snakemake("-n", "--configfile", file, cwd=folder)
    jobs = {priority: name + seed for name, seed, priority in re.findall(job, done.stdout, re.S)}
    order = [jobs[priority] for priority in sorted(jobs, reverse=True)]
    assert order == ["score_s1", "train_s1", "score_s2", "train_s2"]


def test_gpus_that_are_asked_for_and_not_there_are_refused(suite):
    folder, config = suite
    words = ("--configfile", config(suite="absent"), "--resources", "gpu=1")
    done = snakemake(*words, cwd=folder, status=1, CUDA_VISIBLE_DEVICES="-1")
    assert "torch finds none on this machine: see what nvidia-smi and torch" in done.stderr
    assert not (folder / "results" / "absent").exists()


def test_changed_data_are_scored_again_and_touched_data_are_not(suite, tiny_data):
    folder, config = suite

    def jobs(**environment):
        words = ("-n", "--configfile", config())
        return planned_jobs(snakemake(*words, cwd=folder, **environment).stdout)

    for time in (2**32, 1):  # newer than the scores, as in a copy, and older
        for stamp in (folder / "results" / "tiny" / "inputs").iterdir():
            os.utime(stamp, (time, time))
        assert jobs(BENCH_DATA=str(tiny_data)) == {}  # which the suite does not read
    gold = tiny_data / "downstream" / "STS" / "STSBenchmark" / "sts-test.csv"
    gold.touch()
    assert jobs() == {}
    before = gold.read_text()
    try:
        gold.write_text(before.replace("\t0\t", "\t1\t", 1))
        os.utime(gold, (0, 0))  # a copy of an older file
        assert jobs() == {"data": 1, "score": 4, "analyse": 1} | RENDERED
    finally:
        gold.write_text(before)


def test_a_failed_job_leaves_no_half_output_and_does_not_stop_the_others(suite, tmp_path):
    _, config = suite
    methods = ["simcse[batch_size=64,drop_last=true]", "word-overlap", "gs-infonce[multiple=1]"]
    configuration = config(methods=methods, compare={"baseline": "word-overlap"})
    quiet = re.search(r"^QUIET := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert quiet  # as make smoke runs it
    # One job at a time, so that the others start after the failure.
    words = ["--configfile", configuration, "--cores", "1", "--until", "score", *quiet[1].split()]
    done = snakemake(*words, cwd=tmp_path, status=1)
    assert "its 44 items fill none of 64" in done.stdout + done.stderr
    results = tmp_path / "results" / "tiny"
    assert not list(tmp_path.rglob("*.part"))
    assert [path.name[:4] for path in (results / "trained").iterdir()] == ["gs-i"]
    scored = sorted(path.name.split("_")[0] for path in (results / "scores").iterdir())
    assert scored == ["gs-infonce.multiple-1", "word-overlap"]


def test_the_paper_suite_is_planned_without_network(tmp_path):
    """It is what Snakemake plans by default."""
    unreachable = "http://127.0.0.1:9"
    done = snakemake("-n", cwd=tmp_path, HF_ENDPOINT=unreachable, http_proxy=unreachable)
    jobs = planned_jobs(done.stdout)
    assert jobs["score"] > 300
    assert jobs["backbone"] == 5  # four transformers and a table of word vectors
