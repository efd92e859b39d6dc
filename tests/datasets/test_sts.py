"""STS: reading the files in all their quirks, and scores against an oracle of plain loops and exact
fractions."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bench.datasets import sts
from bench.datasets.manifest import manifest
from bench.evaluation.scoring import sentences
from bench.utils.errors import UserError

# --- the oracle: no numpy, no scipy, nothing of the project
# -----------------------------------------------------------


def oracle_cosine_order(first: Sequence[float], second: Sequence[float]) -> Fraction:
    """cos |cos|: a number in the same order as the cosine, exact for any floats; 0 where a vector
    is zero."""
    dot = sum((Fraction(x) * Fraction(y) for x, y in zip(first, second, strict=True)), Fraction())
    squares = sum(Fraction(x) ** 2 for x in first) * sum(Fraction(y) ** 2 for y in second)
    return dot * abs(dot) / squares if squares else Fraction()


def oracle_ranks(values: Sequence[Any]) -> list[Fraction]:
    """Average ranks: those below, and half-way through those equal."""
    ranks = []
    for value in values:
        below = sum(1 for other in values if other < value)
        equal = sum(1 for other in values if other == value)
        ranks.append(Fraction(2 * below + equal + 1, 2))
    return ranks


def oracle_spearman(left: Sequence[Any], right: Sequence[Any]) -> float:
    """Pearson's correlation of average ranks, x 100."""
    x, y = oracle_ranks(left), oracle_ranks(right)
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    variances = sum((a - mean_x) ** 2 for a in x) * sum((b - mean_y) ** 2 for b in y)
    return 100 * float(covariance) / math.sqrt(variances)


def oracle(task: sts.StsTask, table: dict[str, np.ndarray]) -> dict[str, float]:
    orders = [
        [
            oracle_cosine_order(table[a].tolist(), table[b].tolist())
            for a, b in zip(s.first, s.second, strict=True)
        ]
        for s in task.subsets
    ]
    golds = [subset.gold.tolist() for subset in task.subsets]
    values = {"all": oracle_spearman(list(chain(*orders)), list(chain(*golds)))}
    if len(golds) > 1:
        each = [oracle_spearman(order, gold) for order, gold in zip(orders, golds, strict=True)]
        values["mean"] = sum(each) / len(each)
        sizes = [len(gold) for gold in golds]
        values["wmean"] = sum(score * size for score, size in zip(each, sizes, strict=True)) / sum(
            sizes
        )
    return values


# --- tasks in memory
# --------------------------------------------------------------------------------------------------


def make_task(
    sizes: Sequence[int], seed: int, name: str = "STS13"
) -> tuple[sts.StsTask, dict[str, np.ndarray]]:
    """A task whose small whole-numbered vectors and golds give many ties, and the vectors of its
    sentences."""
    draw = random.Random(seed)
    table: dict[str, np.ndarray] = {}
    subsets = []
    for number, size in enumerate(sizes):
        texts = [[f"{number} {side} {pair}" for pair in range(size)] for side in "ab"]
        for text in texts[0] + texts[1]:
            table[text] = np.array([draw.randint(-2, 3) for _ in range(3)], dtype=np.float32)
        gold = np.array([draw.randint(0, 10) / 2 for _ in range(size)])
        subsets.append(sts.Subset(f"subset{number}", tuple(texts[0]), tuple(texts[1]), gold))
    return sts.StsTask(name, "test", tuple(subsets)), table


def look_up(table: dict[str, np.ndarray]) -> Callable[[Sequence[str]], np.ndarray]:
    return lambda texts: np.stack([table[text] for text in texts])


def values(task: sts.StsTask, table: dict[str, np.ndarray]) -> dict[str, float]:
    records = sts.score(task, look_up(table))
    assert all(
        record.keys() == {"task", "split", "metric", "aggregation", "value"}
        and (record["task"], record["split"], record["metric"])
        == (task.name, task.split, "spearman")
        for record in records
    )
    return {record["aggregation"]: record["value"] for record in records}


