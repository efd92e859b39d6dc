"""Whatever stands in a file that a reader takes from elsewhere, it gives a value or one sentence."""

import json
import shutil
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.datasets.manifest import manifest
from bench.judge.stage import read_suite
from bench.judged import store
from bench.models.load import check_model, load_encoder, save_encoder
from bench.registry.backbones import backbone, vocabulary
from bench.results.records import read_analyses, read_scores, read_trained
from bench.runs import config
from bench.runs.plan import read_plan
from bench.stages.activity import last_failure
from bench.stages.inputs import renew
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from tests.models.folders import pooling, prompts, write
from tests.support.synthetic_suite import write_suite

OTHERS = [None, True, 0, -1, 1.5, 10**30, "", "x", "x" * 5000, [], [None], {}, {"x": None}]


def encode(folder):
    load_encoder(folder).encode(["a"])


def encode_plain(folder):
    if (folder / "config.json").is_file():
        backbone(str(folder))
    vocabulary(folder)
    check_model(str(folder), "avg", None, None, "float32")
    load_encoder(folder, pooler="avg").encode(["a", "a " * 99])


def plan(folder):
    config.plan(config.load(folder / "config.yaml"))


# Each reader by its file.
READERS = {
    "data/manifest.json": manifest,
    "suite/plan.json": lambda folder: read_plan(folder / "plan.json"),
    "suite/scores/run000.json": lambda folder: read_scores(folder / "run000.json"),
    "suite/analyses/run000.json": lambda folder: read_analyses(folder / "run000.json"),
    "suite/trained/run000.json": lambda folder: read_trained(folder / "run000.json"),
    "suite/judged.json": lambda folder: store.read(folder, "key"),
    "suite/runs/run001/failure.json": lambda folder: last_failure(folder.parents[1], folder.name),
    "suite/inputs/data.json": lambda folder: renew(RUNS, folder.parent),
    "plain/config.json": encode_plain,
    "plain/tokenizer.json": encode_plain,
    "plain/tokenizer_config.json": encode_plain,
    "modules/modules.json": encode,
    "modules/config_sentence_transformers.json": encode,
    "modules/sentence_bert_config.json": encode,
    "modules/1_Pooling/config.json": lambda folder: encode(folder.parent),
    "saved/encoder.json": encode,
    "adapter/adapter_config.json": lambda folder: check_model(
        str(folder), "avg", None, None, "float32"
    ),
    "config.yaml": plan,
}
RUNS = []


@pytest.fixture(scope="module")
def folder(tiny_bert, tiny_data, tiny_corpus, tmp_path_factory):
    root = tmp_path_factory.mktemp("valid")
    shutil.copytree(tiny_data, root / "data")
    for name in ("plain", "modules", "adapter"):
        shutil.copytree(tiny_bert, root / name)
    prompts(write(root / "modules", pooling()), "query", query="q: ")
    save_encoder(load_encoder(tiny_bert, pooler="avg"), root / "saved")
    described = {"base_model_name_or_path": str(tiny_bert), "peft_type": "LORA", "revision": None}
    for path in (root / "adapter").glob("model*"):
        path.unlink()
    write_json(root / "adapter" / "adapter_config.json", described)
    entries = [{"method": "simcse", "seed": 0, "scores": 70.0, "analyses": {"a": {"b": 1.0}}}]
    entries.append({"method": "simcse", "seed": 1, "scores": None})
    suite = write_suite(root / "suite", entries)
    made = read_json(suite / "scores" / "run000.json")["provenance"]
    write_json(suite / "trained" / "run000.json", {"outcome": made["outcome"], "provenance": made})
    store.write(read_suite(suite), suite, "key")
    write_json(suite / "runs" / "run001" / "failure.json", {"stage": "train", "error": "x"})
    write_json(suite / "inputs" / "data.json", {"kind": "data", "name": "x"})
    planned = read_plan(suite / "plan.json").runs
    RUNS[:] = [run.model_copy(update={"data": "world"}) for run in planned]
    write_json(root / "config.yaml", {
        "suite": "s", "data": str(tiny_data), "corpus": str(tiny_corpus), "tasks": ["sts"],
        "seeds": [1, 2], "backbones": {str(tiny_bert): {"seeds": [1]}}, "stand_ins": {},
        "recipe": {"batch_size": 8}, "compare": {"baseline": "simcse"},
        "methods": ["simcse", {"method": "gs-infonce[multiple={m}]", "sweep": {"m": [1, 2]}}],
        "encoders": [{"model": str(tiny_bert), "pooler": "avg", "label": "e"}],
    })  # fmt: skip
    return root


def places(tree):
    """The containers of a JSON document with their keys."""
    found = []
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        found.append((tree, key))
        if isinstance(value, dict | list):
            found += places(value)
    return found


def spoilt(content, draw):
    """A JSON document with another value, without a key, nested, cut, or with another byte."""
    tree = [json.loads(content)]
    holder, key = draw.choice(places(tree)[:500])
    how = draw.choice(["value", "value", "key", "nested", "open", "cut", "byte", "binary"])
    if how in ("value", "nested", "open"):
        holder[key] = draw.choice(OTHERS) if how == "value" else "@"
    elif how == "key":
        del holder[key]
    place = draw.randrange(len(content))
    if how == "cut":
        return content[:place]
    if how in ("byte", "binary"):
        return content[:place] + draw.randbytes(1 if how == "byte" else 9) + content[place + 1 :]
    deep = b"[" * 200_000 + (b"]" * 200_000 if how == "nested" else b"")
    return json.dumps(tree[0] if tree else None).encode().replace(b'"@"', deep)


@pytest.mark.nightly
@pytest.mark.parametrize("name", READERS)
@settings(suppress_health_check=[*HealthCheck])
@given(draw=st.randoms(use_true_random=True))
def test_a_spoilt_file_is_a_value_or_a_sentence(folder, name, draw):
    file = folder / name
    content = file.read_bytes()
    begun = time.monotonic()
    try:
        file.write_bytes(spoilt(content, draw))
        READERS[name](file.parent)
    except UserError as error:
        assert "\n" not in str(error)
    finally:
        file.write_bytes(content)
    assert time.monotonic() - begun < 10
