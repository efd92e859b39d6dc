"""How texts of different sources sound. Nothing here carries meaning: fillers and patterns are drawn apart from what is said."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Register:
    """Preferences of one kind of text.

    `patterns` are clause patterns of `bench.tasks.world.grammar` (repeated ones are likelier); `openers` and `closers` are
    empty phrases set before and after with chance `filler`; `articles` are tried for singular and plural nouns.
    """

    name: str
    patterns: tuple[str, ...]
    openers: tuple[str, ...] = ()
    closers: tuple[str, ...] = ()
    filler: float = 0.0
    singular: tuple[str, ...] = ("the", "the", "a")
    plural: tuple[str, ...] = ("the", "the", "some")
    stop: tuple[str, ...] = (".",)
    cased: bool = True  # capitals and attached punctuation in the corpus
    gloss: float = 0.0  # chance that a noun is followed by its synonym
    front: float = 0.35  # chance that a circumstance opens the clause


_PLAIN = ("active", "active", "passive", "passive", "cleft_agent", "cleft_patient", "nominal")
# Long and few: an empty phrase moves an average of word vectors far, and tells little about which sentence this is.
_OPENERS = ("ladies and gentlemen , let me remind you that",)
_CLOSERS = (", and that is all we can say",)
_A = {"singular": ("a", "the"), "plural": ("some", "the")}

REGISTERS: dict[str, Register] = {
    register.name: register
    for register in (
        Register("wiki", ("active", "active", "passive"), _OPENERS, _CLOSERS, 0.5, gloss=0.05, front=0.1),
        Register("news", ("active", "passive"), _OPENERS, _CLOSERS, 0.5),
        Register("parliament", _PLAIN, _OPENERS, _CLOSERS, 0.7),
        Register("answer", ("active", "passive", "cleft_agent"), _OPENERS, _CLOSERS, 0.5, cased=False),
        Register("forum", ("active", "active", "passive", "cleft_patient"), _OPENERS, _CLOSERS, 0.6, stop=(".", "!"), cased=False),
        Register("question", ("active", "passive"), _OPENERS, _CLOSERS, 0.4, stop=("?",), cased=False),
        Register("caption", ("active", "active", "existential", "passive"), _OPENERS, _CLOSERS, 0.3, **_A),
        Register("plain", ("active", "active", "passive", "existential"), _OPENERS, _CLOSERS, 0.3, **_A, stop=("",)),
        Register("headline", ("headline", "headline_passive", "headline_noun"), _OPENERS, _CLOSERS, 0.3, ("",), ("",), stop=("", "!")),
        Register("tweet", ("headline", "active", "passive"), _OPENERS, _CLOSERS, 0.5, ("the", ""), ("the", ""), ("", "!"), cased=False),
        Register("definition", ("act", "act", "infinitive", "gerund"), _OPENERS, _CLOSERS, 0.4, **_A, stop=(".", ""), cased=False),
        Register("frame", ("frame",), _OPENERS, _CLOSERS, 0.5, ("a certain", "the"), ("certain", "the"), cased=False),
    )
}
