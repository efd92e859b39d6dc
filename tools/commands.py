"""The reference of the commands, from their help."""

from bench.cli.parameters import COMMANDS
from bench.cli.program import NAME, commands


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
