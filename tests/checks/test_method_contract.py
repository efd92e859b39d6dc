"""Methods from outside: found, named, identified, and tried on what every method owes, where each
breach is noticed."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.__main__ import main
from bench.checks import method_contract as contract
from bench.checks.method_contract import Trial
from bench.datasets import sts
from bench.models.load import FunctionEncoder, load_encoder
from bench.registry import methods as registered
from bench.runs import config
from bench.runs.resolve import resolve
from bench.runs.run import Run
from bench.stages.jobs import train_run
from bench.utils.errors import UserError
from bench.utils.files import sha256_file, write_text
from methods.base import Method
from tests.support.tiny_suite import tiny_run

# A method that draws, remembers and learns, and so can break every clause.
SOURCE = '''
import random
import numpy as np
import torch
from torch import nn
from methods.base import Contrastive, Field, Negatives, stream

class QueueHyper(Contrastive.Hyper):
    length: int = Field(4, ge=1)

def enqueue(rows, filled, vectors, length):
    return torch.cat([rows, vectors])[-length:], (filled + len(vectors)).clamp(max=length)

class Queue(Contrastive):
    """Earlier anchors, and noise, as further negatives; a learnt scale that does nothing else."""

    name = "queue"
    title = "Queue"
    reference = "a test"
    Hyper = QueueHyper
    paper = {"*": {"length": 6}}

    def __init__(self, hyper, shape):
        super().__init__(hyper, shape)
        self.register_buffer("rows", torch.zeros(hyper.length, shape.width))
        self.register_buffer("filled", torch.tensor(0))
        self.scale = nn.Parameter(torch.ones(3))

    def negatives(self, anchors, views, step):
        self.latest = anchors.detach()
        drawn = torch.randn(anchors.shape, generator=step.generator("noise"))
        used = self.rows[len(self.rows) - int(self.filled) :].to(anchors)
        return [Negatives(torch.cat([used, drawn.to(anchors)]))]

    def after_loss(self, context, step):
        self.rows, self.filled = enqueue(self.rows, self.filled, self.latest, self.hyper.length)

    def loss(self, views, step):
        return super().loss(views, step)
'''


@pytest.fixture(autouse=True)
def forgotten(monkeypatch, global_state) -> Iterator[None]:
    """No test sees another's methods: within a process a file is imported once, as `BENCH_METHODS`
    stays what it is."""
    monkeypatch.setenv("BENCH_METHODS", "")
    yield
    forget(registered.load_file, registered._read_package)


def forget(*more: Any) -> None:
    """Empty the caches of methods."""
    for kept in (registered._methods, *more):
        kept.cache_clear()


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("trial")


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    def written(source: str = SOURCE, name: str = "queue.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        return path

    return written


@pytest.fixture
def trial(suite, write, monkeypatch) -> Callable[[str], Trial]:
    plain = sts.read

    def few_pairs(*given: Any) -> sts.StsTask:  # no clause looks at the dev score itself
        task = plain(*given)
        cut = [(one.name, one.first[:16], one.second[:16], one.gold[:16]) for one in task.subsets]
        return replace(task, subsets=tuple(sts.Subset(*fields) for fields in cut))

    monkeypatch.setattr(sts, "read", few_pairs)

    def made(source: str) -> Trial:
        path = write(source)
        registered.add_method_paths([path])
        (cls,) = registered.load_file(path)[1]
        return Trial(cls, suite)

    return made


def changed(*edits: tuple[str, str]) -> str:
    source = SOURCE
    for old, new in edits:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def run_of(text: str) -> Run:
    return resolve(text, backbone_name="toy-bert", corpus="world", data="world", seed=1)


# Clauses


LOSS = "return super().loss(views, step)"
DRAW = 'torch.randn(anchors.shape, generator=step.generator("noise"))'


# An encoder of the method's own: another one's vectors, shifted.
ENCODER = """    def encoder(self, context):
        return Shifted(super().encoder(context), 2.0)

    def loss(self"""
SHIFTED_CLASS = """class Shifted:
    kind = identity = "shifted"

    def __init__(self, base, by):
        self.base, self.by = base, by

    def encode(self, sentences):
        return self.base.encode(sentences) + np.float32(self.by)

    def save(self, folder):
        return {"by": self.by}

    @classmethod
    def load(cls, folder, stored, device, base):
        return cls(base, stored['by'])


class QueueHyper"""
SHIFTED = [("    def loss(self", ENCODER), ("class QueueHyper", SHIFTED_CLASS)]
FORGETFUL = ("class QueueHyper", SHIFTED_CLASS.replace("stored['by']", "1.0"))

CLAMP = """    @classmethod
    def clamp_to_backbone(cls, hyper, shape):
        return hyper.model_copy(update={"length": hyper.length + 1})

    def negatives"""
FRAGILE = CLAMP.replace("hyper.length + 1", "4 // (hyper.length + 1)")
ROWS = "torch.zeros(hyper.length, shape.width)"
CONSTANT = [
    ("    def loss(self, views, step):", "    def step_loss(self, context, step):"),
    (LOSS, "return self.scale.sum()"),
    ('{"length": 6}', '{"pooler": "avg"}'),
    ("self.rows, self.filled = enqueue", "return enqueue"),
    ("self.latest,", "self.rows,"),
]
PLAIN_ATTRIBUTES = [
    (f'self.register_buffer("rows", {ROWS})', f"self.rows = {ROWS}"),
    ('self.register_buffer("filled", torch.tensor(0))', "self.filled = torch.tensor(0)"),
]
NUMPY = "torch.from_numpy(np.random.randn(*anchors.shape))"
FLOAT64_DRAW = 'torch.rand((), generator=step.generator("x"), dtype=views.vectors[0].dtype)'


def table(row: str) -> list[tuple[str, str]]:
    return [('{"length": 6}', row)]


def loss(after: str) -> list[tuple[str, str]]:
    return [(LOSS, LOSS + after)]


# What is changed of the method, the clause that it breaks, and what is said; every clause has one
# at least.
BREACHES = [
    (table('{"lenght": 6}'), "table_keys", "unknown key 'lenght' of 'queue'; did you mean 'len"),
    ([("    def negatives", CLAMP)], "text",
     r"'queue\[length=4\]' becomes 'queue\[length=5\]@paper', which is another run"),
    ([("def after_loss", "def wieghts(self):\n        pass\n\n    def after_loss")], "slot_names",
     "nothing calls 'wieghts'; rename it to 'weights', or let it start with '_'"),
    (loss(".detach()"), "loss", "the loss has no gradient"),
    (loss(".expand(2)"), "loss", r"the loss is \(2,\), not a scalar tensor"),
    (loss(".item()"), "loss", "the loss is float, not a scalar tensor"),
    (loss(".sub(100).sqrt()"), "loss", "the loss is nan"),
    (loss(" / (len(views.vectors[0]) - 1)"), "single_item_batch",
     r"the loss is (nan|inf); the last batch of an epoch may have one item"),
    (loss(".detach() + self.scale.sum()"), "gradient", "no weight of the backbone has a gradient"),
    ([(DRAW, NUMPY)], "same_seed", "'.*' differs; draw with"),
    ([("torch.ones(3)", "torch.randn(3)")], "same_seed", "'weights/.*scale' differs; draw with"),
    (loss(" * (1 + int(''.join({*'12345678'})) / 1e9)"), "other_process",
     "'.*' differs; the order of a set of strings differs between processes"),
    (CONSTANT, "other_seed", "the weights are equal; draw with"),
    ([(DRAW, "torch.randn(anchors.shape)")], "random_streams", "torch's global generator was used"),
    ([(DRAW, NUMPY)], "random_streams", "numpy's global generator"),
    ([(DRAW, DRAW + " * random.random()")], "random_streams", "Python's global generator was used"),
    (PLAIN_ATTRIBUTES, "resume", "differs; keep state in buffers"),
    (loss(".float()"), "float64", "it is of torch.float32; do not cast"),
    (loss(f" + {FLOAT64_DRAW}"), "float64", "in float32; draw in float32 and cast"),
    ([("anchors.detach()", "anchors.detach().half().to(anchors)")], "float64",
     "something is cast to torch.float16; leave the types to the recipe"),
    ([("Field(4, ge=1)", "4")], "refusals",
     r"'queue\[length=-1\]' is accepted, and then fails with"),
    ([("Field(4, ge=1)", "4"), ("    def negatives", FRAGILE)], "refusals",
     r"'queue\[length=-1\]' raises ZeroDivisionError"),
    ([("return [Negatives(torch.cat([used, drawn.to(anchors)]))]", "return []")], "joins",
     "'simcse' with it is 'simcse' alone"),
    ([SHIFTED[0], FORGETFUL], "encoder", "its vectors differ; store"),
]  # fmt: skip


# The first breach of each clause is fast enough to be among the fast tests.
FIRST = {clause: place for place, (_, clause, _) in reversed([*enumerate(BREACHES)])}
MARKED = [
    breach if FIRST[breach[1]] == place else pytest.param(*breach, marks=pytest.mark.slow)
    for place, breach in enumerate(BREACHES)
]


@pytest.mark.parametrize(("edits", "clause", "said"), MARKED)
def test_a_breach_is_noticed_by_its_clause(edits, clause, said, trial):
    with pytest.raises(pytest.fail.Exception, match=said) as raised:
        getattr(contract, f"test_{clause}")(trial(changed(*edits)))
    assert "\n" not in str(raised.value)


CLAUSES = [name.removeprefix("test_") for name in vars(contract) if name.startswith("test_")]


def test_every_clause_has_a_breach():
    assert {clause for _, clause, _ in BREACHES} == {*CLAUSES}


@pytest.mark.slow
def test_a_sound_method_keeps_every_clause(write, capsys):
    assert main(["check-method", str(write())]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == len(CLAUSES)
    assert all(line.startswith("ok     queue: ") for line in lines)
    assert last == "all hold"


def test_what_rests_on_a_broken_clause_is_left_out(write, capsys):
    path = write(changed((LOSS, "return 1 / 0")))
    assert main(["check-method", str(path)]) == 1
    *lines, fault, last = capsys.readouterr().out.splitlines()
    assert [line[:6] for line in lines] == ["ok    "] * 3
    line = path.read_text().splitlines().index("        return 1 / 0") + 1
    assert fault == (
        "FAIL   queue: the loss of a batch is a finite scalar with a gradient: it fails "
        f"(ZeroDivisionError in {path}, line {line}: division by zero); fix it"
    )
    assert last == "1 fault"


@pytest.mark.slow
def test_the_contract_is_a_module_of_tests(write, tmp_path):
    """With the option of the installed package, as an entry point gives it."""
    broken = changed(('"queue"', '"broken-queue"'), (LOSS, LOSS + " / (len(views.vectors[0]) - 1)"))
    paths = [write(name="mine/queue.py"), write(broken, "mine/broken.py")]
    words = [sys.executable, "-m", "pytest", "-p", "bench.checks.pytest_option", "--pyargs"]
    words += ["bench.checks.method_contract", "-v", "-k", "text or single_item"]
    words += [word for path in (*paths, "simcse") for word in ("--method", str(path))]
    root = Path(contract.__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "1 failed, 5 passed" in done.stdout
    for name in ("text[queue]", "single_item_batch[queue]", "text[simcse]"):
        assert f"::test_{name} PASSED" in done.stdout
    claim = "broken-queue: a batch of one item has a finite loss: the loss is "
    assert f"\n{claim}" in done.stdout
    words[-1] = "simces"
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "unknown method 'simces'; did you mean 'simcse'?" in done.stdout
    assert done.returncode == pytest.ExitCode.INTERRUPTED


def test_the_command_names_what_cannot_be_imported(write, capsys):
    path = write("x = 1\nimport nothing_of_this_name\n")
    assert main(["check-method", str(path)]) == 1
    first, last = capsys.readouterr().out.splitlines()
    fault = f"FAIL   {path} cannot be imported (ModuleNotFoundError in {path}, line 2: "
    assert first.startswith(fault)
    assert last == "1 fault"
    taken = write(SOURCE.replace('"queue"', '"simcse"', 1), "taken.py")
    assert main(["check-method", str(taken)]) == 1
    told = f"two methods have the name 'simcse', in methods.simcse and in {taken}"
    assert told in capsys.readouterr().out


def test_an_error_is_placed_in_the_users_own_code():
    """Not in this project, in Python's library or in a package, where the error may come from."""

    def short() -> None:
        pass

    def parsing(texts: list[str]) -> None:
        json.loads(texts[0])

    def told(function: Callable[..., object]) -> str:
        with pytest.raises(UserError) as caught:
            FunctionEncoder(function, "mine:encode").encode(["{"])
        assert "\n" not in str(caught.value)
        return str(caught.value).partition("failed on 1 texts (")[2]

    assert "short() takes 0 positional arguments" in told(short)
    for function in (parsing, lambda texts: parsing(texts)):  # the innermost line counts
        line = parsing.__code__.co_firstlineno + 1
        assert told(function).startswith(f"JSONDecodeError in {__file__}, line {line}: ")
    assert told(int).startswith("TypeError: int() argument")


# Files

LENGTH, HYPER = "length: int = Field(4, ge=1)", "Hyper = QueueHyper"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\ndef broken(:\n", r"cannot be imported \(SyntaxError in HERE 2: .*\); fix it"),
        ("x = 1\n\nraise OSError('no\\nnet')", r"imported \(OSError in HERE 3: no net\); fix it"),
        ("raise SystemExit", r"queue.py cannot be imported \(SystemExit in HERE 1\)"),
        ("from . import other", r"imported \(ImportError in HERE 1: attempted relative import"),
        ("x = 1", "queue.py has no method; write a class with a name that extends"),
        ("from methods.simcse import SimCSE", "queue.py has no method"),
        (changed(('name = "queue"', 'name = "My Queue"')), "'name' should match pattern"),
        (changed(('    title = "Queue"\n', "")), "class Queue: 'title' is missing"),
        (changed(('{"*": {"length": 6}}', '{"length": 6}')), "'paper.length' should be a"),
        (changed((HYPER, "Hyper = dict")), "Hyper is no class that extends"),
        (changed((HYPER, HYPER + '\n    used_if = {"lenght": lambda hyper: True}')),
         "'used_if' names 'lenght'; did you mean 'length'"),
        (changed((LENGTH, "length: int")), "the defaults of QueueHyper are .*'length' is missing"),
        (changed((LENGTH, "length = 4")), r"imported \(PydanticUserError in HERE \d+: A non-annot"),
        (changed((LENGTH, "length: float = True")), "a number or a text is needed"),
        (changed(('"Queue"', '"SimCSE"')), "'queue' in .* has the title of 'simcse'"),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_whole_method_is_one_sentence(source, said, write):
    before = set(sys.modules)
    registered.add_method_paths([write(source)])
    with pytest.raises(UserError, match=said.replace("HERE", ".*queue.py, line")) as raised:
        run_of("simcse")
    assert "\n" not in str(raised.value)
    if "imported" in said:
        assert not [name for name in set(sys.modules) - before if name.startswith("_method_")]


def test_a_number_is_of_the_type_of_its_field(write):
    """1 and 1.0 are one value, in defaults, tables and texts: the identity is of their text."""
    row = '{"length": 6, "dropout": 0, "learning_rate": 1}'
    source = changed((LENGTH, "length: float = 6; scale: float = 1"), ('{"length": 6}', row))
    registered.add_method_paths([write(source.replace("hyper.length,", "int(hyper.length),"))])
    texts = ("queue", "queue[length=6]", "queue[scale=1,learning_rate=1.0]", "queue[dropout=0]")
    assert len({run_of(text).id for text in texts}) == 1


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        (table('{"lenght": 6}'), "queue.py: the row '\\*' of 'paper' of Queue is invalid: unk"),
        ([(LENGTH, LENGTH + "; epochs: int = 2")], "'epochs' of QueueHyper is a recipe field; use"),
        ([("    def negatives", CLAMP.replace("hyper.length + 1", "1 // 0"))],
         r"^'queue' cannot be run: ZeroDivisionError in .*queue.py, line \d+: .*; fix its code$"),
    ],
)  # fmt: skip
def test_mistakes_in_the_values_of_a_method_are_one_sentence(edits, said, write):
    registered.add_method_paths([write(changed(*edits))])
    with pytest.raises(UserError, match=said) as raised:
        run_of("queue")
    assert "\n" not in str(raised.value)


