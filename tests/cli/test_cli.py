"""Commands end to end: whole files, outcomes as results, and what the machine cannot do as one
sentence; in a folder, an environment and a terminal that are not those of the project."""

import errno
import io
import math
import re
import subprocess
import sys

import pytest

from bench.cli import main
from bench.results.records import read_scores
from bench.utils.interrupts import Stopped
from bench.utils.version import __version__
from methods.simcse import SimCSE
from tests.support.fake_hub import isolate
from tests.support.programs import ROOT, ended
from tests.support.tiny_suite import train_words

COMMAND = [sys.executable, "-m", "bench"]


@pytest.fixture
def job(tiny_bert, tiny_data, tiny_corpus, tmp_path):
    """Train and score a method on the tiny backbone, in two jobs: status and what was written."""

    def run(method):
        words = train_words(method, tiny_bert, tiny_data, tiny_corpus)
        words += ["--suite", str(tmp_path / "suite"), "--stages"]
        status = main([*words, "train"]) or main([*words, "score"])
        return status, *map(read_scores, (tmp_path / "suite").glob("scores/*"))

    return run


def test_a_diverged_run_is_recorded_and_scored_as_such(job, monkeypatch):
    monkeypatch.setattr(SimCSE, "loss", lambda self, views, step: views.vectors[0].sum() * math.nan)
    status, read = job("simcse")
    outcome = read.provenance.outcome
    assert (status, read.records, outcome.status, outcome.step) == (0, [], "diverged", 1)
    assert "nan" in outcome.reason
    assert len(outcome.sentences) == 8


def test_a_model_is_looked_for_before_data_are_fetched(tmp_path, monkeypatch, said):
    isolate(monkeypatch, tmp_path)
    words = ["evaluate", "/nope", "--out", tmp_path / "o.json"]
    assert "/nope does not exist" in said(*words, status=2).err


AGAIN = "run the same command again"
RESUMES = f"{AGAIN} to continue from what is finished"
FULL = RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has")


@pytest.mark.parametrize(
    ("command", "error", "status", "told"),
    [
        ("reproduce", Stopped("SIGTERM"), 75, f"stopped by SIGTERM; {RESUMES}"),
        ("render", Stopped("SIGTERM"), 75, f"stopped by SIGTERM; {AGAIN}"),
        ("evaluate", OSError(errno.ENOSPC, "No space left on device"), 2,
         f"error: No space left on device; free some space and {RESUMES}"),
        ("render", PermissionError(errno.EACCES, "Permission denied", "out"), 2,
         "error: out: Permission denied; name another file or folder"),
        ("job", FULL, 2, "error: memory is full (CUDA out of memory); free some or use a larger "
         f"device, then {RESUMES}"),
    ],
)  # fmt: skip
def test_what_stops_a_command_is_one_sentence(command, error, status, told, monkeypatch, said):
    def stop(words):
        raise error

    monkeypatch.setattr("bench.cli.program.run", stop)
    assert said(command, status=status).err == f"{told}\n"


# Surroundings


def test_a_folder_named_methods_hides_nothing(tmp_path):
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "__init__.py").write_text("raise SystemExit('not these')\n")
    assert ended(*COMMAND, "plan", "smoke", "--out", "plan.json", cwd=tmp_path).stderr == ""


@pytest.mark.parametrize("name", ["bench", "methods"])
def test_another_module_of_one_of_our_names_is_a_sentence_and_not_the_command_s(name, tmp_path):
    other = tmp_path / f"{name}.py"
    other.write_text("raise SystemExit('not this one')\n")
    command = "import sys; sys.argv[:] = {}; import sentbench; sentbench.command()"
    told = [
        ended(sys.executable, "-c", command.format(words), cwd=tmp_path, status=status,
              PYTHONPATH=f"{tmp_path}:{ROOT}")
        for words, status in ((["-c"], 1), (["sentbench", "--version"], 0))
    ]  # fmt: skip
    assert f"\nImportError: {other} hides the package '{name}' of sentbench; " in told[0].stderr
    assert told[1].stdout == f"{__version__}\n"


def test_a_python_without_the_libraries_is_told_how_to_get_them():
    words = [sys.executable, "-S", "-m", "bench", "status"]  # without site-packages
    done = ended(*words, cwd=ROOT, status=1)
    assert re.fullmatch(
        r"error: .*run make \.venv/\.ready .* source \.venv/bin/activate.*\n", done.stderr
    )


def test_threads_wait_asleep():
    code = "import os, bench.__main__; print(os.environ['OMP_WAIT_POLICY'])"
    words = ["env", "-u", "OMP_WAIT_POLICY", sys.executable, "-c", code]
    assert ended(*words, cwd=ROOT).stdout == "passive\n"


def test_a_character_that_the_terminal_lacks_is_escaped(monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr("bench.cli.program.run", lambda words: print("± 1 ≈") or 0)
    assert main(["audit"]) == 0
    terminal.flush()
    assert terminal.buffer.getvalue() == b"\xb1 1 \\u2248\n"


def test_a_reader_that_ends_early_is_no_error():
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*COMMAND, "audit"], cwd=ROOT, **pipes)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141
