"""Suite configurations: validation errors, expansion of sweeps, and the shipped suites."""

import socket
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from bench.registry.methods import method_classes
from bench.reported.number import numbers
from bench.runs import config as suites
from tests.support.refusals import refused
from tests.support.tiny_suite import tiny_configuration

SHIPPED = sorted(suites.SUITES.glob("*.yaml"))
LARGE = "roberta-large"


def content(**changes):
    """A small valid configuration with some keys changed."""
    backbones = {"toy-bert": None, "toy-roberta": {"seeds": [7]}}
    given = {"seeds": [1, 2], "backbones": backbones, "methods": ["simcse"], **changes}
    return tiny_configuration("toy-bert", "world", "world", **given)


def suite(**changes):
    return suites.validate(content(**changes))


def runs(**changes):
    return suites.planned(suite(**changes))


def simcse(**keys):
    return {"methods": [{"method": "simcse", **keys}]}


# Refusals: further ones are in cli/test_user_mistakes.py.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"suite": "My Suite"}, "'My Suite' is no name of a suite; use small letters, digits and"),
        ({"tasks": ["sts", "TREC", "sts"]}, "tasks: 'sts' is listed twice; keep one"),
        ({"stand_ins": {"toy-bart": "roberta-base"}}, "'toy-bart' in 'stand_ins' is not in"),
        ({"stand_ins": {"toy-bert": "bert-base"}}, "is 'bert-base', which no paper reports; "),
        ({"stand_ins": {"toy-bert": [LARGE], "toy-roberta": LARGE}}, "stand_ins: 'roberta-large'"),
        ({"methods": ["sscl[stack={n}]"]}, "'{n}' must be both in 'sscl[stack={n}]' and in its"),
        (
            {"backbones": {"bert-base-uncased": None, "google-bert/bert-base-uncased": None}},
            "'bert-base-uncased' and 'google-bert/bert-base-uncased' have one name, bert-base-unc",
        ),
        ({"corpus": "wiki2m"}, "corpus 'wiki2m' is not on the hub; did you mean 'wiki1m'?"),
        ({"methods": ["simcse[corpus=text.txt]"]}, "a text file by its path, as ./FILE.txt"),
        ({"methods": ["glove"]}, "'glove' needs a table of word vectors; add one to 'backbones'"),
        ({"methods": ["declutr"], "corpus": "wiki1m"}, "corpus wiki1m has no list of documents"),
        (
            {"methods": ["skip-thought[distinct=1]"], "corpus": "world"},
            "'distinct' breaks up the corpus's documents; omit it",
        ),
        ({"methods": ["sup-simcse[corpus=world]"]}, "corpus world has no labelled triples; use"),
        ({"tasks": ["sts:nope"]}, "'sts:nope' is a set of a data folder of your own"),
        ({"methods": ["simcse[select_on=sts:nope]"]}, "and 'data' is 'world'; set 'data' to the"),
        ({"runs_per_job": 2, "keep_encoders": False}, "needs jobs of one run, because"),
        ({"data": "{data}", "tasks": ["STS-B", "MR"]}, "has no task MR; choose another task or"),
    ],
)
def test_mistakes_name_the_key(changes, message, tiny_data, monkeypatch):
    monkeypatch.delenv("BENCH_DATA", raising=False)
    if changes.get("data") == "{data}":
        changes = changes | {"data": str(tiny_data)}
    refused(lambda: runs(**changes), message)


def test_files_that_are_not_configurations(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("mine.yaml")
    for text, told in (
        (b"", "the file is empty"),
        (
            b"suite: caf\xe9",
            "can't decode byte 0xe9 in position 0: unexpected end of data); save it as UTF-8",
        ),
        (
            b"suite: !!python/object/apply:os.mkdir ['ran']",
            "it is not YAML (could not determine a constructor ",
        ),
    ):
        path.write_bytes(text)
        refused(lambda: suites.load(path), "configuration mine.yaml: ", told)
    assert not Path("ran").exists()


def test_a_corpus_at_hand_is_looked_at_for_documents(tmp_path, monkeypatch):
    own = {"methods": ["cropping"], "corpus": "mine"}
    (tmp_path / "mine.txt").write_text("one\ntwo\n")
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    refused(lambda: runs(**own), "corpus mine has no list of documents")
    (tmp_path / "mine.docs.tsv").write_text("first\tlines\n1\t2\n")
    assert runs(**own)
    monkeypatch.delenv("BENCH_DATA")
    assert runs(methods=["cropping[unit=sentence]"], corpus="wiki1m")  # needs none


def test_a_path_may_begin_in_the_home_folder():
    assert suite(corpus="~/mine.txt").corpus == str(Path.home() / "mine.txt")
    encoder = {"model": "~/mine"}
    paths = suite(data="~/d", backbones={"~/b": None}, encoders=[encoder])
    read = (paths.data, *paths.backbones, paths.encoders[0].model)
    assert read == tuple(str(Path.home() / name) for name in ("d", "b", "mine"))
    refused(lambda: suite(method_paths=["~/m.py"]), f"no Python file at {Path.home()}/m.py")


# Expansion


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [("toy-bert", 1), ("toy-bert", 2), ("toy-roberta", 7)]),
        (simcse(seeds=[9]), [("toy-bert", 9), ("toy-roberta", 9)]),
        (simcse(backbones="toy-roberta"), [("toy-roberta", 7)]),
        (simcse(backbones="all", seeds=[3]), [("toy-bert", 3), ("toy-roberta", 3)]),
        ({"methods": ["simcse", "simcse[temperature=0.05]", "simcse@official"]},
         [("toy-bert", 1), ("toy-bert", 2), ("toy-roberta", 7)]),
        ({"methods": ["untrained"]}, [("toy-bert", None), ("toy-roberta", None)]),
        ({"methods": ["word-overlap"]}, [("none", None)]),
    ],
)  # fmt: skip
def test_backbones_and_their_seeds(changes, expected):
    assert [(run.backbone, run.seed) for run in runs(**changes)] == expected


