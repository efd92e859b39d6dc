"""Transfer and probing sets of the embedded world: labels can be recovered from the text."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.datasets import probing, transfer
from bench.world.grammar import LATER, PRONOUNS, WHEN, narrate, sample_clause, with_ed, with_s
from bench.world.lexicon import NAMES, TIMES, TOPICS, Concept
from bench.world.opinion import FEELINGS, HEDGES, QUALITIES
from bench.world.probing import CONTENT, DEPTHS, LENGTHS, PROBING, TOPS, depth, invert
from bench.world.speech import REGISTERS, Register, Tree

KINDS = ("agents", "verbs", "things", "places")
CONCEPT = {
    word: c for topic in TOPICS for kind in KINDS for c in getattr(topic, kind) for word in c.words
}
NOUNS = {word: c for word, c in CONCEPT.items() if c.kind in ("agent", "thing")}
PLURALS = {with_s(word): c for word, c in NOUNS.items()}
VERBS = {
    form: c
    for word, c in CONCEPT.items()
    if c.kind == "verb"
    for form in (word, with_s(word), with_ed(word))
}
PAST = {with_ed(word) for word, c in CONCEPT.items() if c.kind == "verb"}
SMALL = {word for times in TIMES for phrase in times.words for word in phrase.split()} | {
    n.words[0] for n in NAMES
}
NEVER = {register.never for register in REGISTERS}


def probe(world: Path, name: str) -> list[tuple[str, str]]:
    """(label, sentence) of all splits."""
    lines = (world / "probing" / f"{probing.FILES[name]}.txt").read_text("utf-8").split("\n")[:-1]
    return [(label, text) for _, label, text in (line.split("\t") for line in lines)]


def register_of(text: str) -> Register:
    return next(register for register in REGISTERS if text.endswith(f" {register.stop}"))


def core(text: str) -> list[str]:
    """Lower-case tokens without filler phrases and stop mark; proper names keep their capital."""
    register = register_of(text)
    words = text.split()
    words = " ".join([words[0] if words[0] in SMALL else words[0].lower(), *words[1:-1]])
    return words.removeprefix(register.opening).removesuffix(register.closing).split()


@dataclass
class Parsed:
    """Parse of a narration: heads of subject and object, main verb, and depth of the tree."""

    subject: str = ""
    verb: str = ""
    object: str = ""
    depth: int = 4  # ROOT, S, VP and what is in it


def parse(text: str) -> Parsed:
    """Parse one clause, or the first of two, from left to right; the depth is that of the deepest
    clause."""
    register, found = register_of(text), Parsed()
    level, verb_level = (
        3,
        0,
    )  # of the noun phrase that comes; of the verb that a relative clause waits for
    main = False
    for word in core(text):
        if word in ("and", "but", "so"):
            level, main, verb_level = 3, False, 0
        elif word == "of":
            level += 2
        elif word == register.cleft[1]:
            level, verb_level = level + 3, 1
        elif word in VERBS and word not in NOUNS and verb_level:
            verb_level = 0
        elif word in VERBS and not main:
            level, main = 4, True
            found.verb = found.verb or word
        elif word == register.at:
            level = 5 if main else 3
        elif word in NOUNS or word in PLURALS:
            if not main:
                found.subject = found.subject or word
            else:
                found.object = found.object or word
        found.depth = max(found.depth, level)
    return found


def test_no_form_belongs_to_two_words() -> None:
    """Otherwise tense, number and parses would be ambiguous."""
    forms = Counter([*CONCEPT, *PLURALS, *{form for form in VERBS if form not in CONCEPT}])
    assert [form for form, count in forms.items() if count > 1] == []
    judging = [word for words in (*QUALITIES.values(), *FEELINGS.values()) for word in words]
    assert len({*judging} - {*forms}) == len(judging) == 36


@pytest.mark.parametrize("name", [*transfer.TASKS, *PROBING])
def test_all_sets_read_with_the_readers_of_the_real_ones(world: Path, name: str) -> None:
    sizes = json.loads((world / "manifest.json").read_text())
    reader, group = (transfer, "transfer") if name in transfer.TASKS else (probing, "probing")
    read = reader.read(name, world)
    assert sum(len(samples.labels) for samples in read.splits.values()) == sum(
        sizes[group][name].values()
    )
    if group == "probing":
        for samples in read.splits.values():
            counts = Counter(samples.labels.tolist())
            assert max(counts.values()) - min(counts.values()) <= 1
            assert len(counts) == read.classes


def test_no_sentence_is_in_two_splits(world: Path) -> None:
    for name in PROBING:
        texts = [text for _, text in probe(world, name)]
        assert len(set(texts)) == len(texts) == 1200


def test_the_quirks_of_the_real_transfer_files_are_there(world: Path) -> None:
    folder = world / "downstream"
    blank = {
        file: sum(not line.strip() for line in (folder / file).read_bytes().split(b"\n")[:-1])
        for file in (
            "CR/custrev.pos",
            "CR/custrev.neg",
            "MPQA/mpqa.pos",
            "MPQA/mpqa.neg",
            "MR/rt-polarity.pos",
        )
    }
    assert list(blank.values()) == [1, 1, 1, 0, 0]
    movie = (folder / "MR" / "rt-polarity.pos").read_bytes()
    assert "ï".encode("latin-1") in movie
    with pytest.raises(UnicodeDecodeError):
        movie.decode("utf-8")
    assert movie.decode("latin-1") == movie.decode("latin-1").lower()
    for split, rows in (("train", 300), ("test", 150)):
        data = (folder / "MRPC" / f"msr_paraphrase_{split}.txt").read_bytes()
        assert data.startswith(b"\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n")
        labels = [line.split("\t")[0] for line in data.decode("utf-8-sig").split("\n")[1:-1]]
        assert Counter(labels) == {"1": rows * 2 // 3, "0": rows // 3}
    stops = tuple(f" {register.stop} " for register in REGISTERS)
    for split, phrases in (("train", 200), ("dev", 0), ("test", 0)):
        texts = (
            (folder / "SST" / "binary" / f"sentiment-{split}").read_text("utf-8").split("\n")[:-1]
        )
        assert sum(not text.split("\t")[0].endswith(stops) for text in texts) == phrases


def valence(text: str) -> set[bool]:
    """Whether the evaluative words outside a concession are good ones, "not bad" being good."""
    words = text.split()
    judging = {w: good for table in (QUALITIES, FEELINGS) for good in table for w in table[good]}
    judging |= {with_ed(verb): good for good, verbs in FEELINGS.items() for verb in verbs}
    if "though" in words:
        start = words.index("though")
        end = start + words[start:].index(",") if "," in words[start:] else len(words)
        before = words[:start]
        words = before if any(word in judging for word in before) else words[end:]
    return {
        judging[word] != (words[i - 1] in NEVER) for i, word in enumerate(words) if word in judging
    }


@pytest.mark.parametrize("name", ["MR/rt-polarity", "CR/custrev", "MPQA/mpqa"])
@pytest.mark.parametrize("good", [True, False])
def test_opinions_have_the_valence_of_their_file(world: Path, name: str, good: bool) -> None:
    file = f"{name}.{'pos' if good else 'neg'}"
    for line in (world / "downstream" / file).read_text("latin-1").split("\n")[:-1]:
        assert not line.strip() or valence(line) == {good}, line


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_sentiment_has_the_valence_of_its_label(world: Path, split: str) -> None:
    for line in (
        (world / "downstream" / "SST" / "binary" / f"sentiment-{split}")
        .read_text("utf-8")
        .split("\n")[:-1]
    ):
        text, label = line.split("\t")
        assert valence(text) == {label == "1"}, line


def test_only_subjective_statements_judge_or_hedge(world: Path) -> None:
    judging = "|".join(word for words in QUALITIES.values() for word in words)
    feels = rf"\bi ({'|'.join(NEVER)})? ?({'|'.join(verb for verbs in FEELINGS.values() for verb in verbs)})"
    own = re.compile(rf"\b({judging})\b|{feels}|^({'|'.join(HEDGES)})\b")
    for kind in ("objective", "subjective"):
        for line in (
            (world / "downstream" / "SUBJ" / f"subj.{kind}").read_text("latin-1").split("\n")[:-1]
        ):
            assert bool(own.search(line)) == (kind == "subjective"), line


# A clause that asks nothing: its verb does not come before its subject.
ASIDE = r"[A-Z][a-z]+( \w+){0,2} the \w+ does \w+ , "


def test_questions_ask_for_their_class(world: Path) -> None:
    rules = {
        "ABBR": r"What does [A-Z]+ stand for|What is the short form",
        "NUM": r"How many|When|How much|What is the price|What is the number|What year",
        "LOC": r"Where|In which place|What town|What is the spot",
        "HUM": r"Who|Which person|Of the \w+ , who|What is the name",
        "ENTY": r"Which thing|Of the \w+ , what|What does the \w+ \w+ in the|What kind",
        "DESC": r"Why|How does|What is the \w+ to|What does the \w+ of|What is the reason|What is the meaning",
    }
    asides = 0
    for file in ("train_5500.label", "TREC_10.label"):
        lines = (world / "downstream" / "TREC" / file).read_text("latin-1").split("\n")[:-1]
        for line in lines:
            label, text = line.split(" ", 1)
            aside = re.match(ASIDE, text)
            asides += aside is not None
            question = text[aside.end() :] if aside else text
            question = question[0].upper() + question[1:]
            assert [coarse for coarse, rule in rules.items() if re.match(rule, question)] == [
                label.split(":")[0]
            ], line
            assert question.endswith(" ?")
    assert 0.25 < asides / 550 < 0.35


def content_of(text: str) -> tuple[set[Concept], list[Concept], str, bool]:
    """Concepts, order of agent and thing, mood and polarity of a plain or fronted STS sentence."""
    register, words = register_of(text), core(text)
    joined = f" {' '.join(words)} "
    concepts = {CONCEPT[word] for word in words if word in CONCEPT}
    concepts |= {c for c in (*TIMES, *NAMES) if any(f" {word} " in joined for word in c.words)}
    moods = [mood for mood, helper in register.moods.items() if f" {helper} " in joined]
    acting = [CONCEPT[word] for word in words if word in NOUNS]
    return concepts, acting, "".join(moods), register.never in words


def test_paraphrases_tell_the_same(world: Path) -> None:
    for split in ("train", "test"):
        path = world / "downstream" / "MRPC" / f"msr_paraphrase_{split}.txt"
        for line in path.read_text("utf-8-sig").split("\n")[1:-1]:
            label, _, _, first, second = line.split("\t")
            assert (content_of(first) == content_of(second)) == (label == "1"), line


def test_length_and_content_are_those_of_the_tokens(world: Path) -> None:
    for label, text in probe(world, "Length"):
        assert LENGTHS[int(label)] <= len(text.split()) < LENGTHS[int(label) + 1]
    for label, text in probe(world, "WordContent"):
        assert [word for word in text.split() if word in CONTENT] == [label]


def test_depth_and_top_constituents_are_those_of_the_text(world: Path) -> None:
    for label, text in probe(world, "Depth"):
        assert parse(text).depth == int(label), text
    for label, text in probe(world, "TopConstituents"):
        register, words = register_of(text), core(text)
        lowered = text[0].lower() + text[1:]
        front = "PP_" if words[0] == register.at else "" if words[0] == register.the else "TP_"
        found = (
            ("OPEN_" if lowered.startswith(register.opening) else "")
            + front
            + ("S_CC_S_" if {"and", "but", "so"} & {*words} else "S_")
            + ("CLOSE_" if text.endswith(f"{register.closing} {register.stop}") else "")
        )
        assert f"{found}." == label, text
    assert {label for label, _ in probe(world, "Depth")} == {*DEPTHS}
    assert {label for label, _ in probe(world, "TopConstituents")} == {*TOPS}


def test_tense_and_number_are_those_of_the_main_clause(world: Path) -> None:
    for name in ("Tense", "SubjNumber", "ObjNumber"):
        for label, text in probe(world, name):
            found = parse(text)
            plural = found.subject in PLURALS
            if found.verb not in PAST:
                assert (found.verb in CONCEPT) == plural, text  # it agrees with its subject
            value = {
                "Tense": "PAST" if found.verb in PAST else "PRES",
                "SubjNumber": "NNS" if plural else "NN",
                "ObjNumber": "NNS" if found.object in PLURALS else "NN",
            }
            assert value[name] == label, text


def test_shifted_bigrams_are_one_swap_from_the_natural_order(world: Path) -> None:
    def natural(words: list[str]) -> bool:
        kinds = "".join(
            "t" if word in {r.the for r in REGISTERS}
            else "n" if word in NOUNS or word in PLURALS
            else "v" if word in VERBS
            else "-" if word in NEVER
            else "w"
            for word in words
        )  # fmt: skip
        return re.fullmatch("tn-?vtnw?", kinds) is not None

    for label, text in probe(world, "BigramShift"):
        words = core(text)
        swaps = [
            [*words[:i], words[i + 1], words[i], *words[i + 2 :]] for i in range(len(words) - 1)
        ]
        assert natural(words) == (label == "O"), text
        assert label == "O" or any(natural(swapped) for swapped in swaps), text


def test_odd_words_are_of_another_topic(world: Path) -> None:
    for label, text in probe(world, "OddManOut"):
        known = {**CONCEPT, **PLURALS, **VERBS}
        families = Counter(known[word].family for word in core(text) if word in known)
        assert (len(families) == 2) == (label == "C"), text
        assert label == "O" or min(families.values()) == 1


def test_inverted_coordinations_start_with_what_comes_later(world: Path) -> None:
    marks = {*PRONOUNS.values(), *LATER}
    marked = 0
    for label, text in probe(world, "CoordinationInversion"):
        words = core(text)
        middle = next(i for i, word in enumerate(words) if word in ("and", "but", "so"))
        first, second = bool(marks & {*words[:middle]}), bool(marks & {*words[middle:]})
        assert not (first and second)
        if first or second:
            marked += 1
            assert first == (label == "I"), text
    assert 0.75 < marked / 1200 < 0.85  # the others nobody can tell


def test_every_token_occurs_in_the_corpus(world: Path) -> None:
    known = {word.lower() for word in (world / "world.txt").read_text("utf-8").split()}
    texts = [text for name in PROBING for _, text in probe(world, name)]
    for folder in ("MR", "CR", "MPQA", "SUBJ"):
        texts += [path.read_text("latin-1") for path in (world / "downstream" / folder).iterdir()]
    texts += [
        path.read_text("utf-8") for path in (world / "downstream" / "SST" / "binary").iterdir()
    ]
    unknown = {word for text in texts for word in text.lower().split()} - known - {"0", "1"}
    assert unknown == set()


@given(st.integers(0, 2**32), st.sampled_from(REGISTERS))
def test_depth_is_the_deepest_bracket(seed: int, register: Register) -> None:
    def brackets(node: Tree | str) -> str:
        return f"({''.join(map(brackets, node.children))})" if isinstance(node, Tree) else "."

    rng = random.Random(seed)
    tree = narrate(sample_clause(rng, 0.5), rng, register, nest=0.4)
    open_, deepest = 0, 0
    for mark in brackets(tree):
        open_ += {"(": 1, ")": -1, ".": 0}[mark]
        deepest = max(deepest, open_)
    assert depth(tree) == deepest


def test_inversion_moves_clauses_only() -> None:
    def clause(word: str) -> Tree:
        return Tree("S", (word,))

    joined = Tree(
        "ROOT", (Tree("OPEN", ("well",)), clause("a"), Tree("CC", ("and",)), clause("b"), ".")
    )
    assert invert(joined).words() == ["well", "b", "and", "a", "."]


def test_dated_clauses_agree_with_their_tense(world: Path) -> None:
    for label, text in probe(world, "Tense"):
        other = WHEN[label == "PRES"]
        assert not {*other} & {*text.split()}, text
