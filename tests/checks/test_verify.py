"""A result is confirmed by computing it again, and anything that was changed since is found."""

import re
import shutil
import tempfile

import pytest
import torch
from safetensors.torch import load_file, save_file

from bench.__main__ import main
from bench.checks import verify as module
from bench.checks.verify import ROUNDING, verify
from bench.models.load import load_encoder, save_encoder
from bench.utils.files import read_json, write_json
from methods.untrained import Untrained
from tests.support.tiny_suite import train_words

TASKS = ["STS12", "STS-B"]
EQUAL = "confirmed, to the bit"


@pytest.fixture(scope="module")
def job(tiny_bert, tiny_data, tiny_corpus):
    """Run stages of a method on the tiny backbone, by default all; the file of its scores."""

    def run(method, suite, *words):
        training = train_words(method, tiny_bert, tiny_data, tiny_corpus)
        assert main([*training, "--suite", str(suite), *words]) == 0
        return next((suite / "scores").glob("*"), suite)

    return run


@pytest.fixture
def result(suite):
    (path,) = (suite / "scores").iterdir()
    return path


@pytest.fixture
def nothing_left(tmp_path, monkeypatch):
    """Temporary folders are made in an empty one, which is empty again in the end."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


def change(path, by):
    content = read_json(path)
    by(content)
    write_json(path, content)


def state(folder):
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


# Confirmed


def test_a_result_is_confirmed_and_nothing_is_written(suite, result, nothing_left, said):
    before = state(suite)
    assert said("verify", result).out == f"{result}\n  {EQUAL}\n"
    assert state(suite) == before


def test_scores_say_on_how_many_threads_they_were_made(job, tmp_path, global_state):
    torch.set_num_threads(3)
    result = job("untrained", tmp_path, "--tasks", "STS-B")
    assert read_json(result)["provenance"]["device"]["threads"] == 3


@pytest.mark.parametrize(
    ("threads", "deterministic", "used"), [(1, True, 1), (3, False, 3), (400, False, 3)]
)
def test_threads_and_determinism_are_those_of_the_result(
    threads, deterministic, used, result, monkeypatch
):
    seen, plain = [], module.score_encoder

    def score(*words):
        seen.append((torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()))
        return plain(*words)

    monkeypatch.setattr(module, "score_encoder", score)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 3)
    change(result, lambda c: c["provenance"]["device"].update(threads=threads))
    change(result, lambda c: c["provenance"]["arithmetic"].update(deterministic=deterministic))
    verify(result)
    assert seen == [(used, deterministic)]


def test_what_evaluate_wrote_is_confirmed(tiny_bert, tmp_path, nothing_left, said):
    out = tmp_path / "scores.json"
    options = ["--pooler", "avg", "--mode", "dev", "--data", "world", "--out", out]
    said("evaluate", tiny_bert, *options, "--tasks", "MRPC", "TREC", "sts")
    assert verify(out).verdict == EQUAL
    change(out, lambda c: c["provenance"].update(pooler="cls_before_pooler"))
    assert "the encoder differs" in verify(out).verdict


def test_what_is_not_trained_is_made_again_outside_the_suite(job, tmp_path, nothing_left):
    suite = tmp_path / "suite"
    result = job("untrained[pooler=avg]+whitening[source=sts]", suite, "--tasks", *TASKS)
    shutil.rmtree(suite / "corpora", ignore_errors=True)  # it would be made anew
    before = state(suite)
    assert verify(result).verdict == EQUAL
    assert state(suite) == before


# Found


@pytest.mark.parametrize(
    ("share", "word", "status"), [(0.5, "confirmed", 0), (1.5, "not confirmed", 1)]
)
def test_the_largest_difference_of_a_score_is_told(share, word, status, result, said):
    def move(content):
        content["provenance"]["versions"]["torch"] = "1.0"
        content["records"][0]["value"] -= 1e-9
        content["records"][3]["value"] -= share * ROUNDING

    change(result, move)
    value = read_json(result)["records"][3]["value"]
    _, version, verdict = said("verify", result, status=status).out.splitlines()
    assert version.strip() == f"versions, torch: 1.0, now {torch.__version__}"
    assert verdict.strip() == (
        f"{word}: the largest difference is {share * ROUNDING:.2g} points, rounding explains 0.02 "
        f"(STS-B test spearman: {value:.4f} recorded, {value + share * ROUNDING:.4f} again)"
    )


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (lambda c: c["records"][0].update(method="is-cse"), "name another method"),
        (lambda c: c["provenance"]["run"].update(method="is-cse", label="IS-CSE"), "label, method"),
        (lambda c: c["provenance"]["outcome"].update(best_dev=99.0), "its outcome is not what"),
    ],
)
def test_scores_of_another_run_are_not_confirmed(result, by, said):
    """Equal scores confirm nothing where the file says that they are another method's."""
    change(result, by)
    results = verify(result)
    assert not results.differences
    assert not results.confirmed
    assert said in results.verdict