def reordered(task: sts.StsTask, change: Callable[[sts.Subset], sts.Subset]) -> sts.StsTask:
    return sts.StsTask(task.name, task.split, tuple(change(subset) for subset in task.subsets))


SIZES = st.lists(st.integers(4, 12), min_size=1, max_size=3)
SEEDS = st.integers(0, 10**6)


def scorable(task: sts.StsTask, table: dict[str, np.ndarray]) -> bool:
    try:
        sts.score(task, look_up(table))
    except UserError:
        return False
    return True


@given(sizes=SIZES, seed=SEEDS)
def test_scores_equal_the_oracle(sizes: list[int], seed: int) -> None:
    task, table = make_task(sizes, seed)
    assume(scorable(task, table))
    expected = oracle(task, table)
    assert list(values(task, table)) == list(expected)
    assert values(task, table) == pytest.approx(expected, abs=1e-9)


def test_scores_equal_the_oracle_on_real_valued_vectors() -> None:
    task, _ = make_task([40, 25], seed=1)
    generator = np.random.default_rng(0)
    table = {text: generator.normal(size=48).astype(np.float32) for text in sentences([task])}
    assert values(task, table) == pytest.approx(oracle(task, table), abs=1e-9)


@given(sizes=SIZES, seed=SEEDS, shuffle=SEEDS)
def test_the_order_of_pairs_and_sides_does_not_matter(
    sizes: list[int], seed: int, shuffle: int
) -> None:
    task, table = make_task(sizes, seed)
    assume(scorable(task, table))

    def change(subset: sts.Subset) -> sts.Subset:
        order = random.Random(shuffle).sample(range(len(subset.gold)), len(subset.gold))
        pairs = [(subset.second[i], subset.first[i]) for i in order]
        first, second = zip(*pairs, strict=True)
        return sts.Subset(subset.name, first, second, subset.gold[order])

    assert values(reordered(task, change), table) == pytest.approx(values(task, table), abs=1e-9)


@given(sizes=SIZES, seed=SEEDS, factor=st.floats(1e-3, 1e3))
def test_lengths_of_vectors_and_units_of_gold_do_not_matter(
    sizes: list[int], seed: int, factor: float
) -> None:
    task, table = make_task(sizes, seed)
    assume(scorable(task, table))
    before = values(task, table)
    draw = random.Random(seed)
    longer = {
        text: vector.astype(np.float64) * factor * draw.uniform(0.5, 2)
        for text, vector in table.items()
    }
    assert values(task, longer) == pytest.approx(before, abs=1e-9)
    other_unit = reordered(
        task, lambda s: sts.Subset(s.name, s.first, s.second, s.gold * factor + 7)
    )
    assert values(other_unit, table) == pytest.approx(before, abs=1e-9)


@given(sizes=SIZES, seed=SEEDS)
def test_opposite_gold_gives_the_opposite_score(sizes: list[int], seed: int) -> None:
    task, table = make_task(sizes, seed)
    assume(scorable(task, table))
    opposite = reordered(task, lambda s: sts.Subset(s.name, s.first, s.second, -s.gold))
    negated = {aggregation: -value for aggregation, value in values(task, table).items()}
    assert values(opposite, table) == pytest.approx(negated, abs=1e-9)
    assert all(-100 - 1e-9 <= value <= 100 + 1e-9 for value in negated.values())


def angles(degrees: dict[str, float]) -> dict[str, np.ndarray]:
    """A table in which "NAME" and its partner "NAME'" are so many degrees apart."""
    table = {}
    for name, angle in degrees.items():
        table[name] = np.array([1, 0], dtype=np.float32)
        table[f"{name}'"] = np.array(
            [math.cos(math.radians(angle)), math.sin(math.radians(angle))], dtype=np.float32
        )
    return table


def subset_of(name: str, golds: dict[str, float]) -> sts.Subset:
    return sts.Subset(
        name, tuple(golds), tuple(f"{pair}'" for pair in golds), np.array(list(golds.values()))
    )


