"""The words of the embedded world: concepts, each said by one of several synonyms, and words that mean nothing.

Compact notation, read by `_nouns` and `_verbs`: synonyms are separated by `|`; a noun is `singular[/plural]`, a verb is
`base[/past[/participle]]`, and forms that are left out are regular. A verb names the things it is done to after a colon.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Concept:
    """One unit of meaning and the words for it.

    `kind` is the slot it fills (agent, thing, verb, place, time, quality, town, person); `family` is what it shares with
    its nearest relatives: the topic, or for qualities and times the scale. Towns and persons have no relatives.
    """

    name: str
    kind: str
    family: str
    words: tuple[str, ...]


_TOPICS = {
    "kitchen": {
        "agents": "cook|chef|kitchener, baker|breadmaker, waiter|server, diner|eater",
        "things": "onion|shallot, loaf/loaves|bun, soup|stew, pan|skillet, cake|tart",
        "places": "kitchen|cookhouse, bakery|bakehouse, restaurant|diningroom",
        "verbs": "slice|carve: onion loaf cake, heat|warm: soup pan, scrub/scrubbed|wash: pan onion, "
        "taste|sample: soup cake, serve|plate: soup loaf cake",
    },
    "clinic": {
        "agents": "doctor|physician|medic, nurse|carer, surgeon|operator, patient|invalid",
        "things": "wound|injury, fever|temperature, pill|tablet, bandage|dressing, bone|limb",
        "places": "hospital|clinic, ward|sickroom, pharmacy|drugstore",
        "verbs": "heal|cure: wound fever bone, examine|inspect: wound bone, prescribe|recommend: pill bandage, "
        "swallow|gulp: pill, wrap/wrapped|bind/bound: bandage bone wound",
    },
    "school": {
        "agents": "teacher|schoolmaster, pupil|schoolboy, librarian|bookkeeper, scholar|academic",
        "things": "lesson|class, book|volume, poem|verse, exam|examination, essay|composition",
        "places": "school|academy, library|bookroom, classroom|schoolroom",
        "verbs": "study|learn: lesson poem book, write/wrote/written|compose: poem essay exam, "
        "grade|mark: exam essay, recite|declaim: poem lesson, borrow|lend/lent: book essay",
    },
    "court": {
        "agents": "judge|magistrate, lawyer|attorney|barrister, witness|onlooker, thief/thieves|robber",
        "things": "verdict|ruling, crime|offence, contract|agreement, appeal|petition, fine|penalty",
        "places": "court|courthouse, prison|jail, office|chamber",
        "verbs": "announce|declare: verdict fine, deny|dispute: crime appeal verdict, sign|endorse: contract appeal, "
        "confess|admit/admitted: crime, reject|dismiss: appeal contract",
    },
    "concert": {
        "agents": "singer|vocalist, drummer|percussionist, conductor|bandmaster, fan|admirer",
        "things": "song|melody, drum|kettledrum, album|record, violin|fiddle, concert|gig",
        "places": "hall|auditorium, studio|workshop, club|nightspot",
        "verbs": "perform|play: song concert violin, beat/beat/beaten|pound: drum, publish|release: album song, "
        "calibrate|adjust: violin drum, applaud|cheer: concert song",
    },
    "harbour": {
        "agents": "sailor|seaman/seamen|mariner, fisherman/fishermen|angler, captain|skipper, diver|frogman/frogmen",
        "things": "boat|vessel|ship, net|trawl, trout|salmon, wreck|hulk, anchor|kedge",
        "places": "harbour|port, beach|shore, lighthouse|beacon",
        "verbs": "steer|navigate: boat, haul|drag/dragged: net anchor boat, catch/caught|hook: trout, "
        "discover|find/found: wreck anchor, lower|drop/dropped: anchor net",
    },
    "bank": {
        "agents": "banker|financier, clerk|cashier, investor|shareholder, trader|dealer",
        "things": "share|stock, loan|credit, account|deposit, coin|penny, tax|levy",
        "places": "bank|moneyhouse, market|exchange, headquarters|mainoffice",
        "verbs": "buy/bought|purchase: share coin, sell/sold|auction: share coin loan, refuse|decline: loan tax, "
        "close|terminate: account loan, raise|increase: tax share",
    },
    "palace": {
        "agents": "minister|secretary, king|sovereign, soldier|trooper, voter|elector",
        "things": "law|statute, treaty|pact, war|conflict, rebel|insurgent, election|poll",
        "places": "palace|castle, parliament|senate, border|frontier",
        "verbs": "pass|adopt: law treaty, fight/fought|battle: war rebel, capture|arrest: rebel, "
        "hold/held|organize: election, violate|break/broke/broken: treaty law",
    },
}

# Done by persons to persons, in every topic: what makes "who does it to whom" matter.
_SOCIAL = "thank, warn|caution, help|assist, visit, blame|accuse, telephone|call, follow|chase, praise|commend, meet/met|encounter"

_QUALITIES = {
    "size": "big|large|huge, small|little|tiny",
    "age": "old|ancient|aged, new|recent|fresh",
    "worth": "good|superb|excellent, bad|poor|awful",
    "colour": "red|crimson, green|emerald, white|pale",
    "price": "expensive|costly, cheap|inexpensive",
}

_TIMES = {
    "day": "in the morning|at dawn, at noon|at midday, at night|after dark",
    "week": "on Monday|on the first weekday, on Friday|on the last weekday, at the weekend|on Saturday or Sunday",
    "season": "in winter|in the cold months, in summer|in the warm months",
}

_TOWNS = "Varnholm Eskby Tollmere Quenby Ardwick Lissa Morvane Pellgate Ostrel Zandia Kirrun Belmore".split()
_GIVEN = "Orla Bram Tessa Ivo Maren Jonas Petra Silas Nadia Hugo Greta Emil Wanda Otis Selma Boris".split()
_FAMILY = (
    "Tenn Brandt Okafor Lindqvist Marsh Vale Duarte Kovac Reyes Holm Abara Stone Fenwick Ilves Moreau Quist".split()
)


@dataclass(frozen=True)
class Topic:
    """What happens together: concepts of each slot, and which things each verb is done to."""

    name: str
    agents: tuple[Concept, ...]
    things: tuple[Concept, ...]
    places: tuple[Concept, ...]
    verbs: tuple[Concept, ...]
    objects: dict[Concept, tuple[Concept, ...]]


PLURALS: dict[str, str] = {}
VERB_FORMS: dict[str, tuple[str, str, str, str]] = {}  # base -> third person, past, participle, -ing


def _s(word: str) -> str:
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def _ed(word: str) -> str:
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ied"
    return word + "ed"


def _ing(word: str, past: str) -> str:
    if past.startswith(word + word[-1]):  # scrub, scrubbed
        return word + word[-1] + "ing"
    if word == "win":
        return word + word[-1] + "ing"
    if word.endswith("e") and not word.endswith(("ee", "oe")):
        return word[:-1] + "ing"
    return word + "ing"


def _nouns(text: str, kind: str, family: str) -> tuple[Concept, ...]:
    concepts = []
    for entry in text.split(","):
        words = []
        for word in entry.strip().split("|"):
            singular, _, plural = word.partition("/")
            PLURALS[singular] = plural or _s(singular)
            words.append(singular)
        concepts.append(Concept(words[0], kind, family, tuple(words)))
    return tuple(concepts)


def _verb(entry: str, family: str) -> Concept:
    words = []
    for word in entry.strip().split("|"):
        base, *forms = word.split("/")
        past = forms[0] if forms else _ed(base)
        participle = forms[1] if len(forms) > 1 else past
        VERB_FORMS[base] = (_s(base), past, participle, _ing(base, past))
        words.append(base)
    return Concept(words[0], "verb", family, tuple(words))


def _topic(name: str, text: dict[str, str]) -> Topic:
    things = _nouns(text["things"], "thing", name)
    by_name = {thing.name: thing for thing in things}
    objects = {}
    for entry in text["verbs"].split(","):
        verb, _, names = entry.partition(":")
        objects[_verb(verb, name)] = tuple(by_name[thing] for thing in names.split())
    return Topic(
        name,
        _nouns(text["agents"], "agent", name),
        things,
        _nouns(text["places"], "place", name),
        tuple(objects),
        objects,
    )


def _grouped(groups: dict[str, str], kind: str) -> tuple[Concept, ...]:
    return tuple(
        Concept(words[0], kind, family, tuple(words))
        for family, text in groups.items()
        for words in ([word.strip() for word in entry.split("|")] for entry in text.split(","))
    )


TOPICS: tuple[Topic, ...] = tuple(_topic(name, text) for name, text in _TOPICS.items())
SOCIAL: tuple[Concept, ...] = tuple(_verb(entry, "social") for entry in _SOCIAL.split(","))
QUALITIES = _grouped(_QUALITIES, "quality")
TIMES = _grouped(_TIMES, "time")
TOWNS = tuple(Concept(name, "town", name, (name,)) for name in _TOWNS)
PERSONS = tuple(
    Concept(f"{given} {family}", "person", f"{given} {family}", (f"{given} {family}",))
    for i, given in enumerate(_GIVEN)
    for family in (_FAMILY[i], _FAMILY[(i + 5) % len(_FAMILY)])
)