def test_an_entry_runs_on_all_backbones_of_a_matching_kind():
    backbones = {"toy-glove": None, "toy-bert": None, "toy-roberta": {"tasks": ["MR"]}}
    swept = {"method": "{name}", "sweep": {"name": ["glove", "untrained"]}}
    entries = [swept, {"method": "simcse", "seeds": [1]}, "word-overlap"]
    assert [(run.method, run.backbone) for run in runs(backbones=backbones, methods=entries)] == [
        ("glove", "toy-glove"),
        ("untrained", "toy-bert"),  # the other has tasks of its own
        ("simcse", "toy-bert"),
        ("word-overlap", "none"),
    ]


def test_sweeps_expand_to_every_combination():
    sweep = {"alpha": [0.01, 0.05], "buffer": [64, 256, 512]}
    entry = {
        "method": "is-cse[alpha={alpha},buffer={buffer}]", "sweep": sweep, "seeds": [1],
        "settings": ["paper", "official"], "backbones": ["toy-bert"],
    }  # fmt: skip
    made = runs(methods=[entry])
    found = [(run.setting, *(run.parts[0][2][key] for key in sweep)) for run in made]
    assert sorted(found) == sorted(product(("paper", "official"), *sweep.values()))


def test_the_recipe_of_a_suite_applies_to_every_run():
    recipe = {"batch_size": 7, "learning_rate": "3e-4"}  # which YAML 1.1 reads as text
    for run in runs(recipe=recipe, methods=["simcse", "gs-infonce", "sscl@paper"]):
        assert run.recipe_changes == {"batch_size": 7, "learning_rate": 3e-4}


def test_entries_that_resolve_to_one_run_are_merged():
    same = {"method": "simcse[batch_size=64]@official", "seeds": [2], "tasks": ["TREC", "sts"]}
    entries = [
        "simcse",
        same | {"analyses": ["layers"]},
        {"method": "sscl", "backbones": ["toy-bert"], "tasks": ["probing"]},
        {"method": "simcse", "backbones": ["toy-bert"], "analyses": ["layers", "tokens"]},
    ]
    assert {
        (run.method, run.backbone, run.seed): (run.tasks, run.analyses)
        for run in runs(methods=entries)
    } == {
        ("simcse", "toy-bert", 1): (("sts",), ("layers", "tokens")),
        ("simcse", "toy-bert", 2): (("sts", "TREC"), ("layers", "tokens")),
        ("simcse", "toy-roberta", 7): (("sts",), ()),
        ("simcse", "toy-roberta", 2): (("TREC", "sts"), ("layers",)),
        ("sscl", "toy-bert", 1): (("probing",), ()),
        ("sscl", "toy-bert", 2): (("probing",), ()),
    }


def test_a_plan_has_a_stand_in_for_each_printed_backbone():
    stand_ins = {"toy-bert": "bert-base-uncased", "toy-roberta": ["roberta-base", LARGE]}
    plan = suites.plan(suite(stand_ins=stand_ins))
    assert plan.stand_ins == {
        "bert-base-uncased": "toy-bert", "roberta-base": "toy-roberta", LARGE: "toy-roberta",
    }  # fmt: skip


# The last but one has no eleventh layer to take on these backbones.
METHODS = ["simcse", "sscl", "sup-simcse[corpus=world-nli]", "sscl[layer=11]", "untrained"]
TWO = {"toy-bert": 1.0, "toy-roberta": 1.0}


