"""Runs: canonical spelling, identity, error messages, and the hyper-parameters of the papers."""

import json
import shutil
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.datasets.metrics import FURTHER_SEEDS
from bench.registry import backbones
from bench.registry.methods import method_classes
from bench.runs.resolve import suite_recipe
from bench.runs.run import LATER, Recipe, Run, identity_of
from tests.support.method_runs import run_of
from tests.support.refusals import refused

BACKBONES = ("bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large")


run = partial(run_of, seed=42)


def same_from_json(made):
    again = Run.model_validate_json(json.dumps(made.describe()))
    return (again, identity_of(again)) == (made, made.identity)


# Spelling


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("simcse", "simcse"),
        (" simcse [ temperature = 0.05 ] @official", "simcse"),
        ("simcse[temperature=1e-1]", "simcse[temperature=0.1]"),
        ("gs-infonce[std=0.1,multiple=1.0]", "gs-infonce[multiple=1,std=0.1]"),
        ("sscl+gs-infonce", "sscl+gs-infonce"),  # the first part stays first
        ("gs-infonce+sscl[stack=3]+is-cse[buffer=256]",
         "gs-infonce+is-cse[buffer=256]+sscl[stack=3]"),
        ("sscl[average=false,positive=self]", "sscl[positive=self]"),  # one loss anyway
        ("sscl[stack=99]", "sscl[stack=11]"),  # as many as the backbone has
        ("simcse[select_on=STS-B+SICK-R]", "simcse[select_on=STS-B+SICK-R]"),
        ("is-cse[alpha_start=none]", "is-cse"),
        ("untrained[pooler=avg_embedding_last]", "untrained"),
        ("simcse[scored_layers=10,layers=10]", "simcse[layers=10]"),
        ("simcse[dimension=768]", "simcse[dimension=768]"),  # the same width, scored with the head
        ("sscl[layers=3,stack=9]", "sscl[layers=3]"),  # as many as the cut backbone has
        ("skip-thought[dimension=9,layers=2,scored_layers=1]", "skip-thought"),  # no transformer
        ("untrained+projection[kind=random,source=wiki1m]", "untrained+projection[kind=random]"),
    ],
)  # fmt: skip
def test_one_spelling(text, canonical):
    assert run(text).method == canonical


def test_a_checkpoint_name_may_contain_a_revision():
    published = run("published[model=a/b@refs/pr/1,pooler=avg]@paper", "none")
    hyper = {"model": "a/b@refs/pr/1", "pooler": "avg"}  # as before there were others
    assert published.identity["parts"][0] == ["published", 1, hyper]
    assert run(published.text, "none").id == published.id
    assert run("published[model=a/b,pooler=avg]", "none").id != published.id


def test_the_suite_overrides_the_method_and_the_text_overrides_both():
    assert run("gs-infonce").recipe.dropout == 0.2
    assert run("gs-infonce", dropout=0.3).recipe.dropout == 0.3
    made = run("gs-infonce[dropout=0.4]", dropout=0.3, batch_size=32)
    assert (made.recipe.dropout, made.recipe.batch_size) == (0.4, 32)
    assert made.recipe_changes == {"batch_size": 32}
    assert run("simcse", batch_size=64).recipe_changes == {}
    # A text may take back what does not fit the method.
    assert run("is-bert[dimension=none]", dimension=128).recipe.dimension is None


def test_a_key_of_the_text_is_spelled_if_it_changes_what_the_suite_makes_of_the_method():
    plain, back = (run(text, batch_size=32) for text in ("simcse", "simcse[batch_size=64]"))
    assert (plain.method, back.method) == ("simcse", "simcse[batch_size=64]")
    assert (plain.label, back.label) == ("SimCSE", "SimCSE (batch_size=64)")
    assert (back.recipe.batch_size, back.recipe_changes) == (64, {})
    assert back.overridden == {"batch_size": 32}
    assert back.digest == run("simcse").digest  # only its name has the suite in it
    assert run("simcse[batch_size=32]", batch_size=32).id == plain.id
    taught = run("rankcse[teacher=run:simcse[batch_size=64]]@paper", batch_size=32, threads=2)
    assert taught.overridden == {"batch_size": 32}
    assert all(map(same_from_json, (plain, back, taught)))


def test_the_first_part_sets_recipe_and_temperature():
    joined = run("simcse[temperature=0.1]+gs-infonce")
    assert joined.recipe == run("simcse").recipe
    assert joined.parts[1][2] == {"multiple": 3, "std": 0.5, "weight": 1}
    assert joined.build().hyper.temperature == 0.1


def test_the_training_head_is_dropped_for_scoring():
    for pooler, scored in (
        ("cls_mlp", "cls_before_pooler"),
        ("cls_pooler", "cls_before_pooler"),
        ("avg_top2", "avg_top2"),
    ):
        assert run(f"simcse[pooler={pooler}]").evaluation_pooler == scored


