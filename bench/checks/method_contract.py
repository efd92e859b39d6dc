"""Checks of a method against the contract (methods/contract.py), from the command line and from
pytest.

Each raises `Fault` or `UserError` if its claim does not hold for a trial.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench import world
from bench.checks.method_trial import HALF, STEPS, Fault, Trial, advance, first_loss
from bench.checks.verify import computing
from bench.evaluation.scoring import encoded, read_tasks, score_tasks
from bench.models.load import load_encoder, save_encoder
from bench.registry import plugins
from bench.registry.methods import method_class, method_classes
from bench.registry.plugins import FAILURES, BrokenMethod, describe_error
from bench.registry.values import format_value
from bench.runs.resolve import valid_row
from bench.training.checkpoint import Checkpoints
from bench.training.loop import Training
from bench.utils.errors import UserError
from methods.base import Contrastive, Method, seed_torch, stream_seed

if TYPE_CHECKING:
    import pytest

# Relative tolerance. Sums in float32 differ by less; float16, with three digits, differs by more.
FLOAT32 = 1e-4
# Values that are invalid for many hyper-parameters.
UNLIKELY = ("-1", "0", "nonsense", "true", "false", "none")
NEARLY = 0.8  # likeness of a name that is probably a misspelt slot
REMEDY = "draw with a generator of stream(context.seed, 'name') or step.generator('name')"


Claim = Callable[[Trial], None]


def _every(cls: type[Method]) -> bool:
    return True


def _trained(cls: type[Method]) -> bool:
    return cls.trained


def _joining(cls: type[Method]) -> bool:
    return issubclass(cls, Contrastive) and cls.joins()


@dataclass(frozen=True)
class Check:
    """One check of the contract."""

    function: Claim  # raises if the claim does not hold
    claim: str  # what it checks, for a person
    applies: Callable[[type[Method]], bool] = _every  # whether a method is checked
    required: bool = False  # whether the checks after it make no sense when it fails

    @property
    def name(self) -> str:
        """A short name, for test ids."""
        return self.function.__name__.removeprefix("check_")


CHECKS: list[Check] = []


def _claims(*details: Any) -> Callable[[Claim], Claim]:
    """Add a function to `CHECKS`, with the other fields of `Check`."""

    def register(function: Claim) -> Claim:
        CHECKS.append(Check(function, *details))
        return function

    return register


def _seed_all(seed: int) -> None:
    seed_torch(seed)
    np.random.seed(seed)
    random.seed(seed)


def _tensors(training: Training) -> dict[str, Tensor]:
    state = training.state.state_dict()
    return {name: value for name, value in state.items() if isinstance(value, Tensor)}


def _trained_to_end(trial: Trial, seed: int = 1) -> Training:
    training = trial.training(seed=seed)
    advance(training, STEPS)
    return training


def _different(first: Training, second: Training) -> str | None:
    """Return the name of a tensor that differs between two trainings in any bit, or None."""
    left, right = _tensors(first), _tensors(second)
    for name in left | right:
        if name not in left or name not in right or not torch.equal(left[name], right[name]):
            return name
    return None


@_claims("its tables name hyper-parameters and recipe fields", _every, True)
def check_table_keys(trial: Trial) -> None:
    for setting in ("paper", "official"):
        for name in getattr(trial.cls, setting) or {}:
            valid_row(trial.cls, setting, name)


@_claims("no function has nearly the name of a slot")
def check_slot_names(trial: Trial) -> None:
    bases = trial.cls.__mro__[1:]
    slots = {name for base in bases for name in vars(base) if not name.startswith("_")}
    for name, value in vars(trial.cls).items():
        if not callable(getattr(value, "__func__", value)) or name in slots:
            continue
        alike = difflib.get_close_matches(name, slots, n=1, cutoff=NEARLY)
        if alike:
            raise Fault(
                f"nothing calls '{name}'; rename it to '{alike[0]}', or let it start with '_'"
            )


@_claims("its text resolves to the same run again", _every, True)
def check_text(trial: Trial) -> None:
    words = {key: format_value(value) for key, value in trial.cls.Hyper()}
    texts = [
        trial.text(**{key: word}) for key, word in words.items() if not set(word) & set("[],=")
    ]
    for text in (trial.text(), *texts):
        run = trial.resolve(text)
        if trial.resolve(run.text).id != run.id:
            raise Fault(
                f"'{text}' becomes '{run.text}', which is another run; "
                "clamp_to_backbone() must be idempotent"
            )


@_claims("the loss of a batch is a finite scalar with a gradient", _trained, True)
def check_loss(trial: Trial) -> None:
    first_loss(trial.training())


@_claims("a batch of one item has a finite loss", _trained)
def check_single_item_batch(trial: Trial) -> None:
    try:
        first_loss(trial.training(), count=1)
    except Fault as fault:
        raise Fault(
            f"{_clause(fault)}; the last batch of an epoch may have one item, "
            "so do not divide by its size minus 1"
        ) from None


@_claims("the gradient reaches what is trained", _trained)
def check_gradient(trial: Trial) -> None:
    training = trial.training()
    first_loss(training).backward()
    words = trial.cls.backbone_free or trial.cls.backbone_kind == "words"
    weights = training.weights if words else list(training.context.backbone.parameters())
    if not any(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in weights):
        raise Fault(
            "no weight of the backbone has a gradient; "
            "compute the loss from the vectors of context.embed"
        )


@_claims("the same seed gives the same weights bit for bit", _trained)
def check_same_seed(trial: Trial) -> None:
    trainings = []
    for seed in (1, 2):  # of the global generators, which must not matter
        _seed_all(seed)
        trainings.append(_trained_to_end(trial))
    name = _different(*trainings)
    if name:
        raise Fault(f"'{name}' differs; {REMEDY}")


# Prints the sums of a method's weights; its arguments are the method and the folder of the inputs.
_ELSEWHERE = """
import json, pathlib, sys
from bench.checks import method_contract as contract
from bench.registry.methods import method_class
trial = contract.Trial(method_class(sys.argv[1]), pathlib.Path(sys.argv[2]))
print(json.dumps(contract.weight_sums(trial)))
"""


def weight_sums(trial: Trial) -> dict[str, str]:
    """Return the SHA-256 of each weight after a few steps, by name."""
    with computing(1, deterministic=True):
        weights = _trained_to_end(trial).modules.state_dict()
    return {
        name: hashlib.sha256(weight.numpy().tobytes()).hexdigest()
        for name, weight in weights.items()
    }


@_claims("another process gives the same weights bit for bit", _trained)
def check_other_process(trial: Trial) -> None:
    here = weight_sums(trial)
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE, trial.cls.name, str(trial.suite)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Fault(f"another process fails ({done.stderr.strip().splitlines()[-1]}); fix it")
    elsewhere = json.loads(done.stdout.splitlines()[-1])
    for name, digest in here.items():
        if elsewhere.get(name) != digest:
            raise Fault(
                f"'{name}' differs; the order of a set of strings differs between processes, "
                "so iterate over sorted(...)"
            )


@_claims("another seed gives other weights", _trained)
def check_other_seed(trial: Trial) -> None:
    if not _different(_trained_to_end(trial, seed=1), _trained_to_end(trial, seed=2)):
        raise Fault(f"the weights are equal; {REMEDY}")


@_claims("random draws come from named streams only", _trained)
def check_random_streams(trial: Trial) -> None:
    _seed_all(1)
    before = _numpy_state(), random.getstate()
    training = trial.training()
    first_loss(training, still=True)
    expected = torch.Generator().manual_seed(stream_seed(training.seed, "dropout", 0)).get_state()
    moved = {
        "numpy's": before[0] != _numpy_state(),
        "Python's": before[1] != random.getstate(),
        "torch's": not torch.equal(torch.get_rng_state(), expected),
    }
    for owner, has_moved in moved.items():
        if has_moved:
            raise Fault(f"{owner} global generator was used; {REMEDY}")


def _numpy_state() -> tuple[Any, ...]:
    state: Any = np.random.get_state()
    return state[1].tobytes(), *state[2:]


@_claims("a resumed training gives the same weights", _trained)
def check_resume(trial: Trial) -> None:
    whole, stopped = trial.training(), trial.training()
    rows = advance(whole, STEPS)
    advance(stopped, HALF)
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(Path(folder) / "checkpoints", {})
        checkpoints.save(stopped.state.step, stopped.state.state_dict())
        checkpoint = checkpoints.newest()
    assert checkpoint is not None
    resumed = trial.training()
    resumed.load(*checkpoint)
    is_equal = advance(resumed, STEPS - HALF) == rows[HALF:]
    name = _different(whole, resumed)
    if name or not is_equal:
        raise Fault(
            f"{name or 'the loss'} differs; keep state in buffers (register_buffer), not in plain "
            "attributes"
        )


class _Halves(TorchDispatchMode):
    """Notes the 16-bit types of the results of torch's operations."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[torch.dtype] = set()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), more: Any = None
    ) -> Any:
        result = operation(*args, **(more or {}))
        dtypes = {leaf.dtype for leaf in tree_leaves(result) if isinstance(leaf, Tensor)}
        self.seen |= dtypes & {torch.float16, torch.bfloat16}
        return result


