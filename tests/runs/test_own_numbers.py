"""Printed numbers of a configuration: rows of its file, and what is wrong in them."""

import os

import pytest
import yaml

from bench.runs import config
from bench.runs.plan import Plan, PlannedNumber, read_plan
from bench.runs.run import Run
from tests.support.refusals import refused
from tests.support.tiny_suite import tiny_configuration

HEADER = "method,backbone,task,value"


def plan(folder, text, **changes):
    """The plan of a configuration beside a file with this text."""
    (folder / "my.csv").write_text(text, encoding="utf-8")
    changes = {"methods": ["simcse", "word-overlap"], "tasks": ["sts", "MR"]} | changes
    content = tiny_configuration("toy-bert", "world", "world", printed="my.csv", **changes)
    (folder / "my.yaml").write_text(yaml.safe_dump(content))
    return config.plan(config.load(folder / "my.yaml"))


def test_rows_name_methods_as_users_do(tmp_path):
    """Also in a file of a spreadsheet, with a byte-order mark and empty cells and lines."""
    text = "\ufeffmethod,backbone,task,value,split,metric,source,table\r\n"
    text += "SimCSE,toy-bert,Avg,77.60,,,,\r\n\r\nsimcse,toy-bert,MR,81,dev,accuracy,ours,A 1\r\n"
    text += "word-overlap,,STS12,50.1,,,,\r\n"
    planned = plan(tmp_path, text)
    common = {"backbone": "toy-bert", "run": "simcse@official"}
    assert planned.printed == [
        PlannedNumber(method="SimCSE", task="Avg", value="77.60", **common),
        PlannedNumber(
            method="simcse", task="MR", value=81, split="dev", metric="accuracy", source="ours",
            table="A 1", **common,
        ),
        PlannedNumber(method="word-overlap", task="STS12", value="50.1", run="word-overlap@paper"),
    ]  # fmt: skip
    assert Plan[Run].model_validate_json(planned.model_dump_json()) == planned
    planned.write(tmp_path / "plan.json")
    assert str(read_plan(tmp_path / "plan.json").printed[0].value) == "77.60"  # as printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("methd,backbone,task,value\nsimcse,toy-bert,Avg,7", "unknown key 'methd'; did you mean"),
        (f"{HEADER}\nsimcse,toy-bert,Avg,7,8", "unknown key 'without a heading'"),
        (f'{HEADER}\nsimcse,toy-bert,Avg,"77,66"', "'value' should be a valid decimal, not '77,66"),
        (f"{HEADER}\nsimcse,toy-bert,Avg,nan", "'value' should be a finite number, not 'nan'"),
        (f"{HEADER}\nsimsce,toy-bert,Avg,7", "'simsce' is not planned; did you mean 'simcse'?"),
        (
            f"{HEADER}\nsimcse,toy-bart,Avg,7",
            "line 2: backbone 'toy-bart': 'simcse' is not planned",
        ),
        (f"{HEADER}\nsimcse,toy-bert,Avg,0.33", "should be in points, such as 76.25, not 0.33"),
        (f"{HEADER}\nsimcse,toy-bert,MR,7", "no test spearman of 'MR' is planned (known: Avg"),
        (
            f"{HEADER},metric\nsimcse,toy-bert,MR,7,f1",
            "should be 'spearman' or 'accuracy', not 'f1",
        ),
        (
            f"{HEADER},source\nsimcse,toy-bert,Avg,7,sscl",
            "'sscl' has numbers in the project; choose",
        ),
    ],
)
def test_a_mistake_names_its_line(text, message, tmp_path):
    refused(lambda: plan(tmp_path, text), f"{tmp_path}/my.csv, line 2: ", message)


def test_a_number_stands_once_whatever_its_method_is_called(tmp_path):
    text = f"{HEADER}\nsimcse,toy-bert,Avg,77\n\nSimCSE,toy-bert,Avg,78\n"
    refused(lambda: plan(tmp_path, text), "my.csv, line 4: it repeats line 2; keep one")
    several = f"{HEADER},table\nsimcse,toy-bert,Avg,77,1\nsimcse,toy-bert,Avg,78,2\n"
    assert len(plan(tmp_path, several).printed) == 2


def test_files_that_cannot_be_read(tmp_path):
    unclosed = f'{HEADER}\nsimcse,toy-bert,Avg,"7\n'
    refused(lambda: plan(tmp_path, unclosed), "my.csv cannot be read (Error: unexpected end of dat")
    os.remove(tmp_path / "my.csv")
    message = "my.csv cannot be read (FileNotFoundError: "
    refused(lambda: config.plan(config.load(tmp_path / "my.yaml")), message)


def test_a_changed_file_is_the_next_plan(tmp_path):
    """Nothing is kept of the numbers before, although there are scores."""
    path = tmp_path / "plan.json"
    first = plan(tmp_path, f"{HEADER}\nsimcse,toy-bert,Avg,77\n")
    first.write(path)
    (tmp_path / "scores").mkdir()
    (tmp_path / "scores" / f"{first.runs[0].id}.json").write_text("{}")
    plan(tmp_path, f"{HEADER}\nsimcse,toy-bert,Avg,78\n").write(path)
    assert [float(number.value) for number in read_plan(path).printed] == [78.0]
