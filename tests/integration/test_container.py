"""The image of Containerfile, and jobs that run in one."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.programs import ROOT, ended, snakemake

CONTENT = (ROOT / "Containerfile").read_text(encoding="utf-8")


def test_the_image_is_made_of_what_exists():
    """Its libraries are those of make, on the lowest Python."""
    instructions = dict(re.findall(r"^(FROM|COPY|WORKDIR|ENV) (.+)$", CONTENT, re.MULTILINE))
    lowest = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())[1]
    assert instructions["FROM"].startswith(f"docker.io/library/python:{lowest}-slim-")
    assert all((ROOT / name).is_file() for name in instructions["COPY"].split()[:-1])
    (made,) = re.findall(r"^RUN make (\S+)$", CONTENT, re.MULTILINE)
    # What make would do with these files alone.
    said = ended("make", "--dry-run", "--always-make", made, cwd=ROOT).stdout
    assert "--requirement requirements.lock" in said
    folder = Path(instructions["WORKDIR"]) / Path(made).parent
    assert instructions["ENV"] == f"PATH={folder}/bin:$PATH"


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
