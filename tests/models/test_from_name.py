"""Models by name: functions, options, and several models in one table."""

import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import bench
from bench.models.functions import FunctionEncoder
from bench.models.library import LibraryEncoder
from bench.models.load import Normalised, load_encoder
from bench.models.model import Model
from bench.models.options import Options
from bench.registry.templates import TEMPLATE_SETS
from bench.results.records import read_scores
from bench.utils.errors import UserError
from methods.word_overlap import BagOfWords
from tests.support.refusals import refused

MODULE = """
import numpy as np
import torch

def letters(texts):
    return np.array([[text.count(letter) for letter in "abcdeilorst"] + [1.0] for text in texts])

def tensor(texts):
    return torch.from_numpy(letters(texts)).double().requires_grad_()

def broken(texts):
    return letters(texts) / {}[0]

class Held:
    def encode(self, texts):
        return letters(texts)

held = Held()

class Callable(torch.nn.Module):
    encode = Held.encode

model, bare = Callable(), torch.nn.Linear(2, 2)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The name of a module of a user's own, in the present folder."""
    (tmp_path / "my_encoders_of_a_test.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "my_encoders_of_a_test"
    sys.modules.pop("my_encoders_of_a_test", None)


@pytest.fixture
def evaluate(said, tiny_data):
    """The command, on two tasks."""
    where = "--data", tiny_data, "--tasks", "STS12", "STS-B", "--out"
    return lambda out, *words, status=0: said("evaluate", *words, *where, out, status=status)


# Functions


@pytest.mark.parametrize("name", ["letters", "tensor", "held.encode"])
def test_a_function_is_found_by_its_name(mine, name):
    texts = ["a sea", "bread", ""]
    counts = [[text.count(letter) for letter in "abcdeilorst"] + [1] for text in texts]
    assert Model(f"{mine}:{name}").load("cpu").encode(texts).tolist() == counts


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("my_encoders_of_a_test:broken", "my_encoders_of_a_test.py, line 12: 0"),
        ("my_encoders_of_a_test:leters", "has no attribute 'leters'"),
        ("my_encoders_of_a_test:bare", "'my_encoders_of_a_test:bare' is no function of texts and"),
        ("my_encoders_of_a_test:np.pi", "has no method encode; pass a function from a list of"),
        ("nowhere_of_a_test:encode", "No module named 'nowhere_of_a_test'); run in its folder"),
        ("raises_of_a_test:encode", "RuntimeError in raises_of_a_test.py, line 2: no luck"),
    ],
)
def test_errors_of_functions_are_one_sentence(mine, name, sentence, evaluate, tmp_path):
    (tmp_path / "raises_of_a_test.py").write_text("x = 1\nraise RuntimeError('no\\nluck')\n")
    printed = evaluate(tmp_path / "scores.json", name, status=2)
    error = printed.err.splitlines()[-1].replace(f"{tmp_path}/", "")
    assert error.startswith("error: ")
    assert sentence in error
    assert not list(tmp_path.glob("scores.json*"))  # without identity nothing can be resumed


def test_a_function_has_no_pooler_and_no_prompt(mine):
    with pytest.raises(UserError, match="'builtins:int' is no function of texts"):
        Model(42).load("cpu")
    for options in ({"pooler": "avg"}, {"prompt": "query"}):
        with pytest.raises(UserError, match="takes only dims and normalize, omit p"):
            Model(f"{mine}:letters", Options(**options)).load("cpu")
    vectors = (
        Model(f"{mine}:letters", Options(normalize=True)).load("cpu").encode(["a sea", "bread"])
    )
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)


class Answer(Exception):
    """An error of an HTTP library."""

    def __init__(self, status):
        self.response = SimpleNamespace(status_code=status)


@pytest.mark.parametrize(
    ("error", "calls"),
    [(ConnectionError("reset"), 3), (Answer(429), 3), (Answer(400), 1), (ValueError("bad"), 1)],
)
def test_a_call_that_may_succeed_later_is_repeated(error, calls, monkeypatch):
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    seen = []

    def encode(texts):
        seen.append(texts)
        if len(seen) < 3:
            raise error
        return np.ones((len(texts), 2))

    encoder = FunctionEncoder(encode, "m:encode")
    if calls == 3:
        assert encoder.encode(["a"]).shape == (1, 2)
    else:
        with pytest.raises(UserError, match="some of them blank, as in SentEval's files"):
            encoder.encode(["a", ""])
    assert len(seen) == calls


TEXTS = [f"text {'again ' * number}" for number in range(9)]


def drawn(size):
    """Vectors of a length of 1 and noise of a size, another one at each call."""
    draw = np.random.default_rng(0)
    return lambda texts: np.eye(1, 400) + size * draw.normal(size=(len(texts), 400)) / 20


