"""Models of the hub as backbones to train: what describes, identifies and names them.

Mutations caught: an identity without the commit, or with the name of a revision; weights fetched to
plan; a built-in model under its id as another one; the settings of another backbone.
"""

import shutil

import pytest
from huggingface_hub import constants

from bench.registry import backbones
from bench.registry.backbones import BUILT_IN, backbone
from bench.runs.resolve import resolve
from tests.support.refusals import refused
from tests.support.tiny_architectures import write_architecture

MODERN = "answerdotai/ModernBERT-base"


@pytest.fixture(autouse=True)
def no_earlier_descriptions():
    backbones._hub_backbone.cache_clear()


@pytest.fixture(scope="module")
def modern(tiny_bert, tmp_path_factory):
    """The folder of a tiny ModernBERT."""
    return write_architecture("modernbert", tiny_bert, tmp_path_factory.mktemp("modern"))


@pytest.fixture
def hub(hub, modern):
    hub.put(MODERN, modern)
    return hub


def planned(text, name=MODERN):
    return resolve(text, backbone_name=name, corpus="wiki1m", data="senteval", seed=1)


def test_a_plan_needs_the_description_and_the_commit(hub, monkeypatch, capsys):
    run, commit = planned("simcse[dropout=0.1]"), hub.commit(MODERN)
    assert run.identity["backbone"] == f"{MODERN}@{commit}"
    assert (run.backbone, run.reference, run.pretrained.source) == (MODERN, MODERN, "hub")
    assert (run.shape.width, run.shape.depth, run.shape.cased) == (32, 4, False)
    assert run.id.startswith("simcse.dropout-0.1_official_answerdotai-modernbert-base_s1_")
    assert not any("safetensors" in request for request in hub.requests)
    told = f"{MODERN}: fetched configuration and tokenizer of commit {commit}"
    assert capsys.readouterr().err.count(told) == 1
    backbones._hub_backbone.cache_clear()  # as in another process, later
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.repositories[MODERN] = hub.repositories[MODERN] | {"config.json": b"{}"}
    assert planned("simcse[dropout=0.1]").identity == run.identity
    assert told not in capsys.readouterr().err


def test_a_revision_that_is_named_has_its_commit_as_identity(hub):
    hub.revisions[MODERN, "refs/pr/1"] = hub.repositories[MODERN] | {"vocab.txt": b"new"}
    name = f"{MODERN}@refs/pr/1"
    commit = hub.commit(MODERN, "refs/pr/1")
    branch, fixed = backbone(name), backbone(f"{MODERN}@{commit}")
    assert branch.fingerprint == fixed.fingerprint == f"{MODERN}@{commit}"
    assert branch.fingerprint != backbone(MODERN).fingerprint
    assert branch.folder().name == commit


def test_a_built_in_model_is_itself_under_its_id(hub):
    (hub_id, name) = ("FacebookAI/roberta-large", "roberta-large")
    assert backbone(hub_id) == BUILT_IN[name]
    assert planned("simcse", hub_id) == planned("simcse", name)
    assert not hub.requests


def test_a_copy_is_identified_by_its_files(hub, modern, monkeypatch, tmp_path):
    copy = shutil.copytree(modern, tmp_path / "own" / MODERN)
    monkeypatch.setenv("BENCH_MODELS", str(tmp_path / "own"))
    run = planned("simcse[dropout=0.1]")
    assert not hub.requests
    assert (run.backbone, run.reference, run.pretrained.folder()) == (MODERN, MODERN, copy)
    assert run.identity["backbone"] == backbone(str(copy)).fingerprint
    # An encoder to score keeps its name as identity.
    scored = planned(f"published[model={MODERN},pooler=avg]", "none")
    assert scored.models == {MODERN: MODERN}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"README.md": b""}, "a/b has no config.json; name a transformer of the hub"),
        ({"config.json": b"{}"}, "a/b is not a transformer encoder"),
        ({"config.json": b'{"auto_map": {"AutoModel": "x.Y"}}'}, "code of the model's own"),
    ],
)
def test_what_is_no_encoder_is_refused_in_the_plan(files, message, hub):
    hub.repositories["a/b"] = files
    refused(lambda: planned("simcse", "a/b"), message)
