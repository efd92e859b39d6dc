"""Decoders: tiny random ones with a byte-level tokenizer, as plain transformers code computes them
for each sentence alone.

Mutations caught: a last token that is padding; weights of positions from 0; a mean over the
template; a template that is cut; rotations rounded to bfloat16; an adapter that is not merged, or
merged twice.
"""

import shutil
from functools import cache

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from bench.models import encoder as encoders
from bench.models.encoder import TransformerEncoder
from bench.models.load import Model, ModularEncoder, load_encoder, save_encoder
from bench.registry.backbones import backbone_fingerprint
from bench.utils.files import read_json
from tests.conftest import make_sentences
from tests.models.folders import change, pooling, refused, write

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 320, "initializer_range": 0.15}
SIZES |= {"bos_token_id": 0, "eos_token_id": 1}
HEADS = {"num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 160}
# Kind -> its configuration, and how its tokenizer surrounds a text.
KINDS = {
    "qwen3": ("Qwen3Config", HEADS | {"num_key_value_heads": 2, "head_dim": 8}, "$A </s>"),
    "llama": ("LlamaConfig", HEADS | {"num_key_value_heads": 2}, "<s> $A"),
    "gpt2": ("GPT2Config", {"n_head": 4, "n_positions": 160}, "$A"),
    "mamba": ("MambaConfig", {"state_size": 8}, "$A"),
}
POOLERS = ("last", "weighted_mean", "avg")
SENTENCES = [*make_sentences(6, seed=4), 'Ein Café, naïve – 不了 "2" cats', "x", "a, b"]
PROMPT = 'This sentence : "<sentence>" means in one word:"'  # PromptEOL
ECHO = "Rewrite, please: <sentence>\nrewritten: <sentence> ."


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folder of a tiny decoder of a kind; only Qwen3's tokenizer has a token for padding."""
    root, special = tmp_path_factory.mktemp("decoders"), [("<s>", 0), ("</s>", 1)]
    words, letters = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel.alphabet()
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    options = {"vocab_size": 320, "special_tokens": ["<s>", "</s>"], "initial_alphabet": letters}
    texts = [*make_sentences(200, seed=1), *20 * [PROMPT]]
    words.train_from_iterator(texts, trainers.BpeTrainer(**options))

    @cache
    def folder(kind):
        name, values, single = KINDS[kind]
        config = getattr(transformers, name)(**SIZES, **values)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            transformers.AutoModel.from_config(config).save_pretrained(root / kind)
        words.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
        given = {"bos_token": "<s>", "eos_token": "</s>"}
        given |= {"pad_token": "</s>"} if kind == "qwen3" else {}
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, **given)
        tokenizer.save_pretrained(root / kind)
        return root / kind

    return folder


@cache
def plain(folder, dtype=torch.float32):
    model = transformers.AutoModel.from_pretrained(folder, dtype=dtype).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def expected(folder, pooler, text, part, dtype=torch.float32):
    """The vector of a text alone; a mean is of tokens with a letter of `part`, if it has any."""
    model, tokenizer = plain(folder, dtype)
    encoded = tokenizer(text, return_offsets_mapping=True)
    ids, places = encoded["input_ids"] or [tokenizer.eos_token_id], encoded["offset_mapping"]
    with torch.no_grad():
        states = model(torch.tensor([ids])).last_hidden_state[0].double().numpy()
    if pooler == "last":
        return states[-1]
    letters, is_whole = {*range(*part)}, part == (0, len(text)) or part[0] == part[1]
    seen = [i for i in range(len(ids)) if is_whole or letters & {*range(*places[i])}]
    weights = [i + 1 if pooler == "weighted_mean" else 1 for i in seen]
    return sum(w * states[i] for w, i in zip(weights, seen, strict=True)) / sum(weights)


def check(found, wanted, close=1e-5):  # of the largest value: ten times the rounding of float32
    wanted = np.stack(wanted)
    assert found.dtype == np.float32
    assert np.abs(found - wanted).max() <= close * np.abs(wanted).max()


def around(template, sentence):
    """The text, and where the last sentence begins and ends in it."""
    start = len(template.rpartition("<sentence>")[0].replace("<sentence>", sentence))
    return template.replace("<sentence>", sentence), (start, start + len(sentence))