@pytest.mark.parametrize(
    ("compare", "expected"),
    [
        ({}, {"sscl@official": TWO}),  # trained without labels
        ({"margin": 2.0}, {"sscl@official": {"toy-bert": 2.0, "toy-roberta": 2.0}}),
        ({"claims": ["untrained", "SSCL"]}, {"untrained@paper": TWO, "sscl@official": TWO}),
        (
            {"claims": [{"method": "sscl", "backbones": "toy-bert", "margin": 0.3},
                        {"method": "sscl[stack=2]", "backbones": ["toy-roberta"]}]},
            {"sscl@official": {"toy-bert": 0.3, "toy-roberta": 1.0}},
        ),
        ({"baseline": "sscl"}, {"simcse@official": TWO}),
    ],
)  # fmt: skip
def test_claims_of_a_comparison(compare, expected):
    made = suites.plan(suite(methods=METHODS, compare={"baseline": "simcse", **compare}))
    found = {}
    for claim in made.claims:
        found.setdefault(claim.method, {})[claim.backbone] = claim.margin
    assert found == expected


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        (["dclr"], "'compare.claims': 'dclr' is not planned; did you mean 'sscl'"),
        (
            [{"method": "sscl", "backbones": "toy-bart"}],
            "'toy-bart' of 'sscl' is not in 'backbones'",
        ),
        ([{"method": "sscl", "margin": 0}], "margin' should be greater than 0, not 0"),
        (
            [{"method": "word-overlap", "backbones": "toy-bert"}],
            "'word-overlap' on toy-bert, where",
        ),
        (
            ["word-overlap"],
            "'word-overlap' on any backbone, where it or the baseline is not planned",
        ),
        (["sscl", "SSCL"], "'compare.claims' has 'SSCL' twice; leave one out"),
        (["simcse"], "'compare.claims' has the baseline, 'simcse'; leave it out"),
        (
            [{"method": "sscl", "leaderboards": "transfer"}],
            "'compare' has the leaderboard 'transfer'",
        ),
    ],
)
def test_mistakes_in_claims_name_the_key(claims, message):
    compare = {"baseline": "simcse", "claims": claims}
    methods = ["simcse", "sscl", "word-overlap"]
    refused(lambda: suites.plan(suite(methods=methods, compare=compare)), message)


def test_reseeded_runs_have_only_the_new_seeds():
    made = suite(methods=["simcse", {"method": "is-cse", "seeds": [9]}])
    reseeded = suites.planned(suites.reseeded(made, range(1, 4)))
    assert Counter(run.seed for run in reseeded) == {1: 4, 2: 4, 3: 4}


# What is shipped


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_shipped_suites_resolve_without_network(path, tiny_bert, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a plan needs no network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    # wiki-mini's backbone is a user's; any folder of that name will do here.
    (tmp_path / "wiki-minilm").symlink_to(tiny_bert)
    monkeypatch.setenv("BENCH_MODELS", str(tmp_path))
    made = suites.load(path)
    expanded = suites.planned(made)
    assert made.suite == path.stem
    assert len({run.id for run in expanded}) == len(expanded) > 5
    for run in expanded:
        assert run.skip is None
        run.build()
    (tmp_path / "config.yaml").write_text(suites.dump(made))
    assert suites.load(tmp_path / "config.yaml") == made


def test_the_paper_suite_changes_no_recipe(paper_runs):
    """Its runs are tests/judge/test_planned.py's."""
    assert not any(run.recipe_changes for run in paper_runs)


def test_the_paper_suite_claims_the_printed_gains():
    """In the STS averages of GS-InfoNCE v2 Table 2, IS-CSE Table 1 and SSCL Table 2."""
    expected = {}
    for source, table, method in (
        ("gs-infonce-v2", "Table 2", "gs-infonce@official"),
        ("is-cse", "Table 1", "is-cse@official"),
        ("sscl", "Table 2", "sscl@official"),
    ):
        values = {
            (number.run, number.our_backbone): number.value
            for number in numbers()
            if (number.source, number.table, number.task) == (source, table, "Avg")
        }
        for run, name in values:
            if run == method:
                expected[run, name] = values[run, name] - values["simcse@official", name]
    claims = suites.plan(suites.load(suites.SUITES / "paper.yaml")).claims
    found = {(claim.method, claim.backbone): claim.margin for claim in claims}
    assert found == pytest.approx(expected)
    assert len(claims) == 10
    assert {claim.baseline for claim in claims} == {"simcse@official"}


@pytest.mark.parametrize("name", ["smoke", "all-methods"])
def test_the_suites_of_the_world_have_the_keys_of_the_paper_suite(name):
    """Snakemake merges configurations: a missing key would be taken from the paper suite."""
    world, paper = (suites.load(suites.SUITES / f"{name}.yaml") for name in (name, "paper"))
    assert paper.model_fields_set <= world.model_fields_set
    assert not set(world.backbones) & set(paper.backbones)


def test_all_methods_has_every_method_on_toys():
    planned = suites.planned(suites.load(suites.SUITES / "all-methods.yaml"))
    assert {run.pretrained.source for run in planned} == {"toy", "none"}
    assert {run.data for run in planned} == {"world"}
    # What others trained cannot be made here.
    methods = {name for run in planned for name, _, _ in run.parts}
    assert methods == set(method_classes()) - {"published"}
