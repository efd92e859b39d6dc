"""Analyses of an Encoder: each number by an independent path, the texts by their rules, and what
cannot be measured."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

from bench.datasets import sts
from bench.datasets.corpora import corpus_identity, read_sentences
from bench.datasets.labelled import task_sums
from bench.evaluation.scoring import read_tasks, score_tasks
from bench.models.load import load_encoder
from bench.runs import ANALYSES as NAMES
from bench.runs.paths import Files, describe_data
from bench.runs.resolve import resolve
from bench.stages import analyse as module
from bench.stages.jobs import analyse_run
from bench.utils.files import read_json, write_json
from methods.base import stream
from methods.whitening import Whitened
from tests.oracles.geometry import (
    alignment_by_loop,
    cosine,
    token_similarity_by_loop,
    uniformity_by_loop,
)
from tests.support.refusals import refused
from tests.support.tiny_backbones import make_sentences
from tests.support.tiny_suite import tiny_run
from tests.support.tiny_tasks import Words


def analyse(encoder, material, *names):
    """The results of analyses: of one by itself, of several by name."""
    results = module.analyse(replace(material, encoder=encoder), names)
    return results if len(names) > 1 else results[names[0]]


@pytest.fixture(scope="module")
def material_of(tiny_bert, tiny_corpus, tiny_data, tmp_path_factory):
    def make(text="untrained", seed=1, data=tiny_data, corpus=tiny_corpus, **recipe):
        places = {"backbone_name": str(tiny_bert), "corpus": str(corpus), "data": str(data)}
        run = resolve(text, **places, seed=seed, recipe=recipe)
        suite = tmp_path_factory.mktemp("suite")
        return module.Material(run, Words(), str(corpus), Files(suite, str(data)), "cpu")

    return make


@pytest.fixture
def write_pairs(tmp_path):
    """A data folder with STS-B alone, of splits of (first, second, gold)."""

    def write(**splits):
        folder = tmp_path / "data" / "downstream" / "STS" / "STSBenchmark"
        folder.mkdir(parents=True)
        for split, rows in splits.items():
            lines = (f"main\tfile\tyear\t0\t{gold}\t{a}\t{b}\n" for a, b, gold in rows)
            (folder / f"sts-{split}.csv").write_text("".join(lines))
        sizes = {split: len(rows) for split, rows in splits.items()}
        write_json(tmp_path / "data" / "manifest.json", {"name": "own", "sts": {"STS-B": sizes}})
        return tmp_path / "data"

    return write


def pairs_of(split, data):
    return sts.read("STS-B", data, split).subsets[0]


# alignment and uniformity


@pytest.mark.parametrize("name", ["dev", "test", "all"])
def test_alignment_of_each_split_and_of_all(material_of, tiny_data, name):
    results = analyse(Words(), material_of(), "alignment")["STS-B"][name]
    parts = [pairs_of(split, tiny_data) for split in (sts.SPLITS if name == "all" else [name])]
    first = [text for part in parts for text in part.first]
    second = [text for part in parts for text in part.second]
    gold = np.concatenate([part.gold for part in parts])
    vectors = [Words.vector(text) for text in first + second]
    alignment = alignment_by_loop(vectors[: len(first)], vectors[len(first) :], gold)
    expected = {"alignment": alignment, "uniformity": uniformity_by_loop(vectors)}
    assert results == pytest.approx(expected, abs=1e-6)


# layers and tokens


def states_of(encoder, text):
    """All layers' states of one sentence alone, so without padding."""
    with torch.no_grad():
        ids = torch.tensor(encoder.tokenizer([text])["input_ids"])
        output = encoder.model.eval()(input_ids=ids, output_hidden_states=True)
    return [layer[0].double().numpy() for layer in output.hidden_states]


def token_similarities(states, cut):
    """Means over sentences of each layer; `cut` tokens are left out at both ends."""
    rows = []
    for layers in states:
        inner = [layer[cut : len(layer) - cut].tolist() for layer in layers]
        rows.append([*map(token_similarity_by_loop, inner)])
    return pytest.approx(np.mean(rows, axis=0), abs=1e-5)


