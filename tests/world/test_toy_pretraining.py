"""Pre-training of toy backbones: files, determinism, and the loss after a few steps."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
import torch

from bench.datasets.corpora import corpus_path, read_sentences
from bench.models.transformer import load_backbone
from bench.utils.errors import UserError
from bench.world.toy_backbones import SIZE, _batches, _cooccurrence_vectors, pretrain
from tests.world.masked import masked_loss


@pytest.fixture(scope="module", params=["bert", "roberta"])
def toy(
    request: pytest.FixtureRequest, short_world: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp("toys") / request.param
    pretrain(short_world, request.param, out, steps=3)
    return request.param, out


@pytest.mark.slow
def test_same_seed_same_bytes(toy: tuple[str, Path], short_world: Path, tmp_path: Path) -> None:
    kind, folder = toy
    torch.manual_seed(99)  # the caller's stream is neither used nor moved
    before = torch.get_rng_state()
    pretrain(short_world, kind, tmp_path / "again", steps=3)
    assert torch.equal(torch.get_rng_state(), before)
    names = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert {file.name for file in folder.iterdir()} == names
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    pretrain(short_world, kind, tmp_path / "other", seed=1, steps=3)
    for name, same in (("tokenizer.json", True), ("model.safetensors", False)):
        other = (tmp_path / "other" / name).read_bytes()
        assert ((folder / name).read_bytes() == other) is same


def test_the_house_loads_it(toy: tuple[str, Path]) -> None:
    from transformers import AutoModel, AutoTokenizer

    kind, folder = toy
    model, tokenizer = load_backbone(folder)[:2]
    assert model.config.num_hidden_layers >= 4
    assert model.config.hidden_dropout_prob == model.config.attention_probs_dropout_prob == 0.1
    plain, loading = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert sorted(key.split(".")[0] for key in loading["missing_keys"]) == ["pooler", "pooler"]
    ids = AutoTokenizer.from_pretrained(folder)("the chef sliced the onion .")
    assert ("token_type_ids" in ids) == (kind == "bert")
    batch = torch.tensor([ids["input_ids"]])
    vectors, expected = (each.eval()(batch).last_hidden_state for each in (model, plain))
    assert torch.equal(vectors, expected)
    text = tokenizer.decode(ids["input_ids"], skip_special_tokens=True)
    assert text.replace(" ", "") == "thechefslicedtheonion."


def test_tokenizers_treat_case_as_their_models_do(toy: tuple[str, Path]) -> None:
    kind, folder = toy
    tokenizer = load_backbone(folder)[1]
    same = tokenizer("The Chef")["input_ids"] == tokenizer("the chef")["input_ids"]
    assert same == (kind == "bert")
    for text in ("the chef", "Zürich !"):
        first, *_, last = tokenizer(text)["input_ids"]
        assert (first, last) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
    if kind == "roberta":
        assert tokenizer.decode(tokenizer("Zürich #7\t!")["input_ids"][1:-1]) == "Zürich #7\t!"
        config = json.loads((folder / "config.json").read_text())
        assert config["max_position_embeddings"] == SIZE.positions + 2
        assert config["pad_token_id"] == tokenizer.pad_token_id == 1


@pytest.mark.slow
def test_a_few_steps_teach_something(short_world: Path, tmp_path: Path) -> None:
    """After 60 steps, the loss of a masked word is well below ln(vocabulary), a new model's."""
    from transformers import AutoTokenizer, BertForMaskedLM

    sentences = read_sentences(corpus_path("world", short_world), 40)
    losses = []
    for steps in (1, 60):
        pretrain(short_world, "bert", tmp_path / str(steps), steps=steps)
        model = BertForMaskedLM.from_pretrained(tmp_path / str(steps)).eval()
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / str(steps))
        encoded = [tokenizer(text, return_tensors="pt")["input_ids"] for text in sentences]
        losses.append(fmean(masked_loss(model, tokenizer, ids, 1) for ids in encoded))
    assert losses[0] > np.log(model.config.vocab_size) - 1
    assert losses[1] < losses[0] - 1


def test_words_of_one_topic_start_near_each_other() -> None:
    """Vectors are similar within a topic and not between two topics that never co-occur."""
    rows = [[0, 5, 6, 7, 1], [0, 6, 7, 5, 1], [0, 8, 9, 10, 1], [0, 9, 10, 8, 1]] * 5
    rows.sort(key=lambda row: row[1] > 7)
    vectors = torch.nn.functional.normalize(_cooccurrence_vectors(rows, 11, 4), dim=-1)
    alike = (vectors @ vectors.T).numpy()
    assert alike[5:8, 5:8].min() > alike[5:8, 8:11].max() + 0.5


def test_batches_visit_every_row_once_an_epoch() -> None:
    rows = [[0, *range(5, 5 + n % 7), 1] for n in range(64)]
    batches = _batches(rows, 4, torch.Generator().manual_seed(0))
    epoch = [row for _ in range(16) for row in next(batches)]
    assert sorted(epoch) == sorted(rows)
    assert np.mean([len({len(row) for row in next(batches)}) for _ in range(16)]) < 2.5


def test_mistakes(short_world: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'roberta'"):
        pretrain(short_world, "robert", tmp_path / "toy")
    with pytest.raises(UserError, match="is not in"):
        pretrain(tmp_path, "bert", tmp_path / "toy")
    for threads in (-1, 0, 100_000):
        with pytest.raises(UserError, match=f"--threads is {threads}; use 1 to"):
            pretrain(short_world, "bert", tmp_path / "toy", threads=threads)
    assert not (tmp_path / "toy").exists()
