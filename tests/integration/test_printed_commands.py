"""Commands that documents and messages print: each is parsed by its own program, most are run."""

import ast
import os
import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
import snakemake.cli
import yaml
from sentence_transformers import SentenceTransformer
from transformers import BertConfig, BertModel

from bench.cli import main
from bench.cli.program import commands
from bench.download.hub import pin
from bench.models.model import Model
from bench.runs.plan import plan_command
from bench.utils.files import sha256_file
from tests.support.programs import ROOT, ended
from tests.support.synthetic_suite import seeds, write_suite
from tests.support.tiny_suite import tiny_configuration

DOCUMENTS = [
    ROOT / name
    for name in (
        "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md",
        "examples/results.ipynb", ".github/PULL_REQUEST_TEMPLATE.md",
    )
]  # fmt: skip
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = sorted(path for top in ("bench", "methods") for path in (ROOT / top).rglob("*.py"))
PROGRAMS = "sentbench|snakemake|make|pip install|pytest"
PROGRAM = rf"(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?(?:{PROGRAMS}) "
BLOCK = r"^```(\w*)\n(.*?)^```$"
INDENTED = r"(?<=\n\n)(?: {4}.*\n(?:\n(?= {4}))?)+"
# Words that a reader replaces, and files that a document tells its reader to write.
PLACES = {"N": "1"} | dict.fromkeys(
    ["FILE.yaml", "SUITE", "SUITE.yaml", "my-suite.yaml"], "examples/suite.yaml"
)
PLACES |= {"my-profile": "profiles/slurm", "X": "examples/suite.yaml"}
# Programs that are not the project's; their commands are not tried.
OTHERS = {
    "cd", "cp", "echo", "export", "grep", "head", "jq", "jupyter", "nvidia-cuda-mps-control",
    "pgrep", "pip", "pkill", "pre-commit", "source", "tail",
}  # fmt: skip
# Commands that are parsed and not run, and why. Of the others, those on a suite of the tutorial are
# run by test_your_method.py.
PARSED = {
    "check-method": "test_your_method.py and README's block run it",
    "compare": "its models are placeholders; tests/cli/test_compare.py compares others",
    "evaluate": "its models are on the hub; README's block runs it",
    "reproduce": "it trains; README's block runs it",
    "run": "it trains; README's block runs it",
    "status": "it needs the times of trainings, as tests/stages/test_status.py has them",
    "fetch": "it downloads, as tests/download/test_fetch.py does",
    "train": "its backbone is on the hub; test_your_method.py trains another",
    "verify": "it needs encoders, as tests/checks/test_verify.py has them",
}


def in_document(path):
    """Command lines of shell blocks, of blocks with a command, and in backticks."""
    text = path.read_text(encoding="utf-8")
    commands, prose = [], re.sub(r"^```\w*$", "", text, flags=re.MULTILINE)
    blocks = re.findall(BLOCK, text, re.DOTALL | re.MULTILINE)
    # A block without a language holds commands if any of its lines begins as one.
    for language, block in [*blocks, *(("", block) for block in re.findall(INDENTED, prose))]:
        lines = [line.strip() for line in block.replace("\\\n", " ").splitlines()]
        if language == "console":
            commands += [line[2:] for line in lines if line.startswith("$ ")]
        elif language in ("shell", "bash") or any(re.match(PROGRAM, line) for line in lines):
            commands += lines
    return commands + [" ".join(text.split()) for text in re.findall(rf"`({PROGRAM}[^`]+)`", prose)]


def texts(path):
    """The texts of a Python file but for docstrings, with X in place of what is filled in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [*ast.walk(tree)]
    # Parts of an f-string are read with it; texts that are statements are docstrings.
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    parts |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) else "X" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


# A command ends its line, but for a target of make in brackets.
IN_TEXT = r"(?:sentbench [a-z-]+|pip install|snakemake --\S+) .*|(?:run|with:|\(or) make [\w./-]+"


def in_code(path):
    for text in texts(path):
        for command in re.findall(IN_TEXT, text):
            yield re.sub(r"^(run|with:|\(or) ", "", command)


def simple_commands(line):
    """The words of each command of a line, without variables before them and the file after `>`."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    commands = [[]]
    for word in lexer:
        if set(word) <= set("|&;"):
            commands.append([])
        elif word != ">" and not (not commands[-1] and re.match(r"[A-Z_]+=", word)):
            commands[-1].append(word)
    return [words for words in commands if words]


