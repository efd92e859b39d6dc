"""The one training loop: methods.md a, from sentences to an Encoder.

A batch of n sentences is one forward pass over all its views, interleaved (s1, s1, s2, s2, ...). Every random draw is
seeded by (seed, name, step), so a step depends on nothing but the weights before it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn

from bench import corpora
from bench.encoders import POOLERS, Encoder, TransformerEncoder, load_backbone, pad, save_encoder
from bench.errors import UserError
from bench.evaluate import score_tasks
from bench.files import read_json, write_json
from bench.progress import Progress
from bench.provenance import provenance
from bench.suite import Recipe, Run
from bench.tasks import sts
from methods.base import Shape, Step, Tokens, Views, stream, stream_seed


class Head(nn.Sequential):
    """SimCSE's new dense layer with tanh, shared by all views (methods.md a.2); weights N(0, 0.02), bias 0."""

    def __init__(self, width: int, seed: int) -> None:
        dense = nn.Linear(width, width)
        nn.init.normal_(dense.weight, std=0.02, generator=stream(seed, "head"))
        nn.init.zeros_(dense.bias)
        super().__init__(dense, nn.Tanh())


@dataclass
class TrainingContext:
    """The tools a method gets (`methods.base.Context`)."""

    seed: int
    shape: Shape
    corpus: Sequence[str]
    model: Any
    tokenizer: Any
    pooler: str

    def sentences(self) -> Sequence[str]:
        return self.corpus

    def encoder(self, pooler: str | None = None) -> Encoder:
        return TransformerEncoder(self.model, self.tokenizer, pooler or self.pooler)


class Embedder(nn.Module):
    """Backbone, pooler and training head: from token sequences to the vectors of a batch's views."""

    def __init__(self, model: Any, pad_id: int, pooler: str, seed: int) -> None:
        super().__init__()
        self.model, self.pad_id = model, pad_id
        self.head = Head(model.config.hidden_size, seed) if pooler == "cls_mlp" else nn.Identity()
        self.pool = POOLERS["cls_before_pooler" if pooler == "cls_mlp" else pooler]

    def forward(self, views: Sequence[Tokens], autocast: Any) -> Views:
        interleaved = [view[i] for i in range(len(views[0])) for view in views]
        ids, mask = (tensor.to(self.model.device) for tensor in pad(interleaved, self.pad_id))
        with autocast():
            states = self.model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states

        def at_layer(layer: int) -> list[Tensor]:
            with autocast():
                vectors = self.head(self.pool(states[: layer + 1], mask))
            if vectors.dtype in (torch.float16, torch.bfloat16):
                vectors = vectors.float()  # cosine, softmax and cross-entropy are in float32 (methods.md a.3)
            return [vectors[view :: len(views)] for view in range(len(views))]

        return Views(at_layer(len(states) - 1), at_layer)


def batches(count: int, recipe: Recipe, seed: int) -> Iterator[list[int]]:
    """Indices of each batch: one permutation an epoch, the last batch short rather than dropped (methods.md a.1)."""
    for epoch in range(recipe.epochs):
        order = torch.randperm(count, generator=stream(seed, "order", epoch)).tolist()
        for start in range(0, count, recipe.batch_size):
            yield order[start : start + recipe.batch_size]


def learning_rate(index: int, total: int, recipe: Recipe) -> float:
    """Linear warm-up over `warmup` of the steps (none by default), then linear decay to 0 (methods.md a.3)."""
    warm = round(recipe.warmup * total)
    share = (index + 1) / warm if index < warm else (total - index) / max(1, total - warm)
    return recipe.learning_rate * share


