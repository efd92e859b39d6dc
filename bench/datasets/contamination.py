"""Contamination: test sentences that stand in a corpus (docs/protocol.md#contamination)."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain

from bench.datasets.labelled import LabelledTask
from bench.datasets.sts import StsTask


@cache
def _letter(char: str) -> str:
    """A character as it counts: a letter, mark or number, nothing, or a space."""
    kind = unicodedata.category(char)
    if kind == "Cf" or char == "\u0640":  # joins, or stretches
        return ""
    # Letters, marks, numbers and the underscore; the latter letter is an apostrophe.
    if not "L" < kind < "Pd" or char == "\u02bc":
        return " "
    # Ligatures and other forms, such as wide ones, are their letters.
    return unicodedata.normalize("NFKC", char) if "\ufb00" <= char < "\uffdf" else char


def normalised(sentence: str) -> str:
    """The words of a sentence in lower case: punctuation, case, spaces and the spelling in Unicode
    make no difference (docs/protocol.md#contamination)."""
    text = unicodedata.normalize("NFC", "".join(map(_letter, sentence.lower())))
    text = text.replace("i\u0307", "i")  # the small form of the dotted capital of Turkish
    return " ".join(re.findall(r"\w\S*", text))  # marks without a letter count as nothing


def in_corpora(sentences: Iterable[str], corpora: Iterable[Iterable[str]]) -> set[str]:
    """Return the sentences that stand in a corpus, normalised; those without words never do."""
    forms = {sentence: normalised(sentence) for sentence in sentences}
    words = set(forms.values()) - {""}
    standing = words.intersection(map(normalised, chain.from_iterable(corpora)))
    return {sentence for sentence, form in forms.items() if form in standing}


def contamination(
    tasks: Sequence[StsTask | LabelledTask], corpora: Iterable[Iterable[str]]
) -> tuple[frozenset[str], dict[str, dict[str, int]]]:
    """Look for the test sentences of tasks in corpora.

    Returns the test sentences that stand in one, and by task the number of its distinct test
    sentences, `sentences`, and how many of them do, `seen`.
    """
    by_task = {task.name: set(chain.from_iterable(task.items())) for task in tasks if task.has_test}
    seen = in_corpora(set().union(*by_task.values()), corpora)
    counts = {
        name: {"sentences": len(sentences), "seen": len(sentences & seen)}
        for name, sentences in by_task.items()
    }
    return frozenset(seen), counts
