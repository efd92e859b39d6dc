"""STS sets that a data folder's manifest describes: Chinese STS-B and a user's own, in any
language."""

import json
import re
from functools import partial

import pytest

from bench.datasets import corpora, sts
from bench.datasets.tasks import expand_tasks
from bench.evaluation.scoring import read_tasks, score_tasks
from bench.runs import config as suites
from bench.runs import paths
from bench.utils.files import write_json
from tests.support.data_files import put
from tests.support.refusals import refused
from tests.support.tiny_suite import tiny_configuration
from tests.support.tiny_tasks import Words

CNSD = {"path": "CNSD-STS-B/cnsd-sts-{split}.txt", "separator": "||", "columns": [1, 2, 3]}
ROWS = ["1||一只猫||一只狗||2", "2||一条河||一条 路||5", "3||男人||女人||0"]
GERMAN = {"path": "german/{split}/pairs.tsv", "columns": [1, 2, 0], "header": True}
GERMAN_ROWS = ["gold\tA\tB", "0.5\tein Hund\teine Katze", "4\tein Haus\tdas Haus"]


def put_rows(folder, name, rows):
    put(folder, f"downstream/{name}", "".join(f"{row}\n" for row in rows))


@pytest.fixture
def folder(tmp_path):
    """Chinese STS-B of three pairs, and a German set with a header and without a training part."""
    for split, rows in {"train": ROWS, "dev": ROWS[:2], "test": ROWS}.items():
        put_rows(tmp_path, f"CNSD-STS-B/cnsd-sts-{split}.txt", rows)
    put_rows(tmp_path, "german/test/pairs.tsv", GERMAN_ROWS)
    sizes = {"CNSD-STS-B": {"train": 3, "dev": 2, "test": 3}, "sts:german": {"test": 2}}
    files = {"CNSD-STS-B": CNSD, "sts:german": GERMAN}
    write_json(tmp_path / "manifest.json", {"name": "own", "sts": sizes, "sts_files": files})
    return tmp_path


def test_a_described_set_is_read_as_it_is_described(folder):
    (chinese,) = sts.read("CNSD-STS-B", folder, "test").subsets
    assert chinese.name == "CNSD-STS-B"
    assert chinese.first == ("一只猫", "一条河", "男人")
    assert chinese.second == ("一只狗", "一条 路", "女人")
    assert chinese.gold.tolist() == [2, 5, 0]
    (german,) = sts.read("sts:german", folder).subsets
    assert (german.first, german.second) == (("ein Hund", "ein Haus"), ("eine Katze", "das Haus"))
    assert german.gold.tolist() == [0.5, 4]
    # Its training pairs are a corpus.
    path = paths.Files(folder / "suite", str(folder)).corpus("cnsd")
    assert corpora.read_sentences(path) == ["一只猫", "一只狗", "一条河", "一条 路", "男人", "女人"]
    assert corpora.corpus_identity(path)["name"] == "cnsd"


def test_repeated_pairs_are_counted(folder, capsys):
    """A pair of another order is another pair; sets that are published stay as they are."""
    pairs = ["1\ta\tb", "2\ta\tb", "2\ta\tb", "0\tb\ta", "3\tc\td"]
    put_rows(folder, "german/test/pairs.tsv", [GERMAN_ROWS[0], *pairs])
    put_rows(folder, "CNSD-STS-B/cnsd-sts-test.txt", [*ROWS[:1] * 2, ROWS[1]])
    listed = json.loads((folder / "manifest.json").read_text())
    listed["sts"]["sts:german"]["test"] = len(pairs)
    write_json(folder / "manifest.json", listed)
    read_tasks(["CNSD-STS-B", "sts:german"], folder)
    assert re.findall(r"(\d+) pairs of (\S+) ", capsys.readouterr().err) == [("2", "sts:german")]


def test_it_is_in_no_other_group_and_in_no_average(folder):
    assert expand_tasks(["chinese", "CNSD-STS-B", "sts:german"]) == ["CNSD-STS-B", "sts:german"]
    records = score_tasks(Words(), read_tasks(["chinese", "sts:german"], folder))
    result = [(record["task"], record["split"], record["aggregation"]) for record in records]
    chinese = [("CNSD-STS-B", split, "all") for split in ("test", "dev")]
    assert result == [*chinese, ("sts:german", "test", "all")]


