"""The data folder: corpora, and evaluation sets in SentEval's formats with their irregularities."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import choice, random, randrange, shuffle
from typing import NamedTuple

from bench.datasets.manifest import manifest
from bench.datasets.tasks import STS_TASKS, TASKS
from bench.utils.files import sha256_file
from tools.world.language import (
    FACTORS,
    REGISTERS,
    ROLES,
    STRUCTURES,
    TOPIC,
    TOPICS,
    Meaning,
    Register,
    Tree,
    change,
    sample_meaning,
    similarity,
)
from tools.world.probing import write_probing
from tools.world.samples import Draw, Sample, Sizes, collect, evenly, start, write_lines, write_part
from tools.world.sentences import CLASSES, ask, fact, guess, phrase, review, sample_document

FIRST = 0x4E00  # first of 20,992 CJK ideographs; there are 27^3 = 19,683 codes
STOPS = str.maketrans(".,?!:;", "\u3002\uff0c\uff1f\uff01\uff1a\uff1b")


def in_chinese(sentence: str) -> str:
    """Transliterate a sentence, three letters a character. The mapping of words is one-to-one."""
    text = re.sub("[a-z]{1,3}", _character, sentence.lower())
    return "".join(text.split()).translate(STOPS)


def _character(letters: re.Match[str]) -> str:
    # The padding is the character before "a".
    high, middle, low = (ord(letter) - ord("`") for letter in letters[0].ljust(3, "`"))
    return chr(FIRST + 27 * (27 * high + middle) + low)


class Pair(NamedTuple):
    texts: tuple[str, str]
    meanings: tuple[Meaning, Meaning]
    gold: float

    @property
    def same(self) -> bool:
        return self.meanings[0] == self.meanings[1]

    def lower(self) -> str:
        return "\t".join(self.texts).lower()


class Source(NamedTuple):
    """A subset and its sampling parameters."""

    name: str
    detail: float  # chance of each optional role
    padding: float  # chance of a filler phrase
    structures: Sequence[str] = STRUCTURES
    registers: Sequence[Register] = REGISTERS
    alike: float = 0.75  # chance that register, structure and opening phrase are shared


# Year, name, detail, padding, number of `STRUCTURES`, and numbers of registers.
_SOURCES = """
    STS12 MSRpar            0.9 0.7 4 0123
    STS12 MSRvid            0.2 0.2 1 0123
    STS12 SMTeuroparl       0.7 0.9 4 02
    STS12 surprise.OnWN     0.3 0.6 4 0123
    STS12 surprise.SMTnews  0.7 0.6 4 01
    STS13 FNWN              0.6 0.9 4 03
    STS13 headlines         0.5 0.0 2 0123
    STS13 OnWN              0.3 0.6 4 0123
    STS14 deft-forum        0.4 0.8 4 13
    STS14 deft-news         0.8 0.6 4 01
    STS14 headlines         0.5 0.0 2 0123
    STS14 images            0.3 0.3 2 0123
    STS14 OnWN              0.3 0.6 4 0123
    STS14 tweet-news        0.6 0.4 4 01
    STS15 answers-forums    0.5 0.8 4 13
    STS15 answers-students  0.3 0.5 2 0123
    STS15 belief            0.4 0.9 4 12
    STS15 headlines         0.5 0.0 2 0123
    STS15 images            0.4 0.3 2 0123
    STS16 answer-answer     0.5 0.7 4 01
    STS16 headlines         0.5 0.0 2 0123
    STS16 plagiarism        0.7 0.6 4 0123
    STS16 postediting       0.8 0.6 4 0123
    STS16 question-question 0.4 0.7 4 31"""


def _read_source(line: str) -> Source:
    _, name, detail, padding, structures, registers = line.split()
    return Source(
        name, float(detail), float(padding), STRUCTURES[: int(structures)],
        [REGISTERS[int(digit)] for digit in registers],
    )  # fmt: skip


SOURCES = {(*line.split()[:2],): _read_source(line) for line in _SOURCES.strip().splitlines()}
SICK_SOURCE = Source("SICK", 0.4, 0.3)
TRIPLES = 1000
_MIXED = [source for (year, _), source in SOURCES.items() if year in ("STS12", "STS14", "STS16")]

# Uniform choices for the second meaning of a pair: a number of changes (0 for a paraphrase), agent
# and thing exchanged (or one change if they are not both persons), or a new meaning of the same or
# of any topic.
_EXCHANGED, _SAME_TOPIC, _ANY_TOPIC = -1, -2, -3
_CHANGES = [0] * 4 + [_EXCHANGED] * 4 + [1, 1, 2, 3] + [_SAME_TOPIC] * 2 + [_ANY_TOPIC] * 2
_CHANGEABLE = ("agent", "verb", "thing", *ROLES, *FACTORS)


def _second(first: Meaning, source: Source) -> Meaning:
    changes = choice(_CHANGES)
    if changes == _SAME_TOPIC:
        return sample_meaning(source.detail, TOPIC[first.agent.family])
    if changes == _ANY_TOPIC:
        return sample_meaning(source.detail)
    if changes == _EXCHANGED and first.thing.kind == "agent":
        return first._replace(agent=first.thing, thing=first.agent)
    meaning = first
    for _ in range(abs(changes)):
        meaning = change(meaning, choice(_CHANGEABLE))
    return meaning


def sample_pair(source: Source) -> Pair:
    first = sample_meaning(source.detail)
    second = _second(first, source)
    left = right = choice(source.registers)
    structures, padding = source.structures, source.padding
    if random() < source.alike:
        structures, padding = (choice(structures),), float(random() < padding)
    else:
        right = choice(source.registers)
    texts = left.say(first, structures, padding), right.say(second, structures, padding)
    return Pair(texts, (first, second), similarity(first, second))


def sample_set(source: Source, pairs: int) -> list[Pair]:
    """Distinct pairs of one source."""
    distinct: dict[tuple[str, str], Pair] = {}
    while len(distinct) < pairs:
        pair = sample_pair(source)
        distinct.setdefault(pair.texts, pair)
    return list(distinct.values())


_BLANKS = {"CR": ("positive", "negative"), "MPQA": ("positive",)}  # classes with a blank line
SST_PHRASES = 200  # of the training part; the rest are sentences
# By part and class, about as unbalanced as in the real set.
_TREC = {"train": (20, 82, 86, 84, 62, 66), "test": (8, 38, 30, 22, 24, 28)}
MRPC_SOURCE = Source("MRPC", 0.6, 0.3, ("plain", "fronted"), alike=0.8)
MRPC_GOLD = 3.5  # highest gold score of a pair that is not a paraphrase

ARTS = [TOPIC[name] for name in ("music", "school", "sport", "sea", "war", "court")]  # of MR
GOODS = [TOPIC[name] for name in ("market", "kitchen", "clinic", "farm")]  # of CR


def _lower(tree: Tree) -> str:
    return tree.text().lower()


def _judging(make: Callable[[bool], Tree], *names: str) -> Draw:
    """A draw of opinions, labelled with the names of bad and good ones."""

    def draw() -> Sample:
        good = random() < 0.5
        return names[good], _lower(make(good))

    return draw


def _movie_review(good: bool) -> Tree:
    return review(topic=choice(ARTS), register=choice(REGISTERS[:2]), good=good, padding=0.2)


def _product_review(good: bool) -> Tree:
    return review(topic=choice(GOODS), register=choice(REGISTERS[1:]), good=good, padding=0.1)


def _statement() -> Sample:
    register = choice(REGISTERS)
    if random() < 0.5:
        return "objective", _lower(fact(register, choice(TOPICS)))
    if random() < 0.7:
        return "subjective", _lower(review(register, random() < 0.5, choice(TOPICS)))
    return "subjective", _lower(guess(register, choice(TOPICS)))


def _question() -> Sample:
    coarse = choice(CLASSES)
    return coarse, f"{coarse}:{' '.join(ask(coarse))}"


def _paraphrase() -> Sample | None:
    pair = sample_pair(MRPC_SOURCE)
    # Raters would disagree on nearly equal meanings.
    if not pair.same and pair.gold > MRPC_GOLD:
        return None
    return str(int(pair.same)), "\t".join(pair.texts)


_DRAWS: dict[str, Draw] = {
    "MR": _judging(_movie_review, "negative", "positive"),
    "CR": _judging(_product_review, "negative", "positive"),
    "MPQA": _judging(phrase, "negative", "positive"),
    "SUBJ": _statement,
}


def _write_two_classes(out: Path, name: str, sizes: Sizes) -> None:
    start(name)
    blanks = _BLANKS.get(name, ())
    wanted = {label: size - (label in blanks) for label, size in sizes.items()}
    samples = collect(_DRAWS[name], wanted, set())
    for label in sizes:
        lines = [f"{text} " for own, text in samples if own == label]
        if label in blanks:
            lines.insert(randrange(1, len(lines)), "")
        write_part(out, name, label, lines, encoding="latin-1")


def _write_sst(out: Path, name: str, sizes: Sizes) -> None:
    start("SST")
    seen = set[str]()
    whole, short = _judging(_movie_review, "0", "1"), _judging(phrase, "0", "1")
    for part, size in sizes.items():
        phrases = min(SST_PHRASES, size // 2) if part == "train" else 0
        rows = collect(whole, evenly("10", size - phrases), seen)
        rows += collect(short, evenly("10", phrases), seen)
        shuffle(rows)
        write_part(out, name, part, [f"{text} \t{label}" for label, text in rows])


def _write_trec(out: Path, name: str, sizes: Sizes) -> None:
    start(name)
    seen = set[str]()
    for part in sizes:
        wanted = dict(zip(CLASSES, _TREC[part], strict=True))
        lines = [line for _, line in collect(_question, wanted, seen)]
        write_part(out, name, part, lines, encoding="latin-1")


def _write_mrpc(out: Path, name: str, sizes: Sizes) -> None:
    start(name)
    seen = set[str]()
    for part, size in sizes.items():
        same = size * 2 // 3
        rows = collect(_paraphrase, {"1": same, "0": size - same}, seen)
        lines = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
        for number, (label, texts) in enumerate(rows):
            lines.append(f"{label}\t{2 * number + 1}\t{2 * number + 2}\t{texts}")
        write_part(out, name, part, lines, encoding="utf-8-sig")


LINES = 20_000  # smallest number of sentences of the corpus

# Decimals of gold scores by year, and unscored rows per scored row (2015 and 2016, as published).
_DECIMALS = {"STS12": 3, "STS13": 1, "STS14": 1, "STS15": 2, "STS16": 0}
_UNSCORED = {"STS15": 1.0, "STS16": 3.0}


def _write_subsets(out: Path, year: str, sizes: Sizes) -> None:
    for name, size in sizes.items():
        start(year, name)
        source = SOURCES[year, name]
        pairs = sample_set(source, size)
        unscored = sample_set(source, round(_UNSCORED.get(year, 0) * size))
        rows = [(pair.lower(), f"{pair.gold:.{_DECIMALS[year]}f}") for pair in pairs]
        rows += [(pair.lower(), "") for pair in unscored]
        shuffle(rows)
        texts, gold = zip(*rows, strict=True)
        write_part(out, year, name, texts)
        write_lines(out / TASKS[year].file(name).replace("input", "gs"), gold)


def _english(part: str, number: int, source: Source, pair: Pair) -> str:
    return f"main-world\t{source.name}\t{part}\t{number:04d}\t{pair.gold:.3f}\t{pair.lower()}"


def _chinese(part: str, number: int, source: Source, pair: Pair) -> str:
    texts = "||".join(map(in_chinese, pair.texts))
    return f"world{part}-{number:04d}||{texts}||{pair.gold:.0f}"


def _write_benchmark(out: Path, task: str, sizes: Sizes) -> None:
    line = _english if task == "STS-B" else _chinese
    for part, size in sizes.items():
        start(task, part)
        rows = []
        for number in range(size):
            source = choice(_MIXED)
            rows.append(line(part, number, source, sample_pair(source)))
        write_part(out, task, part, rows)


def _write_sick(out: Path, task: str, sizes: Sizes) -> None:
    number = 0
    for part, size in sizes.items():
        rows = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"]
        start("SICK", TASKS[task].names.get(part, part))
        for pair in sample_set(SICK_SOURCE, size):
            number += 1
            texts = "\t".join(pair.texts)
            # SICK's scale is 1 to 5, and its text is cased.
            rows.append(f"{number}\t{texts}\t{1 + pair.gold * 0.8:.2f}\t{_entailment(pair)}")
        write_part(out, task, part, rows, end="\r\n" if part == "test" else "\n")


def _write_triples(path: Path) -> None:
    """Write rows of a sentence, one of its meaning, and one of its opposite."""
    start("nli")
    distinct: dict[str, None] = {}
    while len(distinct) < TRIPLES:
        meaning = sample_meaning(0.4)
        meanings = (meaning, meaning, change(meaning, "negative"))
        texts = [choice(REGISTERS).say(meaning, padding=0.3) for meaning in meanings]
        if len({*texts}) == 3:
            distinct['"{}","{}","{}"'.format(*texts)] = None
    write_lines(path, ["sent0,sent1,hard_neg", *distinct])


def _entailment(pair: Pair) -> str:
    """SICK's label; opposite polarity of related meanings is a contradiction."""
    if pair.same:
        return "ENTAILMENT"
    opposed = pair.meanings[0].negative != pair.meanings[1].negative
    if opposed and pair.gold > 2:
        return "CONTRADICTION"
    return "NEUTRAL"


