"""Random stand-ins for everything that the paper suite downloads, under the names of the originals:
folders for BENCH_MODELS and BENCH_DATA.

The text is the toy data's. Models have the architectures, layers, heads and tokenizers of the
originals, and are narrow.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from bench.datasets.manifest import manifest
from bench.download import CORPORA
from bench.utils.files import write_json
from bench.world import WORLD_DATA
from tools.world.backbones import sentences, train_byte_bpe, train_wordpiece
from tools.world.data import build
from tools.world.samples import write_lines

# Of each model the class of transformers with the weights that its authors published, heads and
# width. Maps of the paper suite keep up to 256 dimensions of bert-base-uncased, and 384 of
# bert-large-uncased. All have 12 layers, which the suite counts on bert-base-uncased.
LAYERS = 12
MODELS = {
    "google-bert/bert-base-uncased": ("BertForPreTraining", 12, 264),
    "google-bert/bert-large-uncased": ("BertForPreTraining", 16, 400),
    "FacebookAI/roberta-base": ("RobertaForMaskedLM", 12, 96),
    "FacebookAI/roberta-large": ("RobertaForMaskedLM", 16, 128),
    "johngiorgi/declutr-base": ("RobertaForMaskedLM", 12, 96),
    "princeton-nlp/sup-simcse-roberta-large": ("RobertaModel", 16, 128),
    "princeton-nlp/unsup-simcse-bert-base-uncased": ("BertModel", 12, 264),
    "princeton-nlp/unsup-simcse-bert-large-uncased": ("BertModel", 16, 400),
    "princeton-nlp/unsup-simcse-roberta-base": ("RobertaModel", 12, 96),
    "princeton-nlp/unsup-simcse-roberta-large": ("RobertaModel", 16, 128),
}
WORDS, WORD_WIDTH = "glove.6B.300d", 300
VOCABULARY, LONGEST = 1000, 512  # tokens
ITEMS = 64  # of a task, over its subsets or labels
LINES = 32  # sentences of a corpus; two batch sizes of the analysis in-batch
TRIPLES = 64


def write_models(folder: Path) -> None:
    """Write the models, and the table of word vectors."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    lines = sentences()[:2000]
    tokenizers = {
        "Bert": train_wordpiece(lines, VOCABULARY),
        "Roberta": train_byte_bpe(lines, VOCABULARY),
    }
    for seed, (name, (kind, heads, width)) in enumerate(MODELS.items()):
        family = kind.partition("For")[0].removesuffix("Model")
        tokenizer = tokenizers[family]
        tokenizer.model_max_length = LONGEST
        shape: dict[str, Any] = {"num_hidden_layers": LAYERS, "num_attention_heads": heads}
        shape |= {"hidden_size": width, "intermediate_size": 64}
        shape |= {"vocab_size": len(tokenizer), "max_position_embeddings": LONGEST}
        if family == "Roberta":  # its positions start after the id of padding
            shape |= {"max_position_embeddings": LONGEST + 2, "type_vocab_size": 1}
            shape |= {"layer_norm_eps": 1e-5}
        # As wide a spread of sums as BERT's 0.02 gives at width 768.
        shape["initializer_range"] = 0.02 * (768 / width) ** 0.5
        torch.manual_seed(seed)
        model = getattr(transformers, kind)(getattr(transformers, f"{family}Config")(**shape))
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    words = sorted({word for line in lines for word in line.lower().split()})
    vectors = np.random.default_rng(0).normal(size=(len(words), WORD_WIDTH))
    table = pd.DataFrame(vectors, words)
    table.to_csv(folder / f"{WORDS}.txt", sep=" ", header=False, float_format="%.4f")


def write_data(folder: Path) -> None:
    """Write the tasks of SentEval, with `ITEMS` each, and the corpora wiki1m and nli."""
    # Of another name no score would be compared with print.
    listed = manifest(WORLD_DATA).model_copy(update={"name": "senteval"})
    for sizes in (listed.sts, listed.transfer, listed.probing):
        for name in sizes.keys() - {"TREC"}:  # of which the generator has one size alone
            share = ITEMS if "test" in sizes[name] else -(-ITEMS // len(sizes[name]))
            sizes[name] = dict.fromkeys(sizes[name], share)
    write_json(folder / "manifest.json", listed.model_dump(exclude_defaults=True))
    build(folder)
    # A step of short sentences is fast.
    lines = sorted(set(sentences()), key=lambda line: (len(line), line))
    write_lines(folder / CORPORA["wiki1m"], lines[:LINES])
    triples = (folder / "world-nli.csv").read_text(encoding="utf-8").splitlines()
    write_lines(folder / CORPORA["nli"], triples[: TRIPLES + 1])
