"""The cost of encoding beside sentence-transformers, with the same model in the same run.

BERT runs on packed states, several batches at once. Whether 600 sentences are also done sooner
depends on how evenly their few batches fill the cores: on a processor with AMX they do not
(docs/explanation/performance.csv). Other families run on sentence-transformers itself.
"""

import time

import pytest

from bench.datasets.corpora import read_sentences
from bench.models.load import load_encoder
from bench.world import world_data_folder


@pytest.fixture
def folders(tmp_path):
    """A random model of 6 layers and width 384, as transformers saves it and, with mean pooling, as
    sentence-transformers does, which would run on that library here, too."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    from bench.registry.backbones import TOY_FOLDER

    tokenizer = AutoTokenizer.from_pretrained(TOY_FOLDER / "toy-bert")
    shape = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12}
    config = AutoConfig.for_model(
        "bert", **shape, intermediate_size=1536, vocab_size=len(tokenizer), pad_token_id=0
    )
    torch.manual_seed(0)
    AutoModel.from_config(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    modules = [Transformer(str(tmp_path / "model")), Pooling(384, pooling_mode="mean")]
    SentenceTransformer(modules=modules).save(str(tmp_path / "modules"))
    return tmp_path / "model", tmp_path / "modules"


def test_encoding_is_no_slower_than_sentence_transformers(folders, request):
    from sentence_transformers import SentenceTransformer

    model, modules = folders
    library, ours = (
        SentenceTransformer(str(modules), device="cpu"),
        load_encoder(model, pooler="avg"),
    )
    sentences = list(dict.fromkeys(read_sentences(world_data_folder() / "world.txt", limit=900)))[
        :600
    ]
    clocks = {"wall": time.perf_counter, "processor": time.process_time}
    seconds = {(encoder, name): [] for encoder in (library, ours) for name in clocks}
    for encoder in [library, ours] * 4:
        started = {name: clock() for name, clock in clocks.items()}
        encoder.encode(sentences)
        for name, clock in clocks.items():
            seconds[encoder, name].append(clock() - started[name])
    ratios = {name: min(seconds[library, name]) / min(seconds[ours, name]) for name in clocks}
    print(f"\n{request.node.name}: sentence-transformers takes, times ours, {ratios}")
    assert ratios["processor"] > 1
