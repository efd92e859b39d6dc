"""Analyses of an Encoder: each number by an independent path, the texts by their rules, and what
cannot be measured."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from bench.datasets import sts
from bench.datasets.corpora import corpus_identity, read_sentences
from bench.datasets.labelled import task_sums
from bench.evaluation.scoring import read_tasks, score_tasks
from bench.models.encoder import TransformerEncoder
from bench.models.load import load_encoder
from bench.runs import ANALYSES as NAMES
from bench.runs.paths import data_sums
from bench.runs.resolve import resolve
from bench.stages import analyse as module
from bench.stages.analyse import ANALYSES, Material
from bench.stages.jobs import analyse_run
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from methods.base import stream
from methods.whitening import Whitened
from methods.word_overlap import BagOfWords
from tests.conftest import make_sentences
from tests.evaluation.test_geometry import (
    alignment_by_loop,
    cosine,
    token_similarity_by_loop,
    uniformity_by_loop,
)
from tests.support.tiny_suite import tiny_run

Materials = Callable[..., Material]


class Letters:
    """An Encoder that knows letters; says how many sentences it was given."""

    kind = "letters"
    identity = "letters"

    def __init__(self) -> None:
        self.given: list[str] = []

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        self.given += sentences
        return np.array([self.vector(text) for text in sentences], dtype=np.float32)

    @staticmethod
    def vector(text: str) -> list[float]:
        return [text.count(letter) + 0.1 * len(text) for letter in "abcdeghilmnorstuvw"]

    def save(self, folder: Path) -> dict[str, Any]:
        return {}


def analyse(encoder: Any, material: Material, names: Sequence[str]) -> dict[str, Any]:
    return module.analyse(replace(material, encoder=encoder), names)


@pytest.fixture(scope="module")
def material_of(tiny_bert, tiny_corpus, tiny_data, tmp_path_factory) -> Materials:
    def make(
        text: str = "untrained",
        best_step: int | None = None,
        seed: int | None = 1,
        data: Path = tiny_data,
        corpus: Path = tiny_corpus,
        **recipe: Any,
    ) -> Material:
        run = resolve(
            text, backbone_name=str(tiny_bert), corpus=str(corpus), data=str(data), seed=seed,
            recipe=recipe,
        )  # fmt: skip
        return Material(
            run, Letters(), str(corpus), tmp_path_factory.mktemp("suite"), "cpu", best_step
        )

    return make


@pytest.fixture
def write_pairs(tmp_path) -> Callable[..., Path]:
    """A data folder with STS-B alone, of splits of (first, second, gold)."""

    def write(**splits: Sequence[tuple[str, str, float]]) -> Path:
        folder = tmp_path / "data" / "downstream" / "STS" / "STSBenchmark"
        folder.mkdir(parents=True)
        for split, rows in splits.items():
            lines = (
                f"main\tfile\tyear\t{i}\t{gold}\t{a}\t{b}\n" for i, (a, b, gold) in enumerate(rows)
            )
            (folder / f"sts-{split}.csv").write_text("".join(lines))
        sizes = {split: len(rows) for split, rows in splits.items()}
        write_json(tmp_path / "data" / "manifest.json", {"name": "own", "sts": {"STS-B": sizes}})
        return tmp_path / "data"

    return write


# alignment and uniformity


def test_alignment_of_each_split_and_of_all(material_of, tiny_data):
    encoder = Letters()
    analysed = analyse(encoder, material_of(), ["alignment"])["alignment"]["STS-B"]
    assert list(analysed) == ["dev", "test", "all"]
    read = {
        split: sts.read("STS-B", tiny_data, split).subsets[0] for split in ("train", "dev", "test")
    }
    for name, splits in (("dev", ["dev"]), ("test", ["test"]), ("all", ["train", "dev", "test"])):
        first = [text for split in splits for text in read[split].first]
        second = [text for split in splits for text in read[split].second]
        gold = [score for split in splits for score in read[split].gold]
        vectors = [Letters.vector(text) for text in first + second]
        single = [Letters.vector(text) for text in sorted(set(first + second))]
        near = sum(score > 4 for score in gold)
        expected = {
            "uniformity": pytest.approx(uniformity_by_loop(vectors), abs=1e-6),
            "pairs": near,
            "sentences": len(vectors),
            # A single batch.
            "uniformity_dclr": pytest.approx(uniformity_by_loop(vectors), abs=1e-6),
            "uniformity_distinct": pytest.approx(uniformity_by_loop(single), abs=1e-6),
            "distinct": len(single),
        }
        if near:
            value = alignment_by_loop(vectors[: len(first)], vectors[len(first) :], gold)
            near_value = pytest.approx(value, abs=1e-6)
            expected |= dict.fromkeys(("alignment", "alignment_dclr"), near_value)
        assert {key: value for key, value in analysed[name].items() if key in expected} == expected
        assert set(analysed[name]) == set(expected) | {"alignment", "alignment_dclr"}
    assert analysed["all"]["pairs"] > 0
    assert analysed["all"]["distinct"] < analysed["all"]["sentences"]


def test_without_positive_pairs_there_is_no_alignment(material_of, write_pairs):
    data = write_pairs(test=[("a dog", "a cat", 4.0), ("the man", "the man", 0.5)])
    analysed = analyse(Letters(), material_of(data=data), ["alignment"])["alignment"]["STS-B"]
    assert list(analysed) == ["test", "all"]
    assert analysed["test"]["alignment"] is None
    assert analysed["test"]["alignment_dclr"] > 0  # whose positive pairs begin at 4
    assert analysed["test"] == analysed["all"]
    assert analysed["test"]["distinct"] == 3


# layers and tokens


def states_of(encoder: TransformerEncoder, text: str) -> list[np.ndarray]:
    """All layers' states of one sentence alone, so without padding."""
    with torch.no_grad():
        ids = torch.tensor(encoder.tokenizer([text])["input_ids"])
        output = encoder.model.eval()(input_ids=ids, output_hidden_states=True)
    return [layer[0].double().numpy() for layer in output.hidden_states]