@pytest.mark.parametrize("pooler", ["cls_before_pooler", "avg_first_last"])
def test_layers_equal_one_sentence_at_a_time(material_of, tiny_backbone, tiny_data, pooler):
    """The pooler that is scored changes nothing."""
    encoder = load_encoder(tiny_backbone, pooler=pooler)
    results = analyse(encoder, material_of(), "layers")
    pairs = pairs_of("test", tiny_data)
    states = [states_of(encoder, text) for text in pairs.first + pairs.second]
    firsts = [[layer[0].tolist() for layer in layers] for layers in states]
    means = [[layer.mean(axis=0).tolist() for layer in layers] for layers in states]
    for pooling, vectors in (("cls", firsts), ("mean", means)):
        adjacent = np.mean([list(map(cosine, rows[1:], rows[2:])) for rows in vectors], axis=0)
        assert results["setsim"][pooling] == pytest.approx(adjacent, abs=1e-5)
    assert results["toksim"]["with_special"] == token_similarities(states, 0)
    assert results["toksim"]["without_special"] == token_similarities(states, 1)


def test_a_sentence_of_one_token_has_no_pair_of_tokens(material_of, tiny_bert, write_pairs):
    encoder, long = load_encoder(tiny_bert, pooler="avg"), "the big red house"
    data = write_pairs(test=[("dog", long, 1.0), ("dog", "cat", 3.0)])
    results = analyse(encoder, material_of(data=data), "layers")
    assert results["toksim"]["without_special"] == token_similarities([states_of(encoder, long)], 1)


def test_tokens_of_the_first_sentence_of_a_middle_length(material_of, tiny_bert, write_pairs):
    encoder = load_encoder(tiny_bert, pooler="cls_before_pooler")
    short, long = "a dog runs in the house today", " ".join(["dog"] * 15)  # 7 and 15 words
    chosen = "the old man near the river sees birds"
    data = write_pairs(test=[(short, long, 1.0), (short, chosen, 2.0), ("a " + short, short, 3.0)])
    results = analyse(encoder, material_of(data=data), "tokens")
    words = chosen.removesuffix("birds").split()
    assert (results["sentence"], results["layer"]) == (chosen, 4)
    assert results["tokens"] == ["[CLS]", *words, "bird", "##s", "[SEP]"]
    last = states_of(encoder, chosen)[-1].tolist()
    expected = np.array([[cosine(a, b) for b in last] for a in last])
    assert np.array(results["cosines"]) == pytest.approx(expected, abs=1e-5)


# in-batch similarity


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(module, "_SIZES", (8, 16, 32, 64))
    monkeypatch.setattr(module, "REPEATS", 3)


def test_in_batch_equals_the_loop(small_batches, material_of, tiny_corpus):
    """On the same batches whatever a run's seed and how much of the corpus it trains on."""
    results = analyse(Words(), material_of("simcse", seed=9, sentences=20), "in-batch")
    texts = read_sentences(tiny_corpus)
    order = torch.randperm(len(texts), generator=stream(0, "in-batch")).tolist()
    pool = [*dict.fromkeys(texts[row] for row in order if texts[row].strip())]
    assert len(pool) == results["pool"] < len(texts)
    assert results["sizes"] == [8, 16, 32]  # there are not 64 of them
    assert (results["ranks"], results["repeats"], results["corpus"]) == (4, 3, str(tiny_corpus))
    for place, size in enumerate(results["sizes"]):
        largest = {"mean": [], "noise": []}
        for repeat in range(3):
            draws = stream(0, "in-batch", size, repeat)
            rows = torch.randperm(len(pool), generator=draws).tolist()[:size]
            batch = np.array([Words.vector(pool[row]) for row in rows])
            draws = stream(0, "in-batch noise", size, repeat)
            noise = torch.randn(size, batch.shape[1], generator=draws).numpy()
            for name, vectors in (("mean", batch), ("noise", noise)):
                cosines = 1 - cdist(batch, vectors, "cosine")
                np.fill_diagonal(cosines, -1)
                largest[name].append(np.sort(cosines)[:, :-5:-1].mean(0))
        for name, means in largest.items():
            assert results[name][place] == pytest.approx(np.mean(means, axis=0), abs=1e-5)


def test_a_large_corpus_is_a_pool_of_limited_size(
    small_batches, material_of, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "POOL", 40)
    corpus = tmp_path / "large.txt"
    corpus.write_text("".join(f"{text}\n" for text in make_sentences(300, seed=5)))
    encoder = Words()
    results = analyse(encoder, material_of(corpus=corpus), "in-batch")
    assert (results["pool"], results["sizes"]) == (40, [8, 16, 32])
    assert len(encoder.encoded) == len(set(encoder.encoded)) == 40
    assert encoder.encoded != read_sentences(corpus)[:40]


# cosines


def assert_scored(cosines, encoder, data):
    record, *_ = score_tasks(encoder, read_tasks(["STS-B"], data)[:1])
    score = 100 * spearmanr(cosines["gold"], cosines["cosine"]).statistic
    assert score == pytest.approx(record["value"], abs=1e-9)