def test_a_reference_may_be_left_out_but_the_projects_methods_have_one(write):
    builtin = registered.method_classes()
    assert all(cls.reference for cls in builtin.values())
    assert [fault for cls in builtin.values() for fault in registered.interface_errors(cls)] == []
    registered.add_method_paths([write(changed(('    reference = "a test"\n', "")))])
    assert registered.method_classes()["queue"].reference == ""


def test_files_and_folders_are_found_and_do_not_clash(write, monkeypatch, tmp_path):
    one = write(name="one/same.py")
    two = write(SOURCE.replace('"queue"', '"other-queue"', 1), "two/same.py")
    write("raise OSError", "two/_helper.py")
    write(SOURCE, "two/notes.txt")
    monkeypatch.chdir(tmp_path)
    places = ["one/same.py", str(tmp_path / "two"), "two/same.py", ""]
    monkeypatch.setenv("BENCH_METHODS", os.pathsep.join(places))
    found = registered.method_classes()
    assert issubclass(found["queue"], Method)
    assert found["queue"].Hyper is not found["other-queue"].Hyper
    assert registered.method_origin("other-queue") == registered.Origin(str(two), sha256_file(two))
    assert registered.method_origin("queue").place == str(one)  # type: ignore[union-attr]
    assert registered.method_origin("simcse") is None
    assert not list(tmp_path.rglob("__pycache__"))
    assert "same" not in sys.modules
    three = write(name="three/queue.py")
    registered.add_method_paths([three])
    told = f"two methods have the name 'queue', in {one} and in {three}; rename"
    with pytest.raises(UserError, match=told):
        registered.method_classes()


