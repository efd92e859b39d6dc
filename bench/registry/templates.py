"""Sets of templates of a prompted encoder, by name (templates.toml)."""

from pathlib import Path

from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import read_toml

SENTENCE = "<sentence>"  # where the sentence stands in a template

TEMPLATE_SETS: dict[str, list[str]] = {
    name: entry["templates"]
    for name, entry in read_toml(Path(__file__).with_suffix(".toml")).items()
}


def templates_of(template: str) -> list[str]:
    """A template, or the templates of the set with this name; `UserError` if it is neither."""
    if SENTENCE in template:
        return [template]
    if template not in TEMPLATE_SETS:
        raise UserError(
            f"the template '{template}' lacks {SENTENCE}; write it where that stands, or name one "
            f"of the sets {', '.join(TEMPLATE_SETS)}{did_you_mean(template, TEMPLATE_SETS)}"
        )
    return TEMPLATE_SETS[template]