def test_known_answers_of_the_three_aggregations() -> None:
    """Each subset is in perfect order by itself, but that says nothing about all pairs together.

    By similarity c d e b a; by gold a b of the first subset 5 4, c d e of the second 1 2 3: ranks
    of similarity
    a 1, b 2, c 5, d 4, e 3 and of gold a 5, b 4, c 1, d 2, e 3: opposite, so all = -100.
    """
    table = angles({"a": 80, "b": 70, "c": 10, "d": 20, "e": 30})
    first, second = subset_of("one", {"a": 5, "b": 4}), subset_of("two", {"c": 1, "d": 2, "e": 3})
    task = sts.StsTask("STS14", "test", (first, second))
    assert values(task, table) == pytest.approx({"all": -100, "mean": -100, "wmean": -100})
    second = subset_of("two", {"c": 3, "d": 2, "e": 1})
    task = sts.StsTask("STS14", "test", (first, second))
    # d = similarity rank - gold rank: a 1-5, b 2-4, c 5-3, d 4-2, e 3-1; 1 - 6 (16+4+4+4+4) / (5 *
    # 24) = -0.6
    assert values(task, table) == pytest.approx(
        {"all": -60, "mean": 0, "wmean": 100 * (-2 + 3) / 5}
    )


def test_ties_have_average_ranks() -> None:
    """Similarity ranks 1.5 1.5 3 against 1 2 3: covariance 1.5, variances 1.5 and 2, so
    sqrt(3)/2."""
    task = sts.StsTask("STS-B", "dev", (subset_of("STS-B", {"a": 1, "b": 2, "c": 3}),))
    assert values(task, angles({"a": 60, "b": 60, "c": 20})) == pytest.approx(
        {"all": 50 * math.sqrt(3)}
    )


def test_equal_pairs_tie_whatever_their_vectors() -> None:
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
    assert values(sts.StsTask("STS-B", "test", (pairs,)), table) == pytest.approx(
        {"all": expected}, abs=1e-9
    )


def test_a_zero_vector_has_similarity_zero() -> None:
    table = angles({"a": 60, "b": 120, "c": 0})
    table["c'"] = np.zeros(2, dtype=np.float32)  # between cos 60 = 0.5 and cos 120 = -0.5
    task = sts.StsTask("STS-B", "test", (subset_of("STS-B", {"a": 3, "b": 1, "c": 2}),))
    assert values(task, table) == pytest.approx({"all": 100})


def test_close_pairs_are_told_apart() -> None:
    """Cosines 1 - k^2 2^-41 are all 1 in float32."""
    steps = {str(k): 10.0 - k for k in range(4, 9)}
    table = {name: np.array([1, 0], dtype=np.float32) for name in steps}
    table |= {f"{name}'": np.array([1, int(name) * 2.0**-20], dtype=np.float32) for name in steps}
    task = sts.StsTask("STS-B", "test", (subset_of("STS-B", steps),))
    assert values(task, table) == pytest.approx({"all": 100})


def test_vectors_of_another_precision_give_the_same_score() -> None:
    task, table = make_task([10, 10], seed=5)
    half = {
        text: vector.astype(np.float16) for text, vector in table.items()
    }  # small whole numbers are exact
    assert values(task, half) == values(task, table)


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        (
            lambda texts: np.ones((len(texts), 4), dtype=np.float32),
            "STS14: all similarities are equal",
        ),
        (lambda texts: np.full((len(texts), 4), np.nan), "STS14 one: .*not finite"),
        (lambda texts: np.full((len(texts), 4), np.inf), "STS14 one: .*not finite"),
        (lambda texts: np.ones((len(texts) + 1, 4)), r"shape \(3, 4\) for 2 sentences"),
        (lambda texts: np.ones(len(texts)), r"shape \(2,\)"),
        (lambda texts: np.ones((len(texts), 3 if "a" in texts else 4)), r"shape \(2, 4\)"),
    ],
)
def test_vectors_that_cannot_be_scored(vectors: Any, problem: str) -> None:
    subsets = (subset_of("one", {"a": 5, "b": 4}), subset_of("two", {"c": 1, "d": 2}))
    with pytest.raises(UserError, match=problem):
        sts.score(sts.StsTask("STS14", "test", subsets), vectors)


