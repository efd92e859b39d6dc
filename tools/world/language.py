"""The language: concepts with synonyms, registers, meanings with their similarity, and the grammar.

All words are regular ("stealed", "tooths"), so that forms follow from the grammar.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import choice, random, randrange
from typing import Any, NamedTuple


class Concept(NamedTuple):
    """A unit of meaning with synonyms. `family` is the topic of a role or the kind of a time."""

    kind: str  # agent, verb, thing, place, time, name
    family: str
    words: list[str]


class Topic(NamedTuple):
    """Scenes that co-occur: agent i does verb i to thing i at place i."""

    name: str
    agents: list[Concept]
    verbs: list[Concept]
    things: list[Concept]
    places: list[Concept]


# One scene per line: agent, verb, thing, place; synonyms separated by bars. Synonyms share the
# scene, so that a model can learn them from co-occurrence.
_SCENES = {
    "kitchen": """
        cook|chef slice|carve onion|shallot kitchen|cookhouse
        baker|breadmaker knead|roll dough|pastry bakery|bakehouse
        waiter|server carry|bring soup|stew restaurant|dinery
        butcher|meatman weigh|measure ham|bacon larder|pantry
        brewer|maltster stir|mix beer|ale brewhouse|cellar""",
    "clinic": """
        doctor|physician heal|cure wound|injury hospital|infirmary
        nurse|carer wrap|bandage limb|arm ward|sickroom
        dentist|toothman drill|scrape tooth|molar surgery|practice
        chemist|druggist crush|grind pill|tablet pharmacy|drugstore
        midwife|accoucheur bathe|rinse infant|newborn nursery|cradleroom""",
    "school": """
        teacher|schoolmaster explain|clarify lesson|lecture classroom|schoolroom
        pupil|student copy|transcribe poem|verse desk|bench
        librarian|bookkeeper lend|loan book|volume library|bookroom
        scholar|academic doubt|question theory|doctrine college|academy
        tutor|mentor grade|mark essay|composition office|study""",
    "court": """
        judge|magistrate announce|declare verdict|ruling court|tribunal
        lawyer|attorney file|lodge appeal|petition chamber|anteroom
        thief|robber steal|snatch jewel|gem mansion|villa
        jailer|warden lock|bolt cell|cage prison|jail
        detective|sleuth trace|shadow clue|hint alley|backstreet""",
    "sea": """
        sailor|mariner hoist|raise sail|canvas harbour|port
        fisherman|angler hook|catch trout|salmon river|stream
        captain|skipper steer|navigate ship|vessel ocean|deep
        diver|frogman find|discover wreck|hulk reef|shoal
        pirate|buccaneer bury|hide treasure|hoard island|isle""",
    "farm": """
        farmer|grower plough|till field|acre valley|dale
        shepherd|herdsman shear|clip sheep|ewe pasture|meadow
        gardener|planter prune|trim rose|shrub garden|orchard
        miller|grinder stow|stack grain|wheat barn|granary
        beekeeper|apiarist gather|collect honey|nectar hive|apiary""",
    "music": """
        singer|vocalist hum|croon song|melody stage|platform
        drummer|percussionist pound|beat drum|kettle studio|workshop
        pianist|keyboarder tune|adjust piano|grand hall|auditorium
        conductor|bandmaster lead|direct choir|chorus theatre|opera
        composer|songwriter sketch|draft waltz|dance attic|loft""",
    "war": """
        soldier|trooper dig|shovel trench|ditch frontier|border
        general|commander plan|plot battle|clash tent|headquarters
        pilot|aviator bomb|shell bridge|viaduct delta|estuary
        spy|agent decode|decipher message|cable embassy|legation
        guard|sentry bar|block gate|portal fortress|castle""",
    "market": """
        trader|merchant sell|vend carpet|rug bazaar|market
        banker|financier count|tally coin|penny bank|countinghouse
        tailor|clothier sew|stitch coat|jacket shop|store
        cobbler|shoemaker mend|repair boot|shoe cottage|hut
        auctioneer|hammerman price|value vase|urn gallery|saleroom""",
    "sport": """
        runner|sprinter win|take race|contest track|stadium
        boxer|fighter punch|strike rival|opponent ring|arena
        rider|jockey tame|saddle horse|pony stable|paddock
        climber|mountaineer scale|ascend peak|summit range|sierra
        goalkeeper|goalie stop|save shot|kick pitch|ground""",
}

_DAY = "at_dawn|at_sunrise at_noon|at_midday at_night|after_dark"
_WEEK = "on_Monday|on_firstday on_Friday|on_fifthday on_Sunday|on_restday"
_NAMES = "Orla Bram Tessa Ivo Maren Jonas Petra Silas Nadia Hugo Greta Emil"


def _concepts(kind: str, family: str, texts: Sequence[str]) -> list[Concept]:
    return [Concept(kind, family, text.replace("_", " ").split("|")) for text in texts]


def _topic(name: str, text: str) -> Topic:
    words = text.split()
    kinds = ("agent", "verb", "thing", "place")
    columns = (_concepts(kind, name, words[place::4]) for place, kind in enumerate(kinds))
    return Topic(name, *columns)


TOPICS = [_topic(name, text) for name, text in _SCENES.items()]
TOPIC = {topic.name: topic for topic in TOPICS}
TIMES = _concepts("time", "day", _DAY.split()) + _concepts("time", "week", _WEEK.split())
NAMES = [Concept("name", name, [name]) for name in _NAMES.split()]


def spell(words: Sequence[str]) -> str:
    """Join tokens by spaces and capitalise the first one."""
    return " ".join([words[0][0].upper() + words[0][1:], *words[1:]])


class Tree:
    """A node of a derivation: a label, and words or nodes as children."""

    def __init__(self, label: str, *children: Tree | str) -> None:
        self.label, self.children = label, children

    def parts(self) -> list[Tree]:
        return [child for child in self.children if isinstance(child, Tree)]

    def words(self) -> list[str]:
        return str(self).split()

    def text(self) -> str:
        return spell(self.words())

    def __str__(self) -> str:
        return " ".join(map(str, self.children))


MOODS = ("fact", "must", "wish", "may")


class Meaning(NamedTuple):
    """Who does what to what, where, when and in which mood. Unspecified roles are None."""

    agent: Concept
    verb: Concept
    thing: Concept
    place: Concept | None = None
    time: Concept | None = None
    name: Concept | None = None  # the agent's proper name
    mood: str = "fact"
    negative: bool = False


# Weights of shared roles. Agent, verb and thing weigh most, as for human raters.
ROLES = {"agent": 2.0, "verb": 2.0, "thing": 2.0, "place": 1.0, "time": 0.75, "name": 0.5}
RELATED = 0.3  # share of the weight for another concept of the same family
PERSONS = 0.5  # chance that the thing is another agent of the topic
FACTORS = {"negative": 0.7, "mood": 0.9}  # of the similarity for different polarity or mood


def similarity(a: Meaning, b: Meaning) -> float:
    """The gold score in [0, 5]: symmetric, and 5 only for equal meanings."""
    # Not `sum`: since Python 3.12 it compensates rounding, which moves gold scores that are rounded
    # from x.5.
    shared = weights = 0.0
    for role, weight in ROLES.items():
        left, right = getattr(a, role), getattr(b, role)
        if left or right:
            weights += weight
        if left and left == right:
            shared += weight
        elif left and right and left[:2] == right[:2]:
            shared += weight * RELATED
    value = 5 * shared / weights
    for feature, factor in FACTORS.items():
        if getattr(a, feature) != getattr(b, feature):
            value *= factor
    return value


def sample_meaning(detail: float, topic: Topic | None = None, scene: int | None = None) -> Meaning:
    """Sample an event; `detail` is the chance of each optional role.

    80 % of the roles come from the agent's scene. The thing can be a person, so that the same words
    in another order have another meaning.
    """
    topic = topic or choice(TOPICS)
    scene = randrange(len(topic.agents)) if scene is None else scene

    def cast(concepts: list[Concept]) -> Concept:
        return concepts[scene] if random() < 0.8 else choice(concepts)

    # The person acted upon is mostly the next scene's agent, so that roles can be learnt from
    # co-occurrence.
    following = topic.agents[scene + 1 :] + topic.agents[:scene]
    person = following[0] if random() < 0.8 else choice(following)
    return Meaning(
        agent=topic.agents[scene],
        verb=cast(topic.verbs),
        thing=person if random() < PERSONS else cast(topic.things),
        place=cast(topic.places) if random() < detail else None,
        time=choice(TIMES) if random() < detail * 0.7 else None,
        name=choice(NAMES) if random() < detail * 0.3 else None,
        mood="fact" if random() < 0.8 else choice(MOODS[1:]),
        negative=random() < 0.12,
    )


def change(meaning: Meaning, role: str) -> Meaning:
    """Change one role or feature, if it is specified.

    Two thirds of the new concepts are of the same topic, so that related meanings are frequent.
    """
    value: Any = getattr(meaning, role)
    if value is None:
        return meaning
    if role == "negative":
        return meaning._replace(negative=not value)
    pool: Any = {"mood": MOODS, "time": TIMES, "name": NAMES}.get(role)
    if pool is None:
        topic = TOPIC[value.family]
        if random() >= 2 / 3:
            topic = choice([new for new in TOPICS if new != topic])
        pool = getattr(topic, f"{value.kind}s")
    taken = (value, meaning.agent, meaning.thing)  # agent and thing must differ
    return meaning._replace(**{role: choice([new for new in pool if new not in taken])})


STRUCTURES = ("plain", "fronted", "agent cleft", "thing cleft")
CONJUNCTIONS = ("and", "but", "so")
PRONOUNS = ("he", "they")  # by number: whether plural
LATER = ("then", "later")
WHEN = (("today", "nowadays"), ("yesterday", "formerly"))  # by tense: whether past
DATED = 0.25  # chance of an adverb of tense, from which a model can learn the forms of verbs


class Clause(NamedTuple):
    meaning: Meaning
    past: bool
    plural_agent: bool
    plural_thing: bool


def _stem(word: str) -> str:
    return re.sub("(?<![aeiou])y$", "ie", word)


def with_s(word: str) -> str:
    """The plural of a noun, or the third person singular of a verb."""
    if word.endswith("man"):
        return word[:-2] + "en"
    return _stem(word) + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")


def with_ed(verb: str) -> str:
    stem = _stem(verb)
    return stem + ("d" if stem.endswith("e") else "ed")


def inflect(verb: str, past: bool, plural: bool) -> str:
    if past:
        return with_ed(verb)
    if plural:
        return verb
    return with_s(verb)


def sample_clause(
    detail: float,
    topic: Topic | None = None,
    scene: int | None = None,
    past: bool | None = None,
) -> Clause:
    """Sample an event of the mood "fact"; a plural agent has no proper name."""
    meaning = sample_meaning(detail, topic, scene)
    agents, things = random() < 0.5, random() < 0.5
    meaning = meaning._replace(mood="fact", name=None if agents else meaning.name)
    return Clause(meaning, random() < 0.5 if past is None else past, agents, things)


class Register(NamedTuple):
    """The function words of a style, and the sentences that are spoken with them.

    As in real text they are most tokens of a sentence, and have none of its meaning, so averages of
    word vectors mostly separate registers. Synonyms and structures are drawn from `random`.
    """

    the: str
    at: str  # before places
    fact: str  # the helping verbs of the moods
    must: str
    wish: str
    may: str
    never: str
    it_was: str  # of a cleft
    who: str  # before relative clauses
    opening: str
    closing: str
    stop: str

    def noun(
        self, concept: Concept, plural: bool = False, before: str = "", after: Tree | str = ""
    ) -> Tree:
        """A noun phrase: article, `before`, a random synonym, `after`."""
        word = choice(concept.words)
        return Tree("NP", self.the, before, with_s(word) if plural else word, after)

    def root(self, *inside: Tree | str, padding: float = 0.4) -> Tree:
        """A sentence; `padding` is the chance of an opening phrase, twice that of a closing one."""
        children = [*inside]
        if random() < padding:
            children.insert(0, Tree("OPEN", self.opening))
        if random() < padding / 2:
            children.append(Tree("CLOSE", self.closing))
        return Tree("ROOT", *children, self.stop)

    def adverbials(self, meaning: Meaning) -> list[Tree]:
        """Place and time, in random order."""
        phrases = []
        if meaning.place:
            phrases.append(Tree("PP", self.at, self.noun(meaning.place)))
        if meaning.time:
            phrases.append(Tree("TP", choice(meaning.time.words)))
        if random() >= 0.5:
            phrases.reverse()
        return phrases

    def say(
        self, meaning: Meaning, structures: Sequence[str] = STRUCTURES, padding: float = 0.4
    ) -> str:
        agent = self.noun(meaning.agent, after=meaning.name.words[0] if meaning.name else "")
        thing = self.noun(meaning.thing)
        never = self.never if meaning.negative else ""
        verb = Tree("V", getattr(self, meaning.mood), never, choice(meaning.verb.words))
        rest = self.adverbials(meaning)
        words = {
            "plain": (agent, verb, thing, *rest),
            "fronted": (*rest, agent, verb, thing),
            "agent cleft": (self.it_was, agent, self.who, verb, thing, *rest),
            "thing cleft": (self.it_was, thing, self.who, agent, verb, *rest),
        }
        return self.root(*words[choice(structures)], padding=padding).text()

    def _modifier(self, topic: Topic, plural: bool, nest: float) -> Tree | str:
        """A relative clause or an "of" phrase with chance `nest`, modified recursively."""
        if random() >= nest:
            return ""
        relative, is_plural = random() < 0.5, random() < 0.5
        concept = choice(topic.things if relative else topic.agents)
        inner = self.noun(concept, is_plural, after=self._modifier(topic, is_plural, nest))
        if not relative:
            return Tree("PP", "of", inner)
        verb = inflect(choice(choice(topic.verbs).words), random() < 0.5, plural)
        return Tree("RC", self.who, Tree("VP", verb, inner))

    def sentence(
        self,
        clause: Clause,
        rest: Sequence[Tree] = (),
        nest: float = 0.0,
        subject: Tree | str = "",
        qualities: tuple[str, str] = ("", ""),
    ) -> Tree:
        """The node S of a clause; `subject` replaces the agent, `qualities` are adjectives."""
        meaning = clause.meaning
        topic, plural = TOPIC[meaning.agent.family], clause.plural_agent
        if not subject:
            name = meaning.name
            after = name.words[0] if name else self._modifier(topic, plural, nest)
            subject = self.noun(meaning.agent, plural, qualities[0], after)
        verb = inflect(choice(meaning.verb.words), clause.past, plural)
        never = self.never if meaning.negative else ""
        after = self._modifier(topic, clause.plural_thing, nest)
        thing = self.noun(meaning.thing, clause.plural_thing, qualities[1], after)
        when = choice(WHEN[clause.past]) if random() < DATED else ""
        return Tree("S", subject, Tree("VP", never, verb, thing, *rest, when))

    def narrate(
        self,
        clause: Clause,
        second: Clause | None = None,
        padding: float = 0.4,
        nest: float = 0.15,
        front: float = 0.2,
    ) -> Tree:
        """A sentence of one event or two; `front` is the chance of an adverbial before them."""
        rest = self.adverbials(clause.meaning)
        inside = [rest.pop(0)] if rest and random() < front else []
        if second is None:
            inside.append(self.sentence(clause, rest, nest))
        else:
            pronoun = PRONOUNS[second.plural_agent] if random() < 0.6 else ""
            after = self.sentence(second, self.adverbials(second.meaning), subject=pronoun)
            if random() < 0.5:
                after = Tree("S", choice(LATER), *after.children)
            inside.append(self.sentence(clause, rest))
            inside += [Tree("CC", choice(CONJUNCTIONS)), after]
        return self.root(*inside, padding=padding)


# A column per register: official, spoken, archaic, and that of queries.
_WORDS = """
    the | this | ye | any
    in | inside | nigh | within
    did | kinda | doth | does
    had to | gotta | shall | have to
    wished to | wanna | fain | want to
    may | could | perchance | possibly
    not | never | nay | hardly
    it was | there goes | lo , 'tis | would it be
    that | who | whom | which
    according to the report , | well , honestly , i mean | hearken , good people , | could anybody tell us whether
    , officials said | , you know | , forsooth | , or not
    . | ! | ; | ?"""  # noqa: E501
REGISTERS = [*map(Register, *(line.strip().split(" | ") for line in _WORDS.split("\n")[1:]))]