def test_unknown_methods_say_where_ones_own_are_found(write):
    own = "unknown method 'quue'.*for your own methods, set BENCH_METHODS"
    with pytest.raises(UserError, match=own):
        run_of("quue")
    registered.add_method_paths([write()])
    with pytest.raises(UserError, match=r"unknown method 'quue'; did you mean 'queue'[^;]*$"):
        run_of("quue")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise ValueError('no\\nluck')", "ValueError in HERE: no luck"),
        ("raise SystemExit(0)", "SystemExit in HERE: 0"),
    ],
)
def test_a_method_that_fails_in_training_is_a_sentence(
    write, tiny_bert, tiny_data, tiny_corpus, tmp_path, body, told
):
    path = write(changed((LOSS, body)))
    registered.add_method_paths([path])
    run = tiny_run("queue", tiny_bert, tiny_data, tiny_corpus)
    told = told.replace("HERE", r".*queue.py, line \d+")
    with pytest.raises(UserError, match=told) as caught:
        train_run(run, tmp_path / "suite", "cpu")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("training queue failed (")
    assert str(caught.value).endswith(f"find the error with: python -m bench check-method {path}")


def test_an_edited_file_is_another_run(write):
    path = write()
    registered.add_method_paths([path])
    before, simcse = run_of("queue[length=5]+gs-infonce"), run_of("simcse")
    first = hashlib.sha256(SOURCE.encode()).hexdigest()
    assert before.identity["parts"][0] == ["queue", 1, {"temperature": 0.05, "length": 5}, first]
    assert len(before.identity["parts"][1]) == 3
    forget(registered.load_file)
    write(SOURCE + "\n# a remark\n")
    after = run_of("queue[length=5]+gs-infonce")
    assert after.id.rpartition("_")[0] == before.id.rpartition("_")[0]
    assert after.id != before.id
    assert run_of("simcse").id == simcse.id
    path.rename(path.with_name("renamed.py"))
    os.environ["BENCH_METHODS"] = str(path.with_name("renamed.py"))
    assert run_of("queue[length=5]+gs-infonce").id == after.id  # the content counts, not the place