def test_a_subset_of_equal_similarities_is_named() -> None:
    table = angles({"a": 10, "b": 20, "c": 30, "d": 30})
    subsets = (subset_of("one", {"a": 5, "b": 4}), subset_of("two", {"c": 1, "d": 2}))
    with pytest.raises(UserError, match="STS14 two: all similarities are equal"):
        sts.score(sts.StsTask("STS14", "test", subsets), look_up(table))


def test_sentences_are_distinct_and_in_order() -> None:
    task = sts.StsTask(
        "STS-B", "dev", (sts.Subset("STS-B", ("a", "b", "a"), ("c", "a", "d"), np.arange(3.0)),)
    )
    assert sentences([task, task]) == ["a", "b", "c", "d"]


# --- files
# ------------------------------------------------------------------------------------------------------------

COUNTS = {
    "STS12": {"MSRpar": 3, "surprise.OnWN": 2},
    "STS15": {"belief": 2},
    "STS-B": {"train": 3, "dev": 2, "test": 2},
    "SICK-R": {"train": 2, "dev": 2, "test": 3},
}
YEAR = "downstream/STS/STS12-en-test"


def put(folder: Path, name: str, content: str | bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path, "manifest.json", json.dumps({"name": "tiny", "version": 1, "sts": COUNTS}))
    put(tmp_path, f"{YEAR}/STS.input.MSRpar.txt", "a  b .\tc d .\n e\tf\ng\th\n")
    put(tmp_path, f"{YEAR}/STS.gs.MSRpar.txt", "4.40\n0\n 5.000 \n")
    put(tmp_path, f"{YEAR}/STS.input.surprise.OnWN.txt", "i\tj\nk\tl\n")
    put(tmp_path, f"{YEAR}/STS.gs.surprise.OnWN.txt", "1.5\n2.25")
    fifteen = "downstream/STS/STS15-en-test"
    put(tmp_path, f"{fifteen}/STS.input.belief.txt", "a\tb\nc\td\ne\tf\ng\th\ni\tj\n")
    put(tmp_path, f"{fifteen}/STS.gs.belief.txt", "\n3.00\n\n \n1.80\n")
    for split, pairs in COUNTS["STS-B"].items():
        rows = [
            f"genre\tfile\t2012\t000{i}\t{i}.5\t{split} one {i}\ttwo \xa0 {i}\n"
            for i in range(pairs)
        ]
        put(tmp_path, f"downstream/STS/STSBenchmark/sts-{split}.csv", "".join(rows))
    for split, name in {"train": "train", "dev": "trial", "test": "test_annotated"}.items():
        rows = [
            f"{i}\tA {split}\tB {i}\t{i + 1.5}\tNEUTRAL" for i in range(COUNTS["SICK-R"][split])
        ]
        end = "\r\n" if split == "test" else "\n"
        content = (
            end.join(
                ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment", *rows]
            )
            + end
        )
        put(tmp_path, f"downstream/SICK/SICK_{name}.txt", content)
    return tmp_path


def test_years_are_read_with_their_subsets(folder: Path) -> None:
    task = sts.read("STS12", folder)
    assert (task.name, task.split, [subset.name for subset in task.subsets]) == (
        "STS12",
        "test",
        ["MSRpar", "surprise.OnWN"],
    )
    par, onwn = task.subsets
    assert par.first == ("a b .", "e", "g")
    assert par.second == ("c d .", "f", "h")
    assert par.gold.tolist() == [4.4, 0.0, 5.0]
    assert par.gold.dtype == np.float64
    assert onwn.first == ("i", "k")
    assert onwn.gold.tolist() == [1.5, 2.25]


