"""Shared by all tests: two tiny random backbones, a tiny data folder, a tiny corpus.

Weights are random and gold scores made up: numbers only serve to be compared with each other.
"""

import gc
import os
import random
from itertools import product
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
from hypothesis import settings

from tests.skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401 - hooks
from tests.support.tiny_backbones import make_sentences, write_backbone

# No deadline: a busy machine is no failure. The same examples each time: red is red for everybody.
settings.register_profile("sentbench", deadline=None, derandomize=True, max_examples=50)
# `make test-nightly` looks for examples that nobody has seen.
settings.register_profile("nightly", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("sentbench")
# Searching for garbage in what is imported and collected, which stays, is a quarter of collection.
gc.disable()


def pytest_addoption(parser):
    # Here, not in reported/conftest.py, which is loaded too late if tests/ is collected as a whole.
    described = "printed scores that are only consistent with ours fail (docs/reference/rule.md)"
    parser.addoption("--fail-consistent", action="store_true", help=described)


def pytest_collection_finish():
    gc.freeze()
    gc.set_threshold(200_000)  # tests make little garbage that is cyclic
    gc.enable()


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory):
    """A random BERT of 4 layers and width 32, with a lower-casing WordPiece tokenizer."""
    return write_backbone("bert", tmp_path_factory.mktemp("models") / "tiny-bert")


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory):
    """A random RoBERTa of the same shape, with a cased byte-level BPE tokenizer."""
    return write_backbone("roberta", tmp_path_factory.mktemp("models") / "tiny-roberta")


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
    from tests.support.kinds import headed_bert
    from tests.support.tiny_architectures import write_architecture

    folder = tmp_path_factory.mktemp("models")
    other = write_architecture("distilbert", tiny_bert, folder / "distilbert")
    return headed_bert(tiny_bert, folder / "bert"), other


@pytest.fixture(scope="session")
def document_corpus(tmp_path_factory):
    from tests.support.kinds import documents

    return documents(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def world():
    """The data folder of the toy data, to be read only."""
    from bench.world import world_data_folder

    return world_data_folder()


@pytest.fixture(scope="session")
def real_data():
    """The folder of real data, where there is one."""
    if not os.environ.get("BENCH_DATA"):
        pytest.skip("BENCH_DATA is not set")
    return Path(os.environ["BENCH_DATA"])


@pytest.fixture(scope="session")
def paper_runs():
    """The planned runs of the paper suite."""
    from bench.runs import config

    return config.planned(config.load(config.PAPERS[0]))


@pytest.fixture
def said(capsys):
    """Run a command, which ends with this status; what it prints."""
    from bench.cli import main

    def run(*words, status=0):
        capsys.readouterr()
        assert main([*map(str, words)]) == status
        return capsys.readouterr()

    return run


@pytest.fixture
def global_state():
    """Restore torch's threads, determinism and generators after a test that sets them."""
    import torch

    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[]):
        yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
