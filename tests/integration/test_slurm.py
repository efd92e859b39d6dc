"""The DAG through a real SLURM of one machine: the same scores as without, whatever befalls jobs.

It needs root, Debian's slurm-wlm and munge, and snakemake-executor-plugin-slurm. SENTBENCH_SLURM=1
asks for it.
"""

import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from tests.support.cluster import CPUS, Cluster, missing, until
from tests.support.programs import ROOT, SNAKEMAKE, ended
from tests.support.tiny_suite import tiny_configuration

PROFILE = ROOT / "profiles" / "slurm"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "SENTBENCH_SLURM" not in os.environ, reason="SENTBENCH_SLURM=1 starts a SLURM cluster"
    ),
]

# The profile on a small node: less memory, one core a job, a look at the queue every few seconds.
RESOURCES = ["mem_mb=2000", "runtime=10"]
STAGES = ("train", "score", "analyse")
RULES = [f"{rule}:{has}" for rule in STAGES for has in RESOURCES]
SHARED = [f"{rule}:{has}" for rule in STAGES for has in ("gpu=0", "gres='shard:1'")]
SMALL = ["--profile", str(PROFILE), "--slurm-init-seconds-before-status-checks", "3"]
SMALL += ["--set-resources", *RULES]
SMALL += ["--default-resources", *RESOURCES, "slurm_extra='--signal=TERM@60'"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    assert not missing(), f"apt-get install slurm-wlm munge: {missing()}"
    pytest.importorskip("snakemake_executor_plugin_slurm")
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def write(tiny_bert, tiny_data, tiny_corpus):
    """A function that writes a suite's configuration into a folder, and returns its path."""

    def config(folder, methods, **recipe):
        folder.mkdir(exist_ok=True)
        path = folder / "config.yaml"
        changes = {"recipe": {"batch_size": 8, **recipe}, "methods": methods}
        changes |= {"compare": {"baseline": "simcse"}}
        content = tiny_configuration(tiny_bert, tiny_data, tiny_corpus, **changes)
        path.write_text(yaml.safe_dump(content))
        return path

    return config


def without_slurm(config):
    """The scores of a suite, of one process without any workflow."""
    bench = sys.executable, "-m", "bench"
    words = ["plan", config, "--out", "results/tiny/plan.json"]
    ended(*bench, *words, cwd=config.parent)
    ended(*bench, "job", "--suite", "results/tiny", cwd=config.parent)
    return scores(config.parent)


def snakemake(cluster, config, *words, checkpoints=3600):
    """Start Snakemake on the cluster, with so many seconds between a training's checkpoints."""
    command = [*SNAKEMAKE, "--configfile", str(config), *SMALL, *words]
    more = {"OMP_NUM_THREADS": "1", "SENTBENCH_CHECKPOINT_SECONDS": str(checkpoints)}
    with (config.parent / "said").open("wb") as said:
        options = {"cwd": config.parent, "env": cluster.environment | more}
        return subprocess.Popen(command, **options, stdout=said, stderr=said)


def finish(process, folder):
    try:
        status = process.wait(900)
    finally:
        process.kill()
    assert status == 0, (folder / "said").read_text()


def scores(folder):
    """The records of every run, by the name of its file."""
    files = sorted((folder / "results" / "tiny" / "scores").iterdir())
    return {file.name: json.loads(file.read_text())["records"] for file in files}


def steps(folder):
    """How far the only training of a folder has come."""
    logs = folder.glob("results/tiny/runs/*/log.jsonl")
    return sum(log.read_bytes().count(b"\n") for log in logs)


def test_a_suite_gives_the_same_scores(cluster, write, tmp_path):
    methods = ["word-overlap", "simcse", "gs-infonce[multiple=1]"]
    suite = {"methods": methods, "select_every": 2}
    there = tmp_path / "there"
    finish(snakemake(cluster, write(there, **suite)), there)
    assert len(scores(there)) == 3
    assert scores(there) == without_slurm(write(tmp_path / "here", **suite))

    rules = [rule for _, _, rule in cluster.jobs("COMPLETED")]
    assert sum(rule.startswith("rule_run_") for rule in rules) == 3, rules  # a run is one job
    assert not any(rule.startswith(("rule_data", "rule_corpus", "rule_backbone")) for rule in rules)


def test_runs_share_a_gpu_by_shards(cluster, write, tmp_path):
    """Two jobs, each with a half of the same GPU, train at once."""
    suite = {"methods": ["simcse", "gs-infonce[multiple=1]"], "epochs": 100, "select_every": 100}
    there = tmp_path / "there"
    process = snakemake(cluster, write(there, **suite), "--set-resources", *RULES, *SHARED)
    locks = "results/tiny/runs/*/run.lock"
    until(lambda: len([*there.glob(locks)]) == 2, "two trainings are not at work at once", 300)
    running = cluster.jobs("RUNNING")
    lines = [cluster.slurm("scontrol", "--details", "show", "job", job) for job, _, _ in running]
    places = [re.findall(r" GRES=(\S+)", text) for text in lines]
    assert places == [["shard:1(IDX:0)"]] * 2  # the number of the GPU
    finish(process, there)
    assert scores(there) == without_slurm(write(tmp_path / "here", **suite))


LONG = {"methods": ["simcse"], "epochs": 600, "select_every": 100}
STEPS = 6 * 600  # of a corpus of 44 sentences in batches of 8


@pytest.fixture(scope="module")
def undisturbed(write, tmp_path_factory):
    return without_slurm(write(tmp_path_factory.mktemp("undisturbed"), **LONG))


def cancelled(cluster, job):
    cluster.slurm("scancel", job)


def pre_empted(cluster, job):
    words = ["--partition=urgent", f"--cpus-per-task={CPUS}", "--output=/dev/null"]
    cluster.slurm("sbatch", *words, "--wrap=sleep 1")


def crashed(cluster, job):
    cluster.kill_node()
    until(lambda: cluster.node_state().startswith("down"), "nobody misses the node")
    cluster.start_node()


# Where SLURM gives notice, no checkpoint is due but the one on its signal; a crash gives none.
@pytest.mark.parametrize(
    ("happens", "checkpoints"), [(cancelled, 3600), (pre_empted, 3600), (crashed, 0)]
)
def test_an_interrupted_training_ends_with_the_same_scores(
    happens, checkpoints, cluster, write, undisturbed, tmp_path
):
    config = write(tmp_path, **LONG)
    process = snakemake(cluster, config, "--until", "score", checkpoints=checkpoints)
    until(lambda: steps(tmp_path) > STEPS // 8, "the training does not start", 200)
    ((job, _, _),) = cluster.jobs("RUNNING")
    assert steps(tmp_path) < STEPS // 2, "the training is over before anything happens to it"
    happens(cluster, job)
    finish(process, tmp_path)
    assert scores(tmp_path) == undisturbed
    (log,) = tmp_path.glob("results/tiny/logs/train/*.log")
    assert "resumes after step" in log.read_text()
    if happens is cancelled:  # the job's own log says how the training ended, so its shell waited
        assert "exit status 75" in (tmp_path / "said").read_text()
