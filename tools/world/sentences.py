"""Reviews, facts, guesses, questions, and the documents of the corpus."""

import random

from tools.world.language import (
    REGISTERS,
    TOPICS,
    Speaker,
    Topic,
    Tree,
    draw_speaker,
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


def draw_word(rng: random.Random, opposites: str, good: bool) -> str:
    return rng.choice(opposites.split()).split("|")[not good]


def quality(speaker: Speaker, good: bool) -> str:
    """An adverb and an adjective, two adjectives, or a negated opposite."""
    rng = speaker.rng
    kind = rng.random()
    if kind < NEGATED:
        return f"{speaker.register.never} {draw_word(rng, QUALITIES, not good)}"
    if kind < 0.3:
        return f"{rng.choice(DEGREES)} {draw_word(rng, QUALITIES, good)}"
    return f"{draw_word(rng, QUALITIES, good)} and {draw_word(rng, QUALITIES, good)}"


def feeling(speaker: Speaker, good: bool) -> str:
    """A verb of feeling in present or past, or a negated opposite."""
    rng = speaker.rng
    never = rng.random() < NEGATED
    verb = draw_word(rng, FEELINGS, good != never)
    if rng.random() < 0.5:
        verb = with_ed(verb)
    return f"{speaker.register.never} {verb}" if never else verb


def _target(speaker: Speaker, topic: Topic, before: str = "") -> Tree:
    return speaker.noun(speaker.rng.choice(topic.agents + topic.things), before=before)


def judgement(speaker: Speaker, good: bool, topic: Topic) -> Tree:
    """A clause: a predicate adjective, a feeling of "i", or an event with adjectives."""
    rng = speaker.rng
    kind = rng.randrange(3)
    if kind == 0:
        predicate = f"{BE[rng.random() < 0.5]} {quality(speaker, good)}"
        return Tree("S", _target(speaker, topic), predicate)
    if kind == 1:
        verb = feeling(speaker, good)
        before = draw_word(rng, QUALITIES, good) if rng.random() < 0.7 else ""
        return Tree("S", "i", verb, _target(speaker, topic, before))
    words = (draw_word(rng, QUALITIES, good), draw_word(rng, QUALITIES, good))
    return speaker.sentence(sample_clause(rng, 0.2, topic), qualities=words)


def review(speaker: Speaker, good: bool, topic: Topic, padding: float = 0.4) -> Tree:
    """A review of one or two judgements, or of one with a conceded opposite."""
    rng = speaker.rng
    inside: list[Tree | str] = [judgement(speaker, good, topic)]
    kind = rng.random()
    if kind < CONCEDED:
        inside.append(Tree("SBAR", "though", judgement(speaker, not good, topic)))
        if rng.random() < 0.5:
            inside.reverse()
        inside.insert(1, ",")
    elif kind < CONCEDED + 0.5:
        inside += ["and", judgement(speaker, good, topic)]
    return speaker.root(*inside, padding=padding)


def phrase(rng: random.Random, good: bool) -> Tree:
    """A noun phrase, a feeling, or an adjective phrase, without stop mark."""
    topic, speaker = rng.choice(TOPICS), draw_speaker(rng)
    kind = rng.randrange(3)
    if kind == 0:
        return _target(speaker, topic, quality(speaker, good))
    if kind == 1:
        return Tree("VP", feeling(speaker, good), _target(speaker, topic))
    place = speaker.noun(rng.choice(topic.places))
    return Tree("AP", quality(speaker, good), speaker.register.at, place)


def fact(speaker: Speaker, topic: Topic) -> Tree:
    """An objective sentence: an event, or what a third person feels."""
    rng = speaker.rng
    clause = sample_clause(rng, 0.5, topic)
    if rng.random() < 0.7:
        qualities = (rng.choice(NEUTRAL), rng.choice(NEUTRAL))
        return speaker.root(speaker.sentence(clause, qualities=qualities))
    verb = draw_word(rng, FEELINGS, rng.random() < 0.5)
    others = speaker.noun(rng.choice(topic.agents))
    agent = speaker.noun(clause.meaning.agent, clause.plural_agent)
    return speaker.root(agent, inflect(verb, clause.past, clause.plural_agent), others)


def view(speaker: Speaker) -> Tree:
    """A subjective sentence: a review or a hedged event."""
    rng = speaker.rng
    if rng.random() < 0.7:
        return review(speaker, rng.random() < 0.5, rng.choice(TOPICS))
    return guess(speaker, rng.choice(TOPICS))


def guess(speaker: Speaker, topic: Topic) -> Tree:
    """A hedged event."""
    rng = speaker.rng
    tree = speaker.narrate(sample_clause(rng, 0.5, topic), padding=0.3)
    return Tree("ROOT", rng.choice(HEDGES), tree)


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


def ask(
    rng: random.Random, coarse: str, topic: Topic | None = None, scene: int | None = None
) -> tuple[str, str]:
    """A question of a class about an event: the fine class of its answer, and the text."""
    meaning = sample_meaning(rng, 1.0, topic or rng.choice(TOPICS), scene)
    fine, frame = rng.choice(_FRAMES[coarse].strip().splitlines()).split(maxsplit=1)
    # With detail 1, all roles are set.
    roles = ("agent", "verb", "thing", "place")
    words = {role: rng.choice(getattr(meaning, role).words) for role in roles}
    agents, things = with_s(words["agent"]), with_s(words["thing"])
    text = frame.format(title=rng.choice(TITLES), agents=agents, things=things, **words)
    if rng.random() < ASIDES:
        other = sample_meaning(rng, 1.0, topic)
        asked, agent = rng.choice(_ASIDE.split("|")), rng.choice(other.agent.words)
        text = f"{asked} the {agent} does {rng.choice(other.verb.words)} , {text}"
    return fine, f"{text[0].upper()}{text[1:]} ?"


# Kinds of sentences, those of the STS sets ("event") and of transfer and probing sets: weights.
_KINDS = {
    "event": 56, "narration": 8, "coordination": 4, "fact": 2, "guess": 2, "review": 18,
    "phrase": 4, "question": 6,
}  # fmt: skip


def sample_document(rng: random.Random) -> list[str]:
    """A title and 4 to 12 sentences of one topic, mostly in one register."""
    topic = rng.choice(TOPICS)
    hero = rng.randrange(len(topic.agents))
    register = rng.choice(REGISTERS)
    liked = rng.random() < 0.5  # opinions of one valence, so that co-occurrence reveals it
    title = sample_meaning(rng, 0.0, topic, hero)
    sentences = [Speaker(rng, register).say(title, ("plain",), 0.0)]
    for _ in range(rng.randrange(4, 13)):
        scene = hero if rng.random() < 0.3 else None
        spoken = register if rng.random() < 0.7 else rng.choice(REGISTERS)
        sentences.append(_sentence(Speaker(rng, spoken), topic, scene, liked))
    return sentences


def _sentence(speaker: Speaker, topic: Topic, scene: int | None, liked: bool) -> str:
    rng = speaker.rng
    kind = rng.choices([*_KINDS], [*_KINDS.values()])[0]
    if kind == "event":
        return speaker.say(sample_meaning(rng, 0.5, topic, scene))
    if kind == "question":
        return ask(rng, rng.choice(CLASSES), topic, scene)[1]
    if kind == "fact":
        return fact(speaker, topic).text()
    if kind == "guess":
        return guess(speaker, topic).text()
    if kind == "phrase":
        return phrase(rng, liked).text()
    if kind == "review":
        return review(speaker, liked, topic).text()
    first = sample_clause(rng, 0.5, topic, scene)
    joined = kind == "coordination"
    second = sample_clause(rng, 0.3, topic, scene, first.past) if joined else None
    return speaker.narrate(first, second).text()