def distinct(lines):
    """The words of each command of some lines, once."""
    return [*dict.fromkeys(tuple(words) for line in lines for words in simple_commands(line))]


PRINTED = distinct(line for path in DOCUMENTS for line in in_document(path))
IN_CODE = distinct(line for path in CODE for line in in_code(path))
ALONE = {
    "audit",
    "coverage",
    "methods",
    "papers",
    "tasks",
}  # of others, one word names the command and is none
RUN = [
    words
    for words in PRINTED
    if words[0] == "sentbench"
    and words[1] not in PARSED
    and (words[1] in ALONE or len(words) > 2)
    and ("--suite" not in words or {"results/paper", "paper"} & {*words})
]
# Of Snakemake and pytest.
OF_OTHERS = {"--cores", "--resources", "--profile", "--configfile", "--pyargs", "--help"}


@pytest.fixture(autouse=True)
def no_local_data_and_methods(monkeypatch):
    for name in ("BENCH_DATA", "BENCH_MODELS", "BENCH_METHODS"):
        monkeypatch.setenv(name, "")  # a suite sets the last


def parsed(words):
    """Parse a command of the project; its parameters."""
    command, settings = commands().commands[words[0]], commands().context_settings
    parameters = command.make_context(words[0], [*words[1:]], **settings).params
    if words[0] == "run":
        assert parameters["file"].is_file()
        check_snakemake(parameters["options"] or [])
    if words[0] == "evaluate":
        for model in parameters["model"]:
            Model.read(model)
    return parameters


def check_snakemake(words):
    if any("slurm" in word for word in words):
        pytest.importorskip("snakemake_executor_plugin_slurm")
    _, arguments = snakemake.cli.parse_args([*words])
    assert all((ROOT / file).is_file() for file in arguments.configfile or ())


