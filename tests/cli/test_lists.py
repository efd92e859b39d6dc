"""The commands methods, tasks and papers."""

import pytest

from bench.cli.lists import hyper_parameters, methods_table, papers_table, tasks_table
from bench.datasets.tasks import TASKS
from bench.registry.methods import method_classes
from bench.reported import SOURCES
from methods.gs_infonce import GSInfoNCE
from methods.rankcse import RankCSE


@pytest.fixture(autouse=True)
def no_method_of_another(monkeypatch):
    monkeypatch.setenv("BENCH_METHODS", "")


def rows_by(key, rows):
    return {row[key]: row for row in rows}


def test_each_method_has_an_idea_of_at_most_eight_words():
    rows = methods_table()
    assert [row["name"] for row in rows] == sorted(method_classes())
    assert all(1 < len((row["idea"] or "").split()) <= 8 for row in rows)


def test_a_method_has_its_paper_its_code_and_the_backbones_of_its_settings():
    row = rows_by("name", methods_table())["cot-bert"]
    assert row["paper"] == "Zhang et al. 2024, arXiv 2309.11143"
    assert row["released code"] == "ZBWpro/CoT-BERT@3aa7bb4"
    assert row["own settings for"] == "roberta-base, roberta-large"


def test_hyper_parameters_and_recipe_fields_have_defaults_and_the_values_of_each_setting():
    rows = hyper_parameters(GSInfoNCE)
    names = [row.get("name") for row in rows]
    multiple, rate = names.index("multiple"), names.index("learning_rate")
    assert rows[multiple : multiple + 2] == [
        {"name": "multiple", "setting": "default", "value": "3",
         "meaning": "M, noise vectors per sentence"},
        {"setting": "official: roberta-large", "value": "1.5"},
    ]  # fmt: skip
    base, large = "bert-base-uncased", "bert-large-uncased"
    assert rows[rate + 1 : rate + 5] == [
        {"setting": f"paper: {base}, roberta-large", "value": "3e-05"},
        {"setting": f"paper and official: {large}, roberta-base", "value": "1e-05"},
        {"setting": f"official: {base}", "value": "3e-05"},
        {"setting": "official: roberta-large", "value": "2e-05"},
    ]


def test_choices_that_a_description_leaves_out_follow_it():
    (row,) = (row for row in hyper_parameters(RankCSE) if row.get("name") == "ranking")
    assert row["meaning"] == "form of the ranking: listmle, listnet"


def test_a_task_has_its_items_by_split_or_all_of_a_cross_validation():
    rows = rows_by("name", tasks_table())
    assert rows.keys() == TASKS.keys()
    for name, values in {
        "STS12": ("pairs", "spearman", 3108, None),
        "STS-B": ("pairs", "spearman", 1379, 1500),
        "MR": ("classifier", "accuracy", 10662, None),
        "xprobe-Depth": ("classifier", "accuracy", 10000, None),
    }.items():
        row = rows[name]
        fields = ("protocol", "metric", "test items", "dev items")
        assert tuple(row[field] for field in fields) == values
    assert all(row["source"] for row in rows.values())


def test_the_papers_have_all_printed_numbers():
    rows = rows_by("key", papers_table())
    assert rows.keys() == SOURCES.keys()
    assert sum(row["with a run"] for row in rows.values()) == 912
    assert rows["sscl"]["year"] == 2023
    assert rows["sscl"]["tables"].startswith("Table 1, Table 2,")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["methods"], "gs-infonce        Gaussian noise vectors as"),
        (["methods", "gs-infonce"], "GS-InfoNCE: Wu et al. 2021, arXiv 2109.04321; code"),
        (["tasks"], "STS-B                         sts       pairs       spearman  1379"),
        (["papers"], "sscl             Alleviating Over-smoothing"),
    ],
)
def test_the_commands_print_tables(words, text, said):
    assert text in said(*words).out
