"""The smoke suite's reference catches mistakes: code with one is run, and the check fails.

Each mistake spoils one thing of methods, poolers, classifiers, task files; the same runs without it
pass.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bench.checks.regression import check
from bench.datasets import sts
from bench.datasets.labelled import LabelledTask
from bench.datasets.metrics import METRICS
from bench.evaluation import classifier, protocols, scoring
from bench.models import packed_forward
from bench.runs import config
from bench.runs.run import Run
from bench.stages.jobs import run_plan
from bench.training import context
from bench.utils.errors import UserError
from tests.methods.outside import Patch
from tests.methods.test_mutations import MUTATIONS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("global_state")]

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "results" / "reference" / "smoke.json"

Mistake = Callable[[Patch], None]

# What a mistake is looked for in: a run of the smoke suite on toy-bert, and some of its tasks.
STS, LABELLED = ["STS12", "STS-B", "SICK-R"], ["SST2", "TREC", "MRPC", "Tense", "SubjNumber"]
# Two runs, since one may differ from the same seed.
BOTH = {"simcse": STS, "simcse+cards[switch=0]": STS}
AVERAGE = "untrained[pooler=avg]"
TRAINED, POOLED, CLASSIFIED = {"simcse": STS}, {AVERAGE: STS}, {AVERAGE: LABELLED}


@pytest.fixture
def checked(tmp_path: Path) -> Callable[[Mapping[str, Sequence[str]]], str]:
    """Run and check a part of the smoke suite, methods with tasks: toy-bert, first seed."""
    plan = config.plan(config.load(ROOT / "config" / "smoke.yaml"))

    def run(wanted: Mapping[str, Sequence[str]]) -> str:
        runs = [
            run.model_copy(update={"tasks": tuple(wanted[run.method])})
            for run in plan.runs
            if run.method in wanted and run.backbone == "toy-bert" and run.seed in (None, 1)
        ]
        assert len(runs) == len(wanted)
        part = plan.model_copy(update={"runs": runs})
        part.write(tmp_path / "plan.json")
        list(run_plan(tmp_path, part, runs, "cpu", ["train", "score"]))
        return check(tmp_path, REFERENCE)

    return run


def of_method(name: str) -> Mistake:
    """A mutation that the oracle of the method's loss has to notice too."""

    def make(patch: Patch) -> None:
        plain, mutate = Run.build, MUTATIONS[name][1]

        def built(run: Run) -> Any:
            method = plain(run)
            mutate(method, patch)
            return method

        patch.setattr(Run, "build", built)

    return make


def without_dropout(patch: Patch) -> None:
    plain = context.load_backbone
    patch.setattr(context, "load_backbone", lambda folder, dropout=None: plain(folder, dropout=0.0))


def mean_over_padding(patch: Patch) -> None:
    def spoilt(states: Any, mask: Tensor) -> Tensor:
        last = states[-1]
        return torch.where(mask.bool().unsqueeze(-1), last, last[:, :1]).mean(1)

    patch.setitem(packed_forward.POOLERS, "avg", spoilt)


def first_token_for_the_mean(patch: Patch) -> None:
    patch.setitem(packed_forward.POOLERS, "avg", lambda states, mask: states[-1][:, 0])


def layer_before_the_last(patch: Patch) -> None:
    plain = packed_forward.POOLERS["avg"]
    patch.setitem(packed_forward.POOLERS, "avg", lambda states, mask: plain(states[:-1], mask))


def dev_is_trained_on(patch: Patch) -> None:
    def spoilt(train: np.ndarray, dev: np.ndarray | None, *heads: Any) -> classifier.Fold:
        return classifier.Fold(train if dev is None else np.concatenate([train, dev]), dev, *heads)

    patch.setattr(protocols, "Fold", spoilt)


def features_of_the_next_sample(patch: Patch) -> None:
    plain = LabelledTask.features
    patch.setattr(
        LabelledTask, "features", lambda self, *given: np.roll(plain(self, *given), 1, axis=0)
    )


def features_without_the_last_half(patch: Patch) -> None:
    plain = LabelledTask.features
    patch.setattr(LabelledTask, "features", lambda *given: np.split(plain(*given), 2, axis=1)[0])


def stopped_at_the_first_miss(patch: Patch) -> None:
    patch.setitem(classifier.MODES, "dev", replace(classifier.MODES["dev"], tenacity=0))


def the_other_mode(patch: Patch) -> None:
    patch.setitem(classifier.MODES, "dev", replace(classifier.MODES["test"], folds=5))


def gold_of_the_next_pair(patch: Patch) -> None:
    plain = METRICS["spearman"]
    assert plain.formula
    spoilt = replace(plain, formula=lambda gold, found: plain.formula(np.roll(gold, 1), found))
    patch.setitem(METRICS, "spearman", spoilt)


def dev_for_test(patch: Patch) -> None:
    def spoilt(task: str, data: Path, split: str = "test") -> sts.StsTask:
        read = plain(task, data, "dev" if task in ("STS-B", "SICK-R") else split)
        return replace(read, split=split)

    plain = sts.read
    patch.setattr(scoring.sts, "read", spoilt)


def dot_product_for_the_cosine(patch: Patch) -> None:
    patch.setattr(sts, "cosine", lambda first, second: (first * second).sum(1).astype(np.float64))


LOSSES = ("sign_of_the_cosine", "temperature_multiplied", "positive_of_the_next_sentence")
OF_POOLERS = (mean_over_padding, first_token_for_the_mean, layer_before_the_last)
OF_CLASSIFIERS = (
    dev_is_trained_on,
    features_of_the_next_sample,
    features_without_the_last_half,
    stopped_at_the_first_miss,
    the_other_mode,
)
OF_SCORES = (gold_of_the_next_pair, dev_for_test, dot_product_for_the_cosine)
MISTAKES: dict[str, tuple[Mapping[str, Sequence[str]], Mistake]] = {
    **{name: (TRAINED, of_method(name)) for name in LOSSES},
    **{made.__name__: (POOLED, made) for made in (*OF_POOLERS, *OF_SCORES)},
    **{made.__name__: (CLASSIFIED, made) for made in OF_CLASSIFIERS},
    "without_dropout": (BOTH, without_dropout),
}


@pytest.fixture
def patch() -> Iterator[Patch]:
    with Patch.context() as patch:
        yield patch


def test_without_a_mistake_all_scores_pass(checked: Callable[..., str]) -> None:
    assert "each within its interval" in checked(
        {**TRAINED, "untrained[pooler=avg]": [*STS, *LABELLED]}
    )


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_caught(name: str, checked: Callable[..., str], patch: Patch) -> None:
    wanted, make = MISTAKES[name]
    make(patch)
    with pytest.raises(UserError, match=r"outside their intervals|differ from the same seeds"):
        checked(wanted)