@pytest.mark.parametrize("pooler", ["cls_before_pooler", "avg_first_last"])
def test_layers_equal_one_sentence_at_a_time(material_of, tiny_backbone, tiny_data, pooler):
    """The pooler that is scored changes nothing."""
    encoder = load_encoder(tiny_backbone, pooler=pooler)
    assert isinstance(encoder, TransformerEncoder)
    analysed = analyse(encoder, material_of(), ["layers"])["layers"]
    (pairs,) = sts.read("STS-B", tiny_data, "test").subsets
    states = [states_of(encoder, text) for text in pairs.first + pairs.second]
    firsts = [[layer[0].tolist() for layer in layers] for layers in states]
    means = [[layer.mean(axis=0).tolist() for layer in layers] for layers in states]
    for pooling, vectors in (("cls", firsts), ("mean", means)):
        adjacent = np.mean(
            [[cosine(one[i], one[i + 1]) for i in range(4)] for one in vectors], axis=0
        )
        assert analysed["setsim_embedding"][pooling] == pytest.approx(adjacent[0], abs=1e-5)
        assert analysed["setsim"][pooling] == pytest.approx(adjacent[1:], abs=1e-5)
    whole = [[token_similarity_by_loop(layer.tolist()) for layer in layers] for layers in states]
    cut = [[layer[1:-1] for layer in layers] for layers in states]
    inner = [[token_similarity_by_loop(layer.tolist()) for layer in layers] for layers in cut]
    assert analysed["toksim"]["with_special"] == pytest.approx(np.mean(whole, axis=0), abs=1e-5)
    assert analysed["toksim"]["without_special"] == pytest.approx(np.mean(inner, axis=0), abs=1e-5)
    assert (analysed["depth"], analysed["pairs"]) == (4, [[1, 2], [2, 3], [3, 4]])
    assert (analysed["sentences"], analysed["one_token"]) == (24, 0)


