"""The contract of methods (methods/base/contract.py), as tests of the methods of a file:

    pytest -p bench.checks.pytest_option --pyargs bench.checks.method_contract --method FILE.py

A test is a clause, and its docstring the claim. Trials are a few steps on the CPU. A corpus of toy
data and a toy backbone stand in for all that a method asks for, so nothing is downloaded.
"""

import difflib
import inspect
import os
import random
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench import world
from bench.evaluation.scoring import encoded, read_tasks, score_tasks
from bench.models.defaults import computing
from bench.models.encoder import Encoder, TransformerEncoder
from bench.models.load import load_encoder, save_encoder
from bench.registry.backbones import backbone
from bench.registry.methods import (
    FAILURES,
    BrokenMethod,
    add_method_paths,
    describe_error,
    format_value,
    load_file,
    method_class,
    method_classes,
)
from bench.runs.choice import valid_row
from bench.runs.paths import Files
from bench.runs.resolve import resolve
from bench.runs.run import Run
from bench.runs.text import spell
from bench.training.checkpoint import Checkpoints
from bench.training.context import RunContext
from bench.training.loop import Diverged, Training, batches
from bench.utils.errors import UserError
from methods.base import Contrastive, Method, Step, Transform, seed_torch, stream_seed

STEPS, HALF = 6, 3  # steps of a training, and the step at which one is interrupted
RECIPE = {
    "batch_size": 8, "learning_rate": 1e-3, "select_every": HALF, "corpus": "world",
    "sentences": 64, "precision": "float32", "threads": 1, "select_on": "STS-B",
}  # fmt: skip
# Relative tolerance. Sums in float32 differ by less; float16, with three digits, differs by more.
_FLOAT32 = 1e-4
# Values that are invalid for many hyper-parameters.
UNLIKELY = ("-1", "0", "nonsense", "true", "false", "none")
NEARLY = 0.8  # likeness, by difflib, of a name that is probably a misspelt slot
_REMEDY = "draw with a generator of stream(context.seed, 'name') or step.generator('name')"


def fail(fault: str) -> NoReturn:
    """Let a test fail with one sentence: what is wrong, and the remedy."""
    pytest.fail(fault, pytrace=False)


def require(holds: object, fault: str) -> None:
    if not holds:
        fail(fault)


# Trials


class _Context(RunContext):
    """The context of a run. Its corpus and its backbone stand in for any other."""

    def sentences(self, corpus: str | None = None) -> Sequence[str]:
        return super().sentences()

    def triples(self) -> Sequence[Sequence[int]]:
        return [range(row, row + 3) for row in range(0, len(self.sentences()) - 2, 3)]

    def load_encoder(self, model: str, pooler: str | None = None, **_: Any) -> Encoder:
        stored = {"pooler": pooler or "cls_before_pooler"}
        return TransformerEncoder.load(backbone("toy-bert").folder(), stored, device=self.device)


class Trial:
    """Trial runs of one method, `cls`, in the folder of a suite."""

    def __init__(self, cls: type[Method], suite: Path) -> None:
        self.cls, self.suite = cls, suite

    def text(self, **keys: str) -> str:
        """The text of a run with these hyper-parameters; a transform follows `untrained`."""
        text = spell(self.cls.name, keys)
        return f"untrained+{text}" if issubclass(self.cls, Transform) else text

    def resolve(self, text: str, seed: int = 1) -> Run:
        """The run of a text on the toy backbone of the kind that the method needs."""
        name = "toy-glove" if self.cls.backbone_kind == "words" else "toy-bert"
        return resolve(
            text, backbone_name=name, corpus="world", data="world", seed=seed, recipe=RECIPE
        )

    def run(self, text: str = "") -> Run:
        run = self.resolve(text or self.text())
        require(
            not run.skip,
            f"skip() refuses a backbone with 4 layers of width 64 ({run.skip}); "
            "let clamp_to_backbone() return values that it supports",
        )
        return run

    def training(self, text: str = "", steps: int = 0) -> Training:
        """A training after some steps."""
        run = self.run(text)
        training = Training(run, _Context(run, Files(self.suite, run.data), "cpu"), {})
        advance(training, steps)
        return training


