"""Methods from outside: found, named, identified, and tried on what every method owes, where each
breach is noticed."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.checks import method_contract as contract
from bench.models.functions import FunctionEncoder
from bench.registry import methods as registered
from bench.runs import config
from bench.stages.jobs import train_run
from bench.utils.errors import UserError
from bench.utils.files import sha256_file, sha256_text
from tests.support import method_runs
from tests.support.refusals import refused
from tests.support.tiny_suite import tiny_configuration, tiny_run

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
OTHER = SOURCE.replace('"queue"', '"other-queue"', 1)


def forget():
    registered._methods.cache_clear()
    registered.load_file.cache_clear()


@pytest.fixture(autouse=True)
def forgotten(monkeypatch, global_state):
    """No test sees another's methods: within a process a file is imported once, as `BENCH_METHODS`
    stays what it is."""
    monkeypatch.setenv("BENCH_METHODS", "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    forget()


@pytest.fixture
def write(tmp_path):
    def written(source=SOURCE, name="queue.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        return path

    return written


@pytest.fixture
def add(write):
    """Write a file and make its methods known."""

    def added(*source):
        path = write(*source)
        registered.add_method_paths([path])
        return path

    return added


@pytest.fixture
def trial(add, tmp_path):
    def made(source):
        (cls,) = registered.load_file(add(source))[1]
        return contract.Trial(cls, tmp_path)

    return made


def changed(*edits):
    source = SOURCE
    for old, new in edits:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def run_of(text):
    return method_runs.run_of(text, "toy-bert", "world", "world")


# Clauses


LOSS = "return super().loss(views, step)"
DRAW = 'torch.randn(anchors.shape, generator=step.generator("noise"))'
LENGTH, HYPER, TABLE = "length: int = Field(4, ge=1)", "Hyper = QueueHyper", '{"length": 6}'

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
PLAIN_ATTRIBUTES = [
    (f'self.register_buffer("rows", {ROWS})', f"self.rows = {ROWS}"),
    ('self.register_buffer("filled", torch.tensor(0))', "self.filled = torch.tensor(0)"),
]
NUMPY = "torch.from_numpy(np.random.randn(*anchors.shape))"
FLOAT64_DRAW = 'torch.rand((), generator=step.generator("x"), dtype=views.vectors[0].dtype)'


def loss(after):
    return [(LOSS, LOSS + after)]


# What is changed of the method, the clause that it breaks, and what is said; every clause has one
# at least.
BREACHES = [
    ([(TABLE, '{"lenght": 6}')], "table_keys", "unknown key 'lenght' of 'queue'; did you mean 'l"),
    ([("    def negatives", CLAMP)], "text",
     r"'queue\[length=4\]' becomes 'queue\[length=5\]@paper', which is another run"),
    ([("def after_loss", "def wieghts(self):\n        pass\n\n    def after_loss")], "slot_names",
     "nothing calls 'wieghts'; rename it to 'weights', or let it start with '_'"),
    ([("def negatives(self, anchors, views, step)", "def negatives(self, anchors)")], "slot_names",
     r"'negatives' takes \(self, anchors\); write negatives\(self, anchors, views, step\)"),
    (loss(".detach()"), "loss", "the loss has no gradient"),
    (loss(".item()"), "loss", "the loss is float, not a scalar tensor"),
    (loss(" / (len(views.vectors[0]) - 1)"), "single_item_batch",
     r"the loss is (nan|inf); the last batch of an epoch may have one item"),
    (loss(".detach() + self.scale.sum()"), "loss", "no weight of the backbone has a gradient"),
    ([("torch.ones(3)", "torch.randn(3)")], "same_seed", "'weights/.*scale' differs; draw with"),
    (loss(" * (1 + int(''.join({*'12345678'})) / 1e9)"), "same_seed",
     r"differs; .* iterate over sorted\(...\) instead of a set of strings"),
    ([(DRAW, "torch.randn(anchors.shape)")], "random_streams", "torch's global generator was used"),
    ([(DRAW, NUMPY)], "same_seed", "differs; draw with"),
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


@pytest.mark.parametrize(("edits", "clause", "said"), BREACHES)
def test_a_breach_is_noticed_by_its_clause(edits, clause, said, trial, monkeypatch):
    if "set of strings" not in said:  # which alone needs another process, with another hash seed
        monkeypatch.setattr(contract, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    with pytest.raises(BaseException, match=said) as raised:
        getattr(contract, f"test_{clause}")(trial(changed(*edits)))
    assert "\n" not in str(raised.value)


def test_every_clause_has_a_breach():
    clauses = {name.removeprefix("test_") for name in vars(contract) if name.startswith("test_")}
    assert {clause for _, clause, _ in BREACHES} == clauses


def test_the_command_ends_at_the_first_broken_clause(write, said):
    path = write(changed((LOSS, "return 1 / 0")))
    message = said("check-method", path, status=1).out
    line = path.read_text().splitlines().index("        return 1 / 0") + 1
    assert f"/{path.name}:{line}: in loss\n" in message  # pytest shortens the path
    assert "\nE   ZeroDivisionError: division by zero\n" in message
    assert " 1 failed, 3 passed in " in message


def test_the_command_names_what_cannot_be_imported(write, said):
    path = write("x = 1\nimport nothing_of_this_name\n")
    fault = f"\n{path} cannot be imported (ModuleNotFoundError in {path}, line 2: "
    assert fault in said("check-method", path, status=2).out


def parsing(texts):
    json.loads(texts[0])


def test_an_error_is_placed_in_the_users_own_code():
    """Not in this project, in Python's library or in a package, where the error may come from."""
    line = parsing.__code__.co_firstlineno + 1
    told = f"failed on 1 texts (JSONDecodeError in {__file__}, line {line}: "
    encoder = FunctionEncoder(lambda texts: parsing(texts), "mine:encode")
    refused(lambda: encoder.encode(["{"]), told)


