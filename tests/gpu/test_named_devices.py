"""Every tensor that a training makes says on which device it is, without a GPU to try it on.

A tensor made without a device is on the processor, and the operation that joins it with one of a
GPU fails, there alone. So a constructor in methods/ and bench/training/ names its device, unless
its tensor is drawn by a named stream (which is the same everywhere), is a parameter or buffer
(which the training moves), or goes to a device or back to the host in the same expression. A
function that computes on the processor on purpose says so in a comment, with the reason.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "methods").rglob("*.py"), *(ROOT / "bench" / "training").rglob("*.py")])
CONSTRUCTORS = "tensor as_tensor scalar_tensor from_numpy zeros ones full empty eye arange linspace"
CONSTRUCTORS += " logspace rand randn randint randperm normal tril_indices triu_indices Generator"
CONSTRUCTORS = {f"torch.{name}" for name in CONSTRUCTORS.split()}
MOVED = {"to", "to_device", "tolist", "int"}
MARK = "# On the host"


def unplaced(source):
    """Lines of constructors that name no device, and whether their function is marked."""
    tree, lines, result = ast.parse(source), source.splitlines(), []
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and ast.unparse(call.func) in CONSTRUCTORS):
            continue
        names, node = set(), parents[call]
        while not isinstance(node, ast.FunctionDef):
            if isinstance(node, ast.Call):
                names.add(getattr(node.func, "attr", getattr(node.func, "id", "")))
            node = parents[node]
        placed = {keyword.arg for keyword in call.keywords} & {"device", "generator"}
        placed = placed or names & MOVED or node.name == "__init__"
        if not placed and not (ast.unparse(call.func) == "torch.Generator" and call.args):
            marked = any(MARK in line for line in lines[node.lineno : node.end_lineno])
            result.append((f"{node.name}, line {call.lineno}: {ast.unparse(call)}", marked))
    return result


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_constructor_names_its_device(file):
    source = file.read_text()
    faults = [line for line, marked in unplaced(source) if not marked]
    assert faults == [], f"name a device, or write '{MARK}: ...', why not"
    assert MARK not in source or unplaced(source)  # a mark is needed