# Identity


def test_identities_are_unchanged():
    """Results are stored under these names. A change makes all earlier results unfindable."""
    in_float32 = run("simcse", precision="float32")
    assert in_float32.id == "simcse_official_bert-base-uncased_s42_198340a56b"
    assert run("simcse").id == "simcse_official_bert-base-uncased_s42_b89a3631d6"
    assert run("word-overlap").id == "word-overlap_paper_none_c7ac710c3d"


OTHER_RECIPE = {
    "batch_size": 65, "learning_rate": 4e-5, "epochs": 2, "corpus": "wiki1m_fallback",
    "sentences": 10, "distinct": 3, "max_length": 33, "pooler": "avg", "dropout": 0.15,
    "weight_decay": 0.01, "optimiser": "rmsprop", "epsilon": 1e-7, "bias_correction": "false",
    "early_epsilon": "true",
    "schedule": "constant", "warmup": 0.1, "clip": 2.0, "precision": "bfloat16",
    "select_on": "SICK-R", "select_every": 7, "patience": 3, "threads": 2, "layers": 10,
    "scored_layers": 10, "dimension": 128, "drop_last": "true", "decay_biases": "false",
}  # fmt: skip


def test_every_field_of_the_recipe_is_part_of_the_identity():
    assert list(OTHER_RECIPE) == list(Recipe.model_fields)
    changed = [run("simcse", **{key: value}).id for key, value in OTHER_RECIPE.items()]
    assert len({run("simcse").id, *changed}) == len(OTHER_RECIPE) + 1


IS_CSE = {
    "temperature": 0.1, "alpha": 0.2, "alpha_start": 0.01, "buffer": 256, "neighbours": 8,
    "beta": 1, "current_first": "false", "group": "kmeans", "clusters": "32,group=both",
    "gamma": "0.1,group=both",
}  # fmt: skip


def test_every_hyper_parameter_is_part_of_the_identity():
    """The hash alone tells them apart."""
    assert list(IS_CSE) == list(vars(method_classes()["is-cse"].Hyper()))
    runs = [run("is-cse"), *(run(f"is-cse[{key}={value}]") for key, value in IS_CSE.items())]
    assert len({made.digest for made in runs}) == len(runs)


def test_later_fields_exist_and_are_left_out_at_their_default():
    assert set(LATER["recipe"]) <= Recipe.model_fields.keys()
    for name, later in LATER.items():
        if name != "recipe":
            assert set(later) <= vars(method_classes()[name].Hyper()).keys(), name
    assert "optimiser" not in run("simcse").identity["recipe"]


def test_values_have_the_types_of_their_fields():
    """JSON tells 1 from 1.0, and so do identities."""
    texts = {"batch_size": "65", "learning_rate": "4e-5", "clip": 2, "drop_last": "TRUE"}
    typed = {"batch_size": 65, "learning_rate": 4e-5, "clip": 2.0, "drop_last": True}
    for changes in (texts, {**texts, "batch_size": 65.0, "dropout": "None"}):
        assert json.dumps(run("simcse", **changes).recipe_changes) == json.dumps(typed)


def test_corpus_data_seed_and_version_are_part_of_the_identity(monkeypatch):
    def digest(**changes):
        return run_of("simcse", **changes).digest

    # SimCSE's learning rate on BERT large is another.
    large = digest(backbone="bert-large-uncased", learning_rate=3e-5)
    digests = {digest(), large, digest(corpus_name="wiki1m_fallback")}
    digests |= {digest(data="world"), digest(seed=2)}
    monkeypatch.setattr(method_classes()["simcse"], "version", 99)
    assert len(digests | {digest()}) == 6


def test_a_corpus_given_by_path_is_identified_by_its_bytes(tmp_path):
    ids = []
    for name, text in (("a", "one\n"), ("b", "one\n"), ("c", "two\n")):
        (tmp_path / name).write_text(text)
        ids.append(run_of("simcse", "toy-bert", tmp_path / name, "world").id)
    assert ids[0] == ids[1] != ids[2]


def test_clamped_stacks_are_one_run_on_a_shallow_backbone():
    stacks = [run(f"sscl[stack={stack}]", "toy-bert") for stack in range(12)]
    by_id = {made.id: made for made in reversed(stacks)}
    assert sorted(made.parts[0][2]["stack"] for made in by_id.values()) == [0, 1, 2, 3]
    assert "most this backbone has (of 11)" in stacks[11].label


def test_impossible_runs_are_skipped_with_a_reason():
    reason = "layer {0} is not an intermediate layer of a backbone with {1} layers"
    assert run("sscl[layer=11]", "toy-bert").skip == reason.format(11, 4)
    assert run("sscl[layer=3]", layers=3).skip == reason.format(3, 3)


