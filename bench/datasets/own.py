"""Sets that the manifest of a data folder describes, and those that trainings need."""

from collections.abc import Iterable
from pathlib import Path

from bench.datasets import labelled, sts
from bench.datasets.manifest import manifest
from bench.datasets.tasks import OWN_PROBING, OWN_STS
from bench.utils.errors import UserError


def check_own(tasks: Iterable[str], data: Path) -> None:
    """Read the described sets among some tasks: a mistake in them shows before a training."""
    for task in tasks:
        if task.startswith(OWN_STS):
            for split in sts.scored_splits(task, data):
                sts.read(task, data, split)
        elif task.startswith(OWN_PROBING):
            labelled.read(task, data)


def check_dev(tasks: Iterable[str], data: Path, present: bool = True) -> None:
    """Check the dev sets on which trainings select their weights, and read them if `present`."""
    listed = manifest(data)
    with_dev = [task for task, parts in listed.sts.items() if "dev" in parts]
    for task in tasks:
        if task not in with_dev:
            known = " or ".join(with_dev) or "a set that has one"
            raise UserError(
                f"the data set {listed.name} has no dev set of {task}, on which trainings "
                f"select their weights; set 'select_on' in 'recipe' to {known}"
            )
        if present:
            sts.read(task, data, "dev")
