"""Two ways in which people train SimCSE today, each at its best on a processor.

`plain_recipe` is the way of the released SimCSE program on today's transformers: its Trainer, a
collator that pads, and SentEval's evaluation for selection. `sentence_transformers` is that
library's own trainer and loss. Neither logs nor saves.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import datasets
import numpy as np
import torch
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer, Trainer, TrainerCallback, TrainingArguments
from transformers.utils import logging

from bench.datasets import sts
from bench.results.records import Record

datasets.disable_progress_bars()
logging.set_verbosity_error()
logging.disable_progress_bar()

BATCH, LENGTH, TEMPERATURE = 64, 32, 0.05  # docs/reference/training.md#shared-recipe
EVALUATED = 128  # sentences of a batch in SentEval
DEV = ("STS-B", "SICK-R")


@dataclass(frozen=True)
class Setting:
    """The inputs of every side: one epoch over the sentences, and a selection after it."""

    backbone: Path
    sentences: Sequence[str]
    data: Path
    rate: float
    precision: str  # "float32" or "bfloat16"
    seed: int = 1

    @property
    def steps(self) -> int:
        return -(-len(self.sentences) // BATCH)


@dataclass
class Training:
    """The times, losses and score of a training."""

    ends: list[tuple[float, bool]] = field(default_factory=list)  # of steps; whether it selected
    losses: list[float] = field(default_factory=list)
    dev: float = float("nan")  # mean Spearman x 100 on the dev sets at the end

    def end(self, selected: bool = False) -> None:
        self.ends.append((time.perf_counter(), selected))

    def step(self) -> float:
        """Seconds of a step without selection, the median but for the first."""
        return median(
            end - start for (start, _), (end, selects) in pairwise(self.ends) if not selects
        )

    def selection(self) -> float:
        """Seconds of a selection, 0 if there was none."""
        result = [end - start for (start, _), (end, selects) in pairwise(self.ends) if selects]
        return median(result) - self.step() if result else 0.0


def arguments(setting: Setting, folder: str, **more: Any) -> dict[str, Any]:
    """The arguments of both trainers. Batches are made in the process; a worker takes a core."""
    return {
        "output_dir": folder,
        "num_train_epochs": 1,
        "per_device_train_batch_size": BATCH,
        "learning_rate": setting.rate,
        "lr_scheduler_type": "linear",
        "max_grad_norm": 1.0,
        "bf16": setting.precision == "bfloat16",
        "use_cpu": True,
        "seed": setting.seed,
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        **{f"{event}_strategy": "no" for event in ("save", "eval", "logging")},
    } | more


def dev_score(
    data: Path, vectors: Callable[[Sequence[str]], np.ndarray], splits: Sequence[str] = ("dev",)
) -> float:
    """Mean Spearman x 100 of both dev sets, after all of `splits` have been encoded and scored."""
    records: list[Record] = []
    for task in DEV:
        for split in splits:
            read = sts.read(task, data, split)
            records += sts.score_pairs(read, sts.similarities(read, vectors))
    return float(np.mean([record["value"] for record in records if record["split"] == "dev"]))


class SimCSE(nn.Module):
    """A backbone's [CLS] through a dense layer and tanh; InfoNCE between a sentence's two views."""

    def __init__(self, backbone: Path, losses: list[float]) -> None:
        super().__init__()
        options = {"add_pooling_layer": False, "dtype": torch.float32}
        self.encoder = AutoModel.from_pretrained(backbone, **options)
        width = self.encoder.config.hidden_size
        self.head = nn.Linear(width, width)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)
        self.losses = losses

    def cls(self, **inputs: Tensor) -> Tensor:
        return self.encoder(**inputs).last_hidden_state[:, 0]

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        vectors = torch.tanh(self.head(self.cls(**inputs))).float().unflatten(0, (-1, 2))
        first, second = F.normalize(vectors, dim=-1).unbind(1)
        loss = F.cross_entropy(first @ second.T / TEMPERATURE, torch.arange(len(first)))
        self.losses.append(loss.item())
        return {"loss": loss}


class Steps(TrainerCallback):
    """Notes when steps end, after `select` at the last one."""

    def __init__(self, training: Training, select: Callable[[], float] | None = None) -> None:
        self.training, self.select = training, select

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        selecting = self.select is not None and state.global_step == state.max_steps
        if selecting:
            self.training.dev = self.select()
        self.training.end(selecting)


def plain_recipe(setting: Setting) -> Training:
    """The released program's training: sentences tokenized ahead, each twice in a padded batch.

    Its selection encodes both sides of every pair of all splits, in file order (SentEval sorts
    STS12-16 alone). Their cosines are taken at once here, not one by one as there.
    """
    torch.manual_seed(setting.seed)
    tokenizer = AutoTokenizer.from_pretrained(setting.backbone)
    rows = datasets.Dataset.from_dict({"text": list(setting.sentences)}).map(
        lambda part: tokenizer(part["text"], truncation=True, max_length=LENGTH),
        batched=True,
        remove_columns="text",
    )
    training = Training()
    model = SimCSE(setting.backbone, training.losses)

    def collate(features: Sequence[dict[str, list[int]]]) -> dict[str, Tensor]:
        return dict(tokenizer.pad([row for row in features for _ in range(2)], return_tensors="pt"))

    def vectors(texts: Sequence[str]) -> np.ndarray:
        result = []
        for start in range(0, len(texts), EVALUATED):
            part = list(texts[start : start + EVALUATED])
            batch = tokenizer(part, padding=True, return_tensors="pt")
            result.append(model.cls(**batch).float())
        return torch.cat(result).numpy()

    @torch.inference_mode()
    def select() -> float:
        model.eval()
        score = dev_score(setting.data, vectors, sts.SPLITS)
        model.train()
        return score

    with tempfile.TemporaryDirectory() as folder:
        told = TrainingArguments(**arguments(setting, folder, remove_unused_columns=False))
        Trainer(model, told, collate, rows, callbacks=[Steps(training, select)]).train()
    return training


class Recorded(MultipleNegativesRankingLoss):
    """The library's loss, which notes its values."""

    def __init__(self, model: SentenceTransformer, losses: list[float]) -> None:
        super().__init__(model, scale=1 / TEMPERATURE)
        self.losses = losses

    def forward(self, *inputs: Any) -> Tensor:
        loss = super().forward(*inputs)
        self.losses.append(loss.item())
        return loss


def sentence_transformers(setting: Setting) -> Training:
    """The library's documented way: pairs, [CLS] pooling, its ranking loss; it selects nothing."""
    torch.manual_seed(setting.seed)
    # In float32 like the others: it would take the files' type, and half precision crawls here.
    options = {"max_seq_length": LENGTH, "model_kwargs": {"dtype": torch.float32}}
    backbone = Transformer(str(setting.backbone), **options)
    pooling = Pooling(backbone.get_embedding_dimension(), "cls")
    model = SentenceTransformer(modules=[backbone, pooling], device="cpu")
    texts = list(setting.sentences)
    rows = datasets.Dataset.from_dict({"anchor": texts, "positive": texts})
    training = Training()
    with tempfile.TemporaryDirectory() as folder:
        told = SentenceTransformerTrainingArguments(**arguments(setting, folder))
        more = {"loss": Recorded(model, training.losses), "callbacks": [Steps(training)]}
        SentenceTransformerTrainer(model, told, rows, **more).train()
    model.eval()
    training.dev = dev_score(setting.data, lambda texts: model.encode(list(texts)))
    return training