def test_layer_cuts_of_a_suite_apply_to_trained_runs_only():
    cut = run("sscl", layers=3, dimension=8)
    assert (cut.shape.depth, cut.shape.width, cut.parts[0][2]["stack"]) == (3, 8, 2)
    assert cut.recipe_changes == {"layers": 3, "dimension": 8}
    # No SimCSE is published for that depth.
    assert run("dclr", layers=3).parts[0][2]["complement"] == "backbone"
    whole = run("simcse[layers=12]", layers=3)  # the text lies over the suite
    assert (whole.digest, whole.method) == (run("simcse").digest, "simcse[layers=none]")
    assert whole.recipe_changes == {}
    plain = run("untrained", layers=3, dimension=8)
    assert (plain.id, plain.shape) == (run("untrained").id, run("untrained").shape)
    assert run("simcse", scored_layers=12).id == run("simcse").id


FIRST = [
    "simcse", "simcse[temperature=0.30000000000000004]", "simcse[temperature=1e+06]",
    "is-cse[batch_size=16,select_on=STS-B+SICK-R]", "gs-infonce[batch_size=64,weight=2.5]",
]  # fmt: skip
ADDED = [
    "gs-infonce[multiple=0.5,std=1]", "gs-infonce[weight=0]", "is-cse[alpha_start=none]",
    "is-cse[current_first=false,buffer=64]", "is-cse[alpha=0.1]", "sscl[stack=99]",
    "sscl[layer=3,sides=one]", "sscl[layer=none,average=false]", "sscl[stack=0]",
]  # fmt: skip
RECIPES = {
    "batch_size": (32, 64, "128"), "dropout": (None, 0.1, "0.2"), "patience": ("none", 5),
    "select_on": ("STS-B", "SICK-R+STS-B"), "learning_rate": (3e-5, "1e-5"),
    "layers": (None, 3, "4"), "scored_layers": (None, 2, "3"), "dimension": (None, 8, "64"),
}  # fmt: skip


def name_of(part):
    return part.partition("[")[0]


recipes = st.fixed_dictionaries(
    {}, optional={key: st.sampled_from(values) for key, values in RECIPES.items()}
)


@given(
    st.sampled_from(FIRST),
    st.lists(st.sampled_from(ADDED), max_size=3, unique_by=name_of),
    st.sampled_from(["", "@paper", "@official"]),
    recipes,
    st.sampled_from([*BACKBONES, "toy-bert"]),
)
def test_a_run_resolves_from_its_own_text(first, added, setting, recipe, backbone):
    added = [part for part in added if name_of(part) != name_of(first)]
    once = run("+".join([first, *added]) + setting, backbone, **recipe)
    again = run(once.text, once.reference, **suite_recipe(once))
    assert again.id == once.id
    # The label alone may also say what was asked for where the backbone has less.
    assert {**again.describe(), "label": ""} == {**once.describe(), "label": ""}
    assert same_from_json(once)
    assert run(once.text, backbone, **recipe).method == once.method
    assert len(once.id) < 200
    assert "/" not in once.id


# Refusals: further ones are in cli/test_user_mistakes.py and methods/test_settings.py.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot read ''"),
        ("Focal-InfoNCE", "did you mean 'focal-infonce'?"),
        ("simcse[temperature=0.1", "'simcse[temperature=0.1' has an unmatched bracket; write"),
        ("simcse[temperature]", "cannot read 'temperature' in 'simcse[temperature]'; write key="),
        ("simcse[temperature=0.1,temperature=0.2]", "'temperature' is given twice"),
        ("is-cse[neighbours=2000]", "'neighbours' should be above 0 and below 'buffer'"),
        ("gs-infonce+simcse", "'simcse' adds nothing to another method"),
        ("gs-infonce+sscl+sscl", "'sscl' appears twice"),
        ("gs-infonce+sscl[positive=self]", "only be written first"),
        ("sscl[positive=self]+is-cse", "needs the dropout positive"),
        ("gs-infonce+is-cse[temperature=0.1]", "set by the method written first, 'gs-infonce'"),
        ("gs-infonce+sscl[batch_size=32]", "is a recipe field, which only the first method may"),
        ("simcse[layers=13]", "'layers' is 13, but 'bert-base-uncased' has 12; omit it to keep"),
        ("simcse[layers=9,scored_layers=10]", "'scored_layers' is 10, but only 9 are trained"),
        ("is-bert[dimension=128]", "the training head of pooler 'cls_mlp', not 'avg'"),
        ("promptbert[dimension=128]", "builds its own encoder, which 'dimension' does not affect"),
        ("simcse[max_length=65,pooler=avg_first_last_64]",
         "'max_length' should be at most 64 for pooler 'avg_first_last_64', not "),
        ("simcse[dropout=1.0]", "'dropout' should be less than 1, not '1.0'"),
        ("simcse[schedule=liner]", "unknown schedule 'liner'; did you mean 'linear'?"),
        ("simcse[schedule=0.4+0.2]", "give rising shares of the steps, such as 0.2+0.4"),
        ("simcse[select_on=STS-C]", "cannot select on 'STS-C'; did you mean 'STS-B'?"),
    ],
)  # fmt: skip
def test_mistakes_in_a_text_are_reported(text, message):
    refused(lambda: run(text), message)


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        ("tests/x", "backbone 'tests/x' is not a local folder; give a folder in Hugging Face"),
        ("{folder}", "config.json does not exist"),
        ("{folder}/bert-base-uncased", "is the name of a built-in backbone"),
    ],
)
def test_mistakes_in_a_backbone_are_reported(backbone, message, tmp_path, tiny_bert):
    shutil.copytree(tiny_bert, tmp_path / "bert-base-uncased")
    refused(lambda: backbones.backbone(backbone.format(folder=tmp_path)), message)


