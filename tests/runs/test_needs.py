"""Runs that need others: their spelling, order and identity, and what is refused."""

import pytest

import methods.simcse as simcse
from bench.runs import config as suites
from bench.runs.text import parse, split_run
from bench.utils.errors import UserError
from tests.support.method_runs import run_of
from tests.support.tiny_suite import tiny_configuration

STUDENT = "rankcse[teacher=run:simcse]"


def run(text, seed=1, **recipe):
    return run_of(text, "toy-bert", "world", "world", seed, **recipe)


def suite(*methods, **changes):
    given = {"seeds": [1, 2], "methods": list(methods), **changes}
    return suites.validate(tiny_configuration("toy-bert", "world", "world", **given))


@pytest.mark.parametrize(
    ("text", "spelled", "backbone"),
    [
        (STUDENT, "run:simcse@official", "toy-bert"),
        ("rankcse[teacher=run: simcse@official]", "run:simcse@official", "toy-bert"),
        (
            "rankcse[teacher=run:simcse[dropout=0.2,epochs=1]@paper on bert-large-uncased]",
            "run:simcse[dropout=0.2]@paper on bert-large-uncased",
            "bert-large-uncased",
        ),
        ("gs-infonce+rankcse[teacher=run:simcse]", "run:simcse@official", "toy-bert"),
    ],
)
def test_a_needed_run_has_one_spelling(text, spelled, backbone):
    student = run(text)
    ((name, teacher),) = student.needs.items()
    assert (name, teacher.backbone) == (spelled, backbone)
    assert (teacher.corpus, teacher.data, teacher.seed) == ("world", "world", 1)
    assert run(student.text).id == student.id
    assert student.describe()["needs"] == {spelled: teacher.describe()}


def test_a_text_may_hold_the_text_of_another_run():
    text = "a[x=run:b[y=1,z=c@d]+e@paper,w=2]+f@official"
    assert parse(text) == (
        [("a", {"x": "run:b[y=1,z=c@d]+e@paper", "w": "2"}), ("f", {})], "official",
    )  # fmt: skip
    assert split_run("run:b[y=on x on z] on there") == ("b[y=on x on z]", "there")
    assert split_run("run:b[y=on x on z]") == ("b[y=on x on z]", "")


def test_the_identity_contains_those_of_needed_runs(monkeypatch):
    """Fails if the name of a run stands for it in the identity."""
    before, plain = run(STUDENT), run("rankcse")
    ids = {before.id, run(STUDENT, seed=2).id, run(STUDENT, learning_rate=1e-3).id}
    ids |= {run("rankcse[teacher=run:simcse[dropout=0.2]]").id, plain.id}
    monkeypatch.setattr(simcse.SimCSE, "version", 99)
    ids.add(run(STUDENT).id)
    assert len(ids) == 6
    twice = "rankcse[teacher=run:" + STUDENT + "]"
    changed = run(twice).id
    monkeypatch.undo()
    assert run(twice).id != changed
    assert before.id == run(STUDENT).id


def test_a_change_of_the_suite_reaches_a_needed_run():
    """RankCSE's own rate is 3e-5 and its batch 128, SimCSE's batch is 64."""
    student = run(STUDENT, batch_size=128, learning_rate=3e-5)
    (teacher,) = student.needs.values()
    assert (teacher.recipe.batch_size, student.recipe_changes) == (128, {"batch_size": 128})
    small = run("rankcse[batch_size=32,teacher=run:simcse]", batch_size=16)
    assert [made.recipe.batch_size for made in (small, *small.needs.values())] == [32, 16]
    (teacher,) = run("rankcse[corpus=nli,teacher=run:simcse]").needs.values()
    assert teacher.corpus == "nli"


ANOTHER_KIND = "has an encoder of its own kind; name another"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rankcse[teacher=run:untrained]", "'run:untrained' in .* is not trained; name a method"),
        ("published[model=run:simcse]", "is not trained, so it cannot use 'run:simcse'"),
        ("rankcse[teacher=run:simcse on toy-brt]", "did you mean 'toy-bert'"),
        (
            "rankcse[teacher=run:promptbert]",
            f"needs a transformer .*, and 'promptbert' {ANOTHER_KIND}",
        ),
        ("rankcse[teacher=run:simcse+whitening]", ANOTHER_KIND),
        ("rankcse[teacher=run:ct-bert]", "'ct-bert' has the pooler 'avg'; set teacher_pooler=avg"),
        ("rankcse[teacher=run:simcse,teacher_pooler=avg]", "set teacher_pooler=cls_before_pooler"),
        ("dclr[complement=run:simcse]", "with the pooler 'cls', and .*; name another"),
        ("diffcse[generator=run:simcse]", "'generator' in .* needs a masked language model"),
        ("published[model=published]", "'published' is neither a folder, a model of the hub nor"),
    ],
)
def test_what_cannot_be_used_is_refused_when_planned(text, message):
    with pytest.raises(UserError, match=message) as caught:
        suites.planned(suite(text))
    assert "\n" not in str(caught.value)


def test_a_run_with_the_pooler_that_is_asked_for_is_taken():
    student = run("rankcse[teacher=run:ct-bert,teacher_pooler=avg]")
    assert [teacher.method for teacher in student.needs.values()] == ["ct-bert"]
    assert run("rankcse[gamma=0,teacher=run:promptbert]").needs == {}  # not used


def test_a_run_is_impossible_where_one_that_it_needs_is():
    student = run("rankcse[teacher=run:sscl[layer=11]]")
    assert (student.skip or "").startswith("it needs run:sscl[layer=11]@official: layer")


def test_a_plan_adds_needed_runs_and_puts_them_first():
    texts = [(made.method, made.seed, made.tasks) for made in suites.planned(suite(STUDENT))]
    spelled = run(STUDENT).method
    everything = ("sts",)
    assert texts == [
        ("simcse", 1, everything), (spelled, 1, everything),
        ("simcse", 2, everything), (spelled, 2, everything),
    ]  # fmt: skip
    listed = suite(STUDENT, {"method": "simcse", "tasks": ["STS-B"]}, seeds=[1])
    assert [(made.method, made.tasks) for made in suites.planned(listed)] == [
        ("simcse", ("STS-B",)),
        (spelled, everything),
    ]


def test_chosen_runs_follow_what_they_need():
    plan = suites.plan(suite("gs-infonce", STUDENT, seeds=[1, 2, 3]))
    runs = [(run.parts[0][0], run.seed) for run in plan.chosen()]
    assert runs == [
        (name, seed) for seed in (1, 2, 3) for name in ("gs-infonce", "simcse", "rankcse")
    ]
