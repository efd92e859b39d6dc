"""Encoders that a configuration lists beside its methods, and the sums that identify them."""

import json
import os
import shutil

import numpy as np
import pytest

from bench.models.load import load_encoder, save_encoder
from bench.registry.backbones import backbone, backbone_fingerprint, encoder_sum
from bench.registry.templates import TEMPLATE_SETS
from bench.results.suite_results import read_results
from bench.runs import config as suites
from bench.stages import jobs
from tests.support.method_runs import run_of
from tests.support.model_folders import pooling, prompts, write
from tests.support.refusals import refused
from tests.support.rows import systems_of
from tests.support.tiny_suite import tiny_configuration


@pytest.fixture
def model(tiny_bert, tmp_path):
    """A model folder of the test's own."""
    return shutil.copytree(tiny_bert, tmp_path / "models" / "mine")


@pytest.fixture
def content(tiny_bert, tiny_data, tiny_corpus):
    def made(*encoders, **changes):
        given = {"methods": ["untrained[pooler=avg]"], "encoders": list(encoders)} | changes
        return tiny_configuration(tiny_bert, tiny_data, tiny_corpus, **given)

    return made


def planned(content):
    return suites.planned(suites.validate(content))


@pytest.fixture
def encoder(content):
    """The run of an encoder that a configuration lists."""
    return lambda **entry: planned(content(entry))[1]


def published(folder, **keys):
    text = ",".join(f"{key}={value}" for key, value in {"pooler": "avg", **keys}.items())
    return run_of(f"published[model={folder},{text}]", "none", "world", "world", None)


def test_an_encoder_is_a_run_with_the_tasks_of_the_suite(content, model):
    entry = {"model": str(model), "label": "Ours", "pooler": "avg", "normalize": True}
    _, run = planned(content(entry, tasks=["STS-B", "STS12"]))
    assert (run.label, run.outside, run.tasks) == ("Ours", True, ("STS-B", "STS12"))
    assert (run.trained, run.backbone, run.seed) == (False, "none", None)
    hyper = {"model": str(model), "pooler": "avg", "prompt": None, "normalize": True}
    assert run.parts[0][2] == hyper | {"template": None, "dims": None, "dtype": "float32"}
    assert run.models == {str(model): backbone_fingerprint(str(model))}


def test_several_templates_are_one_row_of_the_runs_that_each_has_alone(content, encoder, model):
    entry = {"model": str(model), "label": "Ours", "pooler": "last"}
    templates = ["A <sentence>", "B <sentence>", "<sentence> C"]
    runs = planned(content({**entry, "template": templates}))[1:]
    assert [run.template for run in runs] == templates
    assert len({(run.row, run.label) for run in runs}) == 1
    for run, template in zip(runs, templates, strict=True):
        alone = encoder(**entry, template=template)
        assert (run.id, run.identity) == (alone.id, alone.identity)
        assert run.row != alone.row


def test_a_set_of_templates_has_a_name(content, encoder, model):
    entry = {"model": str(model), "pooler": "last"}
    runs = planned(content({**entry, "template": "prompteol"}))[1:]
    assert [run.template for run in runs] == TEMPLATE_SETS["prompteol"]
    refused(lambda: encoder(**entry, template="prompteoll"), "did you mean 'prompteol'")
    for templates in TEMPLATE_SETS.values():
        assert len(templates) == len({*templates}) > 1
        assert all("<sentence>" in template for template in templates)


def test_a_template_is_written_in_the_text_of_the_run(encoder, model):
    """With commas, brackets and quotes; it is read as given also where the text would change it."""
    entry = {"model": str(model), "pooler": "last", "dims": 8, "dtype": "bfloat16"}
    for template in ('Is it, briefly, "<sentence>"?', "[INST] <sentence>, <sentence>\n[/INST]"):
        run = encoder(**entry, template=template)
        hyper = {"prompt": None, "normalize": False, **entry, "template": template}
        assert run.parts[0][2] == hyper
        assert run_of(run.text, "none", "", run.data, None).id == run.id
        assert run.id != encoder(**entry).id
    for template in ("<sentence> ", "<sentence>, dims=2", "[<sentence>"):
        run = encoder(**entry, template=template)
        assert run.parts[0][2] == hyper | {"template": template}
    refused(
        lambda: encoder(model="owner/none", pooler="last", template="<name>"),
        "'<name>' lacks <sentence>",
    )


@pytest.mark.parametrize("prompt", [" query: ", "query ", ""])
def test_a_prompt_is_written_in_the_text_of_the_run(encoder, model, prompt):
    """With its spaces, unless it is a name."""
    prompts(write(model, pooling()), query="a ")
    run = encoder(model=str(model), prompt=prompt, template=" <sentence> ")
    is_text = ":" in prompt
    expected = {"prompt": prompt if is_text else prompt.strip(), "template": " <sentence> "}
    assert run.parts[0][2].items() >= expected.items()
    again = run_of(run.text, "none", "", run.data, None)
    assert (again.id, again.text) == (run.id, run.text)