# Files


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\ndef broken(:\n", r"cannot be imported \(SyntaxError in HERE 2: .*\); fix it"),
        ("x = 1\n\nraise OSError('no\\nnet')", r"imported \(OSError in HERE 3: no net\); fix it"),
        ("from methods.simcse import SimCSE", "no method; write a class with a name that extends"),
        (changed(('name = "queue"', 'name = "My Queue"')), "'name' should match pattern"),
        (changed((TABLE, "6")), r"'paper.\*' should be a"),
        (changed((HYPER, HYPER + '\n    used_if = {"lenght": lambda hyper: True}')),
         "'used_if' names 'lenght'; did you mean 'length'"),
        (changed((LENGTH, "length: int")), "the defaults of QueueHyper are .*'length' is missing"),
        (changed(('"Queue"', '"SimCSE"')), "'queue' in .* has the title of 'simcse'"),
        (changed((TABLE, '{"lenght": 6}')), r"the row .\*. of .paper. of Queue is invalid: u"),
        (changed((LENGTH, LENGTH + "; epochs: int = 2")), "'epochs' of QueueHyper is a recipe fie"),
        (changed(("    def negatives", CLAMP.replace("hyper.length + 1", "1 // 0"))),
         r"^'queue' cannot be run: ZeroDivisionError in HERE \d+: .*; fix its code$"),
    ],
)  # fmt: skip
def test_a_file_with_a_mistake_is_one_sentence(source, said, add):
    add(source)
    with pytest.raises(UserError, match=said.replace("HERE", ".*queue.py, line")) as raised:
        run_of("queue")
    assert "\n" not in str(raised.value)


def test_files_and_folders_are_found_and_do_not_clash(write, add, monkeypatch, tmp_path):
    first, second = write(SOURCE, "one/same.py"), write(OTHER, "two/same.py")
    write("raise OSError", "two/_helper.py")
    write(SOURCE, "two/notes.txt")
    monkeypatch.chdir(tmp_path)
    places = ["one/same.py", str(tmp_path / "two"), "two/same.py", ""]
    monkeypatch.setenv("BENCH_METHODS", os.pathsep.join(places))
    result = registered.method_classes()
    assert result["queue"].Hyper is not result["other-queue"].Hyper
    origins = [registered.method_origin(name) for name in ("queue", "other-queue", "simcse")]
    assert origins == [
        *(registered.Origin(str(path), sha256_file(path)) for path in (first, second)),
        None,
    ]
    third = add(SOURCE, "three/queue.py")
    told = f"two methods have the name 'queue', in {first} and in {third}; rename"
    refused(registered.method_classes, told)


