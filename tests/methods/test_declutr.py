"""DeCLUTR: its loss against an oracle, spans as the released code draws them, what is masked, and a
step."""

import pytest
import torch

from bench.models.transformer import load_backbone
from bench.utils.errors import UserError
from methods.base import Refusal, Shape, Step
from methods.declutr import DeCLUTR, masked_pieces
from tests.oracles import spans as oracle
from tests.support import method_runs
from tests.support.method_runs import ROBERTA

WIDTH, VOCABULARY = 5, 7


def method(**hyper):
    return DeCLUTR(DeCLUTR.Hyper(**hyper), Shape(WIDTH, 4))


# The loss

TARGETS = torch.tensor([0, 3, 6, 6, 1, 2])


def vectors(kind, n=4):
    """Anchors, two positives of each, and logits."""
    batch = method_runs.vectors(kind, 3 * n, WIDTH, seed=50)
    return [batch[:n], batch[n:], method_runs.vectors("random", len(TARGETS), VOCABULARY)]


def disagreement(kind, dtype, n=4, **hyper):
    trained = method(language=0.5, **hyper)
    t, average = trained.hyper.temperature, trained.hyper.average

    def expected(leaves):
        contrast = oracle.declutr_contrast(*leaves[:2], t, average)
        return contrast + 0.5 * oracle.cross_entropy(leaves[2], TARGETS.tolist())

    return method_runs.disagreement(
        lambda leaves: trained.loss(leaves[0], leaves[1], (leaves[2], TARGETS)),
        expected,
        vectors(kind, n),
        dtype,
        floor=1e-3 if dtype == torch.float64 else 0.01 / t,
        unit=lambda leaf: leaf.norm(dim=1, keepdim=True) * t,
    )


@pytest.mark.parametrize("kind", ["random", *method_runs.HARD])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("temperature", [0.05, 0.001])
def test_equals_the_oracle(kind, average, temperature):
    for dtype, bound in ((torch.float64, 1e-6), (torch.float32, 1e-4)):
        for n in (4, 1):
            result = disagreement(kind, dtype, n, temperature=temperature, average=average)
            assert result < bound, (dtype, n)


def test_without_weight_or_masked_tokens_the_language_loss_is_no_part_of_it():
    anchors, positives, logits = vectors("random")
    alone = method().loss(anchors, positives, None)
    assert torch.equal(method(language=0.0).loss(anchors, positives, (logits, TARGETS)), alone)
    assert torch.equal(method().loss(anchors, positives, (logits[:0], TARGETS[:0])), alone)