def check_make(words):
    """Targets of make; variables have a sign."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {".venv/.ready", *re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()}
    assert {word for word in words if "=" not in word} <= targets


def check(words):
    words = [PLACES.get(word, word) for word in words]
    program, *words = words
    if program == "sentbench":
        assert words[0] in commands().commands
        if len(words) > 1:  # one word names the command
            parsed(words)
    elif Path(program).name == "snakemake":
        check_snakemake(words)
    elif program == "make":
        check_make(words)
    elif program == "pytest" and words[0] == "-m":
        settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        markers = settings["tool"]["pytest"]["ini_options"]["markers"]
        assert words[1] in {marker.partition(":")[0] for marker in markers}
    elif program == "pytest":
        words[words.index("--method") + 1] = "examples/spread_out.py"
        assert pytest.main([*words, "--collect-only", "--noconftest", "-c", os.devnull]) == 0
    else:
        assert program in OTHERS, f"{program} is unknown; teach this test to try it"


@pytest.mark.parametrize("words", PRINTED, ids=" ".join)
def test_a_printed_command_is_one(words, monkeypatch):
    monkeypatch.chdir(ROOT)
    check(words)


@pytest.mark.parametrize("words", IN_CODE, ids=" ".join)
def test_a_command_in_a_message_is_one(words, monkeypatch):
    """Where a part is filled in, its options are asked for alone; the tests below fill some in."""
    monkeypatch.chdir(ROOT)
    if words[0] == "sentbench" and "X" in words:
        known = {name for option in commands().commands[words[1]].params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= known | OF_OTHERS
    else:
        check(words)


@pytest.mark.slow
@pytest.mark.parametrize("words", RUN, ids=" ".join)
def test_a_command_on_a_suite_does_its_work(words, suite, monkeypatch):
    """In a folder with results/paper, whose scores are made up."""
    monkeypatch.chdir(suite.parents[1])
    assert main([PLACES.get(word, word) for word in words[1:]]) == 0


@pytest.fixture
def suite(tmp_path):
    folder = tmp_path / "with paper"
    for name in ("config", "docs", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    methods = ["simcse", "gs-infonce"]
    entries = [entry for method in methods for entry in seeds(method, [75.0, 76.0, 77.0])]
    return write_suite(folder / "results" / "paper", entries)


def test_a_path_in_a_message_is_quoted():
    path = Path("a suite's folder [1]") / "plan.json"
    _, *words = shlex.split(plan_command(path))
    assert parsed([PLACES.get(word, word) for word in words])["out"] == path


# --- Block by block, in a copy of the project ---


@pytest.fixture
def project(tiny_bert, tiny_data, tiny_corpus, tmp_path):
    """A copy whose folder needs quotes; a shell in it. The paper suite is replaced by a tiny one:
    one seed, four steps, one layer, a tiny corpus. BENCH_MODELS has the models of the hub, random
    and pinned as they are."""
    folder, models = tmp_path / "a copy [1]", tmp_path / "models"
    for name in ("bench", "methods", "config", "rules", "profiles", "examples"):
        ignored = shutil.ignore_patterns("__pycache__", "wiki*")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    shutil.copy(ROOT / "sentbench.py", folder)
    shutil.copy(ROOT / "Snakefile", folder)
    tiny = tiny_configuration(
        "bert-base-uncased", "senteval", tiny_corpus, suite="paper",
        methods=["simcse", "gs-infonce"],
        recipe={"batch_size": 8, "sentences": 28, "select_every": 2},
    )  # fmt: skip
    (folder / "config" / "paper.yaml").write_text(yaml.safe_dump(tiny), encoding="utf-8")
    shutil.copytree(tiny_bert, models / "bert-base-uncased")
    shape = {"hidden_size": 768, "num_hidden_layers": 1, "num_attention_heads": 12}
    BertModel(BertConfig.from_pretrained(tiny_bert, **shape)).save_pretrained(
        models / "bert-base-uncased"
    )
    pins = folder / "bench" / "download" / "pins.json"
    known = pin("google-bert/bert-base-uncased")["files"]["model.safetensors"]["sha256"]
    pins.write_text(
        pins.read_text().replace(
            known, sha256_file(models / "bert-base-uncased" / "model.safetensors")
        )
    )
    SentenceTransformer(str(tiny_bert)).save(str(models / "sentence-transformers/all-MiniLM-L6-v2"))
    places = {"BENCH_DATA": str(tiny_data), "BENCH_MODELS": str(models)}
    places["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    alone = {"PYTHONPATH": "", "CUDA_VISIBLE_DEVICES": ""}  # the copy's own code, on the processor

    # The installed command would run the installed code.
    command = 'sentbench() { python -m bench "$@"; }\n'

    def shell(script):
        words = ["bash", "-e", "-o", "pipefail", "-c", command + script]
        return ended(*words, cwd=folder, **places, **alone).stdout

    return shell


@pytest.mark.slow
def test_the_blocks_of_the_readme_and_of_a_dry_run_work_in_order(project):
    """But for the installation, and SLURM, whose jobs are only planned."""
    blocks = re.findall(r"^```shell\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    encoders, method, (reproduce, run) = (block.splitlines() for block in blocks)
    project(
        "echo 'encode = lambda texts: [[1.0, 0.5 * len(text)] for text in texts]' > my_module.py"
    )
    assert "STS12" in project(encoders[0])
    assert "B: my_module:encode" in project(encoders[1])
    assert "Spread-out" in [project(line) for line in method][-1]
    made = project(reproduce)
    (ours,) = [line.split() for line in made.splitlines() if "ours, official, n = 1 " in line]
    table = project(made.splitlines()[-1].removeprefix("Show the table again: "))
    assert ours in [line.split() for line in table.splitlines()]
    project(run)
    dry = project(f"{reproduce} --dry-run")
    write, run, *cluster, show_again = re.findall(r"^#   (.*)$", dry, re.MULTILINE)
    # What is printed for other machines plans the runs that `reproduce` has just made.
    project(write)
    for line in (run, cluster[1]):
        assert "Nothing to be done" in project(f"{line} -n 2>&1")
    assert project(show_again) == table
    project("cp examples/suite.yaml mine && sentbench run mine --cores 2 -n")
