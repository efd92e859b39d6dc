"""DeCLUTR: its loss against an oracle, where its spans lie, what is masked, and a training."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import methods.declutr as declutr
from bench.datasets import sts
from bench.evaluation.scoring import score_tasks
from bench.models.load import load_encoder
from bench.models.transformer import load_backbone
from bench.training.context import RunContext
from bench.training.loop import train
from bench.utils.errors import UserError
from methods.base import Refusal, Shape, Step, cosine
from methods.declutr import DeCLUTR, sample_spans
from tests.methods import outside
from tests.methods.outside import ROBERTA, Patch, Train
from tests.oracles import spans as oracle
from tests.oracles.mutations import Mutation, patched
from tests.training.test_loop import log_of

SMALL = {"shortest": 2, "longest": 6, "document": 24}
N, P, WIDTH, VOCABULARY = 4, 2, 5, 7


def method(**hyper: Any) -> DeCLUTR:
    return DeCLUTR(DeCLUTR.Hyper(**hyper), Shape(WIDTH, 4))


# The loss


def vectors(kind: str, number: int = 0) -> list[Tensor]:
    """Anchors, positives and logits in float64, with float32's numbers."""
    draw = torch.Generator().manual_seed(50 + number)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=draw, dtype=torch.float64)

    n = 1 if kind == "one" else N
    anchors, positives = normal(n, WIDTH), normal(n * P, WIDTH)
    if kind in ("near-duplicates", "duplicates"):
        spread = 1e-5 if kind == "near-duplicates" else 0.0
        anchors, positives = (
            anchors[:1] + spread * normal(len(part), WIDTH) for part in (anchors, positives)
        )
    scale = {"tiny": 1e-8, "huge": 1e8}.get(kind, 1.0)
    parts = (anchors * scale, positives * scale, normal(6, VOCABULARY))
    return [part.float().double() for part in parts]


TARGETS = torch.tensor([0, 3, 6, 6, 1, 2])
KINDS = ("random", "near-duplicates", "duplicates", "tiny", "huge", "one")


