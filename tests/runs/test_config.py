"""Suite configurations: validation errors, expansion of sweeps, and the shipped suites."""

from __future__ import annotations

import socket
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.registry.methods import method_classes
from bench.runs import config as suites
from bench.runs.run import Run
from bench.utils.errors import UserError

ROOT = Path(__file__).parents[2]
SHIPPED = sorted(path for path in (ROOT / "config").glob("*.yaml") if path.name != "schema.yaml")
SEEDS = {"bert-base-uncased": 8, "bert-large-uncased": 5, "roberta-base": 8, "roberta-large": 5}
LARGE = "roberta-large"
ROBERTA = {"roberta-base", LARGE}
SWEEP = {
    "method": "is-cse[alpha={a},buffer={b}]",
    "sweep": {"a": [*range(100)], "b": [*range(200)]},
}


def suite(**changes: Any) -> dict[str, Any]:
    """A small valid configuration with some keys changed; None removes one."""
    content: dict[str, Any] = {
        "suite": "mine",
        "data": "world",
        "corpus": "world",
        "tasks": ["sts"],
        "seeds": [1, 2],
        "backbones": {"toy-bert": None, "toy-roberta": {"seeds": [7]}},
        "methods": ["simcse"],
    }
    content |= changes
    return {key: value for key, value in content.items() if value is not None}


def simcse(**keys: Any) -> dict[str, Any]:
    return {"methods": [{"method": "simcse", **keys}]}


def load(content: Any, folder: Path) -> dict[str, Any]:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(content))
    return suites.load(path)


def runs(**changes: Any) -> list[Run]:
    content = suite(**changes)
    suites.validate(content)
    return suites.runs(content)


# Mistakes