def test_a_sentence_of_one_token_has_no_pair_of_tokens(material_of, tiny_bert, write_pairs):
    encoder = load_encoder(tiny_bert, pooler="avg")
    assert isinstance(encoder, TransformerEncoder)
    data = write_pairs(test=[("dog", "the big red house", 1.0), ("dog", "cat", 3.0)])
    analysed = analyse(encoder, material_of(data=data), ["layers"])["layers"]
    assert (analysed["sentences"], analysed["one_token"]) == (4, 3)
    layers = states_of(encoder, "the big red house")
    alone = [token_similarity_by_loop(layer[1:-1].tolist()) for layer in layers]
    assert analysed["toksim"]["without_special"] == pytest.approx(alone, abs=1e-5)
    texts = ["dog", "dog", "the big red house", "cat"]
    whole = [
        [token_similarity_by_loop(layer.tolist()) for layer in states_of(encoder, text)]
        for text in texts
    ]
    assert analysed["toksim"]["with_special"] == pytest.approx(np.mean(whole, axis=0), abs=1e-5)


def test_tokens_of_the_first_sentence_of_a_middle_length(material_of, tiny_bert, write_pairs):
    encoder = load_encoder(tiny_bert, pooler="cls_before_pooler")
    assert isinstance(encoder, TransformerEncoder)
    short, long = "a dog runs in the house today", " ".join(["dog"] * 15)  # 7 and 15 words
    chosen = "the old man near the river sees birds"
    data = write_pairs(test=[(short, long, 1.0), (short, chosen, 2.0), ("a " + short, short, 3.0)])
    analysed = analyse(encoder, material_of(data=data), ["tokens"])["tokens"]
    assert analysed["sentence"] == chosen
    words = chosen.removesuffix("birds").split()
    assert analysed["tokens"] == ["[CLS]", *words, "bird", "##s", "[SEP]"]
    last = states_of(encoder, chosen)[-1].tolist()
    expected = [[cosine(a, b) for b in last] for a in last]
    assert np.array(analysed["cosines"]) == pytest.approx(np.array(expected), abs=1e-5)
    assert np.diag(analysed["cosines"]) == pytest.approx(1, abs=1e-12)
    assert analysed["layer"] == 4


# in-batch similarity


@pytest.fixture
def small_batches(monkeypatch) -> None:
    monkeypatch.setattr(module, "SIZES", (8, 16, 32, 64))
    monkeypatch.setattr(module, "REPEATS", 3)


@pytest.mark.usefixtures("small_batches")
def test_in_batch_equals_the_loop(material_of, tiny_corpus):
    analysed = analyse(Letters(), material_of(), ["in-batch"])["in-batch"]
    texts = read_sentences(tiny_corpus)
    order = torch.randperm(len(texts), generator=stream(0, "in-batch")).tolist()
    pool: list[str] = []
    for row in order:
        if texts[row].strip() and texts[row] not in pool:
            pool.append(texts[row])
    assert len(pool) == analysed["pool"] < len(texts)
    assert analysed["sizes"] == [8, 16, 32]  # there are not 64 of them
    assert (analysed["ranks"], analysed["repeats"], analysed["corpus"]) == (4, 3, str(tiny_corpus))
    for place, size in enumerate(analysed["sizes"]):
        mean, noise = [], []
        for repeat in range(3):
            draws = stream(0, "in-batch", size, repeat)
            rows = torch.randperm(len(pool), generator=draws).tolist()[:size]
            batch = [Letters.vector(pool[row]) for row in rows]
            draws = stream(0, "in-batch noise", size, repeat)
            drawn = torch.randn(size, len(batch[0]), generator=draws).tolist()
            for others, kept in ((batch, mean), (drawn, noise)):
                for i, one in enumerate(batch):
                    near = (cosine(one, other) for j, other in enumerate(others) if j != i)
                    kept.append(sorted(near, reverse=True)[:4])
        assert analysed["mean"][place] == pytest.approx(np.mean(mean, axis=0), abs=1e-5)
        assert analysed["noise"][place] == pytest.approx(np.mean(noise, axis=0), abs=1e-5)


@pytest.mark.usefixtures("small_batches")
def test_all_runs_are_compared_on_the_same_batches(material_of):
    """Whatever their seed, method and how much of the corpus they train on."""
    expected = analyse(Letters(), material_of(), ["in-batch"])
    trained = material_of("simcse", best_step=3, seed=9, sentences=20)
    assert analyse(Letters(), trained, ["in-batch"]) == expected