def train(run: Run, *, backbone: Path, corpus: Path, data: Path, folder: Path, device: str = "cpu") -> dict[str, Any]:
    """Train one run; what it leaves in `folder` is `log.jsonl`, `encoder/` and, last of all, `outcome.json`.

    Args:
        backbone: folder of the pre-trained encoder.
        corpus: one sentence a line.
        data: the data folder with the dev sets to select on.
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
        sums = corpora.corpus_identity(corpus)
        sentences = corpora.read_sentences(corpus, run.recipe.sentences)
        outcome = _train(run, backbone, sentences, data, folder, device)
        result |= {"outcome": outcome, "provenance": provenance(device, run.recipe.threads) | {"corpus": sums}}
    write_json(done, result)
    return result


def _train(run: Run, backbone: Path, sentences: Sequence[str], data: Path, folder: Path, device: str) -> dict[str, Any]:
    recipe, seed = run.recipe, run.seed
    assert seed is not None
    model, tokenizer = load_backbone(backbone, dropout=recipe.dropout)
    tokens = tokenizer(list(sentences), truncation=True, max_length=recipe.max_length, padding=False)["input_ids"]
    embedder = Embedder(model, tokenizer.pad_token_id, recipe.pooler, seed).to(device)
    method = run.build().to(device)
    context = TrainingContext(seed, run.backbone.shape, sentences, model, tokenizer, run.evaluation_pooler)
    method.prepare(context)
    dev = [sts.read(task, data, "dev") for task in recipe.select_on.split("+")]

    weights = [weight for module in (embedder, method) for weight in module.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(
        weights, lr=recipe.learning_rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=recipe.weight_decay, fused=True
    )
    scaler = torch.amp.GradScaler(enabled=recipe.precision == "mixed" and device != "cpu")
    total = recipe.epochs * -(-len(sentences) // recipe.batch_size)
    best: dict[str, Any] = {"dev": None}
    since_best, started, clock = 0, time.monotonic(), time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)

    with open(folder / "log.jsonl", "a", encoding="utf-8") as log, Progress(total, run.id, "step") as progress:
        _lock(log)
        log.truncate(0)
        for index, batch in enumerate(batches(len(sentences), recipe, seed)):
            embedder.train()
            step = Step(index, total, recipe.batch_size, seed)
            rate = learning_rate(index, total, recipe)
            for group in optimiser.param_groups:
                group["lr"] = rate
            torch.manual_seed(stream_seed(seed, "dropout", index))
            views = embedder(method.views([tokens[i] for i in batch], step), _autocast(recipe.precision, device))
            loss = method.loss(views, step)
            if not torch.isfinite(loss):
                return _diverged(f"the loss became {loss.item()}", index, batch)
            optimiser.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(optimiser)
            torch.nn.utils.clip_grad_norm_(weights, recipe.clip)
            scaler.step(optimiser)
            scaler.update()

            done = index + 1
            row: dict[str, Any] = {"step": done, "loss": loss.item(), "learning_rate": rate}
            if done % recipe.select_every == 0 or (done == total and best["dev"] is None):
                try:
                    records = score_tasks(method.encoder(context), dev)
                except UserError as error:  # vectors that are not finite, or all alike
                    return _diverged(str(error), index, batch)
                scores = {record["task"]: record["value"] for record in records if record["aggregation"] == "all"}
                value = sum(scores.values()) / len(scores)
                row["dev"] = scores
                since_best += 1
                if best["dev"] is None or value > best["dev"]:  # ties keep the earlier one (methods.md a.4)
                    best = {"dev": value, "step": done, "model": _copy(model), "method": _copy(method)}
                    since_best = 0
            row["sentences_per_second"] = round(len(batch) / (time.monotonic() - clock), 1)
            clock = time.monotonic()
            log.write(json.dumps(row) + "\n")
            log.flush()
            progress.advance(
                note=f"loss {row['loss']:.4f}" + (f", best dev {best['dev']:.2f}" if best["dev"] is not None else "")
            )
            if recipe.patience and since_best >= recipe.patience:
                break

    model.load_state_dict(best["model"])
    method.load_state_dict(best["method"])
    save_encoder(method.encoder(context), folder / "encoder")
    seconds = round(time.monotonic() - started, 2)
    return {"status": "finished", "steps": done, "best_step": best["step"], "best_dev": best["dev"], "seconds": seconds}


def _autocast(precision: str, device: str) -> Any:
    """A factory of autocast contexts: float16 on a GPU for "mixed", bfloat16 where asked for, else nothing."""
    kind = device.partition(":")[0]
    if precision == "bfloat16":
        return lambda: torch.autocast(kind, dtype=torch.bfloat16)
    if precision == "mixed" and kind != "cpu":
        return lambda: torch.autocast(kind, dtype=torch.float16)
    return contextlib.nullcontext


def _lock(log: IO[str]) -> None:
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise UserError(f"{log.name} is being written: this run is trained by another process; wait for it") from None


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in module.state_dict().items()}


def _diverged(reason: str, index: int, batch: Sequence[int]) -> dict[str, Any]:
    return {"status": "diverged", "reason": reason, "step": index + 1, "sentences": list(batch)}
