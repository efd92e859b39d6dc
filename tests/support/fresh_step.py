"""The losses of steps from checkpoints, in a process that has computed nothing else."""

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.models.defaults import torch_defaults
from bench.runs.paths import Files
from bench.runs.run import Run
from bench.training.checkpoint import Checkpoints
from bench.training.context import RunContext
from bench.training.loop import Training, training_settings
from tests.support.gpu_path import take_gpu_path
from tests.support.programs import ROOT, environment


@contextmanager
def kept_checkpoints(folder):
    """A training within the block writes a checkpoint after each step to a folder, which keeps the
    last two."""
    save = Checkpoints.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SENTBENCH_CHECKPOINT_SECONDS", "0")
        patch.setattr(Checkpoints, "save", lambda _, *state: save(Checkpoints(folder, {}), *state))
        yield


def fresh_losses(steps):
    """The loss of the step after the oldest checkpoint of each [run, folder of its checkpoints,
    device, whether on the path of a GPU], in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.fresh_step"],
        input=json.dumps(steps), capture_output=True, text=True, cwd=ROOT,
        env=environment(CUBLAS_WORKSPACE_CONFIG=":4096:8"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def loss_after(described, folder, device, on_gpu_path):
    run, file = Run.model_validate(described), min(Path(folder).glob("*.safetensors"))
    with pytest.MonkeyPatch.context() as patch, torch_defaults(), training_settings(run, device):
        if on_gpu_path:
            take_gpu_path(patch)
        training = Training(run, RunContext(run, Files(Path(folder), run.data), device), {})
        training.load(file, Checkpoints(file.parent, {})._read(file))
        losses = [row["loss"] for row in training.steps()]
        return losses[0]


if __name__ == "__main__":
    json.dump([loss_after(*step) for step in json.load(sys.stdin)], sys.stdout)
