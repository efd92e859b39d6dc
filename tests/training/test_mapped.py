"""Encoders that stand on another one: saved, loaded and scored; per-task maps are fitted on all
splits of a task."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from bench.datasets import sts
from bench.datasets.labelled import LabelledTask, Samples
from bench.datasets.manifest import Vectors
from bench.datasets.tasks import SPLIT
from bench.evaluation.scoring import read_tasks, score_tasks, sentences
from bench.models.encoder import TransformerEncoder, adaptation
from bench.models.load import load_encoder, save_encoder
from bench.runs.resolve import resolve
from bench.runs.run import Run
from bench.stages.jobs import score_encoder
from bench.training.context import RunContext
from bench.utils.errors import UserError
from bench.utils.files import read_json

pytestmark = pytest.mark.filterwarnings(
    "ignore:whitening.*vary in"
)  # the tiny tasks have few sentences

TASKS = ["STS12", "STS-B"]
Encode = Callable[[str], Any]


@pytest.fixture(scope="module")
def corpus(tiny_corpus: Path) -> str:
    return str(tiny_corpus)


@pytest.fixture
def run_of(tiny_bert: Path, tiny_data: Path, corpus: str) -> Callable[[str], Run]:
    return lambda text: resolve(
        text.replace("CORPUS", corpus),
        backbone_name=str(tiny_bert),
        corpus=corpus,
        data=str(tiny_data),
        seed=1,
    )


@pytest.fixture
def encoder_of(run_of: Callable[[str], Run], tmp_path: Path) -> Encode:
    def make(text: str) -> Any:
        run = run_of(text)
        context, method = RunContext(run, tmp_path, "cpu"), run.build()
        return method.finish(method.encoder(context), context)

    return make


# All 32 dimensions of a task's 24 sentences, whitened, make every cosine the same but for rounding;
# five do not.
TEXTS = [
    "untrained[pooler=avg]+whitening[source=CORPUS]",
    "untrained[pooler=avg]+whitening[dimensions=5,source=target]",
    "untrained[pooler=avg]+flow[source=CORPUS]",
    "untrained[pooler=avg]+flow[source=target]",
    "untrained[pooler=avg]+flow[source=target]+whitening[dimensions=5,source=target]",
    "untrained[pooler=avg]+flow[source=target]+whitening[source=CORPUS]",
    "word-overlap[width=64]+whitening[source=CORPUS]",
    "untrained[pooler=avg]+projection[centred=true,dimensions=5,source=CORPUS]",
    "word-overlap[width=64]+projection[dimensions=5,kind=random]",
]


@pytest.mark.parametrize("text", TEXTS)
def test_saved_and_loaded_it_is_the_same(
    text: str, encoder_of: Encode, tiny_data: Path, tmp_path: Path
) -> None:
    encoder = encoder_of(text)
    save_encoder(encoder, tmp_path / "encoder")
    loaded = load_encoder(tmp_path / "encoder")
    assert type(loaded) is type(encoder)
    assert loaded.identity == encoder.identity != encoder.base.identity
    tasks = read_tasks(TASKS, tiny_data)
    texts = sentences(tasks)
    assert np.array_equal(loaded.encode(texts), encoder.encode(texts))
    assert (adaptation(loaded) is None) == ("target" not in text)
    records = score_tasks(encoder, tasks)
    assert score_tasks(loaded, tasks) == records
    assert records != score_tasks(encoder.base, tasks)


@pytest.mark.parametrize(("name", "count"), [("STS12", 48), ("STS-B", 72), ("SICK-R", 72)])
def test_target_whitening_by_hand(
    name: str, count: int, encoder_of: Encode, tiny_data: Path
) -> None:
    """Each task by the mean and covariance of all its sentences: both sides, all splits, repeated
    ones as often as they stand (bojone/BERT-whitening@2bfea5a:eng/eval.py:26-30, 78-81)."""
    task = sts.read(name, tiny_data)
    read = [task] if name == "STS12" else [sts.read(name, tiny_data, one) for one in sts.SPLITS]
    texts = [text for one in read for text in one.sentences()]
    assert len(set(texts)) < len(texts) == count
    rows = encoder_of("untrained[pooler=avg]").encode(texts).astype(np.float64)
    values, directions = np.linalg.eigh(np.cov(rows.T))
    white = (rows - rows.mean(0)) @ (directions / np.sqrt(values))[:, ::-1][:, :5]
    unit = white / np.linalg.norm(white, axis=1, keepdims=True)
    table = dict(zip(texts, unit, strict=True))
    pairs = [pair for one in task.subsets for pair in zip(one.first, one.second, strict=True)]
    cosines = [table[first] @ table[second] for first, second in pairs]
    gold = np.concatenate([subset.gold for subset in task.subsets])
    found = score_tasks(encoder_of(TEXTS[1]), [task])[0]
    assert (found["metric"], found["aggregation"]) == ("spearman", "all")
    assert found["value"] == pytest.approx(100 * spearmanr(cosines, gold).statistic, abs=0.01)


class Counting:
    """An Encoder whose last step subtracts the mean of a task; it says what it was asked for."""

    kind = "counting"
    identity = "counting-1"

    def __init__(self) -> None:
        self.encoded: list[str] = []
        self.adapted: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.encoded += texts
        draw = [np.random.default_rng([len(text), *text.encode()]).normal(size=4) for text in texts]
        return np.array(draw, dtype=np.float32)

    def adapt(self, target: Sequence[str], vectors: Vectors) -> Vectors:
        self.adapted.append(list(target))
        mean = vectors(target).mean(0)
        return lambda texts: vectors(texts) - mean

    def save(self, folder: Path) -> dict[str, Any]:
        raise NotImplementedError


def labelled() -> LabelledTask:
    draw = np.random.default_rng(0)
    splits = {}
    for number, split in enumerate(("train", "dev", "test")):
        texts = tuple(f"{split} sentence {i % 9}" for i in range(12 + number))
        splits[split] = Samples((texts,), draw.integers(0, 2, len(texts)).astype(np.int64))
    return LabelledTask("SST2", SPLIT, 2, splits)


def pairs_of(*tasks: sts.StsTask) -> list[str]:
    subsets = [subset for task in tasks for subset in task.subsets]
    pairs = [pair for one in subsets for pair in zip(one.first, one.second, strict=True)]
    return [text for pair in pairs for text in pair]


def test_every_task_is_mapped_once_and_whole_and_each_sentence_encoded_once(
    tiny_data: Path, tmp_path: Path
) -> None:
    """STS-B's two scores are of one map, which is fitted once, on train + dev + test."""
    tasks = [*read_tasks(TASKS, tiny_data), labelled()]
    encoder = Counting()
    records = score_encoder(encoder, tasks, "dev", "cpu", tmp_path)
    whole = [pairs_of(sts.read("STS12", tiny_data))]
    whole += [pairs_of(*(sts.read("STS-B", tiny_data, split) for split in sts.SPLITS))]
    whole += [list(labelled().sentences())]
    assert encoder.adapted == whole
    assert sorted(encoder.encoded) == sorted({text for texts in whole for text in texts})
    assert len(encoder.encoded) > len(sentences(tasks))
    # A task with a classifier that is finished is neither mapped nor trained again.
    assert score_encoder(encoder, tasks, "dev", "cpu", tmp_path) == records
    assert encoder.adapted[len(TASKS) + 1 :] == whole[: len(TASKS)]


