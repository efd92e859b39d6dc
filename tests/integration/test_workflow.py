"""The DAG as its users drive it: real Snakemake processes on a tiny suite."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.tiny_suite import tiny_configuration

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def snakemake(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--snakefile",
        str(ROOT / "Snakefile"),
        "--cores",
        "2",
        *words,
    ]
    hidden = {"BENCH_DATA", "BENCH_MODELS"}
    inherited = {key: value for key, value in os.environ.items() if key not in hidden}
    return subprocess.run(
        command,
        cwd=cwd,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=1800,  # for a hang; a minute is usual, ten under other load
    )


def planned(output: str) -> dict[str, int]:
    """Jobs that a dry run plans, by rule."""
    table = re.search(r"Job stats:\n(.*?)\n\n", output, re.DOTALL)
    if not table:
        assert "Nothing to be done" in output, output
        return {}
    rows = [line.split() for line in table[1].splitlines()[2:]]
    return {rule: int(count) for rule, count in rows if rule not in ("total", "all")}


Suite = tuple[Path, Callable[..., Path]]

RENDERED = {"render": 1}
METHODS = [
    "word-overlap",
    "untrained[pooler=avg]",
    {"method": "simcse", "analyses": ["cosines", "memory"]},
]


@pytest.fixture(scope="module")
def suite(tiny_bert, tiny_data, tiny_corpus, tmp_path_factory) -> Suite:
    """A folder where a tiny suite has run to its end, and a function that writes variants of its
    configuration."""
    folder = tmp_path_factory.mktemp("suite")
    for name in ("bench", "methods"):  # which must not hide those of the project
        (folder / name).mkdir()
        (folder / name / "__init__.py").touch()

    def config(**changes: Any) -> Path:
        plain = {
            "recipe": {"batch_size": 8, "select_every": 2},
            "compare": {"baseline": "simcse"},
            "methods": [*METHODS, "gs-infonce[multiple=1]"],
        }
        content = tiny_configuration(tiny_bert, tiny_data, tiny_corpus, **(plain | changes))
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump(content))
        return path

    done = snakemake("--configfile", str(config()), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, config


def test_the_suite_leaves_tables_figures_and_a_page(suite):
    folder, _ = suite
    results = folder / "results" / "tiny"
    for path in (
        "tables/sts.csv",
        "tables/sts.md",
        "tables/sts.tex",
        "tables/sts.html",
        "report/index.html",
    ):
        assert (results / path).stat().st_size > 0
    assert (folder / "figures" / "tiny" / "leaderboard.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((results / "scores").iterdir())) == 4
    assert len(list((results / "trained").iterdir())) == 2
    (analysed,) = (results / "analyses").iterdir()
    assert list(json.loads(analysed.read_text())["analyses"]) == ["cosines", "memory"]
    assert "917 printed numbers" in (results / "tables" / "coverage.md").read_text()
    assert (results / "tables" / "audit.md").stat().st_size > 0
    assert "gs-infonce[multiple=1]" in (results / "tables" / "compare.csv").read_text()
    assert (folder / "figures" / "tiny" / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_several_runs_a_job_give_the_same_scores(suite):
    folder, config = suite
    batched = str(config(suite="batched", runs_per_job=3))
    found = planned(snakemake("-n", "--configfile", batched, cwd=folder).stdout)
    assert {rule for rule in found if rule.startswith(("train", "score", "analyse"))} == {
        "train_0",
        "train_1",
        "score_0",
        "score_1",
        "analyse_0",
    }
    done = snakemake(
        "--configfile", batched, "--until", "score_0", "score_1", "analyse_0", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert planned(snakemake("-n", "--configfile", batched, cwd=folder).stdout) == RENDERED
    fewer = str(config(suite="batched", runs_per_job=3, tasks=["STS-B"]))
    assert (
        planned(snakemake("-n", "--configfile", fewer, cwd=folder).stdout)
        == {"score_0": 1, "score_1": 1} | RENDERED
    )

    def scores(name: str) -> dict[str, Any]:
        paths = sorted((folder / "results" / name / "scores").iterdir())
        return {path.name: json.loads(path.read_text())["records"] for path in paths}

    def analyses(name: str) -> list[Any]:
        return [
            json.loads(path.read_text())["analyses"]
            for path in (folder / "results" / name / "analyses").iterdir()
        ]

    assert scores("batched") == scores("tiny")
    assert analyses("batched") == analyses("tiny")
    assert len(scores("tiny")) == 4


def test_nothing_is_left_to_do(suite):
    folder, config = suite
    assert planned(snakemake("-n", "--configfile", str(config()), cwd=folder).stdout) == {}


def test_a_changed_hyper_parameter_reruns_only_its_runs(suite):
    folder, config = suite
    methods = [*METHODS, "gs-infonce[multiple=2]"]
    output = snakemake("-n", "--configfile", str(config(methods=methods)), cwd=folder).stdout
    assert planned(output) == {"train": 1, "score": 1} | RENDERED
    assert "gs-infonce.multiple-2" in output


def test_a_new_seed_runs_alone(suite):
    folder, config = suite
    output = snakemake("-n", "--configfile", str(config(seeds=[1, 2])), cwd=folder).stdout
    assert planned(output) == {"train": 2, "score": 2, "analyse": 1} | RENDERED
    assert (
        "_s1_"
        not in output.replace("scores/simcse_official_tiny-bert_s1", "")
        .split("Job stats")[0]
        .split("rule tables")[0]
    )


def test_a_removed_method_only_renders_again(suite):
    folder, config = suite
    output = snakemake("-n", "--configfile", str(config(methods=METHODS[::2])), cwd=folder).stdout
    assert planned(output) == RENDERED


def test_other_tasks_are_scored_without_training(suite):
    folder, config = suite
    output = snakemake("-n", "--configfile", str(config(tasks=["STS-B"])), cwd=folder).stdout
    assert planned(output) == {"score": 4} | RENDERED


def test_changed_data_are_scored_again_and_touched_data_are_not(suite, tiny_data):
    folder, config = suite

    def jobs(**environment: str) -> dict[str, int]:
        words = ("-n", "--configfile", str(config()))
        return planned(snakemake(*words, cwd=folder, **environment).stdout)

    assert jobs(BENCH_DATA=str(tiny_data)) == {}  # which the suite does not read
    gold = tiny_data / "downstream" / "STS" / "STSBenchmark" / "sts-test.csv"
    gold.touch()
    assert jobs() == {}
    before = gold.read_text()
    try:
        gold.write_text(before.replace("\t0\t", "\t1\t", 1))
        os.utime(gold, (0, 0))  # a copy of an older file
        scored = {"data": 1, "train": 2, "score": 4, "analyse": 1} | RENDERED
        assert jobs() == {rule: count for rule, count in scored.items() if rule != "plan"}
    finally:
        gold.write_text(before)


def test_a_failed_job_leaves_no_half_output(suite, tiny_corpus, tmp_path):
    _, config = suite
    broken = tmp_path / "broken.txt"
    broken.write_bytes(tiny_corpus.read_bytes() + b"caf\xe9\n")
    quiet = re.search(r"^QUIET := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert quiet  # as make smoke runs it
    words = ("--configfile", str(config(corpus=str(broken))), *quiet[1].split())
    done = snakemake(*words, cwd=tmp_path)
    assert done.returncode != 0
    assert f"{broken}, line 45: byte 0xe9 is not valid utf-8" in done.stdout + done.stderr
    assert not list(tmp_path.rglob("*.part"))
    assert not (tmp_path / "results" / "tiny" / "trained").exists() or not list(
        (tmp_path / "results" / "tiny" / "trained").iterdir()
    )


def test_a_failed_job_does_not_stop_the_others(suite, tiny_corpus, tmp_path):
    _, config = suite
    broken = tmp_path / "broken.txt"
    broken.write_bytes(tiny_corpus.read_bytes() + b"caf\xe9\n")
    methods = [f"simcse[corpus={broken}]", "word-overlap", "gs-infonce[multiple=1]"]
    configuration = str(config(methods=methods, compare={"baseline": "word-overlap"}))
    # One job at a time, so that the others start after the failure.
    words = ["--configfile", configuration, "--cores", "1", "--until", "score"]
    done = snakemake(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert f"{broken}, line 45: byte 0xe9 is not valid utf-8" in done.stdout + done.stderr
    scored = sorted((tmp_path / "results" / "tiny" / "scores").iterdir())
    assert [path.name.split("_")[0] for path in scored] == ["gs-infonce.multiple-1", "word-overlap"]


def test_a_finished_training_is_not_repeated(suite):
    folder, config = suite
    results = folder / "results" / "tiny"
    trained = next((results / "trained").glob("simcse*"))
    log = results / "runs" / trained.stem / "log.jsonl"
    before, bytes_before = log.stat().st_mtime_ns, trained.read_bytes()
    trained.unlink()
    done = snakemake(str(trained.relative_to(folder)), "--configfile", str(config()), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert trained.read_bytes() == bytes_before
    assert log.stat().st_mtime_ns == before


def test_the_paper_suite_is_planned_without_network(tmp_path):
    done = snakemake(
        "-n",
        "--quiet",
        "rules",
        cwd=tmp_path,
        HF_ENDPOINT="http://127.0.0.1:9",
        http_proxy="http://127.0.0.1:9",
    )
    assert done.returncode == 0, done.stderr
    done = snakemake("-n", cwd=tmp_path, HF_ENDPOINT="http://127.0.0.1:9")
    jobs = planned(done.stdout)
    assert jobs["score"] > 300
    assert jobs["backbone"] == 5  # four transformers and a table of word vectors


def test_smoke_inherits_nothing_from_the_paper_suite(tmp_path):
    done = snakemake("-n", "--configfile", str(ROOT / "config" / "smoke.yaml"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    named = set(re.findall(r"(?:bert|roberta)-(?:base|large)\S*", done.stdout))
    assert named == set()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        # One that the schema finds, and one that planning finds; test_config.py has the others.
        ({"methds": []}, "unknown key 'methds'; did you mean 'methods'?"),
        ({"methods": ["untrained+simcse"]}, "'untrained' is not trained"),
    ],
)
def test_a_mistaken_configuration_is_a_sentence(suite, tmp_path, change, sentence):
    _, config = suite
    done = snakemake("-n", "--configfile", str(config(**change)), cwd=tmp_path)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert sentence in output
    assert "Traceback" not in output


def test_a_key_that_stands_twice_is_a_sentence(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text((ROOT / "config" / "smoke.yaml").read_text() + "\nseeds: [1]\n")
    done = snakemake("-n", "--configfile", str(path), cwd=tmp_path)
    assert done.returncode != 0
    assert "duplicate key 'seeds'; keep one" in done.stdout + done.stderr


def test_lint_only_advises_an_environment(tmp_path):
    # Snakemake 9.27 takes `--lint json` and prints text all the same.
    done = snakemake("--lint", cwd=tmp_path)
    titles = re.findall(r"^    \* (.+?):?$", done.stdout + done.stderr, re.MULTILINE)
    assert len(titles) == 7  # one a rule: what is read is there
    assert set(titles) == {"Specify a conda environment or container for each rule."}


def test_run_names_cannot_hold_a_slash_or_be_confused():
    from bench.runs import config

    for path in sorted((ROOT / "config").glob("*.yaml")):
        if path.stem == "wiki-mini":
            continue
        runs = config.planned(config.load(path))
        names = [run.id for run in runs]
        assert len(names) == len(set(names))
        assert all(re.fullmatch(r"[a-z0-9.+_-]+", name) for name in names)
