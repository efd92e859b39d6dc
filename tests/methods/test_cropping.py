"""Cropping: which words are in a crop, its limit SimCSE, and what its documents are."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import methods.cropping as cropping
from bench.utils.errors import UserError
from methods.base import Refusal, Shape, Step
from methods.cropping import Cropping
from tests.methods.outside import Patch, Runs, run_of, step

SENTENCES = [f"a{row} b{row} c{row} d{row} e{row}" for row in range(10)]
DOCUMENTS = [range(0, 3), range(3, 8), range(8, 10)]


def built(**hyper: Any) -> Cropping:
    method = Cropping(Cropping.Hyper(**hyper), Shape(8, 4))
    method.documents = [one for one in DOCUMENTS if len(one) > method.hyper.lines]
    return method


def crops(method: Cropping, rows: Sequence[int], index: int = 0) -> Any:
    return method.crops(SENTENCES, Step(index, 1000, len(rows), 3, rows))


def of_documents() -> bool:
    """Whether, of five lines, there are two lines from each of the four starts, different ones in
    both views, and all pairs alike often."""
    method, seen = built(lines=2), Counter[tuple[str, str]]()
    starts = [f"{SENTENCES[at]} {SENTENCES[at + 1]}" for at in range(3, 7)]
    for index in range(1200):
        (pair,), rows = crops(method, [1], index)
        assert rows == [3]
        seen[pair] += 1
    often = all(60 < count < 140 for count in seen.values())  # 100; standard deviation 9.6
    return often and set(seen) == {(a, b) for a in starts for b in starts if a != b}


def of_sentences() -> bool:
    """Whether, of five words at a share of 0.4, there are three; both views are drawn by
    themselves."""
    method, seen = built(unit="sentence", cut=0.4), Counter[tuple[str, str]]()
    words = SENTENCES[4].split()
    parts = [" ".join(words[start : start + 3]) for start in range(3)]
    for index in range(900):
        (pair,), rows = crops(method, [4], index)
        assert rows == [4]
        seen[pair] += 1
    often = all(65 < count < 140 for count in seen.values())  # 100 of 900; 9.4
    return often and set(seen) == {(a, b) for a in parts for b in parts}


@pytest.mark.parametrize("hold", [of_documents, of_sentences])
def test_crops_are_successive_and_all_are_drawn(hold: Callable[[], bool]) -> None:
    assert hold()


def drawn(name: str, change: Callable[..., torch.Tensor]) -> Callable[[Patch], None]:
    plain = getattr(torch, name)
    return lambda patch: patch.setattr(
        torch, name, lambda count, *given, **named: change(plain, count, *given, **named)
    )


MUTATIONS: dict[str, tuple[Callable[[], bool], Callable[[Patch], None]]] = {
    "one crop for both views": (of_documents, drawn(
        "randperm", lambda plain, count, generator: plain(count, generator=generator)[[0, 0]])),
    "starts may be alike": (of_documents, drawn(
        "randperm", lambda plain, count, generator: torch.randint(
            count, (2,), generator=generator))),
    "the last start never": (of_documents, drawn(
        "randperm", lambda plain, count, generator: plain(count - 1, generator=generator))),
    "the earlier crop always first": (of_documents, drawn(
        "randperm", lambda plain, count, generator: plain(
            count, generator=generator)[:2].sort().values)),
    "one start for both views of a sentence": (of_sentences, drawn(
        "randint", lambda plain, count, size, generator: plain(
            count, (1,), generator=generator).expand(2))),
    "the last words never": (of_sentences, drawn(
        "randint", lambda plain, count, size, generator: plain(
            count - 1, size, generator=generator))),
    "the share that stays is cut": (of_sentences, lambda patch: patch.setattr(
        cropping, "round", lambda size: 5 - round(size), raising=False)),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: Patch) -> None:
    hold, mutate = MUTATIONS[name]
    mutate(monkeypatch)
    assert not hold()


@pytest.mark.parametrize(
    ("text", "cut", "crop"), [("one", 0.9, "one"), (" ", 0.5, ""), ("a b", 0.2, "a b")]
)
def test_a_short_sentence_keeps_a_word(text: str, cut: float, crop: str) -> None:
    pairs, _ = built(unit="sentence", cut=cut).crops([text], Step(0, 1, 1, 3, [0]))
    assert pairs == [(crop, crop)]


def test_draws_are_of_the_step_and_seed() -> None:
    method, rows = built(), [1] * 20
    assert crops(method, rows) == crops(method, rows)
    assert crops(method, rows) != crops(method, rows, index=1)
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    crops(method, rows)
    assert torch.equal(torch.rand(1), expected)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three documents of 3, 5 and 2 lines of the tiny language."""
    words = ["the", "old", "dog", "sees", "two", "birds", "a", "man", "sleeps", "again"]
    lines = [" ".join(words[(row + i) % 10] for i in range(5)) for row in range(10)]
    (tmp_path / "docs.txt").write_text("\n".join(lines) + "\n")
    table = "".join(f"{one.start + 1}\t{len(one)}\n" for one in DOCUMENTS)
    (tmp_path / "docs.docs.tsv").write_text(f"first_line\tlines\n{table}")
    return tmp_path / "docs.txt"


def test_a_step_encodes_the_crops(runs: Runs, corpus: Path) -> None:
    method, context, modules = runs.start("cropping", corpus=str(corpus))
    modules.double().eval()
    assert method.items(context) == 2  # the third document has too few lines
    seen: list[Any] = []
    method.loss = lambda views, step: seen.append(views.vectors) or torch.zeros(())
    method.step_loss(context, step(0, [0, 1]))
    pairs, _ = method.crops(context.sentences(), step(0, [0, 1]))
    for found, texts in zip(seen[0], zip(*pairs, strict=True), strict=True):
        wanted = context.encoder("avg").encode(list(texts))
        torch.testing.assert_close(found.float(), torch.from_numpy(wanted), rtol=1e-4, atol=1e-5)


def test_without_a_cut_it_is_simcse_bit_for_bit(runs: Runs) -> None:
    losses = []
    for text in ("cropping[cut=0,unit=sentence]", "simcse[pooler=avg]"):
        method, context, _ = runs.start(text)
        torch.manual_seed(0)
        losses.append(method.step_loss(context, step(0, [3, 9, 4])))
    assert torch.equal(*losses)


def test_a_corpus_of_short_documents_is_refused(runs: Runs, corpus: Path) -> None:
    with pytest.raises(Refusal, match="finds no document of more than 5 lines"):
        runs.start("cropping[lines=5]", corpus=str(corpus))


def test_what_joins_it() -> None:
    run_of("cropping+gs-infonce")
    run_of("cropping[cut=0,unit=sentence]+is-cse@paper")
    for text in ("cropping", "cropping[unit=sentence]"):
        with pytest.raises(UserError, match="the dropout positive"):
            run_of(f"{text}+is-cse@paper")
    assert (run := run_of("cropping")).setting == "paper"
    assert (run.recipe.pooler, run.recipe.warmup, run.recipe.learning_rate) == ("avg", 0.1, 2e-5)


# What the tests of all methods need to know of this one (`outside.of_methods`).

OUT_OF_LIMITS = {
    "cropping": "unit=word lines=0 longest=2 cut=1 cut=-0.1",
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "lines": ("unit=sentence", 2, 3),
    "longest": ("unit=sentence", 128, 8),
    "cut": ("unit=document", 0.1, 0.5),
}
