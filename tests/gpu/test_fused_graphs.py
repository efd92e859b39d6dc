"""CUDA graphs of a training's layers, on the pretended device: the same bits as without graphs, and
a guard that notices wrong ones."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bench.models import fused_graphs
from bench.models.fused_forward import FusedLayers
from bench.models.fused_graphs import GraphedLayers, are_wanted
from bench.models.packed_forward import Batch, States
from bench.models.transformer import load_backbone
from bench.runs.run import Run
from bench.training.context import RunContext
from bench.training.loop import Training
from bench.utils.errors import TransientError, UserError
from methods.base import seed_torch
from tests.gpu.cases import TRAINED, some_slow
from tests.gpu.conftest import Make
from tests.support.pretended_device import PretendedDevice

Patch = pytest.MonkeyPatch
Device = PretendedDevice
# Of sequences: batches of one size, since all have 20 tokens in blocks of 16 and a longest sequence
# of 9 to 16, and one of another size.
LIKE = [[9, 3, 6, 2], [10, 5, 3, 2], [9, 1, 8, 2], [12, 4, 3, 1], [11, 7, 1, 1], [9, 9, 1, 1]]
OTHER = [16, 16, 9, 2]


@pytest.fixture(autouse=True)
def soon(monkeypatch: Patch) -> None:
    """The second pass of a size is captured, the third one is the first that a graph computes."""
    monkeypatch.setattr(fused_graphs, "SEEN", 1)


@pytest.fixture
def model(tiny_bert: Path, device: Device) -> Any:
    model = load_backbone(tiny_bert, dropout=0.1)[0].to("cuda").train()
    del model.encoder.layer[3:]
    return model


def batch_of(lengths: Sequence[int]) -> Batch:
    tokens = [range(5, 5 + length) for length in lengths]
    return Batch.of(tokens, 0, "cuda", block=16)


def first_vectors(states: States) -> Tensor:
    return states.first(-1).square().mean()


def bits_of(tensors: Iterable[Tensor | None]) -> str:
    """A sum of tensors; one number says whether they are equal, and is quickly compared."""
    found = hashlib.sha256()
    for one in tensors:
        found.update(b"none" if one is None else one.detach().cpu().numpy().tobytes())
    return found.hexdigest()


Objective = Callable[[States], Tensor]
Change = Callable[[Any, int], None]


def train(
    model: Any,
    graphs: bool,
    patch: Patch,
    batches: Sequence[Sequence[int]] = LIKE,
    objective: Objective = first_vectors,
    first_only: bool = True,
    change: Change = lambda *_: None,
) -> tuple[list[str], GraphedLayers]:
    """The bits of loss, gradients and the generator's state in each step on a copy of a model."""
    patch.setenv("SENTBENCH_GRAPHS", str(int(graphs)))
    model, found = copy.deepcopy(model), list[str]()
    layers, weights = GraphedLayers(model, torch.float16), list(model.parameters())
    optimiser = torch.optim.AdamW(weights, lr=1e-3, fused=True)
    for index, lengths in enumerate(batches):
        change(model, index)
        seed_torch(index, "cuda")
        loss = objective(layers.forward(batch_of(lengths), first_only=first_only))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        found.append(bits_of([loss, *(one.grad for one in weights), torch.cuda.get_rng_state()]))
        optimiser.step()
        del loss  # the graph of a later pass is in use as long as it is there
    return found, layers


def assert_alike(model: Any, patch: Patch, replays: int, *args: Any, **more: Any) -> GraphedLayers:
    """Training with graphs gives the bits of one without; so many passes are replays."""
    (own, layers), (expected, other) = (train(model, on, patch, *args, **more) for on in (1, 0))
    assert own == expected
    assert (layers.replays, other.replays) == (replays, 0)
    return layers


# Trainings of every method