@_claims("the loss in float64 is the same to 1e-4", _trained)
def check_float64(trial: Trial) -> None:
    losses = []
    with _Halves() as halves:
        for dtype in (torch.float32, torch.float64):
            training = trial.training()
            training.modules.to(dtype)
            losses.append(first_loss(training, still=True))
    if halves.seen:  # its error may be too small for the comparison, or come in a later step
        raise Fault(f"something is cast to {halves.seen.pop()}; leave the types to the recipe")
    single, double = losses
    if double.dtype != torch.float64:
        raise Fault(f"it is of {double.dtype}; do not cast, and create tensors with .to(vectors)")
    if abs(single.item() - double.item()) > FLOAT32 * max(abs(double.item()), FLOAT32):
        raise Fault(
            f"it is {double.item():.8g}, and {single.item():.8g} in float32; "
            "draw in float32 and cast with .to(vectors), and do not cast anything else"
        )


@_claims("an invalid hyper-parameter is refused in one sentence")
def check_refusals(trial: Trial) -> None:
    tried = set()
    for key in trial.cls.Hyper.model_fields:
        for word in UNLIKELY:
            text = trial.text(**{key: word})
            try:
                run = trial.resolve(text)
            except BrokenMethod as error:
                reason = describe_error(error.__cause__ or error)
                raise Fault(f"'{text}' raises {reason}; raise ValueError in a validator") from error
            except UserError:
                continue
            if not trial.cls.trained or run.skip or run.id in tried:
                continue
            tried.add(run.id)
            try:
                first_loss(trial.training(text))
            except UserError:  # a Refusal of prepare
                continue
            except FAILURES as error:
                raise Fault(
                    f"'{text}' is accepted, and then {_clause(error)}; limit it by Field(ge=...)"
                ) from error