@pytest.mark.parametrize(
    "changes",
    [{"tasks": ["STS-B", "MR"]}, {"tasks": ["sts:other"]}],
)
def test_tasks_missing_in_the_data_are_reported_before_anything_runs(
    changes: dict[str, Any], tiny_data: Path
) -> None:
    with pytest.raises(
        UserError,
        match=r"the data set \S+ has no task (MR|sts:other); choose another task or data set",
    ):
        runs(**{"data": str(tiny_data), "tasks": ["STS-B"]} | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"suite": None}, "'suite' is missing at the top level"),
        ({"seeds": None}, "'seeds' is missing at the top level"),
        ({"bakbones": {"toy-bert": None}}, "unknown key 'bakbones'; did you mean 'backbones'?"),
        ({"suite": "My Suite"}, "'suite' is 'My Suite', which is invalid; use small letters,"),
        ({"tasks": ["TRECC"]}, "unknown task 'TRECC'; did you mean 'TREC'?"),
        ({"tasks": []}, "'tasks' is [], which is invalid; list tasks by name, or groups of them:"),
        ({"mode": "tset"}, "'mode' is 'tset', which is invalid; name how classifiers are trained"),
        ({"seeds": []}, "'seeds' is [], which is invalid; list at least one seed"),
        ({"seeds": [1, -1]}, "'seeds.1' is -1, which is invalid; seeds are whole numbers from 0"),
        ({"seeds": [1, 1]}, "'seeds' has 1 twice; keep one"),
        ({"seeds": [1.5]}, "'seeds.0' is 1.5"),
        ({"seeds": "42"}, "'seeds' is '42', which is invalid"),
        ({"seeds": [1.0]}, "'seeds.0' is 1.0, which is invalid; seeds are whole numbers from 0"),
        ({"seeds": [1e23]}, "'seeds.0' is 1e+23, which is invalid"),
        ({"seeds": [2**63]}, "'seeds.0' is 9223372036854775808, which is invalid"),
        ({"seeds": [True]}, "'seeds.0' is true, which is invalid"),
        ({"seeds": [1, None]}, "'seeds.1' is null, which is invalid"),
        ({"suite": "att\n"}, "which is invalid; use small letters, digits and dashes"),
        ({"suite": "reference"}, "reference is taken, for the intervals of make smoke"),
        ({"suite": "a" * 81}, "which is invalid; use small letters, digits and dashes, at most 80"),
        ({"tasks": ["sts", "TREC", "sts"]}, "'tasks' has 'sts' twice; keep one"),
        (simcse(sweep={"x": [1, 1]}), "'methods.0.sweep.x' has 1 twice; keep one"),
        (simcse(backbones=[]), "'methods.0.backbones' is [], which is invalid; write"),
        ({"data": "/nowhere"}, "data folder /nowhere does not exist; name a folder in"),
        (simcse(seeds=[-1]), "'methods.0.seeds.0' is -1, which is invalid"),
        ({"tasks": ["sts", "xprobe"]}, "the embedded world has no 'xprobe-Length'; remove it from"),
        ({"backbones": {}}, "'backbones' is {}, which is invalid"),
        ({"backbones": {"": None}}, "'backbones' is '', which is invalid; name each backbone"),
        ({"backbones": {"toy-bert": {"seed": [1]}}}, "toy-bert.seed'; did you mean 'seeds'"),
        ({"backbones": ["toy-bert"]}, "'backbones' is ['toy-bert'], which is invalid; map each"),
        ({"methods": []}, "'methods' is [], which is invalid; list at least one method"),
        ({"methods": [3]}, "'methods.0' is 3, which is not a string; put it in quotes"),
        ({"methods": [["simcse"]]}, "'methods.0' is ['simcse'], which is invalid; write a method"),
        ({"suite": 1}, "'suite' is 1, which is not a string; put it in quotes"),
        ({"suite": date(2020, 1, 1)}, "'suite' is 2020-01-01, which is not a string; put it in"),
        ({"corpus": True}, "'corpus' is true, which is not a string; put it in quotes"),
        (simcse(sweeps={}), "unknown key 'methods.0.sweeps'; did you mean 'sweep'?"),
        ({"methods": [{"seeds": [1]}]}, "'methods.0' is {'seeds': [1]}, which is invalid; write a"),
        (simcse(settings=["offical"]), "'methods.0.settings.0' is 'offical'"),
        (simcse(sweep={"x": 3}), "'methods.0.sweep.x' is 3, which is invalid"),
        ({"recipe": {"batch_sise": 3}}, "field 'batch_sise'; did you mean 'batch_size'?"),
        ({"recipe": {"batch_size": "many"}}, "'batch_size' should be a whole number, not 'many'"),
        ({"compare": {"basline": "simcse"}}, "'baseline' is missing at compare"),
        (simcse(tasks=["TRECC"]), "unknown task 'TRECC'; did you mean 'TREC'?"),
        (simcse(analyses=["layer"]), "unknown analysis 'layer'; did you mean 'layers'"),
        (simcse(analyses=[]), "'methods.0.analyses' is [], which is invalid; list"),
        ({"stand_ins": {"toy-bart": "bert-base-uncased"}}, "'stand_ins.toy-bart' is not among the"),
        ({"stand_ins": {"toy-bert": "bert-base"}}, "is 'bert-base', which no paper reports; "),
        ({"stand_ins": {"toy-bert": [LARGE], "toy-roberta": LARGE}}, "two backbones stand in for"),
        ({"stand_ins": {"toy-bert": []}}, "'stand_ins.toy-bert' is [], which is invalid; name the"),
        ({"stand_ins": {"toy-bert": "glove"}}, "no paper reports; did you mean 'glove.6B.300d'?"),
    ],
)  # fmt: skip
def test_schema_errors_name_the_key(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load(suite(**changes), tmp_path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"configuration {tmp_path / 'config.yaml'}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "baseline",
    [
        "simcse[temperature=0.1]",
        "simcse[ temperature=0.10, pooler=cls_mlp ]@official",  # its own pooler
        "sscl",
        "sscl@official",
    ],
)
def test_the_baseline_may_be_written_as_the_methods_are(baseline: str) -> None:
    methods = ["simcse[temperature=0.1,pooler=cls_mlp]", "sscl"]
    assert runs(methods=methods, compare={"baseline": baseline})


@pytest.mark.parametrize(
    ("tasks", "stem"),
    [
        (["sts", "transfer"], "compare"),
        (["MR", "TREC"], "compare_transfer"),
        (["probing"], "compare_probing"),
        ([], ""),
    ],
)
def test_the_comparison_is_of_the_first_board_that_it_has(tasks: list[str], stem: str) -> None:
    compare = {"baseline": "simcse"} if tasks else None
    content = suite(methods=["simcse", "sscl"], tasks=tasks or ["sts"], compare=compare)
    suites.validate(content)
    assert suites.comparison(content, suites.planned(content)) == stem


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ["simsce"]}, "unknown method 'simsce'; did you mean 'simcse'?"),
        (simcse(backbones=["toy-brt"]), "did you mean 'toy-bert'?"),
        ({"methods": ["sscl[stack={n}]"]}, "'{n}' must be both in 'sscl[stack={n}]' and in its"),
        (simcse(sweep={"t": [1]}), "'{t}' must be both in"),
        ({"backbones": {"toy-brt": None}}, "unknown backbone 'toy-brt'; did you mean 'toy-bert'?"),
        ({"methods": [SWEEP]}, "'is-cse[alpha={a},buffer={b}]' has 20000 combinations"),
        ({"compare": {"baseline": "simsce"}}, "'compare.baseline': 'simsce' is not planned; did"),
        ({"compare": {"baseline": "simcse@paper"}}, "'simcse@paper' is not planned"),
        ({"compare": {"baseline": "simcse[layers=99]"}}, "did you mean 'simcse'"),
        ({"compare": {"baseline": "simcse"}}, "no other method is scored on the tasks and a backb"),
        (
            {"methods": [{"method": "simcse", "tasks": ["MR"]}, "sscl"],
             "compare": {"baseline": "simcse"}},
            "no other method is scored on the tasks and a backbone of 'simcse'; add one to",
        ),
        ({"methods": [{"method": "simcse@paper", "settings": ["paper"]}]}, "names its setting"),
        (
            {"methods": ["simcse[dropout=0.2]"], "compare": {"baseline": "simcse@official"}},
            "did you mean 'simcse[dropout=0.2]",
        ),
        ({"corpus": "wiki2m"}, "corpus 'wiki2m' is not on the hub; did you mean 'wiki1m'?"),
        ({"methods": ["simcse[corpus=text.txt]"]}, "a text file by its path, as ./FILE.txt"),
        ({"methods": ["glove"]}, "'glove' needs a table of word vectors; add one to 'backbones'"),
        ({"methods": [{"method": "glove", "backbones": ["toy-bert"]}]}, "is a transformer"),
        *(
            ({"methods": [name], "corpus": "wiki1m"},
             f"'{name}' cannot be trained: corpus wiki1m has no list of documents; add wiki1m.docs")
            for name in ("cropping", "declutr", "skip-thought")
        ),
        ({"methods": ["sup-simcse[corpus=world]"]}, "corpus world has no labelled triples; use"),
        ({"tasks": ["sts:nope"]}, "'sts:nope' is a set of a data folder of your own"),
        ({"methods": ["simcse[select_on=sts:nope]"]}, "and 'data' is 'world'; set 'data' to the"),
    ],
)  # fmt: skip
def test_content_errors_name_the_key(
    changes: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BENCH_DATA", raising=False)
    with pytest.raises(UserError) as caught:
        runs(**changes)
    assert message in str(caught.value)


def test_a_corpus_at_hand_is_looked_at_for_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"methods": ["cropping"], "corpus": "mine"}
    (tmp_path / "mine.txt").write_text("one\ntwo\n")
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    for changes in (own, own | {"corpus": str(tmp_path / "mine.txt")}):
        with pytest.raises(UserError, match="corpus mine has no list of documents"):
            runs(**changes)
    (tmp_path / "mine.docs.tsv").write_text("first\tlines\n1\t2\n")
    assert runs(**own)
    monkeypatch.delenv("BENCH_DATA")
    assert runs(methods=["cropping[unit=sentence]"], corpus="wiki1m")  # needs none


