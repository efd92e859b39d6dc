"""What every method owes (methods/base.py), clause by clause, tried on the methods of a file."""

from __future__ import annotations

import contextlib
import io
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.checks.method_trial import HALF, STEPS, Fault, Trial, advance, first_loss, make_inputs
from bench.evaluation.scoring import encoded, read_tasks, score_tasks
from bench.models.encoder import load_encoder, save_encoder
from bench.registry.methods import method_classes
from bench.registry.plugins import FAILURES, files_of, name_paths, read_file, said
from bench.runs.recipe import RECIPE_FIELDS, convert, convert_recipe
from bench.runs.run import resolve
from bench.training.checkpoint import Checkpoints
from bench.training.loop import Training
from bench.utils.errors import UserError, nearest
from methods.base import Contrastive, seed_torch, stream_seed

FLOAT32 = 1e-4  # relative: sums of float32 are off by less, and float16, which has three digits, by more
# Values that few hyper-parameters of a type can have.
UNLIKELY = {
    "int": ("-1", "0"),
    "float": ("-1", "0"),
    "str": ("nonsense",),
    "bool": ("true", "false"),
    "None": ("none",),
}
REMEDY = "draw with a generator of stream(context.seed, 'name') or step.generator('name')"


@dataclass(frozen=True)
class Clause:
    """One clause of the contract, and why it does not hold; no fault where it does."""

    claim: str
    fault: str = ""

    def __str__(self) -> str:
        return f"fault  {self.claim}: {self.fault}" if self.fault else f"ok     {self.claim}"


def check(path: Path) -> Iterator[Clause]:
    """Try every clause of the contract on each method of a file, which joins `BENCH_METHODS`; the outcomes in order.

    Where a clause does not hold that others rest on, those are left out.

    Raises:
        UserError: it is no Python file.
    """
    path = path.resolve()
    if not path.is_file():
        raise UserError(f"{path} is no file; name a Python file with a method")
    files_of(path)
    claim = f"{path.name} can be imported and holds methods"
    try:
        _, classes = read_file(path)
        yield Clause(claim)
        claim = "no other method has its name"
        name_paths([path])
        method_classes()
        yield Clause(claim)
    except UserError as error:
        yield Clause(claim, str(error))
        return
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    try:
        with tempfile.TemporaryDirectory(prefix="sentbench-check-") as folder:
            with contextlib.redirect_stderr(io.StringIO()):  # bars of what is short
                make_inputs(Path(folder))
            for cls in classes:
                yield from clauses(Trial(cls, Path(folder)))
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])


def clauses(trial: Trial) -> Iterator[Clause]:
    """Try the clauses that are about one method."""
    owed: list[tuple[str, Callable[[Trial], None]]] = [
        ("its tables name hyper-parameters and recipe fields", tables),
        ("its text names the same run again", text),
    ]
    if trial.cls.trained:
        owed += [
            ("the loss of a batch is a finite scalar with a gradient", loss),
            ("a batch of one item has a finite loss", single),
            ("the gradient reaches what is trained", gradient),
            ("the same seed gives the same weights bit for bit", repeats),
            ("another seed gives other weights", varies),
            ("nothing is drawn but from named streams", draws),
            ("a stopped training goes on to the same weights", resumes),
            ("the loss in float64 is the same to 1e-4", exact),
        ]
    owed += [("a hyper-parameter that makes no sense is refused in a sentence", refusals)]
    if issubclass(trial.cls, Contrastive) and trial.cls.joins():
        owed += [("it joins another method with '+', or is refused in a sentence", joins)]
    owed += [("its encoder, saved and loaded, gives equal vectors and finite scores", scores)]
    for claim, tried in owed:
        fault = ""
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                tried(trial)
        except (Fault, UserError) as error:
            fault = str(error)
        except FAILURES as error:
            fault = f"it fails ({said(error)}); mend it"
        yield Clause(f"{trial.cls.name}: {claim}", fault)
        if fault and tried in (text, loss):  # the others rest on these
            return


def _seed_all(number: int) -> None:
    seed_torch(number)
    np.random.seed(number)
    random.seed(number)


def _different(first: Training, second: Training) -> str | None:
    """The name of a tensor in which two trainings differ in any bit."""
    one, other = first.tensors(), second.tensors()
    unequal = [name for name in one if name not in other or not torch.equal(one[name], other[name])]
    return next(iter([*unequal, *(other.keys() - one.keys())]), None)


# The clauses, each of which returns where it holds


def tables(trial: Trial) -> None:
    cls, known = trial.cls, [*trial.fields, *RECIPE_FIELDS]
    for setting in ("paper", "official"):
        for row, values in (getattr(cls, setting) or {}).items():
            for key, value in values.items():
                if key in trial.fields:
                    convert(value, trial.fields[key], key)
                elif key in RECIPE_FIELDS:
                    convert_recipe({key: value})
                else:
                    raise Fault(f"the row '{row}' of '{setting}' has an unknown key '{key}'{nearest(key, known)}")


def text(trial: Trial) -> None:
    defaults = asdict(trial.cls.Hyper())
    texts = [trial.text(), *(trial.text(**{key: _word(value)}) for key, value in defaults.items() if _word(value))]
    for text in texts:
        run = resolve(text, backbone_name=trial.run().backbone.name, corpus="world", data="world", seed=1)
        again = resolve(
            run.arguments[0], backbone_name=run.backbone.reference, corpus="world", data="world", seed=run.seed
        )
        if again.id != run.id:
            raise Fault(
                f"'{text}' becomes '{run.arguments[0]}', which is another run; clamp_to_backbone() must be idempotent"
            )


