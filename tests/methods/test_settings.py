"""Values of each method's settings, as the sources say; and hyper-parameters that are refused.

Source: docs/reference/methods.md.
"""

from operator import attrgetter

import pytest
from pydantic import ValidationError

from bench.utils.errors import UserError
from methods.flow import Flow
from methods.is_bert import ISBERT
from methods.simcse import SimCSE
from tests.support.method_runs import ROBERTA, of_methods, run_of

VALUES = [value for _, values in of_methods("VALUES") for value in values]


@pytest.mark.parametrize(("text", "backbone", "values"), VALUES)
def test_values(text, backbone, values):
    run = run_of(text, backbone)
    hyper = run.parts[0][2]

    def found(key):
        if key in hyper:
            return hyper[key]
        return attrgetter(key)(run if hasattr(run, key.partition(".")[0]) else run.recipe)

    assert {key: found(key) for key in values} == values


# Values out of the limits of their hyper-parameter, which the message names.
OUT_OF_LIMITS = [item for _, limits in of_methods("OUT_OF_LIMITS") for item in limits.items()]
REFUSED = [
    *((f"{method}{',' if '[' in method else '['}{word}]", f"'{word.partition('=')[0]}'")
      for method, words in OUT_OF_LIMITS for word in words.split()),
    ("cot-bert[denoise_scored=true]", "padding cannot be subtracted from"),
    ("cot-bert[template_3=<sentence> is]", "a template needs <sentence> once"),
    *((f"promptbert[{name}={template}]", "a template needs <sentence> once")
      for name in ("template", "template_2")
      for template in ("a <mask>", "<sentence> is", "<mask> is <sentence>",
                       "<sentence><sentence><mask>")),
    ("published[model=a/b,prompt=query]", "a pooler uses only the transformer of 'a/b'"),
    ("untrained+projection[source=target]", "one map for all tasks"),
    ("cot-bert[split=2]+is-cse@paper", "with split=2 contrasts within parts of a batch"),
    ("cropping+is-cse@paper", "the dropout positive"),
    ("sup-simcse+is-cse@paper", "with labelled pairs has none"),
    ("simcse+sup-simcse", "with labelled pairs defines its own positive"),
]  # fmt: skip
JOINED = [
    "cot-bert+is-cse@paper", "cropping+gs-infonce", "cropping[cut=0,unit=sentence]+is-cse@paper",
    "sup-simcse+gs-infonce@paper",
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_impossible_hyper_parameters_are_refused(text, reason):
    with pytest.raises(UserError, match=reason) as refused:
        run_of(text, ROBERTA)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", JOINED)
def test_what_may_join(text):
    assert len(run_of(text).parts) == 2


def test_texts_become_values_of_their_types():
    with pytest.raises(ValidationError):  # pydantic alone would read it as 1.0
        SimCSE.Hyper(temperature=True)
    assert SimCSE.Hyper(temperature="5e-2", delete_word="true").delete_word is True
    assert type(SimCSE.Hyper(temperature=1).temperature) is float
    channels = [ISBERT.Hyper(channels=text).channels for text in ("none", "Null", "8")]
    assert channels == [None, None, 8]
    epochs = [Flow.Hyper(epochs=given).epochs for given in (1, 1.0, "1", 1.5, "0.5")]
    assert list(map(str, epochs)) == ["1", "1", "1", "1.5", "0.5"]


def test_labels_names_and_texts():
    assert run_of("consert[epochs=1]").label == "ConSERT (epochs=1)"
    assert run_of("consert[corpus=wiki1m]").label == "ConSERT (corpus=wiki1m)"
    # A template is no part of a label.
    text = "promptbert[sentences=9,template=it says <sentence> so <mask> .]"
    run = run_of(text)
    assert (run.label, run.method) == ("PromptBERT (sentences=9)", text)
    assert run_of(run.text).id == run.id
    # Earlier runs keep their names.
    plain = run_of("is-cse[clusters=64,gamma=0.5,group=knn]", seed=42).id
    assert plain == "is-cse_official_bert-base-uncased_s42_04e689638d"
