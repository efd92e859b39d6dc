"""The answers to claims, and the sentence that explains them."""

import numpy as np
import pytest
from scipy import stats

from bench.judge.claims import Claimed, decide, explained
from bench.judge.sample import Sample


def claimed(*differences, first=None):
    values = dict(enumerate(differences))
    return Claimed(Sample(values, range(len(values)), first or len(values)), 1.0)


def test_each_question_is_a_t_test_corrected_by_itself_for_all_claims_of_the_family():
    """Three claims, of which one has no score; steps of Holm's method by hand."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.8, 0.2, 5), rng.normal(0.1, 0.2, 5)
    found = decide([claimed(*first), claimed(*second)], 3)
    p = [stats.ttest_1samp(x, 0).pvalue for x in (first, second)]
    below = [stats.ttest_1samp(x, 1.0, alternative="less").pvalue for x in (first, second)]
    assert p[0] < p[1]
    assert below[1] < below[0]
    assert [x.p for x in found] == pytest.approx([3 * p[0], min(1, 2 * p[1])])
    assert [x.p_below for x in found] == pytest.approx([2 * below[0], 3 * below[1]])


def test_a_claim_before_its_look_has_p_1():
    family = [claimed(1.9, 2.0, 2.1), claimed(1.9, 2.0, 2.1, first=5)]
    assert [x.verdict for x in decide(family, 2)] == ["better", "open"]
    assert decide(family, 2)[0].p == pytest.approx(2 * decide(family[:1], 1)[0].p)


def test_a_sentence_has_all_that_an_answer_rests_on():
    pair = claimed(1.0, 2.0, 3.0)
    assert explained(pair.sample, ["p = 0.074 that the gain is 0"], "Holm over 2 claims") == (
        "look at 3 seeds (N = 3); mean 2.00 of n = 3, 98 % interval -2.02 to 6.02; p = 0.074 that "
        "the gain is 0; level 2 %, Holm over 2 claims; next look at 6 seeds, 3 made"
    )
    before = claimed(1.0, 2.0, first=5)
    assert explained(before.sample, ["p"], "Holm").endswith("; first look at 5 seeds, 2 made")


def test_a_sentence_counts_the_seeds_that_diverged():
    """Each once, and of those of the look."""
    values = {0: 1.0, 1: 2.0, 2: 3.0}
    left = Sample(values, range(6), 5, left_out={3}, diverged={3, 4, 5})
    told = "2 seeds diverged and left the pairs, so that the method cannot be better"
    assert told in explained(left, [], "Holm")
