"""Published checkpoints as untrained runs."""

import numpy as np
import pytest

from bench.models.load import load_encoder
from tests.support.method_runs import encoder_of, run_of


@pytest.mark.parametrize("pooler", ["avg", "cls_before_pooler"])
def test_it_is_the_checkpoint_with_its_pooler(tiny_backbone, tiny_data, tmp_path, pooler):
    text = f"published[model={tiny_backbone},pooler={pooler}]"
    encoder = encoder_of(run_of(text, data=tiny_data), tmp_path)
    expected = load_encoder(tiny_backbone, pooler=pooler)
    assert encoder.identity == expected.identity
    texts = ["a man sleeps", "the dog"]
    assert np.array_equal(encoder.encode(texts), expected.encode(texts))


def test_a_folder_may_name_its_own_pooler(train_tiny, tiny_data, tmp_path):
    text = f"published[model={train_tiny('simcse')},pooler=none]"
    encoder = encoder_of(run_of(text, data=tiny_data), tmp_path)
    assert encoder.pooler == "cls_before_pooler"


def test_what_the_library_encodes_since_is_a_later_version():
    for keys, version in (
        ("pooler=avg", 1), ("pooler=avg,dtype=bfloat16", 2), ("template=a <sentence>", 2),
    ):  # fmt: skip
        assert run_of(f"published[model=a/b,{keys}]").identity["parts"][0][1] == version


def test_an_id_of_the_hub_is_no_path_in_names():
    run = run_of("published[model=johngiorgi/declutr-base,pooler=avg]")
    assert run.label == "Published checkpoint (model=johngiorgi/declutr-base, pooler=avg)"
    assert run_of(run.text).id == run.id
    assert "/" not in run.id


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

OUT_OF_LIMITS = {"published": "pooler=cls_mlp"}
