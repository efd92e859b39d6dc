"""Jobs that run in an image."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.programs import snakemake

# In place of apptainer: it writes down its options and runs the command with the image's programs.
APPTAINER = """#!{python}
import json, os, sys
if sys.argv[1:] == ["--version"]:
    raise SystemExit(print("apptainer version 1.4.0"))
*options, image, shell, _, command = sys.argv[1:]
with open("job.json", "w") as log:
    json.dump([options, image, command], log)
os.environ["PATH"] = "{programs}:/usr/bin:/bin"
os.execvp(shell, [shell, "-c", command])
"""
SUITE = "{suite: tiny, data: world, corpus: world, tasks: [sts], seeds: [1], "
SUITE += "backbones: {toy-bert: }, methods: [simcse]}"


@pytest.mark.slow
@pytest.mark.parametrize("contained", [True, False])
def test_jobs_run_in_the_image_only_where_that_is_asked_for(tmp_path, contained):
    """A job in the image must not look for the host's Python first."""
    host, inside = tmp_path / "host", tmp_path / "inside"
    python = f'#!/bin/sh\ntouch {tmp_path}/inside.log\nexec {sys.executable} "$@"\n'
    apptainer = APPTAINER.format(python=sys.executable, programs=inside)
    for program, content in {inside / "python": python, host / "apptainer": apptainer}.items():
        program.parent.mkdir()
        program.write_text(content)
        program.chmod(0o755)
    (tmp_path / "tiny.yaml").write_text(SUITE)
    (tmp_path / "mine.sif").write_text("")
    words = ["results/tiny/inputs/data.json", "--configfile", "tiny.yaml"]
    if contained:
        words += ["--sdm", "apptainer"]
    path = f"{host}:{os.environ['PATH']}"
    snakemake(*words, cwd=tmp_path, PATH=path, SENTBENCH_IMAGE="mine.sif")
    assert (tmp_path / "results/tiny/inputs/data.json").exists()
    log = tmp_path / "job.json"
    assert log.exists() == (tmp_path / "inside.log").exists() == contained
    if contained:
        options, image, job = json.loads(log.read_text())
        assert options[options.index("--home") + 1] == str(tmp_path)
        assert Path(image).name == "mine.sif"
        assert str(Path(sys.executable).parent) not in job