def test_a_method_that_fails_in_training_is_a_sentence(
    add, tiny_bert, tiny_data, tiny_corpus, tmp_path
):
    path = add(changed((LOSS, "raise SystemExit(0)")))
    told = rf"^training queue failed \(SystemExit in {path}, line \d+: 0\); find the error with: "
    with pytest.raises(UserError, match=f"{told}sentbench check-method {path}$"):
        train_run(tiny_run("queue", tiny_bert, tiny_data, tiny_corpus), tmp_path / "suite", "cpu")


def test_an_edited_file_is_another_run(add, monkeypatch):
    path = add(SOURCE)
    text, simcse = "queue[length=5]+gs-infonce", run_of("simcse").id
    before = run_of(text)
    first = ["queue", 1, {"temperature": 0.05, "length": 5}, sha256_text(SOURCE)]
    assert before.identity["parts"][0] == first
    forget()
    path.write_text(SOURCE + "\n# a remark\n")
    after = run_of(text).id
    assert after != before.id
    assert run_of("simcse").id == simcse
    monkeypatch.setenv("BENCH_METHODS", str(path.rename(path.with_name("renamed.py"))))
    assert run_of(text).id == after  # the content counts, not the place


IMPORTS = """
from helper_a import x
from package_c import *
def f():
    import folder_d.inner as inner
"""
MODULES = {
    "helper_a.py": "import helper_b; x = 1",
    "helper_b.py": "",
    "package_c/__init__.py": "from . import deep",
    "package_c/deep.py": "",
    "folder_d/inner.py": "",
}


def test_an_edited_module_of_the_user_is_another_run(add, write):
    for name, text in MODULES.items():
        write(text, f"mine/{name}")
    add(SOURCE + IMPORTS, "mine/queue.py")
    ids = [run_of("queue").id]
    for name in ("unrelated.py", *MODULES):
        write(MODULES.get(name, "") + "\n# a remark\n", f"mine/{name}")
        forget()
        ids.append(run_of("queue").id)
    assert ids[0] == ids[1]
    assert len({*ids}) == 1 + len(MODULES)


@pytest.mark.parametrize("code", ["importlib.import_module(name)", "exec(open(name).read())"])
def test_code_that_could_change_unnoticed_is_refused(code, add, write):
    helper = write(f"def f(name):\n    {code}", "helper_e.py")
    add(f"{SOURCE}\ndef g(): import helper_e")
    refused(lambda: run_of("queue"), f"{helper}, line 2 calls", ": use import statements)")


def test_annotations_may_be_texts(add):
    add("from __future__ import annotations\n" + SOURCE)
    ((_, _, hyper),) = run_of("queue[length=7,temperature=0.1]").parts
    assert hyper == {"temperature": 0.1, "length": 7}
    refused(lambda: run_of("queue[length=x]"), "'length' should be a valid integer")


# Configurations


def test_a_configuration_names_paths_from_the_working_folder(write, tmp_path, monkeypatch):
    write(SOURCE, "my_methods/queue.py")
    monkeypatch.setenv("BENCH_METHODS", str(write(OTHER, "other.py")))
    monkeypatch.chdir(tmp_path)
    content = tiny_configuration("toy-bert", "world", "world", methods=["queue", "other-queue"])
    suite = config.validate(content | {"method_paths": ["my_methods"]})
    monkeypatch.chdir("/")
    assert [run.method for run in config.planned(suite)] == ["queue", "other-queue"]
    refused(
        lambda: config.validate(content | {"method_paths": ["nowhere"]}),
        "there is no Python file at",
        "nowhere; fix",
    )
