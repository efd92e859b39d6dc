"""The one training loop: methods.md a, from sentences to an Encoder.

A batch of n sentences is one forward pass over all its views, interleaved (s1, s1, s2, s2, ...). Every random draw is
seeded by (seed, name, step), so a step depends on nothing but the weights before it.
"""

from __future__ import annotations

import fcntl
import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor, nn

from bench import corpora
from bench.context import RunContext
from bench.encoders import save_encoder
from bench.errors import UserError
from bench.evaluate import encoded, score_tasks
from bench.files import read_json, write_json
from bench.geometry import alignment, uniformity
from bench.progress import Progress
from bench.provenance import provenance
from bench.suite import Recipe, Run
from bench.tasks import sts
from bench.tasks.tables import Vectors
from methods.base import Refusal, Step, stream, stream_seed

BETAS = (0.9, 0.999)  # of AdamW (methods.md a.3)
BLOCKS = (1.0, 0.8, 0.6, 0.4, 0.2)  # Contrastive Tension's rates in five equal blocks (methods.md b.7)


def batches(count: int, recipe: Recipe, seed: int) -> Iterator[list[int]]:
    """Indices of each batch: one permutation an epoch, the last batch short rather than dropped (methods.md a.1)."""
    for epoch in range(recipe.epochs):
        order = torch.randperm(count, generator=stream(seed, "order", epoch)).tolist()
        for start in range(0, count, recipe.batch_size):
            yield order[start : start + recipe.batch_size]


