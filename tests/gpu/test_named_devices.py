"""Every tensor that a training makes says on which device it is, without a GPU to try it on.

A tensor made without a device is on the processor, and the operation that joins it with one of a
GPU fails, there alone. So a constructor in methods/ and bench/training/ names its device, or is one
of the kinds that `says_where` accepts, or is in `ON_THE_PROCESSOR` with the reason.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "methods").rglob("*.py"), *(ROOT / "bench" / "training").rglob("*.py")])
CONSTRUCTORS = (
    "tensor as_tensor scalar_tensor from_numpy zeros ones full empty eye arange linspace "
)
CONSTRUCTORS += "logspace rand randn randint randperm normal tril_indices triu_indices Generator"
CONSTRUCTORS = {f"torch.{name}" for name in CONSTRUCTORS.split()}
MOVED = {"to", "to_device"}  # the tensor goes to a device in the same expression
READ = {"tolist", "int"}  # it ends as numbers of the host in the same expression
# A function that computes on the processor on purpose says so in a comment, with the reason.
MARK = "# On the host"


def called(call: ast.Call) -> str:
    """The last name of what is called."""
    function = call.func
    return getattr(function, "attr", getattr(function, "id", ""))


def says_where(call: ast.Call, function: ast.FunctionDef, outer: set[str]) -> bool:
    """Whether a constructor in a function says where its tensor is; `outer` is what is called with
    the tensor, or on it, in the same expression."""
    keywords = {keyword.arg for keyword in call.keywords}
    if "device" in keywords or outer & (MOVED | READ):
        return True
    if called(call) == "Generator":
        return bool(call.args)
    # Random numbers of a named stream are the same everywhere, so they are drawn on the processor.
    # Parameters and buffers are made there; the training moves the whole module.
    return "generator" in keywords or function.name == "__init__"


def unplaced(source: str) -> list[tuple[ast.FunctionDef, ast.Call, bool]]:
    """Constructors that name no device, the function of each, and whether that is marked."""
    tree, lines, found = ast.parse(source), source.splitlines(), []
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and ast.unparse(call.func) in CONSTRUCTORS):
            continue
        outer, node = set(), parents[call]
        while not isinstance(node, ast.stmt):
            outer |= {called(node)} if isinstance(node, ast.Call) else set()
            node = parents[node]
        while not isinstance(node, ast.FunctionDef):
            node = parents[node]
        if not says_where(call, node, outer):
            marked = any(MARK in line for line in lines[node.lineno : node.end_lineno])
            found.append((node, call, marked))
    return found


def faults(source: str, file: str) -> list[str]:
    return [
        f"{file}:{within.name}, line {call.lineno}: {ast.unparse(call)}"
        for within, call, is_marked in unplaced(source)
        if not is_marked
    ]


def test_every_constructor_names_its_device():
    found = [fault for file in FILES for fault in faults(file.read_text(), file.name)]
    assert found == [], "\n".join([f"name a device, or write '{MARK}: ...', why not:", *found])


def test_every_mark_is_needed():
    for file in FILES:
        source = file.read_text()
        needed = {within.lineno for within, _, is_marked in unplaced(source) if is_marked}
        assert source.count(MARK) == len(needed), file


@pytest.mark.parametrize(
    ("line", "is_fault"),
    [
        ("own = torch.eye(len(rows), dtype=torch.bool)", True),
        ("loss = F.cross_entropy(logits, torch.arange(len(logits)))", True),
        ("draw = torch.Generator().manual_seed(1)", True),
        ("noise = torch.randn(3, dtype=torch.float64)", True),
        ("rows = torch.from_numpy(array)", True),
        ("own = torch.eye(len(rows), device=rows.device)", False),
        ("noise = torch.randn_like(rows)", False),
        ("rows = torch.from_numpy(array).to(device)", False),
        ("rows = to_device(torch.tensor(places), rows.device)", False),
        ("order = torch.randperm(9, generator=generator).tolist()", False),
    ],
)
def test_a_planted_fault_is_found(line, is_fault):
    """In place of a line of a method that is right."""
    source = (ROOT / "methods" / "contrastive.py").read_text()
    right = "    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))\n"
    assert source.count(right) == 1
    assert len(faults(source.replace(right, f"    {line}\n"), "contrastive.py")) == is_fault
