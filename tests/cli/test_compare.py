"""Two encoders compared over test items, and two rows of a suite over seeds."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import sentbench
from bench.judge.items import compare_items
from bench.results.records import read_items, read_scores
from bench.stages import encoders
from tests.support.programs import ROOT

AVG, LAST = "toy-bert[pooler=avg]", "toy-bert[pooler=last]"


def letters(texts):
    return np.array([[text.count(letter) for letter in "aeiourst"] + [1.0] for text in texts])


def vowels(texts):
    return letters(texts)[:, [0, 1, 2, 3, 4, 8]]


def short(texts):
    return letters(texts)[1:]


def rows_of(text):
    """The cells of each line of the table, by its first."""
    lines = text.split("---\n")[1].split("\n\n")[0].splitlines()
    return {cells[0]: cells[1:] for cells in (re.split(r"  +", line.strip()) for line in lines)}


def sets_of(items):
    """The rows of items that are joined by sentences."""
    _, numbers = np.unique([items["first"], items["last"]], return_inverse=True)
    first, last = numbers.reshape(2, -1)
    edges = coo_array((np.ones(len(first)), (first, last)), shape=[numbers.max() + 1] * 2)
    count, labels = connected_components(edges, directed=False)
    return [np.flatnonzero(labels[first] == label) for label in range(count)]


def spearman(items):
    return 100 * stats.spearmanr(items["gold"], items["similarity"]).statistic


def kept(folder, source):
    """The test scores and the items of a model in a folder."""
    stem = re.sub(r"[\[\]=]+", "-", source).strip("-")
    records = read_scores(folder / f"{stem}.json").records
    scores = {(row.task, row.metric): row.value for row in records if row.split == "test"}
    return scores, read_items(folder / "items" / f"{stem}.npz")


# --- Encoders ---


def test_the_numbers_are_of_the_items_and_a_second_start_scores_nothing(
    tmp_path, said, monkeypatch
):
    words = [
        "compare", AVG, LAST, "--data", "world", "--mode", "dev", "--out", tmp_path, "--tasks",
        "STS-B", "SICK-R", "TREC",
    ]  # fmt: skip
    score, calls = encoders.score_encoder, []

    def second_interrupted(*args):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return score(*args)

    monkeypatch.setattr(encoders, "score_encoder", second_interrupted)
    assert "run the same command again to continue" in said(*words, status=130).err
    out = said(*words).out
    assert len(calls) == 3  # the first encoder is not scored again
    assert out.startswith(f"A: {AVG}\nB: {LAST}\n\n")
    rows = rows_of(out)
    (scores_a, a), (scores_b, b) = (kept(tmp_path, source) for source in (AVG, LAST))
    for task in ("STS-B", "SICK-R"):
        of_a, of_b = spearman(a[task]), spearman(b[task])
        assert scores_a[task, "spearman"] == pytest.approx(of_a)
        items = compare_items(a, b, [task], of_a - of_b)
        difference = f"{of_a - of_b:+.2f} ± {items.half_width():.2f}"
        cells = [f"{len(a[task]):,} items", f"{of_a:.2f}", f"{of_b:.2f}", difference]
        assert rows[f"STS, {task}"] == [*cells, "< 0.001", "△ higher"]
    accuracies = scores_a["TREC", "accuracy"], scores_b["TREC", "accuracy"]
    assert rows["Transfer, TREC"][1:3] == [f"{value:.2f}" for value in accuracies]
    note = " ".join(out.split())
    assert "A - B has a 95 % interval over these items, not over trainings" in note
    monkeypatch.setattr(encoders, "score_encoder", None)
    assert said(*words).out == out


def test_a_whole_leaderboard_is_one_line(said):
    ((name, cells),) = rows_of(said("compare", AVG, AVG, "--data", "world").out).items()
    assert (name, cells[1]) == ("STS, Avg", cells[2])
    assert cells[3:] == ["+0.00 ± 0.00", "1.000", "? open"]


def test_functions_of_one_name_are_two_encoders():
    first, second = (lambda texts, f=f: f(texts) for f in (letters, vowels))
    rows = sentbench.compare(first, second, ["STS-B"], "world")
    alone = [sentbench.score(f, ["STS-B"], "world")[0]["value"] for f in (letters, vowels)]
    (row,) = rows.to_dict("records")
    assert list(row) == "leaderboard task a b difference half_width p n verdict".split()  # noqa: SIM905
    assert (row["a"], row["b"]) == pytest.approx(tuple(alone))
    assert row["difference"] == pytest.approx(alone[0] - alone[1])
    assert (row["n"], row["verdict"] == "open") == (300, row["p"] >= 0.05)


def test_networks_have_a_difference_without_an_interval():
    rows = sentbench.compare(letters, vowels, "SubjNumber", "world", mode="dev")
    assert rows["leaderboard"].tolist() == ["probing", "probing_mlp"]
    assert rows["half_width"].isna().tolist() == rows["verdict"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("b", "told"),
    [
        ("tests.cli.test_compare:short", "compare:short: the encoder gave an array of float64"),
        ("toy-bert[template=in-one-word]", "names several templates; name one"),
    ],
)
def test_an_encoder_that_fails_is_one_sentence(b, told, said, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = ["compare", "tests.cli.test_compare:vowels", b, "--data", "world"]
    error = said(*words, status=2).err.splitlines()[-1]
    assert error.startswith("error: ")
    assert told in error


@pytest.mark.slow
@pytest.mark.skipif(
    not {"BENCH_DATA", "BENCH_MODELS"} <= os.environ.keys(), reason="needs data and models"
)
def test_real_poolers_have_the_difference_of_scipy(tmp_path):
    model = Path(os.environ["BENCH_MODELS"], "wiki-minilm")
    sources = [f"{model}[pooler={pooler}]" for pooler in ("avg", "cls_before_pooler")]
    (row,) = sentbench.compare(*sources, "STS-B", out=tmp_path).to_dict("records")
    a, b = (read_items(file)["STS-B"] for file in sorted((tmp_path / "items").iterdir()))
    assert (row["a"], row["b"]) == pytest.approx((spearman(a), spearman(b)))
    assert (row["n"], row["verdict"]) == (1379, "lower")
    sets, rng, differences = sets_of(a), np.random.default_rng(1), []
    for _ in range(500):
        rows = np.concatenate([sets[number] for number in rng.integers(len(sets), size=len(sets))])
        differences.append(spearman(a[rows]) - spearman(b[rows]))
    expected = stats.norm.ppf(0.975) * np.std(differences, ddof=1)
    assert row["half_width"] == pytest.approx(expected, rel=0.1)


# --- Rows of a suite ---


def test_two_rows_of_a_suite_have_their_verdict_or_are_no_claim(said):
    suite = ROOT / "results" / "wiki-mini"
    pairs = {pair.leaderboard: pair for pair in sentbench.read_suite(suite).pairs
             if (pair.label, pair.task) == ("MixCSE", "Avg")}  # fmt: skip
    out = said("compare", "MixCSE", "simcse", "--suite", suite).out
    for name, place in (("sts", 1), ("transfer", 2)):
        pair, line = pairs[name], out.split("---\n")[1].splitlines()[place - 1]
        assert f"{pair.difference:+.2f} ± {pair.half_width:.2f}" in line
        assert line.endswith(pair.verdict)
    assert "not a claim" not in out
    out = said("compare", "simcse", "MixCSE", "--suite", suite).out
    assert f"{-pairs['sts'].difference:+.2f} ± {pairs['sts'].half_width:.2f}\n" in out
    assert "A - B is not a claim of this suite" in " ".join(out.split())
    err = said("compare", "simcse", "SimCSE", "--suite", suite, status=2).err
    assert "'simcse@official' would be compared with itself" in err
    err = said("compare", "mixcse", "simcse", "--suite", suite, "--tasks", "sts", status=2).err
    assert "omit --tasks and --out" in err
