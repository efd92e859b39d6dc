"""Shared by all tests: two tiny random backbones, a tiny data folder, a tiny corpus.

Weights are random and gold scores made up: numbers only serve to be compared with each other.
"""

import gc
import os
import random
from itertools import product
from string import ascii_lowercase

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
from hypothesis import settings

from tests.skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401 - hooks

# No deadline: a busy machine is no failure. The same examples each time: red is red for everybody.
settings.register_profile("sentbench", deadline=None, derandomize=True, max_examples=50)
# `make test-nightly` looks for examples that nobody has seen.
settings.register_profile("nightly", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("sentbench")
# Searching for garbage in what is imported and collected, which stays, is a quarter of collection.
gc.disable()

WORDS = """
a the one two small big red blue old new man woman dog cat bird child car boat house tree river road
plays eats sees finds takes holds moves runs jumps sleeps in on under near with and of to is was not
very again today slowly
""".split()  # noqa: SIM905
LAYERS, WIDTH = 4, 32
# Vectors of these backbones by two ways through float32: 7e-7 apart at most on any processor.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def pytest_addoption(parser):
    # Here, not in reported/conftest.py, which is loaded too late if tests/ is collected as a whole.
    described = "printed scores that are only consistent with ours fail (docs/statistics.md)"
    parser.addoption("--fail-consistent", action="store_true", help=described)


def pytest_collection_finish():
    gc.freeze()
    gc.set_threshold(200_000)  # tests make little garbage that is cyclic
    gc.enable()


def make_sentences(count, seed, lengths=(2, 9)):
    """Sentences of random words; every tenth is repeated later on, as in real corpora."""
    draw = random.Random(seed)
    rows = []
    while len(rows) < count:
        again = rows and draw.random() < 0.1
        fresh = () if again else draw.choices(WORDS, k=draw.randint(*lengths))
        rows.append(draw.choice(rows) if again else " ".join(fresh))
    return rows


def bert_tokenizer(size=0):
    """A lower-casing WordPiece tokenizer of at least so many pieces."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import PreTrainedTokenizerFast

    names = ("pad", "unk", "cls", "sep", "mask")
    special = {f"{name}_token": f"[{name.upper()}]" for name in names}
    pieces = [*special.values(), *WORDS, *ascii_lowercase, *(f"##{a}" for a in ascii_lowercase)]
    pieces += [f"[unused{number}]" for number in range(size - len({*pieces}))]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = BertWordPieceTokenizer(vocabulary)._tokenizer
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **special)


def _roberta_tokenizer():
    from tokenizers import ByteLevelBPETokenizer, processors
    from transformers import PreTrainedTokenizerFast

    special = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    special |= {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    bpe = ByteLevelBPETokenizer()
    first = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    options = {"vocab_size": 330, "min_frequency": 0, "special_tokens": first}
    bpe.train_from_iterator(make_sentences(50, seed=0), show_progress=False, **options)
    tokenizer = bpe._tokenizer
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **special)


def _write_backbone(kind, folder):
    import torch
    from transformers import AutoConfig, AutoModel

    tokenizer, own = bert_tokenizer(), {"max_position_embeddings": 64}
    if kind == "roberta":
        tokenizer = _roberta_tokenizer()
        own = {"max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1}
        own["layer_norm_eps"] = 1e-5
    # Wider initial weights than BERT's 0.02, so that four random layers change vectors visibly.
    shape = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 4}
    shape |= {"intermediate_size": 48, "initializer_range": 0.15, "vocab_size": len(tokenizer)}
    config = AutoConfig.for_model(kind, **shape, **own)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = AutoModel.from_config(config, add_pooling_layer=False)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory):
    """A random BERT of 4 layers and width 32, with a lower-casing WordPiece tokenizer."""
    return _write_backbone("bert", tmp_path_factory.mktemp("models") / "tiny-bert")


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory):
    """A random RoBERTa of the same shape, with a cased byte-level BPE tokenizer."""
    return _write_backbone("roberta", tmp_path_factory.mktemp("models") / "tiny-roberta")


@pytest.fixture(scope="session", params=["bert", "roberta"])
def tiny_backbone(request):
    """Either of the two."""
    return request.getfixturevalue(f"tiny_{request.param}")


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory):
    """A data folder with all seven STS tasks in their formats, 12 pairs a file."""
    from bench.utils.files import write_json

    folder = tmp_path_factory.mktemp("data")
    sts, sick = folder / "downstream" / "STS", folder / "downstream" / "SICK"
    draw = random.Random(1)

    def pairs(seed):
        texts = make_sentences(24, seed)
        return [(texts[2 * i], texts[2 * i + 1], f"{draw.uniform(0, 5):.3f}") for i in range(12)]

    def put(path, lines):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))

    for year, (number, name) in product(range(12, 17), enumerate(("first", "second"))):
        task = sts / f"STS{year}-en-test"
        # The last pair has no gold score, as some of STS15 and STS16.
        rows = [*pairs(100 * year + number), ("blank", "blank", "")]
        put(task / f"STS.input.{name}.txt", (f"{a}\t{b}" for a, b, _ in rows))
        put(task / f"STS.gs.{name}.txt", (gold for *_, gold in rows))
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment"
    names = {"train": "train", "dev": "trial", "test": "test_annotated"}
    for number, (split, sick_name) in enumerate(names.items()):
        rows = enumerate(pairs(10 + number))
        lines = (f"main\tfile\tyear\t{i}\t{gold}\t{a}\t{b}" for i, (a, b, gold) in rows)
        put(sts / "STSBenchmark" / f"sts-{split}.csv", lines)
        rows = enumerate(pairs(20 + number))
        lines = (f"{i}\t{a}\t{b}\t{gold}\tNEUTRAL" for i, (a, b, gold) in rows)
        put(sick / f"SICK_{sick_name}.txt", [header, *lines])
    counts = {f"STS{year}": {"first": 12, "second": 12} for year in range(12, 17)}
    splits = {"train": 12, "dev": 12, "test": 12}
    counts |= {"STS-B": splits, "SICK-R": splits}
    write_json(folder / "manifest.json", {"name": "tiny", "version": 1, "sts": counts})
    return folder


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory):
    """A training corpus of 44 sentences, one of them an empty line."""
    path = tmp_path_factory.mktemp("corpus") / "tiny.txt"
    rows = make_sentences(44, seed=2)
    rows[5] = ""
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def train_tiny(tiny_bert, tiny_data, tiny_corpus, tmp_path_factory):
    """Train a run on the tiny BERT: its folder, which equal settings share unless `fresh`."""
    from bench.runs.resolve import resolve
    from bench.training.loop import train

    done = {}
    places = {"backbone_name": str(tiny_bert), "corpus": str(tiny_corpus), "data": str(tiny_data)}

    def run(text, seed=1, fresh=False, **recipe):
        recipe = {"batch_size": 8, "learning_rate": 1e-3, "select_every": 2, **recipe}
        key = (text, seed, tuple(sorted(recipe.items())))
        if not fresh and key in done:
            return done[key]
        folder = tmp_path_factory.mktemp("run")
        train(resolve(text, **places, seed=seed, recipe=recipe), folder, folder)
        return folder if fresh else done.setdefault(key, folder)

    return run


@pytest.fixture(scope="session")
def kind_backbones(tiny_bert, tmp_path_factory):
    """Of `tests.support.kinds`: a BERT with a masked-language head, and one that is not packed."""
    from tests.support.kinds import distilbert, headed_bert

    folder = tmp_path_factory.mktemp("models")
    return headed_bert(tiny_bert, folder / "bert"), distilbert(tiny_bert, folder / "distilbert")


@pytest.fixture(scope="session")
def document_corpus(tmp_path_factory):
    from tests.support.kinds import documents

    return documents(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def world():
    """The data folder of the embedded world, to be read only."""
    from bench.world import world_data_folder

    return world_data_folder()


@pytest.fixture(scope="session")
def paper_runs():
    """The planned runs of the paper suite."""
    from bench.runs import config

    return config.planned(config.load(config.PAPERS[0]))


@pytest.fixture
def global_state():
    """A training sets torch's threads and determinism; other tests should not see that."""
    import torch

    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[]):
        yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