def test_hyper_parameters_may_have_plain_types(write):
    as_text = "from __future__ import annotations\n" + SOURCE.replace('"queue"', '"text"', 1)
    registered.add_method_paths([write(), write(as_text, "text.py")])
    for name in ("queue", "text"):
        ((_, _, hyper),) = run_of(f"{name}[length=7,temperature=0.1]").parts
        assert hyper == {"temperature": 0.1, "length": 7}
        with pytest.raises(UserError, match=r"'length' should be a valid integer"):
            run_of(f"{name}[length=x]")


def test_an_encoder_that_a_file_brings_is_loaded_again(trial, tmp_path):
    training = trial(changed(*SHIFTED)).training(steps=3)
    training.finish(tmp_path / "encoder")
    loaded = load_encoder(tmp_path / "encoder")
    assert (loaded.kind, loaded.by) == ("shifted", 2.0)
    texts = ["the cook sees a dog .", "a boat ."]
    assert np.array_equal(loaded.encode(texts), loaded.base.encode(texts) + np.float32(2))
    os.environ["BENCH_METHODS"] = ""
    told = "names an encoder of kind 'shifted', which no installed method defines"
    with pytest.raises(UserError, match=told):
        load_encoder(tmp_path / "encoder")


# Installed packages


@pytest.fixture
def package(tmp_path, monkeypatch) -> Callable[..., Path]:
    """An installed package whose entry point is `value`."""

    def forget_modules() -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "queues_of_mine"]:
            del sys.modules[name]

    def installed(value: str, source: str = SOURCE) -> Path:
        folder = tmp_path / "site"
        for file, text in {
            "queues_of_mine/__init__.py": "",
            "queues_of_mine/core.py": source,
            "queues_of_mine/table.py": "LENGTH = 4\n",
            "queues-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: queues\nVersion: 1\n",
            "queues-1.dist-info/entry_points.txt": f"[sentbench.methods]\nmine = {value}\n",
        }.items():
            write_text(folder / file, text)
        monkeypatch.syspath_prepend(str(folder))
        forget_modules()
        forget()
        return folder / "queues_of_mine"

    yield installed
    forget_modules()


