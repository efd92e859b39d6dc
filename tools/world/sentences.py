"""Reviews, facts, guesses, questions, and the documents of the corpus."""

from random import choice, choices, random, randrange

from tools.world.language import (
    REGISTERS,
    TOPICS,
    Register,
    Topic,
    Tree,
    inflect,
    sample_clause,
    sample_meaning,
    with_ed,
    with_s,
)

# Positive and negative adjectives; some are not ASCII, as in real reviews.
QUALITIES = (
    "fine|vile kind|cruel bright|dull neat|ugly superb|awful clever|stupid lively|bleak naïve|blasé"
    " gentle|harsh noble|base witty|trite graceful|clumsy honest|crooked brisk|sluggish"
)
FEELINGS = "adore|loathe admire|despise praise|scorn enjoy|resent"
NEUTRAL = ("", "red", "wooden", "large", "small")  # adjectives without valence, or none
DEGREES = ("very", "truly", "quite")
HEDGES = ("i suppose", "it seems", "surely", "perhaps")
NEGATED = 0.15  # chance of a negated opposite
CONCEDED = 0.1  # chance of a conceded opposite
BE = ("is", "was")  # by tense: whether past


def draw_word(opposites: str, good: bool) -> str:
    return choice(opposites.split()).split("|")[not good]


def quality(register: Register, good: bool) -> str:
    """An adverb and an adjective, two adjectives, or a negated opposite."""
    kind = random()
    if kind < NEGATED:
        return f"{register.never} {draw_word(QUALITIES, not good)}"
    if kind < 0.3:
        return f"{choice(DEGREES)} {draw_word(QUALITIES, good)}"
    return f"{draw_word(QUALITIES, good)} and {draw_word(QUALITIES, good)}"


def feeling(register: Register, good: bool) -> str:
    """A verb of feeling in present or past, or a negated opposite."""
    never = random() < NEGATED
    verb = draw_word(FEELINGS, good != never)
    if random() < 0.5:
        verb = with_ed(verb)
    if never:
        return f"{register.never} {verb}"
    return verb


def _target(register: Register, topic: Topic, before: str = "") -> Tree:
    return register.noun(choice(topic.agents + topic.things), before=before)


def judgement(register: Register, good: bool, topic: Topic) -> Tree:
    """A clause: a predicate adjective, a feeling of "i", or an event with adjectives."""
    kind = randrange(3)
    if kind == 0:
        predicate = f"{BE[random() < 0.5]} {quality(register, good)}"
        return Tree("S", _target(register, topic), predicate)
    if kind == 1:
        verb = feeling(register, good)
        before = draw_word(QUALITIES, good) if random() < 0.7 else ""
        return Tree("S", "i", verb, _target(register, topic, before))
    words = (draw_word(QUALITIES, good), draw_word(QUALITIES, good))
    return register.sentence(sample_clause(0.2, topic), qualities=words)


def review(register: Register, good: bool, topic: Topic, padding: float = 0.4) -> Tree:
    """A review of one or two judgements, or of one with a conceded opposite."""
    inside: list[Tree | str] = [judgement(register, good, topic)]
    kind = random()
    if kind < CONCEDED:
        inside.append(Tree("SBAR", "though", judgement(register, not good, topic)))
        if random() < 0.5:
            inside.reverse()
        inside.insert(1, ",")
    elif kind < CONCEDED + 0.5:
        inside += ["and", judgement(register, good, topic)]
    return register.root(*inside, padding=padding)


def phrase(good: bool) -> Tree:
    """A noun phrase, a feeling, or an adjective phrase, without stop mark."""
    topic, register = choice(TOPICS), choice(REGISTERS)
    kind = randrange(3)
    if kind == 0:
        return _target(register, topic, quality(register, good))
    if kind == 1:
        return Tree("VP", feeling(register, good), _target(register, topic))
    place = register.noun(choice(topic.places))
    return Tree("AP", quality(register, good), register.at, place)


def fact(register: Register, topic: Topic) -> Tree:
    """An objective sentence: an event, or what a third person feels."""
    clause = sample_clause(0.5, topic)
    if random() < 0.7:
        qualities = (choice(NEUTRAL), choice(NEUTRAL))
        return register.root(register.sentence(clause, qualities=qualities))
    verb = draw_word(FEELINGS, random() < 0.5)
    liked = register.noun(choice(topic.agents))
    agent = register.noun(clause.meaning.agent, clause.plural_agent)
    return register.root(agent, inflect(verb, clause.past, clause.plural_agent), liked)


def guess(register: Register, topic: Topic) -> Tree:
    """A hedged event."""
    tree = register.narrate(sample_clause(0.5, topic), padding=0.3)
    return Tree("ROOT", choice(HEDGES), tree)


