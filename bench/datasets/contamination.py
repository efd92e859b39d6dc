"""Contamination: test sentences that stand in a corpus (docs/protocol.md#contamination)."""

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from bench.datasets.labelled import LabelledTask
from bench.datasets.sts import StsTask


def normalised(sentence: str) -> str:
    """The words of a sentence in lower case: punctuation, case and spaces make no difference."""
    return " ".join(re.findall(r"\w+", sentence.lower()))


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
    by_task = {
        task.name: set(chain.from_iterable(task.test_items())) for task in tasks if task.has_test
    }
    seen = in_corpora(set().union(*by_task.values()), corpora)
    counts = {
        name: {"sentences": len(sentences), "seen": len(sentences & seen)}
        for name, sentences in by_task.items()
    }
    return frozenset(seen), counts