@pytest.mark.parametrize(
    "transform", ["whitening[source=CORPUS]", "flow[source=CORPUS]", "whitening[source=target]"]
)
def test_a_training_is_that_of_its_host_and_what_is_saved_is_mapped(
    transform: str, train_tiny: Callable[..., Path], corpus: str, tiny_data: Path
) -> None:
    """The log's dev scores are the host's; the saved encoder stands on the host's best one."""
    text = f"simcse+{transform.replace('CORPUS', corpus)}"
    host, folder, again = train_tiny("simcse"), train_tiny(text), train_tiny(text, fresh=True)

    def log(run: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]

    assert log(folder) == log(again) == log(host)
    encoder, plain = load_encoder(folder), load_encoder(host)
    assert isinstance(encoder.base, TransformerEncoder)
    assert encoder.base.identity == plain.identity
    assert encoder.identity == load_encoder(again).identity
    dev = [sts.read("STS-B", tiny_data, "dev")]
    (best,) = score_tasks(encoder.base, dev)
    assert best["value"] == read_json(folder / "outcome.json")["outcome"]["best_dev"]
    assert score_tasks(encoder, dev) != score_tasks(plain, dev)


def test_names_and_labels(run_of: Callable[[str], Run]) -> None:
    run = run_of("untrained+whitening[dimensions=256,source=target]")
    assert run.method == "untrained+whitening[dimensions=32,source=target]"
    assert (
        "Whitening (dimensions=32, the most this backbone has (of 256), source=target)" in run.label
    )
    assert run_of("simcse+whitening[dimensions=0]+flow").method == "simcse+flow+whitening"
    assert run_of("simcse+flow").setting == "official"
    with pytest.raises(UserError, match="maps finished vectors"):
        run_of("whitening+simcse")


def test_a_missing_source_is_refused_before_the_training(
    train_tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("methods.simcse.SimCSE.step_loss", None)  # no step is taken
    with pytest.raises(UserError, match="corpus 'nosuch'"):
        train_tiny("simcse+whitening[source=nosuch]", fresh=True)


def test_classifiers_see_the_mapped_vectors() -> None:
    task, encoder = labelled(), Counting()
    own = encoder.adapt(list(task.target()), encoder.encode)
    everything = encoder.encode(list(task.sentences()))
    for split, samples in task.splits.items():
        expected = encoder.encode(samples.columns[0]) - everything.mean(0)
        np.testing.assert_allclose(task.features(split, own), expected, rtol=0, atol=1e-6)
