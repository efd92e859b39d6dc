"""Analyses: measurements of a run's encoder that are not scores, as plain JSON data. Definitions
and sources: docs/reference/analyses.md.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.datasets import sts
from bench.datasets.manifest import EncodeSentences, check_vectors, look_up, manifest
from bench.evaluation import geometry
from bench.models.encoder import Encoder, TransformerEncoder, adaptation
from bench.runs.paths import Files
from bench.runs.run import Run
from bench.training.context import RunContext
from bench.utils.errors import UserError
from methods.base import stream

TASK = "STS-B"  # the papers' dataset for analyses that do not use a corpus
ON_CORPUS = "in-batch"  # the analysis that uses a corpus instead

RANKS, REPEATS = 4, 100  # GS-InfoNCE, figure 1
_SIZES = (16, 32, 64, 128, 256, 512, 1024)  # batch sizes; the paper does not list them
POOL = 8192  # sentences that batches are drawn from, each encoded once

TOKEN_WORDS = range(8, 15)  # words of the compared sentence; SSCL does not name its sentence


class NotApplicable(UserError):
    """An analysis does not apply to this encoder or data; the message is the reason."""


@dataclass
class Material:
    """An encoder, and what its analyses read."""

    run: Run
    encoder: Encoder
    corpus: str  # the run's, or the suite's if the run has none
    files: Files
    device: str = "cpu"
    cache: dict[str, np.ndarray] = field(default_factory=dict, init=False)  # vectors by sentence

    @cached_property
    def context(self) -> RunContext:
        return RunContext(self.run, self.files, self.device)

    @cached_property
    def tasks(self) -> list[sts.StsTask]:
        """STS-B, one task per split that the data has."""
        data = self.files.data
        splits = manifest(data).sts.get(TASK, {})
        return [sts.read(TASK, data, split) for split in sts.SPLITS if split in splits]

    @property
    def test(self) -> sts.Subset:
        for task in self.tasks:
            if task.split == "test":
                return task.subsets[0]
        raise NotApplicable(f"the data of '{self.run.data}' has no test pairs of {TASK}")

    @property
    def transformer(self) -> TransformerEncoder:
        if not isinstance(self.encoder, TransformerEncoder):
            raise NotApplicable(f"an encoder of kind '{self.encoder.kind}' is not a transformer")
        return self.encoder

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors before a post-processing that is fitted on each task; each distinct
        sentence is encoded once."""
        new_texts = [text for text in dict.fromkeys(texts) if text not in self.cache]
        if new_texts:
            vectors = self.context.encode(self.encoder, new_texts)
            self.cache.update(zip(new_texts, vectors, strict=True))
        return np.stack([self.cache[text] for text in texts])

    @cached_property
    def fitted(self) -> EncodeSentences:
        """The encoder with its post-processing fitted on all of STS-B."""
        adapt = adaptation(self.encoder)
        # `target` has the sentences of all splits, whichever split is asked.
        return adapt(list(self.tasks[0].target()), self.encode) if adapt else self.encode

    def vectors(self, sentences: Sequence[str], where: str, task: bool = False) -> np.ndarray:
        """Return finite vectors of n sentences as they are scored, float32 (n, d). A
        post-processing that is fitted on each task is fitted on all of STS-B for a `task`, else on
        `sentences`; messages name these by `where`."""
        adapt = adaptation(self.encoder)
        final = adapt(sentences, self.encode) if adapt and not task else self.fitted
        return look_up(where, [sentences], final)[0]

    def tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device).double()


def analyse(material: Material, names: Iterable[str]) -> dict[str, Any]:
    """Return the results of analyses by name; `{"reason": text}` for one that does not apply."""
    results: dict[str, Any] = {}
    for name in names:
        try:
            results[name] = MEASURED_BY[name](material)
        except NotApplicable as reason:
            results[name] = {"reason": str(reason)}
    return results


def _alignment(material: Material) -> dict[str, Any]:
    """Return alignment (None if no pair is positive) and uniformity of the test and dev
    pairs, and of all with the training pairs."""
    parts = {task.split: task.subsets[0] for task in material.tasks}
    if not parts:
        raise NotApplicable(f"the data of '{material.run.data}' has no {TASK}")
    everything = sts.Subset(
        TASK,
        tuple(text for part in parts.values() for text in part.first),
        tuple(text for part in parts.values() for text in part.second),
        np.concatenate([part.gold for part in parts.values()]),
    )
    parts.pop("train", None)  # it counts within `all` alone
    results = {}
    for split, pairs in (parts | {"all": everything}).items():
        sentences = pairs.first + pairs.second
        vectors = material.tensor(material.vectors(sentences, f"{TASK} {split}", task=True))
        firsts, seconds = vectors.split(len(pairs.first))
        gold = torch.from_numpy(pairs.gold).to(material.device)
        results[split] = {
            "alignment": geometry.alignment(firsts, seconds, gold),
            "uniformity": geometry.uniformity(vectors),
        }
    return {TASK: results}


