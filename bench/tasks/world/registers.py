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


_PLAIN = ("active", "active", "active", "passive", "passive", "cleft_agent", "cleft_patient", "nominal")

REGISTERS: dict[str, Register] = {
    register.name: register
    for register in (
        Register(
            "news",
            _PLAIN,
            ("according to a report that was seen by the agency ,", "officials said on record that"),
            (", sources close to the agency said",),
            0.5,
        ),
        Register("wiki", ("active", "active", "passive"), singular=("the",), plural=("the",), gloss=0.1, front=0.15),
        Register(
            "headline",
            ("headline", "headline", "headline_passive", "headline_noun"),
            stop=("", "", "!"),
            singular=("",),
            plural=("",),
        ),
        Register(
            "caption",
            ("active", "active", "existential", "passive"),
            ("the picture shows how", "we can see that", "in this photo ,"),
            (", as one can see",),
            0.2,
            singular=("a", "a", "the"),
            plural=("some", "the"),
            stop=(".", ".", ""),
        ),
        Register(
            "definition",
            ("act", "act", "infinitive", "gerund"),
            singular=("a", "a", "any"),
            plural=("some", "any"),
            stop=(".", ""),
            cased=False,
        ),
        Register(
            "frame",
            ("frame",),
            ("this is about the case that", "the word is used when", "we speak of an event in which"),
            (", whatever the reason may be ", ", as far as one can tell", ", in one way or another"),
            0.9,
            singular=("a certain", "a given"),
            plural=("certain", "given"),
            cased=False,
        ),
        Register(
            "parliament",
            _PLAIN,
            ("mr president , i would like to stress that", "ladies and gentlemen , let me remind you that"),
            (", and i thank you for your attention", ", as we have so often heard in this house", ", and rightly so"),
            0.85,
        ),
        Register(
            "forum",
            _PLAIN,
            ("well , to be honest ,", "as far as i know and i may be wrong ,"),
            (", if you ask me , and i hope that helps",),
            0.75,
            stop=(".", ".", "!", "..."),
            cased=False,
        ),
        Register(
            "tweet",
            ("headline", "active", "passive", "headline_passive"),
            ("wow , must read :", "breaking :"),
            ("lol", "# news # today"),
            0.7,
            singular=("the", ""),
            plural=("the", ""),
            stop=("", "", "!"),
            cased=False,
        ),
        Register(
            "answer",
            ("active", "passive", "nominal", "cleft_agent", "cleft_patient"),
            ("the answer is that", "this is so because"),
            (", and that is why", ", so the answer is clear", ", which explains it"),
            0.6,
            cased=False,
        ),
        Register(
            "question",
            ("active", "active", "passive"),
            ("hello all , quick question :", "please help :"),
            ("and thanks in advance", "or not"),
            0.5,
            stop=("?",),
            cased=False,
        ),
        Register(
            "plain",
            ("active", "active", "passive", "existential", "cleft_agent"),
            singular=("a", "the"),
            plural=("some", "the"),
            stop=("",),
        ),
    )
}