def first_loss(training: Training, count: int | None = None, still: bool = False) -> Tensor:
    """The loss of the first `count` items of the first step; `still` turns off dropout."""
    rows = next(batches(training.items, training.run.recipe, training.seed))[:count]
    training.modules.train()
    for module in training.modules.modules():
        # Transformers have a configuration. Other modules may behave differently in a training.
        if still and hasattr(module, "config"):
            module.eval()
    seed_torch(stream_seed(training.seed, "dropout", 0))
    step = Step(0, training.total, training.run.recipe.batch_size, training.seed, rows)
    loss = training.method.step_loss(training.context, step)
    shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
    require(shape == (), f"the loss is {shape}, not a scalar tensor; take its mean over the batch")
    require(
        torch.isfinite(loss),
        f"the loss is {loss.item()}; look for a division by 0, or a logarithm or root of 0",
    )
    require(
        loss.requires_grad,
        "the loss has no gradient; remove detach, item or no_grad from its computation",
    )
    with torch.no_grad():
        training.method.after_loss(training.context, step)
    return loss


def advance(training: Training, count: int) -> list[dict[str, Any]]:
    """Take the next `count` steps and return their log rows."""
    try:
        return list(islice(training.steps(), count))
    except Diverged as diverged:
        fail(f"in step {diverged.step}, {diverged}; correct the loss or lower its scale")


def state_bytes(training: Training) -> dict[str, bytes]:
    """The bytes of each tensor of the state of a training, by name."""
    return {
        name: tensor.numpy().tobytes()
        for name, tensor in training.state.state_dict().items()
        if isinstance(tensor, Tensor)
    }


def different(state: Mapping[str, bytes], repeated: Mapping[str, bytes]) -> str:
    """The name of a tensor that differs in any bit; empty if all are equal."""
    names = (name for name in {**state, **repeated} if state.get(name) != repeated.get(name))
    return next(names, "")


# Clauses


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    classes: list[type[Method]] = []
    try:
        for word in metafunc.config.getoption("--method"):
            classes += load_file(Path(word).resolve())[1]
            add_method_paths([word])
        method_classes()  # is there another method of its name?
    except UserError as error:
        raise pytest.Collector.CollectError(str(error)) from None
    metafunc.parametrize(
        "trial", classes, indirect=True, scope="module", ids=[cls.name for cls in classes]
    )