# Spans


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Nine documents, one of them short, with marks that decoding joins to the word before, and
    with odd spaces."""
    sentences = [
        "the old  man 's dog sees two birds , now .",
        "They do n't sleep ?",
        "it is 'm \u00a0we !",
    ]
    path = tmp_path_factory.mktemp("documents") / "spoken.txt"
    path.write_text("".join(f"{sentences[i * i % 3]} {i}\n" for i in range(64)))
    lines = ["first_line\tlines", *(f"{1 + 8 * i}\t8" for i in range(7)), "57\t1", "58\t7"]
    path.with_name("spoken.docs.tsv").write_text("\n".join(lines) + "\n")
    return path


def encoded(method, context, step):
    """Token ids of the anchors, then of the positives, as a step encodes them."""
    seen, embed = [], context.embed
    context.embed = lambda views, **options: seen.extend(views[0]) or embed(views, **options)
    method.step_loss(context, step)
    context.embed = embed
    return [list(row) for row in seen]


def released(hyper, context, step):
    tokenizer, draw = context.tokenizer, step.generator("spans")
    anchors, positives = [], []
    for item in step.rows:
        text = " ".join(context.sentences()[row] for row in context.documents()[item])
        text = " ".join(text.strip().split())  # declutr/common/util.py:1-5
        pieces = tokenizer.tokenize(f" {text.lstrip()}")  # declutr/dataset_reader.py:175-176
        result, around = oracle.released_spans(
            pieces, hyper.anchors, hyper.positives, hyper.shortest, hyper.longest, draw
        )
        anchors += result
        positives += around
    return [oracle.released_ids(tokenizer, span, hyper.longest) for span in anchors + positives]


@pytest.mark.parametrize(
    ("backbone", "anchors", "positives"),
    [("toy-bert", 3, 1), ("toy-roberta", 2, 2)],  # three anchors have few windows
)
def test_spans_are_the_released_ones(backbone, anchors, positives, documents, tiny_data):
    text = f"anchors={anchors},positives={positives},shortest=3,longest=14,document={28 * anchors}"
    runs = method_runs.Runs(backbone, documents, tiny_data, documents.parent)
    method, context, _ = runs.start(f"declutr[language=0,{text}]")
    for index in range(9):
        step = Step(index, 9, 3, 1, [index % 6, 5, 1])
        assert encoded(method, context, step) == released(method.hyper, context, step)


# Masks


def test_what_is_masked(tiny_bert):
    _, tokenizer = load_backbone(tiny_bert)
    draw = torch.Generator().manual_seed(4)
    words = torch.randint(5, len(tokenizer), (30_000,), generator=draw).split(150)
    tokens = [[tokenizer.cls_token_id, *row.tolist(), tokenizer.sep_token_id] for row in words]
    masked, rows, places, targets = masked_pieces(tokens, tokenizer, 0.15, Step(0, 1, 1, 7))
    assert len(targets) / 30_000 == pytest.approx(0.15, abs=0.006)
    assert (places % 151).all()  # neither the first token nor the last
    seen, restored = torch.tensor(masked)[rows, places], torch.tensor(masked)
    restored[rows, places] = targets
    assert restored.tolist() == tokens
    same, is_mask = seen == targets, seen == tokenizer.mask_token_id
    fates = [part.float().mean().item() for part in (is_mask, same, ~is_mask & ~same)]
    assert fates == pytest.approx([0.8, 0.1, 0.1], abs=0.02)
    assert masked_pieces(tokens, tokenizer, 0.15, Step(1, 2, 1, 7))[0] != masked


# With a backbone

RECIPE = {"batch_size": 3, "learning_rate": 1e-3, "select_every": 2}


SHORT = {"shortest": 2, "longest": 6, "document": 24}


def test_a_step_equals_one_sentence_at_a_time(with_head, documents, tiny_data, tmp_path):
    """Loss and every gradient; the head is that of transformers."""
    from transformers import AutoModelForMaskedLM

    runs = method_runs.Runs(with_head, documents, tiny_data, tmp_path)
    trained, context = runs.exact(method_runs.text_of("declutr", language=0.7, **SHORT), **RECIPE)
    assert trained.items(context) == 8  # the short document is left out
    step = Step(2, 5, 3, 1, [0, 7, 4])
    anchors, positives = (
        context.tokenize(texts, trained.hyper.longest)
        for texts in trained.spans(context.tokenizer, step)
    )
    masked, rows, places, targets = masked_pieces(anchors, context.tokenizer, 0.15, step)
    assert (len(masked), len(positives)) == (6, 12)

    def states(tokens):
        return context.backbone(torch.tensor([tokens])).last_hidden_state[0]

    whole = AutoModelForMaskedLM.from_pretrained(with_head).double().eval()
    guessed = trained.language_head(states(masked[0]))
    torch.testing.assert_close(guessed, whole(torch.tensor([masked[0]])).logits[0])
    tied = context.backbone.get_input_embeddings().weight
    assert any(weight is tied for weight in trained.language_head.parameters())
    means = [torch.stack([states(row).mean(0) for row in part]) for part in (masked, positives)]
    at = zip(rows, places, strict=True)
    logits = torch.stack([trained.language_head(states(masked[i])[j]) for i, j in at])
    expected = oracle.declutr_contrast(*means, 0.05, average=True)
    expected = expected + 0.7 * oracle.cross_entropy(logits, targets.tolist())
    weights = list(torch.nn.ModuleList([*context.modules(), trained]).parameters())
    loss = trained.step_loss(context, step)
    assert method_runs.step_disagreement(loss, expected, weights) < 1e-6


@pytest.mark.usefixtures("global_state")
def test_what_it_cannot_be_trained_on_is_refused(train_tiny, tiny_corpus, documents):
    plain = method_runs.text_of("declutr", language=0, **SHORT)
    for text, corpus, batch_size, reason in (
        (method_runs.text_of("declutr", **SHORT), documents, 3, "stores no masked-language head"),
        ("declutr[language=0]", documents, 3, "no document of at least 2048 word pieces"),
        (plain, tiny_corpus, 3, "has no list of documents"),
        (plain, documents, 9, "its 8 items fill none of 9; set a smaller batch_size"),
    ):
        with pytest.raises((UserError, Refusal), match=reason):
            train_tiny(text, batch_size=batch_size, corpus=str(corpus))


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

PUBLISHED = {
    "batch_size": 4, "pooler": "avg", "evaluation_pooler": "avg",
    "learning_rate": 5e-5, "weight_decay": 0.1, "warmup": 0.1, "epsilon": 1e-6,
    "bias_correction": False, "schedule": "slanted", "drop_last": True, "decay_biases": False,
}  # fmt: skip
VALUES = [
    ("declutr@official", ROBERTA, PUBLISHED),
    ("declutr@paper", ROBERTA, {"batch_size": 16}),
]  # fmt: skip
OUT_OF_LIMITS = {
    "declutr": (
        "temperature=0 anchors=0 positives=0 shortest=0 shortest=600 longest=2 "
        "document=2047 masked=0 masked=1 language=-1"
    ),
}
WITHOUT_EFFECT = {
    "masked": (
        "language=0,anchors=1,document=8,longest=4,shortest=2,drop_last=false",
        0.15,
        0.5,
    ),
}
