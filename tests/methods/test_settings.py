"""What the sources say: values of each method's settings; and hyper-parameters that are refused.

Source: docs/methods.md.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest

from bench.utils.errors import UserError
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


REFUSED = [
    ("cards[switch=-0.1]", "needs 0 <= switch <= 1, not -0.1"),
    ("cards[switch=1.5]", "needs 0 <= switch <= 1, not 1.5"),
    ("cards[words=some]", "is one of each, count, not 'some'"),
    ("cards[neighbours=-1]", "needs neighbours >= 0, not -1"),
    ("cards[retrieval=cls]", "is one of cls_before_pooler, avg,"),
    ("cards[retrieval=mean]", "not 'mean'"),
    ("cards[temperature=0]", "needs temperature > 0"),
    ("consert[temperature=0]", "temperature > 0"),
    ("consert[rate=1.0]", "rate < 1, not 1.0"),
    ("consert[rate=-0.1]", "rate < 1, not -0.1"),
    ("consert[scale=0]", "scale > 0"),
    ("consert[first=cutoff]", "'first' of 'consert' is one of plain, shuffle"),
    ("consert[second=noise]", "'second' of 'consert' is one of"),
    ("ct-bert[negatives=-1]", "needs negatives >= 0"),
    ("ct-bert[drawn=0]", "needs drawn >= 1"),
    *((f"dclr[{key}]@paper", "dclr")
      for key in ("phi=0", "noise_times=-1", "ascent_steps=-1", "ascent_size=-0.001",
                  "false_negatives=kept", "loss_form=hinge", "temperature=0")),
    ("cot-bert[split=0]", "'cot-bert' needs split >= 1, not 0"),
    ("cot-bert[denoise_by=words]", "'denoise_by' of 'cot-bert' is one of padding, positions"),
    ("cot-bert[denoise_scored=true]", "'cot-bert' cannot subtract padding from"),
    ("cot-bert[template_3=<sentence> is]", "a template of 'cot-bert' needs <sentence> once"),
    ("cot-bert[template=<sentence> <mask> <mask> <mask>]", "then <mask> 1 to 2 times"),
    *((f"declutr[{key}]", "'declutr'")
      for key in ("temperature=0", "anchors=0", "positives=0", "shortest=0", "shortest=600",
                  "longest=2,shortest=1", "document=2047", "masked=0", "masked=1", "language=-1")),
    *((f"esimcse[{key}]", "esimcse")
      for key in ("rate=-0.1", "rate=1.1", "queue=-1", "momentum=1.5", "momentum=-0.1",
                  "temperature=0")),
    ("is-bert[channels=0]", "needs channels >= 1, not 0"),
    ("is-cse[group=k-means]", "'group' of 'is-cse' is one of knn, kmeans, both, not 'k-means'"),
    ("is-cse[group=kmeans,clusters=0,buffer=20]", "<= buffer, not kmeans and 0 and 20"),
    ("is-cse[group=both,clusters=21,buffer=20]", "<= buffer, not both and 21 and 20"),
    ("is-cse[gamma=1.1]", "0 <= gamma <= 1, not 1.1"),
    ("is-cse[gamma=-0.1]", "0 <= gamma <= 1"),
    ("focal-infonce[hardness=-0.1]", "needs hardness >= 0, not -0.1"),
    ("mixcse[share=0]", "needs 0 < share < 0.5, not 0"),
    ("mixcse[share=0.5]", "needs 0 < share < 0.5, not 0.5"),
    ("mixcse[mixtures=some]", "is one of all, own, none, not 'some'"),
    ("mixcse[larger_share=kept]", "is one of zeroed, removed, not 'kept'"),
    ("simcse-plus-plus[positive_factor=0]", "needs positive_factor > 0, not 0"),
    ("simcse-plus-plus[weight=-1]", "needs weight >= 0, not -1"),
    ("simcse-plus-plus[feature_temperature=0]", "needs feature_temperature > 0, not 0"),
    ("simcse+focal-infonce", "'focal-infonce' adds nothing to another method"),
    *((f"promptbert[{name}={template}]", "a template of 'promptbert'")
      for name in ("template", "template_2")
      for template in ("a <mask>", "<sentence> is", "<mask> is <sentence>",
                       "<sentence> is <mask> <mask>", "<sentence><sentence><mask>")),
    ("promptbert[temperature=0]", "temperature"),
    ("skip-thought[units=0]", "'skip-thought' needs units >= 1, not 0"),
    ("skip-thought[vocabulary=2]", "'skip-thought' needs vocabulary >= 3, not 2"),
    ("skip-thought[longest=1]", "'skip-thought' needs longest >= 2, not 1"),
    ("skip-thought[condition=never]",
     "'condition' of 'skip-thought' is one of every, first, not 'never'"),
    ("skip-thought[reset=never]",
     "'reset' of 'skip-thought' is one of before, after, not 'never'"),
    ("sup-simcse[own_weight=-1]", "needs own_weight >= 0, not -1"),
    *((f"rankcse[{key}]", "'rankcse'")
      for key in ("alpha=1.1", "beta=-1", "gamma=-1", "tau2=0", "tau3=0", "rank_epsilon=-1",
                  "ranking=pairs", "consistency=kl")),
    ("word-noise[temperature=0]", "temperature > 0"),
    ("word-noise[probability=1.5]", "0 <= probability <= 1, not 1.5"),
    ("word-noise[probability=-0.1]", "0 <= probability <= 1"),
    ("word-noise[noise=insert]",
     "'noise' of 'word-noise' is one of swap, delete, none, not 'insert'"),
    ("word-noise[reading=first]",
     "'reading' of 'word-noise' is one of shared, second, corpus, not 'first'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_impossible_hyper_parameters_are_refused(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        run_of(text, ROBERTA)


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
