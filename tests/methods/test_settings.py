"""What the sources say: values of each method's settings; and hyper-parameters that are refused.

Source: docs/methods.md.
"""

from operator import attrgetter
from typing import Any

import pytest
from pydantic import ValidationError

from bench.utils.errors import UserError
from methods.flow import Flow
from methods.is_bert import ISBERT
from methods.simcse import SimCSE
from tests.methods.outside import run_of

BERT, LARGE = "bert-base-uncased", "bert-large-uncased"
ROBERTA, ROBERTA_LARGE = "roberta-base", "roberta-large"
SIMCSE = "princeton-nlp/unsup-simcse-"
CONSERT = {
    "corpus": "sts", "batch_size": 96, "learning_rate": 5e-7, "patience": 10, "decay_biases": False,
    "epochs": 10, "select_every": 200, "dropout": 0.0, "first": "feature_cutoff",
    "second": "shuffle", "rate": 0.2, "scale": 0.3,
}  # fmt: skip
CONSERT_LARGE = {
    "epochs": 25, "select_every": 100, "dropout": None, "first": "plain", "second": "shuffle",
    "scale": 0.3,
}  # fmt: skip
DCLR = {
    "batch_size": 128, "epochs": 3, "learning_rate": 3e-5, "phi": 0.9, "noise_times": 1.0,
    "complement": SIMCSE + BERT, "precision": "float32", "select_on": "STS-B+SICK-R",
}  # fmt: skip
PLAIN = {
    "start": None, "padded": False, "complement_dropout": False, "loss_form": "softmax",
    "pooler": "cls_mlp", "early_epsilon": False, "epsilon": 1e-8, "clip": 1.0,
}  # fmt: skip
RELEASED = {
    **PLAIN, "padded": True, "complement_dropout": True, "loss_form": "one-vs-rest",
    "pooler": "cls_pooler_mlp", "early_epsilon": True,
}  # fmt: skip
# Gradients of the large models are averaged over four processes.
QUARTER = {"pooler": "cls_pooler", "epsilon": 4 * 1e-8, "clip": 4 * 1.0}
DCLR_ROBERTA = {**DCLR, "phi": 0.85, "noise_times": 2.5, "complement": SIMCSE + ROBERTA}
FOUR_GPUS = {"batch_size": 256, "epochs": 1}  # 64 sentences on each are one batch of 256
DECLUTR = {
    "batch_size": 4, "average": True, "pooler": "avg", "evaluation_pooler": "avg",
    "learning_rate": 5e-5, "weight_decay": 0.1, "warmup": 0.1, "epsilon": 1e-6,
    "bias_correction": False, "schedule": "slanted", "drop_last": True, "decay_biases": False,
}  # fmt: skip
ESIMCSE = {
    "batch_size": 64, "redraw": False, "random_start": True, "rate": 0.32, "queue": 160,
    "learning_rate": 3e-5, "dropout": None,
}  # fmt: skip
IS_BERT = {
    "batch_size": 32, "learning_rate": 2e-6, "epsilon": 1e-7, "warmup": 0.1,
    "bias_correction": False, "weight_decay": 0.01, "select_every": 1000, "corpus": "nli",
    "relu": False, "max_length": 131, "decay_biases": False,
}  # fmt: skip
MIXCSE = {"share": 0.2, "batch_size": 64, "learning_rate": 3e-5, "select_every": 125}
PROMPTBERT = {
    "batch_size": 256, "learning_rate": 1e-5, "max_length": 34, "epochs": 1, "select_every": 125,
    "pooler": "cls_mlp",
}  # fmt: skip
COT_BERT = {
    "batch_size": 256, "learning_rate": 1e-5, "max_length": 34, "epochs": 1, "drop_last": True,
    "select_every": 125, "cross": True, "denoise": True, "denoise_by": "padding",
}  # fmt: skip
SKIP_THOUGHT = {"condition": "every", "reset": "before", "batch_size": 128, "clip": 10.0}
WORD_NOISE = {
    "batch_size": 32, "learning_rate": 3e-5, "schedule": "constant", "weight_decay": 0.01,
    "dropout": 0.15, "max_length": 64, "pooler": "avg_first_last", "precision": "float32",
    "select_every": 5,
}  # fmt: skip
VALUES: list[tuple[str, str, dict[str, Any]]] = [
    # 4 x 128 on one device is 512
    ("cards", ROBERTA, {"setting": "official", "batch_size": 512, "learning_rate": 4e-5,
                        "switch": 0.05, "words": "each", "neighbours": 64, "retrieval": "avg"}),
    ("cards", ROBERTA_LARGE, {"setting": "official", "batch_size": 512, "learning_rate": 7.5e-6,
                              "switch": 0.1, "words": "count", "neighbours": 8,
                              "retrieval": "cls_before_pooler"}),
    *(("consert@official", name, {**CONSERT, "pooler": "avg", "max_length": 67})
      for name in (BERT, ROBERTA)),
    *(("consert@paper", name,
       {**CONSERT, "pooler": "avg_top2", "scale": 1.0, "max_length": 64})
      for name in (BERT, ROBERTA)),
    *(("consert@official", name, CONSERT_LARGE) for name in (LARGE, ROBERTA_LARGE)),
    *(("consert@paper", name, {"epochs": 25, "dropout": 0.0, "first": "feature_cutoff"})
      for name in (LARGE, ROBERTA_LARGE)),
    *((f"dclr+is-cse@{setting}", backbone,
       values | (RELEASED | released if setting == "official" else PLAIN))
      for setting in ("official", "paper")
      for backbone, values, released in (
          (BERT, DCLR, {}),
          (ROBERTA, DCLR_ROBERTA, {}),
          (LARGE, {**DCLR, **FOUR_GPUS, "noise_times": 3.0},
           {**QUARTER, "start": SIMCSE + LARGE}),
          (ROBERTA_LARGE,
           {**DCLR_ROBERTA, **FOUR_GPUS, "learning_rate": 1e-5, "noise_times": 5.0},
           {**QUARTER, "start": SIMCSE + ROBERTA_LARGE}),
      )),
    ("declutr@official", ROBERTA, DECLUTR),
    *((f"diffcse@{setting}", name,
       {"learning_rate": rate, "batch_size": 64, "epochs": 2, "masked": masked, "weight": 0.005,
        "generator": generator, "padded": setting == "official", "batchnorm": True,
        "evaluation_pooler": "cls_before_pooler"})
      for setting in ("official", "paper")
      for name, rate, masked, generator in ((BERT, 7e-6, 0.30, "distilbert-base-uncased"),
                                            (ROBERTA, 1e-5, 0.20, "distilroberta-base"))),
    ("diffcse", "toy-bert", {"generator": "backbone"}),
    ("declutr@paper", ROBERTA, {"batch_size": 16, "average": False}),
    ("esimcse@official", BERT, ESIMCSE),
    ("esimcse@official", LARGE, {**ESIMCSE, "learning_rate": 1e-5}),
    ("esimcse@official", ROBERTA, {**ESIMCSE, "rate": 0.30, "learning_rate": 1e-5}),
    ("esimcse@official", ROBERTA_LARGE,
     {**ESIMCSE, "rate": 0.28, "queue": 128, "learning_rate": 1e-5, "dropout": 0.15}),
    *((f"focal-infonce@{setting}", backbone,
       {"hardness": 0.3, "temperature": 0.05, "select_every": 125, "precision": "mixed", **values})
      for setting in ("official", "paper")
      for backbone, values in ((BERT, {"batch_size": 64, "learning_rate": 3e-5}),
                               (ROBERTA, {"batch_size": 512, "learning_rate": 1e-5}))),
    ("is-bert@official", BERT, IS_BERT),
    ("is-bert@paper", BERT, {**IS_BERT, "relu": True}),
    ("mixcse@official", BERT,
     {**MIXCSE, "mixtures": "all", "mixed_anchors": True, "larger_share": "zeroed",
      "normalised": False, "precision": "float32"}),
    ("mixcse@paper", BERT,
     {**MIXCSE, "mixtures": "own", "mixed_anchors": False, "larger_share": "removed",
      "normalised": True, "precision": "mixed"}),
    ("promptbert@official", BERT,
     {**PROMPTBERT, "period": True, "template": 'This sentence of "<sentence>" means <mask>.'}),
    ("promptbert@official", ROBERTA,
     {**PROMPTBERT, "template_2": "The sentence : '<sentence> ' means<mask>.", "space": True,
      "from_zero": True}),
    ("promptbert@paper", ROBERTA, {**PROMPTBERT, "space": False, "from_zero": False}),
    ("promptbert@paper", BERT, {"period": False}),
    *(("rankcse", name,
       {"teacher": SIMCSE + name, "teacher_2": SIMCSE + second, "setting": "paper",
        "batch_size": 128, "learning_rate": 3e-5})
      for name, second in ((BERT, LARGE), (ROBERTA, ROBERTA_LARGE))),
    ("rankcse", "toy-bert", {"teacher": "backbone", "teacher_2": None, "teacher_pooler": "avg"}),
    *((f"simcse-plus-plus@{setting}", BERT,
       {"batch_size": 64, "learning_rate": 3e-5, "positive_factor": 1.0, "weight": 0.1,
        "feature_temperature": 5.0}) for setting in ("official", "paper")),
    ("cot-bert@official", BERT,
     {**COT_BERT, "split": 2, "period": True, "space": False, "aligned": False,
      "template_2":
          'The sentence : "<sentence>" means <mask> , so it can be summarized as <mask> .'}),
    ("cot-bert@official", ROBERTA, {**COT_BERT, "split": 2, "period": True, "space": True}),
    *(("cot-bert@paper", name,
       {**COT_BERT, "split": 1, "period": False, "space": False, "aligned": True})
      for name in (BERT, ROBERTA)),
    *((f"sup-simcse@{setting}", name,
       {"corpus": "nli", "batch_size": 512, "epochs": 3, "learning_rate": rate, "dimension": width,
        "select_every": 125, "own_weight": 1.0, **quarter})
      for setting, quarter in (
          ("paper", {"clip": 1.0}), ("official", {"clip": 4.0, "epsilon": 4e-8}))
      for name, rate, width in ((BERT, 5e-5, 768), (ROBERTA, 5e-5, 768), (LARGE, 1e-5, 1024),
                                (ROBERTA_LARGE, 1e-5, 1024))),
    ("skip-thought@paper", "toy-bert", {**SKIP_THOUGHT, "backbone.name": "none"}),
    ("skip-thought@official", "toy-bert",
     {"condition": "first", "reset": "after", "batch_size": 64, "clip": 5.0,
      "backbone.name": "none"}),
    ("word-noise", "bert-base-chinese",
     {**WORD_NOISE, "corpus": "cnsd", "select_on": "CNSD-STS-B", "pooler": "avg_first_last_64"}),
    ("word-noise", BERT,
     {**WORD_NOISE, "corpus": "wiki1m", "select_on": "STS-B",
      "label": "SimCSE+noise (noise=swap)"}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "backbone", "values"), VALUES)