def test_cosines_give_the_score(material_of, tiny_bert, tiny_data):
    encoder = load_encoder(tiny_bert, pooler="avg")
    results = analyse(encoder, material_of(), "cosines")
    assert_scored(results, encoder, tiny_data)
    assert (results["task"], results["split"], len(results["gold"])) == ("STS-B", "test", 12)


def test_a_map_of_each_task_is_fitted_as_for_its_score(
    material_of, tiny_bert, tiny_data, monkeypatch
):
    """It is fitted once for all analyses."""
    fits, plain = [], Whitened.fitted
    base = load_encoder(tiny_bert, pooler="avg")
    encoder = Whitened(base, {}, dimensions=8)
    with monkeypatch.context() as patch:
        patch.setattr(Whitened, "fitted", lambda *inputs: fits.append(1) or plain(*inputs))
        results = analyse(encoder, material_of(), "cosines", "alignment")
    assert len(fits) == 1
    assert_scored(results["cosines"], encoder, tiny_data)
    parts = [pairs_of(split, tiny_data) for split in sts.SPLITS]
    whole = [text for part in parts for text in part.first + part.second]
    dev = pairs_of("dev", tiny_data)
    vectors = encoder.fitted(whole, base.encode).encode(dev.first + dev.second)
    expected = pytest.approx(uniformity_by_loop(vectors.tolist()), abs=1e-6)
    assert results["alignment"]["STS-B"]["dev"]["uniformity"] == expected


# all of them


def test_an_encoder_without_layers_says_so(material_of):
    results = analyse(Words(), material_of("word-overlap"), "cosines", "layers")
    assert results["layers"] == {"reason": "an encoder of kind 'words' is not a transformer"}
    assert "gold" in results["cosines"]


@pytest.mark.parametrize(
    ("listed", "name", "reason"),
    [
        ({"STS-B": {"test": 2}}, "tokens", "no test sentence of STS-B has 8 to 14 words"),
        ({"STS-B": {"dev": 2}}, "cosines", "the data of '.*' has no test pairs of STS-B"),
        ({"STS12": {"a": 2}}, "alignment", "the data of '.*' has no STS-B"),
        ({}, "in-batch", "corpus '.*' has 2 distinct sentences, fewer than a batch of 16"),
    ],
)
def test_what_data_lack_is_a_reason(
    material_of, write_pairs, tiny_bert, tmp_path, listed, name, reason
):
    rows = [("dog", "cat", 1.0), ("man", "cat", 2.0)]
    data = write_pairs(dev=rows, test=rows)
    write_json(data / "manifest.json", {"name": "own", "sts": listed})
    corpus = tmp_path / "short.txt"
    corpus.write_text("a dog\na dog\n \na cat\n")
    encoder = load_encoder(tiny_bert, pooler="avg")
    results = analyse(encoder, material_of(data=data, corpus=corpus), name)
    assert re.match(reason, results["reason"])


def test_splits_that_data_lack_are_left_out(material_of, write_pairs):
    data = write_pairs(dev=[("dog", "cat", 1.0), ("man", "cat", 2.0)])
    results = analyse(Words(), material_of(data=data), "alignment")
    assert list(results["STS-B"]) == ["dev", "all"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_finite_is_refused(material_of, tiny_bert, name, monkeypatch):
    encoder = load_encoder(tiny_bert, pooler="avg")
    if name in ("layers", "tokens"):
        with torch.no_grad():
            encoder.model.encoder.layer[2].output.dense.bias[0] = math.nan
    else:
        encoder = Words()
        encoder.vector = lambda text: [math.nan if text.count("a") == 2 else 1.0, 1.0]
    refused(
        lambda: analyse(encoder, material_of(), name), "is not finite,", "the encoder has diverged"
    )


def test_an_analysis_carries_the_sums_of_what_was_read(tiny_bert, tiny_data, tiny_corpus, tmp_path):
    run = tiny_run("untrained[pooler=avg]", tiny_bert, tiny_data, tiny_corpus)
    tasks = task_sums(sts.read("STS-B", tiny_data, split) for split in sts.SPLITS)
    corpora = [corpus_identity(tiny_corpus)]

    def results_of(names, out):
        analyse_run(run, tmp_path, names, str(tiny_corpus), tmp_path / out, "cpu")
        content = read_json(tmp_path / out)
        told = content["provenance"]
        assert told["data"] == describe_data(tiny_data)
        return content["analyses"], told["tasks"], told["corpora"]

    assert results_of(["cosines"], "sts.json")[1:] == (tasks, [])
    assert results_of(["in-batch"], "corpus.json")[1:] == ({}, corpora)
    assert results_of(["cosines", "in-batch"], "both.json")[1:] == (tasks, corpora)