def describe(folder, tables=None, **form):
    """Describe the German set in the manifest, and read its test pairs."""
    content = {"name": "own", "sts": {"sts:german": {"test": 2}}}
    content["sts_files"] = {"sts:german": GERMAN | form}
    write_json(folder / "manifest.json", content | (tables or {}))
    (german,) = sts.read("sts:german", folder).subsets
    return german


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"tables": {"sts_files": {}}},
            "does not describe the files of sts:german; add them to 'sts_files'",
        ),
        ({"sperator": "|"}, "unknown key 'sperator'; did you mean 'separator'?"),
        ({"header": False}, "3 pairs with a gold score, the manifest expects 2"),
        ({"separator": "||"}, "1 fields between '||', expected 3 or more"),
        (
            {"path": "flat.tsv"},
            "sts:german: all gold scores are equal, so no rank correlation exist",
        ),
        (
            {"tables": {"sts": {"sts:german": {"dev": 2, "test": 2}}}, "path": "a.tsv"},
            "german share one path",
        ),
        ({"tables": {"sts": {"german": {"test": 2}}}}, "a set of your own is called sts:NAME"),
        (
            {"tables": {"sts": {"sts:german": {"../a": 2}}}},
            "'sts.sts:german.../a.[key]' should match pattern",
        ),
        ({"path": "../flat.tsv"}, "'../flat.tsv' leads out of downstream; correct"),
    ],
)
def test_a_wrong_description_is_named(change, problem, folder):
    put_rows(folder, "flat.tsv", ["gold\tA\tB", "3\ta\tb", "3.0\tc\td"])
    refused(lambda: describe(folder, **change), problem)


def test_gold_scores_of_any_range_are_scaled_to_that_of_all_sets(folder):
    """Pairs above 4 of 5 are positive in alignment and figures; ranks stay."""
    for bounds, expected in (
        [(0, 5), [0.5, 4]], [(-3, 4), [2.5, 5]], [(0.5, 10.5), [0, 1.75]],
    ):  # fmt: skip
        assert describe(folder, range=bounds).gold.tolist() == expected
    message = "'0.5' is not a number from 1 to 10, the 'range' of the set in manifest.json"
    refused(lambda: describe(folder, range=(1, 10)), message)


def test_fields_may_stand_in_quotes(folder):
    quoted = ['"0.5"\t"ein ""Hund"", alt"\teine\u00a0Katze', '4\t"ein\tHaus"\t"das\nHaus"']
    put_rows(folder, "german/test/pairs.tsv", [GERMAN_ROWS[0], *quoted])
    (german,) = sts.read("sts:german", folder).subsets
    assert german.first == ('ein "Hund", alt', "ein Haus")
    assert german.second == ("eine Katze", "das Haus")
    assert german.gold.tolist() == [0.5, 4]


def test_quotes_that_are_text_are_told_and_can_be_read(folder):
    put_rows(folder, "german/test/pairs.tsv", [*GERMAN_ROWS[:2], '4\t"Haus" sagt er\t"'])
    refused(
        lambda: sts.read("sts:german", folder), "line 3:", 'set "quoted": false in manifest.json'
    )
    german = describe(folder, quoted=False)
    assert (german.first[1], german.second[1]) == ('"Haus" sagt er', '"')


def test_a_separator_in_a_sentence_is_noticed(folder):
    put_rows(folder, "german/test/pairs.tsv", [*GERMAN_ROWS[:2], "4\tein\tHaus\tdas Haus"])
    expected = "line 3: 4 tab-separated fields, expected 3 as in the first"
    refused(lambda: sts.read("sts:german", folder), expected)


def test_a_training_whose_data_lack_its_dev_set_is_not_planned(folder):
    content = tiny_configuration("toy-bert", folder, "world", tasks=["sts:german"])

    def planned(*methods, select_on):
        changes = {"methods": list(methods), "recipe": {"select_on": select_on}}
        return len(suites.planned(suites.validate(content | changes)))

    assert planned("word-overlap", "untrained[pooler=avg]", select_on="STS-B") == 2  # no selection
    message = "the data set own has no dev set of {}, on which trainings select their weights; set "
    message += "'select_on' in 'recipe' to CNSD-STS-B"
    for select_on in ("STS-B", "sts:german"):
        methods = "simcse", f"simcse[select_on={select_on}]"
        refused(partial(planned, *methods, select_on="CNSD-STS-B"), message.format(select_on))
    assert planned("simcse", select_on="CNSD-STS-B") == 1
    (folder / "downstream" / "CNSD-STS-B" / "cnsd-sts-dev.txt").unlink()
    refused(lambda: planned("simcse", select_on="CNSD-STS-B"), "cnsd-sts-dev.txt does not exist")


@pytest.mark.slow
def test_the_real_chinese_sts_b(real_data):
    """docs/reference/methods.md#word-noise: 10,462 training sentences, 9,424 of them distinct."""
    sentences = corpora.cnsd_sentences(real_data)
    assert len(sentences) == 10_462
    assert len(set(sentences)) == 9_424
