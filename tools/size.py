"""Print the size of each package, and fail where it is above the table in pyproject.toml.

Run from the root of the project: python tools/size.py. The unit is the syntax node: neither long
lines nor short names lower it. Lowering a limit after a simplification keeps the size from creeping
back.
"""

import ast
import sys
import tomllib
from collections import Counter
from pathlib import Path

from jinja2 import Environment, nodes

FILES = ("bench/**/*.py", "methods/**/*.py", "sentbench.py", "tools/**/*.py", "tests/**/*.py")
# Load and Store, and signs such as `+` and `not`: each belongs to a node that is counted.
MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)


def python_nodes(node: ast.AST) -> int:
    """A node and all below it, without docstrings, annotations and `MARKS`."""
    match node:
        case ast.Expr(ast.Constant(str())):
            return 0
        case ast.AnnAssign() | ast.arg():
            node.annotation = None
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            node.returns = None
    children = map(python_nodes, ast.iter_child_nodes(node))
    return 0 if isinstance(node, MARKS) else 1 + sum(children)


def template_nodes(text: str) -> int:
    return sum(1 for _ in Environment(autoescape=True).parse(text).find_all(nodes.Node))


def package_of(path: Path) -> str:
    """`bench/runs` of bench/runs/config.py; otherwise the first part: bench, methods, tests."""
    depth = 2 if path.is_relative_to("bench") and path.parent.name != "bench" else 1
    return "/".join(path.parts[:depth])


def sizes() -> Counter[str]:
    """The nodes of each package, of the templates, and of the whole product."""
    counts: Counter[str] = Counter()
    for pattern in FILES:
        for path in Path().glob(pattern):
            counts[package_of(path)] += python_nodes(ast.parse(path.read_text(encoding="utf-8")))
    counts["product"] = counts.total() - counts["tools"] - counts["tests"]
    for path in Path("bench/report/templates").iterdir():
        counts["templates"] += template_nodes(path.read_text(encoding="utf-8"))
    return counts


def main() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    limits = project["tool"]["sentbench"]["size"]
    errors = []
    print(f"{'':16}{'nodes':>9}{'at most':>9}")
    for name, size in sorted(sizes().items()):
        most = limits.get(name, 0)
        print(f"{name:16}{size:9,}{most:9,}")
        if size > most:
            errors.append(f"error: {name} is too large; take something away")
    if errors:
        sys.exit("\n".join(errors))


if __name__ == "__main__":
    main()