def disagreement(hyper: DeCLUTR.Hyper, kind: str, dtype: torch.dtype) -> float:
    def expected(leaves: Sequence[Tensor]) -> Tensor:
        contrast = oracle.declutr_contrast(*leaves[:2], hyper.temperature, hyper.average)
        return contrast + hyper.language * oracle.cross_entropy(leaves[2], TARGETS.tolist())

    return outside.disagreement(
        lambda own: DeCLUTR(hyper, Shape(WIDTH, 4)).loss(own[0], own[1], (own[2], TARGETS)),
        expected,
        vectors(kind),
        dtype,
        floor=1e-3 if dtype == torch.float64 else 0.01 / hyper.temperature,
        unit=lambda leaf: leaf.norm(dim=1, keepdim=True) * hyper.temperature,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("temperature", [0.05, 0.001, 1.0])
def test_equals_the_oracle(kind: str, average: bool, temperature: float) -> None:
    hyper = DeCLUTR.Hyper(temperature=temperature, average=average, language=0.5)
    for dtype, bound in ((torch.float64, 1e-6), (torch.float32, 1e-4)):
        assert disagreement(hyper, kind, dtype) < bound, dtype


def _nt_xent(change: Callable[..., Tensor]) -> Mutation:
    return patched(declutr, "nt_xent", change)


def _one_way(plain: Any, left: Tensor, right: Tensor, t: float, reduction: str) -> Tensor:
    partners = torch.arange(len(left))
    return F.cross_entropy(cosine(left, right) / t, partners, reduction=reduction)


def _with_itself(plain: Any, left: Tensor, right: Tensor, t: float, reduction: str) -> Tensor:
    both = torch.cat([left, right])
    partners = torch.arange(len(both)).roll(len(left))
    return F.cross_entropy(cosine(both, both) / t, partners, reduction=reduction)


def _positives(change: Callable[[Tensor], Tensor]) -> Mutation:
    return patched(DeCLUTR, "loss", lambda plain, self, a, p, g: plain(self, a, change(p), g))


MUTATIONS: dict[str, Mutation] = {
    "one direction": _nt_xent(_one_way),
    "itself among the candidates": _nt_xent(_with_itself),
    "temperature": _nt_xent(lambda plain, a, b, t, how: plain(a, b, 1.01 * t, how)),
    "mean for sum": _nt_xent(
        lambda plain, a, b, t, how: plain(a, b, t, "mean" if how == "sum" else "sum")
    ),
    "partner of the next": _nt_xent(lambda plain, a, b, t, how: plain(a, b.roll(1, 0), t, how)),
    "sign": _nt_xent(lambda plain, *given: -plain(*given)),
    "unit vectors before the mean": _positives(lambda x: F.normalize(x, dim=-1)),
    "positives without gradient": _positives(torch.Tensor.detach),
    "positives of another anchor": _positives(lambda x: x.roll(1, 0)),
    "only the first positive": _positives(lambda x: x[::P].repeat_interleave(P, 0)),
    "language loss without its weight": patched(
        declutr.F, "cross_entropy", lambda plain, x, y, **k: plain(x, y, **k) * (1 if k else 2)
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: Patch) -> None:
    MUTATIONS[name](None, monkeypatch)
    hyper, kinds = DeCLUTR.Hyper(language=0.5), ("random", "near-duplicates")
    assert max(disagreement(hyper, kind, torch.float64) for kind in kinds) > 1e-6


def test_limits() -> None:
    """One anchor has nothing to be told from; without weight the language loss is no part of it."""
    anchors, positives, logits = vectors("one")
    assert method().loss(anchors, positives, None).item() == 0
    anchors, positives, logits = vectors("random")
    alone = method().loss(anchors, positives, None)
    assert torch.equal(method(language=0.0).loss(anchors, positives, (logits, TARGETS)), alone)
    assert torch.equal(method().loss(anchors, positives, (logits[:0], TARGETS[:0])), alone)


# Spans


@pytest.mark.parametrize(("anchors", "positives"), [(1, 1), (2, 2), (3, 1)])
def test_where_spans_lie(anchors: int, positives: int) -> None:
    hyper = DeCLUTR.Hyper(
        anchors=anchors, positives=positives, shortest=2, longest=7, document=14 * anchors
    )
    generator = torch.Generator().manual_seed(1)
    before = behind = within = ends = 0
    for turn in range(600):
        count = hyper.document + turn % 9
        found = sample_spans(count, hyper, generator)
        assert [len(around) for _, around in found] == [positives] * anchors
        for number, (anchor, around) in enumerate(found):
            assert 0 <= anchor.start < anchor.stop <= count
            assert hyper.shortest <= anchor.stop - anchor.start <= hyper.longest
            # Within one window.
            assert anchor.start // hyper.longest == (anchor.stop - 1) // hyper.longest
            for other, _ in found[:number]:
                assert abs(anchor.start // hyper.longest - other.start // hyper.longest) >= 2
            for span in around:
                assert 0 <= span.start < span.stop <= count
                assert hyper.shortest <= span.stop - span.start <= hyper.longest
                assert span.stop >= anchor.start
                assert span.start <= anchor.stop
                before += span.stop == anchor.start
                behind += span.start == anchor.stop
                within += anchor.start <= span.start and span.stop <= anchor.stop
            ends += anchor.start == 0
    assert min(before, behind, within, ends) > 10


def test_lengths_are_of_the_papers_distributions() -> None:
    """Beta(4, 2) has mean 2/3 and variance 2/63; Beta(2, 4) has mean 1/3 and the same variance."""
    hyper = DeCLUTR.Hyper(anchors=1, positives=1, shortest=100, longest=1100, document=4000)
    generator = torch.Generator().manual_seed(2)
    drawn = [sample_spans(4000, hyper, generator)[0] for _ in range(3000)]
    for spans, mean in (([a for a, _ in drawn], 2 / 3), ([p[0] for _, p in drawn], 1 / 3)):
        shares = torch.tensor([(span.stop - span.start - 100) / 1000 for span in spans])
        assert abs(shares.mean().item() - mean) < 0.01
        assert abs(shares.var().item() - 2 / 63) < 0.003


def test_starts_are_uniform() -> None:
    """Of an anchor in its window; of a positive from its own length before it to its end."""
    hyper = DeCLUTR.Hyper(anchors=1, positives=1, shortest=4, longest=4, document=16)
    generator = torch.Generator().manual_seed(3)
    drawn = [sample_spans(16, hyper, generator)[0] for _ in range(4000)]
    starts = torch.bincount(torch.tensor([anchor.start for anchor, _ in drawn]), minlength=13)
    assert starts.nonzero().flatten().tolist() == [0, 4, 8, 12]
    assert (starts[::4] - 1000).abs().max() < 120
    shifts = torch.tensor(
        [around[0].start - anchor.start for anchor, around in drawn if anchor.start == 8]
    )
    assert torch.bincount(shifts + 4).tolist() == pytest.approx([len(shifts) / 9] * 9, rel=0.35)


# Masks


def test_what_is_masked(tiny_bert: Path) -> None:
    _, tokenizer = load_backbone(tiny_bert)
    draw = torch.Generator().manual_seed(4)
    words = [
        torch.randint(5, len(tokenizer), (size,), generator=draw).tolist() for size in range(1, 260)
    ]
    tokens = [[tokenizer.cls_token_id, *row, tokenizer.sep_token_id] for row in words]
    masked, rows, places, targets = method().mask(tokens, tokenizer, Step(0, 1, 1, 7))
    ordinary = sum(map(len, words))
    assert len(targets) / ordinary == pytest.approx(0.15, abs=0.006)
    chosen = set(zip(rows.tolist(), places.tolist(), strict=True))
    fates = {"mask": 0, "other": 0, "same": 0}
    for i, (row, seen) in enumerate(zip(tokens, masked, strict=True)):
        assert len(row) == len(seen)
        for j, (was, is_now) in enumerate(zip(row, seen, strict=True)):
            if (i, j) in chosen:
                assert 0 < j < len(row) - 1
                same = "same" if was == is_now else "other"
                fates["mask" if is_now == tokenizer.mask_token_id else same] += 1
            else:
                assert was == is_now
    assert targets.tolist() == [
        tokens[i][j] for i, j in zip(rows.tolist(), places.tolist(), strict=True)
    ]
    shares = {name: count / len(targets) for name, count in fates.items()}
    assert shares == pytest.approx({"mask": 0.8, "other": 0.1, "same": 0.1}, abs=0.015)
    assert method().mask(tokens, tokenizer, Step(0, 1, 1, 7))[0] == masked
    assert method().mask(tokens, tokenizer, Step(1, 2, 1, 7))[0] != masked


# With a backbone


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of nine documents, one of them too short for `SMALL`."""
    from tests.conftest import make_sentences

    folder = tmp_path_factory.mktemp("documents")
    path = folder / "spoken.txt"
    rows = make_sentences(64, seed=9, lengths=(3, 9))
    path.write_text("".join(f"{row}\n" for row in rows))
    lines = [f"{1 + 8 * i}\t8" for i in range(7)] + ["57\t1", "58\t7"]
    (folder / "spoken.docs.tsv").write_text("\n".join(["first_line\tlines", *lines]) + "\n")
    return path


RECIPE = {"batch_size": 3, "learning_rate": 1e-3, "select_every": 2}


def text_of(**hyper: Any) -> str:
    return f"declutr[{','.join(f'{key}={value}' for key, value in {**SMALL, **hyper}.items())}]"


def test_a_step_equals_one_sentence_at_a_time(
    with_head: Path, documents: Path, tiny_data: Path, tmp_path: Path
) -> None:
    """Loss and every gradient, through the model that transformers makes of the folder."""
    from transformers import AutoModelForMaskedLM

    run = outside.run_of(text_of(language=0.7), with_head, documents, tiny_data, **RECIPE)
    context, own = RunContext(run, tmp_path, "cpu"), run.build()
    own.prepare(context)
    assert own.items(context) == 8  # the short document is left out
    step = Step(2, 5, 3, 1, [0, 7, 4])
    modules = torch.nn.ModuleList([*context.modules(), own]).double().eval()
    loss = own.step_loss(context, step)
    loss.backward()

    whole = AutoModelForMaskedLM.from_pretrained(with_head).double().eval()
    longest = own.hyper.longest
    anchors, positives = own.spans(context.tokenizer, step)
    assert (len(anchors), len(positives)) == (6, 12)
    masked, rows, places, targets = own.mask(
        context.tokenize(anchors, longest), context.tokenizer, step
    )

    def states(tokens: list[int]) -> Tensor:
        return whole.base_model(input_ids=torch.tensor([tokens])).last_hidden_state[0]

    near = torch.stack([states(row).mean(0) for row in context.tokenize(positives, longest)])
    seen = [states(row) for row in masked]
    at = zip(rows, places, strict=True)
    logits = [whole(input_ids=torch.tensor([masked[i]])).logits[0, j] for i, j in at]
    expected = oracle.declutr_contrast(
        torch.stack([row.mean(0) for row in seen]), near, 0.05, average=True
    )
    expected = expected + 0.7 * oracle.cross_entropy(torch.stack(logits), targets.tolist())
    assert loss.item() == pytest.approx(expected.item(), rel=1e-9)
    expected.backward()
    theirs = {name: weight.grad for name, weight in whole.named_parameters()}
    prefix = whole.base_model_prefix
    for name, weight in context.backbone.named_parameters():
        torch.testing.assert_close(
            weight.grad, theirs.pop(f"{prefix}.{name}"), rtol=1e-6, atol=1e-9
        )
    found = {
        f"{'cls' if prefix == 'bert' else 'lm_head'}.{n}": w
        for n, w in own.language_head.named_parameters()
    }
    for name, grad in theirs.items():  # what is left is the head's own
        torch.testing.assert_close(found[name].grad, grad, rtol=1e-6, atol=1e-9)
    decoder = f"{'predictions.' * (prefix == 'bert')}decoder.weight"
    tied = context.backbone.get_input_embeddings().weight
    assert own.language_head.get_parameter(decoder) is tied
    assert len({id(weight) for weight in modules.parameters()}) == len(list(modules.parameters()))


def test_state_is_saved_and_restored(
    with_head: Path, documents: Path, tiny_data: Path, tmp_path: Path
) -> None:
    run = outside.run_of(text_of(), with_head, documents, tiny_data, **RECIPE)
    losses = []
    state: dict[str, Tensor] = {}
    for restored in (False, True):
        context, own = RunContext(run, tmp_path, "cpu"), run.build()
        own.prepare(context)
        if restored:
            own.load_state_dict(state)
        else:
            for weight in own.parameters():
                weight.data += 0.01
            state = {name: tensor.clone() for name, tensor in own.state_dict().items()}
        torch.manual_seed(5)
        losses.append(own.step_loss(context, Step(0, 1, 3, 1, [0, 1, 2])))
    assert torch.equal(*losses)


def test_trains_from_end_to_end(
    with_head: Path, documents: Path, tiny_data: Path, tmp_path: Path
) -> None:
    run = outside.run_of(text_of(), with_head, documents, tiny_data, **RECIPE)
    logs = []
    for number in range(2):
        outcome = train(run, tmp_path, tmp_path / str(number))["outcome"]
        assert (outcome["status"], outcome["steps"]) == ("finished", 2)  # of 8 documents, 3 a step
        logs.append(log_of(tmp_path / str(number)))
    assert logs[0] == logs[1]
    encoder = load_encoder(tmp_path / "0")
    assert encoder.pooler == "avg"  # type: ignore[attr-defined]
    (record,) = score_tasks(encoder, [sts.read("STS-B", tiny_data, "dev")])
    assert record["value"] == outcome["best_dev"]


def test_a_training_without_a_full_batch_is_refused(
    tiny_bert: Path, documents: Path, tiny_data: Path, tmp_path: Path
) -> None:
    recipe = {**RECIPE, "batch_size": 9}
    run = outside.run_of(text_of(language=0), tiny_bert, documents, tiny_data, **recipe)
    with pytest.raises(UserError, match="its 8 items fill none of 9; set a smaller batch_size"):
        train(run, tmp_path, tmp_path / "run")


def test_without_language_loss_any_checkpoint_will_do(train_tiny: Train, documents: Path) -> None:
    folder = train_tiny(text_of(language=0), batch_size=3, corpus=str(documents))
    assert json.loads((folder / "outcome.json").read_text())["outcome"]["status"] == "finished"


def test_a_checkpoint_without_head_is_refused(
    tiny_backbone: Path, documents: Path, tiny_data: Path, tmp_path: Path
) -> None:
    run = outside.run_of(text_of(), tiny_backbone, documents, tiny_data, **RECIPE)
    with pytest.raises(UserError, match="stores no masked-language head"):
        run.build().prepare(RunContext(run, tmp_path, "cpu"))


def test_short_and_unknown_documents_are_refused(
    tiny_bert: Path, tiny_corpus: Path, documents: Path, tiny_data: Path, tmp_path: Path
) -> None:
    run = outside.run_of("declutr", tiny_bert, documents, tiny_data, **RECIPE)
    with pytest.raises(Refusal, match="no document of at least 2048 word pieces"):
        run.build().prepare(RunContext(run, tmp_path, "cpu"))
    run = outside.run_of(text_of(), tiny_bert, tiny_corpus, tiny_data, **RECIPE)
    with pytest.raises(UserError, match="has no list of documents"):
        run.build().prepare(RunContext(run, tmp_path, "cpu"))


# What the tests of all methods need to know of this one (`outside.of_methods`).

PUBLISHED = {
    "batch_size": 4, "average": True, "pooler": "avg", "evaluation_pooler": "avg",
    "learning_rate": 5e-5, "weight_decay": 0.1, "warmup": 0.1, "epsilon": 1e-6,
    "bias_correction": False, "schedule": "slanted", "drop_last": True, "decay_biases": False,
}  # fmt: skip
VALUES: list[tuple[str, str, dict[str, Any]]] = [
    ("declutr@official", ROBERTA, PUBLISHED),
    ("declutr@paper", ROBERTA, {"batch_size": 16, "average": False}),
]  # fmt: skip
OUT_OF_LIMITS = {
    "declutr": (
        "temperature=0 anchors=0 positives=0 shortest=0 shortest=600 longest=2 "
        "document=2047 masked=0 masked=1 language=-1"
    ),
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "masked": (
        "language=0,anchors=1,document=8,longest=4,shortest=2,drop_last=false",
        0.15,
        0.5,
    ),
}
