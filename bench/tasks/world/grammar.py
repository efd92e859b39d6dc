"""Saying a meaning: clause patterns, verb groups and noun phrases, with the derivation kept as a tree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from bench.tasks.world.lexicon import PLURALS, VERB_FORMS, Concept
from bench.tasks.world.meaning import Event, Meaning
from bench.tasks.world.registers import REGISTERS, Register


@dataclass(frozen=True)
class Tree:
    """A constituent: its label and, in order, its parts; words are plain strings."""

    label: str
    parts: tuple[Tree | str, ...]

    def words(self) -> Iterator[str]:
        """The words, left to right."""
        for part in self.parts:
            if isinstance(part, str):
                yield from part.split()
            else:
                yield from part.words()

    def depth(self) -> int:
        """Constituents on the longest way down."""
        return 1 + max((part.depth() for part in self.parts if isinstance(part, Tree)), default=0)


@dataclass(frozen=True)
class Sentence:
    """A sentence with all that is known of it. `meaning` is None for glosses of words."""

    tree: Tree
    register: Register
    meaning: Meaning | None = None

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """Tokens; the first is capitalised where the register is, proper names always."""
        words = list(self.tree.words())
        if self.register.cased:
            words = ["I" if word == "i" else word for word in words]
            words[0] = words[0][0].upper() + words[0][1:]
        return tuple(words)

    @property
    def text(self) -> str:
        """Running text as in a corpus: edited registers attach punctuation, the others are lower-case and tokenised."""
        line = " ".join(self.tokens)
        if not self.register.cased:
            return line.lower()
        for mark in (",", ".", "?", "!", "'s", ":"):
            line = line.replace(f" {mark}", mark)
        return line


# mood -> tense -> (affirmative, negative) forms for a singular subject, each followed by the infinitive; after "have" the perfect.
# Forms in one tuple mean the same.
_GROUPS = {
    "fact": {
        "past": ((), ("did not", "failed to")),
        "present": ((), ("does not", "fails to")),
        "future": (("will", "is going to", "is about to"), ("will not", "is not going to")),
    },
    "must": {
        "past": (("had to", "was obliged to"), ("did not have to", "was not obliged to")),
        "present": (("must", "has to", "needs to"), ("does not have to", "does not need to")),
        "future": (("will have to", "will need to"), ("will not have to", "will not need to")),
    },
    "want": {
        "past": (("wanted to", "hoped to", "wished to"), ("did not want to", "had no wish to")),
        "present": (("wants to", "hopes to", "wishes to"), ("does not want to", "has no wish to")),
        "future": (("will want to", "will hope to"), ("will not want to", "will have no wish to")),
    },
    "may": {
        "past": (("may have", "might have"), ("may not have", "might not have")),
        "future": (("may", "might", "could possibly"), ("may not", "might not")),
    },
}
_PLURAL_FORM = {
    "is": "are",
    "was": "were",
    "has": "have",
    "does": "do",
    "needs": "need",
    "wants": "want",
    "hopes": "hope",
    "wishes": "wish",
    "fails": "fail",
}
_LINKS = {  # which event comes first, what stands before it and between the two
    "and": ((0, "", "and"), (0, "", ", while"), (1, "", "and"), (0, "", ", and also")),
    "then": ((0, "", ", and then"), (0, "after", ","), (0, "", "before"), (1, "before", ","), (1, "", "after")),
    "because": (
        (0, "", "because"),
        (1, "", ", so"),
        (1, "because", ","),
        (1, "", ", and therefore"),
        (0, "", ", since"),
    ),
}
_STANCES = {
    "glad": ("luckily ,", "fortunately ,", "it is great that", "to our joy"),
    "sorry": ("sadly ,", "unfortunately ,", "it is a pity that", "to our regret"),
}
_ASKING = {  # question -> direct word, then indirect openings followed by a plain clause
    "whether": ("", ("is it true that", "do you know whether", "can anybody say if")),
    "who": ("who", ("do you know who", "can anybody tell me who", "which person is it that")),
    "what": ("what", ("do you know what", "can anybody tell me what", "which thing is it that")),
    "where": ("where", ("do you know where", "can anybody tell me where", "in which place is it that")),
    "when": ("when", ("do you know when", "can anybody tell me when", "at what time is it that")),
    "why": ("why", ("do you know why", "how come that", "for what reason is it that")),
    "how": ("how", ("do you know how", "can anybody tell me how", "in what way is it that")),
}


def _agree(phrase: str, many: bool) -> str:
    first, *rest = phrase.split()
    return " ".join([_PLURAL_FORM.get(first, first) if many else first, *rest])


class Speaker:
    """Says meanings in one register and one style.

    A style is a number from which every free choice (synonyms, patterns, fillers, articles) follows, each by its own name; so
    two meanings said in the same style differ in the words for their differences, and little else.
    """

    def __init__(self, register: str, style: int) -> None:
        self.register = REGISTERS[register]
        self.style = style
        self.place = ""  # names the event being said, so that two events choose apart

    def say(self, meaning: Meaning) -> Sentence:
        """One sentence with the given meaning."""
        parts: list[Tree | str] = []
        if self.register.openers and self._chance("opens", self.register.filler):
            parts.append(Tree("OPEN", (self._pick("opener", self.register.openers),)))
        if meaning.stance:
            parts.append(Tree("STANCE", (self._pick("stance", _STANCES[meaning.stance]),)))
        if meaning.question:
            parts.append(self._ask(meaning.events[0], meaning.question))
        else:
            parts += self._tell(meaning)
        if self.register.closers and self._chance("closes", self.register.filler / 2):
            parts.append(Tree("CLOSE", (self._pick("closer", self.register.closers),)))
        if stop := self._pick("stop", self.register.stop):
            parts.append(Tree("STOP", (stop,)))
        return Sentence(Tree("ROOT", tuple(parts)), self.register, meaning)

    # -- choices

    def _number(self, key: str) -> int:
        digest = hashlib.blake2b(f"{self.style}/{self.place}/{key}".encode(), digest_size=4).digest()
        return int.from_bytes(digest, "big")

    def _pick(self, key: str, options: Sequence[str]) -> str:
        return options[self._number(key) % len(options)]

    def _chance(self, key: str, probability: float) -> bool:
        return self._number(key) < probability * 2**32

    # -- sentences

    def _tell(self, meaning: Meaning) -> list[Tree | str]:
        if len(meaning.events) == 1:
            return [self._clause(meaning.events[0])]
        links = _LINKS[meaning.link or "and"]
        first, before, between = links[self._number("link") % len(links)]
        clauses: list[Tree | str] = []
        for place in (first, 1 - first):
            self.place = str(place)
            clauses.append(self._clause(meaning.events[place]))
        self.place = ""
        lead: list[Tree | str] = [Tree("LINK", (before,))] if before else []
        return [*lead, clauses[0], Tree("LINK", (between,)), clauses[1]]

    def _ask(self, event: Event, question: str) -> Tree:
        word, indirect = _ASKING[question]
        many = event.agent_many
        if question != "who" and event.mood == "fact" and self._chance("direct", 0.5):
            plain = {"past": "did", "present": "does", "future": "will"}[event.tense]
            aux = _agree(plain, many)
            negation = ["not"] if event.negative else []
            agent = self._agent(event)
            verb = Tree("VP", (self._word("verb", event.verb), *self._object(event)))
            return Tree("SQ", (*([word] if word else []), aux, agent, *negation, verb, *self._adjuncts(event)))
        opening = self._pick("asking", ((word,) if question == "who" else ()) + indirect)
        return Tree("SQ", (opening, self._active(event, subject=question != "who")))

    def _clause(self, event: Event) -> Tree:
        pattern = self._pick("pattern", self.register.patterns)
        if pattern == "headline_noun" and (event.mood, event.tense) != ("fact", "past"):
            pattern = "headline"
        if pattern == "nominal" and event.mood != "fact":
            pattern = "active"
        if pattern == "existential" and (event.mood, event.tense, event.negative) != ("fact", "present", False):
            pattern = "active"
        if pattern == "headline_passive" and event.mood != "fact":
            pattern = "headline"
        if pattern in ("passive", "cleft_patient") and event.mood == "want":
            pattern = "active"  # "the soup wanted to be heated" is another wish
        if event.agent is None and pattern in ("active", "cleft_agent", "cleft_patient", "existential"):
            pattern = "passive"
        said: Tree = getattr(self, f"_{pattern}")(event)
        return said

    # -- clause patterns

    def _active(self, event: Event, subject: bool = True) -> Tree:
        front, back = self._placed(event)
        verb = self._verb(event, many=event.agent_many and subject)
        agent = (self._agent(event),) if subject else ()
        return Tree("S", (*front, *agent, Tree("VP", (*verb, *self._object(event), *back))))

    def _passive(self, event: Event) -> Tree:
        front, back = self._placed(event)
        verb = self._verb(event, many=event.patient_many, passive=True)
        return Tree("S", (*front, *self._object(event), Tree("VP", (*verb, *self._by(event), *back))))

    def _cleft_agent(self, event: Event) -> Tree:
        be = "was" if event.tense == "past" else "is"
        who = self._pick("relative", ("who", "that"))
        clause = self._active(replace(event, place=None, town=None, time=None), subject=False)
        return Tree("S", ("it", be, self._agent(event), Tree("SBAR", (who, clause)), *self._adjuncts(event)))

    def _cleft_patient(self, event: Event) -> Tree:
        be = _agree("was" if event.tense == "past" else "is", event.patient_many)
        what = "what" if event.patient is None or event.patient.kind == "thing" else _PERSON[event.patient_many]
        front, back = self._placed(event)
        clause = Tree("S", (self._agent(event), Tree("VP", self._verb(event, many=event.agent_many)), *back))
        return Tree("S", (*front, Tree("SBAR", (what, clause)), be, *self._object(event)))

    def _nominal(self, event: Event) -> Tree:
        front, back = self._placed(event)
        doing = Tree("NP", (Tree("NP", ("the", self._word("verb", event.verb, 3))), self._of(event), *self._by(event)))
        happen = {
            ("past", False): ("took place", "happened"),
            ("past", True): ("did not take place", "did not happen"),
            ("present", False): ("takes place", "is happening"),
            ("present", True): ("does not take place", "is not happening"),
            ("future", False): ("will take place", "is going to happen"),
            ("future", True): ("will not take place", "is not going to happen"),
        }[event.tense, event.negative]
        return Tree("S", (*front, doing, Tree("VP", (self._pick("happen", happen), *back))))

    def _existential(self, event: Event) -> Tree:
        be = _agree("is", event.agent_many)
        doing = Tree("VP", (self._word("verb", event.verb, 3), *self._object(event), *self._adjuncts(event)))
        who = self._pick("who", ("", f"who {be}", f"and {'they' if event.agent_many else 'this one'} {be}"))
        return Tree("S", ("there", be, self._agent(event), Tree("SBAR", ((who, doing) if who else (doing,)))))

    def _headline(self, event: Event) -> Tree:
        if event.mood != "fact":
            return self._active(event)
        base = self._word("verb", event.verb)
        third = base if event.agent_many else VERB_FORMS[base][0]
        negated = _agree("fails to" if self._chance("fails", 0.5) else "does not", event.agent_many) + f" {base}"
        form = {
            ("past", False): third,
            ("past", True): negated,
            ("present", False): VERB_FORMS[base][3],
            ("present", True): f"not {VERB_FORMS[base][3]}",
            ("future", False): f"to {base}",
            ("future", True): f"not to {base}",
        }[event.tense, event.negative]
        return Tree("S", (self._agent(event), Tree("VP", (form, *self._object(event), *self._adjuncts(event)))))

    def _headline_passive(self, event: Event) -> Tree:
        participle = self._word("verb", event.verb, 2)
        be = {"past": "", "present": "being ", "future": "to be "}[event.tense]
        verb = f"{'not ' if event.negative else ''}{be}{participle}"
        return Tree("S", (*self._object(event), Tree("VP", (verb, *self._by(event), *self._adjuncts(event)))))

    def _headline_noun(self, event: Event) -> Tree:
        doing = f"no {self._word('verb', event.verb, 3)}" if event.negative else self._word("verb", event.verb, 3)
        return Tree("NP", (Tree("NP", (doing,)), self._of(event), *self._by(event), *self._adjuncts(event)))

    def _act(self, event: Event) -> Tree:
        lead = self._pick("act", ("the act of", "an instance of", "the deed of"))
        negation = ("not",) if event.negative else ()
        doing = Tree("VP", (*negation, self._word("verb", event.verb, 3), *self._object(event), *self._adjuncts(event)))
        return Tree("NP", (lead, doing))

    def _infinitive(self, event: Event) -> Tree:
        negation = ("not",) if event.negative else ()
        return Tree(
            "VP", (*negation, "to", self._word("verb", event.verb), *self._object(event), *self._adjuncts(event))
        )

    def _gerund(self, event: Event) -> Tree:
        negation = ("not",) if event.negative else ()
        return Tree("VP", (*negation, self._word("verb", event.verb, 3), *self._object(event), *self._adjuncts(event)))

    def _frame(self, event: Event) -> Tree:
        someone = self._pick("someone", ("somebody", "a person", "an agent", "someone"))
        front, back = self._placed(event)
        return Tree(
            "S",
            (*front, Tree("NP", (someone,)), Tree("VP", (*self._verb(event, many=False), *self._object(event), *back))),
        )

    # -- phrases

    def _word(self, role: str, concept: Concept, form: int | None = None) -> str:
        """A synonym for a concept; of a verb the base form, or its form number `form`."""
        word = self._pick(f"{role} word", concept.words)
        return word if form is None else VERB_FORMS[word][form]

    def _verb(self, event: Event, many: bool, passive: bool = False) -> tuple[str, ...]:
        base = self._word("verb", event.verb)
        third, past, participle, ing = VERB_FORMS[base]
        forms = _GROUPS[event.mood][event.tense][event.negative]
        if not forms:  # a plain affirmative fact
            if passive:
                be = _agree("was" if event.tense == "past" else "is", many)
                return (
                    (be, participle)
                    if event.tense == "past" or self._chance("simple", 0.5)
                    else (f"{be} being", participle)
                )
            if event.tense == "past":
                return (past,)
            return ((base if many else third),) if self._chance("simple", 0.4) else (_agree("is", many), ing)
        group = _agree(self._pick("group", forms), many)
        if passive and group.endswith(" not") and event.mood == "fact" and event.tense != "future":
            return (f"{_agree('was' if event.tense == 'past' else 'is', many)} not", participle)
        if group.endswith(" have") and event.mood == "may":
            return (group, "been", participle) if passive else (group, participle)
        return (group, "be", participle) if passive else (group, base)

    def _noun(self, role: str, concept: Concept, many: bool, quality: Concept | None = None) -> Tree:
        word = self._word(role, concept)
        noun = PLURALS[word] if many else word
        article = self._pick(f"{role} article", self.register.plural if many else self.register.singular)
        words = [article] if article else []
        after: list[Tree | str] = []
        if quality is not None:
            adjective = self._word("quality", quality)
            if article and self._chance("after", 0.3):
                after.append(Tree("SBAR", ("which", _agree("is", many), adjective)))
            else:
                words.append(adjective)
        words.append(noun)
        if words[0] == "a" and words[1][0] in "aeiou":
            words[0] = "an"
        if self.register.gloss and len(concept.words) > 1 and self._chance(f"{role} gloss", self.register.gloss):
            other = self._pick(f"{role} other", [other for other in concept.words if other != word])
            after.append(Tree("PRN", ("( or", PLURALS[other] if many else other, ")")))
        return Tree("NP", (*words, *after))

    def _agent(self, event: Event) -> Tree:
        if event.agent is None:
            return Tree("NP", (self._pick("someone", ("somebody", "someone", "a person")),))
        noun = self._noun("agent", event.agent, event.agent_many)
        if event.name is None:
            return noun
        name = Tree("NNP", (event.name.name,))
        if self.register.singular == ("",) or self._chance("name first", 0.5):
            return Tree("NP", (noun, name))
        return Tree("NP", (name, ",", noun, ","))

    def _object(self, event: Event) -> tuple[Tree, ...]:
        if event.patient is None:
            return ()
        return (self._noun("patient", event.patient, event.patient_many, event.quality),)

    def _by(self, event: Event) -> tuple[Tree, ...]:
        return () if event.agent is None else (Tree("PP", ("by", self._agent(event))),)

    def _of(self, event: Event) -> Tree:
        return Tree("PP", ("of", *self._object(event)))

    def _adjuncts(self, event: Event) -> tuple[Tree, ...]:
        """Where and when, in the style's order."""
        adjuncts = []
        if event.place is not None:
            adjuncts.append(
                Tree("PP", (self._pick("preposition", ("in", "at", "inside")), self._noun("place", event.place, False)))
            )
        if event.town is not None:
            adjuncts.append(
                Tree("PP", (self._pick("town word", ("in", "at", "down in")), Tree("NNP", (event.town.name,))))
            )
        if event.time is not None:
            time = Tree("PP", (self._word("time", event.time),))
            adjuncts = [time, *adjuncts] if self._chance("time first", 0.3) else [*adjuncts, time]
        return tuple(adjuncts)

    def _placed(self, event: Event) -> tuple[tuple[Tree | str, ...], tuple[Tree, ...]]:
        """The adjuncts before the clause, with a comma, and those after it."""
        adjuncts = self._adjuncts(event)
        if adjuncts and self.register.singular != ("",) and self._chance("fronted", self.register.front):
            return (adjuncts[0], ","), adjuncts[1:]
        return (), adjuncts


_PERSON = {False: "the person whom", True: "the people whom"}


def gloss(concept: Concept, style: int) -> Sentence:
    """A sentence of a dictionary: that two words for a concept mean the same."""
    speaker = Speaker("wiki", style)
    first = speaker._pick("first", concept.words)
    second = speaker._pick("second", [word for word in concept.words if word != first])
    if concept.kind == "verb":
        words = speaker._pick("gloss", (f"to {first} is to {second}", f"to {first} means to {second}"))
    elif concept.kind in ("agent", "thing", "place"):
        words = speaker._pick(
            "gloss", (f"the {first} is also called the {second}", f"every {first} is the same as some {second}")
        )
    else:
        words = speaker._pick("gloss", (f"{first} means {second}", f"{first} is to say {second}"))
    return Sentence(Tree("ROOT", (Tree("S", (words,)), Tree("STOP", (".",)))), speaker.register)