def _write_corpus(folder: Path) -> None:
    start("corpus")
    text: list[str] = []
    table = ["first_line\tlines\tsource\tcurid\ttitle"]
    while len(text) < LINES:
        document = sample_document()
        table.append(f"{len(text) + 1}\t{len(document)}\tworld\t{len(table)}\t{document[0]}")
        text += document
    write_lines(folder / "world.txt", text)
    write_lines(folder / "world.docs.tsv", table)


# What writes a task; the yearly STS tasks have subsets, and the others are probing tasks.
_WRITERS: dict[str, Callable[[Path, str, Sizes], None]] = {
    **dict.fromkeys(STS_TASKS, _write_subsets),
    **dict.fromkeys(_DRAWS, _write_two_classes),
    **dict.fromkeys(("STS-B", "CNSD-STS-B"), _write_benchmark),
    "SICK-R": _write_sick,
    "SST2": _write_sst,
    "TREC": _write_trec,
    "MRPC": _write_mrpc,
}


def build(out: Path) -> None:
    """Write the corpora, and `downstream/` and `probing/` as in SentEval, and the sums.

    The folder holds only `manifest.json`, which names the tasks and their sizes. The bytes are
    equal on any machine.
    """
    listed = manifest(out)
    _write_corpus(out)
    _write_triples(out / "world-nli.csv")
    for name, sizes in (listed.sts | listed.transfer | listed.probing).items():
        _WRITERS.get(name, write_probing)(out, name, sizes)
    names = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    write_lines(out / "SHA256SUMS", [f"{sha256_file(out / name)}  {name}" for name in names])