def _clause(error: BaseException) -> str:
    """Return an error as a clause of a sentence, without the remedy of a fault."""
    if isinstance(error, Fault):
        return str(error).partition(";")[0]
    return f"fails with {describe_error(error)}"


@_claims("it joins another method with '+', or is refused in one sentence", _joining)
def check_joins(trial: Trial) -> None:
    try:
        joined = trial.training(f"simcse+{trial.cls.name}")
    except UserError:  # refused in a sentence
        return
    if advance(joined, HALF) == advance(trial.training("simcse"), HALF):
        raise Fault(
            "'simcse' with it is 'simcse' alone; "
            "let its defaults change a slot, or let joins() return False"
        )
    advance(trial.training(f"{trial.cls.name}+gs-infonce"), HALF)


@_claims("its encoder, saved and loaded, gives equal vectors and finite scores")
def check_encoder(trial: Trial) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stored = Path(folder) / "encoder"
        if trial.cls.trained:
            training = _trained_to_end(trial)
            training.finish(stored)
            context = training.context
            encoder = training.method.encoders(context)[training.state.best["place"]]
            encoder = training.method.finish(encoder, context)
        else:
            encoder = trial.untrained()
            save_encoder(encoder, stored)
        tasks = read_tasks(["STS-B"], world.data_folder())
        vectors, loaded = encoded(encoder, tasks), load_encoder(stored)
        texts = [text for task in tasks for text in task.sentences()]
        if not np.array_equal(vectors(texts), encoded(loaded, tasks)(texts)):
            raise Fault(
                "its vectors differ; "
                "store everything that encode() uses in save(), 'arrays' or 'base'"
            )
        score_tasks(encoder, tasks, vectors)  # raises if they are not finite or all equal


