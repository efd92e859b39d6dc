"""STS: the files in all their quirks, and scores against an oracle of plain loops and exact
fractions."""

import math
import random
from fractions import Fraction
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.datasets import sts
from bench.datasets.manifest import manifest
from bench.datasets.tasks import STS_TASKS
from bench.evaluation.scoring import Scorer, sentences
from bench.utils.errors import UserError
from bench.utils.files import write_json
from tests.support.data_files import put
from tests.support.refusals import refused

# Files

COUNTS = {
    "STS12": {"MSRpar": 3, "surprise.OnWN": 2},
    "STS15": {"belief": 2},
    "STS-B": {"train": 3, "dev": 2, "test": 2},
    "SICK-R": {"train": 2, "dev": 2, "test": 3},
}
YEAR, FIFTEEN = "downstream/STS/STS12-en-test", "downstream/STS/STS15-en-test"


@pytest.fixture
def folder(tmp_path):
    write_json(tmp_path / "manifest.json", {"name": "tiny", "version": 1, "sts": COUNTS})
    put(tmp_path, f"{YEAR}/STS.input.MSRpar.txt", "a  b .\tc d .\n e\tf\ng\th\n")
    put(tmp_path, f"{YEAR}/STS.gs.MSRpar.txt", "4.40\n0\n 5.000 \n")
    put(tmp_path, f"{YEAR}/STS.input.surprise.OnWN.txt", "i\tj\nk\tl\n")
    put(tmp_path, f"{YEAR}/STS.gs.surprise.OnWN.txt", "1.5\n2.25")
    put(tmp_path, f"{FIFTEEN}/STS.input.belief.txt", "a\tb\nc\td\ne\tf\ng\th\ni\tj\n")
    put(tmp_path, f"{FIFTEEN}/STS.gs.belief.txt", "\n3.00\n\n \n1.80\n")
    for split, pairs in COUNTS["STS-B"].items():
        row = "genre\tfile\t2012\t000{0}\t{0}.5\t{1} one {0}\ttwo \xa0 {0}\n"
        text = "".join(row.format(i, split) for i in range(pairs))
        put(tmp_path, f"downstream/STS/STSBenchmark/sts-{split}.csv", text)
    for split, name in {"train": "train", "dev": "trial", "test": "test_annotated"}.items():
        rows = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"]
        for i in range(COUNTS["SICK-R"][split]):
            rows.append(f"{i}\tA {split}\tB {i}\t{i + 1.5}\tNEUTRAL")
        end = "\r\n" if split == "test" else "\n"
        put(tmp_path, f"downstream/SICK/SICK_{name}.txt", "".join(row + end for row in rows))
    return tmp_path


def test_years_are_read_with_their_subsets(folder):
    task = sts.read("STS12", folder)
    assert (task.name, task.split) == ("STS12", "test")
    result = [(x.name, x.first, x.second, x.gold.tolist()) for x in task.subsets]
    assert result == [
        ("MSRpar", ("a b .", "e", "g"), ("c d .", "f", "h"), [4.4, 0.0, 5.0]),
        ("surprise.OnWN", ("i", "k"), ("j", "l"), [1.5, 2.25]),
    ]


def test_rows_without_gold_are_dropped(folder):
    (belief,) = sts.read("STS15", folder).subsets
    assert (belief.first, belief.second) == (("c", "i"), ("d", "j"))
    assert belief.gold.tolist() == [3.0, 1.8]


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_sts_b_and_sick_have_splits(split, folder):
    expected = {
        "STS-B": [(f"{split} one {i}", f"two {i}", i + 0.5) for i in range(3)],
        "SICK-R": [(f"A {split}", f"B {i}", i + 1.5) for i in range(3)],
    }
    for task, pairs in expected.items():
        (result,) = sts.read(task, folder, split).subsets
        columns = result.first, result.second, result.gold
        assert list(zip(*columns, strict=True)) == pairs[: COUNTS[task][split]]


def test_a_test_set_is_not_read_as_another_split(folder):
    refused(lambda: sts.read("STS12", folder, "dev"), "has no STS12 dev")