def test_rows_without_gold_are_dropped(folder: Path) -> None:
    (belief,) = sts.read("STS15", folder).subsets
    assert (belief.first, belief.second, belief.gold.tolist()) == (
        ("c", "i"),
        ("d", "j"),
        [3.0, 1.8],
    )


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_sts_b_and_sick_have_splits(split: str, folder: Path) -> None:
    (benchmark,) = sts.read("STS-B", folder, split).subsets
    pairs = COUNTS["STS-B"][split]
    assert benchmark.first == tuple(f"{split} one {i}" for i in range(pairs))
    assert benchmark.second == tuple(f"two {i}" for i in range(pairs))
    assert benchmark.gold.tolist() == [i + 0.5 for i in range(pairs)]
    (sick,) = sts.read("SICK-R", folder, split).subsets
    pairs = COUNTS["SICK-R"][split]
    assert sick.first == (f"A {split}",) * pairs
    assert sick.second == tuple(f"B {i}" for i in range(pairs))
    assert sick.gold.tolist() == [i + 1.5 for i in range(pairs)]


def test_line_ends_and_byte_order_marks_do_not_matter(folder: Path) -> None:
    before = {task: sts.read(task, folder) for task in COUNTS}
    for path in (folder / "downstream").rglob("*.*"):
        content = path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        path.write_bytes(b"\xef\xbb\xbf" + content)
    for task, original in before.items():
        again = sts.read(task, folder)
        for one, other in zip(original.subsets, again.subsets, strict=True):
            assert (one.name, one.first, one.second) == (other.name, other.first, other.second)
            assert one.gold.tolist() == other.gold.tolist()


def test_a_folder_without_manifest_is_held_to_senteval(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    assert manifest(folder)["name"] == "senteval"
    with pytest.raises(
        UserError,
        match=r"STS\.gs\.MSRpar\.txt: 3 lines with a gold score, the manifest expects 750",
    ):
        sts.read("STS12", folder)


@pytest.mark.parametrize(
    ("name", "content", "task", "problem"),
    [
        (f"{YEAR}/STS.gs.MSRpar.txt", None, "STS12", r"STS\.gs\.MSRpar\.txt does not exist"),
        (
            f"{YEAR}/STS.input.MSRpar.txt",
            "a\tb\n",
            "STS12",
            r"STS\.input\.MSRpar\.txt has 1 lines but .* has 3",
        ),
        (
            f"{YEAR}/STS.gs.MSRpar.txt",
            "1\n2\n\n",
            "STS12",
            r"2 lines with a gold score, the manifest expects 3",
        ),
        (
            f"{YEAR}/STS.gs.MSRpar.txt",
            "1\ntwo\n3\n",
            "STS12",
            r"STS\.gs\.MSRpar\.txt, line 2: gold score 'two'",
        ),
        (
            f"{YEAR}/STS.gs.MSRpar.txt",
            "1\n1_0\n3\n",
            "STS12",
            r"line 2: gold score '1_0' is not a number",
        ),
        (
            f"{YEAR}/STS.gs.MSRpar.txt",
            "1\n5.5\n3\n",
            "STS12",
            r"line 2: gold score '5.5' is not between 0 and 5",
        ),
        (
            f"{YEAR}/STS.gs.MSRpar.txt",
            "2\n2\n2\n",
            "STS12",
            r"STS12 MSRpar: all gold scores are equal",
        ),
        (
            f"{YEAR}/STS.input.MSRpar.txt",
            "a\tb\n\td\ne\tf\n",
            "STS12",
            r"STS12 MSRpar: pair 2 lacks a sentence",
        ),
        (
            f"{YEAR}/STS.gs.MSRpar.txt",
            "1\nnan\n3\n",
            "STS12",
            r"line 2: gold score 'nan' is not a number",
        ),
        (
            f"{YEAR}/STS.input.MSRpar.txt",
            "a\tb\nc d\ne\tf\n",
            "STS12",
            r"line 2: 1 tab-separated fields, expected 2",
        ),
        (
            f"{YEAR}/STS.input.MSRpar.txt",
            b"a\tb\nc\xff\td\ne\tf\n",
            "STS12",
            r"line 2: byte 0xff is not valid utf-8",
        ),
        (
            "downstream/SICK/SICK_test_annotated.txt",
            "header\n",
            "SICK-R",
            r"0 pairs, the manifest expects 3",
        ),
        (
            "downstream/SICK/SICK_test_annotated.txt",
            "h\n" + "1\ta\tb\t\tN\n" * 3,
            "SICK-R",
            r"line 2: gold score ''",
        ),
        (
            "downstream/STS/STSBenchmark/sts-test.csv",
            "g\tf\ty\t1\t5\ta\n" * 2,
            "STS-B",
            r"line 1: 6 tab-separated",
        ),
        ("manifest.json", '{"name": "x"}', "STS12", r'lacks a name or a table "sts"'),
        ("manifest.json", "{", "STS12", "not a readable JSON file"),
        ("manifest.json", '{"name": "x", "sts": {}}', "STS12", "data set x has no task STS12"),
    ],
)
def test_wrong_files_are_named(
    name: str, content: str | bytes | None, task: str, problem: str, folder: Path
) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        put(folder, name, content)
    with pytest.raises(UserError, match=problem):
        sts.read(task, folder)


def test_unknown_names(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(UserError, match=r"unknown STS task 'STS17'; did you mean 'STS1\d'"):
        sts.read("STS17", folder)
    with pytest.raises(UserError, match="STS12 has no split 'dev'; it has only test"):
        sts.read("STS12", folder, "dev")
    with pytest.raises(UserError, match="SICK-R has no split 'trial'; it has train, dev and test"):
        sts.read("SICK-R", folder, "trial")
    with pytest.raises(
        UserError, match="has no folder downstream/; set the data folder with --data or BENCH_DATA"
    ):
        sts.read("STS12", tmp_path_factory.mktemp("empty"))


# --- the real files
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, -1, "3", 3.0, None, True])
def test_a_size_that_is_none_is_the_manifests_fault(folder: Path, size: object) -> None:
    content = json.loads((folder / "manifest.json").read_text())
    content["sts"]["STS12"]["MSRpar"] = size
    (folder / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"gives STS12 .* in 'MSRpar'; use a positive integer"):
        sts.read("STS12", folder)


