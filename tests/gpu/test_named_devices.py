"""Every tensor that a training makes says on which device it is, without a GPU to try it on.

A tensor made without a device is on the processor, and the operation that joins it with one of a
GPU fails, there alone. So a constructor in methods/ and bench/training/ names its device, or is one
of the kinds that `says_where` accepts, or is in `ON_THE_PROCESSOR` with the reason.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "methods").rglob("*.py"), *(ROOT / "bench" / "training").rglob("*.py")])
CONSTRUCTORS = {
    "tensor", "as_tensor", "scalar_tensor", "from_numpy", "zeros", "ones", "full", "empty", "eye",
    "arange", "linspace", "logspace", "rand", "randn", "randint", "randperm", "normal",
    "tril_indices", "triu_indices", "Generator",
}  # fmt: skip
MOVED = {"to", "to_device"}  # the tensor goes to a device in the same expression
READ = {"tolist", "int"}  # it ends as numbers of the host in the same expression
# Functions that compute on the processor on purpose, and what takes their result to the device.
ON_THE_PROCESSOR = {
    "consert.py:shuffled": "beside draws of a stream; `augmented` moves the orders at once",
    "consert.py:cutoff_mask": "beside draws of a stream; `augmented` moves the mask",
    "consert.py:augmented.shuffle": "moved at once, for all sentences",
    "cot_bert.py:CoTBERT._template_alone": "positions, which `PromptBERT._alone` moves",
    "declutr.py:DeCLUTR.prepare": "token ids of the corpus, from which spans are cut",
    "declutr.py:DeCLUTR.mask": "beside draws of a stream; `step_loss` moves the places",
    "declutr.py:masked_pieces": "beside draws of a stream; `mask` moves what it needs",
    "diffcse.py:DiffCSE.detection": "labels, filled row by row and moved at once",
    "glove.py:AverageOfWords.arrays": "saved, not computed with",
    "projection.py:leading_directions": "as the eigenvectors, which are the processor's",
    "projection.py:Projection.transform": "`Affine` moves the bias, the next line the vectors",
    "promptbert.py:Prompt.alone": "positions, which `PromptBERT._alone` moves",
    "promptbert.py:PromptEncoder.encode": "lengths, of which token ids are made",
    "promptbert.py:PromptBERT._alone": "lengths, of which token ids are made; moved as an index",
    "skip_thought.py:uniform": "parameters; the training moves the whole module",
    "skip_thought.py:pad": "filled row by row and moved at once",
    "transform.py:in_chunks": "each chunk is moved",
}


def called(call: ast.Call) -> str:
    """The last name of what is called."""
    function = call.func
    return getattr(function, "attr", getattr(function, "id", ""))


def constructors(tree: ast.AST) -> Iterator[tuple[str, ast.Call, set[str]]]:
    """Each constructor of torch in a tree: the function that it is in, and what is called with its
    result, or on it, in the same expression."""

    def visit(
        node: ast.AST, names: list[str], outer: set[str]
    ) -> Iterator[tuple[str, ast.Call, set[str]]]:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names = [*names, node.name]
        if isinstance(node, ast.stmt):
            outer = set()
        if isinstance(node, ast.Call):
            function = node.func
            is_torch = (
                isinstance(function, ast.Attribute) and ast.unparse(function.value) == "torch"
            )
            if is_torch and called(node) in CONSTRUCTORS:
                yield ".".join(names), node, outer
            outer = outer | {called(node)}
        for child in ast.iter_child_nodes(node):
            yield from visit(child, names, outer)

    yield from visit(tree, [], set())


def says_where(call: ast.Call, function: str, outer: set[str]) -> bool:
    keywords = {keyword.arg for keyword in call.keywords}
    if "device" in keywords or outer & (MOVED | READ):
        return True
    if called(call) == "Generator":
        return bool(call.args)
    # Random numbers of a named stream are the same everywhere, so they are drawn on the processor.
    # Parameters and buffers are made there; the training moves the whole module.
    return "generator" in keywords or function.endswith(".__init__")


def faults(source: str, file: str) -> list[str]:
    return [
        f"{file}:{function}, line {call.lineno}: {ast.unparse(call)}"
        for function, call, outer in constructors(ast.parse(source))
        if not says_where(call, function, outer) and f"{file}:{function}" not in ON_THE_PROCESSOR
    ]


def test_every_constructor_names_its_device() -> None:
    found = [fault for file in FILES for fault in faults(file.read_text(), file.name)]
    assert found == [], "\n".join(["name a device, or say in ON_THE_PROCESSOR why not:", *found])


def test_every_exception_is_needed() -> None:
    places = {
        f"{file.name}:{function}"
        for file in FILES
        for function, call, outer in constructors(ast.parse(file.read_text()))
        if not says_where(call, function, outer)
    }
    assert set(ON_THE_PROCESSOR) == places


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
def test_a_planted_fault_is_found(line: str, is_fault: bool) -> None:
    """In place of a line of a method that is right."""
    source = (ROOT / "methods" / "contrastive.py").read_text()
    right = "    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))\n"
    assert source.count(right) == 1
    assert len(faults(source.replace(right, f"    {line}\n"), "contrastive.py")) == is_fault
