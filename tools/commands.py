"""The reference of the commands, from their help."""

from typing import Any

from bench.cli.parameters import COMMANDS
from bench.cli.program import NAME, commands


def table() -> list[dict[str, Any]]:
    """A row a command: what it does, and an example."""
    rows = []
    for title, names in COMMANDS.items():
        for name in names:
            command = commands().commands[name]
            summary = (command.help or "").partition("\n\n")[0]
            example = (command.epilog or "").removeprefix("Example: ")
            rows.append(
                {"": title, "command": f"`{name}`", "does": summary, "example": f"`{example}`"}
            )
            title = ""
    return rows


def reference() -> str:
    """Each command of each group: what it does, its usage, its arguments and options."""
    parts = []
    for title, names in COMMANDS.items():
        parts.append(f"## {title}")
        for name in names:
            command = commands().commands[name]
            context = command.make_context(name, [], resilient_parsing=True)
            usage = " ".join([NAME, name, *command.collect_usage_pieces(context)])
            records = [param.get_help_record(context) for param in command.get_params(context)]
            rows = [f"* `{name}`: {text}" for name, text in filter(None, records)]
            text = [command.help, f"```text\n{usage}\n```", "\n".join(rows[:-1]), command.epilog]
            parts += [f"### {name}", *filter(None, text)]
    return "\n\n".join(parts)