def test_what_is_saved_can_be_read_by_transformers_4(folders, tmp_path):
    """Without the keys that only 5 knows, it is the same encoder."""
    made, saved = shutil.copytree(folders("llama"), tmp_path / "made"), tmp_path / "saved"
    rotations = {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}
    change(made / "config.json", rope_parameters=rotations)
    change(made / "tokenizer_config.json", extra_special_tokens=["<s>"])
    encoder = load_encoder(made, pooler="avg")
    save_encoder(encoder, saved)
    assert load_encoder(saved).identity == encoder.identity
    tokenizer = read_json(saved / "tokenizer_config.json")
    assert tokenizer["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert "extra_special_tokens" not in tokenizer
    change(saved / "config.json", rope_parameters=None)
    change(saved / "encoder.json", sha256=None)
    assert load_encoder(saved).identity == encoder.identity


@pytest.mark.parametrize("pooler", POOLERS)
@pytest.mark.parametrize("template", [None, PROMPT, ECHO])
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_those_of_each_sentence_alone(kind, template, pooler, folders, monkeypatch):
    """In several batches; of PromptEOL, and of echo, whose mean sees the second sentence alone."""
    monkeypatch.setattr(encoders, "ALONE", 200)
    found = load_encoder(folders(kind), pooler=pooler, template=template).encode([*SENTENCES, ""])
    texts = [around(template or "<sentence>", text) for text in [*SENTENCES, ""]]
    check(found, [expected(folders(kind), pooler, text, part) for text, part in texts])


@pytest.mark.parametrize("sentence", [60 * "the old dog sees ", 80 * "不了", 400 * "q"])
def test_a_long_sentence_is_cut_and_its_template_stays_whole(sentence, folders):
    encoder = load_encoder(folders("qwen3"), pooler="avg", template=ECHO)
    tokens = encoder.tokenize([sentence])[0]
    text = encoder.tokenizer.decode(tokens)
    cut = text.removeprefix("Rewrite, please: ").partition("\n")[0]
    assert sentence.startswith(cut)
    assert text == ECHO.replace("<sentence>", cut) + "</s>"
    assert 150 < len(tokens) <= 160
    long = load_encoder(folders("qwen3"), pooler="avg", template=200 * "q " + "<sentence>")
    refused(lambda: long.encode(["a"]), "alone has", "the model takes 160; shorten it")


def test_template_and_type_are_part_of_the_identity_and_kept(folders, tmp_path):
    options, seen = [{}, {"template": PROMPT}, {"template": ECHO}, {"dtype": "bfloat16"}], set()
    for index, chosen in enumerate(options):
        encoder = load_encoder(folders("llama"), pooler="last", **chosen)
        save_encoder(encoder, tmp_path / str(index))
        again = load_encoder(tmp_path / str(index))
        again.read_tokens(SENTENCES, tmp_path)  # of this tokenizer with another template
        assert again.identity == encoder.identity
        np.testing.assert_array_equal(again.encode(SENTENCES), encoder.encode(SENTENCES))
        seen.add(encoder.identity)
    assert len(seen) == len(options)
    refused(lambda: load_encoder(tmp_path / "0", dtype="bfloat16"), "omit template and dtype")


def test_a_template_in_brackets_may_have_commas_and_brackets():
    assert Model.read(f"a[template={PROMPT},pooler=last]") == Model("a", "last", template=PROMPT)
    for template in (
        ECHO,
        "Well, then, <sentence>",
        "[INST] Hi, you: <sentence> [/INST]",
        " <sentence>, in short, it is ",
    ):
        model = Model("a/b", "last", template=template, dims=8, dtype="bfloat16", normalize=True)
        assert Model.read(model.label) == Model.stored(model.describe()) == model
    for pooler in ("contrast-4-0.5-27", "contrast-4-norm-27", "prepend-1-7-27", "last-27"):
        model = Model("a/b", pooler, template=f"<prepend> {PROMPT}\n<contrast>{ECHO}")
        assert Model.read(model.label) == model
    for options, words in (
        ("template=x=1, y=<sentence>", "unknown option 'y'"),
        ("template=[INST] <sentence> [/INST", "an unmatched bracket"),
        ("dims=few", "dims 'few'"),
        ("dims=4,dims=5", "'dims' is given twice"),
    ):
        refused(lambda options=options: Model.read(f"a[{options}]"), words)


def test_the_first_dimensions_come_before_the_length(folders):
    first = load_encoder(folders("qwen3"), pooler="last").encode(SENTENCES)[:, :8]
    encoder = load_encoder(folders("qwen3"), pooler="last", dims=8, normalize=True)
    lengths = np.linalg.norm(first, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(SENTENCES), first / lengths, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_is_that_of_transformers(kind, folders):
    """Weights and buffers are equal bit for bit; products round by batch."""
    encoder = load_encoder(folders(kind), pooler="weighted_mean", dtype="bfloat16")
    model, _ = plain(folders(kind), torch.bfloat16)
    ours, theirs = (dict(m.named_buffers()) | m.state_dict() for m in (encoder.model, model))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    given = folders(kind), "weighted_mean"
    wanted = [expected(*given, text, (0, 0), torch.bfloat16) for text in SENTENCES]
    check(encoder.encode(SENTENCES), wanted, close=0.02)


@pytest.mark.parametrize("mode", ["lasttoken", "weightedmean"])
def test_modules_are_those_of_the_library(mode, folders, tmp_path):
    """As Qwen3-Embedding and e5-mistral have them; padded on the left by the library."""
    from sentence_transformers import SentenceTransformer

    folder, texts = shutil.copytree(folders("qwen3"), tmp_path / "modules"), [*SENTENCES, ""]
    change(folder / "tokenizer_config.json", padding_side="left")
    write(folder, pooling(pooling_mode=mode), {"kind": "Normalize"})
    for name, kind, close in (
        ("float32", TransformerEncoder, 1e-5), ("bfloat16", ModularEncoder, 0.02),
    ):  # fmt: skip
        encoder = load_encoder(folder, normalize=True, dtype=name)
        assert isinstance(encoder.base, kind)
        options = {"model_kwargs": {"dtype": getattr(torch, name)}, "device": "cpu"}
        check(
            encoder.encode(texts), SentenceTransformer(str(folder), **options).encode(texts), close
        )


@pytest.fixture
def adapted(folders, tmp_path):
    """A base, the folder of an adapter of it, with a head or without, and peft's vectors."""
    peft = pytest.importorskip("peft")

    def made(loader="AutoModel", **options):
        base, folder, vectors = folders("llama"), tmp_path / "adapter", []
        config = peft.LoraConfig(**{"r": 4, "target_modules": ["q_proj", "v_proj"], **options})
        model = getattr(transformers, loader).from_pretrained(base)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            adapter = peft.get_peft_model(model, config).eval()
            for name, weight in adapter.named_parameters():
                if "lora_B" in name or "lora_embedding_B" in name:
                    torch.nn.init.normal_(weight, std=0.2)
        adapter.save_pretrained(folder)
        for text in SENTENCES:
            inputs = plain(base)[1](text, return_tensors="pt")
            with torch.no_grad():
                states = adapter(**inputs, output_hidden_states=True).hidden_states
            vectors.append(states[-1][0, -1].numpy())
        return base, folder, vectors

    return made


@pytest.mark.parametrize("loader", ["AutoModel", "AutoModelForCausalLM"])
@pytest.mark.parametrize("alone", [True, False])
def test_an_adapter_is_that_of_peft(adapted, loader, alone):
    base, folder, wanted = adapted(loader)
    if not alone:
        shutil.copytree(base, folder, dirs_exist_ok=True)
    check(load_encoder(folder, pooler="last").encode(SENTENCES), wanted)
    assert np.abs(load_encoder(base, pooler="last").encode(SENTENCES) - wanted).max() > 0.1
    half = load_encoder(folder, pooler="last", dtype="bfloat16").encode(SENTENCES)
    check(half, wanted, close=0.05)


@pytest.mark.parametrize(
    "options",
    [
        {"alpha_pattern": {"model.layers.0.self_attn.q_proj": 64}},
        {"layers_to_transform": [1]},
        {"target_modules": r"model\.layers\.\d\.self_attn\.q_proj"},
        {"target_modules": ["embed_tokens", "q_proj"]},
        {"target_modules": ["lm_head", "q_proj"]},
        {"modules_to_save": ["lm_head"]},
        {"trainable_token_indices": [5, 6, 7]},
    ],
)
def test_names_in_an_adapter_are_those_of_the_class_it_was_trained_on(adapted, options):
    _, folder, wanted = adapted("AutoModelForCausalLM", **options)
    check(load_encoder(folder, pooler="last").encode(SENTENCES), wanted)


def class_of_its_own(name, library):
    return {"auto_mapping": {"base_model_class": name, "parent_library": library}}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (class_of_its_own("LlamaBiModel", "llm2vec.models"), "was trained on the class LlamaBiM"),
        (class_of_its_own("LlamaModel", "__main__"), "another one needs that to be merged first"),
        (class_of_its_own("MistralModel", "transformers.models"), "class MistralModel, and Llama"),
        ({"layer_replication": [[0, 2], [1, 2]]}, "sets 'layer_replication', which is not read"),
        ({"init_lora_weights": "pissa_niter_4"}, "sets 'init_lora_weights', which is not read"),
        ({"use_later_idea": True}, "sets 'use_later_idea', which is not read; merge it into"),
    ],
)
def test_an_adapter_of_another_model_or_of_more_than_weights_is_refused(adapted, changes, told):
    _, folder, _ = adapted()
    change(folder / "adapter_config.json", **changes)
    refused(lambda: load_encoder(folder, pooler="last"), told)


def test_the_base_of_an_adapter_is_part_of_its_identity_and_has_to_fit(adapted, tmp_path):
    base, folder, _ = adapted()
    copied = shutil.copytree(base, tmp_path / "base")
    change(folder / "adapter_config.json", base_model_name_or_path=str(copied))
    before = backbone_fingerprint(str(folder))
    change(copied / "config.json", rms_norm_eps=1e-3)
    assert backbone_fingerprint(str(folder)) != before
    change(folder / "adapter_config.json", target_modules=["q_proj"])
    refused(lambda: load_encoder(folder, pooler="last"), "v_proj.lora_A.weight, which is not read")
    change(folder / "adapter_config.json", base_model_name_or_path=str(tmp_path / "nowhere"))
    refused(lambda: load_encoder(folder, pooler="last"), "nowhere does not exist")
    change(folder / "adapter_config.json", peft_type="XLORA")
    refused(lambda: load_encoder(folder, pooler="last"), "type XLORA, and only LORA is read")
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    refused(lambda: load_encoder(folder, pooler="last"), "adapter_model.bin", "pickled")