def changed_weights(encoder, untrained):
    tensors = load_file(encoder / "model.safetensors")
    name = next(name for name in tensors if name.endswith("word_embeddings.weight"))
    tensors[name][3, 2] += 1e-3  # a token that no sentence has: no score changes
    save_file(tensors, encoder / "model.safetensors", metadata={"format": "pt"})


def another_encoder(encoder, untrained):
    shutil.rmtree(encoder)
    save_encoder(untrained, encoder)


@pytest.mark.parametrize(
    ("change_of", "told"),
    [
        (changed_weights, "the files in .*encoder are not those that were saved; restore them"),
        (another_encoder, "is not the encoder that .*outcome.json tells of; restore it"),
    ],
)
def test_an_encoder_that_is_not_the_trained_one_is_refused(
    suite, result, change_of, told, tiny_bert, said, refused
):
    change_of(suite / "runs" / result.stem / "encoder", load_encoder(tiny_bert, pooler="avg"))
    assert re.search(told, refused(result))
    words = ["job", result.stem, "--suite", suite, "--stages", "score"]
    said(*words)  # it is here
    result.unlink()
    assert re.search(told, said(*words, status=2).err)


def test_records_that_were_taken_out_or_put_in_are_found(result):
    """The sums of the tasks name STS-B."""

    def exchange(content):
        pearson = content["records"][0] | {"metric": "pearson"}
        content["records"] = [*content["records"][:3], pearson]

    change(result, exchange)
    scores = "STS-B dev spearman, STS-B test spearman, STS12 test pearson"
    assert verify(result).verdict == f"not confirmed: only recorded or only scored again: {scores}"


def test_changed_data_are_found_and_other_files_beside_them_are_not(result, tiny_data, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(tiny_data, data)
    (data / "downstream" / "another.txt").write_text("of a task that is not scored")
    assert verify(result, data=str(data)).confirmed
    path = data / "downstream" / "STS" / "STSBenchmark" / "sts-dev.csv"
    rows = path.read_text().splitlines()
    path.write_text("\n".join([rows[1], rows[0], *rows[2:]]) + "\n")  # the same scores
    told = f"not confirmed: the data changed since (STS-B in {data})"
    assert verify(result, data=str(data)).verdict == told
    change(data / "manifest.json", lambda c: c.update(name="other"))
    assert f"it was scored on tiny, and {data} is other" in verify(result, data=str(data)).verdict


# Cannot be verified


@pytest.fixture
def refused(said):
    def run(*words):
        error = said("verify", *words, status=2).err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        return error

    return run


def test_a_missing_encoder_is_named_and_another_suite_may_have_it(
    suite, result, tmp_path, said, refused
):
    (suite / "runs").rename(tmp_path / "runs")
    folder = suite / "runs" / result.stem / "encoder"
    told = f"{result} cannot be verified: {result.stem} has no encoder: {folder} does not exist"
    assert told in refused(result)
    said("verify", result, "--suite", tmp_path)


def test_the_others_are_verified_all_the_same(result, said):
    gone = result.with_name("gone.json")
    printed = said("verify", gone, result, status=2)
    assert EQUAL in printed.out
    assert f"{gone} does not exist" in printed.err


def test_what_holds_no_scores_is_one_sentence(job, result, tmp_path, refused):
    result.write_text("{}")
    assert f"{result} is not a scores file ('provenance' is missing)" in refused(result)
    skipped = job("sscl[layer=11]", tmp_path / "skipped")
    told = "holds no scores to verify, since its run was skipped (layer 11 is not an intermediate"
    assert f"{skipped} {told}" in refused(skipped)


def test_a_method_that_changed_since_is_one_sentence(job, tmp_path, monkeypatch, refused):
    result = job("untrained", tmp_path, "--tasks", "STS-B")
    monkeypatch.setattr(Untrained, "version", Untrained.version + 1)
    assert f"{result} is of {result.stem}, which is " in refused(result)