def test_a_large_corpus_is_a_pool_of_limited_size(material_of, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "POOL", 40)
    monkeypatch.setattr(module, "REPEATS", 2)
    corpus = tmp_path / "large.txt"
    corpus.write_text("".join(f"{text}\n" for text in make_sentences(300, seed=5)))
    encoder = Letters()
    analysed = analyse(encoder, material_of(corpus=corpus), ["in-batch"])["in-batch"]
    assert (analysed["pool"], analysed["sizes"]) == (40, [16, 32])
    assert len(encoder.given) == len(set(encoder.given)) == 40
    assert {"a" in text for text in encoder.given} == {True, False}
    assert encoder.given != read_sentences(corpus)[:40]


# cosines, memory, nearest


def assert_scored(cosines: dict[str, Any], encoder: Any, data: Path) -> None:
    (task, _) = read_tasks(["STS-B"], data)
    (record,) = [r for r in score_tasks(encoder, [task]) if r["task"] == "STS-B"]
    score = 100 * spearmanr(cosines["gold"], cosines["cosine"]).statistic
    assert score == pytest.approx(record["value"], abs=1e-9)


def test_cosines_give_the_score(material_of, tiny_bert, tiny_data):
    encoder = load_encoder(tiny_bert, pooler="avg")
    analysed = analyse(encoder, material_of(), ["cosines"])["cosines"]
    assert_scored(analysed, encoder, tiny_data)
    assert (analysed["task"], analysed["split"], len(analysed["gold"])) == ("STS-B", "test", 12)


def texts_of(split: str, data: Path) -> list[str]:
    (pairs,) = sts.read("STS-B", data, split).subsets
    return [text for pair in zip(pairs.first, pairs.second, strict=True) for text in pair]


def test_a_map_of_each_task_is_fitted_as_for_its_score(
    material_of, tiny_bert, tiny_data, monkeypatch
):
    """It is fitted once for all analyses."""
    fits, plain = [], Whitened.fitted
    base = load_encoder(tiny_bert, pooler="avg")
    encoder = Whitened(base, {}, dimensions=8)
    with monkeypatch.context() as patch:
        patch.setattr(Whitened, "fitted", lambda *given: fits.append(1) or plain(*given))
        results = analyse(encoder, material_of(), ["cosines", "alignment"])
    assert len(fits) == 1
    assert_scored(results["cosines"], encoder, tiny_data)
    near = results["alignment"]["STS-B"]
    (pairs,) = sts.read("STS-B", tiny_data, "dev").subsets
    whole = [text for split in sts.SPLITS for text in texts_of(split, tiny_data)]
    fixed = encoder.fitted(whole, base.encode)
    vectors = fixed.encode(pairs.first + pairs.second)
    expected = uniformity_by_loop(vectors.tolist())
    assert near["dev"]["uniformity"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("step", "held"), [(1, 8), (2, 16), (6, 20), (9, 20)])
def test_memory_holds_the_newest_of_the_training_order(
    material_of, tiny_corpus, monkeypatch, step, held
):
    """44 sentences are 6 batches of 8 an epoch, the last of 4: step 6 ends the first epoch.

    With seed 10 there are sentences of three words to be passed over and of four to be taken.
    """
    monkeypatch.setattr(module, "MEMORY", 20)
    encoder = Letters()
    material = material_of("simcse", best_step=step, seed=10, batch_size=8, epochs=2)
    analysed = analyse(encoder, material, ["memory"])["memory"]
    epochs = [
        torch.randperm(44, generator=stream(10, "order", epoch)).tolist() for epoch in range(2)
    ]
    seen = [epoch[start : start + 8] for epoch in epochs for start in range(0, 44, 8)][:step]
    texts = read_sentences(tiny_corpus)
    rows = [texts[row] for batch in seen for row in batch][-held:]
    assert (analysed["rows"], analysed["step"]) == (held, step)
    assert sorted(encoder.given) == sorted(set(rows))
    places = [place for place in range(held - 1, -1, -1) if len(rows[place].split()) >= 4][:2]
    assert [query["sentence"] for query in analysed["query"]] == [rows[place] for place in places]
    for query, place in zip(analysed["query"], places, strict=True):
        others = {
            j: cosine(Letters.vector(rows[place]), Letters.vector(rows[j]))
            for j in range(held)
            if j != place
        }
        expected = sorted(others, key=lambda j: (-round(others[j], 6), j))[:3]
        assert [one["sentence"] for one in query["retrieved"]] == [rows[j] for j in expected]
        assert [one["cosine"] for one in query["retrieved"]] == pytest.approx(
            [others[j] for j in expected], abs=1e-6
        )
    assert "without dropout" in analysed["reading"]


