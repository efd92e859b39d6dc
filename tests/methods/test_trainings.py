"""Trainings of methods that are switched off end as SimCSE's."""

import pytest

from tests.support.outcomes import assert_same_training

EPOCH = {"epochs": 1, "pooler": "cls_mlp"}
SHORT = {"epochs": 1, "select_on": "STS-B", "precision": "float32"}


@pytest.mark.parametrize(
    ("text", "plain", "recipe"),
    [
        # GS-InfoNCE's released runs have another dropout, so it is named here.
        ("gs-infonce[dropout=0.1,multiple=0]", "simcse", {}),
        ("is-cse[alpha=0]@paper", "simcse", {}),
        ("sscl[layer=0]", "simcse", {}),
        ("dclr[noise_times=0,phi=1.5]@paper", "simcse", SHORT),
        ("esimcse[queue=0,rate=0]", "simcse", {}),
        ("cards[neighbours=0,switch=0]", "simcse", {}),
        ("rankcse[beta=0,gamma=0]", "simcse@paper", {}),
        ("pcl[group=false,peer=false,rounds=0]@paper", "simcse@paper", {}),
        ("diffcse[batchnorm=false,weight=0]", "simcse", EPOCH),
        ("infocse[batchnorm=false,weight=0]", "simcse", EPOCH),
        ("cropping[cut=0,unit=sentence]", "simcse[pooler=avg]", {"warmup": 0.1}),
    ],
)
def test_switched_off_it_is_simcse_bit_for_bit(text, plain, recipe, train_tiny):
    assert_same_training(train_tiny(text, **recipe), train_tiny(plain, **recipe))
