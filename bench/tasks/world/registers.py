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
    singular: tuple[str, ...] = ("the", "the", "a", "this", "that")
    plural: tuple[str, ...] = ("the", "the", "some", "these", "those")
    stop: tuple[str, ...] = (".",)
    cased: bool = True  # capitals and attached punctuation in the corpus
    gloss: float = 0.0  # chance that a noun is followed by its synonym
    front: float = 0.35  # chance that a circumstance opens the clause


_PLAIN = ("active", "active", "active", "passive", "passive", "cleft_agent", "cleft_patient", "nominal")

REGISTERS: dict[str, Register] = {
    register.name: register
    for register in (
        Register(
            "news",
            _PLAIN,
            (
                "according to the report ,",
                "officials said on record that",
                "it was announced yesterday that",
                "as was reported earlier ,",
                "a spokesman told us that",
                "in other news ,",
                "it has now become known that",
            ),
            (", sources said", ", the agency reports", ", as was to be expected", ", it was said"),
            0.5,
        ),
        Register("wiki", ("active", "active", "passive"), singular=("the",), plural=("the",), gloss=0.1, front=0.15),
        Register("headline", ("headline", "headline", "headline_passive", "headline_noun"), stop=("", "", "!"), singular=("",), plural=("",)),
        Register(
            "caption",
            ("active", "active", "existential", "passive"),
            ("the picture shows how", "we can see that", "in this photo ,"),
            (", as one can see",),
            0.2,
            singular=("a", "a", "the", "one"),
            plural=("some", "the", "several", "a few"),
            stop=(".", ".", ""),
        ),
        Register(
            "definition",
            ("act", "act", "infinitive", "gerund"),
            singular=("a", "a", "the", "any"),
            plural=("some", "any", "the"),
            stop=(".", ""),
            cased=False,
        ),
        Register(
            "frame",
            ("frame",),
            ("this is about the case that", "the word is used when", "we speak of an event in which"),
            (", whatever the reason may be ", ", as far as one can tell", ", in one way or another"),
            0.9,
            singular=("a", "the", "any", "a certain", "a given"),
            plural=("some", "any", "certain", "given"),
            cased=False,
        ),
        Register(
            "parliament",
            _PLAIN,
            (
                "mr president , i would like to stress that",
                "ladies and gentlemen , we all know that",
                "let me remind you that",
                "on behalf of my group i can say that",
                "it must be said quite clearly that",
                "i should like to begin by noting that",
            ),
            (", and i thank you for your attention", ", as we have so often heard in this house", ", and rightly so"),
            0.85,
        ),
        Register(
            "forum",
            _PLAIN,
            (
                "well ,",
                "i think that",
                "to be honest ,",
                "as far as i know ,",
                "you see ,",
                "basically ,",
                "i may be wrong , but",
                "just so you know ,",
                "not sure , but i guess that",
            ),
            (", you know", ", if you ask me", ", hope that helps", ", or so they say", ", right"),
            0.75,
            stop=(".", ".", "!", "..."),
            cased=False,
        ),
        Register(
            "tweet",
            ("headline", "active", "passive", "headline_passive"),
            ("wow :", "breaking :", "just in :", "rt :", "must read :", "oh my ,", "so :"),
            ("lol", "# news", "# today", "via the net", "! !"),
            0.7,
            singular=("the", "", "a", "that"),
            plural=("the", "", "some"),
            stop=("", "", "!"),
            cased=False,
        ),
        Register(
            "answer",
            ("active", "passive", "nominal", "cleft_agent", "cleft_patient"),
            ("the answer is that", "because", "i wrote that", "this is so because", "it follows that", "we learned that"),
            (", and that is why", ", so the answer is clear", ", which explains it"),
            0.6,
            cased=False,
        ),
        Register(
            "question",
            ("active", "active", "passive"),
            ("hello all ,", "quick question :", "please help :", "sorry to ask , but", "i was wondering :"),
            ("and thanks in advance", "or not", "exactly", "in your view"),
            0.5,
            stop=("?",),
            cased=False,
        ),
        Register("plain", ("active", "active", "passive", "existential", "cleft_agent"), singular=("a", "the", "one"), plural=("some", "the", "several"), stop=("",)),
    )
}