def test_spaces_around_words_of_a_text_are_no_part_of_them(model):
    words = {"prompt ": " query", " template": " none", "dims ": " 8", "pooler": " none "}
    assert published(model, **words).id == published(
        model, prompt="query", template="none", dims=8, pooler="none"
    ).id  # fmt: skip
    assert published(model, pooler="none", prompt=' ""').id == published(
        model, pooler="none", prompt='""'
    ).id  # fmt: skip


def test_changed_files_are_another_run(model):
    """Fails if the folder's name identifies it, or if a file's time does."""
    before = published(model).id
    moved = shutil.copytree(model, model.with_name("moved"))
    digest = before.rpartition("_")[2]
    assert published(moved).id.rpartition("_")[2] == digest
    os.utime(model / "config.json", (1, 1))
    for name in (".hidden", "README.md"):
        (model / name).write_text("of an editor")
    assert published(model).id == before
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        with open(model / name, "a", encoding="utf-8") as file:
            file.write(" ")
        assert published(model).id != before
        before = published(model).id
    assert published(model, normalize="true").id != before


def test_names_of_the_hub_identify_themselves(model, monkeypatch):
    assert backbone_fingerprint("a/b@main") == "a/b@main"
    monkeypatch.setenv("BENCH_MODELS", str(model.parent))
    assert (
        backbone_fingerprint("mine")
        == backbone_fingerprint(str(model))
        == f"sha256-{encoder_sum(model)}"
    )
    assert backbone(str(model)).fingerprint == encoder_sum(model)


def test_the_folder_of_a_run_is_that_of_its_encoder(model, tmp_path):
    save_encoder(load_encoder(model, pooler="avg"), tmp_path / "run" / "encoder")
    (tmp_path / "run" / "log.jsonl").touch()
    assert backbone_fingerprint(str(tmp_path / "run")) == backbone_fingerprint(
        str(tmp_path / "run" / "encoder")
    )


@pytest.mark.parametrize(
    ("encoders", "message"),
    [
        ([{"model": "./none", "pooler": "avg"}], "'none': model folder ./none does not exist"),
        ([{"model": "{model}", "pooler": "avg"}] * 2, "'mine' is listed twice; give each"),
        ([{"model": "{model}", "pooler": "avg", "label": name} for name in ("a", "b")],
         "'b' is the same as 'a'; remove one"),
        ([{"model": "{model}", "pooler": "avg", "label": "SimCSE"}],
         "'SimCSE' has the name of a method; give it another 'label'"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(content, model, encoders, message):
    named = json.loads(json.dumps(encoders).replace("{model}", str(model)))
    refused(lambda: planned(content(*named)), message)


def test_a_folder_that_is_missing_is_no_model_of_the_hub(content, model, monkeypatch):
    """`models/none` could be an owner and a name, but `models` is a folder here."""
    monkeypatch.chdir(model.parents[1])
    refused(
        lambda: planned(content("models/none")), "'none': model folder models/none does not exist"
    )
    encoder = planned(content("owner/none"))[1]
    assert (encoder.label, encoder.outside) == ("none", True)


def test_a_suite_may_have_encoders_alone(tiny_data):
    made = {"suite": "alone", "data": str(tiny_data), "tasks": ["STS-B"], "encoders": ["a/b"]}
    assert [run.label for run in planned(made)] == ["b"]


@pytest.mark.parametrize("key", ["corpus", "seeds", "backbones"])
def test_methods_need_what_encoders_do_not(content, key):
    made = content()
    made.pop(key)
    refused(lambda: suites.validate(made), f"'{key}' is missing")


def test_its_row_stands_beside_those_of_methods(content, model, tmp_path):
    """The same weights with the same pooler have the scores of the suite's own row."""
    entry = {"model": str(model), "label": "Ours", "pooler": "avg"}
    made = content(entry, {**entry, "label": "scaled", "normalize": True}, tasks=["STS-B"])
    plan = suites.plan(suites.validate(made))
    plan.write(tmp_path / "plan.json")
    jobs.run_plan(tmp_path, plan, plan.chosen())
    suite = read_results(tmp_path)
    rows = {row.label: row for row in systems_of(suite)}
    ours = rows["Ours"]
    assert (ours.backbone, ours.outside, ours.name) == ("none", True, "Ours (outside encoder)")
    scores = [row.score("STS-B").mean for row in rows.values()]
    own = rows["Untrained (pooler=avg)"].score("STS-B").mean
    np.testing.assert_allclose(scores, own, atol=0.01)