def test_an_empty_configuration_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.yaml: the file is empty"):
        load(None, tmp_path)


@pytest.mark.parametrize("content", ["", "a list", ["simcse"], 3])
def test_a_configuration_must_be_a_mapping(content: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'the top level' is .*; a configuration maps keys to"):
        load(content, tmp_path)


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing\.yaml does not exist"):
        suites.load(tmp_path / "missing.yaml")
    for name, content, remedy in (
        ("tabs.yaml", b"suite: a\n\tb: c", "indent with spaces, not tabs"),
        ("latin.yaml", b"suite: caf\xe9", "fix it"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=f"is not YAML .*; {remedy}$") as caught:
            suites.load(tmp_path / name)
        assert "\n" not in str(caught.value)
    (tmp_path / "deep.yaml").write_text("suite: " + 5000 * "[")
    with pytest.raises(UserError, match=r"deep\.yaml is nested too deeply; use fewer levels"):
        suites.load(tmp_path / "deep.yaml")


def test_the_largest_seed_is_valid() -> None:
    assert [run.seed for run in runs(seeds=[0, 2**63 - 1], backbones={"toy-bert": None})] == [
        0,
        2**63 - 1,
    ]


def test_xprobe_tasks_need_other_data_than_the_world() -> None:
    suites.validate(suite(data="senteval", tasks=["xprobe"]))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("seeds: [3]", "duplicate key 'seeds'; keep one"),
        ("recipe: {epochs: 1, epochs: 2}", "duplicate key 'epochs'; keep one"),
        ("recipe: {1: 2}", "a key is not a string; put it in quotes"),
        ("recipe: {on: 2}", "a key is not a string; put it in quotes"),
        ("recipe: {[a]: 2}", "a key is not a string; put it in quotes"),
        *(
            (f"recipe: {{epochs: {number}}}",
             f"'{number}' is not a plain whole number; write it in decimal digits, or put it in "
             "quotes")
            for number in ("010", "1:30", "1_000", "0x10", "0b1")
        ),
    ],
)  # fmt: skip
def test_keys_and_numbers_that_yaml_reads_otherwise_are_reported_with_their_line(
    line: str, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"suite: mine\nseeds: [1]\n{line}\n")
    with pytest.raises(UserError) as caught:
        suites.load(path)
    assert str(caught.value) == f"configuration {path}, line 3: {sentence}"


