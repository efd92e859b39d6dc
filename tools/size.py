"""Print the size of each package, and fail where it is above the table in pyproject.toml.

Run from the root of the project: python tools/size.py. Lines are those that are not comments;
statements are nodes of the syntax tree without docstrings. Lowering a limit after a simplification
keeps the size from creeping back.
"""

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

# Not Python, or not product: listed, so that nothing is moved there to meet a limit.
LISTED = {
    "tests": "tests/*.py",
    "tools": "tools/*.py",
    "templates": "bench/report/templates/*",
    "rules": "Snakefile rules/*.smk workflow/Snakefile",
    "YAML": "config/*.yaml bench/*.yaml",
}


def tracked(patterns: str) -> list[Path]:
    """The files of the project that match patterns of git."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns.split()],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [Path(name) for name in listed.stdout.split("\0") if name and Path(name).is_file()]


def lines_of(path: Path) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return sum(not line.lstrip().startswith("#") for line in lines)


def statements_of(path: Path) -> int:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = sum(
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for node in ast.walk(tree)
    )
    return sum(isinstance(node, ast.stmt) for node in ast.walk(tree)) - docstrings


def package_of(path: Path) -> str:
    """`bench/runs` of bench/runs/config.py; `bench` of bench/__init__.py; a file of the root."""
    return "/".join(path.parts[: min(2, len(path.parts) - 1)]) or path.name


def main() -> int:
    limits = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    table = limits["tool"]["sentbench"]["size"]
    lines: Counter[str] = Counter()
    statements: Counter[str] = Counter()
    for path in tracked("bench/*.py methods/*.py sentbench.py"):
        for name in (package_of(path), "product"):
            lines[name] += lines_of(path)
            statements[name] += statements_of(path)
    for name, patterns in LISTED.items():
        lines[name] = sum(map(lines_of, tracked(patterns)))

    too_large = []
    print(f"{'':18}{'lines':>8}{'at most':>9}{'statements':>12}{'at most':>9}")
    for name in [*sorted(statements, key=lambda name: (name == "product", name)), *LISTED]:
        most_lines, most_statements = [*table.get(name, []), None, None][:2]
        print(
            f"{name:18}{lines[name]:8}{most_lines or '':>9}"
            f"{statements[name] or '':>12}{most_statements or '':>9}"
        )
        for unit, number, most in (
            ("lines", lines[name], most_lines),
            ("statements", statements[name], most_statements),
        ):
            if most is not None and number > most:
                too_large.append(f"{name} has {number} {unit}, and at most {most} are allowed")
    for message in too_large:
        print(f"error: {message}; take something away", file=sys.stderr)
    return int(bool(too_large))


if __name__ == "__main__":
    sys.exit(main())