def test_memory_is_of_the_sentences_that_were_trained_on(material_of, tiny_corpus):
    encoder = Letters()
    material = material_of("simcse", best_step=3, sentences=10, batch_size=4)
    analysed = analyse(encoder, material, ["memory"])["memory"]
    assert analysed["rows"] == 10
    assert set(encoder.given) == set(read_sentences(tiny_corpus)[:10])


def test_nearest_equals_brute_force(material_of, tiny_data):
    analysed = analyse(Letters(), material_of(), ["nearest"])["nearest"]
    (pairs,) = sts.read("STS-B", tiny_data, "test").subsets
    texts = list(dict.fromkeys(pairs.first + pairs.second))
    assert (analysed["among"], analysed["of"]) == (len(texts), "STS-B")
    queries = [query["sentence"] for query in analysed["queries"]]
    assert queries == [pairs.first[row] for row in (0, 4, 8)]
    for query in analysed["queries"]:
        own = Letters.vector(query["sentence"])
        others = {
            text: cosine(own, Letters.vector(text)) for text in texts if text != query["sentence"]
        }
        expected = sorted(others.values(), reverse=True)[:5]
        assert [one["cosine"] for one in query["found"]] == pytest.approx(expected, abs=1e-6)
        for one in query["found"]:
            assert one["cosine"] == pytest.approx(others[one["sentence"]], abs=1e-6)


# all of them


def test_names_are_those_of_the_records():
    assert tuple(ANALYSES) == NAMES


def test_every_result_is_plain_json(material_of, tiny_bert, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "REPEATS", 2)
    material = material_of("simcse", best_step=2, batch_size=8)
    analysed = analyse(load_encoder(tiny_bert, pooler="avg"), material, NAMES)
    assert tuple(analysed) == NAMES
    assert not any("reason" in result for result in analysed.values())
    write_json(tmp_path / "analyses.json", analysed)  # refuses NaN and numpy's types
    material = material_of("simcse", best_step=2, batch_size=8)
    assert analyse(load_encoder(tiny_bert, pooler="avg"), material, NAMES) == analysed


def test_a_sentence_is_encoded_once(material_of):
    encoder = Letters()
    names = ["alignment", "cosines", "nearest", "in-batch", "memory"]
    analyse(encoder, material_of("simcse", best_step=2), names)
    assert len(encoder.given) == len(set(encoder.given))
    material = material_of()
    one, other = Letters(), BagOfWords(64)
    analysed = analyse(one, material, ["cosines"])
    assert analysed != analyse(other, material, ["cosines"])  # not another's vectors


@pytest.mark.parametrize(
    ("text", "step", "name", "reason"),
    [
        ("word-overlap", None, "layers", "an encoder of kind 'letters' is not a transformer"),
        ("simcse", None, "memory", "nothing was trained"),
        ("ct-bert[drawn=20]", 2, "memory", "'ct-bert' does not train on single sentences"),
    ],
)
def test_what_cannot_be_measured_says_why(material_of, text, step, name, reason):
    analysed = analyse(Letters(), material_of(text, best_step=step), ["cosines", name])
    assert list(analysed[name]) == ["reason"]
    assert analysed[name]["reason"].startswith(reason)
    assert "gold" in analysed["cosines"]


