"""Encoders that stand on another one: saved, loaded and scored; per-task maps are fitted on all
splits of a task."""

from itertools import chain

import numpy as np
import pytest
from scipy.spatial.distance import cosine
from scipy.stats import spearmanr

from bench.datasets import sts
from bench.datasets.labelled import LabelledTask, Samples
from bench.datasets.tasks import SPLIT
from bench.evaluation.scoring import Classifiers, read_tasks, score_tasks, sentences
from bench.models.encoder import TransformerEncoder, adaptation
from bench.models.load import load_encoder, save_encoder
from bench.stages.jobs import score_encoder
from bench.utils.errors import UserError
from tests.support.method_runs import encoder_of
from tests.support.outcomes import dev_score, log_of, outcome_of
from tests.support.tiny_suite import tiny_run
from tests.support.tiny_tasks import Words

# The tiny tasks have few sentences.
pytestmark = pytest.mark.filterwarnings("ignore:whitening.*vary in")

TASKS = ["STS12", "STS-B"]


@pytest.fixture
def made(tiny_bert, tiny_data, tiny_corpus, tmp_path):
    """The Encoder of a text."""

    def make(text):
        text = text.replace("CORPUS", str(tiny_corpus))
        return encoder_of(tiny_run(text, tiny_bert, tiny_data, tiny_corpus), tmp_path)

    return make


# All 32 dimensions of a task's 24 sentences, whitened, make every cosine the same but for rounding;
# five do not.
WHITENED = "untrained[pooler=avg]+whitening[dimensions=5,source=target]"
TEXTS = [
    "untrained[pooler=avg]+whitening[source=CORPUS]",
    WHITENED,
    "untrained[pooler=avg]+flow[source=CORPUS]",
    "untrained[pooler=avg]+flow[source=target]+whitening[dimensions=5,source=target]",
    "untrained[pooler=avg]+flow[source=target]+whitening[source=CORPUS]",
    "untrained[pooler=avg]+projection[centred=true,dimensions=5,source=CORPUS]",
    "word-overlap[width=64]+projection[dimensions=5,kind=random]",
]


@pytest.mark.parametrize("text", TEXTS)
def test_saved_and_loaded_it_is_the_same(text, made, tiny_data, tmp_path):
    encoder = made(text)
    save_encoder(encoder, tmp_path / "encoder")
    loaded = load_encoder(tmp_path / "encoder")
    assert loaded.identity == encoder.identity != encoder.base.identity
    tasks = read_tasks(TASKS, tiny_data)
    texts = sentences(tasks)
    assert np.array_equal(loaded.encode(texts), encoder.encode(texts))
    assert (adaptation(loaded) is None) == ("target" not in text)
    records = score_tasks(encoder, tasks)
    assert score_tasks(loaded, tasks) == records
    assert records != score_tasks(encoder.base, tasks)


@pytest.mark.parametrize(("name", "count"), [("STS12", 48), ("STS-B", 72)])
def test_target_whitening_by_hand(name, count, made, tiny_data):
    """Each task by the mean and covariance of all its sentences: both sides, all splits, repeated
    ones as often as they stand (bojone/BERT-whitening@2bfea5a:eng/eval.py:26-30, 78-81)."""
    task = sts.read(name, tiny_data)
    splits = ["test"] if name == "STS12" else sts.SPLITS
    texts = [text for split in splits for text in sts.read(name, tiny_data, split).sentences()]
    assert len(set(texts)) < len(texts) == count
    rows = made("untrained[pooler=avg]").encode(texts).astype(np.float64)
    values, directions = np.linalg.eigh(np.cov(rows.T))
    white = (rows - rows.mean(0)) @ (directions / np.sqrt(values))[:, ::-1][:, :5]
    table = dict(zip(texts, white, strict=True))
    cosines = [1 - cosine(table[first], table[second]) for first, second in task.items()]
    gold = np.concatenate([subset.gold for subset in task.subsets])
    result = score_tasks(made(WHITENED), [task])[0]
    assert (result["metric"], result["aggregation"]) == ("spearman", "all")
    assert result["value"] == pytest.approx(100 * spearmanr(cosines, gold).statistic, abs=0.01)


class Centred(Words):
    """An Encoder whose last step subtracts the mean of a task, and notes which."""

    def __init__(self):
        super().__init__()
        self.adapted = []

    def adapt(self, target, vectors):
        self.adapted.append(list(target))
        mean = vectors(target).mean(0)
        return lambda texts: vectors(texts) - mean


def labelled():
    draw = np.random.default_rng(0)
    splits = {}
    for number, split in enumerate(("train", "dev", "test")):
        texts = tuple(f"{split} sentence {i % 9}" for i in range(12 + number))
        splits[split] = Samples((texts,), draw.integers(0, 2, len(texts)).astype(np.int64))
    return LabelledTask("SST2", SPLIT, 2, splits)


def pairs_of(*tasks):
    pairs = chain.from_iterable(task.items() for task in tasks)
    return list(chain.from_iterable(pairs))


def test_every_task_is_mapped_once_and_whole_and_each_sentence_encoded_once(
    tiny_data, tmp_path, monkeypatch
):
    """STS-B's two scores are of one map, which is fitted once, on train + dev + test; a classifier
    gets the mapped vectors of all splits."""
    features, plain = [], LabelledTask.features
    monkeypatch.setattr(
        LabelledTask, "features", lambda *words: features.append(plain(*words)) or features[-1]
    )
    tasks = [*read_tasks(TASKS, tiny_data), labelled()]
    encoder = Centred()
    score_encoder(encoder, tasks, Classifiers("dev"), tmp_path)
    whole = [pairs_of(sts.read("STS12", tiny_data))]
    whole += [pairs_of(*(sts.read("STS-B", tiny_data, split) for split in sts.SPLITS))]
    whole += [list(labelled().sentences())]
    assert encoder.adapted == whole
    assert sorted(encoder.encoded) == sorted({text for texts in whole for text in texts})
    assert len(encoder.encoded) > len(sentences(tasks))
    everything = Centred().encode(whole[-1])
    np.testing.assert_allclose(
        np.concatenate(features), everything - everything.mean(0), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("transform", ["flow[source=CORPUS]", "whitening[source=target]"])
def test_a_training_is_that_of_its_host_and_what_is_saved_is_mapped(
    transform, train_tiny, tiny_corpus, tiny_data
):
    """The log's dev scores are the host's; the saved encoder stands on the host's best one."""
    text = f"simcse+{transform.replace('CORPUS', str(tiny_corpus))}"
    host, folder, again = train_tiny("simcse"), train_tiny(text), train_tiny(text, fresh=True)
    assert log_of(folder) == log_of(again) == log_of(host)
    encoder, plain = load_encoder(folder), load_encoder(host)
    assert isinstance(encoder.base, TransformerEncoder)
    assert encoder.base.identity == plain.identity
    assert encoder.identity == load_encoder(again).identity
    assert dev_score(encoder.base, tiny_data) == outcome_of(folder)["best_dev"]
    assert dev_score(encoder, tiny_data) != dev_score(plain, tiny_data)


def test_a_missing_source_is_refused_before_the_training(train_tiny, monkeypatch):
    monkeypatch.setattr("methods.simcse.SimCSE.step_loss", None)  # no step is taken
    with pytest.raises(UserError, match="corpus 'nosuch'"):
        train_tiny("simcse+whitening[source=nosuch]", fresh=True)