@pytest.mark.parametrize("value", ["queues_of_mine.core", "queues_of_mine.core:Queue"])
def test_an_entry_point_names_a_module_or_a_method(value, package):
    folder = package(value)
    before, origin = run_of("queue").id, registered.method_origin("queue")
    assert origin is not None
    assert origin.place == f"the package queues ({value})"
    forget(registered._read_package)
    # What a method imports of its package counts too.
    (folder / "table.py").write_text("LENGTH = 5\n")
    assert run_of("queue").id != before


@pytest.mark.parametrize(
    ("value", "source", "said"),
    [
        ("queues_of_mine.core", "raise OSError('no net')",
         r"the package queues .* cannot be imported \(OSError in .*core.py, line 1: no net"),
        ("queues_of_mine.table", SOURCE, "has no method; fix its entry point or uninstall it"),
    ],
)  # fmt: skip
def test_a_package_that_holds_no_whole_method_is_one_sentence(value, source, said, package):
    package(value, source)
    with pytest.raises(UserError, match=said):
        run_of("simcse")


# Configurations


def suite_of(**changes: object) -> dict[str, object]:
    content = {"suite": "mine", "data": "world", "corpus": "world", "tasks": ["sts"], "seeds": [1]}
    return content | {"backbones": {"toy-bert": None}, "methods": ["queue"]} | changes


def test_a_configuration_names_paths_from_the_working_folder(write, tmp_path, monkeypatch):
    write(name="my_methods/queue.py")
    other = write(SOURCE.replace('"queue"', '"other-queue"', 1), "other.py")
    monkeypatch.setenv("BENCH_METHODS", str(other))
    monkeypatch.chdir(tmp_path)
    content = suite_of(method_paths=["my_methods"], methods=["queue", "other-queue"])
    suite = config.validate(content)
    config.validate(content)
    places = [str(other), str(tmp_path / "my_methods")]
    assert os.environ["BENCH_METHODS"] == os.pathsep.join(places)
    monkeypatch.chdir("/")
    assert [run.method for run in config.planned(suite)] == ["queue", "other-queue"]


def test_a_path_without_a_python_file_is_a_sentence():
    with pytest.raises(UserError, match=r"there is no Python file at .*nowhere; fix"):
        config.validate(suite_of(method_paths=["nowhere"]))
    assert os.environ["BENCH_METHODS"] == ""
