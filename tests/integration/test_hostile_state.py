"""Encoders, scores and rendered files of the smallest suite are the same bits, whatever a program,
the environment or files of the user set."""

import hashlib
import json
import re
import sys

import pytest

from tests.support.programs import ended

pytestmark = pytest.mark.slow

# Run in a process of its own: state, folder of the suite.
SUITE = """
import decimal, json, os, random, sys
from bench.cli import main
import matplotlib, numpy, pandas, torch
from bench.models.load import load_encoder
import sentbench

kept = []  # contexts stay open
content = {
    "suite": "s", "data": "world", "corpus": "world", "tasks": ["STS-B", "TREC"], "mode": "dev",
    "seeds": [1], "backbones": {"toy-bert": None}, "compare": {"baseline": "simcse"},
    "methods": [{"method": "simcse", "analyses": ["in-batch"]},
                "untrained[pooler=avg]+whitening[source=target]"],
    "recipe": {"batch_size": 8, "select_every": 2, "sentences": 24},
}
with open("config.yaml", "w") as file:
    json.dump(content, file)

def letters(texts):
    return numpy.array([[text.count(letter) for letter in "abcdefghi"] for text in texts], "f4")

def state():
    return (
        torch.get_rng_state().tolist(), numpy.random.get_state()[1].tolist(),
        torch.get_num_threads(), torch.utils.deterministic.fill_uninitialized_memory,
        torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled(),
        torch.get_deterministic_debug_mode(), torch.backends.mkldnn.enabled,
        torch.backends.mkldnn.matmul.fp32_precision, torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.cudnn_sdp_enabled(), torch.is_autocast_enabled("cpu"),
        numpy.geterr(), dict(matplotlib.rcParams),
    )

exec(sys.argv[1])
before = state()
plan = ["plan", "config.yaml", "--out", "results/s/plan.json"]
job, render = ["job", "--suite", "results/s"], ["render", "results/s", "--out", "results/s"]
failed = [words for words in (plan, job, render) if main(words)]
own = sentbench.score(letters, tasks=["TREC", "MPQA"], data="world", mode="dev")
encode = load_encoder("toy-bert", pooler="avg").encode
own += sentbench.score(encode, tasks=["STS-B"], data="world", mode="dev")
with open("results/s/tables/own.json", "w") as file:
    json.dump(own, file)
changed = [pair for pair in zip(before, state(), strict=True) if pair[0] != pair[1]]
if failed or changed:  # no assert, which PYTHONOPTIMIZE leaves out
    sys.exit(f"{failed} {changed}")
"""
TIMES = re.compile(rb'\d{4}-\d\d-\d\dT[\d:]+\+00:00|"seconds": [\d.]+|[\d.]+ minutes of computing')


def made(folder, code="", **environment):
    """Run the suite after `code`: records and analyses, and by SHA-256, without times, encoders and
    what is rendered."""
    folder.mkdir()
    ended(sys.executable, "-c", SUITE, code, cwd=folder, **environment)
    results, files = folder / "results" / "s", {}
    for path in results.rglob("*"):
        name = path.relative_to(results).as_posix()
        if name.startswith(("scores/", "analyses/")):
            files[name] = json.loads(path.read_text()) | {"provenance": None}
        elif path.is_file() and re.match("tables/|report/|figures/|runs/.*/encoder/", name):
            content = TIMES.sub(b"", path.read_bytes())
            files[name] = hashlib.sha256(content).hexdigest()
    return files


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return made(tmp_path_factory.mktemp("plain") / "suite")


# Settings that do not hide each other are tried at once.
DEFAULTS = """
torch.set_default_dtype(torch.float64)
torch.set_default_device("meta")
torch.backends.mkldnn.enabled = False
torch.backends.cuda.enable_flash_sdp(False)
torch.set_flush_denormal(True)
kept += [torch.autocast("cpu", torch.bfloat16), torch.inference_mode()]
for context in kept:
    context.__enter__()
numpy.seterr(all="raise")
"""
PRECISION = """
def product(*operands, linear=torch.nn.functional.linear):
    # A processor with AMX would round them; others compute as before.
    if torch.backends.mkldnn.matmul.fp32_precision == "bf16":
        raise ArithmeticError("a product of float32 in bfloat16")
    return linear(*operands)

torch.nn.functional.linear = product
torch.set_default_dtype(torch.bfloat16)
torch.set_grad_enabled(False)
torch.set_float32_matmul_precision("medium")
torch.backends.cuda.enable_math_sdp(False)
torch.manual_seed(9), numpy.random.seed(9), random.seed(9)
pandas.set_option("display.precision", 1, "display.max_rows", 2, "display.max_colwidth", 5)
pandas.set_option("future.infer_string", not pandas.get_option("future.infer_string"))
matplotlib.rcParams.update({"axes.grid": True, "savefig.facecolor": "pink", "lines.linewidth": 4})
decimal.getcontext().prec = 2
"""


@pytest.mark.parametrize("code", [DEFAULTS, PRECISION], ids=["defaults", "precision"])
def test_what_a_program_sets_moves_no_bit_and_stays_set(code, plain, tmp_path):
    assert made(tmp_path / "suite", code) == plain


def test_what_the_environment_sets_moves_no_bit(plain, tmp_path):
    (tmp_path / "matplotlibrc").write_text("axes.grid: True\nfont.size: 20\n")
    environment = {
        "MPLCONFIGDIR": str(tmp_path), "MPLBACKEND": "of.a.notebook", "LC_ALL": "C",
        "PANDAS_FUTURE": "upcoming", "PANDAS_COPY_ON_WRITE": "0", "SCIPY_ARRAY_API": "1",
        "NUMPY_MADVISE_HUGEPAGE": "x", "SKLEARN_WORKING_MEMORY": "x", "SKLEARN_ASSUME_FINITE": "1",
        "TORCH_LOGS": "x", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1", "PYTORCH_JIT": "0",
        "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1", "ONEDNN_DEFAULT_FPMATH_MODE": "BF16",
        "OPENBLAS_NUM_THREADS": "2", "OMP_DYNAMIC": "true",
        "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONHASHSEED": "7", "COLUMNS": "20",
        "PYTHONOPTIMIZE": "1", "TZ": "Asia/Kolkata", "TRANSFORMERS_VERBOSITY": "debug",
        "TOKENIZERS_PARALLELISM": "true", "HOME": "/nonexistent", "HF_HOME": "/nonexistent/hub",
    }  # fmt: skip
    assert made(tmp_path / "suite", "os.umask(0o077)", **environment) == plain