def test_aliases_and_merged_maps_are_read(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a\n")
    assert suites.read(path) == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 3},
        "c": {"x": 1, "y": 2},
    }


def test_yaml_runs_no_code(tmp_path: Path) -> None:
    (tmp_path / "evil.yaml").write_text(
        f"suite: !!python/object/apply:os.mkdir ['{tmp_path / 'ran'}']\n"
    )
    with pytest.raises(UserError, match="is not YAML"):
        suites.load(tmp_path / "evil.yaml")
    assert not (tmp_path / "ran").exists()


# Unfolding


def test_backbones_and_their_seeds() -> None:
    found = [(run.backbone.name, run.seed) for run in runs()]
    assert found == [("toy-bert", 1), ("toy-bert", 2), ("toy-roberta", 7)]
    found = [
        (run.backbone.name, run.seed) for run in runs(methods=[{"method": "simcse", "seeds": [9]}])
    ]
    assert found == [("toy-bert", 9), ("toy-roberta", 9)]
    one = runs(methods=[{"method": "simcse", "backbones": ["toy-roberta"]}])
    assert [(run.backbone.name, run.seed) for run in one] == [("toy-roberta", 7)]
    assert runs(methods=[{"method": "simcse", "backbones": "all"}]) == runs()


def test_an_entry_runs_on_all_backbones_of_a_matching_kind() -> None:
    both = {"toy-glove": None, "toy-bert": None, "toy-roberta": None}
    entries = [
        "glove",
        {"method": "simcse", "seeds": [1]},
        {"method": "untrained", "backbones": "all"},
        "word-overlap",
    ]
    found = [(run.text, run.backbone.name) for run in runs(backbones=both, methods=entries)]
    assert found == [
        ("glove", "toy-glove"),
        ("simcse", "toy-bert"),
        ("simcse", "toy-roberta"),
        ("untrained", "toy-bert"),
        ("untrained", "toy-roberta"),
        ("word-overlap", "none"),
    ]
    swept = {"method": "{name}", "sweep": {"name": ["glove", "untrained"]}}
    assert [run.backbone.name for run in runs(backbones=both, methods=[swept])] == [
        "toy-glove",
        "toy-bert",
        "toy-roberta",
    ]
    assert (
        len(runs(backbones={"toy-glove": None}, methods=["word-overlap", "skip-thought"])) == 1 + 2
    )


