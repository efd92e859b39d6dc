"""The vocabulary of the embedded world: concepts with synonyms.

A topic is a list of scenes: a typical agent, verb, thing and place. Synonyms of a concept share the
scene, so a model can learn them from co-occurrence.
"""

from __future__ import annotations

from typing import NamedTuple


class Concept(NamedTuple):
    """A unit of meaning with synonyms. `family` is the topic of a role or the kind of a time."""

    kind: str  # agent, verb, thing, place, time, name
    family: str
    words: tuple[str, ...]


class Topic(NamedTuple):
    """Scenes that co-occur: agent i does verb i to thing i at place i."""

    name: str
    agents: tuple[Concept, ...]
    verbs: tuple[Concept, ...]
    things: tuple[Concept, ...]
    places: tuple[Concept, ...]


# One scene per line: agent, verb, thing, place; synonyms separated by bars.
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

_TIMES = {
    "day": "at_dawn|at_sunrise at_noon|at_midday at_night|after_dark",
    "week": "on_Monday|on_firstday on_Friday|on_fifthday on_Sunday|on_restday",
}

_NAMES = "Orla Bram Tessa Ivo Maren Jonas Petra Silas Nadia Hugo Greta Emil"


def _topic(name: str, text: str) -> Topic:
    scenes = [line.split() for line in text.strip().splitlines()]
    columns = zip(("agent", "verb", "thing", "place"), zip(*scenes, strict=True), strict=True)
    concepts = [
        tuple(Concept(kind, name, tuple(words.split("|"))) for words in column)
        for kind, column in columns
    ]
    return Topic(name, *concepts)


TOPICS = tuple(_topic(name, text) for name, text in _SCENES.items())
TOPIC = {topic.name: topic for topic in TOPICS}
TIMES = tuple(
    Concept("time", family, tuple(words.replace("_", " ").split("|")))
    for family, text in _TIMES.items()
    for words in text.split()
)
NAMES = tuple(Concept("name", name, (name,)) for name in _NAMES.split())
