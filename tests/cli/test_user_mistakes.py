"""A user's mistake is one sentence that names the field, the value and what to do, with status 2.

A mistake is a command line, or the content of a configuration that `plan` reads: changes of
`CONFIG`, or its text.
"""

import json
from pathlib import Path

import pytest
import yaml

from tests.support.programs import ROOT
from tests.support.tiny_suite import tiny_configuration

TOY = str(ROOT / "bench/world/backbones/toy-bert")
CONFIG = tiny_configuration("toy-bert", "world", "world", methods=["simcse"])
TEXT = yaml.safe_dump(CONFIG)
TRAIN = ["train", "simcse", "toy-bert", "--corpus", "world", "--data", "world", "--suite", "s"]
EVALUATE = ["evaluate", TOY, "--data", "mydata", "--out", "o.json"]
ROW = ["gs-infonce-v2", "Table 2", "--row"]

CONFIGURATIONS = [
    (
        {"tasks": None, "tsaks": ["sts"], "x": 1},
        "suite.yaml: unknown key 'tsaks'; did you mean",
        "'tasks'?",
        "'x' is unknown",
        "'tasks' is missing",
    ),
    ({"methods": [{"method": "simcse", "seed": [1]}]}, "methods.0: unknown key 'seed'", "'seeds'?"),
    ({"methods": ["simsce"]}, "unknown method 'simsce'; did you mean 'simcse'?", "BENCH_METHODS"),
    ({"methods": ["simcse@offical"]}, "unknown setting 'offical' in", "did you mean 'official'?"),
    ({"methods": ["simcse[temprature=1]"]}, "unknown key 'temprature' of", "'temperature'?"),
    ({"recipe": {"batch_size": "many"}}, "'recipe.batch_size' should be a", "not 'many'"),
    ({"tasks": ["STS17"]}, "unknown task 'STS17'; did you mean 'STS1"),
    ({"backbones": {"bert-base-uncasd": None}}, "unknown backbone", "'bert-base-uncased'?"),
    ({"compare": {"baseline": "sscl"}}, "'compare.baseline'", "'sscl' is not planned", "simcse"),
    ({"corpus": "./nothing.txt"}, "corpus './nothing.txt' is not a file; give a text file"),
    ({"data": "./nodata"}, "data folder nodata does not exist; name a folder"),
    ({"seeds": 3}, "'seeds' should be a valid list, not 3; write [1, 2, 3]"),
    ({"backbones": ["toy-bert"]}, "'backbones' should be a map; write {NAME: }"),
    (
        TEXT.replace("methods:", "methods: [simcse[dropout=0.2], simcse]\nx:"),
        "it is not YAML",
        "write a text with brackets in quotes",
    ),
    (TEXT + "seeds: [3]\n", "suite.yaml: line 12: duplicate key 'seeds'; keep one"),
    ("suite: mine\n\tdata: world\n", "line 2", "indent with spaces, not tabs"),
]

COMMANDS = [
    (["evalute"], "no such command 'evalute'", "'evaluate'?", "see sentbench --help"),
    (["job"], "missing option '--suite'; see sentbench job --help"),
    (TRAIN, "'simcse' is trained, so it needs", "--seed 42"),
    ([*TRAIN, "--recipe", "batch_size"], "'batch_size'", "write key=value"),
    ([*TRAIN, "--tasks"], "--tasks needs a value"),
    ([*TRAIN, "--mode", "tset"], "'tset' is unknown; did you mean 'test'?"),
    (["plan", "nothing.yaml"], "'nothing.yaml' is no suite", "its folder or its YAML file"),
    (["plan", "results/smok"], "'results/smok' is no suite; did you mean 'smoke'? (known: "),
    (["run", "--cores", "2", "c.yaml"], "'--cores' is no suite", "give a suite's name"),
    (
        ["status", "smok"],
        "plan.json does not exist; did you mean 'smoke'?",
    ),
    (["evaluate", TOY, "--out", "x.csv"], "x.csv: name a FILE.json or a folder", "--format csv"),
    (["evaluate", "mine.py:encode"], "'mine.py:encode' is no module:function; write mine:encode"),
    ([*EVALUATE, "--pooler", "mean"], "unknown pooler 'mean'; did you mean 'avg'?"),
    ([*EVALUATE, "--pooler", "avg", "--tasks", ","], "'tasks' names no task"),
    ([*EVALUATE, "--pooler", "avg"], "mydata/manifest.json is not a manifest ('name' is missing)"),
    (["show", "gs-infonce-v3", "Table 2"], "unknown paper", "did you mean 'gs-infonce-v2'?"),
    (["reproduce", *ROW, "SimCES", "--dry-run"], "has no row 'SimCES'; did you mean 'SimCSE'?"),
    (
        ["reproduce", *ROW, "SimCSE", "--backbone", "bert-base"],
        "prints no 'SimCSE' on 'bert-base'; did you mean 'bert-base-uncased'? (known:",
    ),
    (["check-method", "missing.py"], "missing.py does not exist or is no .py file; give a file"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with a data folder that has a fault."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_METHODS", raising=False)
    Path("mydata/downstream").mkdir(parents=True)
    Path("results/smoke/scores").mkdir(parents=True)
    Path("results/smoke/plan.json").touch()
    Path("mine.py").touch()
    Path("mydata/manifest.json").write_text(json.dumps({"sts": {"STS-B": {"test": 1}}}))
    return tmp_path


@pytest.mark.parametrize("row", CONFIGURATIONS + COMMANDS, ids=lambda row: row[1][:40])
def test_a_mistake_is_one_sentence(row, folder, said):
    mistake, *parts = row
    before = sorted(folder.rglob("*"))
    words = mistake
    if not isinstance(mistake, list):
        text = mistake
        if isinstance(mistake, dict):
            values = (CONFIG | mistake).items()
            text = yaml.safe_dump({key: value for key, value in values if value is not None})
        before = sorted([*before, folder / "suite.yaml"])
        (folder / "suite.yaml").write_text(text)
        words = ["plan", "suite.yaml", "--out", "plan.json"]
    printed = said(*words, status=2)
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert [part for part in parts if part not in printed.err] == [], printed.err
    assert sorted(folder.rglob("*")) == before


def test_a_valid_configuration_says_what_it_plans(folder, said):
    values = CONFIG | {"methods": ["simcse", "word-overlap", "sscl"], "seeds": [1, 2, 3]}
    (folder / "suite.yaml").write_text(yaml.safe_dump(values | {"compare": "simcse"}))
    first, second = said("plan", "suite.yaml").out.splitlines()
    assert first == "tiny: 7 runs, 6 trainings, 3 methods, 1 backbone, 3 seeds"
    assert second.startswith("1 claim; seeds planned for both sides: 3;")
    (folder / "suite.yaml").write_text(TEXT)
    assert said("plan", "suite.yaml").out.endswith(", 1 seed\nno claims\n")