# The papers' tables

# Values on the four backbones, of the recipe or the first part.
SHARED = [
    (64, 3e-5),
    (64, 1e-5),
    (512, 1e-5),
    (512, 3e-5),
]  # docs/reference/training.md#optimisation
SIMCSE = "batch_size learning_rate select_every temperature"
ALPHAS = "alpha alpha_start buffer neighbours beta"  # docs/reference/methods.md#is-cse
ALPHA_ROWS = [(0.1, None, 1024, 16, 2), (0.05, 0.005, 1024, 16, 2)] * 2
GS_INFONCE = (
    "batch_size learning_rate dropout std multiple weight"  # docs/reference/methods.md#gs-infonce
)
SSCL = "stack layer positive negatives sides detach average"  # docs/reference/methods.md#sscl
TABLES = [
    ("simcse@official", SIMCSE, [(*row, 125, 0.05) for row in SHARED]),
    ("simcse@paper", SIMCSE, [(*row, 250, 0.05) for row in SHARED]),
    ("is-cse@official", "batch_size learning_rate", SHARED),
    ("is-cse@official", ALPHAS, ALPHA_ROWS),
    ("is-cse@official", "current_first precision select_every",
     [(True, "float32", 125), (True, "mixed", 125)] * 2),
    ("is-cse@paper", "current_first", [(False,)] * 4),
    # M = 192 everywhere, 1.5 batches on roberta-large; std, dropout and learning rate by log.
    ("gs-infonce@official", GS_INFONCE, [
        (64, 3e-5, 0.2, 0.5, 3, 1), (64, 1e-5, 0.2, 0.1, 3, 1),
        (64, 1e-5, None, 0.1, 3, 1), (128, 2e-5, None, 0.5, 1.5, 1),
    ]),
    ("sscl@official", SSCL, [(2, None, "dropout", "all", "both", False, True)] * 4),
    ("sscl@paper", SSCL, [(2, None, "dropout", "own", "one", False, False)] * 4),
    ("sscl[positive=self]@official", SSCL, [(2, None, "self", "all", "both", False, False)] * 4),
    ("sscl@official", "batch_size learning_rate", SHARED),
]  # fmt: skip


@pytest.mark.parametrize(("text", "names", "rows"), TABLES)
def test_methods_as_published_and_as_released(text, names, rows):
    for backbone, row in zip(BACKBONES, rows, strict=True):
        made = run(text, backbone)
        values = made.recipe.model_dump() | made.parts[0][2]
        assert tuple(values[name] for name in names.split()) == row, backbone


@pytest.mark.parametrize(
    "text", ["simcse", "gs-infonce", "is-cse", "sscl", "gs-infonce@paper", "is-cse@paper"]
)
def test_other_backbones_use_the_values_of_bert_base(text):
    toy, base = run(text, "toy-roberta"), run(text, "bert-base-uncased")
    assert (toy.recipe, toy.parts) == (base.recipe, base.parts)


@pytest.mark.parametrize(
    ("more", "tasks", "further"),
    [
        ({}, ["sts", "transfer"], FURTHER_SEEDS),
        ({}, ["STS-B", "probing:mine"], FURTHER_SEEDS),
        ({}, ["sts", "sts:mine"], ()),
        ({"template": "in a word"}, ["MR"], ()),
        ({"seed": 0}, ["MR"], ()),
    ],
)
def test_classifiers_have_further_seeds_where_nothing_else_is_drawn(more, tasks, further):
    assert run("untrained").model_copy(update=more).further_seeds(tasks) == further