def test_a_folder_without_manifest_is_held_to_senteval(folder):
    (folder / "manifest.json").unlink()
    assert manifest(folder).name == "senteval"
    expected = "MSRpar.txt: 3 pairs with a gold score, the manifest expects 750"
    refused(lambda: sts.read("STS12", folder), expected)


TEXTS, GOLDS = f"{YEAR}/STS.input.MSRpar.txt", f"{YEAR}/STS.gs.MSRpar.txt"
BENCHMARK = "downstream/STS/STSBenchmark/sts-test.csv"
SICK = "downstream/SICK/SICK_test_annotated.txt"


@pytest.mark.parametrize(
    ("task", "name", "content", "problem"),
    [
        ("STS12", GOLDS, None, "STS.gs.MSRpar.txt does not exist"),
        ("STS12", GOLDS, "1\ntwo\n3\n", "line 2: gold score 'two' is not a number from 0 to 5"),
        ("STS12", TEXTS, "a\tb\n", "STS.input.MSRpar.txt has 1 lines but STS.gs.MSRpar.txt has 3"),
        ("STS12", TEXTS, "a\tb\n\td\ne\tf\n", "STS.gs.MSRpar.txt, line 2: no sentence"),
        ("SICK-R", SICK, "h\n" + "1\ta\tb\t\tN\n" * 3, "line 2: no gold score or label"),
        ("STS-B", BENCHMARK, "g\tf\ty\t1\t5\ta\n" * 2, "line 1: 6 tab-separated"),
    ],
)
def test_wrong_files_are_named(task, name, content, problem, folder):
    put(folder, name, content)
    refused(lambda: sts.read(task, folder), problem)


def test_the_shipped_manifest_adds_up():
    """Totals as the shared tasks publish them."""
    listed = manifest(Path("nowhere"))
    totals = {task: sum(counts.values()) for task, counts in listed.sts.items()}
    assert tuple(totals) == (*STS_TASKS, "CNSD-STS-B")
    assert list(totals.values()) == [3108, 1500, 3750, 3000, 1186, 8628, 9927, 8050]


@pytest.mark.slow
def test_the_real_files(senteval):
    assert len(sentences([sts.read(task, senteval) for task in STS_TASKS])) == 26083


# The oracle: no numpy, no scipy, nothing of the project


def oracle_cosine_order(first, second):
    """cos |cos|: a number in the same order as the cosine, exact for any floats; 0 where a vector
    is zero."""
    dot = sum((Fraction(x) * Fraction(y) for x, y in zip(first, second, strict=True)), Fraction())
    squares = sum(Fraction(x) ** 2 for x in first) * sum(Fraction(y) ** 2 for y in second)
    return dot * abs(dot) / squares if squares else Fraction()


def oracle_ranks(values):
    """Average ranks: those below, and half-way through those equal."""
    ranks = []
    for value in values:
        below = sum(1 for rival in values if rival < value)
        equal = sum(1 for rival in values if rival == value)
        ranks.append(Fraction(2 * below + equal + 1, 2))
    return ranks


def oracle_spearman(left, right):
    """Pearson's correlation of average ranks, x 100."""
    x, y = oracle_ranks(left), oracle_ranks(right)
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    variances = sum((a - mean_x) ** 2 for a in x) * sum((b - mean_y) ** 2 for b in y)
    return 100 * float(covariance) / math.sqrt(variances)


def oracle(task, table):
    def order_of(a, b):
        return oracle_cosine_order(table[a].tolist(), table[b].tolist())

    orders = [[*map(order_of, subset.first, subset.second)] for subset in task.subsets]
    golds = [subset.gold.tolist() for subset in task.subsets]
    values = {"all": oracle_spearman(list(chain(*orders)), list(chain(*golds)))}
    if len(golds) > 1:
        by_subset = [
            oracle_spearman(order, gold) for order, gold in zip(orders, golds, strict=True)
        ]
        values["mean"] = sum(by_subset) / len(by_subset)
        sizes = [len(gold) for gold in golds]
        weighted = sum(score * size for score, size in zip(by_subset, sizes, strict=True))
        values["wmean"] = weighted / sum(sizes)
    return values


# Scores