@pytest.mark.parametrize(
    ("encode", "told"),
    [
        (torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.1)), "call model.eval"),
        (drawn(0.05), "a cosine of 1 - 0.00"),
        (lambda texts: np.eye(len(texts), 9), "a cosine of 1 - 1), by the order"),
        (lambda texts: np.ones((len(texts), 2)) - np.eye(1, 2) * len(texts), "size of a batch"),
    ],
    ids=["dropout", "random", "order", "batch"],
)
def test_what_is_no_function_of_the_text_is_refused(encode, told):
    if isinstance(encode, torch.nn.Module):
        module = encode
        encode = lambda texts: module(torch.ones(len(texts), 64))  # noqa: E731
    with pytest.raises(UserError, match=re.escape(told)):
        FunctionEncoder(encode, "m:f").encode(TEXTS)


@pytest.mark.parametrize(
    ("encode", "said"),
    [
        (
            drawn(1e-3),
            r"the function gives .* \(a cosine of 1 - \de-0[67]\)\n",
        ),
        (drawn(1e-7), ""),  # rounding
        (lambda texts: np.zeros((len(texts), 2)), ""),
    ],
)
def test_smaller_differences_of_a_function_are_said(encode, said, capsys):
    encoder = FunctionEncoder(encode, "m:f")
    encoder.encode(TEXTS)
    encoder.encode(TEXTS)  # asked once
    assert re.fullmatch(said, capsys.readouterr().err)


def plain(texts):
    """Vectors that hold for a text wherever it stands: the share of some letters."""
    return np.float32([[text.count(letter) / len(text) for letter in "abginsx"] for text in texts])


ROWS = plain(TEXTS)
PACKED = np.packbits(ROWS > 0, axis=1)


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (PACKED, "an array of uint8 of shape (9, 1) for 9 sentences; it must give one vector"),
        (None, "NoneType and no array for 9 sentences"),
        (ROWS * np.nan, "the vector of 'text ' is not finite, or its squares are beyond float32"),
    ],
)
def test_what_is_no_array_of_vectors_is_refused(array, told):
    with pytest.raises(UserError, match=re.escape(told)):
        FunctionEncoder(lambda texts: array, "m:f").encode(TEXTS)


def test_short_vectors_are_normalised():
    made = Normalised(None).through(np.float32([[3e-17, 4e-17], [0, 0]]))
    np.testing.assert_allclose(made, [[0.6, 0.8], [0, 0]], rtol=1e-6)


@pytest.fixture
def encoders(tiny_bert):
    """A transformer, run by us and by the library, and a function."""

    class Library(list):
        max_seq_length, tokenizer, device = 9, None, torch.device("cpu")
        encode = staticmethod(lambda texts, **_: plain(texts))

    return [
        load_encoder(tiny_bert, pooler="avg"),
        LibraryEncoder(tiny_bert, Library(), None, Options()),
        FunctionEncoder(plain, "m:f"),
        BagOfWords(8),
    ]


def test_what_is_no_list_of_texts_is_refused(encoders):
    """A text is a sequence of texts, too, and so are the keys of a map."""
    for texts in ("two birds", b"two", {"two": 1}, [b"a"], ["a", None], [["a"]], [("a", "b")]):
        for encoder in encoders:
            with pytest.raises(TypeError, match="is no list of texts; pass one"):
                encoder.encode(texts)


def test_texts_may_come_in_other_sequences_and_from_a_generator(encoders):
    texts = ["two birds", "a sea"]
    for form in (tuple, iter, np.array):
        for encoder in encoders:
            np.testing.assert_array_equal(encoder.encode(form(texts)), encoder.encode(texts))


def test_the_identity_of_a_function_is_its_attribute():
    def function(texts):
        return np.ones((len(texts), 2))

    def identities():
        return {FunctionEncoder(function, "m:f").identity for _ in range(2)}

    assert len(identities()) == 2
    function.identity = "second version"
    second = identities()
    function.identity = "third version"
    assert (len(second), len(second | identities())) == (1, 2)