# Results


@dataclass(frozen=True)
class Clause:
    """The result of one check."""

    claim: str
    fault: str = ""  # why it does not hold; empty if it holds

    def __str__(self) -> str:
        return f"FAIL   {self.claim}: {self.fault}" if self.fault else f"ok     {self.claim}"


def parametrize_with_checks(methods: Sequence[str]) -> pytest.MarkDecorator:
    """Return a pytest decorator that runs every check on every registered method, one test each.

    >>> @parametrize_with_checks(["my-method"])
    ... def test_method(method, check):
    ...     check(method)
    """
    import pytest

    parameters = [
        pytest.param(name, partial(_require, check), id=f"{name}-{check.name}")
        for name in methods
        for check in CHECKS
        if check.applies(method_class(name))
    ]
    return pytest.mark.parametrize(("method", "check"), parameters)


def _require(check: Check, method: str) -> None:
    """Check a registered method; the AssertionError says why the claim does not hold."""
    with computing(1, deterministic=True):
        fault = _fault(check, Trial(method_class(method), Path(_shared_inputs().name)))
    if fault:
        raise AssertionError(f"{method}: {check.claim}: {fault}")


def _fault(check: Check, trial: Trial) -> str:
    """Return why a claim does not hold for a method, or an empty string."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            check.function(trial)
    except (Fault, UserError) as error:
        return str(error)
    except FAILURES as error:
        return f"it fails ({describe_error(error)}); fix it"
    return ""


@cache
def _shared_inputs() -> tempfile.TemporaryDirectory[str]:
    """The suite of all trials of this process; deleted when it exits."""
    return tempfile.TemporaryDirectory(prefix="sentbench-check-")


def check(path: Path) -> Iterator[Clause]:
    """Check every method of a Python file, which is added to `BENCH_METHODS`, and yield the
    results; if a required check fails, the checks after it are left out."""
    path = path.resolve()
    if not path.is_file() or path.suffix != ".py":
        raise UserError(f"{path} is not a Python file; give a .py file with a method")
    claim = f"{path.name} can be imported and holds methods"
    try:
        _, classes = plugins.load_file(path)
        yield Clause(claim)
        claim = "no other method has its name"
        plugins.add_method_paths([path])
        method_classes()
        yield Clause(claim)
    except UserError as error:
        yield Clause(claim, str(error))
        return
    with computing(1, deterministic=True):
        for cls in classes:
            yield from clauses(Trial(cls, Path(_shared_inputs().name)))


def clauses(trial: Trial) -> Iterator[Clause]:
    """Check one method and yield the results, up to the first required check that fails."""
    for check in CHECKS:
        if check.applies(trial.cls):
            fault = _fault(check, trial)
            yield Clause(f"{trial.cls.name}: {check.claim}", fault)
            if fault and check.required:
                return