def make_task(sizes, seed):
    """A task whose small whole-numbered vectors and golds give many ties, and the vectors of its
    sentences."""
    draw = random.Random(seed)
    table, subsets = {}, []
    for number, size in enumerate(sizes):
        texts = [[f"{number} {side} {pair}" for pair in range(size)] for side in "ab"]
        for text in texts[0] + texts[1]:
            table[text] = np.array([draw.randint(-2, 3) for _ in range(3)], dtype=np.float32)
        gold = np.array([draw.randint(0, 10) / 2 for _ in range(size)])
        subsets.append(sts.Subset(f"subset{number}", tuple(texts[0]), tuple(texts[1]), gold))
    return sts.StsTask("STS13", "test", tuple(subsets)), table


def values(task, table):
    vectors = lambda texts: np.stack([table[text] for text in texts])  # noqa: E731
    records = sts.score_pairs(task, sts.similarities(task, vectors))
    result = {record.pop("aggregation"): record.pop("value") for record in records}
    common = {"task": task.name, "split": task.split, "metric": "spearman"}
    assert all(record == common for record in records)
    return result


def scorable(made):
    try:
        values(*made)
    except UserError:
        return False
    return True


SEEDS = st.integers(0, 10**6)
SIZES = st.lists(st.integers(4, 12), min_size=1, max_size=3)


@given(made=st.builds(make_task, SIZES, SEEDS).filter(scorable), seed=SEEDS, real=st.booleans())
def test_scores_equal_the_oracle(made, seed, real):
    task, table = made
    if real:
        draw = np.random.default_rng(seed)
        table = {text: draw.normal(size=48).astype(np.float32) for text in table}
    expected = oracle(task, table)
    assert list(values(task, table)) == list(expected)
    assert values(task, table) == pytest.approx(expected, abs=1e-9)


def subset_of(name, golds):
    """Pairs of a name and its partner, "NAME'"."""
    partners = tuple(f"{pair}'" for pair in golds)
    return sts.Subset(name, tuple(golds), partners, np.array(list(golds.values())))


def test_equal_pairs_tie_whatever_their_vectors():
    """Rounding makes u.u / |u|^2 less than 1 for some u and more for others; such pairs must tie
    all the same."""
    generator = np.random.default_rng(3)
    names = [f"s{i}" for i in range(200)]
    table = {name: generator.normal(size=384).astype(np.float32) for name in names}
    gold = np.arange(200.0)
    pairs = sts.Subset("STS-B", tuple(names), (*names[:199], names[0]), gold)
    # 199 ties and one pair below them, which has the highest gold: rank 1 against 101 for each
    # other.
    expected = oracle_spearman([1] * 199 + [0], gold.tolist())
    result = values(sts.StsTask("STS-B", "test", (pairs,)), table)
    assert result == pytest.approx({"all": expected}, abs=1e-9)


def test_close_pairs_are_told_apart():
    """Cosines 1 - k^2 2^-41 are all 1 in float32."""
    steps = {str(k): 10.0 - k for k in range(4, 9)}
    table = {name: np.array([1, 0], dtype=np.float32) for name in steps}
    table |= {f"{name}'": np.array([1, int(name) * 2.0**-20], dtype=np.float32) for name in steps}
    task = sts.StsTask("STS-B", "test", (subset_of("STS-B", steps),))
    assert values(task, table) == pytest.approx({"all": 100})


# The vectors of partners, beside (1, 0) of "a" to "d": only "c" and "d" are equally far from it.
FLAT = {**dict.fromkeys("abcd", (1.0, 0.0)), "a'": (1.0, 0.2), "b'": (1.0, 0.4)}
FLAT |= dict.fromkeys(["c'", "d'"], (1.0, 0.6))


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        (lambda texts: np.ones((len(texts), 4)), "STS14: all similarities are equal"),
        (lambda texts: np.stack([FLAT[text] for text in texts]), "STS14 two: all similarities are"),
        (
            lambda texts: np.full((len(texts), 4), np.nan),
            "STS14 one: the vector of 'a' is not finite",
        ),
    ],
)
def test_vectors_that_cannot_be_scored(vectors, problem):
    subsets = (subset_of("one", {"a": 5, "b": 4}), subset_of("two", {"c": 1, "d": 2}))
    scorer = Scorer([sts.StsTask("STS14", "test", subsets)], vectors)
    refused(scorer.scores, problem)
