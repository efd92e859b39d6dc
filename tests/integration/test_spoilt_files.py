"""Whatever stands in a file from elsewhere, its reader gives a value or one sentence."""

import json
import re
import shutil
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.datasets.manifest import manifest
from bench.models.load import load_encoder, save_encoder
from bench.registry.backbones import backbone, vocabulary
from bench.results.records import read_analyses, read_scores, read_trained
from bench.runs import config
from bench.runs.plan import read_plan
from bench.stages.activity import last_failure
from bench.utils.errors import UserError
from bench.utils.files import read_json, read_settings, write_json
from tests.support.model_folders import pooling, prompts, write
from tests.support.synthetic_suite import write_suite
from tests.support.tiny_suite import tiny_configuration

# In place of a value, of a name, or of a letter.
OTHERS = ["null", "true", "-1", "1.5", "1e30", '""', '"x"', "[]", "[null]", "{}", '{"x": []}', ""]
OTHERS += [f'"{"x" * 5000}"', "9" * 5000, "2001-99-99", "\0", "\udcff", "[" * 200_000]
OTHERS.append(f"{'[' * 200_000}{']' * 200_000}")


def transformer(folder):
    backbone(str(folder))
    vocabulary(folder)
    load_encoder(folder, pooler="avg").encode(["a", "a " * 99])


def encoder(folder):
    load_encoder(folder).encode(["a", "a " * 99])


# By the file that is spoilt, the readers, which take its folder.
READERS = {
    "data/manifest.json": manifest,
    "suite/plan.json": lambda suite: read_plan(suite / "plan.json"),
    "suite/scores/run000.json": lambda folder: read_scores(folder / "run000.json"),
    "suite/analyses/run000.json": lambda folder: read_analyses(folder / "run000.json"),
    "suite/trained/run000.json": lambda folder: read_trained(folder / "run000.json"),
    "suite/runs/r/failure.json": lambda folder: last_failure(folder.parents[1], "r"),
    "suite/inputs/data.json": lambda folder: read_settings(folder / "data.json"),
    "bert/config.json": transformer,
    "bert/tokenizer.json": transformer,
    "bert/tokenizer_config.json": transformer,
    "modules/modules.json": encoder,
    "modules/config_sentence_transformers.json": encoder,
    "modules/sentence_bert_config.json": encoder,
    "modules/1_Pooling/config.json": lambda folder: encoder(folder.parent),
    "saved/encoder.json": encoder,
    "config.yaml": lambda folder: config.plan(config.load(folder / "config.yaml")),
}


@pytest.fixture(scope="module")
def folder(tiny_bert, tiny_data, tiny_corpus, tmp_path_factory):
    """Valid files, whose readers accept them."""
    root = tmp_path_factory.mktemp("valid")
    shutil.copytree(tiny_data, root / "data")
    for name in ("bert", "modules"):
        shutil.copytree(tiny_bert, root / name)
    prompts(write(root / "modules", pooling()), "query", query="q: ")
    save_encoder(load_encoder(tiny_bert, pooler="avg"), root / "saved")
    run = {"method": "simcse", "seed": 0, "scores": 70.0, "analyses": {"a": {"b": 1.0}}}
    suite = write_suite(root / "suite", [run])
    made = read_json(suite / "scores" / "run000.json")["provenance"]
    described = {
        "suite/trained/run000.json": {"outcome": made["outcome"], "provenance": made},
        "suite/runs/r/failure.json": {"stage": "train", "error": "x", "attempts": 2},
        "suite/inputs/data.json": {"kind": "data"},
        "config.yaml": tiny_configuration(
            tiny_bert, tiny_data, tiny_corpus, recipe={"batch_size": 8},
            methods=["simcse", {"method": "gs-infonce[multiple={m}]", "sweep": {"m": [1, 2]}}],
            encoders=[{"model": str(tiny_bert), "pooler": "avg", "label": "e"}],
        ),
    }  # fmt: skip
    for name, content in described.items():
        write_json(root / name, content)
    for name, read in READERS.items():
        read((root / name).parent)
    return root


def spoilt(text, draw):
    """A JSON document with another key, or with something else in place of a value, a letter, or
    all that follows."""
    spot = draw.choice([*re.finditer(r'[\[{]|"[^"]*"|[\w.-]+', text)])
    start, other = spot.start(), '"x"'
    ends = [spot.end(), start + 1, len(text)]
    if text[ends[0]] != ":":
        other, ends[0] = draw.choice(OTHERS), json.JSONDecoder().raw_decode(text, start)[1]
    return text[:start] + other + text[draw.choice([ends[0]] * 8 + ends) :]


@pytest.mark.nightly
@pytest.mark.parametrize("name", READERS)
# Each example loads a model: a thousand of 17 readers would take hours.
@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(draw=st.randoms())
def test_a_spoilt_file_is_a_value_or_a_sentence(folder, name, draw):
    file = folder / name
    text, begun, told = file.read_text(), time.monotonic(), ""
    try:
        file.write_text(spoilt(text, draw), errors="surrogateescape")
        READERS[name](file.parent)
    except (UserError, OSError) as error:  # of a name that is too long for the system
        told = str(error)
    finally:
        file.write_text(text)
    assert "\n" not in told
    assert time.monotonic() - begun < 30  # on a busy machine; alone 3