# Methods of which no pass is a replay in these few steps, and why.
NEVER = {
    "skip-thought[batch_size=4,units=8,vocabulary=30,width=6]": "it trains no transformer",
    "ct-bert[batch_size=4,drawn=12,negatives=3]": "batches differ in their distinct sentences",
}


def trained(run: Run, folder: Path) -> tuple[list[float], str, int]:
    """Losses and weights of a training, and its passes that were replays."""
    training = Training(run, RunContext(run, folder, "cuda"), {})
    for batch in islice(training.batches(), 6):
        training.step(batch)
    losses = [row["loss"] for row in training.sync()]
    return losses, bits_of(training.weights), training.context.replays


@pytest.mark.parametrize("text", some_slow(TRAINED, quick=3))
def test_each_method_gives_the_same_bits(
    text: str, make: Make, device: Device, equal_lengths: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    """In mixed precision with dropout, from a scale at which no gradient overflows."""
    scaler = partial(torch.amp.GradScaler, init_scale=1.0)
    monkeypatch.setattr(torch.amp, "GradScaler", scaler)
    recipe: dict[str, Any] = {"precision": "mixed", "dropout": 0.1, "select_every": 100}
    run, found = make(text, corpus=str(equal_lengths), **recipe), []
    for word in ("1", "0"):
        monkeypatch.setenv("SENTBENCH_GRAPHS", word)
        found.append(trained(run, tmp_path))
    (*own, replays), (*expected, none) = found
    assert own == expected
    assert none == 0
    assert (replays == 0) == (text in NEVER), replays


def test_reasons_are_of_methods() -> None:
    assert NEVER.keys() <= set(TRAINED)


# Layers


def test_the_same_numbers_in_few_launches(model: Any, device: Device, monkeypatch: Patch) -> None:
    """Gradients and random numbers too, at the steps of the capture, of the comparison, and after
    them."""
    assert_alike(model, monkeypatch, len(LIKE) - 2)
    assert_alike(model, monkeypatch, len(LIKE) - 2, objective=whole_vectors, first_only=False)
    monkeypatch.setenv("SENTBENCH_GRAPHS", "1")
    counts = []
    for depth in (1, 3):
        cut = copy.deepcopy(model)
        del cut.encoder.layer[depth:]
        layers, batch = GraphedLayers(cut, torch.float16), batch_of(LIKE[0])
        for _ in range(4):
            cut.zero_grad()
            with device.recorded() as seen:
                first_vectors(layers.forward(batch, first_only=True)).backward()
        counts.append(seen.launches.total())
        assert seen.launches["replay"] == 2
        assert not seen.waits
    assert counts[0] == counts[1]


def whole_vectors(states: States) -> Tensor:
    return states[-1].square().mean()


def lower_layers(states: States) -> Tensor:
    return states.first(-1).square().mean() + states[2].sin().mean() + states.first(0).mean()


def test_lower_layers_have_gradients(model: Any, monkeypatch: Patch) -> None:
    assert_alike(model, monkeypatch, len(LIKE) - 2, objective=lower_layers)


def test_a_graph_is_made_again_when_lower_layers_are_read(model: Any, monkeypatch: Patch) -> None:
    """The batch of another size reads them first; graphs of both sizes then have them."""
    lengths = [*LIKE[:4], OTHER, *LIKE]

    def objective(states: States) -> Tensor:
        early = next(passes) % len(lengths) < 4
        return (first_vectors if early else lower_layers)(states)

    passes = count()
    assert_alike(model, monkeypatch, 2 + len(LIKE) - 1, lengths, objective)


def test_a_lower_layer_that_no_graph_has_is_refused(model: Any, monkeypatch: Patch) -> None:
    def objective(states: States) -> Tensor:
        return (first_vectors if next(passes) < 3 else lower_layers)(states)

    passes = count()
    with pytest.raises(TransientError, match=r"^a lower layer is read, .* with SENTBENCH_GRAPHS=0"):
        train(model, True, monkeypatch, LIKE, objective)


def test_only_sizes_that_recur_and_not_too_many(model: Any, monkeypatch: Patch) -> None:
    monkeypatch.setattr(fused_graphs, "MOST", 2)
    sizes = [[*LIKE[0], *[9] * more] for more in range(4)]
    batches = [sizes[0], sizes[1], sizes[0], sizes[2], sizes[1], sizes[2], *sizes, *sizes]
    layers = assert_alike(model, monkeypatch, 4, batches)  # twice each of the first two sizes
    assert len(layers._graphs) == 2
    assert assert_alike(model, monkeypatch, 0, sizes)._graphs == {}


def test_a_pass_while_another_is_in_use(model: Any, monkeypatch: Patch) -> None:
    """Two passes before their backward pass: the second one has no graph."""
    monkeypatch.setenv("SENTBENCH_GRAPHS", "1")
    graphed, plain = GraphedLayers(model, torch.float16), FusedLayers(model, torch.float16)
    for index, (lengths, others) in enumerate(zip(LIKE, reversed(LIKE), strict=True)):
        found = []
        for layers in (graphed, plain):
            seed_torch(index, "cuda")
            model.zero_grad()
            one, other = (
                layers.forward(batch_of(each), first_only=True).first(-1)
                for each in (lengths, others)
            )
            (one * other.flip(0)).sum().backward()
            found.append(bits_of([one, other, *(weight.grad for weight in model.parameters())]))
            del one, other
        assert found[0] == found[1]
    assert graphed.replays == len(LIKE) - 1  # both passes of the first step have none


def test_vectors_that_are_kept_are_not_overwritten(model: Any, monkeypatch: Patch) -> None:
    monkeypatch.setenv("SENTBENCH_GRAPHS", "1")
    for first_only in (True, False):
        layers, kept = GraphedLayers(model, torch.float16), []
        for lengths in LIKE:
            states = layers.forward(batch_of(lengths), first_only=first_only)
            vectors = states.first(-1).detach()
            kept.append((vectors, vectors.tolist()))
            del states
        assert layers.replays
        assert all(vectors.tolist() == before for vectors, before in kept)


def test_passes_without_gradients_have_no_graph(model: Any, monkeypatch: Patch) -> None:
    monkeypatch.setenv("SENTBENCH_GRAPHS", "1")
    layers = GraphedLayers(model, torch.float16)
    for lengths in LIKE:
        with torch.no_grad():
            layers.forward(batch_of(lengths))
    model.requires_grad_(False)
    for lengths in LIKE:
        layers.forward(batch_of(lengths))
    assert layers._graphs == {}


def more_dropout(model: Any, index: int) -> None:
    model.encoder.layer[1].output.dropout.p = 0.3 if index > 2 else 0.1


def no_dropout(model: Any, index: int) -> None:
    model.train(index < 3)


def thawed(model: Any, index: int) -> None:
    model.encoder.layer[0].requires_grad_(index > 2)
    model.embeddings.requires_grad_(index > 2)


@pytest.mark.parametrize("change", [more_dropout, no_dropout, thawed])
def test_what_changes_in_a_model_has_a_graph_of_its_own(
    change: Change, model: Any, monkeypatch: Patch
) -> None:
    layers = assert_alike(model, monkeypatch, 2, change=change)
    assert len(layers._graphs) == 2


# Graphs that are wrong

Graph = Callable[..., tuple[Tensor, ...]]


class Bent(torch.autograd.Function):
    """The same values with other gradients."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return values.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * (1 + 2**-6)


def other_states(graph: Graph, _: Sequence[Tensor]) -> Graph:
    return lambda *inputs: tuple(one * (1 + 2**-20) for one in graph(*inputs))


def other_gradients(graph: Graph, _: Sequence[Tensor]) -> Graph:
    return lambda *inputs: tuple(map(Bent.apply, graph(*inputs)))


def other_random_numbers(graph: Graph, _: Sequence[Tensor]) -> Graph:
    def drawn(*inputs: Tensor) -> tuple[Tensor, ...]:
        found = graph(*inputs)
        torch.rand(1, device="cuda")
        return found

    return drawn


def old_layout(graph: Graph, samples: Sequence[Tensor]) -> Graph:
    old = [one.clone() for one in samples[1:5]]
    return lambda *inputs: graph(inputs[0], *old, *inputs[5:])


def old_states(graph: Graph, samples: Sequence[Tensor]) -> Graph:
    old = samples[0].detach().clone()
    return lambda *inputs: graph(inputs[0] * 0 + old, *inputs[1:])


SPOILT = [other_states, other_gradients, other_random_numbers, old_layout, old_states]


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_wrong_graph_is_noticed(
    spoil: Callable[..., Graph], model: Any, monkeypatch: Patch, capsys: Any
) -> None:
    def make(function: Any, samples: Any, pool: Any) -> Graph:
        captures.append(samples)
        return spoil(plain(function, samples, pool), samples)

    captures: list[Any] = []
    plain = torch.cuda.make_graphed_callables
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", make)
    assert_alike(model, monkeypatch, 0)
    told = "a CUDA graph of the layers differs from the layers; training goes on without graphs\n"
    assert capsys.readouterr().err == told
    assert len(captures) == 1


def test_a_training_with_a_wrong_graph(
    make: Make, device: Device, equal_lengths: Path, tmp_path: Path, monkeypatch: Patch, capsys: Any
) -> None:
    plain, found = torch.cuda.make_graphed_callables, []
    run = make("simcse", corpus=str(equal_lengths), dropout=0.1, select_every=100)
    for spoil in (lambda graph, _: graph, other_gradients):
        spoilt = lambda *how, spoil=spoil: spoil(plain(*how[:2], **how[2]), how[1])  # noqa: E731
        monkeypatch.setattr(
            torch.cuda, "make_graphed_callables", lambda *args, one=spoilt, **more: one(*args, more)
        )
        found.append(trained(run, tmp_path))
    (*expected, replays), (*own, none) = found
    assert own == expected
    assert (replays, none) == (4, 0)
    assert capsys.readouterr().err.count("differs from the layers") == 1


def full(*_: Any, **__: Any) -> None:
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB\nException raised from here")


def waiting(patch: Patch) -> None:
    plain = FusedLayers.compute

    def compute(self: FusedLayers, states: Tensor, *args: Any) -> list[Tensor]:
        states.sum().item()
        return plain(self, states, *args)

    patch.setattr(FusedLayers, "compute", compute)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (waiting, "CUDA error: operation not permitted when stream is capturing"),
        (
            lambda patch: patch.setattr(torch.cuda, "make_graphed_callables", full),
            "CUDA out of memory. Tried to allocate 2.00 GiB",
        ),
    ],
)
def test_a_capture_that_fails_is_a_sentence(
    spoil: Callable[[Patch], None], said: str, model: Any, monkeypatch: Patch
) -> None:
    spoil(monkeypatch)
    with pytest.raises(TransientError) as caught:
        train(model, True, monkeypatch)
    assert str(caught.value) == (
        f"a CUDA graph of the layers could not be captured ({said}); "
        "start again with SENTBENCH_GRAPHS=0, which trains without graphs"
    )
    assert isinstance(caught.value.__cause__, RuntimeError)
    train(model, False, monkeypatch)


def test_the_variable(monkeypatch: Patch) -> None:
    monkeypatch.delenv("SENTBENCH_GRAPHS", raising=False)
    assert are_wanted()
    for word, wanted in (("1", True), ("0", False)):
        monkeypatch.setenv("SENTBENCH_GRAPHS", word)
        assert are_wanted() == wanted
    monkeypatch.setenv("SENTBENCH_GRAPHS", "off")
    with pytest.raises(UserError, match=r"^SENTBENCH_GRAPHS is 'off'; set it to 0 .*or 1$"):
        are_wanted()
