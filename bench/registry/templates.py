"""Sets of templates of a prompted encoder, by name (templates.toml)."""

import tomllib
from functools import cache
from pathlib import Path

from bench.utils.errors import UserError, did_you_mean

SENTENCE = "<sentence>"  # where the sentence stands in a template


@cache
def template_sets() -> dict[str, list[str]]:
    """The templates of each set."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {name: entry["templates"] for name, entry in tomllib.loads(text).items()}


def templates_of(template: str) -> list[str]:
    """A template, or the templates of the set with this name; `UserError` if it is neither."""
    if SENTENCE in template:
        return [template]
    if template not in template_sets():
        raise UserError(
            f"the template '{template}' lacks {SENTENCE}; write it where that stands, or name one "
            f"of the sets {', '.join(template_sets())}{did_you_mean(template, template_sets())}"
        )
    return template_sets()[template]