def test_the_shipped_manifest_adds_up() -> None:
    """Totals as the shared tasks publish them."""
    listed = manifest(Path("nowhere"))
    totals = {task: sum(counts.values()) for task, counts in listed["sts"].items()}
    assert tuple(totals) == (*sts.TASKS, "CNSD-STS-B") == tuple(listed["source"])[:8]
    assert totals == {
        "STS12": 3108,
        "STS13": 1500,
        "STS14": 3750,
        "STS15": 3000,
        "STS16": 1186,
        "STS-B": 8628,
        "SICK-R": 9927,
        "CNSD-STS-B": 8050,
    }


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("BENCH_DATA"), reason="BENCH_DATA is not set")
def test_the_real_files() -> None:
    data = Path(os.environ["BENCH_DATA"])
    listed = manifest(data)["sts"]
    for task in sts.TASKS:
        for split in sts.SPLITS if task in ("STS-B", "SICK-R") else ("test",):
            read = sts.read(task, data, split)
            expected = (
                [listed[task][split]]
                if task in ("STS-B", "SICK-R")
                else list(listed[task].values())
            )
            assert [len(subset.gold) for subset in read.subsets] == expected
            for subset in read.subsets:
                assert len(subset.first) == len(subset.second) == len(subset.gold)
                assert all(
                    text and text == " ".join(text.split()) for text in subset.first + subset.second
                )
                assert 0 <= subset.gold.min() < subset.gold.max() <= 5
                if task != "SICK-R":
                    assert all(text == text.lower() for text in subset.first + subset.second)
    if manifest(data)["name"] == "senteval":
        assert len(sentences([sts.read(task, data) for task in sts.TASKS])) == 26083
