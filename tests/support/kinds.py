"""Trainings of each kind, tiny and without dropout: what must hold in every precision and place."""

import torch
from transformers import AutoConfig, AutoModelForMaskedLM

from bench.models.transformer import load_backbone
from tests.support.tiny_backbones import make_sentences
from tests.support.tiny_suite import tiny_run

TEMPLATES = "template=the <sentence> is <mask> .,template_2=a <sentence> was <mask> ."
CT_BERT = "ct-bert[batch_size=4,drawn=12,negatives=3]"
SPANS = "anchors=1,document=10,longest=5,shortest=3"
KINDS = {  # what each has that others lack
    "simcse": "views of one pass",
    "sscl": "a lower layer",
    "sscl[dimension=16,positive=self]": "a head that is scored",
    "consert": "changed embeddings",
    "is-cse[buffer=12,clusters=3,group=both,neighbours=3]": "a memory with clusters",
    "esimcse[queue=12]": "a second encoder that follows",
    "cards[neighbours=5,switch=0]": "neighbours",
    CT_BERT: "two encoders that learn",
    "is-bert": "convolutions",
    f"promptbert[{TEMPLATES}]": "templates",
    f"cot-bert[aligned=true,{TEMPLATES}]": "positions that all sequences share",
    "skip-thought[batch_size=4,units=8,vocabulary=30,width=6]": "no transformer",
    "diffcse@paper": "a discriminator",
    "diffcse@official": "a discriminator that reads padding",
    f"declutr[batch_size=2,{SPANS}]": "a masked-language loss",
    "infocse[skip=1]": "new layers that read other states",
    "pcl[rounds=1]": "a second network that learns, and augmented sequences",
    "rankcse": "a teacher",
    "mixcse": "mixed negatives",
    "focal-infonce": "weighted negatives",
    "simcse-plus-plus": "negatives without dropout",
    "cropping": "cut views",
    "word-noise": "views with other words",
    "gs-infonce": "noise",
    "dclr": "noise that is learnt, and a complementary model",
}
NOT_PACKED = "simcse[pooler=avg]"  # on a backbone with a forward pass of its own
# With modules of their own beside the backbone's, whose products autocast casts.
CASTING = [
    "simcse", "sscl[dimension=16,positive=self]", "esimcse[queue=12]", "is-bert", "rankcse", "dclr",
    CT_BERT, NOT_PACKED,
    *(text for text in KINDS if text.startswith(("skip", "diffcse", "declutr", "cot", "info"))),
]  # fmt: skip
OFF = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def headed_bert(tiny_bert, folder):
    """The tiny BERT's shape with a masked-language head, which DiffCSE needs, and without dropout:
    its generator keeps its own whatever the recipe says, and a GPU draws other masks."""
    torch.manual_seed(11)
    config = AutoConfig.from_pretrained(tiny_bert, **OFF)
    AutoModelForMaskedLM.from_config(config).save_pretrained(folder)
    load_backbone(tiny_bert)[1].save_pretrained(folder)
    return folder


def documents(folder):
    """A corpus of 28 sentences in documents of four."""
    corpus = folder / "documents.txt"
    corpus.write_text("".join(f"{sentence}\n" for sentence in make_sentences(28, seed=4)))
    rows = "".join(f"{1 + 4 * number}\t4\n" for number in range(7))
    corpus.with_name("documents.docs.tsv").write_text(f"first\tlines\n{rows}")
    return corpus


def run_of_kind(text, backbone, data, corpus, precision="float32"):
    """A run of a few steps."""
    recipe = {"precision": precision, "dropout": 0.0, "corpus": str(corpus)}
    return tiny_run(text, backbone, data, corpus, **recipe)