def _word(value: Any) -> str:
    """A hyper-parameter's value in a run's text; nothing where that cannot hold it."""
    word = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return "" if set(word) & set("[],=") else word


def loss(trial: Trial) -> None:
    first_loss(trial.training())


def single(trial: Trial) -> None:
    try:
        first_loss(trial.training(), count=1)
    except Fault as fault:
        raise Fault(
            f"{_lowered(fault)}; divide by nothing that is then 0, since the last batch may be so short"
        ) from None


def gradient(trial: Trial) -> None:
    training = trial.training()
    first_loss(training).backward()
    words = trial.cls.backbone_free or trial.cls.backbone_kind == "words"
    weights = training.weights if words else list(training.context.backbone.parameters())
    if not any(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in weights):
        raise Fault("no weight of the backbone has a gradient; make the loss of the vectors that context.embed gives")


def repeats(trial: Trial) -> None:
    trainings = []
    for number in (1, 2):  # of the global generators, which are to decide nothing
        _seed_all(number)
        trainings.append(trial.training())
        advance(trainings[-1], STEPS)
    if name := _different(*trainings):
        raise Fault(f"'{name}' differs; {REMEDY}")


def varies(trial: Trial) -> None:
    first, second = trial.training(seed=1), trial.training(seed=2)
    advance(first, STEPS)
    advance(second, STEPS)
    if not _different(first, second):
        raise Fault(f"it does not; {REMEDY}")


def draws(trial: Trial) -> None:
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
    for owner in (name for name, has in moved.items() if has):
        raise Fault(f"{owner} global generator has moved; {REMEDY}")


def _numpy_state() -> tuple[Any, ...]:
    state: Any = np.random.get_state()
    return state[1].tobytes(), *state[2:]


def resumes(trial: Trial) -> None:
    whole, stopped = trial.training(), trial.training()
    rows = advance(whole, STEPS)
    advance(stopped, HALF)
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(Path(folder) / "checkpoints", {})
        checkpoints.save(stopped.done, stopped.tensors(), stopped.facts())
        found = checkpoints.newest()
    assert found is not None
    resumed = trial.training()
    resumed.restore(found)
    same = advance(resumed, STEPS - HALF) == rows[HALF:]
    if not same or _different(whole, resumed):
        what = _different(whole, resumed) or "the loss"
        raise Fault(f"{what} differs; keep what is remembered in buffers (register_buffer), not in plain fields")


def exact(trial: Trial) -> None:
    losses = []
    for kind in (torch.float32, torch.float64):
        training = trial.training()
        training.modules.to(kind)
        losses.append(first_loss(training, still=True))
    single, double = losses
    if double.dtype != torch.float64:
        raise Fault(f"it is of {double.dtype}; cast nothing, and make tensors of one's own with .to(vectors)")
    if abs(single.item() - double.item()) > FLOAT32 * max(abs(double.item()), FLOAT32):
        raise Fault(
            f"it is {double.item():.8g}, and {single.item():.8g} in float32; "
            "draw in float32 and cast with .to(vectors), and cast nothing else"
        )


def refusals(trial: Trial) -> None:
    for key, written in trial.fields.items():
        for word in (word for kind in written.split("|") for word in UNLIKELY[kind.strip()]):
            text = trial.text(**{key: word})
            try:
                run = resolve(text, backbone_name=trial.run().backbone.name, corpus="world", data="world", seed=1)
            except UserError as refused:
                if "\n" in str(refused):
                    raise Fault(f"'{text}' is refused in several lines; raise Refusal with one sentence") from None
                continue
            except FAILURES as error:
                raise Fault(f"'{text}' ends in {said(error)}; raise Refusal in check()") from error
            if not trial.cls.trained or run.skip:
                continue
            try:
                first_loss(trial.training(text))
            except UserError:  # a Refusal of prepare
                continue
            except FAILURES as error:
                raise Fault(f"'{text}' is taken, and then {_lowered(error)}; raise Refusal in check()") from error


def _lowered(error: BaseException) -> str:
    return str(error).partition(";")[0] if isinstance(error, Fault) else f"fails with {said(error)}"


def joins(trial: Trial) -> None:
    try:
        joined = trial.training(f"simcse+{trial.cls.name}")
    except UserError:  # the reason is a sentence already
        return
    if advance(joined, HALF) == advance(trial.training("simcse"), HALF):
        raise Fault("'simcse' with it is 'simcse' alone; let its default fill a slot, or joins() be false")
    advance(trial.training(f"{trial.cls.name}+gs-infonce"), HALF)


def scores(trial: Trial) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "encoder"
        if trial.cls.trained:
            training = trial.training()
            advance(training, STEPS)
            training.finish(kept)
            context = training.context
            encoder = training.method.encoders(context)[training.best["place"]]
            encoder = training.method.finish(encoder, context)
        else:
            encoder = trial.untrained()
            save_encoder(encoder, kept)
        tasks = read_tasks(["STS-B"], trial.suite / "world")
        vectors, loaded = encoded(encoder, tasks), load_encoder(kept)
        texts = [text for task in tasks for text in task.sentences()]
        if not np.array_equal(vectors(texts), encoded(loaded, tasks)(texts)):
            raise Fault("its vectors differ; save() must hold all that encode() uses, in 'arrays' or 'base'")
        score_tasks(encoder, tasks, vectors)  # raises where they are not finite or all alike
