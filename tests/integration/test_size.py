"""Sizes are counted in syntax nodes, which neither the layout nor the words of a file change."""

import ast

import pytest

from tools.size import python_nodes, template_nodes


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("", 1),
        ("# Only a comment.", 1),
        ("x = y", 4),
        ("x = y + 1", 6),
        ("x: list[int] = y", 4),
        ("not x", 4),
        ('def f():\n    """Nothing."""', 3),
        ("def f(x):\n    return x", 6),
        ("def f(x: int) -> int:\n    return x", 6),
        ('x = "text"', 4),
    ],
)
def test_nodes_of_python(text, nodes):
    assert python_nodes(ast.parse(text)) == nodes


@pytest.mark.parametrize(
    ("text", "nodes"), [("", 0), ("text", 2), ("{# comment #}", 0), ("{{ x }} text", 3)]
)
def test_nodes_of_templates(text, nodes):
    assert template_nodes(text) == nodes
