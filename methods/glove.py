"""GloVe: the mean of a sentence's word vectors."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from methods.base import Context, HyperParameters, Method

# English function words, by the closed word classes of the language, and punctuation marks.
_CLOSED_CLASSES = {
    "articles, determiners, quantifiers": """
        a an the this that these those such each every either neither both all any some no none much
        many more most few fewer fewest little less least several enough other others another same
        own half""",
    "personal, possessive, reflexive pronouns": """
        i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his
        himself she her hers herself it its itself they them their theirs themselves one ones
        oneself""",
    "indefinite pronouns and adverbs": """
        anybody anyone anything anyhow anywhere anyway everybody everyone everything everywhere
        nobody nothing nowhere somebody someone something somehow sometime sometimes somewhere""",
    "interrogatives and relatives": """
        who whom whose which what when where why how whoever whomever whichever whatever whenever
        wherever however""",
    "auxiliaries": """
        be am is are was were been being do does did done doing have has had having can could may
        might must shall should will would ought need dare used let cannot""",
    "parts of contractions after a split at the apostrophe": """
        s t d ll m re ve ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan
        shouldn wasn weren won wouldn""",
    "negation and affirmation": "not nor never yes no",
    "prepositions": """
        about above across after against along alongside amid among amongst around as at atop before
        behind below beneath beside besides between beyond by concerning despite down during except
        for from in inside into like near of off on onto opposite out outside over past per
        regarding round since than through throughout till to toward towards under underneath unlike
        until unto up upon via with within without""",
    "conjunctions": """
        and but or so yet if unless whether because although though while whereas whilst lest once
        provided""",
    "adverbs of place, time and order": """
        here there hence thence thus then now again already also always ever often soon still just
        back away together apart forward last next later afterwards meanwhile instead""",
    "adverbs of degree and focus": """
        very too quite rather almost nearly only even merely simply really perhaps maybe else hardly
        mostly indeed therefore moreover furthermore nevertheless nonetheless otherwise""",
    "numerals": """
        two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty
        seventy eighty ninety hundred first second third""",
    "marks": " ".join([*string.punctuation, "``", "''", "--", "..."]),
}
STOP_WORDS = frozenset(word for words in _CLOSED_CLASSES.values() for word in words.split())


@dataclass(frozen=True)
class GloVeHyper(HyperParameters):
    stop_words: bool = False  # keep them; Sentence-Transformers' word model drops them


class AverageOfWords:
    """An Encoder: the mean of the vectors of a sentence's known words, with repetitions.

    Words are separated by white space. A word is looked up as written, then without punctuation at
    both ends, then also in lower case. It is dropped if one of these forms is a stop word before a
    form is known. A sentence without known words gets the zero vector.
    """

    kind = "words"

    def __init__(self, words: Sequence[str], vectors: np.ndarray, stop_words: bool) -> None:
        self.words, self.vectors, self.stop_words = words, vectors, stop_words
        self._dropped = frozenset() if stop_words else STOP_WORDS

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}

    @property
    def arrays(self) -> dict[str, Tensor]:
        return {"vectors": torch.from_numpy(self.vectors)}

    @cached_property
    def identity(self) -> str:
        digest = hashlib.sha256("\n".join([*sorted(self._dropped), "", *self.words]).encode())
        digest.update(np.ascontiguousarray(self.vectors).data)
        return f"{self.kind}-{digest.hexdigest()[:16]}"

    def rows(self, sentence: str) -> Iterator[int]:
        """Yield the row of each known word that is not a stop word."""
        for word in sentence.split():
            bare = word.strip(string.punctuation)
            for form in (word, bare, bare.lower()):
                if form in self._dropped:
                    break
                if form in self._rows:
                    yield self._rows[form]
                    break

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        means = np.zeros((len(sentences), self.vectors.shape[1]), dtype=np.float32)
        for vector, sentence in zip(means, sentences, strict=True):
            if rows := list(self.rows(sentence)):
                vector[:] = self.vectors[rows].mean(axis=0)
        return means

    def save(self, folder: Path) -> dict[str, Any]:
        (folder / "words.txt").write_bytes("\n".join(self.words).encode())
        return {"stop_words": self.stop_words}

    @classmethod
    def load(cls, folder: Path, stored: Any, *, arrays: Any, **_: Any) -> AverageOfWords:
        words = (folder / "words.txt").read_bytes().decode().split("\n")
        return cls(words, arrays["vectors"].numpy(), stored["stop_words"])


class GloVe(Method):
    """The mean of word vectors, without stop words (docs/methods.md#glove).

    The papers report the numbers of the Sentence-BERT paper, which specifies only the vectors.
    Splitting and dropping of words follow Sentence-Transformers' word model, for both settings. Its
    stop word list is not copied; the list here is compiled from the closed classes of English. The
    two share 263 words. The other 89 of theirs are mostly archaic adverbs and everyday verbs and
    nouns ("find", "give", "fire", "system"), which are kept here; 61 of the 324 here are kept there
    ("near", "seven"). `stop_words=true` is the plain mean, as in SentEval's bag of words.
    """

    name = "glove"
    title = "GloVe"
    reference = (
        "Reimers and Gurevych 2019, Table 1; Pennington et al. 2014; "
        "code UKPLab/sentence-transformers@85ec645"
    )
    Hyper = GloVeHyper
    official = {}
    trained = False
    backbone_kind = "words"

    def encoder(self, context: Context) -> AverageOfWords:
        table = context.backbone
        return AverageOfWords(table.words, table.vectors, self.hyper.stop_words)
