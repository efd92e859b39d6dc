"""The site of the documents, which `make site` builds without a network."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))
from bench.utils.files import read_toml  # noqa: E402
from tools import commands, documents  # noqa: E402

PROJECT = read_toml(ROOT / "pyproject.toml")["project"]
# Documents outside docs/, and the pages that include them.
INCLUDED = {
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "examples/README.md": "start/examples.md",
}

project = PROJECT["name"]
author = PROJECT["authors"][0]["name"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
default_role = "code"  # single backticks of docstrings
html_theme = "furo"
html_title = project
html_baseurl = PROJECT.get("urls", {}).get("Documentation", "")
html_show_copyright = False
myst_heading_anchors = 4  # the anchors of GitHub


def complete(app, name, source):
    """Let links to the documents outside lead to the pages that include them, and write what files
    need not repeat, because a command prints it: help, and hyper-parameters."""
    for path, page in INCLUDED.items():
        source[0] = source[0].replace(f"](../../{path}", f"](/{page}")
    if name == "index":  # `make site` renders it beside the documents
        source[0] += '\n<a href="wiki-mini/report/index.html">The page of the suite wiki-mini</a>\n'
    if name == "reference/commands":
        source[0] += commands.reference()
    if name == "reference/methods":
        source[0] = re.sub(
            r"(?<=\n)<!-- generated: method (.+) -->",
            lambda match: documents.hyper_parameters(match[1]),
            source[0],
        )


def setup(app):
    app.connect("source-read", complete)
