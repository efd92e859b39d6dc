"""File systems that refuse a call: work ends with equal bytes, or is refused before it begins."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.runs.config import plan, validate
from tests.support.kills import ROOT, Trainings
from tests.support.outcomes import left
from tests.support.tiny_suite import SMALL, tiny_configuration

pytestmark = pytest.mark.slow


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    said: list[str]  # lines of output that name the suite
    suite: Path


@pytest.fixture(scope="module")
def start(tiny_bert, tiny_data, tiny_corpus, tmp_path_factory):
    """Run a command in a process to which calls in the suite's folder are refused."""
    if sys.platform != "linux" or not shutil.which("cc"):
        pytest.skip("needs Linux and a C compiler")
    folder = tmp_path_factory.mktemp("refusing")
    library, output = folder / "refuse.so", folder / "output.txt"
    source = ROOT / "tests" / "support" / "refuse.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    inputs = tiny_configuration(tiny_bert, tiny_data, tiny_corpus, methods=["simcse"])
    planned = plan(validate(inputs | {"recipe": SMALL}))

    def words(command, suite):
        planned.write(suite / "plan.json")
        whole, figures = str(folder / "whole"), str(suite / "figures")
        evaluate = ["evaluate", f"{tiny_bert}[pooler=avg]", "--data", str(tiny_data), "--out"]
        return {
            "job": ["job", "--suite", str(suite)],
            "render": ["render", whole, "--out", str(suite), "--figures", figures],
            "evaluate": [*evaluate, str(suite / "x.json"), "--tasks", "STS-B"],
        }[command]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        trainings = Trainings(words("job", folder / "first"), output)

    def ended(command, calls="", number=0):
        suite = folder / (f"{command}-{calls}-{number}" if calls else "whole")
        output.write_text("")
        sitting = trainings.run(words(command, suite), 0, refuse=f"{calls} {number} {suite}")
        lines = output.read_text().replace("\r", "\n").splitlines()
        return Ended(sitting.status, [line for line in lines if str(suite) in line], suite)

    with trainings:
        for command in ("job", "render", "evaluate"):
            assert ended(command).status == 0
        yield ended


def content(suite):
    """The files that the commands write into a suite, without what time or place decides."""
    places = ("tokens/*.npy", "tables/*", "figures/*.*")
    files = [path for place in places for path in suite.glob(place)]
    result = {path.name: path.read_bytes() for path in files}
    for run in suite.glob("runs/*"):
        result |= left(run)
    for path in (*suite.glob("scores/*.json"), *suite.glob("x.json")):
        result[path.name] = json.dumps(json.loads(path.read_text())["records"]).encode()
    return result


ALL = "chmod,fsync,utime,link"
NO_CHMOD, NO_FSYNC = "no chmod on this file system", "no fsync on this file system"


@pytest.mark.parametrize(
    ("command", "calls", "number", "warned"),
    [
        ("job", "chmod", errno.ENOTSUP, [NO_CHMOD]),
        ("job", "fsync", errno.EINVAL, [NO_FSYNC]),
        ("job", "rmdir", errno.ENOTEMPTY, []),
        ("job", ALL, errno.ENOSYS, [NO_FSYNC, NO_CHMOD]),
        ("render", ALL, errno.EPERM, [NO_FSYNC]),
        ("render", "flock", errno.ENOLCK, []),
        ("evaluate", ALL, errno.EPERM, [NO_FSYNC]),
    ],
)
def test_a_call_that_only_improves_is_left_out(start, command, calls, number, warned):
    status, said, suite = start(command, calls, number)
    assert status == 0
    said = [line for line in said if os.strerror(number) in line]
    assert len(said) == len(warned)
    assert all(text in line for text, line in zip(warned, said, strict=True))
    result, whole = content(suite), content(suite.with_name("whole"))
    assert result
    assert {name for name in result if result[name] != whole[name]} == set()


NO_LOCK = "/run.lock: its file system cannot lock it ({})"


@pytest.mark.parametrize(
    ("command", "call", "number", "subject"),
    [
        ("job", "flock", errno.ENOLCK, NO_LOCK),
        ("job", "mkdir", errno.EPERM, ": {}"),
        ("job", "rename", errno.EXDEV, "/trial: {}"),
        ("job", "mmap", errno.ENODEV, ": {}"),
        ("job", "append", errno.EPERM, "/log.jsonl: {}"),
        ("job", "write", errno.EIO, ": {}"),
        ("job", "fsync", errno.ENOSPC, "no space left on the device for "),
        ("job", "open", errno.EACCES, "/plan.json is not a readable JSON file ([Errno 13] {}"),
        ("evaluate", "flock", errno.ENOLCK, "/x.json.part: {}"),
        ("render", "rename", errno.EXDEV, ": {}"),
    ],
)
def test_what_is_needed_is_refused_before_the_training(start, command, call, number, subject):
    status, said, suite = start(command, call, number)
    assert (status, len(said)) == (2, 1)
    assert said[0].startswith("error: ")
    assert subject.format(os.strerror(number)) in said[0]
    assert [log for log in suite.glob("runs/*/log.jsonl") if log.read_bytes()] == []