def learning_rate(index: int, total: int, recipe: Recipe) -> float:
    """Linear warm-up over `warmup` of the steps (none by default), then the schedule: linear to 0 (methods.md a.3)."""
    warm = round(recipe.warmup * total)
    if index < warm:
        return recipe.learning_rate * (index + 1) / warm
    shares = {
        "linear": (total - index) / max(1, total - warm),
        "constant": 1.0,
        "blocks": BLOCKS[(index - warm) * len(BLOCKS) // max(1, total - warm)],
    }
    return recipe.learning_rate * shares[recipe.schedule]


def optimiser_of(weights: Sequence[Tensor], recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW (methods.md a.3) or RMSProp, with the recipe's epsilon and weight decay.

    RMSProp forgets at 0.9, as in TensorFlow, in which the one method that uses it was written (methods.md b.7).
    """
    rate, epsilon, decay = recipe.learning_rate, recipe.epsilon, recipe.weight_decay
    if recipe.optimiser == "rmsprop":
        return torch.optim.RMSprop(weights, lr=rate, alpha=0.9, eps=epsilon, weight_decay=decay)
    return torch.optim.AdamW(weights, lr=rate, betas=BETAS, eps=epsilon, weight_decay=decay, fused=True)


def set_rate(optimiser: torch.optim.Optimizer, index: int, rate: float, recipe: Recipe) -> None:
    """Give an optimiser its learning rate for one step.

    Without bias correction (BERT's own optimiser) AdamW is given the rate, epsilon and decay that undo its correction.
    """
    epsilon, decay = recipe.epsilon, recipe.weight_decay
    if recipe.optimiser == "adamw" and not recipe.bias_correction:
        first, second = 1 - BETAS[0] ** (index + 1), math.sqrt(1 - BETAS[1] ** (index + 1))
        rate, epsilon, decay = rate * first / second, epsilon / second, decay * second / first
    for group in optimiser.param_groups:
        group.update(lr=rate, eps=epsilon, weight_decay=decay)


def train(run: Run, suite: Path, folder: Path, device: str = "cpu") -> dict[str, Any]:
    """Train one run; what it leaves in `folder` is `log.jsonl`, `encoder/` and, last of all, `outcome.json`.

    Args:
        suite: the suite's folder, where inputs of its own are.
        folder: the run's own; a training that ended there is not repeated.

    Returns:
        What `outcome.json` holds: `{"run", "outcome": {"status": "finished" | "diverged" | "skipped", ...},
        "provenance"}`.
    """
    done = folder / "outcome.json"
    if done.is_file():
        return read_json(done)
    result: dict[str, Any] = {"run": run.describe()}
    if run.skip:
        result |= {
            "outcome": {"status": "skipped", "reason": run.skip},
            "provenance": provenance(device, run.recipe.threads),
        }
    else:
        torch.set_num_threads(run.recipe.threads)
        torch.use_deterministic_algorithms(True, warn_only=device != "cpu")
        context = RunContext(run, suite, device)
        sums = corpora.corpus_identity(context.corpus)
        outcome = _train(run, context, folder, device)
        result |= {"outcome": outcome, "provenance": provenance(device, run.recipe.threads) | {"corpus": sums}}
    write_json(done, result)
    return result


def _train(run: Run, context: RunContext, folder: Path, device: str) -> dict[str, Any]:
    recipe, seed = run.recipe, run.seed
    assert seed is not None
    method = run.build()
    try:
        method.begin(context)
    except Refusal as refusal:
        raise UserError(f"'{run.text}' cannot be trained: {refusal}") from None
    dev = [sts.read(task, context.data, "dev") for task in recipe.select_on.split("+")]

    modules = nn.ModuleList([*context.modules(), method]).to(device)
    weights = [weight for weight in modules.parameters() if weight.requires_grad]
    optimiser = optimiser_of(weights, recipe)
    scaler = torch.amp.GradScaler(enabled=recipe.precision == "mixed" and device != "cpu")
    items = method.items(context)
    total = recipe.epochs * -(-items // recipe.batch_size)
    best: dict[str, Any] = {"dev": None}
    curve: list[dict[str, Any]] = []
    since_best, started, clock = 0, time.monotonic(), time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)

    with open(folder / "log.jsonl", "a", encoding="utf-8") as log, Progress(total, run.id, "step") as progress:
        _lock(log)
        log.truncate(0)
        for index, batch in enumerate(batches(items, recipe, seed)):
            modules.train()
            step = Step(index, total, recipe.batch_size, seed, batch)
            rate = learning_rate(index, total, recipe)
            set_rate(optimiser, index, rate, recipe)
            torch.manual_seed(stream_seed(seed, "dropout", index))
            loss = method.step_loss(context, step)
            if not torch.isfinite(loss):
                return _diverged(f"the loss became {loss.item()}", index, batch)
            with torch.no_grad():
                method.after_loss(context, step)
            optimiser.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(optimiser)
            torch.nn.utils.clip_grad_norm_(weights, recipe.clip)
            scaler.step(optimiser)
            scaler.update()

            done = index + 1
            row: dict[str, Any] = {"step": done, "loss": loss.item(), "learning_rate": rate}
            if done % recipe.select_every == 0 or (done == total and best["dev"] is None):
                since_best += 1
                for place, encoder in enumerate(method.encoders(context)):
                    vectors = encoded(encoder, dev)
                    try:
                        records = score_tasks(encoder, dev, vectors)
                    except UserError as error:  # vectors that are not finite, or all alike
                        return _diverged(str(error), index, batch)
                    scores = {record["task"]: record["value"] for record in records if record["aggregation"] == "all"}
                    value = sum(scores.values()) / len(scores)
                    row["dev" if place == 0 else f"dev_{place + 1}"] = scores
                    if best["dev"] is None or value > best["dev"]:  # ties keep the earlier one (methods.md a.4)
                        best = {"dev": value, "step": done, "place": place, "weights": _copy(modules)}
                        since_best = 0
                    if place == 0:
                        shape = _geometry(dev, vectors, device)
                        row |= shape
                        curve.append({"step": done, "loss": row["loss"], "dev": value} | shape)
            row["sentences_per_second"] = round(len(batch) / (time.monotonic() - clock), 1)
            clock = time.monotonic()
            log.write(json.dumps(row) + "\n")
            log.flush()
            progress.advance(
                note=f"loss {row['loss']:.4f}" + (f", best dev {best['dev']:.2f}" if best["dev"] is not None else "")
            )
            if recipe.patience and since_best >= recipe.patience:
                break

    modules.load_state_dict(best["weights"])
    modules.eval()
    save_encoder(method.finish(method.encoders(context)[best["place"]], context), folder / "encoder")
    seconds = round(time.monotonic() - started, 2)
    ended = {"status": "finished", "steps": done, "best_step": best["step"], "best_dev": best["dev"]}
    return ended | {"seconds": seconds, "curve": curve}


def _geometry(dev: Sequence[sts.StsTask], vectors: Vectors, device: str) -> dict[str, float | None]:
    """Alignment and uniformity of the dev pairs; of figures, and free, since the vectors are there."""
    pairs = [subset for task in dev for subset in task.subsets]
    first = torch.from_numpy(np.concatenate([vectors(subset.first) for subset in pairs])).to(device)
    second = torch.from_numpy(np.concatenate([vectors(subset.second) for subset in pairs])).to(device)
    gold = torch.from_numpy(np.concatenate([subset.gold for subset in pairs])).to(device)
    return {"alignment": alignment(first, second, gold), "uniformity": uniformity(torch.cat([first, second]))}


def _lock(log: IO[str]) -> None:
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise UserError(f"{log.name} is being written: this run is trained by another process; wait for it") from None


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in module.state_dict().items()}


def _diverged(reason: str, index: int, batch: Sequence[int]) -> dict[str, Any]:
    return {"status": "diverged", "reason": reason, "step": index + 1, "sentences": list(batch)}