def test_sweeps_expand_to_every_combination() -> None:
    entry = {
        "method": "is-cse[alpha={alpha},buffer={buffer}]",
        "sweep": {"alpha": [0.01, 0.05], "buffer": [64, 256, 512]},
        "settings": ["paper", "official"],
        "seeds": [1],
        "backbones": ["toy-bert"],
    }
    found = runs(methods=[entry])
    wanted = {
        (s, a, b) for s in ("paper", "official") for a in (0.01, 0.05) for b in (64, 256, 512)
    }
    assert {
        (run.setting, run.parts[0][2]["alpha"], run.parts[0][2]["buffer"]) for run in found
    } == wanted
    assert len(found) == 12


def test_duplicate_entries_run_once() -> None:
    assert len(runs(methods=["simcse", "simcse[temperature=0.05]", "simcse@official"])) == len(
        runs()
    )
    assert len(runs(methods=["untrained"])) == 2  # no seed
    assert len(runs(methods=["word-overlap"])) == 1  # no backbone either


def test_the_recipe_of_a_suite_applies_to_every_run() -> None:
    found = runs(
        recipe={"batch_size": 7, "learning_rate": 1}, methods=["simcse", "gs-infonce", "sscl@paper"]
    )
    assert {(run.recipe.batch_size, run.recipe.learning_rate) for run in found} == {(7, 1.0)}
    assert all(run.recipe_changes == {"batch_size": 7, "learning_rate": 1.0} for run in found)


def test_entries_that_resolve_to_one_run_are_merged() -> None:
    content = suite(
        methods=[
            "simcse",
            {
                "method": "simcse[batch_size=64]@official",
                "seeds": [2],
                "analyses": ["layers"],
                "tasks": ["TREC", "sts"],
            },
            {"method": "sscl", "backbones": ["toy-bert"], "tasks": ["probing"]},
            {"method": "simcse", "backbones": ["toy-bert"], "analyses": ["layers", "memory"]},
        ]
    )
    suites.validate(content)
    found = {
        (run.run.text, run.run.backbone.name, run.run.seed): run for run in suites.planned(content)
    }
    assert len(found) == len(suites.runs(content)) == 3 + 1 + 2
    both = found["simcse", "toy-bert", 2]
    assert (both.tasks, both.analyses) == (("sts", "TREC"), ("layers", "memory"))
    alone = found["simcse", "toy-bert", 1]
    assert (alone.tasks, alone.analyses) == (("sts",), ("layers", "memory"))
    assert (found["sscl", "toy-bert", 1].tasks, found["simcse", "toy-roberta", 7].analyses) == (
        ("probing",),
        (),
    )
    entry = next(run for run in suites.plan(content)["runs"] if run["id"] == both.run.id)
    assert (entry["tasks"], entry["analyses"]) == (["sts", "TREC"], ["layers", "memory"])


def test_a_plan_is_json_serialisable() -> None:
    import json

    content = suite(
        stand_ins={
            "toy-bert": "bert-base-uncased",
            "toy-roberta": ["roberta-base", "roberta-large"],
        }
    )
    suites.validate(content)
    plan = suites.plan(content)
    assert json.loads(json.dumps(plan)) == plan
    toys = {
        "bert-base-uncased": "toy-bert",
        "roberta-base": "toy-roberta",
        "roberta-large": "toy-roberta",
    }
    assert plan["stand_ins"] == toys
    assert [run["id"] for run in plan["runs"]] == [run.id for run in suites.runs(content)]


# What is shipped