def test_functions_named_in_files_are_not_run(mine, tmp_path):
    """`load_encoder` and `Model.stored`, which read configurations and results, import nothing."""
    (tmp_path / "leaves_a_trace.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    with pytest.raises(UserError):
        load_encoder("leaves_a_trace:encode", pooler="avg")
    for is_function in (True, False):
        described = Model("leaves_a_trace:encode").describe() | {"function": is_function}
        with pytest.raises(UserError, match="not run only because a file names it"):
            Model.stored(described)
    assert not (tmp_path / "ran").exists()


def test_from_python(tiny_bert, tiny_data, evaluate, tmp_path):
    out = tmp_path / "scores.json"
    words = BagOfWords(256)
    records = bench.score(words.encode, ["STS-B"], str(tiny_data), out=out, normalize=True)
    read = read_scores(out)
    assert read.as_written()["records"] == records
    assert read.provenance.model.endswith(":BagOfWords.encode")
    assert bench.score(words, ["STS-B"], str(tiny_data), normalize=True) == [
        record | {"backbone": "methods.word_overlap:BagOfWords"} for record in records
    ]
    out = tmp_path / "bert.json"
    evaluate(out, tiny_bert, "--pooler", "avg_top2")
    for model in (str(tiny_bert), tiny_bert):
        records = bench.score(model, ["STS12", "STS-B"], str(tiny_data), pooler="avg_top2")
        assert records == read_scores(out).as_written()["records"]


# Several models


def test_options_and_names_of_files():
    common = {"pooler": "avg", "normalize": True}
    for word, options, file in (
        ("a/b", Options("avg", normalize=True), "a-b-pooler-avg-normalize"),
        ("./b[pooler=cls]", Options("cls", normalize=True), "b-pooler-cls-normalize"),
        ("m:f[prompt=, normalize=false]", Options("avg", ""), "m-f-pooler-avg-prompt"),
    ):
        (model,) = Model.read(word, common)
        assert model == Model(word.partition("[")[0], options)
        assert model.file == f"{file}.json"
    query = "a/b[prompt=query,normalize]"
    assert Model.read(query) == [Model("a/b", Options(prompt="query", normalize=True))]
    assert Model.read(query)[0].label == query
    assert Model.read("a/b[prompt=query: ,dims=4]") == [
        Model("a/b", Options(prompt="query: ", dims=4))
    ]
    members = Model.read("a/b[template=prompteol]", common)
    assert [member.options.template for member in members] == TEMPLATE_SETS["prompteol"]
    refused(lambda: Model.read("a[poler=avg]"), "unknown option 'poler'; did you mean 'pooler'?")


def test_a_template_in_brackets_may_have_commas_and_brackets():
    for template in (
        'This sentence : "<sentence>" means in one word:"',
        "Well, then, <sentence>",
        "[INST] Hi, you: <sentence> [/INST]",
        " <sentence>, in short, it is ",
    ):
        options = Options("last", template=template, dims=8, dtype="bfloat16", normalize=True)
        model = Model("a/b", options)
        assert Model.read(model.label) == [Model.stored(model.describe())] == [model]
    for options, words in (
        ("template=x=1, y=<sentence>", "unknown option 'y'"),
        ("dims=few", "dims 'few'"),
    ):
        refused(lambda options=options: Model.read(f"a[{options}]"), words)


@pytest.fixture
def several(tiny_bert, mine):
    return [f"{tiny_bert}[pooler=avg]", f"{tiny_bert}[pooler=cls_before_pooler]", f"{mine}:letters"]


def test_a_failing_model_does_not_stop_the_others(several, evaluate, tmp_path, monkeypatch):
    plain = bench.stages.encoders.score_encoder

    def score(encoder, *rest):
        return plain(encoder, *rest) if isinstance(encoder, FunctionEncoder) else 1 / 0

    monkeypatch.setattr("bench.stages.encoders.score_encoder", score)
    printed = evaluate(tmp_path / "out", several[0], several[2], status=2)
    assert [line.split()[0] for line in printed.out.splitlines() if several[2] in line] == [
        several[2]
    ]
    assert f"{several[0]}: ZeroDivisionError" in printed.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == [Model(several[2]).file]


def test_every_model_is_checked_before_one_encodes(several, evaluate, tmp_path):
    printed = evaluate(tmp_path / "out", *several, "/nowhere/model", status=2)
    (line,) = printed.err.splitlines()
    assert "does not exist" in line
    assert not (tmp_path / "out").exists()


def test_existing_results_are_not_computed_again(several, evaluate, tmp_path, monkeypatch):
    evaluate(tmp_path / "out", *several[:2])
    first, second = sorted((tmp_path / "out").iterdir())
    before = first.read_bytes()
    changed = json.loads(second.read_text())
    changed["provenance"]["versions"]["torch"] = "1.0"
    second.write_text(json.dumps(changed))
    original, scored = bench.stages.encoders.score_encoder, []

    def noted(encoder, *rest):
        scored.append(encoder.pooler)
        return original(encoder, *rest)

    monkeypatch.setattr("bench.stages.encoders.score_encoder", noted)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    evaluate(tmp_path / "out", *several[:2])
    assert scored == ["cls_before_pooler"]
    assert first.read_bytes() == before
    assert read_scores(second).provenance.versions["torch"] == torch.__version__


def test_models_that_share_a_file(tiny_bert, evaluate, tmp_path):
    printed = evaluate(tmp_path / "out", tiny_bert, tiny_bert, "--pooler", "avg", status=2)
    assert "would both be written to" in printed.err
    assert not (tmp_path / "out").exists()


def test_scores_of_another_model_are_not_replaced(mine, evaluate, tmp_path):
    out = tmp_path / "scores.json"
    evaluate(out, f"{mine}:letters")
    before = out.read_bytes()
    printed = evaluate(out, f"{mine}:letters[dims=2]", status=2)
    told = f"{out} has the scores of another model, {mine}:letters, or of other options; name"
    assert told in printed.err
    assert out.read_bytes() == before
