"""What a run asks of a device, told before it has run: by its recipe and the sizes of what it reads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

import numpy as np

from bench.datasets import manifest
from bench.datasets.tasks import PROBING_TASKS, expand_tasks
from bench.download import corpus_path, local_folder
from bench.evaluation.classifier import BLOCK, HELD_OUT, Settings
from bench.evaluation.protocols import DECAYS, DROPOUTS, HIDDEN
from bench.models.encoder import FIRST_ONLY
from bench.models.packed_forward import Work, forward_flop
from bench.registry.backbones import Backbone
from bench.runs.run import Run
from bench.utils.errors import UserError
from bench.utils.files import read_json

# Operations of one step of the classifiers (bench/evaluation/classifier.py), each of which waits for the one before.
CALLS = 19

# Rows of the embedding layer: word pieces, positions, types. A toy backbone's are `bench.world.toy_backbones.SIZE`.
EMBEDDED = {
    "bert-base-uncased": 30_522 + 512 + 2,
    "bert-large-uncased": 30_522 + 512 + 2,
    "bert-base-chinese": 21_128 + 512 + 2,
    "roberta-base": 50_265 + 514 + 1,
    "roberta-large": 50_265 + 514 + 1,
}

VIEWS = 2  # sequences encoded for each item of a batch

# Sentences of a corpus, and the mean of their tokens after truncation to some lengths, in word pieces of BERT (30,522).
# Counted on the files, but for `nli`, whose size and length are assumed; wiki1m's mean is that of wiki1m_fallback.
_WIKI = (1_000_000, {0: 0.0, 32: 23.4, 34: 24.1, 50: 27.1, 64: 27.9, 512: 28.5})
CORPORA = {
    "wiki1m": _WIKI,
    "wiki1m_for_simcse": _WIKI,
    "wiki1m_fallback": _WIKI,
    "sts": (89_192, {0: 0.0, 32: 14.7, 64: 15.1, 512: 15.1}),
    "cnsd": (10_462, {0: 0.0, 32: 21.8, 512: 21.8}),
    "nli": (600_000, {0: 0.0, 32: 16.0, 512: 17.0}),
}
SAMPLED = 10_000  # sentences of a corpus that are tokenized to measure the mean

# Distinct sentences that tasks add to those before them, and their mean tokens; counted on SentEval's files and
# X-Probe's. SentEval's probing sentences are not among them: all are taken to differ, with the mean of the other tasks.
_PROBING = (120_000, 16.0)
SCORED = dict.fromkeys(PROBING_TASKS, _PROBING) | {
    "STS12": (4946, 16.3),
    "STS13": (2534, 13.0),
    "STS14": (5999, 13.9),
    "STS15": (5085, 14.6),
    "STS16": (1840, 15.9),
    "STS-B": (1344, 16.6),
    "SICK-R": (5225, 12.3),
    "MR": (10_662, 27.6),
    "CR": (3766, 23.9),
    "SUBJ": (5833, 30.4),
    "MPQA": (8239, 6.0),
    "SST2": (62_793, 12.7),
    "TREC": (5870, 12.8),
    "MRPC": (10_944, 27.0),
    "CNSD-STS-B": (5166, 23.3),
    "xprobe-Length": (9870, 21.1),
    "xprobe-WordContent": (19_836, 23.2),
    "xprobe-Depth": (9888, 21.9),
    "xprobe-BigramShift": (19_909, 21.6),
    "xprobe-Tense": (19_825, 22.8),
    "xprobe-SubjNumber": (19_884, 23.7),
    "xprobe-ObjNumber": (19_870, 23.9),
    "xprobe-OddManOut": (10_650, 24.5),
    "xprobe-CoordinationInversion": (19_722, 21.7),
}
SELECTED = {"STS-B": (2909, 16.4), "SICK-R": (924, 12.3), "CNSD-STS-B": (2798, 24.5)}  # the same of dev sets
_OWN_SET = SCORED["CNSD-STS-B"]  # what a set of one's own is taken to be
CLASSES = {"TREC": 6, "Length": 6, "WordContent": 1000, "Depth": 7, "TopConstituents": 20}  # of other tasks 2


@dataclass(frozen=True)
class Architecture:
    """A transformer, as `bench.models.packed_forward` asks for it; `embedded` is the number of its embeddings."""

    hidden_size: int
    num_hidden_layers: int
    intermediate_size: int
    embedded: int

    @classmethod
    def of(cls, backbone: Backbone, layers: int | None = None) -> Architecture:
        """That of a backbone, or of its first layers."""
        width, depth = backbone.shape.width, layers or backbone.shape.depth
        if backbone.source == "folder":
            told = read_json(Path(backbone.location) / "config.json")
            rows = sum(told.get(name, 0) for name in ("vocab_size", "max_position_embeddings", "type_vocab_size"))
            return cls(width, depth, told.get("intermediate_size", 4 * width), rows)
        if backbone.source == "toy":
            from bench.world.toy_backbones import SIZE

            return cls(width, depth, 4 * width, SIZE.vocabulary + SIZE.positions + 2)
        return cls(width, depth, 4 * width, EMBEDDED[backbone.name])

    @property
    def weights(self) -> int:
        """All its weights, layer norms and biases included, without a pooling layer."""
        width, inner = self.hidden_size, self.intermediate_size
        layer = 4 * width * (width + 1) + 2 * width * inner + inner + width + 4 * width
        return self.embedded * width + 2 * width + self.num_hidden_layers * layer


def corpus_tokens(run: Run) -> tuple[int, float, bool]:
    """Sentences of a run's training corpus, as far as it takes them; the mean of their tokens after truncation.

    The third says whether they were measured: on a sample, where the corpus lies in BENCH_DATA (or is a file) and the
    backbone in a local folder, with its tokenizer. Else they are those of `CORPORA`.

    Raises:
        UserError: the corpus is neither there nor known.
    """
    recipe, path = run.recipe, _present(run.corpus)
    measured = path is not None and run.backbone.source == "folder"
    if path is not None and measured:
        rows, mean = _measured_tokens(path, run.backbone.location, recipe.max_length)
    elif run.corpus in CORPORA:
        rows, means = CORPORA[run.corpus]
        mean = float(np.interp(recipe.max_length, list(means), list(means.values())))
    else:
        raise UserError(
            f"nothing is known of the corpus '{run.corpus}' and the backbone '{run.backbone.name}' together; "
            f"name a corpus of {', '.join(CORPORA)}, or set BENCH_DATA and BENCH_MODELS to folders that hold both"
        )
    return min(rows, recipe.sentences or rows), mean, measured


def _present(corpus: str) -> Path | None:
    with suppress(UserError):
        return corpus_path(corpus, local_folder() or Path(os.devnull))
    return None


@cache
def _sample(path: Path) -> tuple[int, list[str]]:
    """How many sentences a corpus has, and some of them from all over it."""
    from bench.datasets.corpora import read_sentences

    sentences = read_sentences(path)
    return len(sentences), sentences[:: -(-len(sentences) // SAMPLED)]


@cache
def _measured_tokens(path: Path, folder: str, max_length: int) -> tuple[int, float]:
    from transformers import AutoTokenizer

    rows, sample = _sample(path)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return rows, fmean(map(len, tokenizer(sample, truncation=True, max_length=max_length)["input_ids"]))


def training(run: Run, steps: int | None = None) -> tuple[Work, int, int]:
    """Work of a training that encodes two views of each sentence, how many weights it trains, and its steps.

    Args:
        steps: how many it took, where that is known.

    Raises:
        UserError: as in `corpus_tokens`.
    """
    recipe, (rows, mean, _) = run.recipe, corpus_tokens(run)
    known = Architecture.of(run.backbone, recipe.layers)
    steps = steps or recipe.epochs * -(-rows // recipe.batch_size)
    sequences = VIEWS * min(steps * recipe.batch_size, recipe.epochs * rows)
    first_only = run.evaluation_pooler in FIRST_ONLY
    forward = sequences * forward_flop(known, np.array([mean]), first_only)
    dev = sum(
        count * forward_flop(known, np.array([tokens]), first_only)
        for count, tokens in (SELECTED.get(task, _OWN_SET) for task in recipe.select_on.split("+"))
    )
    selection = max(1, steps // recipe.select_every) * dev
    head = known.hidden_size * (known.hidden_size + 1) if recipe.pooler == "cls_mlp" else 0
    work = Work(round(sequences), round(sequences * mean), forward, 2 * forward, selection)
    return work, known.weights + head, steps


def encoding(run: Run, tasks: Sequence[str]) -> float:
    """FLOP of encoding the distinct sentences of some tasks once."""
    known, pooler = scored(run)
    if known is None:
        return 0.0
    sets = (SCORED.get(task, _OWN_SET) for task in expand_tasks(tasks))
    return sum(count * forward_flop(known, np.array([tokens]), pooler in FIRST_ONLY) for count, tokens in sets)


def scored(run: Run) -> tuple[Architecture | None, str]:
    """The transformer that scores, if there is one, and its pooler."""
    name, _, hyper = run.parts[0]
    if name == "published":  # only its name on the hub is known
        shape = (1024, 24, 4096) if "large" in hyper["model"] else (768, 12, 3072)
        return Architecture(*shape, 0), hyper["pooler"] or "avg"
    if run.backbone.kind != "transformer":
        return None, ""
    layers = run.recipe.scored_layers or run.recipe.layers
    return Architecture.of(run.backbone, layers), run.evaluation_pooler if run.trained else hyper.get("pooler", "avg")


def classifying(width: int, tasks: Sequence[str], settings: Settings, flops: float, start: float) -> float:
    """Seconds of the floor of some tasks' classifiers, which stop as early as they can.

    A step is its products in float32, or `CALLS` operations started one after another, whichever takes longer.

    Args:
        width: of the vectors.
        flops: FLOP/s in float32.
        start: seconds to start an operation.
    """
    sizes = read_json(Path(manifest.__file__).with_name("senteval.json"))
    known = sizes["transfer"] | sizes["probing"]
    found = 0.0
    passes = settings.epoch_size * (settings.tenacity + 2)  # the first check always improves
    for task in expand_tasks(tasks):
        features = width * (2 if task == "MRPC" else 1)  # of a pair: difference and product
        classes = CLASSES.get(task.removeprefix("xprobe-"), 2)
        for rows, folds, heads, hidden in _cohorts(task, known.get(task, {}), settings):
            layers = [(features, hidden), (hidden, classes)] if hidden else [(features, classes)]
            # Of each layer the product itself and the gradient of its weights; behind the first also that of its input.
            sample = sum(2 * (a + 1) * b * (2 if number == 0 else 3) for number, (a, b) in enumerate(layers))
            batch = min(settings.batch_size, rows)
            products = folds * heads * batch * sample / flops
            found += passes * -(-rows // batch) * max(-(-folds // BLOCK) * CALLS * start, products)
    return found


def _cohorts(task: str, sizes: Mapping[str, int], settings: Settings) -> Iterator[tuple[int, int, int, int]]:
    """Training samples, folds, heads of a fold and hidden units of what trains together (evaluation/protocols.py)."""
    k, grid, rest = settings.folds, len(DECAYS), 1 - 1 / settings.folds
    if not sizes:  # an STS task
        return
    if "dev" in sizes:
        yield sizes["train"], 1, grid, 0
        if task in PROBING_TASKS:
            yield from ((sizes["train"], 1, len(DROPOUTS), hidden) for hidden in HIDDEN)
    elif "train" in sizes:
        yield int(sizes["train"] * rest), k, grid, 0
        yield int(sizes["train"] * (1 - HELD_OUT)), 1, 1, 0
    else:
        total = sum(sizes.values())
        yield int(total * rest**2), k * k, grid, 0
        yield int(total * rest * (1 - HELD_OUT)), k, 1, 0
