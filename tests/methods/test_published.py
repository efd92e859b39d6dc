"""Published checkpoints as untrained runs."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.models.load import load_encoder
from bench.training.context import RunContext
from tests.methods.outside import run_of


@pytest.mark.parametrize("pooler", ["avg", "cls_before_pooler"])
def test_it_is_the_checkpoint_with_its_pooler(
    tiny_backbone: Path, tiny_data: Path, tmp_path: Path, pooler: str
) -> None:
    run = run_of(f"published[model={tiny_backbone},pooler={pooler}]", data=tiny_data)
    assert (run.trained, run.backbone, run.seed) == (False, "none", None)
    context, method = RunContext(run, tmp_path, "cpu"), run.build()
    method.prepare(context)
    encoder = method.finish(method.encoder(context), context)
    expected = load_encoder(tiny_backbone, pooler=pooler)
    assert encoder.identity == expected.identity
    texts = ["a man sleeps", "the dog"]
    assert np.array_equal(encoder.encode(texts), expected.encode(texts))


def test_a_folder_may_name_its_own_pooler(train_tiny: Any, tiny_data: Path, tmp_path: Path) -> None:
    folder = train_tiny("simcse")
    run = run_of(f"published[model={folder},pooler=none]", data=tiny_data)
    encoder = run.build().encoder(RunContext(run, tmp_path, "cpu"))
    assert encoder.pooler == "cls_before_pooler"


def test_hub_ids_and_labels() -> None:
    run = run_of("published[model=johngiorgi/declutr-base,pooler=avg]")
    assert run.label == "Published checkpoint (model=johngiorgi/declutr-base, pooler=avg)"
    assert run_of(run.text).id == run.id
    assert "/" not in run.id
    model = "princeton-nlp/unsup-simcse-roberta-large"
    label = f"Published checkpoint (model={model}, pooler=cls_before_pooler)"
    assert run_of(f"published[model={model}]").label == label


def test_checkpoints_that_the_documentation_lists_can_be_written_as_runs() -> None:
    page = Path(__file__, "../../../docs/methods.md").resolve().read_text(encoding="utf-8")
    section = page.partition("\n### Published\n")[2].partition("\n### ")[0]
    listed = re.findall(r"^\|[^|]*\|?[^|]*?`([\w-]+/[\w.-]+)`.*\| `(\w+)`", section, re.MULTILINE)
    models = {model: pooler for model, pooler in listed if model.count("/") == 1}
    assert models["SupstarZh/whitenedcse-bert-base"] == "cls_before_pooler"
    assert models["princeton-nlp/sup-simcse-bert-base-uncased"] == "cls"
    assert len(models) >= 10
    for model, pooler in models.items():
        hyper = run_of(f"published[model={model},pooler={pooler}]").build().hyper
        assert (hyper.model, hyper.pooler) == (model, pooler)


# What the tests of all methods need to know of this one (`outside.of_methods`).

OUT_OF_LIMITS = {
    "published": "pooler=cls_mlp",
}
