"""Trainings as real processes: killed anywhere, retried by the workflow, three at once."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from bench.training.loop import train
from bench.utils.files import read_json
from tests.support.at_once import train_at_once
from tests.support.kills import PHASES, ROOT, Trainings
from tests.support.outcomes import assert_left, left, outcome_of
from tests.support.programs import SNAKEMAKE
from tests.support.tiny_suite import SMALL, tiny_configuration, tiny_run, training_words

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("SENTBENCH_KILLS", "10"))
METHODS = [
    "esimcse[queue=20]",
    "ct-bert[batch_size=4,drawn=16,negatives=3,patience=1]",
    "is-cse[buffer=12,neighbours=3]+sscl",
    "dclr[epochs=1]",
]
NEVER = 1e9  # seconds between checkpoints
HERE = {"PYTHONPATH": str(ROOT), "SENTBENCH_CHECKPOINT_SECONDS": "0", "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture(scope="module")
def make(tiny_bert, tiny_data, tiny_corpus):
    def make_run(text, **recipe):
        return tiny_run(text, tiny_bert, tiny_data, tiny_corpus, **recipe)

    return make_run


@pytest.mark.parametrize("method", ["simcse", METHODS[0]])
def test_three_trainings_at_once_end_as_one_alone(method, make, tmp_path):
    run = make(method, epochs=5)
    (alone,) = train_at_once(run, 1, tmp_path, CUDA_VISIBLE_DEVICES="")
    assert train_at_once(run, 3, tmp_path, CUDA_VISIBLE_DEVICES="") == [alone] * 3


class Victim:
    """One run that is killed again and again, and begun anew when it has ended."""

    def __init__(self, run, trainings, folder):
        self.run, self.trainings, self.folder, self.number = run, trainings, folder, 0
        assert trainings.run(training_words(run, folder / "whole"), NEVER).status == 0
        self.expected = left(folder / "whole" / "runs" / run.id)
        # How many events each phase has: of a training up to its last file, and of one from there.
        first, second = self.sit("end", 1), self.sit()
        assert (first.status, second.status) == (-9, 0)
        self.counts = first.counts | second.counts  # the larger of both
        self.seconds = first.seconds
        self.check()

    @property
    def suite(self):
        return self.folder / f"killed-{self.number}"

    @property
    def begun(self):
        return any((self.suite / "runs" / self.run.id / "checkpoints").glob("*.safetensors"))

    def kill(self, entry, draw):
        """One sitting, killed in a phase or at some time; whether it was, or ended before."""
        if entry == "time":
            sitting = self.sit(delay=draw.uniform(0, self.seconds))
        else:
            sitting = self.sit(entry, draw.randint(1, self.counts[entry]))
        if sitting.status != -9:
            assert sitting.status == 0
            self.check()
        return sitting.status == -9

    def sit(self, phase="", event=0, delay=-1):
        return self.trainings.run(training_words(self.run, self.suite), 0, phase, event, delay)

    def check(self):
        """The training has ended, as if nothing had been; the next sitting begins another one."""
        folder = self.suite / "runs" / self.run.id
        assert_left(folder, self.expected)
        trained = read_json(self.suite / "trained" / f"{self.run.id}.json")
        assert trained["outcome"] == outcome_of(folder)
        self.number += 1


def test_killed_anywhere_a_training_ends_as_if_nothing_had_been(make, tmp_path, record_property):
    draw, hit, tries = random.Random(KILLS), Counter[str](), 0
    with Trainings(
        training_words(make("simcse"), tmp_path / "first"), tmp_path / "output.txt"
    ) as trainings:
        victims = [Victim(make(text), trainings, tmp_path / text[:3]) for text in METHODS]
        entries, place = [*PHASES.values(), "time"], 0
        while hit.total() < KILLS:
            entry, able = entries[place % len(entries)], victims
            if entry == "resume":  # needs a checkpoint, which a kill of the saving leaves
                able = [victim for victim in victims if victim.begun]
            if not able:
                entry, able = "checkpoint", victims
            if able[tries % len(able)].kill(entry, draw):
                hit[entry] += 1
                place += entry == entries[place % len(entries)]
            tries += 1
            assert tries < 10 * KILLS
        for victim in victims:
            assert victim.sit().status == 0
            victim.check()
    record_property("hit", dict(hit))
    print(f"killed {hit.total()} times: {dict(hit)}")
    if KILLS >= 10:
        assert set(entries) == set(hit)
    said = (tmp_path / "output.txt").read_text()
    assert "resumes after step" in said
    assert "Traceback" not in said
    assert "error:" not in said


# Real commands


def begun(*words, cwd):
    """A command, begun; checkpoints are written at each step."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(words, cwd=cwd, env=os.environ | HERE, **pipes)


def wait_for_checkpoint(process, folder, step):
    """Until a training has done so many steps."""
    for _ in range(12_000):
        files = (folder / "checkpoints").glob("*.safetensors")
        if any(int(file.name[:8]) >= step for file in files):
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError(f"no checkpoint of step {step} in {folder}")


def worker_of(folder):
    """The process that holds the log of a training."""
    log = (folder / "log.jsonl").resolve()
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            with suppress(OSError):  # it has ended meanwhile
                if any(link.resolve() == log for link in (process / "fd").iterdir()):
                    return int(process.name)
    raise AssertionError(f"no process trains in {folder}")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_a_killed_worker_is_retried_and_goes_on(make, tiny_bert, tiny_data, tiny_corpus, tmp_path):
    """While it stands still, a second workflow and a second training of the run are refused."""
    run = make("sscl", epochs=10)
    recipe = {**SMALL, "epochs": 10}
    content = tiny_configuration(tiny_bert, tiny_data, tiny_corpus, recipe=recipe, methods=["sscl"])
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(content))
    target = f"results/tiny/trained/{run.id}.json"
    words = [*SNAKEMAKE, "--cores", "1", target, "--configfile", "config.yaml"]
    folder = tmp_path / "results" / "tiny" / "runs" / run.id
    workflow = begun(*words, "--printshellcmds", cwd=tmp_path)
    wait_for_checkpoint(workflow, folder, 3)
    worker = worker_of(folder)
    os.kill(worker, signal.SIGSTOP)
    try:
        second = begun(*words, cwd=tmp_path)
        training = training_words(run, tmp_path / "results" / "tiny")
        same = begun(sys.executable, "-m", "bench", *training, cwd=tmp_path)
        said, _ = second.communicate(timeout=120)
        assert second.returncode != 0
        assert "another workflow is at work on results/tiny here; wait for its end" in said
        said, _ = same.communicate(timeout=120)
        assert same.returncode == 2
        told = r"error: another process is at work on \S+; wait for it"
        assert re.fullmatch(told, said.splitlines()[-1])
    finally:
        os.kill(worker, signal.SIGKILL)
    said, _ = workflow.communicate(timeout=900)
    assert workflow.returncode == 0, said
    assert "Trying to restart" in said
    assert list(dict.fromkeys(re.findall(r"--attempt (\d)", said))) == ["1", "2"]
    log = (tmp_path / "results" / "tiny" / "logs" / "train" / f"{run.id}.log").read_text()
    assert f"{run.id} resumes after step " in log
    train(run, tmp_path / "suite", tmp_path / "whole")
    assert left(folder) == left(tmp_path / "whole")