@pytest.fixture(scope="module")
def trial(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with computing(1, "error"):
        yield Trial(request.param, tmp_path_factory.mktemp("suite"))


@pytest.fixture
def trained(trial: Trial) -> Trial:
    if not trial.cls.trained:
        pytest.skip("it is not trained")
    return trial


def test_table_keys(trial: Trial) -> None:
    """its tables name hyper-parameters and recipe fields"""
    for setting in ("paper", "official"):
        for name in getattr(trial.cls, setting) or {}:
            valid_row(trial.cls, setting, name)


def test_slot_names(trial: Trial) -> None:
    """its functions have names and arguments of slots, or other names"""
    bases = trial.cls.__mro__[1:]
    slots = {name for base in bases for name in vars(base) if not name.startswith("_")}
    for name, value in vars(trial.cls).items():
        if not inspect.isfunction(getattr(value, "__func__", value)):
            continue
        if name in slots:
            own, slot = (inspect.signature(getattr(cls, name)) for cls in (trial.cls, bases[0]))
            try:
                own.bind(*slot.parameters)
            except TypeError:
                fail(f"'{name}' takes {own}; write {name}({', '.join(slot.parameters)})")
        else:
            (near,) = difflib.get_close_matches(name, slots, n=1, cutoff=NEARLY) or [""]
            require(
                not near, f"nothing calls '{name}'; rename it to '{near}', or let it start with '_'"
            )


def test_text(trial: Trial) -> None:
    """its text resolves to the same run again"""
    words = {key: format_value(value) for key, value in trial.cls.Hyper()}
    texts = [
        trial.text(**{key: word}) for key, word in words.items() if not set(word) & set("[],=")
    ]
    for text in (trial.text(), *texts):
        run = trial.resolve(text)
        require(
            trial.resolve(run.text).id == run.id,
            f"'{text}' becomes '{run.text}', which is another run; "
            "clamp_to_backbone() must be idempotent",
        )


def test_loss(trained: Trial) -> None:
    """the loss of a batch is a finite scalar, and its gradient reaches what is trained"""
    training = trained.training()
    first_loss(training).backward()
    words = trained.cls.backbone_free or trained.cls.backbone_kind == "words"
    weights = training.weights if words else training.context.backbone.parameters()
    require(
        any(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in weights),
        "no weight of the backbone has a gradient; "
        "compute the loss from the vectors of context.embed",
    )


def test_single_item_batch(trained: Trial) -> None:
    """a batch of one item has a finite loss"""
    try:
        first_loss(trained.training(), count=1)
    except pytest.fail.Exception as fault:
        fail(
            f"{str(fault).partition(';')[0]}; the last batch of an epoch may have one item, "
            "so do not divide by its size minus 1"
        )


def _weights(name: str, suite: Path, noise: int) -> dict[str, bytes]:
    """The state of a method's training; `noise` seeds the global generators."""
    with computing(1, "error"):
        seed_torch(noise)
        np.random.seed(noise)
        random.seed(noise)
        return state_bytes(Trial(method_class(name), suite).training(steps=STEPS))


def test_same_seed(trained: Trial) -> None:
    """the same seed gives the same weights bit for bit, in another process"""
    state = _weights(trained.cls.name, trained.suite, 1)
    # Another hash seed gives sets of strings another order.
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONHASHSEED", hash_seed)
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            repeated = pool.submit(_weights, trained.cls.name, trained.suite, 2).result()
    name = different(state, repeated)
    require(
        not name,
        f"'{name}' differs; {_REMEDY}, and iterate over sorted(...) instead of a set of strings, "
        "whose order differs between processes",
    )


def test_random_streams(trained: Trial) -> None:
    """random draws come from named streams only"""
    training = trained.training()
    first_loss(training, still=True)
    seeded = torch.Generator().manual_seed(stream_seed(training.seed, "dropout", 0))
    require(
        torch.equal(torch.get_rng_state(), seeded.get_state()),
        f"torch's global generator was used; {_REMEDY}",
    )


def test_resume(trained: Trial) -> None:
    """a resumed training gives the same weights"""
    unbroken, stopped = trained.training(), trained.training(steps=HALF)
    resumed = trained.training()
    rows = advance(unbroken, STEPS)
    # Through a file, as in another process.
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(Path(folder) / "checkpoints", {})
        checkpoints.save(stopped.state.step, stopped.state.state_dict())
        checkpoint = checkpoints.newest()
    assert checkpoint is not None
    resumed.load(*checkpoint)
    resumed_rows = advance(resumed, STEPS - HALF)
    name = different(state_bytes(unbroken), state_bytes(resumed))
    require(
        not name and resumed_rows == rows[HALF:],
        f"{name or 'the loss'} differs; keep state in buffers (register_buffer), not in plain "
        "attributes",
    )


class Halves(TorchDispatchMode):
    """Notes the 16-bit types of the results of torch's operations."""

    def __init__(self) -> None:
        super().__init__()
        self.types: set[torch.dtype] = set()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        dtypes = {leaf.dtype for leaf in tree_leaves(result) if isinstance(leaf, Tensor)}
        self.types |= dtypes & {torch.float16, torch.bfloat16}
        return result


def test_float64(trained: Trial) -> None:
    """the loss in float64 is the same to 1e-4"""
    losses = []
    with Halves() as halves:
        for dtype in (torch.float32, torch.float64):
            training = trained.training()
            training.modules.to(dtype)
            losses.append(first_loss(training, still=True))
    # Its error may be too small for the comparison, or come in a later step.
    require(
        not halves.types,
        f"something is cast to {', '.join(map(str, halves.types))}; leave the types to the recipe",
    )
    dtype, single, double = losses[1].dtype, losses[0].item(), losses[1].item()
    require(
        dtype == torch.float64,
        f"it is of {dtype}; do not cast, and create tensors with .to(vectors)",
    )
    require(
        abs(single - double) <= _FLOAT32 * max(abs(double), _FLOAT32),
        f"it is {double:.8g}, and {single:.8g} in float32; "
        "draw in float32 and cast with .to(vectors), and do not cast anything else",
    )


def test_refusals(trial: Trial) -> None:
    """an invalid hyper-parameter is refused in one sentence"""
    tried = set()
    for key, word in product(trial.cls.Hyper.model_fields, UNLIKELY):
        text = trial.text(**{key: word})
        try:
            run = trial.resolve(text)
            if trial.cls.trained and not run.skip and run.id not in tried:
                tried.add(run.id)
                first_loss(trial.training(text))
        except BrokenMethod as error:
            reason = describe_error(error.__cause__ or error)
            fail(f"'{text}' raises {reason}; raise ValueError in a validator")
        except UserError:  # in one sentence; or a Refusal of prepare
            continue
        except (*FAILURES, pytest.fail.Exception) as error:
            fail(
                f"'{text}' is accepted, and then fails with {describe_error(error)}; "
                "limit it by Field(ge=...)"
            )


def test_joins(trained: Trial) -> None:
    """it joins another method with '+', or is refused in one sentence"""
    if not (issubclass(trained.cls, Contrastive) and trained.cls.joins()):
        pytest.skip("it joins no other method")
    try:
        joined = trained.training(f"simcse+{trained.cls.name}")
    except UserError:
        return
    require(
        advance(joined, HALF) != advance(trained.training("simcse"), HALF),
        "'simcse' with it is 'simcse' alone; "
        "let its defaults change a slot, or let joins() return False",
    )
    trained.training(f"{trained.cls.name}+gs-infonce", steps=HALF)


def test_encoder(trial: Trial) -> None:
    """its encoder, saved and loaded, gives equal vectors and finite scores"""
    if trial.cls.trained:
        training = trial.training(steps=STEPS)
        context, method = training.context, training.method
    else:
        run = trial.run()
        context, method = _Context(run, Files(trial.suite, run.data), "cpu"), run.build()
        method.begin(context)
    tasks = read_tasks(["STS-B"], world.world_data_folder())
    texts = [text for task in tasks for text in task.sentences()]
    for candidate in method.encoders(context):
        encoder, stored = method.finish(candidate, context), trial.suite / "encoder"
        save_encoder(encoder, stored)
        vectors, loaded = encoded(encoder, tasks), load_encoder(stored)
        require(
            np.array_equal(vectors(texts), encoded(loaded, tasks)(texts)),
            "its vectors differ; store everything that encode() uses in save(), 'arrays' or 'base'",
        )
        score_tasks(encoder, tasks, vectors)  # raises if they are not finite or all equal


# The command


def check_contract(path: Path) -> int:
    """Check every method of a file. pytest prints a line per clause, and ends at the first that
    does not hold; its exit status is returned."""
    if not path.is_file() or path.suffix != ".py":
        raise UserError(f"{path} does not exist or is no .py file; give a file with a method")
    # Not the settings and plugins of tests around the file.
    words = [
        "--pyargs", __name__, "--method", str(path.resolve()), "--verbose", "--no-header", "-rN",
        "--exitfirst", "--tb=short",
        "-c", os.devnull, "--rootdir", str(Path(__file__).parent), "--noconftest",
        "--disable-plugin-autoload", "-p", "bench.checks.pytest_option", "-p", "no:cacheprovider",
    ]  # fmt: skip
    return pytest.main(words)