def test_other_data(material_of, write_pairs, tiny_bert, tmp_path):
    encoder = load_encoder(tiny_bert, pooler="avg")
    rows = [("dog", "cat", 1.0), ("man", "cat", 2.0)]
    data = write_pairs(dev=rows, test=rows)
    analysed = analyse(encoder, material_of(data=data), ["tokens"])
    assert analysed["tokens"]["reason"] == "no test sentence of STS-B has 8 to 14 words to compare"
    write_json(data / "manifest.json", {"name": "own", "sts": {"STS-B": {"dev": 2}}})
    analysed = analyse(encoder, material_of(data=data), ["alignment", "cosines"])
    assert list(analysed["alignment"]["STS-B"]) == ["dev", "all"]
    no_test = f"the data of '{data}' has no test pairs of STS-B"
    assert analysed["cosines"]["reason"] == no_test
    write_json(data / "manifest.json", {"name": "own", "sts": {"STS12": {"a": 2}}})
    analysed = analyse(encoder, material_of(data=data), ["alignment", "nearest", "layers"])
    reasons = [result["reason"] for result in analysed.values()]
    assert reasons == [f"the data of '{data}' has no STS-B", no_test, no_test]
    corpus = tmp_path / "short.txt"
    corpus.write_text("a dog\na dog\n \na cat\n")
    analysed = analyse(encoder, material_of(corpus=corpus), ["in-batch"])["in-batch"]
    why = f"corpus '{corpus}' has 2 distinct sentences, fewer than a batch of 16"
    assert analysed["reason"] == why


def test_mistakes_are_not_reasons(material_of, write_pairs):
    data = write_pairs(test=[("a dog", "a cat", 1.0), ("a man", "a cat", 2.0)])
    (data / "downstream/STS/STSBenchmark/sts-test.csv").unlink()
    with pytest.raises(UserError, match="sts-test"):
        analyse(Letters(), material_of(data=data), ["cosines"])


class Broken(Letters):
    @staticmethod
    def vector(text: str) -> list[float]:
        return [math.nan if text.count("a") == 2 else 1.0, 1.0]


@pytest.mark.parametrize("name", ["alignment", "in-batch", "cosines", "memory", "nearest"])
def test_vectors_that_are_not_finite_are_refused(material_of, name):
    with pytest.raises(UserError, match="is not finite; the encoder has diverged"):
        analyse(Broken(), material_of("simcse", best_step=6, batch_size=8), [name])


@pytest.mark.parametrize("name", ["layers", "tokens"])
def test_states_that_are_not_finite_are_refused(material_of, tiny_bert, name):
    encoder = load_encoder(tiny_bert, pooler="avg")
    assert isinstance(encoder, TransformerEncoder)
    with torch.no_grad():
        encoder.model.encoder.layer[2].output.dense.bias[0] = math.nan
    with pytest.raises(UserError, match="is not finite; the encoder has diverged"):
        analyse(encoder, material_of(), [name])


def test_a_second_analysis_of_a_run_keeps_the_first(tiny_bert, tiny_data, tiny_corpus, tmp_path):
    run = tiny_run("untrained[pooler=avg]", tiny_bert, tiny_data, tiny_corpus)
    out = tmp_path / "analyses" / "run.json"
    analyse_run(run, tmp_path, ["cosines"], "", out, "cpu")
    first = read_json(out)
    analyse_run(run, tmp_path, ["nearest"], "", out, "cpu")
    both = read_json(out)
    assert list(both["analyses"]) == ["cosines", "nearest"]
    assert both["analyses"]["cosines"] == first["analyses"]["cosines"]
    assert both["provenance"]["data"] == {"name": "tiny", **data_sums(tiny_data)}


def test_an_analysis_carries_the_sums_of_what_it_read(tiny_bert, tiny_data, tiny_corpus, tmp_path):
    run = tiny_run("untrained", tiny_bert, tiny_data, tiny_corpus)
    parts = [sts.read("STS-B", tiny_data, split) for split in sts.SPLITS]
    corpus = [corpus_identity(tiny_corpus)]
    for names, tasks, corpora in (
        (["cosines"], task_sums(parts), []),
        (["memory"], {}, corpus),
        (["memory", "cosines"], task_sums(parts), corpus),
    ):
        out = tmp_path / f"{'-'.join(names)}.json"
        analyse_run(run, tmp_path, names, str(tiny_corpus), out, "cpu")
        told = read_json(out)["provenance"]
        assert (told["tasks"], told["corpora"]) == (tasks, corpora)