def test_values(text: str, backbone: str, values: dict[str, Any]) -> None:
    run = run_of(text, backbone)
    hyper = run.parts[0][2]

    def found(key: str) -> Any:
        if key in hyper:
            return hyper[key]
        return attrgetter(key)(run if hasattr(run, key.partition(".")[0]) else run.recipe)

    assert {key: found(key) for key in values} == values


# Values out of the limits of their hyper-parameter, which the message names.
OUT_OF_LIMITS = {
    "cards": "switch=-0.1 switch=1.5 words=some neighbours=-1 retrieval=cls retrieval=mean "
             "temperature=0",
    "consert": "temperature=0 rate=1.0 rate=-0.1 scale=0 first=cutoff second=noise",
    "cot-bert": "split=0 denoise_by=words",
    "cropping": "unit=word lines=0 longest=2 cut=1 cut=-0.1",
    "ct-bert": "negatives=-1 drawn=0",
    "dclr": "phi=0 noise_times=-1 ascent_steps=-1 ascent_size=-0.001 false_negatives=kept "
            "loss_form=hinge temperature=0",
    "declutr": "temperature=0 anchors=0 positives=0 shortest=0 shortest=600 longest=2 "
               "document=2047 masked=0 masked=1 language=-1",
    "diffcse": "masked=0 masked=1 weight=-1",
    "esimcse": "rate=-0.1 rate=1.1 queue=-1 momentum=1.5 momentum=-0.1 temperature=0",
    "focal-infonce": "hardness=-0.1",
    "gs-infonce": "multiple=-1 std=0 weight=-1 multiple=many weight=nan weight=true",
    "is-bert": "channels=0 channels=1.5 relu=maybe",
    "is-cse": "group=k-means neighbours=0 neighbours=1024 beta=0 alpha=-1 alpha_start=-0.1 "
              "alpha_start=0.2 gamma=1.1 gamma=-0.1",
    "is-cse[group=both": "clusters=0 clusters=1025",
    "mixcse": "share=0 share=0.5 mixtures=some larger_share=kept",
    "promptbert": "temperature=0",
    "published": "pooler=cls_mlp",
    "rankcse": "alpha=1.1 beta=-1 gamma=-1 tau2=0 tau3=0 rank_epsilon=-1 ranking=pairs "
               "consistency=kl teacher_pooler=cls",
    "simcse-plus-plus": "positive_factor=0 weight=-1 feature_temperature=0",
    "skip-thought": "units=0 width=0 vocabulary=2 longest=1 condition=never reset=never",
    "sscl": "layer=-1 stack=-1 positive=other negatives=some sides=two",
    "sup-simcse": "own_weight=-1",
    "untrained": "pooler=cls_mlp",
    "untrained+flow": "levels=0 depth=0 hidden=0 batch_size=0 epochs=0 learning_rate=0 sentences=1 "
                      "start=zero permutation=none",
    "untrained+projection": "dimensions=0 kind=svd sentences=1",
    "untrained+whitening": "dimensions=-1 sentences=1",
    "word-noise": "temperature=0 probability=1.5 probability=-0.1 noise=insert reading=first",
    "word-overlap": "width=0",
}  # fmt: skip
REFUSED = [
    *((f"{method}{',' if '[' in method else '['}{word}]", f"'{word.partition('=')[0]}'")
      for method, words in OUT_OF_LIMITS.items() for word in words.split()),
    ("cot-bert[denoise_scored=true]", "padding cannot be subtracted from"),
    ("cot-bert[template_3=<sentence> is]", "a template needs <sentence> once"),
    ("cot-bert[template=<sentence> <mask> <mask> <mask>]", "then <mask> 1 to 2 times"),
    *((f"promptbert[{name}={template}]", "a template needs <sentence> once")
      for name in ("template", "template_2")
      for template in ("a <mask>", "<sentence> is", "<mask> is <sentence>",
                       "<sentence> is <mask> <mask>", "<sentence><sentence><mask>")),
    ("published[model=a/b,prompt=query]", "a pooler uses only the transformer of 'a/b'"),
    ("simcse+focal-infonce", "'focal-infonce' adds nothing to another method"),
    ("untrained+projection[source=target]", "one map for all tasks"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_impossible_hyper_parameters_are_refused(text: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason) as refused:
        run_of(text, ROBERTA)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "hyper", [{"length": 3}, {"temperature": True}, {"temperature": None}, {"delete_word": 2}]
)
def test_values_of_another_type_and_unknown_names_are_refused(hyper: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SimCSE.Hyper(**hyper)


def test_texts_become_values_of_their_types() -> None:
    hyper = SimCSE.Hyper(temperature="5e-2", delete_word="true")
    assert (hyper.temperature, hyper.delete_word) == (0.05, True)
    assert type(SimCSE.Hyper(temperature=1).temperature) is float
    channels = [ISBERT.Hyper(channels=text).channels for text in ("none", "Null", "8")]
    assert channels == [None, None, 8]
    epochs = [Flow.Hyper(epochs=given).epochs for given in (1, 1.0, "1", 1.5, "0.5")]
    assert list(map(str, epochs)) == ["1", "1", "1", "1.5", "0.5"]


def test_labels_names_and_texts() -> None:
    assert run_of("consert").label == "ConSERT (has seen the STS test sentences)"
    text = "consert[epochs=1]"
    assert run_of(text).label == "ConSERT (epochs=1) (has seen the STS test sentences)"
    assert run_of("consert[corpus=wiki1m]").label == "ConSERT (corpus=wiki1m)"
    # A template is no part of a label.
    text = "promptbert[sentences=9,template=it says <sentence> so <mask> .]"
    run = run_of(text)
    assert (run.label, run.text) == ("PromptBERT (sentences=9)", text)
    assert run_of(run.arguments[0]).id == run.id
    # Earlier runs keep their names.
    plain = run_of("is-cse", seed=42).id
    assert plain == "is-cse_official_bert-base-uncased_s42_04e689638d"
    assert run_of("is-cse[clusters=64,gamma=0.5,group=knn]", seed=42).id == plain
    assert run_of("is-cse[gamma=0.1]", seed=42).id == plain  # without effect
    keys = ("group=kmeans", "group=both", "gamma=0.1,group=both")
    assert len({plain, *(run_of(f"is-cse[{key}]", seed=42).id for key in keys)}) == 4
