"""examples/: the method, the function, the suite with an STS set of one's own, and the notebook,
each run."""

import json
import re
import sys
from statistics import fmean, stdev

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaModel

import sentbench
from bench.registry.methods import method_class
from bench.results.records import read_scores
from examples import contrast
from tests.support.programs import ROOT, ended, snakemake
from tests.support.tiny_suite import tiny_configuration

EXAMPLES = ROOT / "examples"
NOTEBOOK = json.loads((EXAMPLES / "results.ipynb").read_text(encoding="utf-8"))
TASK = "sts:short"


@pytest.mark.parametrize("strength", [0.0, 0.5])
def test_the_methods_term_is_its_formula(strength, monkeypatch):
    """As plain loops; a wrong sign, a missing 1/d or the own pairs would differ. 0 is SimCSE."""
    monkeypatch.setenv("BENCH_METHODS", str(EXAMPLES / "spread_out.py"))
    method = method_class("spread-out")
    draw = np.random.default_rng(0)
    left, right = (draw.normal(0.3, 1, (5, 3)) for _ in range(2))
    made = method(method.Hyper(strength=strength), None)
    result = made.terms(torch.from_numpy(left), torch.from_numpy(right), 0.05, None)
    pairs = [(a, b) for i, a in enumerate(left) for j, b in enumerate(right) if i != j]
    cosines = [a @ b / np.sqrt((a @ a) * (b @ b)) for a, b in pairs]
    excess = sum(cosine**2 for cosine in cosines) / len(cosines) - 1 / 3
    assert excess > 0
    expected = (sum(cosines) / len(cosines)) ** 2 + excess
    terms = [(weight, pytest.approx(float(term), rel=1e-12)) for weight, term in result]
    assert terms == ([(strength, expected)] if strength else [])


def at_the_projection(model, ids):
    """What the output projection of the first layer's attention receives at the last token."""
    seen = []
    projection = model.layers[0].self_attn.o_proj
    with projection.register_forward_hook(lambda _, received, __: seen.append(received[0])):
        model(torch.tensor([ids]))
    return seen[0][0, -1]


def random_decoder(folder, **sizes):
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(
        ROOT / "bench" / "world" / "backbones" / "toy-roberta"
    )
    config = LlamaConfig(vocab_size=len(tokenizer), num_attention_heads=4, **sizes)
    model = LlamaModel(config).eval()
    for part in (model, tokenizer):
        part.save_pretrained(folder)
    return model, tokenizer


@torch.no_grad()
def test_contrastive_prompting_is_that_of_each_sentence_alone(tmp_path, monkeypatch):
    """With the layers called one by one. The function is asked for two batches, with padding."""
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3}
    model, tokenizer = random_decoder(tmp_path, initializer_range=0.15, **sizes)
    for name, value in {"MODEL": str(tmp_path), "LAYER": 0, "OUTPUT": 2, "DEVICE": "cpu"}.items():
        monkeypatch.setattr(contrast, name, value)
    sentences = ["The captain steers the ship .", "{Ships} sail at noon in the harbour .", ""]
    expected = []
    for sentence in sentences:
        ids, auxiliary = (
            tokenizer(text.replace("{}", sentence))["input_ids"]
            for text in (contrast.TEXT, contrast.AUXILIARY)
        )
        before = model.embed_tokens(torch.tensor([ids]))
        angles = model.rotary_emb(before, torch.arange(len(ids))[None])
        first, second = model.layers[:2]
        states = first(before, position_embeddings=angles)
        change = 0.5 * (at_the_projection(model, ids) - at_the_projection(model, auxiliary))
        last = before[0, -1] + first.self_attn.o_proj(change)
        states[0, -1] = last + first.mlp(first.post_attention_layernorm(last))
        expected.append(second(states, position_embeddings=angles)[0, -1])
    torch.testing.assert_close(contrast.encode(sentences, 2), torch.stack(expected))


@pytest.mark.slow
def test_the_suite_and_the_notebook_do_what_they_say(tmp_path):
    """In a copy of the folder, with the notebook's cells run one after the other. It holds no
    outputs, which nothing would renew."""
    code = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    (tmp_path / "examples").mkdir()
    for name in ("spread_out.py", "suite.yaml", "short_sts"):
        (tmp_path / "examples" / name).symlink_to(EXAMPLES / name)
    (told,) = re.findall(r"`snakemake (.+?)`", "".join(NOTEBOOK["cells"][0]["source"]))
    snakemake(*told.split(), "--until", "render", cwd=tmp_path)

    cells = ["".join(cell["source"]) for cell in code]
    text = "import json; print(json.dumps([x.to_dict('records') for x in (leaderboard, compared)]))"
    script = "\n".join([*cells, text])
    done = ended(sys.executable, "-c", script, cwd=tmp_path / "examples", MPLBACKEND="agg")
    leaderboard, compared = json.loads(done.stdout)

    names = {"word-overlap": "Word overlap", "simcse": "SimCSE", "spread-out": "Spread-out"}
    scores = {name: [] for name in names.values()}
    for path in (tmp_path / "results" / "example" / "scores").iterdir():
        tests = [row for row in read_scores(path).records if row.split == "test"]
        (record,) = [row for row in tests if row.aggregation == "all"]
        scores[names[path.name.partition("_")[0]]].append(record.value)
    expected = {name: pytest.approx(fmean(values)) for name, values in scores.items()}
    assert {row["label"]: row[TASK] for row in leaderboard} == expected
    (simcse,) = (row for row in leaderboard if row["label"] == "SimCSE")
    assert simcse[f"{TASK} sd"] == pytest.approx(stdev(scores["SimCSE"]))
    (row,) = compared
    assert row["difference"] == pytest.approx(fmean(scores["Spread-out"]) - fmean(scores["SimCSE"]))


@pytest.mark.slow
def test_templates_of_a_decoder_are_a_row_beside_simcse(tmp_path):
    """One row with a standard deviation."""
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4}
    random_decoder(tmp_path / "decoder", **sizes)
    decoder = {"model": "./decoder", "label": "random decoder", "pooler": "last"}
    suite = tiny_configuration(
        "toy-bert", "world", "world", mode="dev", tasks=["STS-B", "MRPC"], runs_per_job=10,
        methods=["simcse"], compare={"baseline": "simcse"},
        encoders=[decoder | {"template": "prompteol"}],
        recipe={"learning_rate": 1e-3, "sentences": 640, "select_every": 5},
    )  # fmt: skip
    (tmp_path / "short.yaml").write_text(json.dumps(suite), encoding="utf-8")
    snakemake("--cores", "2", "--configfile", "short.yaml", cwd=tmp_path)
    leaderboard = sentbench.leaderboard(sentbench.read_suite(tmp_path / "results" / "tiny"))
    result = leaderboard.set_index("label").loc["random decoder (outside encoder)"]
    assert (result["n"], result["verdict"]) == (5, "")
    assert 0 < result["STS-B sd"] < 5
