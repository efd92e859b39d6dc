"""Commands in a folder, an environment and a terminal that are not those of the project.

Mutations caught: `methods` imported from the working folder; a wrong BENCH_MODELS taken for an
unknown name; a pipe that is opened; a character that the terminal lacks; OpenMP told too late, or
against the user's will.
"""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli import main
from bench.models.load import load_encoder
from bench.utils.errors import UserError

ROOT = Path(__file__).parents[2]


def test_a_folder_named_methods_hides_nothing(tmp_path):
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "__init__.py").write_text("raise SystemExit('not these')\n")
    words = ["plan", "--suite", "smoke", "--out", "plan.json"]
    done = subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "plan.json").is_file()


@pytest.mark.parametrize("own", [None, "active"])
def test_threads_wait_asleep_unless_the_user_wants_otherwise(own):
    code = "import sys, os, bench.__main__; print(os.environ['OMP_WAIT_POLICY'], *sys.modules)"
    given = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    given |= {"PYTHONPATH": str(ROOT)} | ({"OMP_WAIT_POLICY": own} if own else {})
    printed = subprocess.check_output([sys.executable, "-c", code], env=given, text=True).split()
    assert printed[0] == (own or "passive")
    assert "torch" not in printed  # which loads OpenMP


def test_a_wrong_folder_of_models_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("BENCH_MODELS", str(tmp_path / "nothing"))
    with pytest.raises(UserError, match=r"BENCH_MODELS names '.*nothing', which is not a folder"):
        load_encoder("my-bert", pooler="avg")


def test_a_character_that_the_terminal_lacks_is_escaped(monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr("bench.cli.program.run", lambda words: print("± 1 ≈") or 0)
    assert main(["audit"]) == 0
    terminal.flush()
    assert terminal.buffer.getvalue() == b"\xb1 1 \\u2248\n"


def test_a_reader_that_ends_early_is_no_error():
    command = [sys.executable, "-m", "bench", "audit"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=ROOT, **pipes)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141
