"""Transfer and probing sets of the embedded world: labels can be recovered from the text."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.datasets import probing, transfer
from bench.datasets.tasks import PROBING_FILES, TRANSFER_TASKS
from bench.utils.files import read_json
from bench.world import grammar
from bench.world.grammar import CONJUNCTIONS, Speaker, sample_clause, with_ed, with_s
from bench.world.lexicon import NAMES, TIMES, TOPICS, Concept
from bench.world.meaning import MOODS
from bench.world.opinion import FEELINGS, HEDGES, QUALITIES
from bench.world.probing import CONTENT, DEPTHS, LENGTHS, PROBING, TOPS, depth, invert
from bench.world.speech import REGISTERS, Register, Tree

CONCEPT = {word: c for _, *kinds in TOPICS for c in chain(*kinds) for word in c.words}
NOUNS = {word: c for word, c in CONCEPT.items() if c.kind in ("agent", "thing")}
PLURALS = {with_s(word): c for word, c in NOUNS.items()}
ACTS = {word: c for word, c in CONCEPT.items() if c.kind == "verb"}
PAST = {with_ed(word): c for word, c in ACTS.items()}
VERBS = {**ACTS, **{with_s(word): c for word, c in ACTS.items()}, **PAST}
SMALL = {word for c in (*TIMES, *NAMES) for phrase in c.words for word in phrase.split()}
NEVER = {register.never for register in REGISTERS}


def lines_of(world: Path, file: str, encoding: str = "utf-8") -> list[str]:
    """Lines of a file below downstream/, which may be blank."""
    return (world / "downstream" / file).read_text(encoding).split("\n")[:-1]


def probe(world: Path, name: str) -> list[tuple[str, str]]:
    """(label, sentence) of all splits."""
    lines = lines_of(world, f"../probing/{PROBING_FILES[name]}.txt")
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
    """Parse one clause, or the first of two; the depth is that of the deepest clause."""
    register, found = register_of(text), Parsed()
    level, waits, main = 3, False, False  # of the next noun phrase; a relative clause for its verb
    for word in core(text):
        if word in CONJUNCTIONS:
            level, waits, main = 3, False, False
        elif word == "of":
            level += 2
        elif word == register.that:
            level, waits = level + 3, True
        elif word in VERBS and word not in NOUNS and waits:
            waits = False
        elif word in VERBS and not main:
            level, main = 4, True
            found.verb = found.verb or word
        elif word == register.at:
            level = 5 if main else 3
        elif word in NOUNS or word in PLURALS:
            role = "object" if main else "subject"
            setattr(found, role, getattr(found, role) or word)
        found.depth = max(found.depth, level)
    return found


def test_no_form_belongs_to_two_words() -> None:
    """Otherwise tense, number and parses would be ambiguous."""
    forms = Counter([*CONCEPT, *PLURALS, *{form for form in VERBS if form not in CONCEPT}])
    assert [form for form, count in forms.items() if count > 1] == []
    judging = [word for words in (*QUALITIES.values(), *FEELINGS.values()) for word in words]
    assert len({*judging} - {*forms}) == len(judging) == 36


@pytest.mark.parametrize("name", [*TRANSFER_TASKS, *PROBING])
def test_all_sets_read_with_the_readers_of_the_real_ones(world: Path, name: str) -> None:
    reader, group = (transfer, "transfer") if name in TRANSFER_TASKS else (probing, "probing")
    read = reader.read(name, world)
    sizes = read_json(world / "manifest.json")[group][name]
    assert sum(len(samples.labels) for samples in read.splits.values()) == sum(sizes.values())
    for samples in read.splits.values() if group == "probing" else ():
        counts = Counter(samples.labels.tolist())
        assert max(counts.values()) - min(counts.values()) <= 1
        assert len(counts) == read.classes


def test_no_sentence_is_in_two_splits(world: Path) -> None:
    for name in PROBING:
        texts = [text for _, text in probe(world, name)]
        assert len(set(texts)) == len(texts) == 1200


def test_the_quirks_of_the_real_transfer_files_are_there(world: Path) -> None:
    folder = world / "downstream"
    files = [f"{name}.{end}" for name in ("CR/custrev", "MPQA/mpqa") for end in ("pos", "neg")]
    files.append("MR/rt-polarity.pos")
    blank = [sum(not line.strip() for line in lines_of(world, file, "latin-1")) for file in files]
    assert blank == [1, 1, 1, 0, 0]
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
        texts = lines_of(world, f"SST/binary/sentiment-{split}")
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
    for line in lines_of(world, file, "latin-1"):
        assert not line.strip() or valence(line) == {good}, line


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_sentiment_has_the_valence_of_its_label(world: Path, split: str) -> None:
    for line in lines_of(world, f"SST/binary/sentiment-{split}"):
        text, label = line.split("\t")
        assert valence(text) == {label == "1"}, line


def test_only_subjective_statements_judge_or_hedge(world: Path) -> None:
    judging, verbs = ("|".join(chain(*table.values())) for table in (QUALITIES, FEELINGS))
    feels = rf"\bi ({'|'.join(NEVER)})? ?({verbs})"
    own = re.compile(rf"\b({judging})\b|{feels}|^({'|'.join(HEDGES)})\b")
    for kind in ("objective", "subjective"):
        for line in lines_of(world, f"SUBJ/subj.{kind}", "latin-1"):
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
        "DESC": r"Why|How does|What is the (\w+ to|reason|meaning)|What does the \w+ of",
    }
    asides = 0
    for file in ("train_5500.label", "TREC_10.label"):
        for line in lines_of(world, f"TREC/{file}", "latin-1"):
            label, text = line.split(" ", 1)
            aside = re.match(ASIDE, text)
            asides += aside is not None
            question = text[aside.end() :] if aside else text
            question = question[0].upper() + question[1:]
            found = [coarse for coarse, rule in rules.items() if re.match(rule, question)]
            assert found == [label.split(":")[0]], line
            assert question.endswith(" ?")
    assert 0.25 < asides / 550 < 0.35


def content_of(text: str) -> tuple[set[Concept], list[Concept], str, bool]:
    """Concepts, order of agent and thing, mood and polarity of a plain or fronted STS sentence."""
    register, words = register_of(text), core(text)
    joined = f" {' '.join(words)} "
    concepts = {CONCEPT[word] for word in words if word in CONCEPT}
    concepts |= {c for c in (*TIMES, *NAMES) if any(f" {word} " in joined for word in c.words)}
    moods = [mood for mood in MOODS[1:] if f" {getattr(register, mood)} " in joined]
    acting = [CONCEPT[word] for word in words if word in NOUNS]
    return concepts, acting, "".join(moods), register.never in words


def test_paraphrases_tell_the_same(world: Path) -> None:
    for split in ("train", "test"):
        for line in lines_of(world, f"MRPC/msr_paraphrase_{split}.txt")[1:]:
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
        opening = "OPEN_" if lowered.startswith(register.opening) else ""
        clauses = "S_CC_S_" if {*CONJUNCTIONS} & {*words} else "S_"
        closing = "CLOSE_" if text.endswith(f"{register.closing} {register.stop}") else ""
        assert f"{opening}{front}{clauses}{closing}." == label, text
    assert {label for label, _ in probe(world, "Depth")} == {*DEPTHS}
    assert {label for label, _ in probe(world, "TopConstituents")} == {*TOPS}


def test_tense_and_number_are_those_of_the_main_clause(world: Path) -> None:
    for name in ("Tense", "SubjNumber", "ObjNumber"):
        for label, text in probe(world, name):
            found = parse(text)
            past, plural = found.verb in PAST, found.subject in PLURALS
            assert past or (found.verb in CONCEPT) == plural, text  # it agrees with its subject
            value = {"Tense": past, "SubjNumber": plural, "ObjNumber": found.object in PLURALS}
            assert value[name] == (label in ("PAST", "NNS")), text
            assert name != "Tense" or not {*grammar.WHEN[not past]} & {*text.split()}, text


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
    marks = {*grammar.PRONOUNS.values(), *grammar.LATER}
    marked = 0
    for label, text in probe(world, "CoordinationInversion"):
        words = core(text)
        middle = next(i for i, word in enumerate(words) if word in CONJUNCTIONS)
        first, second = marks & {*words[:middle]}, marks & {*words[middle:]}
        marked += bool(first or second)
        assert not (second if label == "I" else first), text
    assert 0.75 < marked / 1200 < 0.85  # the others nobody can tell


def test_every_token_occurs_in_the_corpus(world: Path) -> None:
    known = {word.lower() for word in (world / "world.txt").read_text("utf-8").split()}
    texts = [text for name in PROBING for _, text in probe(world, name)]
    for folder in ("MR", "CR", "MPQA", "SUBJ"):
        texts += [path.read_text("latin-1") for path in (world / "downstream" / folder).iterdir()]
    for path in (world / "downstream" / "SST" / "binary").iterdir():
        texts.append(path.read_text("utf-8"))
    unknown = {word for text in texts for word in text.lower().split()} - known - {"0", "1"}
    assert unknown == set()


@given(st.integers(0, 2**32), st.sampled_from(REGISTERS))
def test_depth_is_the_deepest_bracket(seed: int, register: Register) -> None:
    def brackets(node: Tree | str) -> str:
        return f"({''.join(map(brackets, node.children))})" if isinstance(node, Tree) else "."

    rng = random.Random(seed)
    tree = Speaker(rng, register).narrate(sample_clause(rng, 0.5), nest=0.4)
    steps = [{"(": 1, ")": -1, ".": 0}[mark] for mark in brackets(tree)]
    assert depth(tree) == max(accumulate(steps))


def test_inversion_moves_clauses_only() -> None:
    def clause(word: str) -> Tree:
        return Tree("S", (word,))

    opening, conjunction = Tree("OPEN", ("well",)), Tree("CC", ("and",))
    joined = Tree("ROOT", (opening, clause("a"), conjunction, clause("b"), "."))
    assert invert(joined).words() == ["well", "b", "and", "a", "."]
