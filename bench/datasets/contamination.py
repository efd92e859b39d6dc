"""Contamination: test items that a run has read before, in a corpus or in the dev set that selects
its checkpoint (docs/reference/protocol.md#contamination)."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np

from bench.datasets import sts
from bench.datasets.labelled import LabelledTask
from bench.datasets.sts import StsTask


@cache
def _letter(char: str) -> str:
    """What a character counts as: a letter, mark or number, nothing, or a space."""
    kind = unicodedata.category(char)
    if kind == "Cf" or char == "\u0640":  # invisible joiners; the Arabic tatweel
        return ""
    # Categories sort as texts: letters (L.), marks (M.), numbers (N.) and the underscore (Pc) lie
    # between "L" and "Pd". U+02BC is a letter to Unicode, and an apostrophe in Ukrainian words.
    if not "L" < kind < "Pd" or char == "\u02bc":
        return " "
    # Ligatures and other forms, such as wide ones, are their letters. NFKC is for this range alone:
    # of other characters it would make 10² equal to 102.
    return unicodedata.normalize("NFKC", char) if "\ufb00" <= char < "\uffdf" else char


def normalised(sentence: str) -> str:
    """The words of a sentence in lower case: punctuation, case, spaces and the spelling in Unicode
    make no difference (docs/reference/protocol.md#contamination)."""
    text = unicodedata.normalize("NFC", "".join(map(_letter, sentence.lower())))
    text = text.replace("i\u0307", "i")  # the small form of the dotted capital of Turkish
    return " ".join(re.findall(r"\w\S*", text))  # marks without a letter count as nothing


def in_corpora(sentences: Iterable[str], corpora: Iterable[Iterable[str]]) -> set[str]:
    """Return the sentences that stand in a corpus, normalised. Sentences without words never do."""
    forms = {sentence: normalised(sentence) for sentence in sentences}
    words = set(forms.values()) - {""}
    # Corpora may have more lines than memory takes, so only the words of tasks are kept.
    common = words.intersection(map(normalised, chain.from_iterable(corpora)))
    return {sentence for sentence, form in forms.items() if form in common}


def item_keys(items: Iterable[Iterable[str]]) -> np.ndarray:
    """A number for each item, which is equal for equal words; the order of a pair makes no
    difference."""
    keys = []
    for item in items:
        # A text without words, such as an emoji, is itself.
        text = "\n".join(sorted(normalised(text) or text for text in item))
        # 64 bits: among a million items two share a key by chance once in 40 million such sets.
        keys.append(int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8]))
    return np.array(keys, np.uint64)


def contamination(
    tasks: Iterable[StsTask | LabelledTask],
    corpora: Iterable[Iterable[str]],
    selection: Iterable[str],
    data: Path,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Look for the test items of tasks in corpora, and in the dev sets of the tasks `selection`.

    Returns two arrays (n,) by task: whether a sentence of an item stands in a corpus, and whether
    the item stands in a dev set.
    """
    dev_sets = (sts.read(name, data, "dev").items() for name in selection)
    dev_keys = item_keys(chain.from_iterable(dev_sets))
    items_of = {task.name: task.items() for task in tasks if task.has_test}
    sentences = chain.from_iterable(chain.from_iterable(items_of.values()))
    contaminated = in_corpora(sentences, corpora)  # one pass over the corpora for all tasks
    result = {}
    for name, items in items_of.items():
        in_corpus = [not contaminated.isdisjoint(item) for item in items]
        result[name] = np.array(in_corpus), np.isin(item_keys(items), dev_keys)
    return result
