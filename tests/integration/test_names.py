"""One name for one thing: a public name of the product is defined in one module."""

import ast
from collections import defaultdict

from tests.support.programs import ROOT

# Read, report and render are called by their module: `sts.read`, `coverage.report`.
OF_THEIR_MODULE = {"read", "render", "report"}
# `sentbench` and the command line name what they call.
INTERFACES = ("sentbench.py", "bench/cli/")
# A cosine of arrays and one of tensors; a word in rows, which do not import the registry.
ALLOWED = {"cosine", "NO_BACKBONE"}


def public_names(source: str) -> list[str]:
    names = []
    for statement in ast.parse(source).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.append(name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names.append(name)
    return [name for name in names if not name.startswith("_")]


def test_a_public_name_has_one_meaning():
    modules = defaultdict(list)
    for path in [*ROOT.glob("bench/**/*.py"), *ROOT.glob("methods/*.py")]:
        module = path.relative_to(ROOT).as_posix()
        if not module.startswith(INTERFACES):
            for name in public_names(path.read_text(encoding="utf-8")):
                modules[name].append(module)
    assert len(modules) > 900  # of the whole product
    shared = {name: places for name, places in modules.items() if len(places) > 1}
    assert {
        name: places for name, places in shared.items() if name not in OF_THEIR_MODULE | ALLOWED
    } == {}
