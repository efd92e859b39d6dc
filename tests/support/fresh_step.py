"""The loss of one step from a checkpoint, in a process that has computed nothing else.

Standard input is JSON, a list of [run, folder of its checkpoints, whether on a GPU's path]; the
step is the one after the oldest checkpoint. Standard output is a list of losses.
"""

import json
import sys
from pathlib import Path

import pytest
import torch

from bench.runs.run import Run
from bench.training.checkpoint import Checkpoints
from bench.training.context import RunContext
from bench.training.loop import Training
from tests.support.gpu_path import take_gpu_path


def loss_after(described, folder, on_gpu_path):
    run, file = Run.model_validate(described), min(Path(folder).glob("*.safetensors"))
    with pytest.MonkeyPatch.context() as patch:
        if on_gpu_path:
            take_gpu_path(patch)
        training = Training(run, RunContext(run, Path(folder), "cpu"), {})
        training.load(file, Checkpoints(file.parent, {})._read(file))
        losses = [row["loss"] for row in training.steps()]
        return losses[0]


if __name__ == "__main__":
    torch.set_num_threads(1)
    json.dump([loss_after(*step) for step in json.load(sys.stdin)], sys.stdout)
