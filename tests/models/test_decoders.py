"""Decoders: tiny random ones with a byte-level tokenizer of their own, as plain transformers code
computes them for each sentence alone.

Mutations caught: a last token that is padding; weights of positions from 0; a mean over the
template; a template that is cut; a bfloat16 model whose rotations are rounded, too; an adapter that
is not merged, or merged twice.
"""

import shutil
from functools import cache

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import bench
from bench.__main__ import main
from bench.models import encoder as encoders
from bench.models.encoder import TransformerEncoder
from bench.models.load import Model, ModularEncoder, load_encoder, save_encoder
from bench.registry.backbones import fingerprint
from bench.results.records import read_scores
from tests.conftest import make_sentences
from tests.models.folders import change, pooling, refused, write

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 320, "initializer_range": 0.15}
HEADS = {"num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 160}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 160, "vocab_size": 320}
KINDS = {
    "qwen3": ("Qwen3Config", SIZES | HEADS | {"num_key_value_heads": 2, "head_dim": 8}),
    "llama": ("LlamaConfig", SIZES | HEADS | {"num_key_value_heads": 2}),
    "gpt2": ("GPT2Config", GPT2 | {"initializer_range": 0.15}),
    "mamba": ("MambaConfig", SIZES | {"state_size": 8}),
}
POOLERS = ("last", "weighted_mean", "avg", "avg_first_last")
SENTENCES = [*make_sentences(6, seed=4), 'Ein Café, naïve – 不了 "2" cats', "x", "a, b"]
PROMPT = 'This sentence : "<sentence>" means in one word:"'  # PromptEOL
ECHO = "Rewrite, please: <sentence>\nrewritten: <sentence> ."
# Of float32, relative to the largest value: ten times what was measured.
CLOSE = 1e-5


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folder of a tiny decoder of a kind; Llama's and GPT-2's tokenizers have no padding."""
    root = tmp_path_factory.mktemp("decoders")
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    words.train_from_iterator(
        [*make_sentences(200, seed=1), *20 * [PROMPT]],
        trainers.BpeTrainer(
            vocab_size=320, special_tokens=["<s>", "</s>"], initial_alphabet=letters
        ),
    )

    @cache
    def folder(kind):
        name, values = KINDS[kind]
        config = getattr(transformers, name)(**values, bos_token_id=0, eos_token_id=1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            transformers.AutoModel.from_config(config).save_pretrained(root / kind)
        around = {"qwen3": "$A </s>", "llama": "<s> $A"}.get(kind)
        special = [("<s>", 0), ("</s>", 1)]
        words.post_processor = (
            processors.TemplateProcessing(single=around, special_tokens=special)
            if around
            else processors.ByteLevel(trim_offsets=False)
        )
        padding = {"pad_token": "</s>"} if kind in ("qwen3", "mamba") else {}
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=words, bos_token="<s>", eos_token="</s>", **padding
        ).save_pretrained(root / kind)
        return root / kind

    return folder


@cache
def plain(folder, dtype=torch.float32):
    model = transformers.AutoModel.from_pretrained(folder, dtype=dtype).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def expected(folder, pooler, text, letters=None, dtype=torch.float32):
    """The vector of a text alone; of the tokens with any of its `letters`, from and up to."""
    model, tokenizer = plain(folder, dtype)
    encoded = tokenizer(text, return_offsets_mapping=True)
    ids, places = encoded["input_ids"] or [tokenizer.eos_token_id], encoded["offset_mapping"]
    with torch.no_grad():
        output = model(torch.tensor([ids]), output_hidden_states=True)
    layers = [layer[0].double() for layer in output.hidden_states]
    states = (layers[1] + layers[-1]) / 2 if pooler == "avg_first_last" else layers[-1]
    if pooler == "last":
        return states[-1].numpy()
    total, weights = torch.zeros(32, dtype=torch.float64), 0
    for index, state in enumerate(states):
        if letters is None or set(range(*letters)) & set(range(*places[index])):
            weight = index + 1 if pooler == "weighted_mean" else 1
            total, weights = total + weight * state, weights + weight
    return (total / weights).numpy()


def check(found, wanted, close=CLOSE):
    wanted = np.stack(wanted)
    assert found.dtype == np.float32
    assert np.abs(found - wanted).max() <= close * np.abs(wanted).max()


@pytest.mark.parametrize("pooler", POOLERS)
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_those_of_each_sentence_alone(kind, pooler, folders, monkeypatch):
    """In several batches, with padding and without."""
    monkeypatch.setattr(encoders, "ALONE", 64)
    texts = [*SENTENCES, ""]
    found = load_encoder(folders(kind), pooler=pooler).encode(texts)
    check(found, [expected(folders(kind), pooler, text) for text in texts])


# Templates


def around(template, sentence):
    """The text, and where the last sentence begins and ends in it."""
    before, _, after = template.rpartition("<sentence>")
    before = before.replace("<sentence>", sentence)
    return f"{before}{sentence}{after}", (len(before), len(before) + len(sentence))


@pytest.mark.parametrize("pooler", POOLERS)
@pytest.mark.parametrize("template", [PROMPT, ECHO])
@pytest.mark.parametrize("kind", ["qwen3", "llama", "gpt2"])
def test_a_template(kind, template, pooler, folders):
    """PromptEOL, and echo embeddings: a mean sees the second sentence alone."""
    found = load_encoder(folders(kind), pooler=pooler, template=template).encode([*SENTENCES, ""])
    texts = [around(template, sentence) for sentence in SENTENCES]
    wanted = [expected(folders(kind), pooler, text, letters) for text, letters in texts]
    blank = expected(folders(kind), pooler, around(template, "")[0])  # all tokens
    check(found, [*wanted, blank])


def test_a_long_sentence_is_cut_and_its_template_stays_whole(folders):
    encoder = load_encoder(folders("qwen3"), pooler="avg", template=ECHO)
    for sentence in (60 * "the old dog sees ", 80 * "不了", 400 * "q"):
        text = encoder.tokenizer.decode(encoder.tokenize([sentence])[0])
        first, second = text.removeprefix("Rewrite, please: ").split("\nrewritten: ")
        assert second == f"{first} .</s>"
        assert first
        assert sentence.startswith(first)
        longer = ECHO.replace("<sentence>", sentence[: len(first) + 12])
        assert (
            len(encoder.tokenize([sentence])[0])
            <= 160
            < len(encoder.tokenizer(longer)["input_ids"])
        )
    long = load_encoder(folders("qwen3"), pooler="avg", template=200 * "q " + "<sentence>")
    refused(lambda: long.encode(["a"]), "alone has", "the model takes 160; shorten it")


def test_a_template_is_part_of_the_identity_and_kept(folders, tmp_path):
    folder = folders("llama")
    options = [{}, {"template": PROMPT}, {"template": ECHO}, {"dtype": "bfloat16"}]
    all_of_them = [load_encoder(folder, pooler="last", **chosen) for chosen in options]
    assert len({encoder.identity for encoder in all_of_them}) == 4
    for index, encoder in enumerate(all_of_them):
        save_encoder(encoder, tmp_path / str(index))
        again = load_encoder(tmp_path / str(index))
        assert again.identity == encoder.identity
        np.testing.assert_array_equal(again.encode(SENTENCES), encoder.encode(SENTENCES))
        encoder.read_tokens(SENTENCES, tmp_path)  # of another length or template
        np.testing.assert_array_equal(again.encode(SENTENCES), encoder.encode(SENTENCES))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pooler": "avg", "template": "no place"}, "the template 'no place' lacks <sentence>"),
        ({"pooler": "avg_first_last_64", "template": PROMPT}, "averages padding and takes no temp"),
        ({"template": PROMPT}, "choose one with --pooler"),
        ({"pooler": "avg", "dtype": "float8"}, "unknown dtype 'float8'"),
        ({"pooler": "avg", "dims": 33}, "the vectors have 32 dimensions; choose dims from 1 to 32"),
        ({"pooler": "cls_before_pooler"}, "sees no other token, or is not [CLS]"),
    ],
)
def test_options_that_do_not_fit(options, words, folders, tmp_path):
    refused(lambda: load_encoder(folders("qwen3"), **options), words)
    save_encoder(load_encoder(folders("qwen3"), pooler="avg"), tmp_path / "saved")
    refused(lambda: load_encoder(tmp_path / "saved", dtype="bfloat16"), "omit --template and --dty")


def test_a_template_in_brackets_may_have_commas_and_brackets():
    word = f"a/b[template={PROMPT},pooler=last]"
    assert Model.read(word) == Model("a/b", "last", template=PROMPT)
    for template in (ECHO, "[INST] Hi, you: <sentence> [/INST]", " <sentence>, in short, it is "):
        model = Model("a/b", "last", template=template, dims=8, dtype="bfloat16", normalize=True)
        assert Model.read(model.label) == model
        assert Model.stored(model.describe()) == model
    refused(lambda: Model.read("a/b[template=Well, then, <sentence>]"), "unknown option 'then")
    refused(lambda: Model.read("a/b[template=x=1, y=<sentence>]"), "unknown option 'y'")
    refused(lambda: Model.read("a/b[dims=few]"), "dims 'few'")
    refused(lambda: Model.read("a/b[dims=4,dims=5]"), "'dims' twice")


# Dimensions and types


def test_the_first_dimensions_come_before_the_length(folders):
    all_of_them = load_encoder(folders("qwen3"), pooler="last").encode(SENTENCES)
    encoder = load_encoder(folders("qwen3"), pooler="last", dims=8, normalize=True)
    first = all_of_them[:, :8]
    lengths = np.linalg.norm(first, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(SENTENCES), first / lengths, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_is_that_of_transformers(kind, folders):
    """Weights and buffers are equal bit for bit; products round by batch."""
    encoder = load_encoder(folders(kind), pooler="weighted_mean", dtype="bfloat16")
    model, _ = plain(folders(kind), torch.bfloat16)
    for ours, theirs in (
        (encoder.model.state_dict(), model.state_dict()),
        (dict(encoder.model.named_buffers()), dict(model.named_buffers())),
    ):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
        assert all(ours[name].dtype == theirs[name].dtype for name in ours)
    wanted = [
        expected(folders(kind), "weighted_mean", text, dtype=torch.bfloat16) for text in SENTENCES
    ]
    check(encoder.encode(SENTENCES), wanted, close=0.02)


# Folders of sentence-transformers


@pytest.mark.parametrize("mode", ["lasttoken", "weightedmean"])
def test_modules_are_those_of_the_library(mode, folders, tmp_path):
    """As Qwen3-Embedding and e5-mistral have them; padded on the left by the library."""
    from sentence_transformers import SentenceTransformer

    folder = shutil.copytree(folders("qwen3"), tmp_path / "modules")
    change(folder / "tokenizer_config.json", padding_side="left")
    write(folder, pooling(pooling_mode=mode), {"kind": "Normalize"})
    found, texts = load_encoder(folder, normalize=True), [*SENTENCES, "", 90 * "a dog "]
    assert isinstance(found.base, TransformerEncoder)
    check(found.encode(texts), SentenceTransformer(str(folder), device="cpu").encode(texts))
    half = load_encoder(folder, normalize=True, dtype="bfloat16")
    assert isinstance(half.base, ModularEncoder)
    options = {"dtype": torch.bfloat16}
    library = SentenceTransformer(str(folder), device="cpu", model_kwargs=options)
    check(half.encode(texts), library.encode(texts), close=0.02)
    assert len({half.identity, found.identity, load_encoder(folder).identity}) == 3


# Large models


def test_the_states_of_a_batch_are_bounded(folders, monkeypatch):
    """Three times 32 numbers of 4 bytes a token: a batch has at most 30 tokens."""
    encoder, seen = load_encoder(folders("qwen3"), pooler="last"), []
    wanted = encoder.encode(SENTENCES)
    monkeypatch.setattr(encoders, "STATE_BYTES", 30 * 3 * 32 * 4)
    hook = encoder.model.register_forward_pre_hook(
        lambda module, args, inputs: seen.append(inputs), with_kwargs=True
    )
    np.testing.assert_allclose(encoder.encode(SENTENCES), wanted, rtol=1e-4, atol=1e-5)
    hook.remove()
    assert max(inputs["input_ids"].numel() for inputs in seen if len(inputs["input_ids"]) > 1) <= 30
    assert not any(inputs["output_hidden_states"] or inputs["use_cache"] for inputs in seen)


@pytest.mark.parametrize(("width", "layers"), [(768, 12), (1024, 24)])
def test_bert_has_whole_batches_on_a_gpu(width, layers):
    assert encoders.STATE_BYTES // (4 * width * (layers + 1)) > encoders.TOKEN_BUDGET["cuda"]


# Adapters


@pytest.fixture
def adapted(folders, tmp_path):
    """A base, the folder of an adapter of it, and the vectors that peft gives; of a model with a
    head or without."""
    peft = pytest.importorskip("peft")

    def made(kind="llama", loader="AutoModel"):
        base, folder = folders(kind), tmp_path / loader
        model = getattr(transformers, loader).from_pretrained(base)
        config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"])
        adapter = peft.get_peft_model(model, config).eval()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            for name, weight in adapter.named_parameters():
                if "lora_B" in name:
                    torch.nn.init.normal_(weight, std=0.2)
        adapter.save_pretrained(folder)
        tokenizer, vectors = plain(base)[1], []
        for text in SENTENCES:
            ids = torch.tensor([tokenizer(text)["input_ids"]])
            with torch.no_grad():
                output = adapter(input_ids=ids, output_hidden_states=True)
            vectors.append(output.hidden_states[-1][0, -1].numpy())
        return base, folder, vectors

    return made


@pytest.mark.parametrize("loader", ["AutoModel", "AutoModelForCausalLM"])
@pytest.mark.parametrize("alone", [True, False])
def test_an_adapter_is_that_of_peft(adapted, loader, alone, tmp_path):
    base, folder, wanted = adapted(loader=loader)
    before = load_encoder(base, pooler="last").encode(SENTENCES)
    if not alone:
        shutil.copytree(base, folder, dirs_exist_ok=True)
    check(load_encoder(folder, pooler="last").encode(SENTENCES), wanted)
    assert np.abs(before - wanted).max() > 0.1
    half = load_encoder(folder, pooler="last", dtype="bfloat16").encode(SENTENCES)
    check(half, wanted, close=0.05)


def test_the_base_of_an_adapter_is_part_of_its_identity(adapted, tmp_path):
    base, folder, _ = adapted()
    copied = shutil.copytree(base, tmp_path / "base")
    change(folder / "adapter_config.json", base_model_name_or_path=str(copied))
    before = fingerprint(str(folder))
    change(copied / "config.json", rms_norm_eps=1e-3)
    assert fingerprint(str(folder)) != before


def test_adapters_that_do_not_fit(adapted, tmp_path):
    _, folder, _ = adapted()
    change(folder / "adapter_config.json", target_modules=["q_proj"])
    refused(lambda: load_encoder(folder, pooler="last"), "does not fit the model", "v_proj")
    change(folder / "adapter_config.json", base_model_name_or_path=str(tmp_path / "nowhere"))
    refused(lambda: load_encoder(folder, pooler="last"), "nowhere does not exist")
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    refused(lambda: load_encoder(folder, pooler="last"), "adapter_model.bin", "pickled")


def test_options_are_recorded_and_verified(folders, tiny_data, tmp_path, capsys):
    """The score of a template is that of the vectors by hand; results say how to get them again."""
    folder, out = folders("llama"), tmp_path / "scores.json"
    word = f"{folder}[template={PROMPT},pooler=last,dims=8,dtype=bfloat16]"
    data = ["--tasks", "STS-B", "--data", str(tiny_data)]
    assert main(["evaluate", word, *data, "--out", str(out)]) == 0
    described, records = read_scores(out)
    assert (described["template"], described["dims"], described["dtype"]) == (PROMPT, 8, "bfloat16")
    assert records[0]["method"].endswith(f",template={PROMPT},dims=8,dtype=bfloat16]")
    assert main(["verify", str(out)]) == 0
    plain_encoder = load_encoder(folder, pooler="last", dtype="bfloat16")
    by_hand = bench.score(
        lambda texts: plain_encoder.encode([around(PROMPT, text)[0] for text in texts])[:, :8],
        ["STS-B"],
        str(tiny_data),
    )
    values = [record["value"] for record in by_hand]
    assert [record["value"] for record in records] == pytest.approx(values, abs=0.5)