@pytest.fixture
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a plan needs no network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.usefixtures("_no_network")
@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_shipped_suites_resolve_without_network(
    path: Path, tiny_bert: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    # wiki-mini's backbone is a user's; any folder of that name will do here.
    (tmp_path / "wiki-minilm").symlink_to(tiny_bert)
    monkeypatch.setenv("BENCH_MODELS", str(tmp_path))
    content = suites.load(path)
    found = suites.runs(content)
    assert content["suite"] == path.stem
    assert len({run.id for run in found}) == len(found) > 5
    assert all(run.recipe.batch_size > 0 and run.skip is None for run in found)
    for run in found:
        run.build()


def test_the_paper_suite_covers_the_papers() -> None:
    found = suites.runs(suites.load(ROOT / "config" / "paper.yaml"))
    per_row = Counter((run.text, run.setting, run.backbone.name) for run in found if run.trained)
    ten = [
        (text, "official", "roberta-large") for text in ("simcse", "dclr", "is-cse")
    ]  # IS-CSE, Figure 5
    assert {row for row, count in per_row.items() if count == 10} == set(ten)
    assert all(count in (3, 10, SEEDS[row[2]]) for row, count in per_row.items())
    judged = dict.fromkeys(("simcse", "gs-infonce", "is-cse"), SEEDS)
    judged |= dict.fromkeys(("sscl", "sscl[positive=self]"), SEEDS.keys() - ROBERTA)
    for text, names in judged.items():
        assert all(per_row[text, "official", name] >= SEEDS[name] for name in names)
    for text in ("simcse", "gs-infonce", "is-cse"):
        for setting in ("official", "paper"):
            assert {
                name for run_text, own, name in per_row if (run_text, own) == (text, setting)
            } == set(SEEDS)
    assert {name for text, _, name in per_row if text.startswith("sscl")} == {
        "bert-base-uncased",
        "bert-large-uncased",
    }
    multiples = {
        run.parts[0][2]["multiple"]
        for run in found
        if run.parts[0][0] == "gs-infonce" and run.setting == "official"
    }
    assert multiples == {0, 0.5, 1, 1.5, 2, 3, 4, 8, 16}  # Table 3; 1.5 is roberta-large's own
    texts = {
        text
        for text, setting, name in per_row
        if (setting, name) == ("official", "bert-base-uncased")
    }
    # Figures 3a and 3b of SSCL; 0 of either is SimCSE, a stack of 1 is layer 11, of 2 the default.
    assert texts >= {f"sscl[layer={layer}]" for layer in range(1, 12)} | {
        f"sscl[stack={k}]" for k in range(3, 12)
    }
    assert not texts & {"sscl[layer=0]", "sscl[stack=0]", "sscl[stack=1]", "sscl[stack=2]"}
    assert not any(run.recipe_changes for run in found)  # its runs are the papers', unchanged
    assert {run.corpus for run in found if run.trained and not run.own_corpus} == {"wiki1m"}
    assert {run.corpus for run in found if run.trained and run.own_corpus} == {
        "nli",
        "sts",
    }  # IS-BERT, ConSERT


def test_the_smoke_suite_sets_every_key_of_the_paper_suite() -> None:
    """Snakemake merges configurations: a key missing here would be taken from the paper suite."""
    smoke, paper = (suites.load(ROOT / "config" / f"{name}.yaml") for name in ("smoke", "paper"))
    assert paper.keys() <= smoke.keys()
    assert not set(smoke["backbones"]) & set(paper["backbones"])
    found = suites.runs(smoke)
    assert {run.backbone.source for run in found} == {"toy", "none"}
    assert {run.data for run in found} == {"world"}
    assert {run.corpus for run in found if run.trained} == {
        "world",
        "world-nli",
        "sts",
        "cnsd",
    }  # the last two are made of it
    methods = {name for run in found for name, _, _ in run.parts}
    assert methods == set(method_classes()) - {
        "published"
    }  # what others trained cannot be made here
    compositions = {
        "+".join(name for name, _, _ in run.parts) for run in found if len(run.parts) > 1
    }
    assert compositions == {
        "gs-infonce+is-cse",
        "is-cse+simcse-plus-plus",
        "gs-infonce+sscl",
        "is-cse+sscl",
        "dclr+is-cse",
        "cards+is-cse",
        "simcse+cards",
        "untrained+whitening",
        "untrained+flow",
        "untrained+projection",
    }


def test_reseeded_runs_have_only_the_new_seeds() -> None:
    content = suite(methods=["simcse", {"method": "is-cse", "seeds": [9]}])
    found = suites.runs(suites.reseeded(content, range(1, 4)))
    assert len(found) == 2 * 2 * 3
    assert {run.seed for run in found} == {1, 2, 3}