def layers(material: Material) -> dict[str, Any]:
    """Return SetSim between neighbouring layers and TokSim of each layer, on both sides of the test
    pairs."""
    transformer = material.transformer
    # `without_special` leaves out the first and the last token, whatever they are.
    if transformer.tokenizer.num_special_tokens_to_add() != 2:
        raise NotApplicable("the tokenizer does not add two special tokens to a sentence")
    sentences = material.test.first + material.test.second
    tokens = transformer.tokenize(sentences)
    depth = transformer.model.config.num_hidden_layers
    # SetSim between layers 0 to L, and TokSim of these layers, in two readings each.
    width = 4 * depth + 2
    similarities = transformer.encode_tokens(tokens, pool=geometry.layer_similarities, width=width)
    check_vectors(sentences, similarities)
    # A sentence of one token has no pair without the two special tokens.
    has_pair = np.array([len(row) > 3 for row in tokens])
    setsim_first, setsim_mean, toksim, toksim_special = np.split(
        similarities.astype(np.float64), [depth, 2 * depth, 3 * depth + 1], axis=1
    )
    return {
        # Layer 0 has the embeddings. SetSim is between transformer layers, so its first value is
        # left out.
        "setsim": {
            "cls": setsim_first.mean(0).tolist()[1:],
            "mean": setsim_mean.mean(0).tolist()[1:],
        },
        "toksim": {
            "without_special": toksim[has_pair].mean(0).tolist(),
            "with_special": toksim_special.mean(0).tolist(),
        },
    }


def tokens(material: Material) -> dict[str, Any]:
    """Return the cosines of all tokens of a sentence in the last layer, special tokens included: of
    the first test sentence, in the order of the file, with 8 to 14 words."""
    transformer = material.transformer
    texts = chain(*zip(material.test.first, material.test.second, strict=True))
    sentence = next((text for text in texts if len(text.split()) in TOKEN_WORDS), None)
    if sentence is None:
        raise NotApplicable(f"no test sentence of {TASK} has 8 to 14 words to compare")
    (row,) = transformer.tokenize([sentence])
    pieces = [transformer.tokenizer.decode([token]).strip() for token in row]
    width = transformer.model.config.hidden_size
    flat = transformer.encode_tokens(
        [row], pool=lambda states, _: states[-1].flatten(1), width=len(row) * width
    )
    check_vectors([sentence], flat)
    unit = geometry.unit(torch.from_numpy(flat.reshape(len(row), width)).double())
    return {
        "sentence": sentence,
        "tokens": pieces,
        "layer": transformer.model.config.num_hidden_layers,
        # Rounded like `sts.cosine`.
        "cosines": np.round((unit @ unit.T).numpy(), 12).tolist(),
    }


def in_batch(material: Material) -> dict[str, Any]:
    """Return the largest cosines within random batches of the run's corpus, and with as many
    Gaussian vectors. Draws depend only on the size and the repeat: runs on one corpus have the same
    batches."""
    corpus = material.corpus
    sentences = material.context.sentences(corpus)
    order = torch.randperm(len(sentences), generator=stream(0, "in-batch")).tolist()
    # Blank sentences are left out, and duplicates, which would be each other's nearest.
    distinct = dict.fromkeys(sentences[row] for row in order if not sentences[row].isspace())
    pool = list(islice(distinct, POOL))
    sizes = [size for size in _SIZES if size <= len(pool)]
    if not sizes:
        raise NotApplicable(
            f"corpus '{corpus}' has {len(pool)} distinct sentences, fewer than a batch of "
            f"{_SIZES[0]}"
        )
    encoded = material.vectors(pool, f"corpus '{corpus}'")
    # Lengths in float64, cosines of batches in float32 (docs/reference/analyses.md).
    vectors = geometry.unit(material.tensor(encoded)).float()
    largest: dict[str, list[list[float]]] = {"mean": [], "noise": []}
    for size in sizes:
        near, near_noise = [], []
        for repeat in range(REPEATS):
            rows = torch.randperm(len(pool), generator=stream(0, "in-batch", size, repeat))[:size]
            batch = vectors[rows.to(vectors.device)]
            generator = stream(0, "in-batch noise", size, repeat)
            noise = torch.randn(size, vectors.shape[1], generator=generator).to(vectors.device)
            near.append(geometry.largest_similarities(batch, batch, RANKS))
            near_noise.append(geometry.largest_similarities(batch, geometry.unit(noise), RANKS))
        largest["mean"].append(np.mean(near, axis=0).tolist())
        largest["noise"].append(np.mean(near_noise, axis=0).tolist())
    return {
        "sizes": sizes, "ranks": RANKS, "repeats": REPEATS, **largest,
        "corpus": corpus, "pool": len(pool),
    }  # fmt: skip


def cosines(material: Material) -> dict[str, Any]:
    """Return the cosine and the gold score of every test pair."""
    pairs = material.test
    vectors = material.vectors(pairs.first + pairs.second, f"{TASK} test", task=True)
    cosine = sts.cosine(*np.split(vectors, 2))
    return {"task": TASK, "split": "test", "gold": pairs.gold.tolist(), "cosine": cosine.tolist()}


MEASURED_BY: dict[str, Callable[[Material], dict[str, Any]]] = {
    "alignment": _alignment,
    "layers": layers,
    "tokens": tokens,
    "in-batch": in_batch,
    "cosines": cosines,
}