TITLES = ("RCA", "UFO", "NATO", "BBC", "IBM", "GDP", "VAT", "CEO")  # abbreviations

# Fine class and template by coarse class. Templates of different classes share their first words.
_FRAMES = {
    "ABBR": """
        exp what does {title} stand for in the {place}
        abb what is the short form for the {agent} in the {place}""",
    "DESC": """
        reason why does the {agent} {verb} the {thing} in the {place}
        manner how does the {agent} {verb} the {thing}
        def what is the {thing} to the {agent}
        desc what does the {verb} of the {thing} mean to the {agent}
        reason what is the reason that the {agent} does {verb} the {thing}
        def what is the meaning of the {thing}""",
    "ENTY": """
        other what does the {agent} {verb} in the {place}
        other which thing does the {agent} {verb}
        product of the {things} , what does the {agent} {verb}
        techmeth what kind of tool does the {agent} {verb} in the {place}""",
    "HUM": """
        ind who does {verb} the {thing} in the {place}
        ind which person does {verb} the {thing}
        gr of the {agents} , who does {verb} the {thing}
        ind what is the name of the person that does {verb} the {thing}""",
    "LOC": """
        other where does the {agent} {verb} the {thing}
        other in which place does the {agent} {verb} the {thing}
        other where is the {thing}
        city what town has the {thing}
        other what is the spot that the {agent} does {verb} the {thing} in""",
    "NUM": """
        count how many {things} does the {agent} {verb}
        date when does the {agent} {verb} the {thing}
        money how much is the {thing} in the {place}
        money what is the price of the {thing}
        count what is the number of {things} in the {place}
        date what year does the {agent} {verb} the {thing}""",
}
CLASSES = [*_FRAMES]

# A clause with another question word may precede the question, so that the class depends on word
# order.
ASIDES = 0.3
_ASIDE = "where|when|how|why|who|what|which thing|in which place|how many|which person"


def ask(coarse: str, topic: Topic | None = None, scene: int | None = None) -> tuple[str, str]:
    """A question of a class about an event: the fine class of its answer, and the text."""
    meaning = sample_meaning(1.0, topic or choice(TOPICS), scene)
    fine, frame = choice(_FRAMES[coarse].strip().splitlines()).split(maxsplit=1)
    # With detail 1, all roles are set.
    roles = ("agent", "verb", "thing", "place")
    words = {role: choice(getattr(meaning, role).words) for role in roles}
    agents, things = with_s(words["agent"]), with_s(words["thing"])
    text = frame.format(title=choice(TITLES), agents=agents, things=things, **words)
    if random() < ASIDES:
        aside = sample_meaning(1.0, topic)
        asked, agent = choice(_ASIDE.split("|")), choice(aside.agent.words)
        text = f"{asked} the {agent} does {choice(aside.verb.words)} , {text}"
    return fine, f"{text[0].upper()}{text[1:]} ?"


# Kinds of sentences, those of the STS sets ("event") and of transfer and probing sets: weights.
_KINDS = {
    "event": 56, "narration": 8, "coordination": 4, "fact": 2, "guess": 2, "review": 18,
    "phrase": 4, "question": 6,
}  # fmt: skip


def sample_document() -> list[str]:
    """A title and 4 to 12 sentences of one topic, mostly in one register."""
    topic = choice(TOPICS)
    hero = randrange(len(topic.agents))
    register = choice(REGISTERS)
    liked = random() < 0.5  # opinions of one valence, so that co-occurrence reveals it
    title = sample_meaning(0.0, topic, hero)
    sentences = [register.say(title, ("plain",), 0.0)]
    for _ in range(randrange(4, 13)):
        scene = hero if random() < 0.3 else None
        spoken = register if random() < 0.7 else choice(REGISTERS)
        sentences.append(_sentence(spoken, topic, scene, liked))
    return sentences


def _sentence(register: Register, topic: Topic, scene: int | None, liked: bool) -> str:
    kind = choices([*_KINDS], [*_KINDS.values()])[0]
    if kind == "event":
        return register.say(sample_meaning(0.5, topic, scene))
    if kind == "question":
        return ask(choice(CLASSES), topic, scene)[1]
    if kind == "fact":
        return fact(register, topic).text()
    if kind == "guess":
        return guess(register, topic).text()
    if kind == "phrase":
        return phrase(liked).text()
    if kind == "review":
        return review(register, liked, topic).text()
    first = sample_clause(0.5, topic, scene)
    second = None
    if kind == "coordination":
        second = sample_clause(0.3, topic, scene, first.past)
    return register.narrate(first, second).text()
